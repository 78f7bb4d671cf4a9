"""Addresses and memory apart: reserved addresses, memory without an address, and mappings of one to the other."""

from struct import Struct

import acl_py as native
from acl_py.compat.cuda.face.brief import briefly
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.locations import Location, at
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from device_model.memory import GRANULARITY, Physical

_PROPERTIES = Struct("<IIIiQ8B")  # CUmemAllocationProp
_ACCESS = Struct("<IiI")  # CUmemAccessDesc
_PINNED = 1
_OPTIONS = range(2)  # least and recommended granularity
_FLAGS = (0, 1, 3)  # CUmemAccess_flags: none, reading, and writing too


class Held:
    """Memory of a device without an address. It goes back when the program lets go of it and it is not mapped."""

    def __init__(self, physical: Physical, properties: bytes) -> None:
        self.physical = physical
        self.properties = properties
        self.references = 1


def _device_of(driver: Driver, properties: int) -> tuple[int, bytes]:
    """Return the device that a structure names, and the structure."""
    data = own_memory.read(properties, _PROPERTIES.size)
    kind, _, where, number, *_ = _PROPERTIES.unpack(data)
    if kind != _PINNED:
        raise RefusedError(INVALID_VALUE, f"there is no memory of kind {kind} to be mapped")
    location = Location(where, number)
    ordinal = location.device(driver)
    if location.is_host:
        raise driver.runtime.error(native.Kind.NOT_SUPPORTED, "mapped memory of the host", "name a device")
    return ordinal, data


@answers("cuMemGetAllocationGranularity")
async def granularity(driver: Driver, properties: int, option: int) -> int:
    """The number of bytes that sizes must be multiples of."""
    _device_of(driver, properties)
    if option not in _OPTIONS:
        raise RefusedError(INVALID_VALUE, f"there is no option {option}")
    return GRANULARITY


@answers("cuMemAddressReserve")
async def reserve(_: Driver, nbytes: int, alignment: int, _wanted: int, flags: int) -> int:
    """Reserve addresses; those that the program would like are not promised."""
    if flags or alignment & (alignment - 1):
        raise RefusedError(INVALID_VALUE, f"alignment {alignment} and flags {flags:#x} are not possible")
    return await briefly("ReserveMemAddress", lambda runtime, _: runtime.memory.virtual.reserve(nbytes, alignment))


@answers("cuMemAddressFree")
async def release_addresses(_: Driver, address: int, nbytes: int) -> None:
    """End a reservation in which nothing is mapped."""
    await briefly("ReleaseMemAddress", lambda runtime, _: runtime.memory.virtual.release(address, nbytes))


@answers("cuMemCreate")
async def create(driver: Driver, nbytes: int, properties: int, flags: int) -> Held:
    """Take memory of a device, without an address."""
    ordinal, data = _device_of(driver, properties)
    if flags:
        raise RefusedError(INVALID_VALUE, f"the flags are {flags}, and there are none")
    make = lambda runtime, site: runtime.memory.virtual.create(ordinal, nbytes, site)  # noqa: E731
    held = Held(await briefly("MallocPhysical", make), data)
    driver.physicals[held.physical] = held
    return held


@answers("cuMemRelease")
async def release(driver: Driver, held: Held) -> None:
    """Let go of memory; it goes back to its device when it is not mapped any more."""
    held.references -= 1
    if not held.references:
        driver.handles.forget(held)
    _give_back(driver, held)


def _give_back(driver: Driver, held: Held) -> None:
    if held.references <= 0 and held.physical.mapped is None and driver.physicals.pop(held.physical, None) is not None:
        driver.runtime.memory.virtual.free(held.physical)


@answers("cuMemMap")
async def map_memory(driver: Driver, address: int, nbytes: int, offset: int, held: Held, flags: int) -> None:
    """Give memory, all of it, a reserved address."""
    if offset or flags:
        raise RefusedError(INVALID_VALUE, f"offset {offset} and flags {flags:#x} must be 0")
    if held.physical.mapped is not None:
        raise driver.runtime.error(native.Kind.NOT_SUPPORTED, "memory at two addresses", "unmap it first")
    await briefly("MapMem", lambda runtime, site: runtime.memory.virtual.map(address, nbytes, held.physical, site))


@answers("cuMemUnmap")
async def unmap(driver: Driver, address: int, nbytes: int) -> None:
    """Take the addresses of memory away again; it keeps what it holds, unless the program has let go of it."""
    mapped = driver.runtime.memory.virtual.mapped_in(address, nbytes)
    for place, physical in mapped.items():
        await _unmap(place)
        if physical in driver.physicals:
            _give_back(driver, driver.physicals[physical])


async def _unmap(address: int) -> None:
    await briefly("UnmapMem", lambda runtime, site: runtime.memory.virtual.unmap(address, site))


def _mapped_at(driver: Driver, address: int) -> Held:
    for held in driver.physicals.values():
        mapped = held.physical.mapped
        if mapped is not None and mapped.address <= address < mapped.address + mapped.nbytes:
            return held  # type: ignore[no-any-return]
    raise RefusedError(INVALID_VALUE, f"nothing is mapped at {address:#x}")


@answers("cuMemRetainAllocationHandle")
async def retain(driver: Driver, address: int) -> Held:
    """The handle of mapped memory, which must be released once more."""
    held = _mapped_at(driver, address)
    held.references += 1
    return held


@answers("cuMemGetAllocationPropertiesFromHandle")
async def properties_of(_: Driver, place: int, held: Held) -> None:
    """Write what memory was made with."""
    own_memory.write(place, held.properties)


# --- access: noted for programs to read back; every device reaches what is mapped


@answers("cuMemSetAccess")
async def set_access(driver: Driver, address: int, nbytes: int, place: int, count: int) -> None:
    """Say how locations may use what is mapped."""
    mapped = driver.runtime.memory.virtual.mapped_in(address, nbytes)
    for kind, number, flags in _ACCESS.iter_unpack(own_memory.read(place, _ACCESS.size * count)):
        reached = Location(kind, number).device(driver)
        if flags not in _FLAGS:
            raise RefusedError(INVALID_VALUE, f"there is no access {flags}")
        for physical in mapped.values():
            driver.notes["access", physical, reached] = flags


@answers("cuMemGetAccess")
async def get_access(driver: Driver, location: int, address: int) -> int:
    """How a location may use what is mapped at an address."""
    held = _mapped_at(driver, address)
    flags: int = driver.notes.get(("access", held.physical, at(location).device(driver)), 0)
    return flags
