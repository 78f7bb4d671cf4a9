"""Nodes of graphs whose structures the driver has in another form; everything else about graphs is the driver's."""

import ctypes
from struct import Struct

from acl_py.compat.cuda.face.calls import call
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.runtime.copies import elements, kind_of
from acl_py.compat.cuda.runtime.entries import answers
from acl_py.compat.cuda.runtime.structures import (
    DRIVER_KERNEL,
    DRIVER_PLANES,
    KERNEL,
    PLANES,
    arrays_of_driver,
    arrays_of_runtime,
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


async def _call(driver: Driver, name: str, *raw: "int | _Held") -> None:
    """Call the driver's function *name*; structures among what is passed live until it returns."""
    await call(driver, name, *(each.address if isinstance(each, _Held) else each for each in raw))


def _context(driver: Driver) -> int:
    return driver.handle("context", driver.thread.context)


def _kernel(driver: Driver, place: int) -> _Held:
    data = own_memory.read(place, KERNEL.size)
    return _Held(kernel_of_driver(data, is_kernel=_names_kernel(driver, data)))


def _names_kernel(driver: Driver, data: bytes) -> bool:
    return driver.handles.kind_of(_HANDLE.unpack(data[: _HANDLE.size])[0]) == "kernel"


def _copy(driver: Driver, place: int) -> _Held:
    return _Held(_planes(driver, own_memory.read(place, PLANES.size)))


def _planes(driver: Driver, data: bytes) -> bytes:
    *ends, kind = PLANES.unpack(data)
    return planes_of_driver(ends, kind_of(kind), elements(driver, arrays_of_runtime(ends)))


# --- nodes by kind


@answers("cudaGraphAddKernelNode")
async def add_kernel(driver: Driver, *raw: int) -> None:
    """Add a launch."""
    await _call(driver, "cuGraphAddKernelNode_v2", *raw[:-1], _kernel(driver, raw[-1]))


@answers("cudaGraphKernelNodeSetParams")
async def set_kernel(driver: Driver, node: int, place: int) -> None:
    """Let a node launch something else."""
    await _call(driver, "cuGraphKernelNodeSetParams_v2", node, _kernel(driver, place))


@answers("cudaGraphExecKernelNodeSetParams")
async def set_kernel_of_exec(driver: Driver, exec_: int, node: int, place: int) -> None:
    """Let a node of an executable graph launch something else."""
    await _call(driver, "cuGraphExecKernelNodeSetParams_v2", exec_, node, _kernel(driver, place))


@answers("cudaGraphKernelNodeGetParams")
async def get_kernel(driver: Driver, node: int, place: int) -> None:
    """Write what a node launches."""
    held = _Held(bytes(DRIVER_KERNEL.size))
    await _call(driver, "cuGraphKernelNodeGetParams_v2", node, held)
    own_memory.write(place, kernel_of_runtime(held.data))


@answers("cudaGraphAddMemcpyNode")
async def add_copy(driver: Driver, *raw: int) -> None:
    """Add a copy of planes."""
    await _call(driver, "cuGraphAddMemcpyNode", *raw[:-1], _copy(driver, raw[-1]), _context(driver))


@answers("cudaGraphAddMemcpyNode1D")
async def add_copy_of_bytes(driver: Driver, *raw: int) -> None:
    """Add a copy of bytes."""
    held = _bytes(*raw[-4:])
    await _call(driver, "cuGraphAddMemcpyNode", *raw[:-4], held, _context(driver))


def _bytes(dst: int, src: int, nbytes: int, kind: int) -> _Held:
    return _Held(bytes_of_driver(dst, src, nbytes, kind_of(kind)))


@answers("cudaGraphMemcpyNodeSetParams")
async def set_copy(driver: Driver, node: int, place: int) -> None:
    """Let a node copy something else."""
    await _call(driver, "cuGraphMemcpyNodeSetParams", node, _copy(driver, place))


@answers("cudaGraphMemcpyNodeSetParams1D")
async def set_copy_of_bytes(driver: Driver, node: int, *raw: int) -> None:
    """Let a node copy other bytes."""
    await _call(driver, "cuGraphMemcpyNodeSetParams", node, _bytes(*raw))


@answers("cudaGraphExecMemcpyNodeSetParams")
async def set_copy_of_exec(driver: Driver, exec_: int, node: int, place: int) -> None:
    """Let a node of an executable graph copy something else."""
    held = _copy(driver, place)
    await _call(driver, "cuGraphExecMemcpyNodeSetParams", exec_, node, held, _context(driver))


@answers("cudaGraphExecMemcpyNodeSetParams1D")
async def set_copy_of_bytes_of_exec(driver: Driver, exec_: int, node: int, *raw: int) -> None:
    """Let a node of an executable graph copy other bytes."""
    held = _bytes(*raw)
    await _call(driver, "cuGraphExecMemcpyNodeSetParams", exec_, node, held, _context(driver))


@answers("cudaGraphMemcpyNodeGetParams")
async def get_copy(driver: Driver, node: int, place: int) -> None:
    """Write what a node copies."""
    held = _Held(bytes(DRIVER_PLANES.size))
    await _call(driver, "cuGraphMemcpyNodeGetParams", node, held)
    own_memory.write(place, planes_of_runtime(held.data, elements(driver, arrays_of_driver(held.data))))


@answers("cudaGraphAddMemsetNode")
async def add_fill(driver: Driver, *raw: int) -> None:
    """Add a fill."""
    await _call(driver, "cuGraphAddMemsetNode", *raw, _context(driver))


@answers("cudaGraphExecMemsetNodeSetParams")
async def set_fill_of_exec(driver: Driver, *raw: int) -> None:
    """Let a node of an executable graph fill something else."""
    await _call(driver, "cuGraphExecMemsetNodeSetParams", *raw, _context(driver))


@answers("cudaGraphConditionalHandleCreate")
async def create_condition(driver: Driver, handle: int, graph: int, value: int, flags: int) -> None:
    """Create the value that a conditional node asks for."""
    await _call(driver, "cuGraphConditionalHandleCreate", handle, graph, _context(driver), value, flags)


# --- nodes of any kind


def _node(driver: Driver, place: int) -> int | _Held:
    """Return the driver's structure of a node, or its address if the program has it."""
    data = own_memory.read(place, _NODE)
    kind = int.from_bytes(data[:4], "little")
    if kind not in _CONTEXT:
        return place
    made = bytearray(_made(driver, kind, data))
    made[_CONTEXT[kind] : _CONTEXT[kind] + _HANDLE.size] = _HANDLE.pack(_context(driver))
    return _Held(bytes(made))


def _made(driver: Driver, kind: int, data: bytes) -> bytes:
    own = data[_HEAD:]
    if kind == _KERNEL:
        launch = own[: KERNEL.size]
        own = kernel_of_driver(launch, is_kernel=_names_kernel(driver, launch))
    elif kind == _MEMCPY:
        copy = own[_COPY_HEAD : _COPY_HEAD + PLANES.size]
        own = own[:_COPY_HEAD] + _planes(driver, copy)
    return (data[:_HEAD] + own).ljust(_NODE, b"\0")


@answers("cudaGraphAddNode")
async def add_node(driver: Driver, *raw: int) -> None:
    """Add a node; what the driver writes into the structure is there afterwards."""
    await _call(driver, "cuGraphAddNode_v2", *raw[:-1], _node(driver, raw[-1]))


@answers("cudaGraphNodeSetParams")
async def set_node(driver: Driver, node: int, place: int) -> None:
    """Let a node do something else."""
    await _call(driver, "cuGraphNodeSetParams", node, _node(driver, place))


@answers("cudaGraphExecNodeSetParams")
async def set_node_of_exec(driver: Driver, exec_: int, node: int, place: int) -> None:
    """Let a node of an executable graph do something else."""
    await _call(driver, "cuGraphExecNodeSetParams", exec_, node, _node(driver, place))
