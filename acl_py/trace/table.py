"""The trace as one CSV table: a row for each operation and each call, in the order of their ends.

Times are whole nanoseconds. A call and what it queued have the same `correlation`. `operation` numbers operations from
0; `after` is the number of the one that the operation waited for. Columns that a row does not have are empty.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import itemgetter
from pathlib import Path

from acl_py.trace.reading import as_timeline, correlations, site_of_call
from acl_py.trace.recorder import Trace
from acl_py.trace.rows import Call, Operation, Timeline

COLUMNS = (
    *("row", "name", "start_ns", "end_ns", "site", "correlation", "caller"),
    *("operation", "kind", "device", "engine", "stream", "queued_ns", "bytes", "waited_for", "after"),
)
_Ended = tuple[int, tuple[object, ...]]  # when a row ends, and its fields
_NOTHING = ("",) * (len(COLUMNS) - COLUMNS.index("operation"))


def write(trace: Trace | Timeline, path: str | Path) -> None:
    """Write *trace* to the file *path*."""
    timeline = as_timeline(trace)
    ops, calls = timeline.ops, timeline.calls
    of_ops, of_calls = correlations(ops, calls)
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        rows: Iterator[_Ended] = merge(_operations(ops, of_ops), _calls(calls, of_calls), key=itemgetter(0))
        table.writerows(row for _, row in rows)


def _operations(ops: Sequence[Operation], numbers: Iterable[int]) -> Iterator[_Ended]:
    for index, (op, number) in enumerate(zip(ops, numbers, strict=True)):
        begin = "operation", op.name, op.start_ns, op.end_ns, op.site, number or "", "", index
        place = op.kind, op.device, op.engine, op.stream, op.queued_ns, op.bytes
        yield op.end_ns, (*begin, *place, op.why.name.lower(), op.after)


def _calls(calls: Sequence[Call], numbers: Iterable[int]) -> Iterator[_Ended]:
    for call, number in zip(calls, numbers, strict=True):
        begin = "call", call.name, call.enter_ns, call.exit_ns, site_of_call(call), number or "", call.caller
        yield call.exit_ns, (*begin, *_NOTHING)
