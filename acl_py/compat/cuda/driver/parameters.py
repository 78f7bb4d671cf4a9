"""What nodes of graphs do, in the structures of the driver."""

from collections.abc import Awaitable, Callable
from ctypes import c_void_p, cast
from struct import Struct, pack, unpack
from typing import Any

import acl_py as native
from acl_py.compat.cuda.driver import copies, fills
from acl_py.compat.cuda.driver.arrays import kept
from acl_py.compat.cuda.driver.launches import HostFunction, checked, launch_on
from acl_py.compat.cuda.driver.libraries import Kernel
from acl_py.compat.cuda.driver.modules import Function
from acl_py.compat.cuda.face.calls import function_of
from acl_py.compat.cuda.face.codes import INVALID_VALUE, NOT_SUPPORTED, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from device_model.events import Event
from device_model.graphs.graph import Node
from device_model.memory import Allocation, Space
from device_model.ptx.launch import Launch
from device_model.streams import Stream
from device_model.work import Copy, Fill, PitchedCopy
from device_model.work import HostFunction as HostWork

Queue = Callable[[Stream], Awaitable[object]]
KERNEL = Struct("<Q7I4xQQQQ")  # CUDA_KERNEL_NODE_PARAMS_v2; the first version ends before the last two
OLD_KERNEL = Struct("<Q7I4xQQ")
FILL = Struct("<QQIIQQ")  # CUDA_MEMSET_NODE_PARAMS
COPY_SIZE = copies.PLANES.size
HOST = Struct("<QQ")  # CUDA_HOST_NODE_PARAMS
ALLOCATION = Struct("<88sQQQQ")  # CUDA_MEM_ALLOC_NODE_PARAMS: properties, access, bytes, address
_POOL = Struct("<IIII")  # CUmemPoolProps begins with the kind of memory, that of handles, and the place
_PINNED, _MANAGED, _ON_DEVICE, _ON_HOST = 1, 2, 1, 2
_UNITS = (1, 2, 4)  # bytes of an element of a fill
_HOST_MEMORY, _DEVICE_MEMORY = 1, 2  # CUmemorytype


# --- from structures to calls that queue the work


def kernel_at(driver: Driver, address: int, form: Struct = KERNEL) -> Queue:
    """Return what launches the kernel that a structure describes."""
    handle, *shape, arguments, extra, kernel, _ = (*form.unpack(own_memory.read(address, form.size)), 0, 0)[:12]
    function = function_of(driver, handle or kernel)
    return lambda stream: launch_on(function, tuple(shape), stream, arguments, extra)


def copy_at(driver: Driver, address: int) -> Queue:
    """Return what queues the copy that a structure describes."""
    box = copies.planes_at(address)
    if box.is_bytes:
        ends = (
            end.x + (end.host if end.kind == _HOST_MEMORY else end.device or end.host) for end in (box.dst, box.src)
        )
        dst, src = ends
        return lambda stream: copies.queue_bytes(driver, dst, src, box.width, stream)
    if box.depth > 1:
        raise RefusedError(NOT_SUPPORTED, "a node that copies several planes is not simulated: add one for each")
    return lambda stream: copies.copy_box(driver, box, stream)


def fill_at(driver: Driver, address: int) -> Queue:
    """Return what queues the fill that a structure describes."""
    dst, pitch, value, unit, width, height = FILL.unpack(own_memory.read(address, FILL.size))
    if unit not in _UNITS or value >= 1 << 8 * unit:
        raise RefusedError(INVALID_VALUE, f"elements of {unit} bytes with the value {value:#x}")
    if height > 1 and pitch != width * unit:
        raise RefusedError(NOT_SUPPORTED, "a node that fills rows with a gap between them is not simulated")
    return lambda stream: fills.queue(driver, dst, value, unit, width * max(height, 1), stream)


def host_at(_: Driver, address: int) -> Queue:
    """Return what queues the call of a function that a structure describes."""
    function, data = HOST.unpack(own_memory.read(address, HOST.size))
    called = checked(function, HostFunction)
    return lambda stream: native.LaunchHostFunc(stream, called, (data,))


def record_at(driver: Driver, address: int) -> Queue:
    """Return what queues the record of an event."""
    return recording(driver.handles.find("event", *unpack("<Q", own_memory.read(address, 8))))


def recording(event: Event) -> Queue:
    """Return what queues a record of *event*, which each launch makes."""
    return lambda stream: native.RecordEvent(event, stream, external=True)


def wait_at(driver: Driver, address: int) -> Queue:
    """Return what queues the wait for an event."""
    return waiting(driver.handles.find("event", *unpack("<Q", own_memory.read(address, 8))))


def waiting(event: Event) -> Queue:
    """Return what queues a wait for *event*, which each launch makes."""
    return lambda stream: native.StreamWaitEvent(stream, event, external=True)


def allocation_at(driver: Driver, address: int) -> Queue:
    """Return what takes memory for a graph, and writes its address to the structure."""
    properties, _, _, nbytes, _ = ALLOCATION.unpack(own_memory.read(address, ALLOCATION.size))
    kind, _, place, ordinal = _POOL.unpack(properties[: _POOL.size])
    if kind not in (_PINNED, _MANAGED) or place not in (_ON_DEVICE, _ON_HOST):
        raise RefusedError(INVALID_VALUE, f"memory of the kind {kind} at a place of the kind {place}")
    if place == _ON_DEVICE:
        driver.runtime.device(ordinal)

    async def queue(stream: Stream) -> None:
        buffer = await native.MallocAsync(nbytes, stream)
        own_memory.write(address + ALLOCATION.size - 8, pack("<Q", buffer.address))

    return queue


def free_at(_: Driver, address: int) -> Queue:
    """Return what gives memory of a graph back."""
    return freeing(*unpack("<Q", own_memory.read(address, 8)))


def freeing(address: int) -> Queue:
    """Return what gives the memory at *address* back."""
    return lambda stream: native.FreeAsync(address, stream)


# --- from nodes to structures


def kernel_of(driver: Driver, node: Node, form: Struct = KERNEL) -> bytes:
    """Return the structure of the kernel that *node* launches."""
    work = node.work
    if not isinstance(work, Launch):
        raise RefusedError(INVALID_VALUE, f"{node!r} launches no kernel of a module")
    function, kernel = _names(driver, work)
    data = bytes(work.parameters)
    base = kept(driver, ("values", node.first), data)
    places = [base + at for at, _ in function.offsets] if function else []
    array = kept(driver, ("arguments", node.first), pack(f"<{len(places)}Q", *places)) if places else 0
    handles = driver.handle("function", function) if function else 0, driver.handle("kernel", kernel) if kernel else 0
    fields = (handles[0], *work.shape.grid, *work.shape.block, work.shape.shared, array, 0, handles[1], 0)
    return form.pack(*fields[: len(form.unpack(bytes(form.size)))])


def _names(driver: Driver, work: Launch) -> tuple[Function | None, Kernel | None]:
    """Return what the program knows the kernel of *work* as: a function, and a kernel of a library."""
    kernels: list[Kernel] = driver.handles.of_kind("kernel")
    for kernel in kernels:
        for module in kernel.library.modules.values():
            function = module.function(kernel.name)
            if function.kernel.program is work.plan.program:
                return function, kernel
    functions: list[Function] = driver.handles.of_kind("function")
    return next((each for each in functions if each.kernel.program is work.plan.program), None), None


def copy_of(_: Driver, node: Node) -> bytes:
    """Return the structure of the copy that *node* makes."""
    work = node.work
    if not isinstance(work, Copy):
        raise RefusedError(INVALID_VALUE, f"{node!r} copies nothing")
    rows = (work.width, work.height) if isinstance(work, PitchedCopy) else (work.nbytes, 1)
    pitches = (work.src_pitch, work.dst_pitch) if isinstance(work, PitchedCopy) else (0, 0)
    src = _end(work.src, work.src_offset, pitches[0])
    dst = _end(work.dst, work.dst_offset, pitches[1])
    return copies.PLANES.pack(*src, *dst, *rows, 1)


def _end(memory: Allocation, offset: int, pitch: int) -> copies.End:
    address, is_host = memory.address + offset, memory.space in (Space.PINNED, Space.PAGEABLE)
    kind = _HOST_MEMORY if is_host else _DEVICE_MEMORY
    return copies.End(0, 0, 0, 0, kind, address * is_host, address * (not is_host), 0, 0, pitch, 0)


def fill_of(_: Driver, node: Node) -> bytes:
    """Return the structure of the fill that *node* makes."""
    work = node.work
    if not isinstance(work, Fill):
        raise RefusedError(INVALID_VALUE, f"{node!r} fills nothing")
    return FILL.pack(work.dst.address + work.offset, 0, work.value, work.unit, work.nbytes // work.unit, 1)


def host_of(_: Driver, node: Node) -> bytes:
    """Return the structure of the function that *node* calls."""
    work = node.work
    if not isinstance(work, HostWork):
        raise RefusedError(INVALID_VALUE, f"{node!r} calls no function")
    function: Any = work.function
    return HOST.pack(cast(function, c_void_p).value or 0, *work.args)


def allocation_of(_: Driver, node: Node) -> bytes:
    """Return the structure of the memory that *node* takes."""
    memory = memory_of(node)
    properties = _POOL.pack(_PINNED, 0, _ON_DEVICE, memory.device).ljust(88, b"\0")
    return ALLOCATION.pack(properties, 0, 0, memory.nbytes, memory.address)


def memory_of(node: Node) -> Allocation:
    """Return the memory that *node* takes or gives back."""
    if not isinstance(node.subject, Allocation):
        raise RefusedError(INVALID_VALUE, f"{node!r} is about no memory")
    return node.subject


def event_of(node: Node) -> Event:
    """Return the event that *node* records or waits for."""
    if not isinstance(node.subject, Event):
        raise RefusedError(INVALID_VALUE, f"{node!r} is about no event")
    return node.subject
