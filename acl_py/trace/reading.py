"""Reading a trace: the order of engines and streams, and the call that queued an operation.

The recorder has no column for the call of an operation, because it can be found afterwards. A plain verb returns at the
instant at which its operation is queued, and a copy through pageable memory queues its chunks while it lasts. So the
call of an operation is the one that was made at the same line, by a verb that queues such operations, and that was in
progress at that instant.
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
    """Return a sort key: default streams first, then the others by number."""
    number = stream.removeprefix("stream ")
    return (int(number) if number.isdecimal() else 0, stream)


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
