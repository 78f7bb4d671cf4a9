"""The critical path: the chain of waits that a run took as long as it did because of.

The path is found from the end of the run backwards. An operation started when the last thing that it waited for was
over: another operation, or the call that queued it. A call returned when the host had done it, or when the operation
ended that it waited for. Tasks and threads share one host clock, so before a call the host was busy with the call
before it, of whichever task; ranks that have hosts of their own do not share one. Ranks of a collective wait for the
one that comes last, and the path goes on there. The parts of the path follow one another without a gap, so they add up
to the makespan.
"""

from bisect import bisect_right
from collections.abc import Callable
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from acl_py.causes.host import busy_times, call_around, hosts_of, sleep_before
from acl_py.causes.partners import Partners
from acl_py.trace.rows.columns import call_columns, op_columns, step_columns
from acl_py.trace.rows.timeline import Sleep, Timeline
from device_model.completions import Why


class Cause(StrEnum):
    """What a part of the critical path was spent on. From HOST on, these are the reasons of `Why`."""

    WORK = "work"  # an operation ran
    CALL = "call"  # the host was busy in a call
    PROGRAM = "program"  # the host was between two calls
    ASLEEP = "asleep"  # a call waited for something that is no operation: a timer, a callback
    HOST = "host"  # an operation was on its way from the host to its engine
    ORDER = "order"
    EVENT = "event"
    LEGACY = "legacy"
    ENGINE = "engine"
    GAP = "gap"
    CORES = "cores"
    QUEUE = "queue"
    STAGING = "staging"
    FAULT = "fault"


_CAUSES = [Cause[why.name] for why in sorted(Why)]


class Part(NamedTuple):
    """A part of the critical path, from *begin_ns* to *end_ns*.

    *op* is the index of the operation that ran or had to wait, *by* that of the operation that it waited for, and
    *call* the index of the call that the host was in. Each is None if there is none.
    """

    begin_ns: int
    end_ns: int
    cause: Cause
    op: int | None = None
    by: int | None = None
    call: int | None = None

    @property
    def ns(self) -> int:
        """How long it is."""
        return self.end_ns - self.begin_ns


def makespan_ns(timeline: Timeline) -> int:
    """Return when the host and all operations that ended were done, from the begin of the simulation."""
    return max(timeline.end_ns, int(op_columns(timeline.ops).end_ns.max(initial=0)))


def critical_path(timeline: Timeline) -> list[Part]:
    """Return the parts of the critical path in the order of time. They add up to `makespan_ns`."""
    return _Walk(timeline).parts()


class _Walk:
    """A walk backwards in time, from one cause to the next.

    It ends because each step goes back, even if no time passes in between. It goes to an operation that ended before,
    or to a busy time of the host before the last one visited.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.ops, self.calls = op_columns(timeline.ops), call_columns(timeline.calls)
        columns = self.ops.queued_ns, self.ops.start_ns, self.ops.end_ns, self.ops.after
        self.queued, self.start, self.end, self.after = (column.tolist() for column in columns)
        self.sleeps = self.calls.sleeps
        self.busy, self.ends, self.busy_calls, self.woke = (column.tolist() for column in busy_times(self.calls))
        of_ops, of_calls = hosts_of(timeline, self.ops, self.calls)
        self.host_of_op, self.host_of_call = of_ops.tolist(), of_calls.tolist()
        self.host: int | None = None  # whose time the walk is in; None: of the host that was busy last
        # The busy times of each host, and how many of them have not been visited.
        self.places: dict[int, list[int]] = {}
        for place, call in enumerate(self.busy_calls):
            self.places.setdefault(self.host_of_call[call], []).append(place)
        self.left = {host: len(places) for host, places in self.places.items()}
        self.waits = _waits_by_stream(timeline)
        self.found: list[Part] = []

    @cached_property
    def nodes(self) -> dict[int, list[int]]:
        """The operations of each launch of a graph."""
        nodes: dict[int, list[int]] = {}
        for index in np.flatnonzero(self.ops.launch >= 0).tolist():
            nodes.setdefault(int(self.ops.launch[index]), []).append(index)
        return nodes

    @cached_property
    def around(self) -> Callable[[str, int], int | None]:
        return call_around(self.timeline)

    @cached_property
    def last_ranks(self) -> dict[int, int]:
        """For each part of a collective the part of the rank that came last, for which the others have waited."""
        return Partners(self.timeline, self.ops).last

    def parts(self) -> list[Part]:
        at = max([self.timeline.end_ns, *self.end])
        op = self.end.index(at) if at > self.timeline.end_ns else None
        seen: set[int] = set()  # a file may have rows that wait for one another
        while at > 0:
            op = op if op is None else self.last_ranks.get(op, op)
            if op is None or op in seen:
                op, at = self._host(at)
            else:
                seen.add(op)
                op, at = self._operation(op, at)
        self.found.reverse()
        return self.found

    def _add(self, begin: int, end: int, cause: Cause, op: int | None = None, by: int | None = None,
             call: int | None = None) -> int:  # fmt: skip
        begin = max(begin, 0)
        later = self.found[-1] if self.found else None
        if later is not None and later.cause is cause and (later.op, later.by, later.call) == (op, by, call):
            self.found[-1] = Part(begin, later.end_ns, cause, op, by, call)
        elif begin < end:
            self.found.append(Part(begin, end, cause, op, by, call))
        return min(begin, end)

    def _operation(self, index: int, at: int) -> tuple[int | None, int]:
        """Go from *at*, in an operation, to what it had waited for."""
        at = self._add(self.start[index], at, Cause.WORK, index)
        why = _CAUSES[self.ops.why[index]]
        after, queued = self.after[index], self.queued[index]
        if after < 0:
            after, queued = self._signalled(index)
        if after < 0:
            after = self._decided(index)
            why = why if after < 0 else Cause.ORDER
        if after >= 0:
            return after, self._add(self.end[after], at, why, index, after)
        return self._inside(index, self._add(queued, at, why, index))

    def _signalled(self, index: int) -> tuple[int, int]:
        """Return what gave the signal that an operation waited for: an operation, or -1 for the host at a time."""
        op_queued, start = self.queued[index], self.start[index]
        queued, waits = self.waits.get(self.ops.kinds[self.ops.kind[index]].in_stream, ((), ()))
        for place in range(bisect_right(queued, op_queued) - 1, -1, -1):
            wait = self.timeline.steps[waits[place]]
            if 0 <= wait.end_ns <= op_queued:  # the steps of a stream end in their order
                break
            if wait.end_ns > start:
                continue
            if wait.after is not None or wait.record is None:
                return _place(wait.after), op_queued
            record = self.timeline.steps[wait.record]
            return _place(record.after), max(op_queued, record.queued_ns)
        return -1, op_queued

    def _decided(self, index: int) -> int:
        """Return the last operation of the same launch before the IF node in whose body an operation is, or -1.

        A body is queued when its turn comes, and not in the call that launches the graph.
        """
        launch, queued = int(self.ops.launch[index]), self.queued[index]
        if launch < 0 or queued == self.timeline.launches[launch].queued_ns:
            return -1
        nodes = [node for node in self.nodes[launch] if self.end[node] <= queued]
        return max(nodes, key=self.end.__getitem__, default=-1)

    def _inside(self, index: int, at: int) -> tuple[int | None, int]:
        """Go from the instant at which an operation was queued to what the host did before."""
        ops = self.ops
        self.host = self.host_of_op[index]
        number = None if ops.called_ns[index] >= 0 else self.around(ops.callers[ops.caller[index]], at)
        if number is None:
            return None, at
        first, stop = np.searchsorted(self.sleeps.call, (number, number + 1)).tolist()
        sleep = sleep_before([*map(self._sleep, range(first, stop))], at)
        if sleep is None:
            return None, self._add(int(self.calls.enter_ns[number]), at, Cause.CALL, call=number)
        return self._wake(number, sleep, self._add(min(sleep.end_ns, at), at, Cause.CALL, call=number))

    def _wake(self, number: int, sleep: Sleep, at: int) -> tuple[int | None, int]:
        """Go from *at*, the end of a sleep or a time in it, to what the caller had waited for.

        A caller whose pageable memory is copied in parts copied from the end of its last wait on.
        """
        self.host = self.host_of_call[number]
        if sleep.waits is not None:
            wait = next((wait for wait in reversed(sleep.waits) if wait.end_ns <= at), None)
            if wait is None:
                return None, self._add(sleep.begin_ns, at, Cause.CALL, call=number)
            sleep, at = wait, self._add(wait.end_ns, at, Cause.CALL, call=number)
        if sleep.after is None:
            return None, self._add(sleep.begin_ns, at, Cause.ASLEEP, call=number)
        return sleep.after, self._add(self.end[sleep.after], at, Cause.CALL, call=number)

    def _host(self, at: int) -> tuple[int | None, int]:
        """Go from a time of the host to what it did, or waited for, before."""
        place, earlier = self._last_busy(at)
        if place < 0:
            return None, self._add(0, at, Cause.PROGRAM)
        begin, call, woke = self.busy[place], self.busy_calls[place], self.woke[place]
        at = self._add(self.ends[place], at, Cause.PROGRAM)
        if earlier > begin:  # another task or thread had the host when this one woke
            return None, self._add(min(earlier, at), at, Cause.CALL, call=call)
        at = self._add(begin, at, Cause.CALL, call=call)
        return (None, at) if woke < 0 else self._wake(call, self._sleep(woke), at)

    def _last_busy(self, at: int) -> tuple[int, int]:
        """Return the last busy time of the host up to *at* that was not visited, and the end of that before it.

        Before its first call a host waited for the one that began it, and that is the one that was busy last.
        """
        own = [] if self.host is None else [self._busy_before(self.host, at)]
        found = max(own, default=(-1, 0, 0))
        if found[0] < 0:
            found = max((self._busy_before(host, at) for host in self.places), default=found)
        place, left, host = found
        if place < 0:
            return place, 0
        self.host, self.left[host] = host, left - 1
        return place, self.ends[self.places[host][left - 2]] if left > 1 else 0

    def _busy_before(self, host: int, at: int) -> tuple[int, int, int]:
        """Return the last busy time of *host* up to *at* that was not visited, how many there are, and the host."""
        places = self.places.get(host, [])
        left = bisect_right(places, at, hi=self.left.get(host, 0), key=self.ends.__getitem__)
        return places[left - 1] if left else -1, left, host

    def _sleep(self, place: int) -> Sleep:
        """Return the sleep at a *place* in the columns."""
        sleeps = self.sleeps
        if sleeps.has_waits[place]:
            call = int(sleeps.call[place])
            return self.timeline.calls[call].sleeps[place - int(np.searchsorted(sleeps.call, call))]
        after = int(sleeps.after[place])
        return Sleep(int(sleeps.begin_ns[place]), int(sleeps.end_ns[place]), None if after < 0 else after)


def _place(after: int | None) -> int:
    """Return a place as columns have it: -1 for None."""
    return -1 if after is None else after


def _waits_by_stream(timeline: Timeline) -> dict[int, tuple[list[int], list[int]]]:
    """Return when the waits of each stream were queued, in their order, and their indices in `steps`."""
    steps = step_columns(timeline.steps)
    waits: dict[int, tuple[list[int], list[int]]] = {}
    for index, (kind, queued_ns) in enumerate(zip(steps.kind.tolist(), steps.queued_ns.tolist(), strict=True)):
        if steps.kinds[kind].kind.endswith("wait"):
            times, indices = waits.setdefault(steps.kinds[kind].in_stream, ([], []))
            times.append(queued_ns)
            indices.append(index)
    return waits
