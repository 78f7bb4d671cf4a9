"""The host's side of a recording: when a host was busy, and in which call.

All tasks and threads of a simulation share one host, unless ranks have hosts of their own: then those of a rank do.
A call in which the caller slept has a busy time before its first sleep, and one after each sleep.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from acl_py.callers import host_of
from acl_py.trace.rows.columns import CallColumns, Ints, OpColumns
from acl_py.trace.rows.timeline import OWN_HOSTS, Sleep, Timeline


class BusyTimes(NamedTuple):
    """The times in which the host was busy in a *call*, an index, in the order of their ends.

    A time began because *sleep* was over, a place in the columns of the sleeps; -1 if it began with the call.
    """

    begin_ns: Ints
    end_ns: Ints
    call: Ints
    sleep: Ints


def busy_times(calls: CallColumns) -> BusyTimes:
    """Return the busy times of the host.

    Of those that end together, one that began with the end of a sleep comes behind a call: it has waited for the host,
    which was in that call, and takes no time itself. What takes no time at all comes last.
    """
    sleeps, every = calls.sleeps, np.arange(len(calls))
    # Call by call: a call begins with its entry or with the end of a sleep, and ends with a sleep or with its exit.
    begins = np.argsort(np.append(every, sleeps.call), kind="stable")
    ends = np.argsort(np.append(sleeps.call, every), kind="stable")
    begin_ns = np.append(calls.enter_ns, sleeps.end_ns)[begins]
    end_ns = np.append(sleeps.begin_ns, calls.exit_ns)[ends]
    order = np.lexsort((begin_ns, begins >= len(calls), begin_ns == end_ns, end_ns))
    begins = begins[order]
    sleep = np.maximum(begins - len(calls), -1)
    return BusyTimes(begin_ns[order], end_ns[order], np.append(every, sleeps.call)[begins], sleep)


def hosts_of(timeline: Timeline, ops: OpColumns, calls: CallColumns) -> tuple[Ints, Ints]:
    """Return the number of the host that queued each operation, and of the host that made each call."""
    if timeline.host_time != OWN_HOSTS:
        return np.zeros(len(ops), np.int64), np.zeros(len(calls), np.int64)
    numbers: dict[str, int] = {}
    of_callers = [
        np.array([numbers.setdefault(host_of(name), len(numbers)) for name in each.callers], np.int64)
        for each in (ops, calls)
    ]
    return of_callers[0][ops.caller], of_callers[1][calls.caller]


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
