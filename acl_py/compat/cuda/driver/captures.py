"""Captures: streams that take work as the nodes of a graph."""

from struct import pack
from typing import Any

import acl_py as native
from acl_py.compat.cuda.driver.arrays import kept, nodes_at
from acl_py.compat.cuda.driver.streams import stream_of
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from device_model.graphs.capture import CaptureStatus
from device_model.graphs.graph import Graph

_ADD, _SET = range(2)  # CUstreamUpdateCaptureDependencies_flags


@answers("cuStreamBeginCapture")
async def begin(_: Driver, stream: Any) -> None:
    """Capture a stream, in the mode in which other threads are forbidden most."""
    await native.BeginCapture(stream, native.CaptureMode.GLOBAL)


@answers("cuStreamBeginCapture_v2")
async def begin_in_mode(_: Driver, stream: Any, mode: int) -> None:
    """Capture a stream."""
    await native.BeginCapture(stream, mode)


@answers("cuStreamBeginCaptureToGraph")
async def begin_to_graph(
    driver: Driver, stream: Any, graph: Graph, dependencies: int, data: int, count: int, mode: int
) -> None:
    """Capture a stream into a graph, behind some of its nodes."""
    await native.BeginCaptureToGraph(stream, graph, nodes_at(driver, dependencies, count, data), mode)


@answers("cuStreamEndCapture")
async def end(_: Driver, stream: Any) -> Graph:
    """End a capture."""
    return await native.EndCapture(stream)


@answers("cuStreamIsCapturing", reads=True)
async def is_capturing(_: Driver, stream: Any) -> int:
    """Whether a stream captures, and whether a call has lost the capture."""
    return int(await native.IsCapturing(stream))


@answers("cuStreamGetCaptureInfo")
async def info(driver: Driver, stream: Any) -> tuple[int, int]:
    """Whether a stream captures, and the number of the capture."""
    status = await native.IsCapturing(stream)
    return int(status), _number(driver, stream) if status is CaptureStatus.ACTIVE else 0


def _number(driver: Driver, stream: Any) -> int:
    branch = stream_of(driver, stream).branch
    return driver.handle("capture", branch.capture) if branch is not None else 0


@answers("cuStreamGetCaptureInfo_v2")
async def info_v2(driver: Driver, stream: Any, status: int, number: int, graph: int, nodes: int, count: int) -> None:
    """What a stream captures, and the nodes that its next node depends on."""
    await info_v3(driver, stream, status, number, graph, nodes, 0, count)


@answers("cuStreamGetCaptureInfo_v3")
async def info_v3(
    driver: Driver, stream: Any, status: int, number: int, graph: int, nodes: int, data: int, count: int
) -> None:
    """The same; the edges to these nodes have no data of their own."""
    found = await native.CaptureInfo(stream)
    if not status:
        raise RefusedError(INVALID_VALUE, "there is no place for the status")
    is_active = found.status is CaptureStatus.ACTIVE
    handles = [driver.handle("node", node) for node in found.dependencies]
    facts = (
        (status, "<I", int(found.status)),
        (number, "<Q", _number(driver, stream) if is_active else 0),
        (graph, "<Q", driver.handle("graph", found.graph) if is_active else 0),
        (nodes, "<Q", kept(driver, ("nodes", stream), pack(f"<{len(handles)}Q", *handles)) if handles else 0),
        (data, "<Q", kept(driver, ("edges", stream), bytes(8 * len(handles))) if handles else 0),
        (count, "<Q", len(handles)),
    )
    for place, form, value in facts:
        if place and (is_active or place == status):
            own_memory.write(place, pack(form, value))


@answers("cuStreamUpdateCaptureDependencies")
async def update(driver: Driver, stream: Any, dependencies: int, count: int, flags: int) -> None:
    """Let the next node of a stream depend on other nodes."""
    await update_v2(driver, stream, dependencies, 0, count, flags)


@answers("cuStreamUpdateCaptureDependencies_v2")
async def update_v2(driver: Driver, stream: Any, dependencies: int, data: int, count: int, flags: int) -> None:
    """The same; the edges may have data."""
    if flags not in (_ADD, _SET):
        raise RefusedError(INVALID_VALUE, f"there are no flags {flags:#x} of dependencies")
    nodes = nodes_at(driver, dependencies, count, data)
    await native.UpdateCaptureDependencies(stream, nodes, adds=flags == _ADD)


@answers("cuThreadExchangeStreamCaptureMode")
async def exchange_mode(_: Driver, place: int) -> None:
    """Set which captures forbid unsafe calls of this thread; the mode so far takes its place."""
    mode = int.from_bytes(own_memory.read(place, 4), "little")
    own_memory.write(place, pack("<I", await native.ThreadExchangeStreamCaptureMode(mode)))
