"""Locks and flags: what blocks know of each other.

A thread that releases something shows what its warp did before, and what the whole block did before its last barrier. A
thread that acquires something lets its warp know what was shown, and after the next barrier its block. Which lock or
flag it was is not looked at, and fences are not: `fences` has those.
"""

import numpy as np

from device_model.ptx.checks.order import Order
from device_model.ptx.lanes.group import WARP, Array, Group, Ints, Lanes
from device_model.ptx.lanes.launch import Launch


class Flags:
    """The uses of locks and flags in a launch, as stamps."""

    __slots__ = ("_acquired", "_released", "_seen", "_shown", "_warps")

    def __init__(self, launch: Launch) -> None:
        self._warps = -(-launch.threads // WARP)
        self._released = np.zeros(launch.blocks * self._warps, np.int64)  # by warp: its last release
        self._acquired = np.zeros(launch.blocks * self._warps, np.int64)
        self._shown = np.zeros(launch.blocks, np.int64)  # by block: a thread has shown what all did before
        self._seen = np.zeros(launch.blocks, np.int64)  # by block: all know what was shown before

    def use(self, at: Lanes, order: Order, now: int, *, releases: bool, acquires: bool) -> None:
        """The lanes release or acquire something."""
        warp = self._warps_of(at)
        if releases:
            self._released[warp] = now
            own = at.block.reshape(-1)
            self._shown[own + at.group.first] = order.any_floor[own]
        if acquires:
            self._acquired[warp] = now

    def barrier(self, group: Group, blocks: Array) -> None:
        """Threads of *blocks*, a mask, have waited for each other."""
        own = np.flatnonzero(blocks) + group.first
        self._seen[own] = self._acquired.reshape(-1, self._warps)[own].max(1)

    def know(self, block: Ints, thread: Ints, other_block: Ints, other: Ints, stamp: Ints) -> Array:
        """Return for each access of a thread of another block whether *thread* of *block* knows that it is over."""
        seen = np.maximum(self._seen[block], self._acquired[block * self._warps + thread // WARP])
        return np.asarray(self.shows(other_block, other, stamp) & (stamp < seen))

    def shows(self, block: Ints, thread: Ints, stamp: Ints) -> Array:
        """Return for each access of *thread* of *block* whether the block has shown it to others."""
        shown = np.maximum(self._shown[block], self._released[block * self._warps + thread // WARP])
        return np.asarray(stamp < shown)

    def _warps_of(self, at: Lanes) -> Ints:
        """Return the number in the launch of the warp of each lane."""
        block, thread = np.broadcast_arrays(at.block, at.thread)
        return np.asarray(((block + at.group.first) * self._warps + thread // WARP).reshape(-1))
