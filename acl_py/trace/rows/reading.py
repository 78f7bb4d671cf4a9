"""Reading a trace: the order of engines and streams, the rows of the host, and the call that queued an operation.

The recorder has no column for the call of an operation, because it can be found afterwards. A plain verb returns at the
instant at which its operation is queued, and a copy through pageable memory queues its chunks while it lasts. So the
call of an operation is the one that was made at the same line, by a verb that queues such operations, and that was in
progress at that instant.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from acl_py.calls.acts import GraphLaunched, Recorded, Waited
from acl_py.sites import NO_LINE
from acl_py.trace.rows.columns import (
    CallColumns,
    CallKind,
    Ints,
    OpColumns,
    Rows,
    StepColumns,
    blocks,
    call_columns,
    op_columns,
    places,
    step_columns,
)  # fmt: skip
from acl_py.trace.rows.packing import Numbers
from acl_py.trace.rows.timeline import ASKING, Call, Operation, Ref, Timeline
from device_model.collectives.calls import CollectiveKind

if TYPE_CHECKING:
    from acl_py.trace.rows.recorder import Trace

ENGINE_ORDER = ("H2D", "cores", "links", "P2P", "D2H", "host")  # as data passes them

_WAITS = ("wait", "notify_wait", "value_wait")  # steps that last
_NEVER = (1 << 63) - 1
_GROUPS = (
    "group"  # instead of a line: what is called in a group has its own line, and is queued at the end of the group
)
_VERBS: dict[str, str | tuple[str, ...]] = {
    "collective": ("GroupEnd", "BatchSendRecv", *(kind.value for kind in CollectiveKind)),
    "fill": "Memset",
    "kernel": "LaunchKernel",
    "host_function": "LaunchHostFunc",
    "prefetch_h2d": "MemPrefetchAsync",
    "prefetch_d2h": "MemPrefetchAsync",
    "graph": "GraphLaunch",  # a launch on a card
}  # by kind; all others are Memcpy


def as_timeline(trace: "Trace | Timeline") -> Timeline:
    """Return the rows of *trace*, which may be live or have been saved. Their columns are made once."""
    timeline = trace if isinstance(trace, Timeline) else trace.timeline()
    ops, calls, steps = timeline.ops, timeline.calls, timeline.steps
    return replace(
        timeline,
        ops=Rows(lambda: op_columns(ops), lambda _: ops),
        calls=Rows(lambda: call_columns(calls), lambda _: calls),
        steps=Rows(lambda: step_columns(steps), lambda _: steps),
    )


def stream_ids(*queued: OpColumns | StepColumns) -> dict[str, int]:
    """Return a number for each stream of *queued*, for formats in which streams have no names.

    "stream 3" has number 3. Default streams and streams with names get the numbers that follow, from 7 on: analysers
    take 0 for no stream, and 7 is the default stream in CUDA's traces.
    """
    order = stream_order(*queued)
    numbers = {stream: _kind_of_stream(stream)[1] for stream in order}
    following = count(max(7, 1 + max(numbers.values(), default=0)))
    return {stream: numbers[stream] or next(following) for stream in order}


def stream_order(*queued: OpColumns | StepColumns) -> dict[str, int]:
    """Return the places of the streams of *queued*: default streams, then those with numbers, then those with names.

    Streams with names are in the order in which they first got work.
    """
    first: dict[str, int] = {}
    for columns in queued:
        earliest = np.full(len(columns.kinds), _NEVER)
        for block in blocks(len(columns)):
            np.minimum.at(earliest, columns.kind[block], columns.queued_ns[block])
        streams_of = [kind.stream for kind in columns.kinds]
        for stream, queued_ns in zip(streams_of, earliest.tolist(), strict=True):
            first[stream] = min(queued_ns, first.get(stream, _NEVER))
    streams = sorted(sorted(first, key=first.__getitem__), key=_kind_of_stream)
    return {stream: place for place, stream in enumerate(streams)}


def _kind_of_stream(stream: str) -> tuple[int, int, str]:
    own = stream.removeprefix("stream ")
    if own == stream:
        return 0, 0, stream
    return (1, int(own), "") if own.isdecimal() else (2, 0, "")


@dataclass(slots=True)
class HostRow:
    """A row of the host: the tasks and threads that share it, in the order of their first calls."""

    callers: list[str]

    @property
    def label(self) -> str:
        """The first of the callers, and how many more there are."""
        first, *others = self.callers
        return f"{first} and {len(others):,} more" if others else first


def host_rows(calls: CallColumns) -> list[HostRow]:
    """Return the rows of the host, in the order of their first calls: one for each task or thread.

    Those without a name share a row if the last call of one is over before the first call of the next begins. So a
    program that makes a task for each request has as many rows as it had requests at a time.
    """
    count = len(calls.callers)
    first, index, last = np.full(count, _NEVER), np.full(count, len(calls)), np.zeros(count, np.int64)
    for block in blocks(len(calls)):
        caller, enter = calls.caller[block], calls.enter_ns[block]
        before = first.copy()
        np.minimum.at(first, caller, enter)
        index[first < before] = len(calls)
        is_first = (enter == first[caller]) & (index[caller] == len(calls))
        np.minimum.at(index, caller[is_first], block.start + np.flatnonzero(is_first))
        np.maximum.at(last, caller, calls.exit_ns[block])
    firsts: dict[str, tuple[int, int]] = {}  # when its first call begins, and the place of that call
    lasts: dict[str, int] = {}
    times = zip(calls.callers, first.tolist(), index.tolist(), last.tolist(), strict=True)
    for name, begin, place, end in times:
        if begin < _NEVER:
            firsts[name] = min((begin, place), firsts.get(name, (_NEVER, 0)))
            lasts[name] = max(end, lasts.get(name, 0))
    return share_rows(firsts, lasts)


def share_rows(first: Mapping[str, tuple[int, int]], last: Mapping[str, int]) -> list[HostRow]:
    """Return the rows of `host_rows` from when each caller's *first* call begins, with a number that orders calls of
    the same time, and when its *last* one ends.
    """
    rows: list[HostRow] = []
    shared: list[tuple[int, int]] = []  # a heap: when the last call of a row without a name is over, and the row
    for caller in sorted(first, key=first.__getitem__):
        is_named = not caller.split()[-1].isdecimal()
        if not is_named and shared and shared[0][0] <= first[caller][0]:
            _, number = heappop(shared)
            rows[number].callers.append(caller)
        else:
            number = len(rows)
            rows.append(HostRow([caller]))
        if not is_named:
            heappush(shared, (last[caller], number))
    return rows


def site_of_call(call: Call) -> str:
    """Return the line of *call* in the form of `Operation.site`: "file.py:12"."""
    return short_site(call.file, call.line)


@lru_cache(maxsize=4096)
def short_site(file: str, line: int) -> str:
    """Return a line of a file in the form of `Operation.site`; *file* itself where it says that there is none."""
    return file if file == NO_LINE else f"{Path(file).name}:{line}"


def queuing_calls(ops: Sequence[Operation], calls: Sequence[Call]) -> list[int | None]:
    """Return for each of *ops* the index in *calls* of the call that queued it. Calls are in order of their exits."""
    return [index if index >= 0 else None for index in queuing(op_columns(ops), call_columns(calls)).tolist()]


def queuing(ops: OpColumns, calls: CallColumns) -> Ints:
    """Return the same as an array, with -1 for None."""
    found = np.full(len(ops), -1, np.int32)
    if not len(calls):
        return found
    # What calls of one line, or operations of one line, have in common.
    lines_of_ops, op_lines = places(((kind.kind, kind.site) for kind in ops.kinds), len(ops.kinds))
    lines_of_calls, call_lines = places(((kind.name, short_site(*kind[1:3])) for kind in calls.kinds), len(calls.kinds))
    fits: dict[int, bool] = {}  # by both
    exits = np.ascontiguousarray(calls.exit_ns)
    by_site: dict[str, list[int]] = {}
    for block in blocks(len(ops)):
        queued = ops.queued_ns[block]
        # A plain verb returns when it has queued its operation, so the first call that had not returned then is mostly
        # the right one.
        first = np.searchsorted(exits, queued)
        likely = np.minimum(first, len(calls) - 1)
        pairs = lines_of_ops[ops.kind[block]] * len(call_lines) + lines_of_calls[calls.kind[likely]]
        different, pair = np.unique(pairs, return_inverse=True)
        for each in different.tolist():
            if each not in fits:
                (kind, site), (name, line) = op_lines[each // len(call_lines)], call_lines[each % len(call_lines)]
                fits[each] = _queues(name, kind) and line == site
        is_right = np.array([fits[each] for each in different.tolist()])[pair]
        is_right &= (calls.enter_ns[likely] <= queued) & (first < len(calls))
        found[block] = likely
        for index in np.flatnonzero(~is_right).tolist():
            if not by_site:
                for place, number in enumerate(calls.kind.tolist()):
                    name, line = call_lines[lines_of_calls[number]]
                    by_site.setdefault(_GROUPS if name == "GroupEnd" else line, []).append(place)
            found[block.start + index] = _later(ops, block.start + index, int(first[index]), by_site, calls)
    nodes = np.flatnonzero(ops.launch >= 0)
    if len(nodes):
        found[nodes] = launching(ops, calls)[ops.launch[nodes]]
    return found


def launching(ops: OpColumns, calls: CallColumns) -> Ints:
    """Return for each launch that has operations the index of the call of GraphLaunch() that queued it, or -1.

    The operations of a launch are queued in its call, except those in bodies of IF nodes, which are queued later.
    """
    nodes = np.flatnonzero(ops.launch >= 0)
    count = int(ops.launch[nodes].max(initial=-1)) + 1
    queued, caller, call_of = np.full(count, _NEVER), np.zeros(count, np.int64), np.full(count, -1, np.int32)
    np.minimum.at(queued, ops.launch[nodes], ops.queued_ns[nodes])
    caller[ops.launch[nodes]] = ops.caller[nodes]
    is_launch = np.array([isinstance(kind.act, GraphLaunched) for kind in calls.kinds], bool)[calls.kind]
    for name in set(ops.callers):
        own = np.flatnonzero(is_launch & np.array([each == name for each in calls.callers], bool)[calls.caller])
        launches = np.flatnonzero(np.array([each == name for each in ops.callers], bool)[caller] & (queued < _NEVER))
        if len(own) and len(launches):
            # The first call that had not returned when the launch was queued.
            first = own[np.minimum(np.searchsorted(calls.exit_ns[own], queued[launches]), len(own) - 1)]
            call_of[launches] = np.where(calls.enter_ns[first] <= queued[launches], first, -1)
    return call_of


def _later(ops: OpColumns, index: int, first: int, by_site: Mapping[str, list[int]], calls: CallColumns) -> int:
    """Return the first call from *first* on that may have queued the operation with this *index*, or -1."""
    kind, queued_ns = ops.kinds[ops.kind[index]], ops.queued_ns[index]
    candidates = by_site.get(kind.site, [])
    if kind.kind == "collective":
        candidates = sorted([*candidates, *by_site.get(_GROUPS, [])])
    later = (candidates[place] for place in range(bisect_left(candidates, first), len(candidates)))
    return next((call for call in later if calls.enter_ns[call] <= queued_ns
                 and _queues(calls.kinds[calls.kind[call]].name, kind.kind)), -1)  # fmt: skip


def _queues(name: str, kind: str) -> bool:
    """Whether the verb *name* queues operations of a *kind*."""
    return name.startswith(_VERBS.get(kind, "Memcpy"))


class StepSpans(NamedTuple):
    """When each *step*, an index, had its turn in its stream, and the index of the first operation *behind* it, or -1.
    A wait lasts from its turn to its end; all others are instants. Steps are in the order of their ends.
    """

    end_ns: Ints
    begin_ns: Ints
    step: Ints
    behind: Ints


def step_spans(timeline: Timeline) -> StepSpans:
    """Return the spans of all steps.

    What a stream waited for without end lasts to the end of the recording.
    """
    ops, steps = op_columns(timeline.ops), step_columns(timeline.steps)
    queued_ns, end_ns = ops.queued_ns, ops.end_ns
    stream_of = np.array([kind.in_stream for kind in ops.kinds], np.int32)[ops.kind]
    step_stream = np.array([kind.in_stream for kind in steps.kinds], np.int32)[steps.kind]
    step_queued = steps.queued_ns
    turn, over = np.zeros(len(steps), np.int64), np.where(steps.end_ns < 0, timeline.end_ns, steps.end_ns)
    behind = np.zeros(len(steps), np.int32)
    for stream in np.unique(step_stream):
        own = np.flatnonzero(stream_of == stream)
        own = own[np.argsort(queued_ns[own], kind="stable")]
        mine = np.flatnonzero(step_stream == stream)
        ahead = np.searchsorted(queued_ns[own], step_queued[mine], side="right")  # so many operations of the stream
        ready = np.maximum(step_queued[mine], np.maximum.accumulate(np.append(0, end_ns[own]))[ahead])
        over[mine] = np.maximum.accumulate(np.maximum(ready, over[mine]))
        turn[mine] = np.maximum(ready, np.append(0, over[mine])[:-1])
        behind[mine] = np.append(own, -1)[ahead]
    is_wait = np.array([kind.kind in _WAITS for kind in steps.kinds], bool)[steps.kind]
    turn[~is_wait] = over[~is_wait]
    order = np.lexsort((turn, over)).astype(np.int32)
    return StepSpans(over[order], turn[order], order, behind[order])


def asking_calls(steps: StepColumns, calls: CallColumns) -> Ints:
    """Return for each of *steps* the index in *calls* of the call that queued it; -1 if it is neither a record of an
    event nor a wait for one.

    A call and its step have the same caller, the same stream and the same end. Of several the first belong together.
    """
    callers: Numbers[str] = Numbers()
    asked: Numbers[tuple[str, object]] = Numbers()
    of_steps = [asked[ASKING[kind.kind], Ref(kind.in_stream)] if kind.kind in ASKING else -1 for kind in steps.kinds]
    of_calls = [_asked(kind, asked) for kind in calls.kinds]
    by = [np.array([callers[each] for each in columns.callers], np.int64) for columns in (steps, calls)]
    which_steps, step_keys = _keys(np.array(of_steps, np.int64)[steps.kind], by[0], steps.caller, len(asked))
    which_calls, call_keys = _keys(np.array(of_calls, np.int64)[calls.kind], by[1], calls.caller, len(asked))
    times = np.concatenate((steps.queued_ns[which_steps], calls.exit_ns[which_calls]))
    ends, time = np.unique(times, return_inverse=True)
    step_keys = step_keys * len(ends) + time[: len(step_keys)]
    call_keys = call_keys * len(ends) + time[len(step_keys) :]
    order, call_order = np.argsort(step_keys, kind="stable"), np.argsort(call_keys, kind="stable")
    step_keys, call_keys = step_keys[order], call_keys[call_order]
    # The place among calls with this key is the place among steps with this key.
    place = np.searchsorted(call_keys, step_keys) + np.arange(len(order)) - np.searchsorted(step_keys, step_keys)
    is_there = np.append(call_keys, -1)[np.minimum(place, len(call_keys))] == step_keys
    asking = np.full(len(steps), -1, np.int32)
    asking[which_steps[order[is_there]]] = which_calls[call_order[place[is_there]]]
    return asking


def _asked(kind: CallKind, asked: Numbers[tuple[str, object]]) -> int:
    """Return the number of what a call of *kind* has queued as a step; -1 if it has queued none."""
    match kind.act:
        case Recorded(_, stream, None) | Waited(_, stream, None):
            return asked[kind.name, stream]
    return -1


def _keys(asked: Ints, callers: Ints, caller: Ints, count: int) -> tuple[Ints, Ints]:
    """Return the rows that have *asked* for one of *count* things, and a key for each: this thing, and the caller."""
    which = np.flatnonzero(asked >= 0)
    return which, asked[which] + count * callers[caller[which]]


def correlations(ops: OpColumns, calls: CallColumns) -> tuple[Ints, Ints]:
    """Return a number for each operation and for each call, the same for a call and what it queued.

    It is one more than the index of the first operation that the call queued; 0 for an operation without a call, and
    for a call that queued nothing.
    """
    queued_by = queuing(ops, calls)
    known = np.flatnonzero(queued_by >= 0)
    queued_by, of_calls, of_ops = queued_by[known], np.zeros(len(calls), np.int32), np.zeros(len(ops), np.int32)
    of_calls[queued_by[::-1]] = known[::-1] + 1  # of several the first
    of_ops[known] = of_calls[queued_by]
    return of_ops, of_calls
