"""The operations of stream programs that capture streams and use graphs."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from acl_py.calls.fields import TAKING
from acl_py.programs.format import Program
from acl_py.programs.operations import Operations
from acl_py.programs.tasks import Tasks
from acl_py.runtime.calls import begin
from acl_py.runtime.runtime import Runtime
from acl_py.verbs import captures, graph_nodes, graphs, task_groups
from device_model.completions import Completion
from device_model.graphs.capture import Capture
from device_model.graphs.executable import Executable
from device_model.graphs.graph import Graph, Node
from device_model.graphs.groups import TaskGroup
from device_model.streams import Stream

LOOK_NS = 3_000  # the script asks for the nodes and edges of a graph (measured: graphs nodes, 2.9 to 4.6 us)


class AbsentError(Exception):
    """A step names a graph, an executable or a node that was never made, so it makes no call."""

    code = -1  # what the measuring script notes


class GraphOperations(Operations):
    """All calls of one program, those about captures and graphs included."""

    def __init__(self, program: Program, runtime: Runtime, tasks: Tasks) -> None:
        super().__init__(program, runtime, tasks)
        self._graphs: dict[str, Graph] = {}
        self._groups: dict[str, TaskGroup] = {}
        self._executables: dict[str, Executable] = {}
        self._nodes: dict[str | None, Node] = {}
        self._taking: Capture | None = None  # of a node that is added by itself
        self._last_if: dict[str, Node] = {}  # the IF node that was added last, by ""

    def thing(self, kind: str | None, value: Any) -> Any:
        """Return the thing of a *kind* that a field names; its *value* if it names nothing."""
        things: dict[str | None, Any] = {
            "graph": self._graphs,
            "executable": self._executables,
            "task group": self._groups,
        }
        return _named(things[kind], value) if kind in things else super().thing(kind, value)

    async def begin_capture(self, stream: str, mode: int, graph: str | None) -> None:
        found = self.streams[stream]
        await captures.BeginCapture(found, mode)
        if graph is not None and isinstance(found, Stream) and found.branch is not None:
            self._graphs[graph] = found.branch.capture.graph

    async def begin_capture_to(self, stream: str, graph: str, mode: int, behind: Sequence[int]) -> None:
        to = _named(self._graphs, graph)
        if stream == TAKING:
            call = begin(captures.BeginCaptureToGraph.__name__)
            self._taking = graph_nodes.begin_taking(call, to, tuple(_at(to, behind)))
            self.streams[stream] = self._taking.origin
            return
        await captures.BeginCaptureToGraph(self.streams[stream], to, _at(to, behind), mode)

    async def end_capture(self, stream: str, graph: str) -> None:
        if stream == TAKING and self._taking is not None:
            graph_nodes.end_taking(begin(captures.EndCapture.__name__), self._taking)
            self._taking = None
            return
        self._graphs.pop(graph, None)
        self._graphs[graph] = await captures.EndCapture(self.streams[stream])

    async def capture_info(self, stream: str) -> tuple[int, int]:
        state = await captures.CaptureInfo(self.streams[stream])
        return int(state.status), len(state.dependencies)

    async def group_end(self, stream: str, group: str) -> None:
        self._groups[group] = await task_groups.CaptureTaskGrpEnd(self.streams[stream])

    async def graph_create(self, graph: str) -> None:
        self._graphs[graph] = await graphs.GraphCreate()

    async def add_empty(self, graph: str, node: str | None, after: Sequence[str], behind: Sequence[int]) -> None:
        to = _named(self._graphs, graph)
        self._nodes[node] = await graphs.GraphAddEmptyNode(to, [*self._before(after), *_at(to, behind)])

    async def add_child(
        self,
        graph: str,
        child: str,
        node: str | None,
        after: Sequence[str],
        behind: Sequence[int],
        bodies: Sequence[str],
    ) -> None:
        to, part = _named(self._graphs, graph), _named(self._graphs, child)
        added = await graphs.GraphAddChildGraphNode(to, part, [*self._before(after), *_at(to, behind)])
        self._nodes[node] = added
        self._graphs |= zip(bodies, (added.body, *added.body.bodies), strict=False)

    async def add_if(self, graph: str, default: int, behind: Sequence[int], bodies: Sequence[str]) -> None:
        to = _named(self._graphs, graph)
        added = self._last_if[""] = await graphs.GraphAddIfNode(to, _at(to, behind), default=bool(default))
        self._graphs |= zip(bodies, (added.body,), strict=False)

    def _before(self, after: Sequence[str]) -> list[Node]:
        return [_named(self._nodes, name) for name in after]

    async def begin_capture_body(self, stream: str) -> None:
        await captures.BeginCaptureToGraph(self.streams[stream], _named(self._last_if, "").body)

    async def end_capture_body(self, stream: str) -> None:
        await captures.EndCapture(self.streams[stream])

    async def clone(self, graph: str, to: str, bodies: Sequence[str]) -> None:
        made = self._graphs[to] = await graphs.GraphClone(_named(self._graphs, graph))
        self._graphs |= zip(bodies, made.bodies, strict=False)

    async def nodes(self, graph: str) -> dict[str, Any]:
        self.runtime.pay(LOOK_NS)
        found = _named(self._graphs, graph)
        kinds = Counter(node.kind.value for node in found.nodes)
        return {"nodes": len(found.nodes), "edges": len(found.edges), "kinds": dict(sorted(kinds.items()))}

    async def instantiate(self, graph: str, exec: str, flags: int) -> None:  # noqa: A002 - the format's name
        self._executables[exec] = await graphs.GraphInstantiate(_named(self._graphs, graph), flags)

    async def graph_launch(self, exec: str, stream: str, taken: Sequence[int] | None) -> Completion:  # noqa: A002
        executable = _named(self._executables, exec)
        if taken is None:
            return await graphs.GraphLaunch(executable, self.streams[stream])
        if len(taken) != len(executable.plan.conditional):
            count = len(executable.plan.conditional)
            raise self.unplayable(f"taken: must have a value for each of the {count} conditional nodes of {exec!r}")
        return await graphs.launch_as_recorded(executable, self.streams[stream], taken)

    async def exec_update(self, exec: str, graph: str, always: bool) -> None:  # noqa: A002, ARG002
        await graphs.GraphExecUpdate(_named(self._executables, exec), _named(self._graphs, graph))


def _at(graph: Graph, places: Sequence[int]) -> list[Node]:
    """Return the nodes of *graph* at these *places*."""
    if any(place >= len(graph.nodes) for place in places):
        raise AbsentError
    return [graph.nodes[place] for place in places]


def _named(things: dict[Any, Any], name: str) -> Any:
    if name not in things:
        raise AbsentError
    return things[name]
