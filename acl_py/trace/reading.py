"""Reading a trace: the order of engines and streams, the rows of the host, and the call that queued an operation.

The recorder has no column for the call of an operation, because it can be found afterwards. A plain verb returns at the
instant at which its operation is queued, and a copy through pageable memory queues its chunks while it lasts. So the
call of an operation is the one that was made at the same line, by a verb that queues such operations, and that was in
progress at that instant.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from acl_py.trace.rows import ASKING, About, Call, Operation, Ref, StreamStep, Timeline

if TYPE_CHECKING:
    from acl_py.trace.recorder import Trace

ENGINE_ORDER = ("H2D", "cores", "P2P", "D2H", "host")  # as data passes them

_WAITS = ("wait", "notify_wait", "value_wait")  # steps that last
_Asked = tuple[str, str, int, tuple[About, ...]]  # name, caller and exit of a call, and its stream
_NEVER = 1 << 63
_VERBS = {
    "fill": "Memset",
    "kernel": "LaunchKernel",
    "host_function": "LaunchHostFunc",
}  # by kind; all others are Memcpy


def as_timeline(trace: "Trace | Timeline") -> Timeline:
    """Return the rows of *trace*, which may be live or have been saved."""
    return trace if isinstance(trace, Timeline) else trace.timeline()


def stream_ids(ops: Iterable[Operation | StreamStep]) -> dict[str, int]:
    """Return a number for each stream of *ops*, for formats in which streams have no names.

    "stream 3" has number 3. Default streams and streams with names get the numbers that follow, from 7 on: analysers
    take 0 for no stream, and 7 is the default stream in CUDA's traces.
    """
    order = stream_order(ops)
    numbers = {stream: _kind_of_stream(stream)[1] for stream in order}
    following = count(max(7, 1 + max(numbers.values(), default=0)))
    return {stream: numbers[stream] or next(following) for stream in order}


def stream_order(ops: Iterable[Operation | StreamStep]) -> dict[str, int]:
    """Return the places of the streams of *ops*: default streams, then those with numbers, then those with names.

    Streams with names are in the order in which they first got work.
    """
    first: dict[str, int] = {}
    for op in ops:
        if op.queued_ns < first.get(op.stream, _NEVER):
            first[op.stream] = op.queued_ns
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


def host_rows(calls: Iterable[Call]) -> list[HostRow]:
    """Return the rows of the host, in the order of their first calls: one for each task or thread.

    Those without a name share a row if the last call of one is over before the first call of the next begins. So a
    program that makes a task for each request has as many rows as it had requests at a time.
    """
    first: dict[str, tuple[int, int]] = {}  # when its first call begins, and the place of that call
    last: dict[str, int] = {}
    for index, call in enumerate(calls):
        caller, enter = call.caller, call.enter_ns
        if caller not in first or enter < first[caller][0]:
            first[caller] = enter, index
        last[caller] = call.exit_ns  # calls are in the order of their exits
    return share_rows(first, last)


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
    return _site(call.file, call.line)


@lru_cache(maxsize=4096)
def _site(file: str, line: int) -> str:
    return f"{Path(file).name}:{line}"


def queuing_calls(ops: Sequence[Operation], calls: Sequence[Call]) -> list[int | None]:
    """Return for each of *ops* the index in *calls* of the call that queued it. Calls are in order of their exits."""
    exits = np.fromiter(map(attrgetter("exit_ns"), calls), np.int64, len(calls))
    queued = np.fromiter(map(attrgetter("queued_ns"), ops), np.int64, len(ops))
    by_site: dict[str, list[int]] = {}
    queuing: list[int | None] = []
    for op, first in zip(ops, np.searchsorted(exits, queued).tolist(), strict=True):
        # A plain verb returns when it has queued its operation, so the first call that had not returned then is mostly
        # the right one.
        if first < len(calls) and _may_have_queued(calls[first], op) and site_of_call(calls[first]) == op.site:
            queuing.append(first)
            continue
        if not by_site:
            for index, call in enumerate(calls):
                by_site.setdefault(site_of_call(call), []).append(index)
        candidates = by_site.get(op.site, [])
        later = range(bisect_left(candidates, first), len(candidates))
        queuing.append(
            next((candidates[place] for place in later if _may_have_queued(calls[candidates[place]], op)), None)
        )
    return queuing


def _may_have_queued(call: Call, op: Operation) -> bool:
    return call.enter_ns <= op.queued_ns and call.name.startswith(_VERBS.get(op.kind, "Memcpy"))


class StepSpan(NamedTuple):
    """When the *step* with this index had its turn in its stream, and the index of the first operation *behind* it, or
    -1. A wait lasts from its turn to its end; all others are instants.
    """

    end_ns: int
    begin_ns: int
    step: int
    behind: int


def step_spans(timeline: Timeline) -> list[StepSpan]:
    """Return the spans of all steps in the order of their ends.

    What a stream waited for without end lasts to the end of the recording.
    """
    steps = timeline.steps
    ready, behind = _around(steps, timeline.ops)
    spans = []
    over: dict[int, int] = {}  # by stream: the end of the last step
    for index, step in enumerate(steps):
        turn = max(step.queued_ns, ready[index], over.get(step.in_stream, 0))
        end = over[step.in_stream] = max(turn, step.end_ns if step.end_ns >= 0 else timeline.end_ns)
        spans.append(StepSpan(end, turn if step.kind in _WAITS else end, index, behind[index]))
    spans.sort()
    return spans


def _around(steps: Sequence[StreamStep], ops: Sequence[Operation]) -> tuple[list[int], list[int]]:
    """Return for each step when all operations ahead of it in its stream were over, and the index of the first
    operation behind it; -1 if there is none.
    """
    stream_of = np.fromiter(map(attrgetter("in_stream"), ops), np.int64, len(ops))
    queued_ns = np.fromiter(map(attrgetter("queued_ns"), ops), np.int64, len(ops))
    end_ns = np.fromiter(map(attrgetter("end_ns"), ops), np.int64, len(ops))
    step_stream = np.fromiter(map(attrgetter("in_stream"), steps), np.int64, len(steps))
    step_queued = np.fromiter(map(attrgetter("queued_ns"), steps), np.int64, len(steps))
    ready, behind = np.zeros(len(steps), np.int64), np.full(len(steps), -1)
    for stream in np.unique(step_stream):
        own = np.flatnonzero(stream_of == stream)
        own = own[np.argsort(queued_ns[own], kind="stable")]
        over = np.concatenate(([0], np.maximum.accumulate(end_ns[own])))
        mine = np.flatnonzero(step_stream == stream)
        places = np.searchsorted(queued_ns[own], step_queued[mine], side="right")
        ready[mine] = over[places]
        behind[mine] = np.append(own, -1)[places]
    return ready.tolist(), behind.tolist()


def asking_calls(steps: Sequence[StreamStep], calls: Sequence[Call]) -> list[int | None]:
    """Return for each of *steps* the index in *calls* of the call that queued it; None if it is neither a record of an
    event nor a wait for one.
    """
    made: dict[_Asked, deque[int]] = {}
    verbs = frozenset(ASKING.values())
    for index, call in enumerate(calls):
        if call.name in verbs:
            made.setdefault((call.name, call.caller, call.exit_ns, call.about[1:]), deque()).append(index)
    asking: list[int | None] = []
    for step in steps:
        own = made.get((ASKING.get(step.kind, ""), step.caller, step.queued_ns, (Ref(step.in_stream),)))
        asking.append(own.popleft() if own else None)
    return asking


def correlations(ops: Sequence[Operation], calls: Sequence[Call]) -> tuple["array[int]", "array[int]"]:
    """Return a number for each operation and for each call, the same for a call and what it queued.

    It is one more than the index of the first operation that the call queued; 0 for an operation without a call, and
    for a call that queued nothing.
    """
    of_ops, of_calls = array("I", bytes(4 * len(ops))), array("I", bytes(4 * len(calls)))
    for index, call in enumerate(queuing_calls(ops, calls)):
        if call is not None:
            of_ops[index] = of_calls[call] = of_calls[call] or index + 1
    return of_ops, of_calls
