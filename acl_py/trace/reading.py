"""Reading a trace: the order of engines and streams, the rows of the host, and the call that queued an operation.

The recorder has no column for the call of an operation, because it can be found afterwards. A plain verb returns at the
instant at which its operation is queued, and a copy through pageable memory queues its chunks while it lasts. So the
call of an operation is the one that was made at the same line, by a verb that queues such operations, and that was in
progress at that instant.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

from acl_py.trace.recorder import Call, Operation

ENGINE_ORDER = ("H2D", "cores", "P2P", "D2H", "host")  # as data passes them

_VERBS = {
    "fill": "Memset",
    "kernel": "LaunchKernel",
    "host_function": "LaunchHostFunc",
}  # by kind; all others are Memcpy


def stream_order(ops: Iterable[Operation]) -> dict[str, int]:
    """Return the places of the streams of *ops*: default streams, then those with numbers, then those with names.

    Streams with names are in the order in which they first got work.
    """
    streams = dict.fromkeys(op.stream for op in sorted(ops, key=lambda op: op.queued_ns))
    return {stream: place for place, stream in enumerate(sorted(streams, key=_kind_of_stream))}


def _kind_of_stream(stream: str) -> tuple[int, int, str]:
    own = stream.removeprefix("stream ")
    if own == stream:
        return 0, 0, stream
    return (1, int(own), "") if own.isdecimal() else (2, 0, "")


class HostRow(NamedTuple):
    """A row of the host: the tasks and threads that share it, and the indices of their calls."""

    callers: list[str]
    calls: list[int]

    @property
    def label(self) -> str:
        """The first of the callers, and how many more there are."""
        first, *others = self.callers
        return f"{first} and {len(others):,} more" if others else first


def host_rows(calls: Sequence[Call]) -> list[HostRow]:
    """Return the rows of the host, in the order of their first calls: one for each task or thread.

    Those without a name share a row if the last call of one is over before the first call of the next begins. So a
    program that makes a task for each request has as many rows as it had requests at a time.
    """
    by_caller: dict[str, list[int]] = {}
    for index in sorted(range(len(calls)), key=lambda index: calls[index].enter_ns):
        by_caller.setdefault(calls[index].caller, []).append(index)
    rows: list[HostRow] = []
    shared: list[tuple[int, int]] = []  # a heap: when the last call of a row without a name is over, and the row
    for caller, indices in by_caller.items():
        is_named = not caller.split()[-1].isdecimal()
        if not is_named and shared and shared[0][0] <= calls[indices[0]].enter_ns:
            _, number = heappop(shared)
            rows[number].callers.append(caller)
            rows[number].calls.extend(indices)
        else:
            number = len(rows)
            rows.append(HostRow([caller], indices))
        if not is_named:
            heappush(shared, (max(calls[index].exit_ns for index in indices), number))
    return rows


def site_of_call(call: Call) -> str:
    """Return the line of *call* in the form of `Operation.site`: "file.py:12"."""
    return f"{Path(call.file).name}:{call.line}"


def queuing_calls(ops: Sequence[Operation], calls: Sequence[Call]) -> list[int | None]:
    """Return for each of *ops* the index in *calls* of the call that queued it. Calls are in order of their exits."""
    by_line: dict[tuple[str, int], list[int]] = {}
    for index, call in enumerate(calls):
        by_line.setdefault((call.file, call.line), []).append(index)
    by_site: dict[str, list[int]] = {}
    for indices in by_line.values():
        by_site.setdefault(site_of_call(calls[indices[0]]), []).extend(indices)
    for indices in by_site.values():
        indices.sort()  # two files may have the same name
    return [_queuing_call(op, by_site.get(op.site, ()), calls) for op in ops]


def _queuing_call(op: Operation, candidates: Sequence[int], calls: Sequence[Call]) -> int | None:
    verb = _VERBS.get(op.kind, "Memcpy")
    first = bisect_left(candidates, op.queued_ns, key=lambda index: calls[index].exit_ns)
    for place in range(first, len(candidates)):
        call = calls[candidates[place]]
        if call.enter_ns <= op.queued_ns and call.name.startswith(verb):
            return candidates[place]
    return None
