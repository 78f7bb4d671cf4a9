"""Graphs as a whole, and their executables."""

from pathlib import Path
from struct import Struct
from typing import Any

import acl_py as native
from acl_py.compat.cuda.driver.user_objects import drop_behind, forget_graphs, share
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import FILE_NOT_FOUND, INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.errors import AclError, Kind
from acl_py.verbs.graphs import GraphInstantiateFlag
from device_model.graphs.executable import Executable
from device_model.graphs.graph import Graph, Node

_PARAMS = Struct("<QQQI4x")  # CUDA_GRAPH_INSTANTIATE_PARAMS: flags, stream of the upload, node of an error, result
_UPLOAD = 2
_DONE, _ERROR, _NOT_SUPPORTED = 0, 1, 3  # CUgraphInstantiateResult
_UPDATE = Struct("<I4xQQ")  # CUgraphExecUpdateResultInfo: result, node of the error, the node before it
_TOPOLOGY_CHANGED, _KIND_CHANGED = 2, 3  # CUgraphExecUpdateResult
_DOT_FLAGS = (1 << 17) - 1


@answers("cuGraphCreate")
async def create(driver: Driver, flags: int) -> Graph:
    """Create an empty graph."""
    if flags:
        raise RefusedError(INVALID_VALUE, f"the flags are {flags}, and there are none")
    with driver.thread.anywhere():
        return await native.GraphCreate()


@answers("cuGraphDestroy")
async def destroy(driver: Driver, graph: Graph) -> None:
    """Destroy a graph, its nodes, and the graphs that they have."""
    with driver.thread.anywhere():
        await native.GraphDestroy(graph)
    forget_graphs(driver, [graph, *graph.bodies])


@answers("cuGraphClone")
async def clone(driver: Driver, graph: Graph) -> Graph:
    """Copy a graph."""
    with driver.thread.anywhere():
        made = await native.GraphClone(graph)
    share(driver, graph, made)
    return made


@answers("cuGraphInstantiateWithFlags")
async def instantiate(driver: Driver, graph: Graph, flags: int) -> Executable:
    """Make a graph ready for launches."""
    executable = await native.GraphInstantiate(graph, flags)
    share(driver, graph, executable)
    driver.notes["flags", executable] = flags
    return executable


@answers("cuGraphInstantiate", "cuGraphInstantiate_v2")
async def instantiate_v2(driver: Driver, graph: Graph, log: int, nbytes: int) -> tuple[Executable, Node | None]:
    """The same; the text of an error is empty."""
    made = await instantiate(driver, graph, 0)
    if log and nbytes:
        own_memory.write(log, b"\0")
    return made, None


@answers("cuGraphInstantiateWithParams")
async def instantiate_with_params(driver: Driver, graph: Graph, place: int) -> Executable:
    """The same; the structure with the flags gets what came of it."""
    flags, stream, _, _ = _PARAMS.unpack(own_memory.read(place, _PARAMS.size))
    try:
        executable = await instantiate(driver, graph, flags & ~_UPLOAD)
    except AclError as error:
        wrong = graph.node_not_for_device() if flags & GraphInstantiateFlag.DEVICE_LAUNCH else None
        result = _NOT_SUPPORTED if wrong or error.kind is Kind.NOT_SUPPORTED else _ERROR
        own_memory.write(place, _PARAMS.pack(flags, stream, driver.handle("node", wrong) if wrong else 0, result))
        raise
    driver.notes["flags", executable] = flags
    own_memory.write(place, _PARAMS.pack(flags, stream, 0, _DONE))
    if flags & _UPLOAD:
        await native.GraphUpload(executable, driver.stream(stream))
    return executable


@answers("cuGraphExecGetFlags")
async def get_flags(driver: Driver, executable: Executable) -> int:
    """The flags of an instantiation."""
    flags: int = driver.notes["flags", executable] & ~_UPLOAD
    return flags


@answers("cuGraphUpload")
async def upload(_: Driver, executable: Executable, stream: Any) -> None:
    """Send an executable to the device."""
    await native.GraphUpload(executable, stream)


@answers("cuGraphLaunch")
async def launch(_: Driver, executable: Executable, stream: Any) -> None:
    """Launch an executable."""
    await native.GraphLaunch(executable, stream)


@answers("cuGraphExecDestroy")
async def destroy_executable(driver: Driver, executable: Executable) -> None:
    """Destroy an executable; its launches complete."""
    with driver.thread.anywhere():
        await native.GraphExecDestroy(executable)
    driver.handles.forget(executable)
    driver.notes.pop(("flags", executable), None)
    drop_behind(driver, executable, executable.last)


@answers("cuGraphExecUpdate")
async def update(driver: Driver, executable: Executable, graph: Graph) -> tuple[Node | None, int]:
    """Let an executable do the work of another graph of the same structure."""
    await _update(driver, executable, graph)
    return None, _DONE


@answers("cuGraphExecUpdate_v2")
async def update_v2(driver: Driver, executable: Executable, graph: Graph, place: int) -> None:
    """The same; the structure gets what came of it."""
    own_memory.check(place, _UPDATE.size)
    try:
        await _update(driver, executable, graph)
    except AclError as error:
        if error.kind is Kind.GRAPH_UPDATE:
            own_memory.write(place, _UPDATE.pack(*_difference(driver, executable, graph)))
        raise
    own_memory.write(place, _UPDATE.pack(_DONE, 0, 0))


async def _update(driver: Driver, executable: Executable, graph: Graph) -> None:
    await native.GraphExecUpdate(executable, graph)
    drop_behind(driver, executable, executable.last)
    share(driver, graph, executable)


def _difference(driver: Driver, executable: Executable, graph: Graph) -> tuple[int, int, int]:
    """Return why *executable* cannot take over *graph*, and the first node that differs."""
    for own, node in zip(executable.nodes, graph.nodes, strict=False):
        if own.kind is not node.kind:
            return _KIND_CHANGED, driver.handle("node", node), 0
    return _TOPOLOGY_CHANGED, 0, 0


@answers("cuGraphDebugDotPrint")
async def print_dot(_: Driver, graph: Graph, path: str, flags: int) -> None:
    """Write a picture of a graph for Graphviz."""
    if flags & ~_DOT_FLAGS:
        raise RefusedError(INVALID_VALUE, f"there are no flags {flags:#x} of pictures")
    _write(path, graph.dot() + "\n")


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise RefusedError(FILE_NOT_FOUND, f"{path}: {error.strerror}") from error
