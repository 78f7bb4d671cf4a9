"""Stream-ordered pools: each device has one."""

from struct import pack, unpack
from typing import Any

import acl_py as native
from acl_py.compat.cuda.driver.devices import device
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from device_model.memory.pool import Pool

_REUSE = (1, 2, 3)  # CUmemPool_attribute: which blocks are used again; all kinds are
_THRESHOLD, _HIGH = 4, (6, 8)
_NUMBERS = {4: "release_threshold", 5: "reserved_current", 6: "reserved_high", 7: "used_current", 8: "used_high"}


@answers("cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool")
async def of_device(driver: Driver, ordinal: int) -> Pool:
    """The pool of a device."""
    return driver.runtime.memory.pool(device(driver, ordinal).ordinal)


@answers("cuDeviceSetMemPool")
async def set_of_device(driver: Driver, ordinal: int, pool: Pool) -> None:
    """Let a device use a pool: it has only its own."""
    if pool is not await of_device(driver, ordinal):
        raise driver.runtime.error(native.Kind.NOT_SUPPORTED, "another pool for a device", "use its default pool")


@answers("cuMemAllocFromPoolAsync")
async def allocate(driver: Driver, nbytes: int, _pool: Pool, stream: Any) -> int:
    """Take memory from a pool: there is only that of the device."""
    return (await native.MallocAsync(nbytes, stream, name=driver.names.name("memory"))).address


@answers("cuMemPoolGetAttribute")
async def get_attribute(driver: Driver, pool: Pool, attribute: int, place: int) -> None:
    """Write an attribute of a pool."""
    if attribute in _REUSE:
        data = pack("<i", driver.notes.get(("pool", pool, attribute), 1))
    elif attribute in _NUMBERS:
        data = pack("<Q", getattr(pool, _NUMBERS[attribute]))
    else:
        raise RefusedError(INVALID_VALUE, f"there is no attribute {attribute} of pools")
    own_memory.write(place, data)


@answers("cuMemPoolSetAttribute")
async def set_attribute(driver: Driver, pool: Pool, attribute: int, place: int) -> None:
    """Set an attribute of a pool."""
    if attribute in _REUSE:
        driver.notes["pool", pool, attribute] = unpack("<i", own_memory.read(place, 4))[0]
        return
    (value,) = unpack("<Q", own_memory.read(place, 8))
    if attribute == _THRESHOLD:
        await native.SetMemPoolThreshold(min(value, 2**63 - 1))
    elif attribute in _HIGH and not value:
        pool.reset_high()
    else:
        raise RefusedError(INVALID_VALUE, f"the attribute {attribute} of pools cannot be set to {value}")
