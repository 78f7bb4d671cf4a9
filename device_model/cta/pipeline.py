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
show the bytes to all threads.
"""

from enum import Enum
from typing import Protocol

from device_model.cta.barriers import Mbarrier, cp_async_mbarrier_arrive, syncthreads
from device_model.cta.block import running
from device_model.cta.copies import commit_group, wait_group
from device_model.kernel.findings import KernelError, KernelHangError
from device_model.kernel.sites import site


class Scope(Enum):
    """Whom the stages of a pipeline belong to."""

    THREAD = "thread"
    BLOCK = "block"


class _Link(Protocol):
    """How the stages of a pipeline are handed over; stages are counted from 0 on and never again."""

    def acquire(self, stage: int) -> None:
        """Wait until the place of *stage* is free."""

    def commit(self, stage: int) -> None:
        """Close *stage*."""

    def wait(self, stage: int, committed: int) -> None:
        """Wait for *stage*; *committed* stages have been closed."""

    def release(self, stage: int) -> None:
        """Free the place of *stage*."""


class _Groups:
    """Groups of cp.async, of each thread."""

    def acquire(self, stage: int) -> None:
        """Wait for nothing: what a thread has released, it does not read any more."""

    def commit(self, stage: int) -> None:  # noqa: ARG002 - groups are counted by the thread
        commit_group()

    def wait(self, stage: int, committed: int) -> None:
        wait_group(committed - stage - 1)

    def release(self, stage: int) -> None:
        """Tell nobody."""


class _Barriers:
    """Two mbarriers for each stage."""

    def __init__(self, stages: int) -> None:
        threads = running().threads
        self._full = [Mbarrier(threads) for _ in range(stages)]
        self._empty = [Mbarrier(threads) for _ in range(stages)]
        syncthreads()

    def acquire(self, stage: int) -> None:
        turn, place = divmod(stage, len(self._empty))
        if turn:
            self._empty[place].wait((turn - 1) & 1)

    def commit(self, stage: int) -> None:
        cp_async_mbarrier_arrive(self._full[stage % len(self._full)], noinc=True)

    def wait(self, stage: int, committed: int) -> None:  # noqa: ARG002 - the barrier knows
        turn, place = divmod(stage, len(self._full))
        self._full[place].wait(turn & 1)

    def release(self, stage: int) -> None:
        self._empty[stage % len(self._empty)].arrive()


class Pipeline:
    """A first-in, first-out queue of stages; the same calls for all active threads."""

    __slots__ = ("_acquired", "_committed", "_has_quit", "_link", "_made", "_released", "stages")

    def __init__(self, stages: int, scope: Scope) -> None:
        if stages < 1:
            raise KernelError(f"a pipeline with {stages} stages at {site()}", "give 1 or more")
        self.stages = stages
        self._made = site()
        self._link: _Link = _Barriers(stages) if scope is Scope.BLOCK else _Groups()
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
        self._link.acquire(self._acquired)
        self._acquired += 1

    def producer_commit(self) -> None:
        """Close the stage that was acquired: it has the copies that were started since the last commit."""
        self._check("producer_commit")
        if self._committed == self._acquired:
            raise KernelError(f"producer_commit() at {site()} without producer_acquire() in {self!r}")
        self._link.commit(self._committed)
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
        self._link.release(self._released)
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
        self._link.wait(stage, self._committed)

    def _check(self, call: str) -> None:
        if self._has_quit:
            raise KernelError(f"{call}() at {site()} after quit() of {self!r}")


def pipeline(stages: int = 2, scope: Scope | str = Scope.THREAD) -> Pipeline:
    """Return a pipeline with *stages* stages (cuda::make_pipeline).

    Args:
        stages: How many stages may be in use at the same time.
        scope: "thread", or "block" for stages that all threads share.
    """
    return Pipeline(stages, Scope(scope))
