"""A late rank that comes in time: its work before a collective takes as much less as the others have waited for it.

What a late rank has waited for is followed back: the work in front of its part, and the host if that queued it late.
Kernels and the host's own work become shorter, and copies have fewer bytes, until the rank would have come with the
others. So no value of such a run counts, only its times.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from acl_py.calls.acts import Joined, Queued, Slept
from acl_py.causes.findings import Finding
from acl_py.explain.cases import Case, EditError, with_fields
from acl_py.explain.edits import scaled
from acl_py.programs.format import Step
from acl_py.trace.rows.timeline import Operation, Timeline
from device_model.curves import Curve

NOTE = (
    "how the late rank could do its work faster; its kernels, copies, or host's work are as much shorter as it was late"
)
_CURVES = {"h2d": "h2d", "d2h": "d2h", "d2d": "d2d", "p2p": "peer"}  # of Copies, by kind of row


def in_time(case: Case, timeline: Timeline, finding: Finding, step_at: Callable[[int], Sequence[Step]]) -> Case:
    """Return *case*, in which the rank of *finding* comes with the others; *step_at* gives the step that queued
    something at a time.

    Raises:
        EditError: nothing that it has waited for could be shorter.
    """
    shorter: dict[int, Step] = {}  # steps, by their index
    cuts: dict[int, int] = {}  # by how many nanoseconds
    for op, (since, start) in zip(finding.ops, finding.waits, strict=False):
        left = start - since
        for each in _before(case, timeline, op, step_at):
            cut = min(left, each.lasted_ns)
            index = each.step.index
            if cut > cuts.get(index, 0):
                cuts[index], shorter[index] = cut, each.shortened(cut)
            left -= cut
            if not left:
                break
    if not shorter:
        raise EditError("the late rank has waited for nothing that could be shorter")
    return case.with_steps(lambda step: [shorter.get(step.index, step)]).noting(NOTE)


@dataclass(frozen=True, slots=True)
class _Work:
    """A *step* whose work takes *lasted_ns* that could be less. A copy takes these by *curve*, beyond the least."""

    step: Step
    lasted_ns: int
    curve: Curve | None = None

    def shortened(self, cut_ns: int) -> Step:
        """Return the step with as much less to do."""
        step, fields = self.step, self.step.fields
        if self.curve is not None:
            most = self.curve[fields["bytes"]] - cut_ns
            fewer = bisect_right(range(fields["bytes"]), most, lo=1, key=self.curve.__getitem__) - 1
            return with_fields(step, bytes=max(1, fewer))
        factor = 1 - cut_ns / self.lasted_ns
        return scaled(step, factor) if step.is_kernel else with_fields(step, us=round(fields["us"] * factor, 3))


def _before(case: Case, timeline: Timeline, op: int, step_at: Callable[[int], Sequence[Step]]) -> Iterator[_Work]:
    """Yield the kernels, the copies and the work of the host that the operation *op* has waited for, the last ones
    first. It ends at an earlier collective: there its rank has waited for others.
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
            yield from _of_device(case, row, queuing)
        if row.after is None and queuing:
            yield from _of_host(case.program.steps, queuing[0])
        index = row.after


def _of_device(case: Case, row: Operation, queuing: Sequence[Step]) -> Iterator[_Work]:
    """Yield the kernel or the copy of *row*, which the first step of *queuing* has queued."""
    if not queuing:
        return
    step = queuing[0]
    curve: Curve | None = getattr(case.device.copies, _CURVES.get(row.kind, ""), None)
    if step.is_kernel and (each_ns := round(step.fields["us"] * 1000)):
        yield _Work(step, max(1, (row.end_ns - row.start_ns) // each_ns) * each_ns)  # its blocks follow one another
    elif isinstance(step.act, Queued) and curve is not None and row.bytes == step.fields.get("bytes"):
        # One operation: a copy of pageable memory is several.
        yield _Work(step, max(0, curve[row.bytes] - curve[1]), curve)


def _of_host(steps: Sequence[Step], last: Step) -> Iterator[_Work]:
    """Yield the work of the host that is between *last* and the collective before it in its task."""
    for step in reversed(steps[: last.index]):
        if (step.task, step.thread) != (last.task, last.thread):
            continue
        if isinstance(step.act, Joined):
            return
        if isinstance(step.act, Slept) and step.fields["us"]:
            yield _Work(step, round(step.fields["us"] * 1000))
