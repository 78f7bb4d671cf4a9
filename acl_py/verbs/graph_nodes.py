"""Nodes of graphs: add them one by one, change what they do, put them in another order, take them out.

Work becomes a node as in a capture: a call that would queue it in a stream is made, and the stream takes it.
"""

from collections.abc import Awaitable, Callable, Iterable

from acl_py.calls.acts import PLAIN, CaptureBegan, CaptureEnded, Plain
from acl_py.calls.fields import TAKING
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import Call, begin
from acl_py.runtime.runtime import Runtime
from acl_py.sites import Site
from acl_py.verbs.captures import BeginCaptureToGraph, EndCapture, check_dependencies, check_graph
from acl_py.verbs.graphs import check_executable
from device_model.contexts import Context
from device_model.errors import shown
from device_model.graphs import edits
from device_model.graphs.capture import Capture, CaptureMode
from device_model.graphs.executable import Executable
from device_model.graphs.graph import CONDITIONAL, Condition, Graph, Node, NodeKind
from device_model.integers import integer
from device_model.streams import Stream

Queue = Callable[[Stream], Awaitable[object]]  # queues one piece of work in a stream


class _Taking:
    """The streams that take work as nodes, one for each context; they never run anything."""

    def __init__(self) -> None:
        self._streams: dict[Context, Stream] = {}

    def stream(self, context: Context, site: Site) -> Stream:
        """Return that of *context*."""
        if context not in self._streams:
            self._streams[context] = Stream(context, 0, TAKING, context.device.queues(-1), None, 0, site)
        return self._streams[context]


@verb(cuda="cudaGraphAddNode")
async def GraphAddNode(graph: Graph, queue: Queue, dependencies: Iterable[Node] = ()) -> Node:
    """Add a node that does what *queue* would queue in a stream.

    Stands for cudaGraphAddNode, and for cudaGraphAddKernelNode and its siblings.

    Args:
        graph: The graph.
        queue: An async function of a stream. It makes one call that queues work there: a launch, a copy, a fill, a host
            function, MallocAsync(), FreeAsync(), or a record of an event or a wait for one with external=True.
        dependencies: The nodes of *graph* that have to be over before it.

    Waits:
        all rules: For nothing.

    Returns:
        The node.

    Raises:
        AclError: INVALID_VALUE if *graph* is destroyed, if a dependency is a node of another graph, or if *queue* has
            queued nothing or more than one piece of work; INVALID_HANDLE if *graph* is of another simulation; and what
            the call in *queue* raises.
        TypeError: *graph* is not a graph, or a dependency is not a node.

    Example:
        graph = await GraphCreate()
        node = await GraphAddNode(graph, lambda stream: LaunchKernel(work, 8, (), stream))
    """
    call = begin()
    _, runtime, site, _ = call
    before = check_dependencies(call, check_graph(call, graph), dependencies)
    node = await _taken(call, graph, queue, before)
    runtime.called(GraphAddNode.__name__, runtime.host_ns, site, PLAIN)
    return node


async def _taken(call: Call, graph: Graph, queue: Queue, dependencies: tuple[Node, ...]) -> Node:
    """Return the node of *graph* that takes what *queue* queues."""
    runtime, size = call[1], len(graph.nodes)
    capture = begin_taking(call, graph, dependencies)
    try:
        await queue(capture.origin)
    finally:
        end_taking(call, capture)
    if len(graph.nodes) != size + 1:
        count = len(graph.nodes) - size
        del graph.nodes[size:]
        raise runtime.refuse(Kind.INVALID_VALUE, f"a node with {count} pieces of work", "queue one piece of work")
    return graph.nodes[-1]


def begin_taking(call: Call, graph: Graph, dependencies: tuple[Node, ...]) -> Capture:
    """Begin a capture whose stream takes one node of *graph*; it costs nothing by itself."""
    scope, runtime, site, _ = call
    stream = runtime.state(_Taking).stream(scope.context, site)
    capture = Capture(graph, stream, CaptureMode.RELAXED, runtime.captures.host(), site, dependencies)
    runtime.captures.begin(runtime, capture)
    behind = tuple([node.index for node in dependencies])
    act = CaptureBegan(stream, int(capture.mode), graph, behind)
    runtime.called(BeginCaptureToGraph.__name__, runtime.host_ns, site, act)
    return capture


def end_taking(call: Call, capture: Capture) -> None:
    """End *capture*. Its node has no stream, whose priority it could have."""
    _, runtime, site, _ = call
    runtime.captures.end(runtime, capture)
    for node in capture.branches[capture.origin].frontier:
        node.stream = None
    runtime.called(EndCapture.__name__, runtime.host_ns, site, CaptureEnded(capture.origin, capture.graph))


def create_condition(runtime: Runtime, default: int | None) -> tuple[int, Condition]:
    """Return a new condition and its number, by which kernels in PTX name it; at each launch it is *default*."""
    condition = Condition(default)
    number = len(runtime.captures.conditions) + 1
    runtime.captures.conditions[number] = condition
    return number, condition


@verb(cuda="cudaGraphAddNode")
async def GraphAddConditionalNode(
    graph: Graph, condition: Condition, kind: NodeKind, bodies: int = 1, dependencies: Iterable[Node] = ()
) -> Node:
    """Add a node that runs its bodies, which are graphs, as *condition* says when its turn comes.

    Stands for cudaGraphAddNode with a conditional node. The bodies are empty at first: add nodes to them.

    Args:
        graph: The graph.
        condition: What the node asks; kernels set it.
        kind: IF runs the first body if the condition is not 0, else the second one, if there are two. WHILE runs its
            body until the condition is 0. SWITCH runs the body with the number that the condition has, if there is one.
        bodies: How many bodies there are.
        dependencies: The nodes of *graph* that have to be over before it.

    Waits:
        all rules: For nothing.

    Returns:
        The node.

    Raises:
        AclError: INVALID_VALUE if *graph* is destroyed, a dependency is a node of another graph, another node asks
            *condition*, or a node of this *kind* cannot have so many *bodies*; INVALID_HANDLE if *graph* is of another
            simulation; NOT_SUPPORTED in a run without values.
        TypeError: *graph* is not a graph, or a dependency is not a node.
    """
    call = begin()
    _, runtime, site, enter = call
    runtime.check_values("a conditional node")
    before = check_dependencies(call, check_graph(call, graph), dependencies)
    most = {NodeKind.IF: 2, NodeKind.WHILE: 1}.get(kind, bodies)
    if kind not in CONDITIONAL or not 1 <= bodies <= most:
        raise runtime.refuse(
            Kind.INVALID_VALUE, f"{bodies} bodies of a {kind.value} node", "use 1" + f" to {most}" * (most > 1)
        )
    if condition.is_asked:
        raise runtime.refuse(Kind.INVALID_VALUE, f"a second node that asks {condition!r}", "create another condition")
    condition.is_asked = True
    first, *others = (Graph(f"body {len(graph.nodes)} of {graph.name}", site, graph.scheduler) for _ in range(bodies))
    runtime.pay(runtime.profile.graphs.add_if)
    runtime.called(GraphAddConditionalNode.__name__, enter, site, Plain((graph,)))
    node = graph.add(kind, before, site, subject=first)
    node.others, node.condition = tuple(others), condition
    return node


@verb(cuda="cudaGraphAddDependencies")
async def GraphAddDependencies(graph: Graph, edges: Iterable[tuple[Node, Node]]) -> None:
    """Let nodes of *graph* depend on others.

    Stands for cudaGraphAddDependencies.

    Args:
        graph: The graph.
        edges: For each edge the node before and the node behind.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: INVALID_VALUE if *graph* is destroyed, a node is one of another graph, an edge is there already, or it
            would make nodes wait for one another; INVALID_HANDLE if *graph* is of another simulation.
        TypeError: *graph* is not a graph, or a node is not one.
    """
    call = begin()
    _, runtime, site, enter = call
    pairs = _checked(call, graph, edges)
    for number, (before, behind) in enumerate(pairs):
        wrong = edits.links(before, behind) or edits.would_loop(before, behind)
        if wrong:
            for pair in pairs[:number]:
                edits.unlink(*pair)
            what = f"an edge from {before!r} to {behind!r}, which is there already or would close a loop"
            raise runtime.refuse(Kind.INVALID_VALUE, what, "leave it out")
        edits.link(before, behind)
    runtime.pay(runtime.profile.graphs.begin)
    runtime.called(GraphAddDependencies.__name__, enter, site, Plain((graph,)))


@verb(cuda="cudaGraphRemoveDependencies")
async def GraphRemoveDependencies(graph: Graph, edges: Iterable[tuple[Node, Node]]) -> None:
    """Let nodes of *graph* no longer depend on others.

    Stands for cudaGraphRemoveDependencies.

    Args:
        graph: The graph.
        edges: For each edge the node before and the node behind.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: INVALID_VALUE if *graph* is destroyed, a node is one of another graph, or an edge is not there;
            NOT_SUPPORTED if the graph allocates memory (documented); INVALID_HANDLE if *graph* is of another
            simulation.
        TypeError: *graph* is not a graph, or a node is not one.
    """
    call = begin()
    _, runtime, site, enter = call
    pairs = _checked(call, graph, edges)
    _check_removal(runtime, graph)
    for before, behind in pairs:
        if not edits.links(before, behind):
            raise runtime.refuse(Kind.INVALID_VALUE, f"no edge from {before!r} to {behind!r}", "name one that is there")
    for before, behind in pairs:
        edits.unlink(before, behind)
    runtime.pay(runtime.profile.graphs.begin)
    runtime.called(GraphRemoveDependencies.__name__, enter, site, Plain((graph,)))


def _checked(call: Call, graph: Graph, edges: Iterable[tuple[Node, Node]]) -> list[tuple[Node, Node]]:
    pairs = [(before, behind) for before, behind in edges]
    check_dependencies(call, check_graph(call, graph), [node for pair in pairs for node in pair])
    return pairs


@verb(cuda="cudaGraphDestroyNode")
async def GraphDestroyNode(node: Node) -> None:
    """Take *node* out of its graph, with its edges. Executables keep it.

    Stands for cudaGraphDestroyNode.

    Args:
        node: The node.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: INVALID_VALUE if its graph is destroyed, or the node is gone; NOT_SUPPORTED if the graph allocates
            memory (documented); INVALID_HANDLE if it is of another simulation.
        TypeError: *node* is not a node.
    """
    call = begin()
    _, runtime, site, enter = call
    graph = _graph_of(call, node)
    _check_removal(runtime, graph)
    edits.remove(node)
    for body in (each for own in node.bodies for each in (own, *own.bodies)):
        body.destroyed = site
    runtime.pay(runtime.profile.graphs.begin)
    runtime.called(GraphDestroyNode.__name__, enter, site, Plain((graph,)))


def _check_removal(runtime: Runtime, graph: Graph) -> None:
    if graph.allocates:
        raise runtime.refuse(
            Kind.NOT_SUPPORTED,
            f"to take something out of {graph!r}, which allocates memory",
            "leave the nodes out from the start, or allocate outside of the graph",
        )


def _graph_of(call: Call, node: Node) -> Graph:
    """Return the graph of *node*; refuse a node that is gone."""
    if not isinstance(node, Node):
        raise TypeError(f"a node must be one of a graph, not {shown(node)}")
    graph = check_graph(call, node.graph)
    if not any(each is node for each in graph.nodes):
        raise call[1].refuse(Kind.INVALID_VALUE, f"{node!r} is gone", "name a node that the graph has")
    return graph


@verb(cuda="cudaGraphNodeSetParams")
async def GraphNodeSetWork(node: Node, queue: Queue) -> Node:
    """Let *node* do what *queue* would queue in a stream. Executables that were made before do not change.

    Stands for cudaGraphNodeSetParams.

    Args:
        node: A node that GraphAddNode() gave, or a capture.
        queue: As for GraphAddNode().

    Waits:
        all rules: For nothing.

    Returns:
        The node that takes its place in the graph.

    Raises:
        AclError: INVALID_VALUE if its graph is destroyed, the node is gone, or the work is of another kind;
            INVALID_HANDLE if it is of another simulation; and what the call in *queue* raises.
        TypeError: *node* is not a node.
    """
    call = begin()
    _, runtime, site, enter = call
    graph = _graph_of(call, node)
    new = await _new_work(call, node, queue)
    edits.replace(node, new)
    runtime.pay(runtime.profile.graphs.begin)
    runtime.called(GraphNodeSetWork.__name__, enter, site, Plain((graph,)))
    return new


async def _new_work(call: Call, node: Node, queue: Queue) -> Node:
    """Return a node that does in the place of *node* what *queue* queues, which must be of the same kind."""
    _, runtime, site, _ = call
    apart = Graph(f"new work of {node.graph.name}", site, runtime.scheduler)
    taken = await _taken(call, apart, queue, ())
    if taken.kind is not node.kind:
        what = f"{taken.kind.value} as the new work of {node!r}"
        raise runtime.refuse(Kind.INVALID_VALUE, what, f"give it another {node.kind.value}")
    new = node.doing(taken.work, taken.subject, site)
    new.row = taken.row
    return new


@verb(cuda="cudaGraphExecNodeSetParams")
async def GraphExecNodeSetWork(executable: Executable, node: Node, queue: Queue) -> None:
    """Let *executable* do, in the place of *node*, what *queue* would queue in a stream, from its next launch on.

    Stands for cudaGraphExecNodeSetParams, and for cudaGraphExecKernelNodeSetParams and its siblings.

    Args:
        executable: What GraphInstantiate() gave.
        node: A node of the graph that it was made from.
        queue: As for GraphAddNode().

    Waits:
        all rules: For nothing.

    Raises:
        AclError: INVALID_VALUE if *executable* is destroyed or has no such node, or the work is of another kind;
            INVALID_HANDLE if it is of another simulation; and what the call in *queue* raises.
        TypeError: *executable* or *node* is not one.
    """
    call = begin()
    _, runtime, site, enter = call
    own = _node_in(call, executable, node)
    new = await _new_work(call, own, queue)
    executable.change(node, new)
    runtime.pay(runtime.profile.graphs.update[1])
    runtime.called(GraphExecNodeSetWork.__name__, enter, site, Plain((executable,)))


def _node_in(call: Call, executable: Executable, node: Node) -> Node:
    """Return what *executable* has for *node*."""
    check_executable(call, executable)
    if not isinstance(node, Node):
        raise TypeError(f"a node must be one of a graph, not {shown(node)}")
    own = executable.node(node)
    if own is None:
        raise call[1].refuse(
            Kind.INVALID_VALUE, f"{executable!r} has no {node!r}", "name a node of the graph that it was made from"
        )
    return own


@verb(cuda="cudaGraphNodeSetEnabled")
async def GraphNodeSetEnabled(executable: Executable, node: Node, enabled: int) -> None:
    """Let *executable* do the work of *node* from its next launch on, or nothing in its place.

    Stands for cudaGraphNodeSetEnabled.

    Args:
        executable: What GraphInstantiate() gave.
        node: A kernel, a copy or a fill of the graph that it was made from.
        enabled: Whether the node does its work.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: INVALID_VALUE if *executable* is destroyed or has no such node, or if that is none of these;
            INVALID_HANDLE if it is of another simulation.
        TypeError: *executable* or *node* is not one.
    """
    call = begin()
    _, runtime, site, enter = call
    own = _node_in(call, executable, node)
    if own.kind not in (NodeKind.KERNEL, NodeKind.COPY, NodeKind.FILL):
        raise runtime.refuse(Kind.INVALID_VALUE, f"{own!r} cannot be switched", "switch kernels, copies and fills")
    executable.switch(node, on=bool(integer("enabled", enabled)))
    runtime.pay(runtime.profile.graphs.update[1])
    runtime.called(GraphNodeSetEnabled.__name__, enter, site, Plain((executable,)))
