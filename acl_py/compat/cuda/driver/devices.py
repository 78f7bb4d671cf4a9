"""Devices and their attributes, which come from the profile of the card."""

from collections.abc import Callable

import acl_py as native
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.face.visible import uuid as bytes_of_uuid
from acl_py.compat.cuda.library import own_memory
from acl_py.verbs.ptx_kernels import MOST_BLOCKS, MOST_THREADS
from device_model.device import Device
from device_model.profile import DeviceProfile
from device_model.sm.spec import SmSpec

_ATTRIBUTES = range(1, 148)  # CUdevice_attribute; those that are not named below are 0
_SM = {"h200": (9, 0)}  # compute capabilities
_WARP = 32
# By number: what an H200 answers (measured), of what is simulated here.
_FIXED = {
    **dict(zip(range(2, 8), (*MOST_THREADS, *MOST_BLOCKS), strict=True)),
    9: 65536, 10: _WARP, 11: 2**31 - 1, 14: 512, 15: 1, 19: 1, 30: 512, 31: 1, 32: 1, 36: 3201000, 37: 6016, 41: 1,
    51: 32, 75: 9, 76: 0, 78: 1, 79: 1, 80: 1, 83: 1, 87: 2, 89: 1, 90: 1, 91: 1, 95: 1, 99: 1, 102: 1, 115: 1,
    142: 1, 144: 1,
}  # fmt: skip
_OF_PROFILE: dict[int, Callable[[DeviceProfile, SmSpec], int]] = {
    1: lambda _, sm: sm.block_threads,
    8: lambda _, sm: sm.block_shared_static,
    12: lambda _, sm: sm.registers,
    13: lambda _, sm: sm.khz,
    16: lambda profile, _: profile.cores.count,
    38: lambda _, sm: sm.l2_bytes,
    39: lambda _, sm: sm.warps * _WARP,
    40: lambda *_: 3,
    81: lambda _, sm: sm.shared,
    82: lambda _, sm: sm.registers,
    97: lambda _, sm: sm.block_shared,
    106: lambda _, sm: sm.blocks,
    111: lambda _, sm: sm.block_shared_reserved,
}


def device(driver: Driver, ordinal: int) -> Device:
    """Return the device with this number, of those that the program sees."""
    if driver.visible is not None and driver.visible <= ordinal < driver.runtime.profile.devices:
        what = f"device {ordinal} is not visible"
        raise driver.runtime.error(
            native.Kind.INVALID_DEVICE, what, f"CUDA_VISIBLE_DEVICES shows {driver.visible}: name more of them in it"
        )
    return driver.runtime.device(ordinal)


def sm_of(driver: Driver) -> SmSpec:
    """Return the SMs of the card."""
    spec = driver.runtime.profile.sm
    if spec is None:
        raise driver.runtime.error(
            native.Kind.NOT_SUPPORTED, f"{driver.runtime.profile.name} has no SMs", "use the profile h200"
        )
    return spec


@answers("cuDeviceGetCount")
async def count(driver: Driver) -> int:
    """How many devices the program sees."""
    there = await native.GetDeviceCount()
    return there if driver.visible is None else driver.visible


@answers("cuDeviceGet", reads=True)
async def get(driver: Driver, ordinal: int) -> int:
    """The handle of a device: its number."""
    return device(driver, ordinal).ordinal


@answers("cuDeviceGetName")
async def name(driver: Driver, address: int, length: int, ordinal: int) -> None:
    """The name of a device, cut to the room that there is."""
    device(driver, ordinal)
    text = driver.runtime.profile.description.partition(",")[0]
    write_text(address, length, text)


def write_text(address: int, length: int, text: str) -> None:
    """Write *text* with its NUL into *length* bytes; what does not fit is cut off."""
    if length <= 0:
        raise RefusedError(INVALID_VALUE, f"a text does not fit into {length} bytes")
    own_memory.write(address, text.encode()[: length - 1] + b"\0")


@answers("cuDeviceGetUuid", "cuDeviceGetUuid_v2")
async def uuid(driver: Driver, address: int, ordinal: int) -> None:
    """16 bytes that differ from device to device."""
    own_memory.write(address, bytes_of_uuid(device(driver, ordinal).ordinal))


@answers("cuDeviceTotalMem_v2")
async def total_memory(driver: Driver, ordinal: int) -> int:
    """The bytes of a device."""
    return driver.runtime.memory.total_bytes(device(driver, ordinal).ordinal)


@answers("cuDeviceGetAttribute")
async def attribute(driver: Driver, number: int, ordinal: int) -> int:
    """A number of a device; 0 for what is not simulated."""
    bus = device(driver, ordinal).ordinal + 1
    if number not in _ATTRIBUTES:
        raise RefusedError(INVALID_VALUE, f"there is no attribute {number} of devices")
    if number == _BUS:
        return bus
    known = _OF_PROFILE.get(number)
    return _FIXED.get(number, 0) if known is None else known(driver.runtime.profile, sm_of(driver))


_BUS = 33


@answers("cuDeviceComputeCapability")
async def compute_capability(driver: Driver, ordinal: int) -> tuple[int, int]:
    """The version of the instructions of a device."""
    device(driver, ordinal)
    return _FIXED[75], _FIXED[76]


@answers("cuDeviceGetPCIBusId")
async def bus_id(driver: Driver, address: int, length: int, ordinal: int) -> None:
    """Where a device is, as text."""
    write_text(address, length, f"0000:{device(driver, ordinal).ordinal + 1:02X}:00.0")


@answers("cuDeviceGetByPCIBusId")
async def by_bus_id(driver: Driver, text: str) -> int:
    """The device at a place."""
    for each in driver.runtime.devices:
        if text.lower() in (f"0000:{each.ordinal + 1:02x}:00.0", f"{each.ordinal + 1:02x}:00.0"):
            return each.ordinal
    raise driver.runtime.error(native.Kind.INVALID_DEVICE, f"no device is at {text!r}", "")


@answers("cuDeviceCanAccessPeer")
async def can_access_peer(_: Driver, ordinal: int, peer: int) -> int:
    """Whether a device can be given access to the memory of another."""
    return int(await native.DeviceCanAccessPeer(ordinal, peer))
