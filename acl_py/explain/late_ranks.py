"""A late rank that comes in time: its work before a collective takes as much less as the others have waited for it.

What a late rank has waited for is followed back: the work in front of its part, and the host if that queued it late.
Kernels, and the host's own work, become shorter until the rank would have come with the others.
"""

from collections.abc import Callable, Iterator, Sequence

from acl_py.calls.acts import Joined, Slept
from acl_py.causes.findings import Finding
from acl_py.explain.cases import Case, EditError, with_fields
from acl_py.explain.edits import scaled
from acl_py.programs.format import Step
from acl_py.trace.rows.timeline import Timeline

NOTE = "how the late rank could do its work faster; its kernels, or its host's work, are as much shorter as it was late"


def in_time(case: Case, timeline: Timeline, finding: Finding, step_at: Callable[[int], Sequence[Step]]) -> Case:
    """Return *case*, in which the rank of *finding* comes with the others; *step_at* gives the step that queued
    something at a time.

    Raises:
        EditError: nothing that it has waited for could be shorter.
    """
    factors: dict[int, float] = {}  # of the time of steps, by their index
    for op, (since, start) in zip(finding.ops, finding.waits, strict=False):
        left = start - since
        for step, lasted in _before(case.program.steps, timeline, op, step_at):
            cut = min(left, lasted)
            factors[step.index] = min(factors.get(step.index, 1.0), 1 - cut / lasted)
            left -= cut
            if not left:
                break
    if not factors:
        raise EditError("the late rank has waited for nothing that could be shorter")

    def change(step: Step) -> list[Step]:
        factor = factors.get(step.index)
        if factor is None:
            return [step]
        return [scaled(step, factor) if step.is_kernel else with_fields(step, us=round(step.fields["us"] * factor, 3))]

    return case.with_steps(change).noting(NOTE)


def _before(
    steps: Sequence[Step], timeline: Timeline, op: int, step_at: Callable[[int], Sequence[Step]]
) -> Iterator[tuple[Step, int]]:
    """Yield the kernels and the work of the host that the operation *op* has waited for, the last ones first, each with
    the nanoseconds that its blocks take. It ends at an earlier collective: there its rank has waited for others.
    """
    index: int | None = op
    seen: set[int] = set()  # a file may have rows that wait for one another
    while index is not None and index not in seen:
        seen.add(index)
        row = timeline.ops[index]
        queuing = step_at(row.queued_ns)
        if index != op:
            if row.kind == "collective":
                return
            if queuing and queuing[0].is_kernel and (each_ns := round(queuing[0].fields["us"] * 1000)):
                yield queuing[0], max(1, (row.end_ns - row.start_ns) // each_ns) * each_ns  # blocks follow one another
        if row.after is None and queuing:
            yield from _of_host(steps, queuing[0])
        index = row.after


def _of_host(steps: Sequence[Step], last: Step) -> Iterator[tuple[Step, int]]:
    """Yield the work of the host that is between *last* and the collective before it in its task."""
    for step in reversed(steps[: last.index]):
        if (step.task, step.thread) != (last.task, last.thread):
            continue
        if isinstance(step.act, Joined):
            return
        if isinstance(step.act, Slept) and step.fields["us"]:
            yield step, round(step.fields["us"] * 1000)
