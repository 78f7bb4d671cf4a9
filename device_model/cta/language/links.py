"""Links between the stages of a block: slots in shared memory, handed over by groups of copies or by mbarriers.

The four verbs are those of kernel/stages.py. `ThreadLink` hands a slot over within each thread, as cuda::pipeline of
scope thread does; `GroupLink` adds the two barriers that make it one of the block; `BarrierLink` uses mbarriers.
"""

from collections.abc import Sequence

import numpy.typing as npt

from device_model.cta.block import running
from device_model.cta.language.barriers import Mbarrier, cp_async_mbarrier_arrive, syncthreads
from device_model.cta.language.copies import commit_group, wait_group
from device_model.cta.language.tensors import Tensor, shared

Shapes = Sequence[tuple[npt.DTypeLike, tuple[int, ...] | int]]  # type and shape of each array of a slot
Tensors = tuple[Tensor, ...]


class _Slots:
    """The arrays of *depth* slots, and how many were acquired, committed and released."""

    def __init__(self, depth: int, shapes: Shapes = ()) -> None:
        self._depth = depth
        arrays = [shared(dtype, (depth, *((shape,) if isinstance(shape, int) else shape))) for dtype, shape in shapes]
        self._slots: list[Tensors] = [tuple(array[slot] for array in arrays) for slot in range(depth)]
        self._acquired = self._committed = self._released = 0

    @property
    def ahead(self) -> int:
        """A warp issues in order, so copies run beside arithmetic only if they are issued before it."""
        return self._depth - 1

    def acquire(self) -> Tensors:
        """Return the arrays of the next slot."""
        self._acquired += 1
        return self._slots[(self._acquired - 1) % self._depth]

    def commit(self) -> None:
        """Count a slot as full."""
        self._committed += 1

    def wait(self, later: int = 0) -> Tensors:
        """Return the arrays of the oldest slot that is not released, or of one *later* ones behind it."""
        return self._slots[(self._released + later) % self._depth]

    def release(self) -> None:
        """Count a slot as free."""
        self._released += 1

    def close(self) -> None:
        """Do nothing: all slots are released."""


class ThreadLink(_Slots):
    """Groups of cp.async, of each thread; what a thread has released, it does not read any more."""

    def commit(self) -> None:
        """Make a group of the copies since the last commit."""
        commit_group()
        super().commit()

    def wait(self, later: int = 0) -> Tensors:
        """Wait for the group of the slot."""
        wait_group(self._committed - self._released - later - 1)
        return super().wait(later)


class GroupLink(ThreadLink):
    """Groups of cp.async, and syncthreads to hand slots over to all threads."""

    def wait(self, later: int = 0) -> Tensors:
        """Wait for the group of the slot, in all threads."""
        tensors = super().wait(later)
        syncthreads()
        return tensors

    def release(self) -> None:
        """Wait until no thread reads the slot any more."""
        syncthreads()
        super().release()


class BarrierLink(_Slots):
    """Two mbarriers for each slot: *full* and *empty*. The stage before fills it with copies only, not with stores."""

    def __init__(self, depth: int, shapes: Shapes = ()) -> None:
        super().__init__(depth, shapes)
        threads = running().threads
        self._full = [Mbarrier(threads) for _ in range(depth)]
        self._empty = [Mbarrier(threads) for _ in range(depth)]
        syncthreads()

    def acquire(self) -> Tensors:
        """Wait until all threads have released the slot."""
        uses, place = divmod(self._acquired, self._depth)
        if uses:
            self._empty[place].wait((uses - 1) & 1)
        return super().acquire()

    def commit(self) -> None:
        """Arrive at *full* when the copies so far are there."""
        cp_async_mbarrier_arrive(self._full[self._committed % self._depth], noinc=True)
        super().commit()

    def wait(self, later: int = 0) -> Tensors:
        """Wait until the copies of all threads are there."""
        uses, place = divmod(self._released + later, self._depth)
        self._full[place].wait(uses & 1)
        return super().wait(later)

    def release(self) -> None:
        """Arrive at *empty*."""
        self._empty[self._released % self._depth].arrive()
        super().release()
