"""Occupancy: how many blocks of a kernel an SM holds at a time."""

from device_model.cta.spec import SmSpec

WARP = 32  # threads


def resident_blocks(threads: int, registers: int, shared: int, spec: SmSpec) -> int:
    """Return how many blocks of *threads* threads fit on an SM; 0 if not even one does.

    Args:
        threads: Threads of a block.
        registers: Registers of a thread.
        shared: Bytes of shared memory of a block, static and dynamic.
        spec: The SM.
    """
    warps = -(-threads // WARP)
    per_warp = -(-registers * WARP // spec.register_unit) * spec.register_unit
    return min(
        spec.blocks,
        spec.warps // warps,
        spec.registers // max(1, per_warp * warps),
        spec.shared // (shared + spec.block_shared_reserved),
    )
