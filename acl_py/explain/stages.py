"""Stages of a program, and how well its copies and its computation overlap."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from acl_py.causes.lines import us
from acl_py.trace.rows.overlaps import Overlap, Span, length, merged, share
from acl_py.trace.rows.timeline import Mark, Operation, Timeline

_WHY_THEY_DIFFER = """\
    which is the time from the first operation to the last.
The two differ because the first adds up durations: it is the same whether copies and kernels overlap or take turns.
The second grows when they overlap, and falls when all engines stand still."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: how often it was begun, how long the host was in it, and how long its operations ran.

    Its operations are those that the same task or thread queued in it. Where several of them run at a time, this time
    counts once in *device_ns*.
    """

    name: str
    calls: int
    host_ns: int
    device_ns: int
    ops: int


def stages(timeline: Timeline, names: Iterable[str] | None = None) -> list[Stage]:
    """Return the stages of *timeline*, which are its marks by name, in the order of their first begin.

    By default all marks that last, else those with the given *names*.
    """
    wanted = None if names is None else set(names)
    by_name: dict[str, list[Mark]] = {}
    for mark in sorted(timeline.marks, key=lambda mark: (mark.begin_ns, -mark.end_ns)):
        if mark.name in wanted if wanted is not None else mark.end_ns > mark.begin_ns:
            by_name.setdefault(mark.name, []).append(mark)
    return [_stage(name, marks, timeline.ops) for name, marks in by_name.items()]


def stages_text(found: Sequence[Stage], shared: Overlap, total_ns: int, cores: str = "cores") -> str:
    """Return the report of a profiler: a table of the stages as shares of *total_ns*, and the overlap.

    *cores* is what computes, in the words of the card's vendor.
    """
    width = max([len("stage"), *(len(stage.name) for stage in found)])
    text = [f"{'stage':<{width}} {'calls':>7} {'host':>14} {'device':>14} {'share':>7}"]
    for stage in found:
        host, device = us(stage.host_ns), us(stage.device_ns)
        part = _percent(share(stage.device_ns, total_ns))
        text.append(f"{stage.name:<{width}} {stage.calls:>7,} {host:>14} {device:>14} {part:>7}")
    text.append(f"share: how much of the whole time, {us(total_ns)}, operations of the stage ran; stages may overlap")
    both, either = us(shared.both_ns), us(shared.either_ns)
    text.append(
        f"overlap of copy and compute: {_percent(shared.overlap)}: both ran for {both}, at least one for {either}"
    )
    compute, copy = us(shared.compute_ns), us(shared.copy_ns)
    efficiency = f"{_percent(shared.pipeline_efficiency)}, as compute / (compute + transfer)"
    text.append(f"pipeline efficiency: {efficiency}: {compute} / ({compute} + {copy})")
    computing, span = us(shared.computing_ns), us(shared.span_ns)
    text.append(
        f"with overlap: {_percent(shared.overlapped_efficiency)}: the {cores} computed for {computing} of {span},"
    )
    text.append(_WHY_THEY_DIFFER)
    return "\n".join(text)


def _stage(name: str, marks: Sequence[Mark], ops: Sequence[Operation]) -> Stage:
    callers = {mark.caller for mark in marks}
    by_caller = {caller: merged(_span(mark) for mark in marks if mark.caller == caller) for caller in callers}
    inside = [
        (op.start_ns, op.end_ns) for op in ops if op.caller in by_caller and _is_in(by_caller[op.caller], op.queued_ns)
    ]
    host = length(merged(map(_span, marks)))
    return Stage(name, len(marks), host, length(merged(inside)), len(inside))


def _span(mark: Mark) -> Span:
    return mark.begin_ns, mark.end_ns


def _is_in(spans: Sequence[Span], at_ns: int) -> bool:
    """Whether a call that queued an operation *at_ns*, at its end, was made in one of *spans*."""
    place = bisect_left(spans, at_ns, key=itemgetter(0)) - 1
    return place >= 0 and at_ns <= spans[place][1]


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"
