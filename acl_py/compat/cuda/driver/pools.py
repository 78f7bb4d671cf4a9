"""Stream-ordered pools: those of devices, and those that a program makes, of any kind of memory."""

from struct import Struct, pack, unpack
from typing import Any

import acl_py as native
from acl_py.compat.cuda.driver.devices import device
from acl_py.compat.cuda.face.brief import briefly
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.locations import ON_HOST, Location, at
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.runtime.pools import trim_pool
from device_model.memory import AddressedPool, Pool

_REUSE = (1, 2, 3)  # CUmemPool_attribute: which blocks are used again; all kinds are
_THRESHOLD, _HIGH = 4, (6, 8)
_NUMBERS = {4: "release_threshold", 5: "reserved_current", 6: "reserved_high", 7: "used_current", 8: "used_high"}
_PROPERTIES = Struct("<IIIiQQ")  # CUmemPoolProps, up to its size
_PINNED, _MANAGED = 1, 2  # CUmemAllocationType
_MOST_BYTES = 2**63 - 1
_ACCESS = Struct("<IiI")  # CUmemAccessDesc
_NONE, _READ_WRITE = 0, 3  # CUmemAccess_flags


@answers("cuDeviceGetDefaultMemPool")
async def default_of_device(driver: Driver, ordinal: int) -> Pool:
    """The pool that a device has from the beginning."""
    return driver.runtime.memory.default_pools[device(driver, ordinal).ordinal]


@answers("cuDeviceGetMemPool")
async def of_device(driver: Driver, ordinal: int) -> Pool:
    """The pool that a device uses."""
    return driver.runtime.memory.pool(device(driver, ordinal).ordinal)


@answers("cuDeviceSetMemPool")
async def set_of_device(driver: Driver, ordinal: int, pool: Pool) -> None:
    """Let a device use a pool of its own memory."""
    await _use(device(driver, ordinal).ordinal, pool)


async def _use(ordinal: int, pool: Pool) -> None:
    _check(pool)
    if isinstance(pool, AddressedPool) or pool.device != ordinal:
        raise RefusedError(INVALID_VALUE, f"{pool!r} has no memory of device {ordinal}")
    await briefly("SetMemPool", lambda runtime, _: runtime.memory.use_pool(ordinal, pool))


@answers("cuMemGetDefaultMemPool")
async def default_at(driver: Driver, location: int, kind: int) -> Pool:
    """The default pool of a location, for a kind of memory."""
    where = at(location)
    number = _number(driver, where, kind)
    if kind == _PINNED and number != ON_HOST:
        return driver.runtime.memory.default_pools[number]
    return _of_host(driver, number, kind)


@answers("cuMemGetMemPool")
async def used_at(driver: Driver, location: int, kind: int) -> Pool:
    """The pool that is used for a location and a kind of memory."""
    where = at(location)
    number = _number(driver, where, kind)
    if kind == _PINNED and number != ON_HOST:
        return driver.runtime.memory.pool(number)
    used: Pool = driver.notes.get(("pool", number, kind)) or _of_host(driver, number, kind)
    return used


@answers("cuMemSetMemPool")
async def set_used_at(driver: Driver, location: int, kind: int, pool: Pool) -> None:
    """Let a location use a pool for a kind of memory."""
    where = at(location)
    number = _number(driver, where, kind)
    if kind == _PINNED and number != ON_HOST:
        await _use(number, pool)
        return
    _check(pool)
    if not isinstance(pool, AddressedPool) or pool.is_managed != (kind == _MANAGED):
        raise RefusedError(INVALID_VALUE, f"{pool!r} has memory of another kind")
    driver.notes["pool", number, kind] = pool


def _number(driver: Driver, where: Location, kind: int) -> int:
    """Return the device, or the number for the host: that is also where managed memory is that prefers no place."""
    if kind not in (_PINNED, _MANAGED):
        raise RefusedError(INVALID_VALUE, f"there is no memory of kind {kind} in pools")
    if kind == _MANAGED and not where.is_given:
        return ON_HOST
    return where.device(driver)


def _of_host(driver: Driver, number: int, kind: int) -> Pool:
    """Return the default pool for pinned or managed memory, which its first use makes."""
    key = "default pool", number, kind
    if key not in driver.notes:
        driver.notes[key] = _made(driver, number, kind, 0)
    pool: Pool = driver.notes[key]
    return pool


def _made(driver: Driver, number: int, kind: int, most: int) -> Pool:
    memory = driver.runtime.memory
    if kind == _PINNED and number != ON_HOST:
        return memory.create_pool(number, most)
    return memory.create_addressed_pool(max(number, 0), most, is_managed=kind == _MANAGED)


@answers("cuMemPoolCreate")
async def create(driver: Driver, properties: int) -> Pool:
    """Make a pool of the memory that a structure describes."""
    kind, shared, where, ordinal, _, most = _PROPERTIES.unpack(own_memory.read(properties, _PROPERTIES.size))
    number = _number(driver, Location(where, ordinal), kind)
    if shared:
        raise driver.runtime.error(native.Kind.NOT_SUPPORTED, "a pool for other processes", "ask for no handle types")
    return await briefly("CreateMemPool", lambda *_: _made(driver, number, kind, min(most, _MOST_BYTES)))


@answers("cuMemPoolDestroy")
async def destroy(driver: Driver, pool: Pool) -> None:
    """End a pool; what was taken from it stays until it is freed."""
    _check(pool)
    if pool in driver.runtime.memory.default_pools or pool in driver.notes.values():
        raise RefusedError(INVALID_VALUE, f"{pool!r} lives as long as its device")
    await briefly("DestroyMemPool", lambda runtime, _: runtime.memory.destroy_pool(pool))
    driver.handles.forget(pool)


def _check(pool: Pool) -> None:
    if pool.is_destroyed:
        raise RefusedError(INVALID_VALUE, f"{pool!r} was destroyed, or its device was reset")


@answers("cuMemPoolTrimTo")
async def trim(_: Driver, pool: Pool, keep: int) -> None:
    """Give unused memory back to the device, but keep some."""
    _check(pool)
    await briefly("TrimMemPool", lambda runtime, _: trim_pool(runtime, pool, min(keep, _MOST_BYTES)))


@answers("cuMemAllocFromPoolAsync")
async def allocate(driver: Driver, nbytes: int, pool: Pool, stream: Any) -> int:
    """Take memory from a pool; no bytes have the address 0."""
    if not nbytes:
        return 0
    return (await native.MallocAsync(nbytes, stream, name=driver.names.name("memory"), pool=pool)).address


@answers("cuMemPoolGetAttribute")
async def get_attribute(driver: Driver, pool: Pool, attribute: int, place: int) -> None:
    """Write an attribute of a pool."""
    if attribute in _REUSE:
        data = pack("<i", driver.notes.get(("reuse", pool, attribute), 1))
    elif attribute in _NUMBERS:
        data = pack("<Q", _shown(getattr(pool, _NUMBERS[attribute])))
    else:
        raise RefusedError(INVALID_VALUE, f"there is no attribute {attribute} of pools")
    own_memory.write(place, data)


def _shown(number: int) -> int:
    """Return *number* as it was set: what cannot be reached stands for no limit."""
    return 2**64 - 1 if number == _MOST_BYTES else number


@answers("cuMemPoolSetAttribute")
async def set_attribute(driver: Driver, pool: Pool, attribute: int, place: int) -> None:
    """Set an attribute of a pool."""
    if attribute in _REUSE:
        driver.notes["reuse", pool, attribute] = unpack("<i", own_memory.read(place, 4))[0]
        return
    (value,) = unpack("<Q", own_memory.read(place, 8))
    if attribute == _THRESHOLD:
        await native.SetMemPoolThreshold(min(value, _MOST_BYTES), pool=pool)
    elif attribute in _HIGH and not value:
        pool.reset_high()
    else:
        raise RefusedError(INVALID_VALUE, f"the attribute {attribute} of pools cannot be set to {value}")


# --- access: kept for programs to read back, and not enforced


@answers("cuMemPoolGetAccess")
async def get_access(driver: Driver, pool: Pool, location: int) -> int:
    """How a location may use the memory of a pool."""
    number = at(location).device(driver)
    own = _READ_WRITE if number == pool.device or isinstance(pool, AddressedPool) else _NONE
    access: int = driver.notes.get(("access", pool, number), own)
    return access


@answers("cuMemPoolSetAccess")
async def set_access(driver: Driver, pool: Pool, place: int, count: int) -> None:
    """Say how locations may use the memory of a pool; the device that has it keeps its own access."""
    for where, number, flags in _ACCESS.iter_unpack(own_memory.read(place, _ACCESS.size * count)):
        reached = Location(where, number).device(driver)
        if flags not in (_NONE, _READ_WRITE):
            raise RefusedError(INVALID_VALUE, f"device {reached} cannot have access {flags} to {pool!r}")
        if reached != pool.device:
            driver.notes["access", pool, reached] = flags
