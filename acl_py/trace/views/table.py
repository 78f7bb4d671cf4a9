"""The trace as one CSV table. It has a row for each operation and each call, in the order of their ends. Then comes one
for each launch of a graph, in the order of their calls, and one for each mark of the program, in the order of their
ends.

Times are whole nanoseconds. A call and what it queued have the same `correlation`. `operation` numbers operations from
0; `after` is the number of the one that the operation waited for. Columns that a row does not have are empty.
"""

import csv
from collections.abc import Iterable, Iterator
from io import StringIO
from operator import attrgetter
from pathlib import Path

import numpy as np

from acl_py.trace.rows.columns import CallColumns, Ints, OpColumns, call_columns, merged_blocks, op_columns
from acl_py.trace.rows.reading import as_timeline, correlations, launching, short_site
from acl_py.trace.rows.recorder import Trace
from acl_py.trace.rows.timeline import Timeline
from acl_py.trace.views.lines import Part, joined, line, merged, only, texts, whole
from acl_py.whole_files import writing_text
from device_model.completions import Why

COLUMNS = (
    *("row", "name", "start_ns", "end_ns", "site", "correlation", "caller"),
    *("operation", "kind", "device", "engine", "stream", "queued_ns", "bytes", "waited_for", "after"),
)
_FORMULAS = "=", "+", "-", "@", "\t", "\r"  # a spreadsheet computes what begins with one of these
_NOTHING = "," * (len(COLUMNS) - COLUMNS.index("operation"))
_REASONS = texts([f",{why.name.lower()}," for why in sorted(Why)])


def write(trace: Trace | Timeline, path: str | Path) -> None:
    """Write *trace* to the file *path*."""
    timeline = as_timeline(trace)
    ops, calls = op_columns(timeline.ops), call_columns(timeline.calls)
    of_ops, of_calls = correlations(ops, calls)
    op_lines, call_lines = _Operations(ops, of_ops), _Calls(calls, of_calls)
    with writing_text(path) as file:
        file.write(f"{csv_row(COLUMNS)}\r\n")
        for op_block, call_block, behind in merged_blocks(ops.end_ns, calls.exit_ns):
            file.write(joined(merged(op_lines.of(op_block), call_lines.of(call_block), behind), "\r\n") + "\r\n")
        file.writelines(_launches(timeline, of_calls[launching(ops, calls)]))
        file.writelines(
            csv_row(["mark", each.name, each.begin_ns, each.end_ns, each.site, "", each.caller]) + _NOTHING + "\r\n"
            for each in sorted(timeline.marks, key=attrgetter("end_ns"))
        )


def _launches(timeline: Timeline, numbers: Ints) -> Iterator[str]:
    """Yield the lines of launches of graphs; *numbers* are the correlations of those that have operations."""
    for index, each in enumerate(timeline.launches):
        number = int(numbers[index]) if index < len(numbers) else 0
        times = ["" if at < 0 else at for at in (each.start_ns, each.end_ns)]
        head = ["launch", each.label, *times, each.site, number or "", each.caller]
        yield csv_row([*head, "", "graph", each.device, "", each.stream, each.queued_ns, "", "", ""]) + "\r\n"


def csv_row(values: Iterable[object]) -> str:
    """Return *values* as a row, quoted where this is necessary. A text that a spreadsheet would take for a formula has
    an apostrophe before it.
    """
    text = StringIO()
    csv.writer(text, lineterminator="").writerow(
        f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value for value in values
    )
    return text.getvalue()


class _Operations:
    """The lines of operations; *numbers* are their correlations."""

    def __init__(self, ops: OpColumns, numbers: Ints) -> None:
        self._ops, self._numbers = ops, numbers
        kinds = ops.kinds
        self._heads = texts([csv_row(["operation", kind.name, ""]) for kind in kinds])
        self._sites = texts([csv_row(["", kind.site, ""]) for kind in kinds])
        self._places = texts([csv_row(["", kind.kind, kind.device, kind.engine, kind.stream, ""]) for kind in kinds])

    def of(self, block: slice) -> Part:
        ops, kind = self._ops, self._ops.kind[block]
        number, after = self._numbers[block], ops.after[block]
        return line(
            self._heads[kind], whole(ops.start_ns[block]), ",", whole(ops.end_ns[block]), self._sites[kind],
            only(number > 0, whole(number)), ",,", whole(np.arange(block.start, block.stop)), self._places[kind],
            whole(ops.queued_ns[block]), ",", whole(ops.bytes[block]), _REASONS[ops.why[block]],
            only(after >= 0, whole(np.maximum(after, 0))),
        )  # fmt: skip


class _Calls:
    """The lines of calls; *numbers* are their correlations."""

    def __init__(self, calls: CallColumns, numbers: Ints) -> None:
        self._calls, self._numbers = calls, numbers
        self._heads = texts([csv_row(["call", kind.called, ""]) for kind in calls.kinds])
        self._sites = texts([csv_row(["", short_site(kind.file, kind.line), ""]) for kind in calls.kinds])
        self._callers = texts([csv_row(["", caller]) + _NOTHING for caller in calls.callers])

    def of(self, block: slice) -> Part:
        calls, kind = self._calls, self._calls.kind[block]
        number = self._numbers[block]
        return line(
            self._heads[kind], whole(calls.enter_ns[block]), ",", whole(calls.exit_ns[block]), self._sites[kind],
            only(number > 0, whole(number)), self._callers[calls.caller[block]],
        )  # fmt: skip
