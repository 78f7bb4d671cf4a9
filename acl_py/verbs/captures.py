"""Captures: between BeginCapture and EndCapture, streams take work as the nodes of a graph, and run none of it."""

from collections.abc import Iterable
from sys import _getframe
from typing import NamedTuple

from acl_py.calls.acts import Asked, CaptureBegan, CaptureEnded, Plain
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import Call, begin
from acl_py.runtime.scopes import current_scope
from acl_py.sites import site_of
from acl_py.verbs.streams import StreamLike, resolve_any
from device_model.errors import shown
from device_model.graphs.capture import Capture, CaptureMode, CaptureStatus
from device_model.graphs.graph import Graph, Node
from device_model.integers import integer


class CaptureState(NamedTuple):
    """What CaptureInfo() returns: the *graph* and the nodes that the next node of the stream depends on, if it captures
    and the capture is not lost.
    """

    status: CaptureStatus
    graph: Graph | None
    dependencies: tuple[Node, ...]


@verb(acl="aclmdlRICaptureBegin", cuda="cudaStreamBeginCapture", step="begin_capture")
async def BeginCapture(stream: StreamLike, mode: int = CaptureMode.GLOBAL) -> None:
    """Capture what is queued in *stream* from now on, until EndCapture().

    Stands for cudaStreamBeginCapture and aclmdlRICaptureBegin. Work that is queued becomes a node of a graph. A stream
    that waits for an event recorded in the capture is drawn in, and has to be joined by another event before the end.

    Args:
        stream: The stream; not the legacy one.
        mode: A CaptureMode: whose unsafe calls, which may wait for the device, are refused and lose the capture.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: CAPTURE_UNSUPPORTED for the legacy stream, CAPTURE_IMPLICIT for ACL's default one; CAPTURE_BEGUN if
            the stream captures already; GROUP_STATUS if it takes an update; INVALID_VALUE for an unknown mode;
            INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *stream* is not a stream, or *mode* is not an int.

    Example:
        await BeginCapture(stream)
        await LaunchKernel(work, 8, (), stream)
        graph = await EndCapture(stream)
    """
    _begin(begin(), BeginCapture.__name__, stream, mode, None, ())


@verb(cuda="cudaStreamBeginCaptureToGraph", step="begin_capture_to")
async def BeginCaptureToGraph(
    stream: StreamLike, graph: Graph, dependencies: Iterable[Node] = (), mode: int = CaptureMode.GLOBAL
) -> None:
    """Capture as BeginCapture() does, and add the nodes to *graph*.

    Stands for cudaStreamBeginCaptureToGraph; ACL has no such call.

    Args:
        stream: The stream; not the legacy one.
        graph: The graph.
        dependencies: The nodes of *graph* that the first captured nodes wait for.
        mode: A CaptureMode.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: INVALID_VALUE if *graph* is destroyed, or a dependency is a node of another graph; INVALID_HANDLE if
            *graph* is of another simulation; and what BeginCapture() raises.
        TypeError: *stream* is not a stream, *graph* is not a graph, or *mode* is not an int.
    """
    call = begin()
    check_graph(call, graph)
    _begin(call, BeginCaptureToGraph.__name__, stream, mode, graph, check_dependencies(call, graph, dependencies))


def _begin(
    call: Call, name: str, stream: StreamLike, mode: int, graph: Graph | None, dependencies: tuple[Node, ...]
) -> None:
    scope, runtime, site, enter = call
    stream = resolve_any(scope, stream)
    mode = integer("mode", mode, "a CaptureMode")
    runtime.pay(runtime.profile.graphs.begin)
    if mode not in list(CaptureMode):
        raise runtime.error(Kind.INVALID_VALUE, f"capture mode {mode}", "use a member of CaptureMode")
    if stream.branch is not None:
        raise runtime.error(
            Kind.CAPTURE_BEGUN, f"{stream!r} takes part in {stream.branch.capture!r}", "end that capture first"
        )
    if stream.update is not None:
        raise runtime.error(
            Kind.GROUP_STATUS, f"{name}() during the {repr(stream.update)[1:-1]}", "call CaptureTaskUpdateEnd() first"
        )
    legacy = stream is stream.context.legacy
    if legacy or stream is stream.context.default:
        raise runtime.error(
            Kind.CAPTURE_UNSUPPORTED if legacy else Kind.CAPTURE_IMPLICIT,
            f"{name}() on {stream!r}",
            "capture on a stream of CreateStream()",
        )
    if graph is None:
        graph = Graph(f"graph {runtime.captures.next_number()}", site, runtime.scheduler)
    capture = Capture(graph, stream, CaptureMode(mode), runtime.captures.host(), site, dependencies)
    runtime.captures.begin(runtime, capture)
    behind = tuple([node.index for node in dependencies])
    runtime.called(name, enter, site, CaptureBegan(stream, int(mode), graph, behind))


@verb(acl="aclmdlRICaptureEnd", cuda="cudaStreamEndCapture", step="end_capture")
async def EndCapture(stream: StreamLike) -> Graph:
    """End the capture that began on *stream*, and return its graph.

    Stands for cudaStreamEndCapture and aclmdlRICaptureEnd. After CAPTURE_UNMATCHED and NOT_CAPTURING nothing has
    changed. After any other outcome the capture is over, and its streams run their work again.

    Args:
        stream: The stream on which the capture began.

    Waits:
        all rules: For nothing.

    Returns:
        The graph.

    Raises:
        AclError: NOT_CAPTURING if the stream does not capture; CAPTURE_UNMATCHED if the capture began on another
            stream, in which case it is lost; CAPTURE_WRONG_THREAD if another task or thread began it, unless it is
            relaxed; CAPTURE_INVALIDATED if a call has lost it; GROUP_STATUS if a task group goes on; CAPTURE_UNJOINED
            if work of another stream is not joined to this one; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if
            *stream* cannot be used here.
        TypeError: *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    stream = resolve_any(scope, stream)
    branch = stream.branch
    size = 1 if branch is None else len(branch.capture.graph.nodes)
    runtime.pay(runtime.profile.graphs.end[size])
    if branch is None:
        raise runtime.error(Kind.NOT_CAPTURING, f"{stream!r} does not capture", "call BeginCapture() on it first")
    capture = branch.capture
    if stream is capture.origin:
        runtime.captures.end(runtime, capture)
        # Also if what follows refuses the graph: the capture is over.
        runtime.called(EndCapture.__name__, enter, site, CaptureEnded(stream, capture.graph))
        if capture.mode is not CaptureMode.RELAXED and capture.owner is not runtime.captures.host():
            raise runtime.error(
                Kind.CAPTURE_WRONG_THREAD,
                f"EndCapture() of {capture!r} in another task or thread",
                "end it in the one that began it, or begin it with CaptureMode.RELAXED",
            )
    return capture.result(stream, site, runtime.error)


class capture:  # noqa: N801 - used as a function
    """Capture what is queued in *stream* inside of an `async with`; the graph has it at the end.

        async with acl.capture(stream) as graph:
            await LaunchKernel(work, 8, (), stream)
        executable = await GraphInstantiate(graph)

    Args:
        stream: The stream; not the legacy one.
        mode: A CaptureMode.

    Raises:
        AclError: At the beginning what BeginCapture() raises, at the end what EndCapture() raises. An exception inside
            ends the capture, and is the one that comes out.
        TypeError: *stream* is not a stream, or *mode* is not an int.
    """

    def __init__(self, stream: StreamLike, mode: int = CaptureMode.GLOBAL) -> None:
        self.stream = stream
        self.mode = mode

    async def __aenter__(self) -> Graph:
        await BeginCapture(self.stream, self.mode)
        branch = resolve_any(current_scope(), self.stream).branch
        assert branch is not None, "BeginCapture() has given the stream a branch"
        return branch.capture.graph

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is None:
            await EndCapture(self.stream)
            return
        scope = current_scope()
        runtime, stream = scope.runtime, resolve_any(scope, self.stream)
        if stream.branch is not None:
            capture, enter = stream.branch.capture, runtime.host_ns
            runtime.pay(runtime.profile.graphs.end[len(capture.graph.nodes)])
            runtime.captures.end(runtime, capture)
            act = CaptureEnded(capture.origin, capture.graph)
            runtime.called(EndCapture.__name__, enter, site_of(_getframe(1)), act)


@verb(cuda="cudaStreamIsCapturing", step="is_capturing")
async def IsCapturing(stream: StreamLike) -> CaptureStatus:
    """Return whether *stream* captures.

    Stands for cudaStreamIsCapturing.

    Args:
        stream: The stream.

    Waits:
        all rules: For nothing.

    Returns:
        A CaptureStatus; INVALIDATED if a call has lost the capture.

    Raises:
        AclError: CAPTURE_IMPLICIT for the legacy stream while a blocking stream captures, which loses nothing;
            INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *stream* is not a stream.
    """
    return _info(begin(), IsCapturing.__name__, stream).status


@verb(acl="aclmdlRICaptureGetInfo", cuda="cudaStreamGetCaptureInfo", step="capture_info")
async def CaptureInfo(stream: StreamLike) -> CaptureState:
    """Return what *stream* captures.

    Stands for cudaStreamGetCaptureInfo and aclmdlRICaptureGetInfo.

    Args:
        stream: The stream.

    Waits:
        all rules: For nothing.

    Returns:
        The status, the graph, and the nodes that the next node of the stream depends on.

    Raises:
        AclError: As IsCapturing() does.
        TypeError: *stream* is not a stream.
    """
    return _info(begin(), CaptureInfo.__name__, stream)


def _info(call: Call, name: str, stream: StreamLike) -> CaptureState:
    scope, runtime, site, enter = call
    stream = resolve_any(scope, stream)
    runtime.captures.refuse_legacy(runtime, stream, name, loses=False)
    runtime.pay(runtime.profile.graphs.begin)
    runtime.called(name, enter, site, Asked(stream))
    branch = stream.branch
    if branch is None:
        return CaptureState(CaptureStatus.NONE, None, ())
    if branch.capture.lost is not None:
        return CaptureState(CaptureStatus.INVALIDATED, None, ())
    return CaptureState(CaptureStatus.ACTIVE, branch.capture.graph, tuple(branch.frontier))


@verb(
    acl="aclmdlRICaptureThreadExchangeMode",
    cuda="cudaThreadExchangeStreamCaptureMode",
    step="exchange_mode",
)
async def ThreadExchangeStreamCaptureMode(mode: int) -> CaptureMode:
    """Set the capture mode of the calling task or thread: which captures of others forbid its unsafe calls.

    Stands for cudaThreadExchangeStreamCaptureMode and aclmdlRICaptureThreadExchangeMode.

    Args:
        mode: A CaptureMode. GLOBAL: global captures of any host forbid them. THREAD_LOCAL: its own captures do.
            RELAXED: none does.

    Waits:
        all rules: For nothing.

    Returns:
        The mode so far. The first call of a task or thread returns THREAD_LOCAL, as on the measured card, although it
        is GLOBAL that was in force.

    Raises:
        AclError: INVALID_VALUE for an unknown mode.
        TypeError: *mode* is not an int.
    """
    _, runtime, site, enter = begin()
    mode = integer("mode", mode, "a CaptureMode")
    if mode not in list(CaptureMode):
        raise runtime.error(Kind.INVALID_VALUE, f"capture mode {mode}", "use a member of CaptureMode")
    runtime.pay(runtime.profile.graphs.begin)
    before = runtime.captures.exchange(CaptureMode(mode))
    runtime.called(ThreadExchangeStreamCaptureMode.__name__, enter, site, Plain((mode,)))
    return before


@verb(cuda="cudaStreamUpdateCaptureDependencies")
async def UpdateCaptureDependencies(stream: StreamLike, dependencies: Iterable[Node], *, adds: bool = False) -> None:
    """Let the next node of *stream*, which captures, depend on other nodes.

    Stands for cudaStreamUpdateCaptureDependencies.

    Args:
        stream: The stream.
        dependencies: Nodes of the graph that it captures.
        adds: The next node depends also on those that it would depend on without the call.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: NOT_CAPTURING if *stream* does not capture; CAPTURE_INVALIDATED if the capture is lost; INVALID_VALUE
            for a node of another graph; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used
            here.
        TypeError: *stream* is not a stream, or a dependency is not a node.
    """
    call = begin()
    scope, runtime, site, enter = call
    stream = resolve_any(scope, stream)
    branch = stream.branch
    if branch is None:
        raise runtime.error(Kind.NOT_CAPTURING, f"{stream!r} does not capture", "call BeginCapture() on it first")
    branch.capture.check(runtime.refuse)
    nodes = check_dependencies(call, branch.capture.graph, dependencies)
    branch.frontier = (branch.frontier if adds else {}) | dict.fromkeys(nodes)
    runtime.pay(runtime.profile.graphs.begin)
    runtime.called(UpdateCaptureDependencies.__name__, enter, site, Plain((stream,)))


# --- checks of graphs


def check_graph(call: Call, graph: object) -> Graph:
    """Return *graph*; refuse anything but a graph of this simulation that is not destroyed."""
    if not isinstance(graph, Graph):
        raise TypeError(f"a graph must be what EndCapture() or GraphCreate() gave, not {shown(graph)}")
    if graph.scheduler is not call[1].scheduler:
        raise call[1].refuse(Kind.INVALID_HANDLE, f"{graph!r} belongs to another simulation", "make it in this one")
    graph.check(call[1].refuse)
    return graph


def check_dependencies(call: Call, graph: Graph, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return *nodes*; refuse anything but nodes of *graph*."""
    dependencies = tuple(nodes)
    for node in dependencies:
        if not isinstance(node, Node):
            raise TypeError(f"a dependency must be a node of a graph, not {shown(node)}")
        if node.graph is not graph:
            raise call[1].refuse(
                Kind.INVALID_VALUE, f"{node!r} is no node of {graph!r}", "name nodes of the same graph"
            )
    return dependencies
