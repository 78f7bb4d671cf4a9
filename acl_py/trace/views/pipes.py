"""The pipe chart: one core in one launch, as text for a terminal, with a row per pipe (of an SM: per unit).

It needs a trace that keeps instructions: `simulate(instructions=...)`.
"""

from collections.abc import Sequence
from functools import partial

from rich.text import Text

from acl_py.trace.rows.recorder import Trace
from acl_py.trace.rows.timeline import PIPE_ORDER, CoreInstruction
from acl_py.trace.views.drawing import Lane, Look, Span, Spans, draw

_LOOKS = {
    "S": Look("▓", "▒", "▒", "yellow", "scalar", "scalar"),
    "MTE2": Look("»", "›", "›", "bright_blue", "from GM", "copies"),
    "MTE1": Look("▸", "▹", "▹", "cyan", "L1 to L0", "loads"),
    "M": Look("█", "▐", "▌", "red", "cube", "Mmads"),
    "FIX": Look("◂", "◃", "◃", "cyan", "from L0C", "copies"),
    "V": Look("█", "▐", "▌", "green", "vector", "vector"),
    "MTE3": Look("«", "‹", "‹", "magenta", "to GM", "copies"),
    "ISSUE": Look("▓", "▒", "▒", "yellow", "schedulers", "issued"),
    "LSU": Look("▸", "▹", "▹", "cyan", "loads, stores, copies issued", "accesses"),
    "MEM": Look("»", "›", "›", "bright_blue", "global memory", "in flight"),
    "TENSOR": Look("█", "▐", "▌", "red", "tensor cores", "products"),
    "FMA": Look("█", "▐", "▌", "green", "FMA", "FMA"),
    "ALU": Look("█", "▐", "▌", "green", "ALU", "ALU"),
    "SFU": Look("█", "▐", "▌", "magenta", "SFU", "SFU"),
}
_HELD = Look("░", "·", "·", "bright_black", "held by a flag or barrier", "waits", behind=True)


def lanes(trace: Trace, width: int = 100, *, operation: int | None = None, core: str | None = None) -> str:
    """Draw the pipes of *core* ("AIV 0", "SM 0") in launch `trace.ops[operation]`, in at most *width* columns.

    By default it draws the first core of the last launch. Time is counted from the core's first instruction, because
    the cores of a launch do not start together. Raises ValueError if the trace has no instructions of it.
    """
    return styled_lanes(trace, width, operation=operation, core=core).plain


def styled_lanes(
    trace: Trace,
    width: int = 100,
    *,
    operation: int | None = None,
    core: str | None = None,
    span_ns: float | None = None,
) -> Text:
    """Draw the chart of `lanes` with colours, for rich: *span_ns* nanoseconds, by default to the last instruction."""
    rows = trace.instructions
    if operation is None and rows:
        operation = rows[-1].operation
    of_launch = [row for row in rows if row.operation == operation]
    cores = list(dict.fromkeys(row.core for row in of_launch))
    if core is None and cores:
        core = cores[0]
    if core not in cores:
        raise ValueError(_missing(rows, operation, core, cores))
    shown = [row for row in of_launch if row.core == core]
    begin = min(row.start_ns for row in shown)
    end = max(row.end_ns for row in shown) - begin if span_ns is None else span_ns
    lanes = [Lane(pipe, partial(_spans, [row for row in shown if row.pipe == pipe], begin)) for pipe in PIPE_ORDER]
    used = [lane for lane in lanes if not lane.spans().behind.all()]
    return draw(used or lanes, [*_LOOKS.values(), _HELD], 0, round(end), width)


def _missing(rows: Sequence[CoreInstruction], operation: int | None, core: str | None, cores: Sequence[str]) -> str:
    """Return why a trace with the instructions *rows* has no chart of this core and operation."""
    if not rows:
        return (
            "the trace has no instructions: launch a kernel on cores, and start the simulation with instructions=, the"
            " number to keep of each launch"
        )
    if not cores:
        launches = ", ".join(str(each) for each in dict.fromkeys(row.operation for row in rows))
        return f"the trace has no instructions of operation {operation}: it has those of operation {launches}"
    return f"the trace has no instructions of core {core} in operation {operation}: it has those of {', '.join(cores)}"


def _spans(rows: Sequence[CoreInstruction], begin_ns: float) -> Spans:
    spans = []
    for row in rows:
        start, end = round(row.start_ns - begin_ns), round(row.end_ns - begin_ns)
        if start < end:
            spans.append(Span(start, end, _LOOKS[row.pipe] if row.kind == "work" else _HELD, row.name))
    return Spans.of(spans)
