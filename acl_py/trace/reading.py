"""Reading a trace: what its views need beyond the rows. The order of engines and streams, and which call queued what.

The recorder keeps no column for the call of an operation, for it can be told afterwards: a plain verb returns at the
instant at which its operation is queued, and a copy through pageable memory queues its chunks while it lasts. So it is
the call at the same line, of a verb that queues such operations, that was under way at that instant.
"""

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

from acl_py.trace.recorder import Call, Operation

ENGINE_ORDER = ("H2D", "cores", "P2P", "D2H", "host")  # as data passes them

_VERBS = {
    "fill": "Memset",
    "kernel": "LaunchKernel",
    "host_function": "LaunchHostFunc",
}  # by kind; all others are Memcpy


def stream_order(stream: str) -> tuple[int, str]:
    """A sort key: the default streams first, then the others by number."""
    number = stream.removeprefix("stream ")
    return (int(number) if number.isdecimal() else 0, stream)


def site_of_call(call: Call) -> str:
    """The line of *call* as operations say it: "file.py:12"."""
    return f"{Path(call.file).name}:{call.line}"


def queuing_calls(ops: Sequence[Operation], calls: Sequence[Call]) -> list[int | None]:
    """For each of *ops* the index of the call that queued it in *calls*, which are in order of their exits."""
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
