"""Occupancy: how many blocks of a kernel an SM holds at a time."""

from collections.abc import Mapping
from typing import NamedTuple

from device_model.cta.spec import SmSpec

WARP = 32  # threads


class Occupancy(NamedTuple):
    """How many blocks an SM holds, and why not more.

    Attributes:
        warps: Warps of a block.
        limits: How many blocks each resource allows: "blocks", "threads", "registers", "shared memory".
        most_warps: How many warps an SM holds of any kernel.
    """

    warps: int
    limits: Mapping[str, int]
    most_warps: int

    @property
    def blocks(self) -> int:
        """Blocks that an SM holds at a time; 0 if not even one fits."""
        return min(self.limits.values())

    @property
    def limiters(self) -> list[str]:
        """The resources that allow no more blocks."""
        return [name for name, blocks in self.limits.items() if blocks == self.blocks]

    @property
    def share(self) -> float:
        """The part of the warps that an SM can hold (0 to 1)."""
        return self.blocks * self.warps / self.most_warps


def occupancy(threads: int, registers: int, shared: int, spec: SmSpec) -> Occupancy:
    """Return how many blocks of *threads* threads fit on an SM, and what limits them.

    Args:
        threads: Threads of a block.
        registers: Registers of a thread.
        shared: Bytes of shared memory of a block, static and dynamic.
        spec: The SM.
    """
    warps = -(-threads // WARP)
    per_warp = -(-registers * WARP // spec.register_unit) * spec.register_unit
    limits = {
        "blocks": spec.blocks,
        "threads": spec.warps // warps,
        "registers": spec.registers // max(1, per_warp * warps),
        "shared memory": spec.shared // (shared + spec.block_shared_reserved),
    }
    return Occupancy(warps, limits, spec.warps)


def resident_blocks(threads: int, registers: int, shared: int, spec: SmSpec) -> int:
    """Return how many blocks fit on an SM; 0 if not even one does. The arguments are those of `occupancy`."""
    return occupancy(threads, registers, shared, spec).blocks
