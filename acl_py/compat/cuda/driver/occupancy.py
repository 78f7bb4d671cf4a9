"""Occupancy: how many blocks of a kernel an SM holds."""

import ctypes
from collections.abc import Callable
from math import prod

from acl_py.compat.cuda.driver.devices import sm_of
from acl_py.compat.cuda.driver.launches import ONE_BLOCK, config_at
from acl_py.compat.cuda.driver.modules import Function
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver

_WARP = 32
_SharedOf = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)


def _blocks(driver: Driver, function: Function, threads: int, shared: int) -> int:
    if threads < 1:
        raise RefusedError(INVALID_VALUE, f"blocks of {threads} threads")
    needs = function.kernel.needs(driver.runtime)
    return needs.resident(threads, shared) if threads <= needs.block_threads else 0


@answers("cuOccupancyMaxActiveBlocksPerMultiprocessor")
async def active_blocks(driver: Driver, function: Function, threads: int, shared: int) -> int:
    """How many blocks an SM holds."""
    return _blocks(driver, function, threads, shared)


@answers("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
async def active_blocks_with_flags(driver: Driver, function: Function, threads: int, shared: int, _flags: int) -> int:
    """How many blocks an SM holds."""
    return _blocks(driver, function, threads, shared)


@answers("cuOccupancyMaxPotentialBlockSize")
async def block_size(driver: Driver, function: Function, shared_of: int, shared: int, limit: int) -> tuple[int, int]:
    """The least grid that fills the device, and the block with which it does."""
    return _best(driver, function, _shared(shared_of, shared), limit)


@answers("cuOccupancyMaxPotentialBlockSizeWithFlags")
async def block_size_with_flags(
    driver: Driver, function: Function, shared_of: int, shared: int, limit: int, _flags: int
) -> tuple[int, int]:
    """The least grid that fills the device, and the block with which it does."""
    return _best(driver, function, _shared(shared_of, shared), limit)


def _shared(function: int, shared: int) -> Callable[[int], int]:
    """Return how many bytes of dynamic shared memory a block of so many threads has."""
    return _SharedOf(function) if function else lambda _: shared


def _best(driver: Driver, function: Function, shared: Callable[[int], int], limit: int) -> tuple[int, int]:
    """Of blocks with which an SM holds most threads, the largest one."""
    most = function.kernel.needs(driver.runtime).block_threads
    sizes = range(min(limit, most) // _WARP * _WARP if limit > 0 else most, 0, -_WARP)
    held = {size: _blocks(driver, function, size, shared(size)) for size in sizes}
    best = max(held, key=lambda size: held[size] * size, default=0)
    if not best or not held[best]:
        raise RefusedError(INVALID_VALUE, f"an SM holds no block of {function.kernel.name}")
    return held[best] * driver.runtime.profile.cores.count, best


@answers("cuOccupancyAvailableDynamicSMemPerBlock")
async def available_shared(driver: Driver, function: Function, blocks: int, threads: int) -> int:
    """How many bytes of dynamic shared memory a block can have where so many blocks are on an SM."""
    if blocks < 1 or threads < 1:
        raise RefusedError(INVALID_VALUE, f"{blocks} blocks of {threads} threads")
    sm, needs = sm_of(driver), function.kernel.needs(driver.runtime)
    each = sm.shared // blocks - sm.block_shared_reserved - needs.shared_bytes
    return max(0, min(each, needs.dynamic_shared))


@answers("cuOccupancyMaxActiveClusters")
async def active_clusters(driver: Driver, function: Function, config: int) -> int:
    """How many clusters the device holds: none of more than one block, because these are not simulated."""
    given = config_at(config)
    if given.cluster != ONE_BLOCK:
        return 0
    return _blocks(driver, function, prod(given.block), given.shared) * driver.runtime.profile.cores.count


@answers("cuOccupancyMaxPotentialClusterSize")
async def cluster_size(driver: Driver, function: Function, config: int) -> int:
    """How many blocks the largest cluster has that the device holds: one, or none if no SM holds the block."""
    given = config_at(config)
    return min(1, _blocks(driver, function, prod(given.block), given.shared))
