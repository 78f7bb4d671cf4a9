"""acl.rt: reserved addresses, physical memory without an address, and mappings between the two."""

from collections.abc import Callable
from typing import Any

from acl_py.compat.acl.face.binding import gives, runs
from acl_py.compat.acl.face.lookups import Running, end
from acl_py.compat.acl.face.session import INVALID_PARAM, PARAM_INVALID, Session
from acl_py.runtime.calls import begin
from acl_py.sites import Site
from device_model.memory import GRANULARITY, Physical
from device_model.memory.virtual import Virtual

_DEVICE = 1  # of a location
_OPTIONS = range(2)  # minimum and recommended granularity


async def _verb(name: str, act: Callable[[Virtual, Site], Any]) -> Any:
    """A verb on virtual memory, which costs what a call costs that does next to nothing."""
    _, runtime, site, enter = begin(name)
    result = act(runtime.memory.virtual, site)
    runtime.brief_call(name, enter, site)
    return result


@gives("kkkk")
def reserve_mem_address(here: Session, size: int, alignment: int, expected: int, flags: int) -> int:
    """Reserve addresses; *alignment*, *expected* and *flags* (1: huge pages) make no difference."""
    if alignment % 2 or flags > 1:
        raise here.error(PARAM_INVALID, f"alignment {alignment} and flags {flags:#x} are not possible")
    if expected:
        here.warn_once("acl.rt.reserve_mem_address ignores the expected address")
    address: int = here.run(_verb("ReserveMemAddress", lambda virtual, _: virtual.reserve(size)))
    return address


@runs("k")
def release_mem_address(here: Session, address: int) -> Running:
    """End a reservation in which nothing is mapped."""
    if not address:
        raise here.error(INVALID_PARAM, "the address is 0")
    return _verb("ReleaseMemAddress", lambda virtual, _: virtual.release(address))


def _device_of(properties: dict[str, Any]) -> int | None:
    """The number of the device that aclrtPhysicalMemProp names, None if it names none."""
    location = properties.get("location")
    if not isinstance(location, dict) or location.get("type", _DEVICE) != _DEVICE:
        return None
    device = location.get("id", 0)
    return device if isinstance(device, int) else None


@gives("kdk")
def malloc_physical(here: Session, size: int, properties: dict[str, Any], flags: int) -> int:
    """Take device memory without an address, a multiple of 2 MiB; properties["location"]["id"] is the device."""
    device = _device_of(properties)
    if device is None or flags:
        raise here.error(PARAM_INVALID, "the properties name no device, or flags are not 0")
    return here.handle(here.run(_verb("MallocPhysical", lambda virtual, site: virtual.create(device, size, site))))


@runs("k")
def free_physical(here: Session, handle: int) -> Running:
    """Give back what malloc_physical took; it must not be mapped."""

    def free(physical: Physical) -> Running:
        return _verb("FreePhysical", lambda virtual, _: virtual.free(physical))

    return end(here, free, here.physicals, handle)


@runs("kkkkk")
def map_mem(here: Session, address: int, size: int, offset: int, handle: int, flags: int) -> Running:
    """Give the memory of *handle*, all of it, a reserved address; *offset* and *flags* are 0."""
    physical = here.physicals[handle]
    if offset or flags:
        raise here.error(PARAM_INVALID, f"offset {offset} and flags {flags:#x} must be 0")
    return _verb("MapMem", lambda virtual, site: virtual.map(address, size, physical, site))


@runs("k")
def unmap_mem(here: Session, address: int) -> Running:
    """Take the address away again; the memory keeps what it holds."""
    if not address:
        raise here.error(INVALID_PARAM, "the address is 0")
    return _verb("UnmapMem", lambda virtual, site: virtual.unmap(address, site))


@gives("di")
def mem_get_allocation_granularity(here: Session, properties: dict[str, Any], option: int) -> int:
    """Return the number of bytes that sizes of malloc_physical must be multiples of."""
    if _device_of(properties) is None or option not in _OPTIONS:
        raise here.error(PARAM_INVALID, f"the properties name no device, or there is no option {option}")
    return GRANULARITY
