"""Graphs: make them node by node, or of a capture; instantiate, launch, update and destroy them."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntFlag

from acl_py.calls.acts import Destroyed, GraphLaunched, GraphUpdated, Made, NodeAdded, Plain
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import Call, begin
from acl_py.runtime.graph_memory import GraphMemory
from acl_py.runtime.runtime import Runtime
from acl_py.sites import Site
from acl_py.verbs.captures import check_dependencies, check_graph
from acl_py.verbs.pools import give_to_pool
from acl_py.verbs.streams import StreamLike, resolve
from device_model.completions import NOTHING, Completion
from device_model.errors import shown
from device_model.graphs.executable import Executable
from device_model.graphs.graph import Condition, Graph, Node, NodeKind
from device_model.integers import integer
from device_model.memory import Allocation, Buffer
from device_model.work import Lane


class GraphInstantiateFlag(IntFlag):
    """Options of GraphInstantiate(); the values are those of cudaGraphInstantiateFlags."""

    AUTO_FREE_ON_LAUNCH = 1  # a launch gives memory back that the one before left; here every launch does
    UPLOAD = 2  # as GraphUpload() does
    DEVICE_LAUNCH = 4  # what kernels could launch; here only the host does
    USE_NODE_PRIORITY = 8  # kernels keep the priority of the stream that captured them; else the launch's stream counts


@verb(cuda="cudaGraphCreate", step="graph_create")
async def GraphCreate() -> Graph:
    """Create an empty graph.

    Stands for cudaGraphCreate; under ACL a graph comes from a capture only.

    Waits:
        all rules: For nothing.

    Returns:
        The graph.
    """
    _, runtime, site, enter = begin()
    runtime.pay(runtime.profile.graphs.begin)
    graph = Graph(f"graph {runtime.captures.next_number()}", site, runtime.scheduler)
    runtime.called(GraphCreate.__name__, enter, site, Made(None, graph))
    return graph


@verb(cuda="cudaGraphAddEmptyNode", step="add_empty")
async def GraphAddEmptyNode(graph: Graph, dependencies: Iterable[Node] = ()) -> Node:
    """Add a node that does nothing, as a place where others meet.

    Stands for cudaGraphAddEmptyNode.

    Args:
        graph: The graph.
        dependencies: The nodes of *graph* that have to be over before it.

    Waits:
        all rules: For nothing.

    Returns:
        The node.

    Raises:
        AclError: INVALID_VALUE if *graph* is destroyed, or a dependency is a node of another graph; INVALID_HANDLE if
            *graph* is of another simulation.
        TypeError: *graph* is not a graph, or a dependency is not a node.
    """
    act = NodeAdded(graph, None, None, (), ())
    return _add(begin(), GraphAddEmptyNode.__name__, act, NodeKind.EMPTY, dependencies)


@verb(cuda="cudaGraphAddChildGraphNode", step="add_child")
async def GraphAddChildGraphNode(graph: Graph, child: Graph, dependencies: Iterable[Node] = ()) -> Node:
    """Add a node that does all that *child* does, as it is now.

    Stands for cudaGraphAddChildGraphNode.

    Args:
        graph: The graph.
        child: The graph that becomes a part of it.
        dependencies: The nodes of *graph* that have to be over before it.

    Waits:
        all rules: For nothing.

    Returns:
        The node, which is over when all of them are.

    Raises:
        AclError: INVALID_VALUE if a graph is destroyed, if both are the same, or if a dependency is a node of another
            graph; INVALID_HANDLE if a graph is of another simulation.
        TypeError: *graph* or *child* is not a graph, or a dependency is not a node.
    """
    call = begin()
    check_graph(call, child)
    if child is graph:
        raise call[1].refuse(Kind.INVALID_VALUE, f"{graph!r} as a child of itself", "add a GraphClone() of it")
    copy = child.copy(child.name, call[2])
    act = NodeAdded(graph, child, None, (copy, *copy.bodies), ())
    return _add(call, GraphAddChildGraphNode.__name__, act, NodeKind.CHILD, dependencies, copy)


@verb(cuda="cudaGraphAddNode", step="add_if")
async def GraphAddIfNode(graph: Graph, dependencies: Iterable[Node] = (), *, default: bool = False) -> Node:
    """Add a node that runs its `body`, a graph, if its `condition` is true when its turn comes.

    Stands for cudaGraphConditionalHandleCreate and cudaGraphAddNode with a conditional node. The body is empty at
    first: add nodes to it, or capture into it with BeginCaptureToGraph().

    Args:
        graph: The graph.
        dependencies: The nodes of *graph* that have to be over before it.
        default: What the condition is at the beginning of each launch. A kernel or a host function of the same graph
            may `set` it.

    Waits:
        all rules: For nothing.

    Returns:
        The node.

    Raises:
        AclError: INVALID_VALUE if *graph* is destroyed, or a dependency is a node of another graph; INVALID_HANDLE if
            *graph* is of another simulation; NOT_SUPPORTED in a run without values.
        TypeError: *graph* is not a graph, or a dependency is not a node.

    Example:
        graph = await GraphCreate()
        node = await GraphAddIfNode(graph, default=True)
        await BeginCaptureToGraph(stream, node.body)
        await LaunchKernel(work, 8, (), stream)
        await EndCapture(stream)
    """
    call = begin()
    call[1].check_values("a conditional node")
    body = Graph(f"body {len(check_graph(call, graph).nodes)} of {graph.name}", call[2], graph.scheduler)
    act = NodeAdded(graph, None, int(bool(default)), (body,), ())
    node = _add(call, GraphAddIfNode.__name__, act, NodeKind.IF, dependencies, body)
    node.condition = Condition(bool(default))
    return node


def _add(
    call: Call,
    name: str,
    act: NodeAdded[Graph],
    kind: NodeKind,
    dependencies: Iterable[Node],
    subject: Graph | None = None,
) -> Node:
    """Add a node to the graph of *act* for a call of the verb *name*, behind *dependencies*."""
    _, runtime, site, enter = call
    graph = check_graph(call, act.graph)
    before = check_dependencies(call, graph, dependencies)
    costs = runtime.profile.graphs
    runtime.pay(costs.add_if if kind is NodeKind.IF else costs.begin)
    runtime.called(name, enter, site, act._replace(behind=tuple([node.index for node in before])))
    return graph.add(kind, before, site, subject=subject)


@verb(cuda="cudaGraphClone", step="clone")
async def GraphClone(graph: Graph) -> Graph:
    """Return a copy of *graph*, with nodes of its own.

    Stands for cudaGraphClone.

    Args:
        graph: The graph.

    Waits:
        all rules: For nothing.

    Returns:
        The copy.

    Raises:
        AclError: INVALID_VALUE if *graph* is destroyed; INVALID_HANDLE if it is of another simulation; NOT_SUPPORTED if
            it allocates memory and has an executable.
        TypeError: *graph* is not a graph.
    """
    call = begin()
    _, runtime, site, enter = call
    check_graph(call, graph)
    graph.check_copy(runtime.refuse)
    runtime.pay(runtime.profile.graphs.begin)
    clone = graph.copy(f"graph {runtime.captures.next_number()}", site)
    runtime.called(GraphClone.__name__, enter, site, Made(graph, clone, tuple(clone.bodies)))
    return clone


@verb(cuda="cudaGraphDestroy", step="graph_destroy")
async def GraphDestroy(graph: Graph) -> None:
    """Destroy *graph*. Its executables stay. If it has had none, nothing can allocate its memory any more.

    Stands for cudaGraphDestroy.

    Args:
        graph: The graph.

    Waits:
        all rules: For nothing (measured: graph-destroy-running).

    Raises:
        AclError: INVALID_VALUE if *graph* is destroyed already, or a capture adds to it (assumed); INVALID_HANDLE if it
            is of another simulation.
        TypeError: *graph* is not a graph.
    """
    call = begin()
    _, runtime, site, enter = call
    check_graph(call, graph)
    for capture in runtime.captures.running:
        if capture.graph is graph:
            what = f"GraphDestroy() of {graph!r}, to which {capture!r} adds"
            raise runtime.refuse(Kind.INVALID_VALUE, what, "end the capture first")
    graph.destroyed = site
    runtime.pay(runtime.profile.graphs.begin)
    if not graph.is_bound:
        _release(runtime, graph, site)
    runtime.called(GraphDestroy.__name__, enter, site, Destroyed(graph))


def _release(runtime: Runtime, graph: Graph, site: Site) -> None:
    """Give back the memory of a graph that no executable can allocate any more."""
    for node in graph.nodes:
        memory = node.subject
        if node.kind is NodeKind.ALLOCATE and isinstance(memory, Allocation) and memory.freed is None:
            give_to_pool(runtime, memory, Buffer(memory, 0, memory.nbytes), None, NOTHING, site)


@verb(cuda="cudaGraphInstantiate", step="instantiate")
async def GraphInstantiate(graph: Graph, flags: int = 0) -> Executable:
    """Make *graph*, as it is now, ready for launches on the current device.

    Stands for cudaGraphInstantiate. Under ACL's rules what a capture gives is executable already.

    Args:
        graph: The graph.
        flags: A GraphInstantiateFlag, or several.

    Waits:
        all rules: For nothing.

    Returns:
        The executable.

    Raises:
        AclError: INVALID_VALUE if *graph* is destroyed, and for unknown *flags*; INVALID_HANDLE if it is of another
            simulation; INVALID_VALUE for launches by the device, if a node is no kernel, copy or fill, copies pageable
            memory, or there is none (measured); NOT_SUPPORTED if the graph allocates memory or has an IF node, and
            has an executable (measured: graph-alloc-nodes; tests/bench/cuda/graphs.cu), and if the body of an IF node
            has a host function, memory of its own, or an external record or wait (documented for
            cudaConditionalNodeParams; the code is assumed).
        TypeError: *graph* is not a graph, or *flags* is not an int.

    Example:
        await BeginCapture(stream)
        await LaunchKernel(work, 8, (), stream)
        executable = await GraphInstantiate(await EndCapture(stream))
        await GraphLaunch(executable, stream)
    """
    call = begin()
    scope, runtime, site, enter = call
    check_graph(call, graph).check_executable(runtime.refuse)
    flags = _check_flags(runtime, flags)
    if flags & GraphInstantiateFlag.DEVICE_LAUNCH:
        _check_device_launch(runtime, graph)
    keeps_priorities = bool(flags & GraphInstantiateFlag.USE_NODE_PRIORITY)
    executable = scope.context.device.instantiate(graph, site, keeps_priorities=keeps_priorities)
    graphs, makeup = runtime.profile.graphs, executable.plan.makeup
    runtime.pay(makeup.instantiate_ns(graphs))
    if flags & GraphInstantiateFlag.UPLOAD:
        runtime.pay(makeup.upload_ns(graphs))
        executable.upload(scope.context.default)
    graph.is_bound = True
    runtime.called(GraphInstantiate.__name__, enter, site, Made[object](graph, executable, flags=int(flags)))
    return executable


def _check_flags(runtime: Runtime, flags: int) -> int:
    """Return *flags*; refuse unknown ones."""
    flags = integer("flags", flags, "a GraphInstantiateFlag")
    if flags & ~sum(GraphInstantiateFlag):
        raise runtime.refuse(
            Kind.INVALID_VALUE, f"GraphInstantiate() with flags {flags:#x}", f"use {list(GraphInstantiateFlag)}"
        )
    return flags


def _check_device_launch(runtime: Runtime, graph: Graph) -> None:
    """Refuse a graph that a kernel could not launch: an empty one, and one with a node of a wrong kind (measured)."""
    wrong = graph.node_not_for_device()
    if wrong is not None or not graph.nodes:
        what = f"GraphInstantiate() of {graph!r} with {wrong or 'no node'} for launches by the device"
        raise runtime.refuse(Kind.INVALID_VALUE, what, "leave the flag out: the host launches in any case")


@verb(cuda="cudaGraphUpload", step="upload")
async def GraphUpload(executable: Executable, stream: StreamLike = None) -> None:
    """Send the nodes of *executable* to the device, so that its first launch takes no longer than the others.

    Stands for cudaGraphUpload.

    Args:
        executable: What GraphInstantiate() gave.
        stream: The stream in which it is uploaded; None is the default one.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: INVALID_VALUE if *executable* is destroyed, INVALID_HANDLE if it is of another simulation;
            CAPTURE_UNSUPPORTED if *stream* captures; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream*
            cannot be used here.
        TypeError: *executable* is not one, or *stream* is not a stream.
    """
    call = begin()
    scope, runtime, site, enter = call
    check_executable(call, executable)
    stream = resolve(scope, stream, GraphUpload.__name__)
    runtime.pay(executable.plan.makeup.upload_ns(runtime.profile.graphs))
    executable.upload(stream)
    runtime.called(GraphUpload.__name__, enter, site, Plain((executable, stream)))


@verb(acl="aclmdlRIExecuteAsync", cuda="cudaGraphLaunch", step="graph_launch")
async def GraphLaunch(executable: Executable, stream: StreamLike = None) -> Completion:
    """Queue all work of *executable* in *stream*.

    Stands for cudaGraphLaunch and aclmdlRIExecuteAsync. It begins when the work before it is over, and the work behind
    it waits for all of it. Launches of one executable run one after the other, even in different streams.

    Args:
        executable: What GraphInstantiate() gave.
        stream: The stream, of the device of *executable*; None is the default one.

    Waits:
        all rules: For nothing, except for room if the hardware queue is full (measured: graph-launch-depth). If the
            graph has copies of pageable memory, or from host to host, until all of its work is done, because the host
            makes these copies itself (measured: graph-pageable-32m-busy, graph-memset-copies).

    Returns:
        The completion of the launch.

    Raises:
        AclError: INVALID_VALUE if *executable* is destroyed; INVALID_HANDLE if it is of another simulation or device;
            CAPTURE_UNSUPPORTED if *stream* captures; INVALID_ADDRESS if memory of a node was freed, and NOT_SUPPORTED
            if the graph allocates it itself; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be
            used here.
        DeadlockError: The stream can never make room.
        TypeError: *executable* is not one, or *stream* is not a stream.
    """
    return await _launch(begin(), executable, stream, None)


async def launch_as_recorded(executable: Executable, stream: StreamLike, taken: Sequence[int]) -> Completion:
    """Launch as GraphLaunch() does; *taken* says for each conditional node of the plan what it runs (`Launch`)."""
    decided = dict(zip(executable.plan.conditional, taken, strict=True))
    return await _launch(begin(GraphLaunch.__name__), executable, stream, decided)


async def _launch(
    call: Call, executable: Executable, stream: StreamLike, decided: Mapping[Node, int] | None
) -> Completion:
    scope, runtime, site, enter = call
    check_executable(call, executable)
    stream = resolve(scope, stream, GraphLaunch.__name__)
    if stream.context.device is not executable.device:
        raise runtime.refuse(
            Kind.INVALID_HANDLE,
            f"{executable!r} on {stream!r}, which is of another device",
            "instantiate the graph while that device is current",
        )
    for allocation in executable.plan.touched:
        if allocation.freed is not None:
            _refuse_freed(runtime, executable)
    queue = stream.queues[Lane.COMPUTE]
    if len(queue.fifo) + queue.reserved >= queue.depth:
        await runtime.wait_for_room(queue, executable.name, stream, site, lambda: check_executable(call, executable))
    cost = executable.launch_ns
    if executable.last is NOTHING and executable.memory():
        cost += runtime.profile.graphs.allocate
        runtime.state(GraphMemory).take(executable.device.ordinal, executable.memory())
    executable.is_uploaded = True
    runtime.pay(cost)
    launch = executable.launch(stream, runtime.host_ns + runtime.kernel_latency, site, decided)
    runtime.scheduler.settle()
    try:
        if executable.needs_host:
            what = f"GraphLaunch({executable.name}) makes copies itself"
            await runtime.wait(launch, what, site, (launch,), sleeps=False)
    except GeneratorExit:
        raise
    except BaseException:
        runtime.called(GraphLaunch.__name__, enter, site, GraphLaunched(executable, stream))
        raise
    runtime.called(GraphLaunch.__name__, enter, site, GraphLaunched(executable, stream))
    return launch


def _refuse_freed(runtime: Runtime, executable: Executable) -> None:
    """Refuse a launch after memory that its nodes touch has been freed, in other words if the graph allocates it."""
    for allocation in executable.memory():
        if allocation.freed is not None:
            what = f"{executable!r} once more, after a call has freed {allocation!r}, which it allocates"
            raise runtime.refuse(Kind.NOT_SUPPORTED, what, "free it after the last launch, or in the capture")
    for node in executable.plan.nodes:
        if node.work is not None:
            runtime.check_memory(node.work, node)


@verb(cuda="cudaGraphExecUpdate", step="exec_update")
async def GraphExecUpdate(executable: Executable, graph: Graph) -> None:
    """Let *executable* do the work of *graph* from its next launch on.

    Stands for cudaGraphExecUpdate.

    Args:
        executable: What GraphInstantiate() gave.
        graph: A graph with nodes of the same kinds and the same edges.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: GRAPH_UPDATE if the nodes or edges differ, and then the executable does what it did (measured:
            graph-update); INVALID_VALUE if one of the two is destroyed, INVALID_HANDLE if it is of another
            simulation.
        TypeError: *executable* or *graph* is not one.
    """
    call = begin()
    _, runtime, site, enter = call
    check_executable(call, executable)
    check_graph(call, graph)
    runtime.pay(runtime.profile.graphs.update[executable.plan.size])
    try:
        if not executable.update(graph):
            raise runtime.refuse(
                Kind.GRAPH_UPDATE,
                f"{executable!r} cannot take over {graph!r}: their nodes or edges differ in kind or number",
                "instantiate the new graph",
            )
    finally:
        runtime.called(GraphExecUpdate.__name__, enter, site, GraphUpdated(executable, graph))


@verb(acl="aclmdlRIDestroy", cuda="cudaGraphExecDestroy", step="exec_destroy")
async def GraphExecDestroy(executable: Executable) -> None:
    """Destroy *executable*; launches that are queued complete. Memory that the graph has not freed stays until
    FreeAsync() or Free().

    Stands for cudaGraphExecDestroy and aclmdlRIDestroy.

    Args:
        executable: What GraphInstantiate() gave.

    Waits:
        all rules: For nothing (measured: graph-destroy-running).

    Raises:
        AclError: INVALID_VALUE if it is destroyed already; INVALID_HANDLE if it is of another simulation.
        TypeError: *executable* is not one.
    """
    call = begin()
    _, runtime, site, enter = call
    check_executable(call, executable).destroy(site)
    runtime.pay(runtime.profile.graphs.begin)
    until = executable.last
    for allocation in executable.memory():
        if allocation.freed is None and (until is NOTHING or allocation in executable.freed()):
            give_to_pool(runtime, allocation, Buffer(allocation, 0, allocation.nbytes), None, until, site)
    runtime.called(GraphExecDestroy.__name__, enter, site, Destroyed(executable))


def check_executable(call: Call, executable: object) -> Executable:
    """Return *executable*; refuse anything but one of this simulation that is not destroyed."""
    if not isinstance(executable, Executable):
        raise TypeError(f"an executable must be what GraphInstantiate() gave, not {shown(executable)}")
    if executable.device.scheduler is not call[1].scheduler:
        raise call[1].refuse(
            Kind.INVALID_HANDLE, f"{executable!r} belongs to another simulation", "instantiate the graph in this one"
        )
    if executable.destroyed is not None:
        what = f"{executable!r} is gone"
        raise call[1].refuse(Kind.INVALID_VALUE, what, "instantiate the graph again", dead=executable)
    return executable
