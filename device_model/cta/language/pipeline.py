"""Pipelines of asynchronous copies, as cuda::pipeline has them.

    pipe = cta.pipeline(stages=2)
    pipe.producer_acquire()         waits until a stage is free
    cta.memcpy_async(...)           copies that belong to the stage
    pipe.producer_commit()          closes the stage
    pipe.consumer_wait()            waits for the oldest stage that is not released
    ...                             uses its bytes
    pipe.consumer_release()         frees it

Of scope "thread" each thread has a pipeline of its own, made of groups of cp.async: consumer_wait waits for the copies
of the thread alone, and syncthreads must show them to others. Nothing but syncthreads keeps a thread from overwriting
what others still read. Of scope "block" the stages are shared: two mbarriers for each, *full* and *empty*, which also
show the bytes to all threads. `Stages` goes through all tiles by itself.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from device_model.cta.language.links import BarrierLink, GroupLink, Shapes, ThreadLink
from device_model.kernel import stages
from device_model.kernel.findings import KernelError, KernelHangError
from device_model.kernel.sites import site


class Scope(Enum):
    """Whom the stages of a pipeline belong to."""

    THREAD = "thread"
    BLOCK = "block"


class Pipeline:
    """A first-in, first-out queue of stages; the same calls for all active threads."""

    __slots__ = ("_acquired", "_committed", "_has_quit", "_link", "_made", "_released", "stages")

    def __init__(self, stages: int, scope: Scope) -> None:
        if stages < 1:
            raise KernelError(f"a pipeline with {stages} stages at {site()}", "give 1 or more")
        self.stages = stages
        self._made = site()
        self._link = (BarrierLink if scope is Scope.BLOCK else ThreadLink)(stages)
        self._acquired = self._committed = self._released = 0
        self._has_quit = False

    def __repr__(self) -> str:
        counts = f"{self._acquired} acquired, {self._committed} committed, {self._released} released"
        return f"<pipeline of {self._made}: {counts}>"

    def producer_acquire(self) -> None:
        """Wait for a free stage.

        Raises:
            KernelHangError: All stages are in use, and the same threads would have to release one.
        """
        self._check("producer_acquire")
        if self._acquired - self._released >= self.stages:
            raise KernelHangError(
                f"producer_acquire() at {site()} waits without end: the {self.stages} stages of {self!r} are in use",
                "call consumer_release() for the oldest stage first",
            )
        self._link.acquire()
        self._acquired += 1

    def producer_commit(self) -> None:
        """Close the stage that was acquired: it has the copies that were started since the last commit."""
        self._check("producer_commit")
        if self._committed == self._acquired:
            raise KernelError(f"producer_commit() at {site()} without producer_acquire() in {self!r}")
        self._link.commit()
        self._committed += 1

    def consumer_wait(self) -> None:
        """Wait for the oldest stage that is not released.

        Raises:
            KernelHangError: No stage has been committed.
        """
        self._check("consumer_wait")
        self._wait(self._released)

    def consumer_wait_prior(self, pending: int) -> None:
        """Wait for all stages but the last *pending* that were committed (cuda::pipeline_consumer_wait_prior)."""
        self._check("consumer_wait_prior")
        last = self._committed - pending - 1
        if last >= self._released:
            self._wait(last)

    def consumer_release(self) -> None:
        """Free the oldest stage."""
        self._check("consumer_release")
        if self._released == self._committed:
            raise KernelError(f"consumer_release() at {site()} without a committed stage in {self!r}")
        self._link.release()
        self._released += 1

    def quit(self) -> None:
        """Leave the pipeline; the active threads may not use it any more."""
        self._check("quit")
        self._has_quit = True

    def _wait(self, stage: int) -> None:
        if stage >= self._committed:
            raise KernelHangError(
                f"consumer_wait() at {site()} waits without end: {self!r} has no committed stage",
                "call producer_acquire(), memcpy_async() and producer_commit() first",
            )
        self._link.wait(stage - self._released)

    def _check(self, call: str) -> None:
        if self._has_quit:
            raise KernelError(f"{call}() at {site()} after quit() of {self!r}")


class Stages(stages.StagePipeline):
    """Stages of a block, and links of shared memory between them: the copies of a tile run while others are computed.

        stages = cta.Stages(depth=2)
        stages.add(load, [(np.float32, (TILE,))])
        stages.add(compute)
        stages.run(range(tiles))

    The first stage is issued *depth* - 1 tiles ahead of the second. All threads of the block go through all stages.

    Args:
        depth: How many slots are between two stages. With 1, stages take turns.
        link: `GroupLink` for groups of copies and syncthreads, or `BarrierLink` for mbarriers, which tell of copies
            only, and not of stores.

    Raises:
        KernelError: *depth* is below 1.
    """

    def __init__(self, depth: int = 2, link: Callable[[int, Shapes], stages.Link] = GroupLink) -> None:
        if depth < 1:
            raise KernelError(f"a pipeline of depth {depth} at {site()}", "give 1 or more")
        super().__init__(depth)
        self._link = link

    def add(self, stage: stages.Stage, fills: Shapes = ()) -> None:
        """Add a stage after the others.

        Args:
            stage: Called as `stage(tile, *used, *filled)`, where *used* are the arrays in shared memory that the stage
                before it filled, and *filled* its own.
            fills: (dtype, shape) of each array that it fills. The last stage fills none.

        Raises:
            KernelError: The pipeline has run, the stage before it fills nothing, or shared memory has too few bytes.
        """
        self._add(getattr(stage, "__name__", str(stage)), stage, fills, lambda shapes: self._link(self.depth, shapes))

    def run(self, tiles: Iterable[Any]) -> None:
        """Send each tile through all stages. Call it once.

        Args:
            tiles: Any values, such as numbers; each is passed to the stages.

        Raises:
            KernelError: The pipeline has run, has fewer than two stages, or its last stage fills arrays.
        """
        self._run(tiles)


def pipeline(stages: int = 2, scope: Scope | str = Scope.THREAD) -> Pipeline:
    """Return a pipeline with *stages* stages (cuda::make_pipeline).

    Args:
        stages: How many stages may be in use at the same time.
        scope: "thread", or "block" for stages that all threads share.
    """
    return Pipeline(stages, Scope(scope))
