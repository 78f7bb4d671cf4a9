"""Memory: of the device, pinned, registered, managed and stream-ordered, and what is known of an address."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from struct import pack, unpack
from typing import Any

import acl_py as native
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.findings import Findings
from device_model.memory import Allocation, Buffer, Space

_GLOBAL = 1  # the flag of managed memory that all streams use
_PITCH = 512  # rows of cuMemAllocPitch() begin at multiples of it
_HOST, _DEVICE = 1, 2  # CUmemorytype
_SYNCHRONOUS = 6  # CUpointer_attribute
_HOST_FLAGS = 0x1 | 0x2 | 0x4 | 0x8  # portable, mapped; write-combined or of a device; read-only


@answers("cuMemAlloc_v2")
async def allocate(driver: Driver, nbytes: int) -> int:
    """Allocate memory of the device."""
    return (await native.Malloc(nbytes, name=driver.names.name("memory"))).address


@answers("cuMemAllocPitch_v2")
async def allocate_pitch(driver: Driver, width: int, height: int, element: int) -> tuple[int, int]:
    """Allocate rows; the address, and the bytes from one row to the next."""
    if element not in (4, 8, 16):
        raise RefusedError(INVALID_VALUE, f"elements have 4, 8 or 16 bytes, not {element}")
    pitch = -(-width // _PITCH) * _PITCH
    return await allocate(driver, pitch * height), pitch


@answers("cuMemFree_v2")
async def free(driver: Driver, address: int) -> None:
    """Free memory of the device; 0 is no memory, and nothing happens."""
    if address:
        with _around(driver, address):
            await native.Free(address)


def _around(driver: Driver, address: int) -> AbstractContextManager[None]:
    """Make a call about memory that the program has: it needs no current context (measured)."""
    return driver.thread.anywhere() if driver.runtime.memory.holder(address) is not None else nullcontext()


@answers("cuMemGetInfo_v2")
async def info(_: Driver) -> tuple[int, int]:
    """The bytes of the device that are free, and all."""
    return await native.GetMemInfo()


@answers("cuMemAllocManaged")
async def allocate_managed(driver: Driver, nbytes: int, flags: int) -> int:
    """Allocate memory that the host and devices share."""
    if flags not in (_GLOBAL, 2):
        raise RefusedError(INVALID_VALUE, f"the flags of managed memory are 1 or 2, not {flags}")
    return _shown(driver, await native.MallocManaged(nbytes, name=driver.names.name("memory")))


# --- memory of the host


UNSEEN = (
    "what the program itself reads and writes in pinned or managed memory is not seen, as it has the address: a result "
    "that is read too early is no finding; --sanitize=digest finds sources that change before their copy is made"
)


def _shown(driver: Driver, buffer: Buffer) -> int:
    """Return the address of *buffer*. The program may write there from now on, and no call shows it."""
    sanitizer = driver.runtime.sanitizer
    if sanitizer is not None:
        driver.runtime.state(Findings).note(UNSEEN)
        sanitizer.host_exported(buffer.allocation, [(0, buffer.nbytes)], buffer.allocation.made)
    return buffer.address


@answers("cuMemAllocHost_v2")
async def allocate_host(driver: Driver, nbytes: int) -> int:
    """Allocate pinned memory."""
    return _shown(driver, await native.MallocHost(nbytes, name=driver.names.name("memory")))


@answers("cuMemHostAlloc")
async def allocate_host_with_flags(driver: Driver, nbytes: int, flags: int) -> int:
    """Allocate pinned memory; devices reach all of it at the same address."""
    _check_flags(flags)
    address = await allocate_host(driver, nbytes)
    driver.notes["flags", address] = flags
    return address


@answers("cuMemFreeHost")
async def free_host(driver: Driver, address: int) -> None:
    """Free pinned memory."""
    with _around(driver, address):
        await native.FreeHost(address)
    driver.notes.pop(("flags", address), None)


@answers("cuMemHostRegister_v2")
async def register(driver: Driver, address: int, nbytes: int, flags: int) -> None:
    """Pin memory of the host."""
    _check_flags(flags)
    await native.HostRegister(address, nbytes)
    driver.notes["flags", address] = flags


def _check_flags(flags: int) -> None:
    if flags & ~_HOST_FLAGS:
        raise RefusedError(INVALID_VALUE, f"there are no flags {flags:#x} of memory of the host")


@answers("cuMemHostUnregister")
async def unregister(driver: Driver, address: int) -> None:
    """End a registration."""
    await native.HostUnregister(address)
    driver.notes.pop(("flags", address), None)


@answers("cuMemHostGetDevicePointer_v2")
async def device_pointer(driver: Driver, address: int, flags: int) -> int:
    """The address at which devices reach pinned memory: the same."""
    if flags:
        raise RefusedError(INVALID_VALUE, f"the flags are {flags}, and there are none")
    _pinned(driver, address)
    return address


@answers("cuMemHostGetFlags")
async def host_flags(driver: Driver, address: int) -> int:
    """The flags with which pinned memory was made."""
    allocation = _pinned(driver, address)
    return int(driver.notes.get(("flags", allocation.address), 0)) | 2


def _pinned(driver: Driver, address: int) -> Allocation:
    allocation = driver.runtime.memory.holder(address)
    if allocation is None or not allocation.is_host_visible:
        raise RefusedError(INVALID_VALUE, "devices reach memory of the host only if it is pinned")
    return allocation


# --- stream-ordered memory


@answers("cuMemAllocAsync")
async def allocate_async(driver: Driver, nbytes: int, stream: Any) -> int:
    """Take memory from the pool of the device; no bytes have the address 0."""
    return (await native.MallocAsync(nbytes, stream, name=driver.names.name("memory"))).address if nbytes else 0


@answers("cuMemFreeAsync")
async def free_async(_: Driver, address: int, stream: Any) -> None:
    """Give memory back behind the work of a stream; 0 is no memory, and nothing happens."""
    if address:
        await native.FreeAsync(address, stream)


# --- what is known of an address


@answers("cuMemGetAddressRange_v2")
async def address_range(driver: Driver, address: int) -> tuple[int, int]:
    """Where the memory that has an address begins, and its bytes."""
    allocation = _holder(driver, address)
    return allocation.address, allocation.nbytes


def _holder(driver: Driver, address: int) -> Allocation:
    allocation = driver.runtime.memory.holder(address)
    if allocation is None:
        raise RefusedError(INVALID_VALUE, f"there is no memory of this program at {address:#x}")
    return allocation


_Fact = Callable[[Driver, Allocation, int], bytes]
_FACTS: dict[int, _Fact] = {  # CUpointer_attribute
    1: lambda driver, memory, _: pack(
        "<Q", driver.handle("context", driver.runtime.device(max(memory.device, 0)).primary)
    ),
    2: lambda _d, memory, _: pack(
        "<I", _DEVICE if memory.space is Space.DEVICE else _HOST if memory.pages is None else 2
    ),
    3: lambda _d, _m, address: pack("<Q", address),
    4: lambda _d, memory, address: pack("<Q", address if memory.is_host_visible else 0),
    6: lambda driver, memory, _: pack(
        "<I", driver.notes.get(("synchronous", memory.serial), memory.space is not Space.PINNED)
    ),
    7: lambda _d, memory, _: pack("<Q", memory.serial + 1),
    8: lambda _d, memory, _: pack("<I", memory.pages is not None),
    9: lambda _d, memory, _: pack("<i", max(memory.device, 0)),
    10: lambda _d, _m, _a: pack("<I", 0),
    11: lambda _d, memory, _: pack("<Q", memory.address),
    12: lambda _d, memory, _: pack("<Q", memory.nbytes),
    13: lambda _d, _m, _a: pack("<I", 1),
    14: lambda _d, _m, _a: pack("<I", 0),
    15: lambda _d, _m, _a: pack("<I", 0),
    16: lambda _d, _m, _a: pack("<I", 3),
    17: lambda driver, memory, _: pack("<Q", driver.handle("pool", memory.pool) if memory.pool else 0),
}


@answers("cuPointerGetAttribute", question=INVALID_VALUE)
async def pointer_attribute(driver: Driver, place: int, attribute: int, address: int) -> None:
    """Write one fact about the memory at an address."""
    if attribute not in _FACTS:
        raise RefusedError(INVALID_VALUE, f"the attribute {attribute} of pointers is not known")
    own_memory.write(place, _FACTS[attribute](driver, _holder(driver, address), address))


@answers("cuPointerSetAttribute")
async def set_pointer_attribute(driver: Driver, place: int, attribute: int, address: int) -> None:
    """Keep whether synchronous calls on the memory at an address always wait; it changes nothing."""
    if attribute != _SYNCHRONOUS:
        raise RefusedError(INVALID_VALUE, f"the attribute {attribute} of pointers cannot be set")
    (value,) = unpack("<I", own_memory.read(place, 4))
    driver.notes["synchronous", _holder(driver, address).serial] = int(bool(value))


@answers("cuPointerGetAttributes")
async def pointer_attributes(driver: Driver, count: int, attributes: int, places: int, address: int) -> None:
    """Write several facts; memory that is not known has zeros."""
    numbers = memoryview(own_memory.read(attributes, 4 * count)).cast("I")
    targets = memoryview(own_memory.read(places, 8 * count)).cast("Q")
    allocation = driver.runtime.memory.holder(address)
    for number, place in zip(numbers, targets, strict=True):
        if number not in _FACTS:
            raise RefusedError(INVALID_VALUE, f"the attribute {number} of pointers is not known")
        if allocation is not None:
            own_memory.write(place, _FACTS[number](driver, allocation, address))
        else:
            own_memory.write(place, bytes(_SIZES.get(number, 4)))


_SIZES = {1: 8, 3: 8, 4: 8, 7: 8, 11: 8, 12: 8, 17: 8}
