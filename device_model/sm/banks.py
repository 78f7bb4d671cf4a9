"""Bank conflicts in shared memory, and sectors of global memory, counted from the addresses of the lanes of a warp.

Shared memory has 32 banks of 4 bytes each. In a phase each bank serves one word, to all lanes that want it. An access
is made in passes: 32 lanes with 4 bytes each, 16 with 8, 8 with 16, so that a pass moves up to 128 bytes. A pass takes
as many phases as the busiest bank has different words in it. ldmatrix makes a pass for each matrix, with the 8 lanes
that give its rows.

A load of 8 or 16 bytes makes half as many passes, each with twice the lanes, in two cases: every lane has the same
address as lane `i ^ 1`, or every lane has the same as lane `i ^ 2`. One lane that differs is enough against it, and
other ways to share words do not help. Stores never do this. All of it was measured on an H200 (docs/accuracy.md); that
lanes that are not active agree with all others is assumed.

Addresses are arrays of shape (..., 32), in bytes: one warp or many.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from device_model.sm.names import MATRIX_ROW, WARP, Bools, Ints

BANKS = 32
WORD = 4  # bytes
SECTOR = 32  # bytes of global memory that are moved together


class Traffic(NamedTuple):
    """What an access does in shared memory, for each warp.

    Attributes:
        phases: Phases in all.
        ways: Phases of the pass that has most of them: 1 if no banks conflict.
        joins: Passes of a load of 8 or 16 bytes but the first, each of which completes the registers of some lanes. 0
            for stores and for ldmatrix, each pass of which completes one register of all lanes.
        passes: Passes in which a lane takes part: as many phases as there would be without conflicts.
    """

    phases: Ints
    ways: Ints
    joins: Ints
    passes: Ints


class SharedMemory(Protocol):
    """What a profile says of shared memory, in cycles."""

    @property
    def lds(self) -> int:
        """From a load to an instruction that needs its value, without its phases."""

    @property
    def lds_join(self) -> int:
        """In addition, for each join."""

    @property
    def phase(self) -> int:
        """From one phase of a warp to its next; phases of other warps come in between."""


def load(addresses: Ints, width: int, active: Bools | None = None) -> Traffic:
    """Return the traffic of a load of *width* bytes by each lane.

    Args:
        addresses: Byte addresses, multiples of *width*.
        width: 4, 8 or 16; narrower loads count as 4.
        active: Which lanes take part, in the shape of the addresses; all by default.
    """
    lanes = _lanes_of_a_pass(width)
    apart = _traffic(_passes(addresses, width, lanes, active), is_joined=True)
    if width <= WORD:
        return apart
    is_merged = _agree(addresses, 1, active) | _agree(addresses, 2, active)
    if not is_merged.any():
        return apart
    together = _traffic(_passes(addresses, width, 2 * lanes, active), is_joined=True)
    return Traffic(*(np.where(is_merged, *pair) for pair in zip(together, apart, strict=True)))


def store(addresses: Ints, width: int, active: Bools | None = None) -> Traffic:
    """Return the traffic of a store of *width* bytes by each lane; the arguments are those of `load`."""
    return _traffic(_passes(addresses, width, _lanes_of_a_pass(width), active), is_joined=False)


def load_matrices(addresses: Ints, count: int) -> Traffic:
    """Return the traffic of ldmatrix of *count* matrices, transposed or not, whose rows are at these addresses."""
    return _traffic(_passes(addresses[..., : 8 * count], MATRIX_ROW, 8, None), is_joined=False)


def sectors(addresses: Ints, width: int, active: Bools | None = None) -> Ints:
    """Return how many sectors of global memory each warp touches with *width* bytes per lane.

    An element that is not aligned to its width may touch two.
    """
    first, last = addresses // SECTOR, (addresses + width - 1) // SECTOR
    both = np.concatenate([first, last], -1)
    if active is not None:
        both = np.where(np.concatenate([active, active], -1), both, -1)
    return np.asarray(_is_new(np.sort(both, -1)).sum(-1))


def load_cycles(spec: SharedMemory, traffic: Traffic, warps: int, between: float = 0) -> NDArray[np.float64]:
    """Return the cycles from one load of a warp to its next, which depends on the value of the first.

    Args:
        spec: The latencies.
        traffic: What each load does.
        warps: How many warps of the SM do the same.
        between: Cycles from the arrival of a value to the load that depends on it.

    Returns:
        The latency, unless the loads of all warps together have more phases than fit in that time.
    """
    latency = spec.lds + spec.phase * traffic.phases + spec.lds_join * traffic.joins
    return np.asarray(np.maximum(latency + between, warps * traffic.phases))


def store_cycles(spec: SharedMemory, traffic: Traffic, warps: int, between: float = 0) -> NDArray[np.float64]:
    """Return the cycles from one store of a warp to its next, while *warps* warps of the SM do the same.

    A warp does not wait for its stores; `between` are the cycles from one to the next if memory is not the limit.
    """
    return np.asarray(np.maximum(between, max(spec.phase, warps) * traffic.phases))


def _lanes_of_a_pass(width: int) -> int:
    return WARP * WORD // max(width, WORD)


def _agree(addresses: Ints, distance: int, active: Bools | None) -> Bools:
    """Return whether each lane i of a warp has the address of lane `i ^ distance`."""
    partner = np.arange(WARP) ^ distance
    agree = addresses == addresses[..., partner]
    if active is not None:
        agree |= ~(active & active[..., partner])
    return np.asarray(agree.all(-1))


def _traffic(phases: Ints, *, is_joined: bool) -> Traffic:
    """Return the traffic of passes with so many phases, by the last axis."""
    passes = (phases > 0).sum(-1)
    joins = np.maximum(passes - 1, 0) if is_joined else np.zeros_like(phases[..., 0])
    return Traffic(phases.sum(-1), phases.max(-1), joins, passes)


def _passes(addresses: Ints, width: int, lanes: int, active: Bools | None) -> Ints:
    """Return the phases of each pass of so many lanes: shape (..., passes).

    Addresses are multiples of the width, so it is enough to count pieces of that width in their groups of banks.
    """
    groups = _lanes_of_a_pass(width)
    pieces = addresses >> max(width, WORD).bit_length() - 1
    if active is not None:
        pieces = np.where(active, pieces, -1)
    pieces = np.sort(pieces.reshape(*addresses.shape[:-1], -1, lanes), -1)
    passes = np.arange(pieces[..., 0].size).reshape(*pieces.shape[:-1], 1)
    used = (passes * groups + (pieces & groups - 1))[_is_new(pieces)]
    counts = np.bincount(used.astype(np.intp), minlength=passes.size * groups)
    return np.asarray(counts.reshape(*pieces.shape[:-1], groups).max(-1))


def _is_new(values: Ints) -> Bools:
    """Return which of the sorted values are none of those before, along the last axis; -1 is no value."""
    is_new = values >= 0
    is_new[..., 1:] &= values[..., 1:] != values[..., :-1]
    return is_new
