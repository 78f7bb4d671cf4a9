"""Instructions at which the lanes of a warp meet: those that come first wait for the others that the mask names."""

import numpy as np

from device_model.ptx.lanes.group import WARP, Array, Group, Lanes
from device_model.ptx.lanes.program import Code


class Meetings:
    """The lanes of a group that wait for others of their warps, by the place of the block of code that they wait at."""

    __slots__ = ("_group", "waiting")

    def __init__(self, group: Group) -> None:
        self._group = group
        self.waiting: dict[int, Lanes] = {}

    def complete(self, block: Code, lanes: Lanes, ended: Array | None) -> Lanes | None:
        """Return those of *lanes* whose warps are complete at *block*; the others wait there.

        Args:
            block: Which lanes meet there is in its `meets`.
            lanes: All that have come.
            ended: Which lanes of the group have ended, for which no lane waits; None if none has.
        """
        assert block.meets is not None, "the block waits for lanes"
        group = self._group
        group.launch.line = block.line
        named = block.meets(lanes)
        if lanes.index is not None:
            is_ready = self._is_ready(lanes, named, ended)
            if not is_ready.all():
                self.waiting[block.number] = Lanes(group, lanes.index[~is_ready])
                if not is_ready.any():
                    return None
                lanes = Lanes(group, lanes.index[is_ready])
                named = block.meets(lanes)
        for watch in group.launch.watches:
            watch.meet(lanes, named)
        return lanes

    def _is_ready(self, lanes: Lanes, named: Array, ended: Array | None) -> Array:
        """Return for which of *lanes* all that their masks *named* have come."""
        group = self._group
        warps = -(-group.threads // WARP)
        warp = (lanes.block * warps + lanes.thread // WARP)[0]
        here, wanted = np.zeros((2, group.blocks * warps), np.int64)
        np.bitwise_or.at(here, warp, np.int64(1) << (lanes.thread[0] % WARP))
        np.bitwise_or.at(wanted, warp, np.broadcast_to(named, lanes.shape)[0].astype(np.int64))
        return np.asarray((wanted & self._alive(warps, ended) & ~here == 0)[warp])

    def _alive(self, warps: int, ended: Array | None) -> Array:
        """Return the lanes of each warp that have not ended, as bits."""
        group = self._group
        lanes = np.zeros((group.blocks, warps * WARP), np.bool_)
        lanes[:, : group.threads] = True
        if ended is not None:
            lanes[:, : group.threads] &= ~ended.reshape(group.blocks, group.threads)
        return np.asarray(lanes.reshape(-1, WARP) @ (np.int64(1) << np.arange(WARP)))
