"""What the lanes of a warp do together: shuffles and votes. Only active lanes take part."""

from typing import Any

import numpy as np

from device_model.cta.block import running
from device_model.cta.language.registers import Register, check_set, ids_of, marked, register, values_of
from device_model.kernel.findings import KernelError
from device_model.kernel.sites import site
from device_model.sm.instructions import Op
from device_model.sm.names import WARP, Ints


def shfl(value: Any, lane: Any, width: int = WARP) -> Register:
    """Return the value of *lane*, in each group of *width* lanes (__shfl_sync)."""
    lanes = _lanes(width)
    return marked(_shuffle(value, lanes - lanes % width + values_of(running(), lane) % width, "shfl.idx"), lane)


def shfl_up(value: Any, delta: int, width: int = WARP) -> Register:
    """Return the value of the lane *delta* below; the lowest lanes keep theirs (__shfl_up_sync)."""
    lanes = _lanes(width)
    return _shuffle(value, np.where(lanes % width >= delta, lanes - delta, lanes), "shfl.up")


def shfl_down(value: Any, delta: int, width: int = WARP) -> Register:
    """Return the value of the lane *delta* above; the highest lanes keep theirs (__shfl_down_sync)."""
    lanes = _lanes(width)
    return _shuffle(value, np.where(lanes % width + delta < width, lanes + delta, lanes), "shfl.down")


def shfl_xor(value: Any, mask: int, width: int = WARP) -> Register:
    """Return the value of the lane whose number is this one's with the bits of *mask* flipped (__shfl_xor_sync).

    That lane may be in an earlier group of *width* lanes; a lane whose other one is in a later group keeps its value.
    """
    lanes = _lanes(width)
    other = lanes ^ mask
    return _shuffle(value, np.where(other // width <= lanes // width, other, lanes), "shfl.bfly")


def ballot(condition: Any) -> Register:
    """Return for each thread the lanes of its warp for which *condition* is true, a bit each (__ballot_sync)."""
    bits = np.uint32(1) << (np.arange(WARP, dtype=np.uint32))
    votes = _votes(condition)
    return _vote((votes * bits).sum(axis=1, dtype=np.uint32), condition, "vote.ballot")


def any_sync(condition: Any) -> Register:
    """Return for each thread whether *condition* is true for a lane of its warp (__any_sync)."""
    return _vote(_votes(condition).any(axis=1), condition, "vote.any")


def all_sync(condition: Any) -> Register:
    """Return for each thread whether *condition* is true for all active lanes of its warp (__all_sync)."""
    return _vote(~_votes(~values_of(running(), condition)).any(axis=1), condition, "vote.all")


def _lanes(width: int) -> Ints:
    if width not in (1, 2, 4, 8, 16, 32):
        raise KernelError(f"a shuffle of width {width} at {site()}", "give a power of two up to 32")
    return running().tids % WARP


def _shuffle(value: Any, lanes: Any, name: str) -> Register:
    """Return the values of *lanes* of the same warp."""
    block = running()
    values = values_of(block, value)
    warps = block.tids // WARP * WARP
    source = np.minimum(warps + lanes, block.threads - 1)
    result = values[source]
    writes = (block.register(),)
    count = values.size // block.threads * max(values.dtype.itemsize // 4, 1)
    block.issue(Op.SHUFFLE, name, count=count, reads=ids_of(value), writes=writes)
    shuffled = register(result, writes, (value,))
    if shuffled.name.threads is not None:  # a lane has a value if the lane has set it that gives it
        shuffled.name.threads = shuffled.name.threads[source] & block.mask()
    return shuffled


def _votes(condition: Any) -> Any:
    """Return the votes of active lanes as (warps, 32)."""
    block = running()
    check_set(condition)
    votes = np.zeros(block.warps * WARP, np.bool_)
    votes[block.active] = values_of(block, condition)[block.active]
    return votes.reshape(block.warps, WARP)


def _vote(by_warp: Any, condition: Any, name: str) -> Register:
    block = running()
    writes = (block.register(),)
    block.issue(Op.SHUFFLE, name, reads=ids_of(condition), writes=writes)
    return marked(register(np.repeat(by_warp, WARP)[: block.threads], writes, ()), condition)
