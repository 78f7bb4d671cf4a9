"""Synchronisations of a recording: what each wait of a stream, and each synchronising call, has waited for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from acl_py.calls.acts import Recorded, leaves
from acl_py.trace.rows.columns import (
    CallColumns,
    Ints,
    OpColumns,
    StepColumns,
    call_columns,
    op_columns,
    step_columns,
)  # fmt: skip
from acl_py.trace.rows.packing import Numbers
from acl_py.trace.rows.reading import StepSpans, asking_calls, step_spans
from acl_py.trace.rows.timeline import Timeline

NAMES = ("StreamWaitEvent", "SynchronizeStream", "SynchronizeEvent", "SynchronizeDevice")
_LIMITED = "WithTimeout"


@dataclass(frozen=True)
class Synchronisations:
    """Waits that are over, from *begin_ns* to *end_ns*. In a stream a wait is an instant. For a stream's own wait, the
    stream came to it at that instant. For a host's wait, the stream was done at that instant.

    *name* is a place in NAMES. *call* asked for the wait, and *record* made the record that it was for; both are
    indices in `Timeline.calls`. *stream* is the place of a pair of a device and a stream in *streams*. A host's wait
    for an event or a device has no stream, and others may have no record: -1.
    """

    streams: Sequence[tuple[int, str]]
    name: Ints
    call: Ints
    device: Ints
    stream: Ints
    begin_ns: Ints
    end_ns: Ints
    record: Ints

    def __len__(self) -> int:
        return len(self.call)


def synchronisations(timeline: Timeline) -> Synchronisations:
    """Return the waits of streams for records, and the synchronising calls that had to wait, in order of their ends.

    A host that waits for the legacy stream may wait for work of another stream: the wait is in the stream whose work
    ended last. It is the instant of that end, which is before the call ends.
    """
    ops, calls, steps = op_columns(timeline.ops), call_columns(timeline.calls), step_columns(timeline.steps)
    streams: Numbers[tuple[int, str]] = Numbers()
    rows = np.concatenate(
        (_of_streams(calls, steps, step_spans(timeline), streams), _of_the_host(ops, calls, streams)), axis=1
    )
    return Synchronisations(list(streams), *rows[:, np.argsort(rows[-2], kind="stable")])


def _of_streams(calls: CallColumns, steps: StepColumns, spans: StepSpans, streams: Numbers[tuple[int, str]]) -> Ints:
    asking = asking_calls(steps, calls)
    kinds = steps.kinds
    is_wait = np.array([kind.kind == "wait" for kind in kinds], bool)[steps.kind]
    is_over = is_wait & (steps.record >= 0) & (steps.end_ns >= 0) & (asking >= 0)
    which = is_over[spans.step]
    step, at = spans.step[which], spans.begin_ns[which]
    device = np.array([kind.device for kind in kinds], np.int64)[steps.kind[step]]
    stream = np.array([streams[kind.device, kind.stream] for kind in kinds], np.int64)[steps.kind[step]]
    return np.array([np.zeros_like(at), asking[step], device, stream, at, at, asking[steps.record[step]]])


def _of_the_host(ops: OpColumns, calls: CallColumns, streams: Numbers[tuple[int, str]]) -> Ints:
    names = [kind.name.removesuffix(_LIMITED) for kind in calls.kinds]
    name = np.array([NAMES.index(name) if name in NAMES[1:] else -1 for name in names], np.int64)[calls.kind]
    last = np.flatnonzero(np.append(calls.sleeps.call[1:] != calls.sleeps.call[:-1], True)[: len(calls.sleeps.call)])
    call, after = calls.sleeps.call[last], calls.sleeps.after[last]  # a call waits for what its last sleep waits for
    which = (name[call] >= 0) & (after >= 0)
    call, after = call[which], after[which]
    is_over = ops.end_ns[after] <= calls.exit_ns[call]  # otherwise the time of the call was over first
    call, after = call[is_over], after[is_over]
    device = np.array([kind.device for kind in ops.kinds], np.int64)[ops.kind[after]]
    stream = np.array([streams[kind.device, kind.stream] for kind in ops.kinds], np.int64)[ops.kind[after]]
    in_stream = name[call] == NAMES.index("SynchronizeStream")
    end = np.where(in_stream, ops.end_ns[after], calls.exit_ns[call])
    begin = np.where(in_stream, end, calls.enter_ns[call])
    record = np.where(name[call] == NAMES.index("SynchronizeEvent"), _last_records(calls, call), -1)
    return np.array([name[call], call, device, np.where(in_stream, stream, -1), begin, end, record])


def _last_records(calls: CallColumns, which: Ints) -> Ints:
    """Return for some calls the index of the last call before each that has recorded the event which it is about."""
    events: Numbers[object] = Numbers()
    of_kinds = np.array([events[next(leaves(kind.act), None)] for kind in calls.kinds], np.int64)
    records = np.flatnonzero(np.array([isinstance(kind.act, Recorded) for kind in calls.kinds], bool)[calls.kind])
    keys = of_kinds[calls.kind[records]] * len(calls) + records
    order = np.argsort(keys)
    own = of_kinds[calls.kind[which]] * len(calls)
    place = np.searchsorted(keys[order], own + which) - 1
    there = np.append(keys[order], -1)[place] >= np.maximum(own, 0)
    return np.where(there, np.append(records[order], -1)[place], -1)
