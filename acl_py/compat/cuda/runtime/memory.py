"""Memory, and what is known of an address."""

from struct import Struct

from acl_py.compat.cuda.driver import memory as driver_memory
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.library.callbacks import Extent
from acl_py.compat.cuda.runtime.entries import answers
from device_model.memory import Allocation, Space

_POINTER = Struct("<iiQQ64x")  # cudaPointerAttributes
_UNREGISTERED, _HOST, _DEVICE, _MANAGED = range(4)  # cudaMemoryType
_PITCHED = Struct("<4Q")  # cudaPitchedPtr
_ELEMENT = 4  # of rows, for the driver


@answers("cudaMalloc")
async def allocate(driver: Driver, nbytes: int) -> int:
    """Allocate memory of the device; no bytes are at the address 0."""
    return await driver_memory.allocate(driver, nbytes) if nbytes else 0


@answers("cudaMallocHost")
async def allocate_host(driver: Driver, nbytes: int) -> int:
    """Allocate pinned memory; no bytes are at the address 0."""
    return await driver_memory.allocate_host(driver, nbytes) if nbytes else 0


@answers("cudaFreeHost")
async def free_host(driver: Driver, address: int) -> None:
    """Free pinned memory; 0 is no memory, and nothing happens."""
    if address:
        await driver_memory.free_host(driver, address)


@answers("cudaMallocPitch")
async def allocate_pitch(driver: Driver, width: int, height: int) -> tuple[int, int]:
    """Allocate rows; the address, and the bytes from one row to the next."""
    if not width or not height:
        return 0, 0
    return await driver_memory.allocate_pitch(driver, width, height, _ELEMENT)


@answers("cudaMalloc3D")
async def allocate_planes(driver: Driver, place: int, extent: Extent) -> None:
    """Allocate planes of rows; the pitched pointer is written."""
    own_memory.check(place, _PITCHED.size)
    address, pitch = await allocate_pitch(driver, extent.width, extent.height * extent.depth)
    own_memory.write(place, _PITCHED.pack(address, pitch, extent.width, extent.height))


@answers("cudaPointerGetAttributes")
async def attributes(driver: Driver, place: int, address: int) -> None:
    """Write what is known of an address; memory of the host that is not pinned is known as that."""
    allocation = driver.runtime.memory.holder(address)
    if allocation is None or allocation.space is Space.PAGEABLE:
        own_memory.write(place, _POINTER.pack(_UNREGISTERED, -2, 0, address))
        return
    on_host = address if allocation.is_host_visible else 0
    own_memory.write(place, _POINTER.pack(_kind(allocation), max(allocation.device, 0), address, on_host))


def _kind(allocation: Allocation) -> int:
    if allocation.pages is not None:
        return _MANAGED
    return _DEVICE if allocation.space is Space.DEVICE else _HOST
