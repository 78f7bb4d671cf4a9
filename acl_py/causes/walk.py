"""The rows of a recording in the order in which its hosts made them: what the relation takes up, one after the other.

All relations of one recording share them: that of the program as it is, and those of programs without some waits.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from acl_py.calls import acts
from acl_py.calls.acts import Act
from acl_py.causes.between import between_calls
from acl_py.causes.captured import Captured
from acl_py.order.relate import orders
from acl_py.trace.rows.columns import CallKind, Ints, call_columns, op_columns
from acl_py.trace.rows.timeline import Copied, Memory, Thing, Timeline
from acl_py.verbs.events import EventElapsedTime, GetEventTimestamp

WAKING, GRANTED, OP, CALL, BETWEEN, ENTRY = range(6)  # rows of one instant come in this order
_TIMES = (EventElapsedTime.__name__, GetEventTimestamp.__name__)

Row = tuple[
    int, int, int, int
]  # its time, its kind (above), its index among those, and the operation that woke its caller


class Rows:
    """The rows of the run in *timeline*. The parameters are those of `Relation`; *pageable_waits* says whether the host
    waits for copies of pageable memory.
    """

    def __init__(self, timeline: Timeline, *, apart: bool, moments: bool, pageable_waits: bool) -> None:
        self.ops, self.calls = op_columns(timeline.ops), call_columns(timeline.calls)
        self.captured = Captured(timeline)
        self.between = between_calls(timeline, accesses=moments)
        self.kind_of: list[int] = self.calls.kind.tolist()
        self.caller_of: list[int] = self.calls.caller.tolist()
        self.callers = {
            (each.name, each.by): place for place, host in enumerate(timeline.hosts) for each in host.callers
        }
        self.woken: defaultdict[int, list[int]] = defaultdict(list)  # by call: what each sleep ended with, or -1
        sleeps = self.calls.sleeps
        for call, after in zip(sleeps.call.tolist(), sleeps.after.tolist(), strict=True):
            self.woken[call].append(after)
        self.rows = self._in_order(timeline, apart=apart, moments=moments, pageable_waits=pageable_waits)

    def _in_order(self, timeline: Timeline, *, apart: bool, moments: bool, pageable_waits: bool) -> list[Row]:
        """Return the rows, without those of calls that can order nothing."""
        ops, calls, sleeps = self.ops, self.calls, self.calls.sleeps
        pageable = np.array([is_pageable(kind.act, timeline.buffers) for kind in calls.kinds], bool)
        queued = np.array([isinstance(kind.act, acts.Queued) for kind in calls.kinds], bool)
        shown = np.array([_shows(kind.act) for kind in calls.kinds], bool)
        ordering = np.array([orders(kind.act) for kind in calls.kinds], bool) & ~shown
        # Operations have rows. A pageable copy would be in its stream, were it pinned.
        ordering &= ~queued | (pageable & apart)
        waiting = shown | (pageable & pageable_waits)
        woke = np.flatnonzero(waiting[calls.kind[sleeps.call]] & (sleeps.after >= 0))
        runs = np.ones(len(calls), bool)
        runs[[*self.captured.calls]] = False
        made = np.flatnonzero(ordering[calls.kind] & runs)
        synchronises = np.array(
            [isinstance(kind.act, acts.Synchronised | acts.Destroyed) for kind in calls.kinds], bool
        )
        synchronises &= ~shown
        ends = np.array([moments and (_ends(kind.act) or tells(kind)) for kind in calls.kinds], bool)
        entered = np.flatnonzero((synchronises | ends | (pageable & pageable_waits))[calls.kind] & runs)
        queued_ns, nodes = ops.queued_ns.copy(), np.flatnonzero(ops.launch >= 0)
        if len(nodes):  # also those in bodies of IF nodes, which were queued later
            queued_ns[nodes] = np.array([each.queued_ns for each in timeline.launches])[ops.launch[nodes]]
        granted, seen = (
            [place for place, deed in enumerate(self.between) if deed.seen is each] for each in (False, True)
        )
        did_ns = np.array([deed.at_ns for deed in self.between], np.int64)
        rows: tuple[tuple[int, Ints, Any], ...] = (
            (WAKING, sleeps.end_ns[woke], sleeps.call[woke]),
            (GRANTED, did_ns[granted], granted),
            (OP, queued_ns, np.arange(len(ops))),
            (CALL, calls.exit_ns[made], made),
            (BETWEEN, did_ns[seen], seen),
            (ENTRY, calls.enter_ns[entered], entered),
        )
        at_ns = np.concatenate([each for _, each, _ in rows])
        index = np.concatenate([np.asarray(each, np.int64) for _, _, each in rows])
        row = np.repeat([each for each, _, _ in rows], [len(each) for _, each, _ in rows])
        after = np.append(sleeps.after[woke], np.full(len(index) - len(woke), -1))
        order = np.lexsort((after, index, row, at_ns))
        columns = at_ns[order], row[order], index[order], after[order]
        return [*zip(*(column.tolist() for column in columns), strict=True)]


def is_pageable(act: Act[Thing], buffers: Sequence[Memory]) -> bool:
    """Whether *act* queues a copy of pageable memory."""
    match act:
        case acts.Queued(Copied() as copy):
            return any(end < 0 or buffers[end].space == "pageable" for end in (copy.dst, copy.src))
    return False


def _ends(act: Act[Any]) -> bool:
    """Whether the call of *act* ends a life, or changes what is in use, at once."""
    return isinstance(act, acts.Destroyed | acts.GraphUpdated) or (isinstance(act, acts.Ended) and act.stream is None)


def tells(kind: CallKind) -> bool:
    """Whether a call of this *kind* tells its host of a time, or whether work is done."""
    return kind.name in _TIMES or (isinstance(kind.act, acts.Asked) and kind.act.answer is not None)


def _shows(act: Act[Any]) -> bool:
    """Whether what the call of *act* waited for shows when its caller wakes."""
    return isinstance(act, acts.Completed) or (isinstance(act, acts.Synchronised) and act.subject is None)
