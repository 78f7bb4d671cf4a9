"""The host's side of a recording: when the one host clock was busy, and in which call.

All tasks and threads of a simulation share one clock. A call in which the caller slept has a busy time before its first
sleep, and one after each sleep.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from acl_py.trace.rows import Sleep, Timeline


class Busy(NamedTuple):
    """A time in which the host was busy in the call with this index; it began because *sleep* was over, if not None."""

    begin_ns: int
    end_ns: int
    call: int
    sleep: Sleep | None = None


def busy_times(timeline: Timeline) -> list[Busy]:
    """Return the busy times of the host in the order of their ends."""
    times: list[Busy] = []
    for index, call in enumerate(timeline.calls):
        begin, before = call.enter_ns, None
        for sleep in call.sleeps:
            times.append(Busy(begin, sleep.begin_ns, index, before))
            begin, before = sleep.end_ns, sleep
        times.append(Busy(begin, call.exit_ns, index, before))
    times.sort(key=attrgetter("end_ns", "begin_ns"))
    return times


def call_around(timeline: Timeline) -> Callable[[str, int], int | None]:
    """Return a function that gives the index of the call in which a caller was at a time, and did not return then.

    A task or thread makes one call after the other.
    """
    by_caller: dict[str, tuple[list[int], list[int]]] = {}
    for index in sorted(range(len(timeline.calls)), key=lambda index: timeline.calls[index].enter_ns):
        call = timeline.calls[index]
        enters, indices = by_caller.setdefault(call.caller, ([], []))
        enters.append(call.enter_ns)
        indices.append(index)

    def around(caller: str, at_ns: int) -> int | None:
        enters, indices = by_caller.get(caller, ((), ()))
        place = bisect_right(enters, at_ns) - 1
        if place < 0 or timeline.calls[indices[place]].exit_ns <= at_ns:
            return None
        return indices[place]

    return around


def sleep_before(sleeps: Sequence[Sleep], at_ns: int) -> Sleep | None:
    """Return the last of *sleeps* that had begun before *at_ns*, if any."""
    return next((sleep for sleep in reversed(sleeps) if sleep.begin_ns < at_ns), None)
