"""Fences: what blocks know of each other by locks and flags, where fences stand around these.

Memory keeps an order only where the text asks for one. A store of a flag shows what came before the last fence in front
of it, or everything if it is a release. A load of a flag lets its warp know what was shown once a fence comes behind
it, or at once if it is an acquire. A barrier of the block hands both on. The fences of its other threads count for the
thread that stores the flag. Behind the load of a flag a barrier counts as a fence, because the vendor's own reductions
by the last block have no other.
"""

import numpy as np

from device_model.ptx.checks.flags import Flags
from device_model.ptx.checks.lines import Access
from device_model.ptx.checks.order import Order
from device_model.ptx.lanes.group import Array, Group, Lanes
from device_model.ptx.lanes.launch import Launch


class Fences(Flags):
    """The uses of locks and flags in a launch, and the fences, as stamps.

    Of each warp it has what came before its last fence, and its last load of a flag. Of each block it has what came
    before a barrier that a fence of any thread came behind.
    """

    __slots__ = ("_covered", "_fenced", "_loaded")

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch)
        self._fenced, self._loaded = np.zeros((2, len(self._released)), np.int64)
        self._covered = np.zeros(launch.blocks, np.int64)

    def fence(self, at: Lanes, order: Order, now: int) -> None:
        """The lanes run a fence, after the access *now*."""
        warp, own = self._warps_of(at), at.block.reshape(-1)
        self._fenced[warp] = now + 1
        self._covered[own + at.group.first] = order.any_floor[own]
        self._acquired[warp] = np.maximum(self._acquired[warp], self._loaded[warp])

    def use_as(self, access: Access, at: Lanes, order: Order, now: int, *, is_inner: bool) -> None:
        """The lanes use a lock or a flag by *access*; *is_inner* says that it is in shared memory."""
        is_release, is_acquire = access.is_release or is_inner, access.is_acquire or is_inner
        self.use(at, order, now, releases=access.releases and is_release, acquires=access.acquires and is_acquire)
        if access.releases and not is_release:
            self._show(at, order)
        if access.acquires and not is_acquire:
            self._loaded[self._warps_of(at)] = now

    def barrier(self, group: Group, blocks: Array) -> None:
        """Threads of *blocks*, a mask, have waited for each other."""
        super().barrier(group, blocks)
        own = np.flatnonzero(blocks) + group.first
        loaded = self._loaded.reshape(-1, self._warps)[own].max(1)
        self._seen[own] = np.maximum(self._seen[own], loaded)

    def _show(self, at: Lanes, order: Order) -> None:
        """Show what came before the last fences of the warps of *at*, and of the other warps before their barriers."""
        warp, own = self._warps_of(at), np.unique(at.block)
        first = own + at.group.first
        released, fenced = (each.reshape(-1, self._warps) for each in (self._released, self._fenced))
        released[first] = np.maximum(released[first], np.minimum(fenced[first], order.any_floor[own][:, None]))
        self._released[warp] = np.maximum(self._released[warp], self._fenced[warp])
        self._shown[first] = np.maximum(self._shown[first], self._covered[first])
