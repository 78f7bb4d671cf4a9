"""The registers of a thread: what its code needs, within the bounds that the text sets."""

from math import prod

from device_model.ptx.lanes.program import Program
from device_model.sm.occupancy import WARP
from device_model.sm.spec import SmSpec

_MOST = 255  # that an instruction can name
_LEAST_BOUND = 24  # an assembler raises .maxnreg to it
_STEP = 8  # in which launch bounds give registers


def registers_of(program: Program, spec: SmSpec) -> int:
    """Return the registers of a thread of *program*."""
    return min(
        program.pressure, _MOST, max(_LEAST_BOUND, *program.limits.get("maxnreg", (_MOST,))), _bound(program, spec)
    )


def _bound(program: Program, spec: SmSpec) -> int:
    """Return how many registers leave room for the blocks that the text wants on an SM, one if it says only how large.

    More blocks than an SM holds are ignored, as an assembler does.
    """
    threads = prod(program.limits.get("reqntid", program.limits.get("maxntid", (0,))))
    if not 0 < threads <= spec.block_threads:
        return _MOST
    warps, blocks = -(-threads // WARP), program.limits.get("minnctapersm", (1,))[0]
    if blocks > spec.blocks or blocks * warps > spec.warps:
        blocks = 1
    return spec.registers // (blocks * warps * WARP) // _STEP * _STEP
