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

from acl_py.trace.columns import Ints, numbers, places
from acl_py.trace.rows import ASKING, About, Call, Operation, Ref, StreamStep, Timeline

if TYPE_CHECKING:
    from acl_py.trace.recorder import Trace

ENGINE_ORDER = ("H2D", "cores", "P2P", "D2H", "host")  # as data passes them

_WAITS = ("wait", "notify_wait", "value_wait")  # steps that last
_Asked = tuple[str, str, int, tuple[About, ...]]  # name, caller and exit of a call, and its stream
_NEVER = (1 << 63) - 1
_VERBS = {
    "fill": "Memset",
    "kernel": "LaunchKernel",
    "host_function": "LaunchHostFunc",
}  # by kind; all others are Memcpy


def as_timeline(trace: "Trace | Timeline") -> Timeline:
    """Return the rows of *trace*, which may be live or have been saved."""
    return trace if isinstance(trace, Timeline) else trace.timeline()


def stream_ids(ops: Sequence[Operation | StreamStep]) -> dict[str, int]:
    """Return a number for each stream of *ops*, for formats in which streams have no names.

    "stream 3" has number 3. Default streams and streams with names get the numbers that follow, from 7 on: analysers
    take 0 for no stream, and 7 is the default stream in CUDA's traces.
    """
    order = stream_order(ops)
    numbers = {stream: _kind_of_stream(stream)[1] for stream in order}
    following = count(max(7, 1 + max(numbers.values(), default=0)))
    return {stream: numbers[stream] or next(following) for stream in order}


def stream_order(ops: Sequence[Operation | StreamStep]) -> dict[str, int]:
    """Return the places of the streams of *ops*: default streams, then those with numbers, then those with names.

    Streams with names are in the order in which they first got work.
    """
    which, names = places(map(attrgetter("stream"), ops), len(ops))
    queued_ns = np.full(len(names), _NEVER)
    np.minimum.at(queued_ns, which, numbers(ops, "queued_ns"))
    first = dict(zip(names, queued_ns.tolist(), strict=True))
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
    return short_site(call.file, call.line)


@lru_cache(maxsize=4096)
def short_site(file: str, line: int) -> str:
    """Return a line of a file in the form of `Operation.site`."""
    return f"{Path(file).name}:{line}"


def queuing_calls(ops: Sequence[Operation], calls: Sequence[Call]) -> list[int | None]:
    """Return for each of *ops* the index in *calls* of the call that queued it. Calls are in order of their exits."""
    return [index if index >= 0 else None for index in _queuing_calls(ops, calls).tolist()]


def _queuing_calls(ops: Sequence[Operation], calls: Sequence[Call]) -> Ints:
    """Return the same as an array, with -1 for None."""
    if not calls:
        return np.full(len(ops), -1)
    queued = numbers(ops, "queued_ns")
    # A plain verb returns when it has queued its operation, so the first call that had not returned then is mostly the
    # right one.
    first = np.searchsorted(numbers(calls, "exit_ns"), queued)
    queuing = np.minimum(first, len(calls) - 1)
    kind_of_op, kinds_of_ops = places(map(attrgetter("kind", "site"), ops), len(ops))
    kind_of_call, kinds_of_calls = places(map(attrgetter("name", "file", "line"), calls), len(calls))
    pairs, pair = np.unique(kind_of_op * len(kinds_of_calls) + kind_of_call[queuing], return_inverse=True)
    both = (divmod(each, len(kinds_of_calls)) for each in pairs.tolist())
    fits = np.array([_fits(*kinds_of_ops[one], *kinds_of_calls[other]) for one, other in both], bool)
    is_right = fits[pair] & (numbers(calls, "enter_ns")[queuing] <= queued) & (first < len(calls))
    by_site: dict[str, list[int]] = {}
    for index in np.flatnonzero(~is_right).tolist():
        if not by_site:
            for place, call in enumerate(calls):
                by_site.setdefault(site_of_call(call), []).append(place)
        queuing[index] = _later(ops[index], int(first[index]), by_site, calls)
    return queuing


def _later(op: Operation, first: int, by_site: Mapping[str, list[int]], calls: Sequence[Call]) -> int:
    """Return the first call from *first* on that may have queued *op*, or -1."""
    candidates = by_site.get(op.site, [])
    later = (candidates[place] for place in range(bisect_left(candidates, first), len(candidates)))
    return next((index for index in later if calls[index].enter_ns <= op.queued_ns
                 and _queues(calls[index].name, op.kind)), -1)  # fmt: skip


def _fits(kind: str, site: str, name: str, file: str, line: int) -> bool:
    return _queues(name, kind) and short_site(file, line) == site


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
    ops, steps = timeline.ops, timeline.steps
    stream_of, queued_ns, end_ns = (numbers(ops, field) for field in ("in_stream", "queued_ns", "end_ns"))
    step_stream, step_queued, step_end = (numbers(steps, field) for field in ("in_stream", "queued_ns", "end_ns"))
    step_end[step_end < 0] = timeline.end_ns
    turn, over, behind = (np.zeros(len(steps), np.int64) for _ in range(3))
    for stream in np.unique(step_stream):
        own = np.flatnonzero(stream_of == stream)
        own = own[np.argsort(queued_ns[own], kind="stable")]
        mine = np.flatnonzero(step_stream == stream)
        ahead = np.searchsorted(queued_ns[own], step_queued[mine], side="right")  # so many operations of the stream
        ready = np.maximum(step_queued[mine], np.maximum.accumulate(np.append(0, end_ns[own]))[ahead])
        over[mine] = np.maximum.accumulate(np.maximum(ready, step_end[mine]))
        turn[mine] = np.maximum(ready, np.append(0, over[mine])[:-1])
        behind[mine] = np.append(own, -1)[ahead]
    is_wait = np.fromiter((step.kind in _WAITS for step in steps), bool, len(steps))
    begin = np.where(is_wait, turn, over)
    order = np.lexsort((begin, over))
    return StepSpans(over[order], begin[order], order, behind[order])


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
    queuing = _queuing_calls(ops, calls)
    known = np.flatnonzero(queuing >= 0)
    queuing, of_calls, of_ops = queuing[known], np.zeros(len(calls), np.uint32), np.zeros(len(ops), np.uint32)
    of_calls[queuing[::-1]] = known[::-1] + 1  # of several the first
    of_ops[known] = of_calls[queuing]
    return array("I", of_ops.tobytes()), array("I", of_calls.tobytes())
