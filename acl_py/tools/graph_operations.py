"""The operations of stream programs that capture streams and use graphs."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from acl_py.runtime.runtime import Runtime
from acl_py.tools.operations import Operations
from acl_py.tools.programs import Program
from acl_py.tools.tasks import Tasks
from acl_py.verbs import captures, graphs
from device_model.completions import Completion
from device_model.graphs.capture import CaptureMode, CaptureStatus
from device_model.graphs.executable import Executable
from device_model.graphs.graph import Graph, Node

LOOK_NS = 3_000  # the script asks for the nodes and edges of a graph (measured: graphs nodes, 2.9 to 4.6 us)


class AbsentError(Exception):
    """A step names a graph, an executable or a node that was never made, so it makes no call."""

    code = -1  # what the measuring script notes


class GraphOperations(Operations):
    """All calls of one program, those about captures and graphs included."""

    def __init__(self, program: Program, runtime: Runtime, tasks: Tasks) -> None:
        super().__init__(program, runtime, tasks)
        self._graphs: dict[str, Graph] = {}
        self._executables: dict[str, Executable] = {}
        self._nodes: dict[str, Node] = {}
        self._last_if: dict[str, Node] = {}  # the IF node that was added last, by ""

    async def begin_capture(self, stream: str, mode: int) -> None:
        await captures.BeginCapture(self.streams[stream], mode)

    async def begin_capture_to(self, stream: str, graph: str, mode: int) -> None:
        await captures.BeginCaptureToGraph(self.streams[stream], _named(self._graphs, graph), (), mode)

    async def end_capture(self, stream: str, graph: str) -> str:
        self._graphs.pop(graph, None)
        self._graphs[graph] = await captures.EndCapture(self.streams[stream])
        return "graph"

    async def is_capturing(self, stream: str) -> CaptureStatus:
        return await captures.IsCapturing(self.streams[stream])

    async def capture_info(self, stream: str) -> tuple[int, int]:
        state = await captures.CaptureInfo(self.streams[stream])
        return int(state.status), len(state.dependencies)

    async def exchange_mode(self, mode: int) -> CaptureMode:
        return await captures.ThreadExchangeStreamCaptureMode(mode)

    async def graph_create(self, graph: str) -> None:
        self._graphs[graph] = await graphs.GraphCreate()

    async def graph_destroy(self, graph: str) -> None:
        await graphs.GraphDestroy(_named(self._graphs, graph))

    async def add_empty(self, graph: str, node: str, after: Sequence[str]) -> None:
        before = [_named(self._nodes, name) for name in after]
        self._nodes[node] = await graphs.GraphAddEmptyNode(_named(self._graphs, graph), before)

    async def add_child(self, graph: str, child: str, node: str, after: Sequence[str]) -> None:
        before = [_named(self._nodes, name) for name in after]
        parent, part = _named(self._graphs, graph), _named(self._graphs, child)
        self._nodes[node] = await graphs.GraphAddChildGraphNode(parent, part, before)

    async def add_if(self, graph: str, default: int) -> None:
        self._last_if[""] = await graphs.GraphAddIfNode(_named(self._graphs, graph), default=bool(default))

    async def begin_capture_body(self, stream: str) -> None:
        await captures.BeginCaptureToGraph(self.streams[stream], _named(self._last_if, "").body)

    async def end_capture_body(self, stream: str) -> None:
        await captures.EndCapture(self.streams[stream])

    async def clone(self, graph: str, to: str) -> None:
        self._graphs[to] = await graphs.GraphClone(_named(self._graphs, graph))

    async def nodes(self, graph: str) -> dict[str, Any]:
        self.runtime.pay(LOOK_NS)
        found = _named(self._graphs, graph)
        kinds = Counter(node.kind.value for node in found.nodes)
        return {"nodes": len(found.nodes), "edges": len(found.edges), "kinds": dict(sorted(kinds.items()))}

    async def instantiate(self, graph: str, exec: str) -> None:  # noqa: A002 - the format's name
        self._executables[exec] = await graphs.GraphInstantiate(_named(self._graphs, graph))

    async def upload(self, exec: str, stream: str) -> None:  # noqa: A002
        await graphs.GraphUpload(_named(self._executables, exec), self.streams[stream])

    async def graph_launch(self, exec: str, stream: str) -> Completion:  # noqa: A002
        return await graphs.GraphLaunch(_named(self._executables, exec), self.streams[stream])

    async def exec_update(self, exec: str, graph: str, always: bool) -> None:  # noqa: A002, ARG002
        await graphs.GraphExecUpdate(_named(self._executables, exec), _named(self._graphs, graph))

    async def exec_destroy(self, exec: str) -> None:  # noqa: A002
        await graphs.GraphExecDestroy(_named(self._executables, exec))


def _named(things: dict[str, Any], name: str) -> Any:
    if name not in things:
        raise AbsentError
    return things[name]
