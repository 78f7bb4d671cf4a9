"""Occupancy: how many blocks of a kernel an SM holds at a time."""

from typing import NamedTuple

from device_model.sm.spec import SmSpec

WARP = 32  # threads


class Occupancy(NamedTuple):
    """How many blocks of a kernel an SM holds, and why not more.

    Attributes:
        threads: Threads of a block.
        registers: Registers of a thread.
        shared: Bytes of shared memory of a block, static and dynamic.
        spec: The SM.
    """

    threads: int
    registers: int
    shared: int
    spec: SmSpec

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.threads // WARP)

    @property
    def limits(self) -> dict[str, int]:
        """How many blocks each resource allows."""
        spec = self.spec
        per_warp = -(-self.registers * WARP // spec.register_unit) * spec.register_unit
        return {
            "blocks": spec.blocks,
            "threads": spec.warps // self.warps,
            "registers": spec.registers // max(1, per_warp * self.warps),
            "shared memory": spec.shared // (self.shared + spec.block_shared_reserved),
        }

    @property
    def blocks(self) -> int:
        """Blocks that an SM holds at a time; 0 if not even one fits."""
        return min(self.limits.values())

    @property
    def limiters(self) -> list[str]:
        """The resources that allow no more blocks."""
        limits = self.limits
        return [name for name, blocks in limits.items() if blocks == min(limits.values())]

    @property
    def share(self) -> float:
        """The part of the warps that an SM can hold (0 to 1)."""
        return self.blocks * self.warps / self.spec.warps


def resident_blocks(threads: int, registers: int, shared: int, spec: SmSpec) -> int:
    """Return how many blocks fit on an SM; 0 if not even one does. The arguments are those of `Occupancy`."""
    return Occupancy(threads, registers, shared, spec).blocks
