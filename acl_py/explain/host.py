"""The host's side of a recording: when the one host clock was busy, and in which call.

All tasks and threads of a simulation share one clock. A call that waited is two busy times: until it fell asleep, and
from its wake-up until its return.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from acl_py.trace.rows import Timeline


class Busy(NamedTuple):
    """A time in which the host was busy in the call with this index.

    It began because the operation *after* ended, if there is one. If *asleep_ns* is not None, the call slept from then
    until *begin_ns* and waited for something that is no operation.
    """

    begin_ns: int
    end_ns: int
    call: int
    after: int | None = None
    asleep_ns: int | None = None


def busy_times(timeline: Timeline) -> list[Busy]:
    """Return the busy times of the host in the order of their ends."""
    times: list[Busy] = []
    for index, call in enumerate(timeline.calls):
        if not call.waited_ns:
            times.append(Busy(call.enter_ns, call.exit_ns, index))
            continue
        woken = call.exit_ns if call.after is None else timeline.ops[call.after].end_ns
        woken = min(max(woken, call.enter_ns), call.exit_ns)
        asleep = max(call.enter_ns, woken - call.waited_ns)
        times.append(Busy(call.enter_ns, asleep, index))
        times.append(Busy(woken, call.exit_ns, index, call.after, asleep if call.after is None else None))
    times.sort(key=lambda busy: (busy.end_ns, busy.begin_ns))
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
