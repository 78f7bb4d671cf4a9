"""The current device of a thread, what is known of devices, and functions of the driver by name."""

import sys
from pathlib import Path
from struct import Struct

import acl_py as native
from acl_py.compat.cuda.driver import contexts
from acl_py.compat.cuda.driver.devices import attribute, device
from acl_py.compat.cuda.driver.early import proc_address_v2
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.face.versions import version_of
from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.runtime.entries import answers, kept, use_device
from device_model.contexts import Context

_PROPERTIES = Path(__file__).with_name("properties.txt")
_RESERVED = {12: 252, 13: 224}  # bytes at the end of cudaDeviceProp, by version of CUDA
_FLAGS = 0x1F  # how a host waits, and what it maps


@answers("cudaGetDevice")
async def get_device(driver: Driver) -> int:
    """The current device of the thread: that of its context, or the one that comes with the first call."""
    thread = driver.thread
    return thread.context.device.ordinal if thread.has_context else kept(driver).thread.device


@answers("cudaSetDevice")
async def set_device(driver: Driver, ordinal: int) -> None:
    """Let the thread use a device."""
    await use_device(driver, ordinal)
    kept(driver).thread.device = ordinal


@answers("cudaInitDevice")
async def init_device(driver: Driver, ordinal: int, _device_flags: int, _flags: int) -> None:
    """Retain the primary context of a device, which does not become current."""
    thread = driver.thread
    before = thread.scope.context
    await use_device(driver, ordinal)
    thread.scope.context = before


@answers("cudaDeviceReset")
async def reset(driver: Driver) -> None:
    """Destroy all that the program has on the current device; the next call gets a new context."""
    ordinal = await get_device(driver)
    await contexts.reset(driver, ordinal)
    kept(driver).thread.device = ordinal
    driver.thread.scope.context = driver.nowhere


@answers("cudaSetDeviceFlags")
async def set_flags(driver: Driver, flags: int) -> None:
    """Keep the flags: they say how a host waits, which is the same here."""
    if flags & ~_FLAGS:
        raise RefusedError(INVALID_VALUE, f"there are no flags {flags:#x} of devices")
    kept(driver).flags = flags


@answers("cudaGetDeviceFlags")
async def get_flags(driver: Driver) -> int:
    """The flags of the current device."""
    return kept(driver).flags


@answers("cudaDeviceEnablePeerAccess")
async def enable_peer(_: Driver, peer: int, flags: int) -> None:
    """Give the current device access to the memory of another."""
    await native.DeviceEnablePeerAccess(peer, flags)


@answers("cudaDeviceDisablePeerAccess")
async def disable_peer(_: Driver, peer: int) -> None:
    """End this access."""
    await native.DeviceDisablePeerAccess(peer)


@answers("cudaDeviceGetExecutionCtx")
async def execution_context(driver: Driver, ordinal: int) -> Context:
    """The primary context of a device: the only one that this runtime names."""
    return device(driver, ordinal).primary


@answers("cudaExecutionCtxGetDevice")
async def device_of(_: Driver, context: Context | None) -> int:
    """The device of a context."""
    return _named(context).device.ordinal


@answers("cudaExecutionCtxGetId")
async def id_of(driver: Driver, context: Context | None) -> int:
    """A number that no other context has."""
    return driver.handle("context", _named(context))


def _named(context: Context | None) -> Context:
    if context is None:
        raise RefusedError(INVALID_VALUE, "the context is 0")
    return context


# --- properties


@answers("cudaGetDeviceProperties")
async def properties(driver: Driver, place: int, ordinal: int) -> None:
    """Write what is known of a device."""
    device(driver, ordinal)
    values: list[int | bytes] = []
    for each in _sources():
        values += [await attribute(driver, int(each), ordinal)] if each.isdigit() else [_known(driver, each, ordinal)]
    own_memory.write(place, _layout().pack(*values))


def _known(driver: Driver, name: str, ordinal: int) -> int | bytes:
    """Return a property that is no attribute of the driver; 0 if it is not simulated."""
    match name:
        case "name":
            return driver.runtime.profile.description.partition(",")[0].encode()
        case "uuid":
            return b"acl_py simulated"[:15] + bytes([ordinal])
        case "bytes":
            return driver.runtime.memory.total_bytes(ordinal)
        case "luid":
            return b""
    return 0


def _fields() -> list[list[str]]:
    """Return the fields of cudaDeviceProp: their names, their kinds in `struct`, and where their values are from.

    In the file a name may begin with the only version of CUDA that has the field.
    """
    lines = [line.split() for line in _PROPERTIES.read_text().splitlines()]
    return [line for line in lines if not line[0][0].isdigit() or line[0].startswith(f"{_major()}:")]


def _major() -> int:
    """Return the version of CUDA whose structures the program has: that of the package."""
    package = sys.modules.get("cuda.bindings")
    return max(_RESERVED) if package is None else int(package.__version__.partition(".")[0])


def _sources() -> list[str]:
    return [each for _, _, *sources in _fields() for each in sources]


def _layout() -> Struct:
    """Return the layout of cudaDeviceProp, with the alignment that C gives it."""
    return Struct("@" + "".join(kind for _, kind, *_ in _fields()) + f"{_RESERVED[_major()]}x")


@answers("cudaChooseDevice")
async def choose(driver: Driver, place: int) -> int:
    """The device that is most like the one wanted: all are alike, so the first."""
    own_memory.read(place, _layout().size)
    return device(driver, 0).ordinal


@answers("cudaGetDriverEntryPoint")
async def entry_point(driver: Driver, symbol: str, flags: int) -> tuple[int, int]:
    """The address of a function of the driver, and whether it was found."""
    return await proc_address_v2(driver, symbol, version_of(driver), flags)
