"""Pipelines of stages: tiles go from stage to stage, and several of them are in flight.

Between two stages is a link with *depth* slots. The first stage acquires a slot, fills it and commits it; the second
waits for it, uses it and releases it. These four verbs are those of a CUDA pipeline. Each kind of kernel has its own
links: queues and flags on AI cores, groups of copies and mbarriers in thread blocks.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from device_model.kernel.findings import KernelError

Stage = Callable[..., object]  # called with the tile, the tensors of the stage before it, and those that it fills


class Link(Protocol):
    """The connection of two stages: slots, each with the tensors that the first stage fills."""

    @property
    def ahead(self) -> int:
        """How many tiles the first stage is issued ahead of the second: 0 if they are issued tile by tile."""

    def acquire(self) -> tuple[Any, ...]:
        """Return the tensors of a free slot, for the stage before."""

    def commit(self) -> None:
        """Mark the slot as full once what was issued so far has finished."""

    def wait(self) -> tuple[Any, ...]:
        """Return the tensors of the slot that was committed first, for the stage after."""

    def release(self) -> None:
        """Mark the slot as free once what was issued so far has finished."""

    def close(self) -> None:
        """End the link after the last tile."""


@dataclass(slots=True)
class _Step:
    """A stage between its links; *fills* are the tensors that it fills."""

    label: str
    stage: Stage
    fills: Any
    before: Link | None
    after: Link | None = None

    def do(self, tile: Any) -> None:
        """Send *tile* through the stage."""
        used = self.before.wait() if self.before else ()
        filled = self.after.acquire() if self.after else ()
        self.stage(tile, *used, *filled)
        if self.after:
            self.after.commit()
        if self.before:
            self.before.release()


class StagePipeline:
    """Stages and the links between them."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._steps: list[_Step] = []
        self._has_run = False

    def __repr__(self) -> str:
        return f"<Pipeline of depth {self.depth}: {' -> '.join(each.label for each in self._steps) or 'no stages'}>"

    def _add(self, label: str, stage: Stage, fills: Any, link: Callable[[Any], Link]) -> None:
        """Add a stage after the others; *link* makes the link of what the stage before fills."""
        if self._has_run:
            raise KernelError(f"{self!r} has run", "add all stages first")
        before: Link | None = None
        if self._steps:
            last = self._steps[-1]
            if not last.fills:
                raise KernelError(
                    f"a stage behind one that fills nothing in {self!r}", "give that stage the tensors that it fills"
                )
            before = last.after = link(last.fills)
        self._steps.append(_Step(label, stage, fills, before))

    def _run(self, tiles: Iterable[Any]) -> None:
        """Send each tile through all stages, each stage as many tiles behind the one before as their link says."""
        if self._has_run or len(self._steps) < 2 or self._steps[-1].fills:
            raise KernelError(
                f"Run() of {self!r}", "it takes two stages or more, of which the last fills nothing, and runs once"
            )
        self._has_run = True
        every = list(tiles)
        behind, lag = [], 0
        for each in self._steps:
            lag += each.before.ahead if each.before else 0
            behind.append(lag)
        for at in range(len(every) + lag):
            for each, late in zip(self._steps, behind, strict=True):
                if 0 <= at - late < len(every):
                    each.do(every[at - late])
        for each in self._steps:
            if each.after:
                each.after.close()
