"""Nodes of graphs whose structures the driver has in another form; all else of graphs is the driver's."""

import ctypes
from struct import Struct

from acl_py.compat.cuda.face.calls import call
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.runtime.copies import kind_of
from acl_py.compat.cuda.runtime.entries import answers
from acl_py.compat.cuda.runtime.structures import (
    DRIVER_KERNEL,
    DRIVER_PLANES,
    KERNEL,
    PLANES,
    bytes_of_driver,
    kernel_of_driver,
    kernel_of_runtime,
    planes_of_driver,
    planes_of_runtime,
)

_NODE = 256  # bytes of cudaGraphNodeParams
_HEAD = 16  # of these, before what a kind of node has of its own
_KERNEL, _MEMCPY, _MEMSET = range(3)  # cudaGraphNodeType
_COPY_HEAD = 16  # bytes before the copy in a node of its own kind
_CONTEXT = {_KERNEL: _HEAD + 64, _MEMCPY: _HEAD + 8, _MEMSET: _HEAD + 40}  # where the driver has a context
_HANDLE = Struct("<Q")


class _Held:
    """A structure for a call of the driver, which lives as long as this object."""

    def __init__(self, data: bytes) -> None:
        self._buffer = ctypes.create_string_buffer(data, len(data))
        self.address = ctypes.addressof(self._buffer)

    @property
    def data(self) -> bytes:
        """The bytes, which the call may have written."""
        return self._buffer.raw


def _context(driver: Driver) -> int:
    return driver.handle("context", driver.thread.context)


def _kernel(driver: Driver, place: int) -> _Held:
    data = own_memory.read(place, KERNEL.size)
    return _Held(kernel_of_driver(data, is_kernel=_names_kernel(driver, data)))


def _names_kernel(driver: Driver, data: bytes) -> bool:
    return driver.handles.kind_of(_HANDLE.unpack(data[: _HANDLE.size])[0]) == "kernel"


def _copy(place: int) -> _Held:
    *ends, kind = PLANES.unpack(own_memory.read(place, PLANES.size))
    return _Held(planes_of_driver(ends, kind_of(kind)))


# --- nodes by kind


@answers("cudaGraphAddKernelNode")
async def add_kernel(driver: Driver, *raw: int) -> None:
    """Add a launch."""
    await call(driver, "cuGraphAddKernelNode_v2", *raw[:-1], _kernel(driver, raw[-1]).address)


@answers("cudaGraphKernelNodeSetParams")
async def set_kernel(driver: Driver, node: int, place: int) -> None:
    """Let a node launch something else."""
    await call(driver, "cuGraphKernelNodeSetParams_v2", node, _kernel(driver, place).address)


@answers("cudaGraphExecKernelNodeSetParams")
async def set_kernel_of_exec(driver: Driver, exec_: int, node: int, place: int) -> None:
    """Let a node of an executable graph launch something else."""
    await call(driver, "cuGraphExecKernelNodeSetParams_v2", exec_, node, _kernel(driver, place).address)


@answers("cudaGraphKernelNodeGetParams")
async def get_kernel(driver: Driver, node: int, place: int) -> None:
    """Write what a node launches."""
    held = _Held(bytes(DRIVER_KERNEL.size))
    await call(driver, "cuGraphKernelNodeGetParams_v2", node, held.address)
    own_memory.write(place, kernel_of_runtime(held.data))


@answers("cudaGraphAddMemcpyNode")
async def add_copy(driver: Driver, *raw: int) -> None:
    """Add a copy of planes."""
    await call(driver, "cuGraphAddMemcpyNode", *raw[:-1], _copy(raw[-1]).address, _context(driver))


@answers("cudaGraphAddMemcpyNode1D")
async def add_copy_of_bytes(driver: Driver, *raw: int) -> None:
    """Add a copy of bytes."""
    held = _bytes(*raw[-4:])
    await call(driver, "cuGraphAddMemcpyNode", *raw[:-4], held.address, _context(driver))


def _bytes(dst: int, src: int, nbytes: int, kind: int) -> _Held:
    return _Held(bytes_of_driver(dst, src, nbytes, kind_of(kind)))


@answers("cudaGraphMemcpyNodeSetParams")
async def set_copy(driver: Driver, node: int, place: int) -> None:
    """Let a node copy something else."""
    await call(driver, "cuGraphMemcpyNodeSetParams", node, _copy(place).address)


@answers("cudaGraphMemcpyNodeSetParams1D")
async def set_copy_of_bytes(driver: Driver, node: int, *raw: int) -> None:
    """Let a node copy other bytes."""
    await call(driver, "cuGraphMemcpyNodeSetParams", node, _bytes(*raw).address)


@answers("cudaGraphExecMemcpyNodeSetParams")
async def set_copy_of_exec(driver: Driver, exec_: int, node: int, place: int) -> None:
    """Let a node of an executable graph copy something else."""
    held = _copy(place)
    await call(driver, "cuGraphExecMemcpyNodeSetParams", exec_, node, held.address, _context(driver))


@answers("cudaGraphExecMemcpyNodeSetParams1D")
async def set_copy_of_bytes_of_exec(driver: Driver, exec_: int, node: int, *raw: int) -> None:
    """Let a node of an executable graph copy other bytes."""
    held = _bytes(*raw)
    await call(driver, "cuGraphExecMemcpyNodeSetParams", exec_, node, held.address, _context(driver))


@answers("cudaGraphMemcpyNodeGetParams")
async def get_copy(driver: Driver, node: int, place: int) -> None:
    """Write what a node copies."""
    held = _Held(bytes(DRIVER_PLANES.size))
    await call(driver, "cuGraphMemcpyNodeGetParams", node, held.address)
    own_memory.write(place, planes_of_runtime(held.data))


@answers("cudaGraphAddMemsetNode")
async def add_fill(driver: Driver, *raw: int) -> None:
    """Add a fill."""
    await call(driver, "cuGraphAddMemsetNode", *raw, _context(driver))


@answers("cudaGraphExecMemsetNodeSetParams")
async def set_fill_of_exec(driver: Driver, *raw: int) -> None:
    """Let a node of an executable graph fill something else."""
    await call(driver, "cuGraphExecMemsetNodeSetParams", *raw, _context(driver))


@answers("cudaGraphConditionalHandleCreate")
async def create_condition(driver: Driver, handle: int, graph: int, value: int, flags: int) -> None:
    """Create the value that a conditional node asks for."""
    await call(driver, "cuGraphConditionalHandleCreate", handle, graph, _context(driver), value, flags)


# --- nodes of any kind


def _node(driver: Driver, place: int) -> tuple[int, _Held | None]:
    """Return the address of the driver's structure of a node, and what must live until it is read."""
    data = own_memory.read(place, _NODE)
    kind = int.from_bytes(data[:4], "little")
    if kind not in _CONTEXT:
        return place, None
    made = bytearray(_made(driver, kind, data))
    made[_CONTEXT[kind] : _CONTEXT[kind] + _HANDLE.size] = _HANDLE.pack(_context(driver))
    held = _Held(bytes(made))
    return held.address, held


def _made(driver: Driver, kind: int, data: bytes) -> bytes:
    own = data[_HEAD:]
    if kind == _KERNEL:
        launch = own[: KERNEL.size]
        own = kernel_of_driver(launch, is_kernel=_names_kernel(driver, launch))
    elif kind == _MEMCPY:
        *ends, direction = PLANES.unpack_from(own, _COPY_HEAD)
        own = own[:_COPY_HEAD] + planes_of_driver(ends, kind_of(direction))
    return (data[:_HEAD] + own).ljust(_NODE, b"\0")


@answers("cudaGraphAddNode")
async def add_node(driver: Driver, *raw: int) -> None:
    """Add a node; what the driver writes into the structure is there afterwards."""
    address, _held = _node(driver, raw[-1])
    await call(driver, "cuGraphAddNode_v2", *raw[:-1], address)


@answers("cudaGraphNodeSetParams")
async def set_node(driver: Driver, node: int, place: int) -> None:
    """Let a node do something else."""
    address, _held = _node(driver, place)
    await call(driver, "cuGraphNodeSetParams", node, address)


@answers("cudaGraphExecNodeSetParams")
async def set_node_of_exec(driver: Driver, exec_: int, node: int, place: int) -> None:
    """Let a node of an executable graph do something else."""
    address, _held = _node(driver, place)
    await call(driver, "cuGraphExecNodeSetParams", exec_, node, address)
