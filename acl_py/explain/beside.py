"""Work beside work: the operations that touch the same bytes just before and just behind a step, in streams."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from acl_py.calls.acts import Completed
from acl_py.explain.cases import in_stream
from acl_py.explain.relisting import Bytes, conflict, touches
from acl_py.programs.format import Program, Step

DEFAULT_STREAM = "legacy"


class Beside(NamedTuple):
    """The last operation *before* a step, and the first one *behind* it, that must keep their order with it; None if
    there is none. *wrote* is whether the step writes memory of the device.
    """

    before: Step | None
    behind: Step | None
    wrote: bool

    @property
    def usual(self) -> Step | None:
        """The one whose stream fits best: for what is written the next work, for what is read the last one before."""
        nearest = (self.behind, self.before) if self.wrote else (self.before, self.behind)
        return next((step for step in nearest if step is not None), None)


def work_beside(program: Program, steps: Sequence[Step]) -> dict[int, Beside]:
    """Return what is beside each of *steps*, by its index. Memory of the host does not count, nor do *steps* itself."""
    chosen, host = {step.index for step in steps}, program.buffers_in("pinned", "pageable")
    work = [
        (step, bytes_)
        for step in program.steps
        if step.index not in chosen and isinstance(step.fields.get("stream"), str) and (bytes_ := touches(step))
    ]
    indices = [step.index for step, _ in work]
    found = {}
    for step in steps:
        queued = in_stream(step, DEFAULT_STREAM) if isinstance(step.act, Completed) else step
        bytes_ = [each for each in touches(queued) or () if each[0] not in host]
        place = bisect_left(indices, step.index)
        wrote = any(wrote for *_, wrote in bytes_)
        found[step.index] = Beside(
            _first(bytes_, reversed(work[:place])), _first(bytes_, islice(work, place, None)), wrote
        )
    return found


def _first(bytes_: Sequence[Bytes], work: Iterable[tuple[Step, Sequence[Bytes]]]) -> Step | None:
    return next((step for step, others in work if any(conflict(bytes_, each) for each in others)), None)
