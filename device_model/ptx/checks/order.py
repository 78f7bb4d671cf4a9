"""Order: which accesses of its block a thread knows to be over.

Each access of a launch has a stamp that goes up. A thread knows an access if

* it made the access itself,
* a barrier of the whole block came after the access (`floor`),
* a meeting of its whole warp came after an access of the warp (`_warp_floor`),
* lanes of its warp met in parts (`_lanes`), or warps of its block did (`_warps`), or
* the other thread released it, and the thread has acquired something since: a lock, or a flag.

Tables of lanes by lanes and of warps by warps are made when a kernel needs them, and most do not.
"""

import numpy as np

from device_model.ptx.lanes.group import WARP, Array, Group, Ints, Lanes


class Order:
    """What the threads of the blocks of *group* know about each other's accesses."""

    __slots__ = (
        "_acquired",
        "_group",
        "_lanes",
        "_released",
        "_warp_floor",
        "_warps",
        "any_floor",
        "floor",
        "highest",
        "lowest",
    )

    def __init__(self, group: Group) -> None:
        warps = -(-group.threads // WARP)
        self._group = group
        self.floor = np.ones(group.blocks, np.int64)  # by block: all its threads know what came before it
        self.any_floor = np.ones(group.blocks, np.int64)  # by block: some of its threads know what came before it
        self.lowest = self.highest = 1  # of the floors
        self._warp_floor = np.zeros((group.blocks, warps), np.int64)
        self._lanes: Array | None = None  # [lane, lane of its warp]: it knows what that one did before
        self._warps: Array | None = None  # [block, warp, warp]: its lanes know what those of that one did before
        self._released: Array | None = None  # [block, thread]
        self._acquired: Array | None = None

    def barrier(self, blocks: Array, now: int) -> None:
        """All threads of *blocks*, a mask, have waited for each other: accesses from *now* on come later."""
        self.floor[blocks] = self.any_floor[blocks] = now
        self.lowest, self.highest = int(self.floor.min()), int(self.floor.max())

    def part(self, blocks: Ints, arrived: Array, waits: Array) -> None:
        """Some threads of *blocks* have waited for each other.

        Args:
            blocks: The numbers of the blocks.
            arrived: By block and warp: the stamp at its arrival; 0 if it has not arrived.
            waits: By block and warp: whether it has waited, so that it knows what the others did.
        """
        count = self._warp_floor.shape
        if self._warps is None:
            self._warps = np.zeros((*count, count[1]), np.int64)
        self.any_floor[blocks] = arrived.max(1)
        known = self._warps[blocks]
        told = np.where((arrived > 0)[:, :, None], known, 0).max(1)
        told = np.maximum(told, arrived)
        self._warps[blocks] = np.where(waits[:, :, None], np.maximum(known, told[:, None, :]), known)

    def meet(self, at: Lanes, members: Array, now: int) -> None:
        """The lanes have met those of their warps that *members* names, as bits."""
        if at.index is None and members.size == 1 and int(members.reshape(-1)[0]) == 0xFFFFFFFF:
            self._warp_floor[:] = now
            return
        group = self._group
        lanes = at.flat.reshape(-1)
        block, thread = np.divmod(lanes, group.threads)
        warp = block * self._warp_floor.shape[1] + thread // WARP
        named = np.broadcast_to(members, at.shape).reshape(-1).astype(np.int64) & 0xFFFFFFFF
        if self._lanes is None:
            self._lanes = np.zeros((group.width, WARP), np.int64)
        first = named & -named  # lanes that name the same others meet each other
        order = np.lexsort((first, warp))
        begins = np.flatnonzero(np.diff(warp[order], prepend=-1) | np.diff(first[order], prepend=-1))
        known = np.maximum.reduceat(self._lanes[lanes[order]], begins)
        known[((named[order][begins][:, None] >> np.arange(WARP)) & 1) != 0] = now
        counts = np.diff(begins, append=len(lanes))
        self._lanes[lanes[order]] = np.repeat(known, counts, 0)

    def synchronise(self, at: Lanes, now: int, *, releases: bool, acquires: bool) -> None:
        """The lanes use a lock or a flag."""
        if self._released is None or self._acquired is None:
            shape = self._group.blocks, self._group.threads
            self._released, self._acquired = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        where = slice(None) if at.index is None else at.index
        if releases:
            self._released.reshape(-1)[where] = now
        if acquires:
            self._acquired.reshape(-1)[where] = now

    def knows(self, block: Ints, thread: Ints, other: Ints, stamp: Ints) -> Array:
        """Return for each access of the thread *other* whether *thread*, of the same *block*, knows that it is over."""
        warp, other_warp = thread // WARP, other // WARP
        known = (thread == other) | (stamp < self.floor[block])
        known |= (warp == other_warp) & (stamp < self._warp_floor[block, warp])
        if self._lanes is not None:
            lane = block * self._group.threads + thread
            known |= (warp == other_warp) & (stamp < self._lanes[lane, other % WARP])
        if self._warps is not None:
            known |= stamp < self._warps[block, warp, other_warp]
        if self._released is not None and self._acquired is not None:
            known |= (stamp < self._of_warp(self._released, block, other, thread)) & (
                stamp < self._of_warp(self._acquired, block, thread, other)
            )
        return np.asarray(known)

    def _of_warp(self, stamps: Array, block: Ints, thread: Ints, other: Ints) -> Array:
        """Return the stamp of *thread*; for another warp than that of *other*, the last one of its whole warp."""
        warps = self._warp_floor.shape[1]
        whole = np.zeros((len(stamps), warps * WARP), np.int64)
        whole[:, : stamps.shape[1]] = stamps
        of_warp = whole.reshape(len(stamps), warps, WARP).max(2)
        is_same = thread // WARP == other // WARP
        return np.where(is_same, stamps[block, thread], of_warp[block, thread // WARP])
