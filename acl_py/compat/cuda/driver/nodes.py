"""Nodes of graphs: they are added, and changed in graphs and in executables."""

from collections.abc import Callable
from struct import Struct, pack, unpack
from typing import NamedTuple

import acl_py as native
from acl_py.compat.cuda.driver import parameters
from acl_py.compat.cuda.driver.arrays import check_edges, kept, nodes_at
from acl_py.compat.cuda.driver.parameters import Queue
from acl_py.compat.cuda.driver.user_objects import share
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, NOT_SUPPORTED, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.verbs.graph_nodes import create_condition
from device_model.contexts import Context
from device_model.events import Event
from device_model.graphs.graph import Condition, Graph, Node, NodeKind


class Form(NamedTuple):
    """How the structure of a kind of node is read and written: *nbytes* at *offset* of the one for all kinds."""

    kind: NodeKind
    queue_at: Callable[[Driver, int], Queue]
    nbytes: int
    offset: int = 0


UNION, _NODE_PARAMS = 16, 256  # where the parameters begin in CUgraphNodeParams, and its bytes
_CHILD, _EMPTY, _CONDITIONAL = 4, 5, 13  # CUgraphNodeType
_FORMS = {  # by CUgraphNodeType
    0: Form(NodeKind.KERNEL, parameters.kernel_at, parameters.KERNEL.size),
    1: Form(NodeKind.COPY, parameters.copy_at, parameters.COPY_SIZE, 16),
    2: Form(NodeKind.FILL, parameters.fill_at, parameters.FILL.size),
    3: Form(NodeKind.HOST, parameters.host_at, parameters.HOST.size),
    6: Form(NodeKind.WAIT, parameters.wait_at, 8),
    7: Form(NodeKind.RECORD, parameters.record_at, 8),
    10: Form(NodeKind.ALLOCATE, parameters.allocation_at, parameters.ALLOCATION.size),
    11: Form(NodeKind.FREE, parameters.free_at, 8),
}
_KINDS = (NodeKind.IF, NodeKind.WHILE, NodeKind.SWITCH)  # CUgraphConditionalNodeType
_CONDITION = Struct("<QIIQQ")  # CUDA_CONDITIONAL_NODE_PARAMS: condition, kind, how many bodies, bodies, context
_ASSIGN_DEFAULT = 1


async def _add(driver: Driver, graph: Graph, dependencies: int, count: int, queue: Queue) -> Node:
    return await native.GraphAddNode(graph, queue, nodes_at(driver, dependencies, count))


async def _add_noted(
    driver: Driver, graph: Graph, dependencies: int, count: int, queue: Queue, address: int, nbytes: int
) -> Node:
    """Add a node, and keep the structure at *address* for programs that ask for it."""
    node = await _add(driver, graph, dependencies, count, queue)
    driver.notes["parameters", node.first] = own_memory.read(address, nbytes)
    return node


@answers("cuGraphAddEmptyNode")
async def add_empty(driver: Driver, graph: Graph, dependencies: int, count: int) -> Node:
    """Add a node that does nothing."""
    return await native.GraphAddEmptyNode(graph, nodes_at(driver, dependencies, count))


@answers("cuGraphAddKernelNode")
async def add_old_kernel(driver: Driver, graph: Graph, dependencies: int, count: int, address: int) -> Node:
    """Add a launch of a function."""
    queue = parameters.kernel_at(driver, address, parameters.OLD_KERNEL)
    return await _add(driver, graph, dependencies, count, queue)


@answers("cuGraphAddKernelNode_v2")
async def add_kernel(driver: Driver, graph: Graph, dependencies: int, count: int, address: int) -> Node:
    """Add a launch of a function, or of a kernel of a library."""
    return await _add(driver, graph, dependencies, count, parameters.kernel_at(driver, address))


@answers("cuGraphAddMemcpyNode")
async def add_copy(
    driver: Driver, graph: Graph, dependencies: int, count: int, address: int, _context: Context | None
) -> Node:
    """Add a copy."""
    queue = parameters.copy_at(driver, address)
    return await _add_noted(driver, graph, dependencies, count, queue, address, parameters.COPY_SIZE)


@answers("cuGraphAddMemsetNode")
async def add_fill(
    driver: Driver, graph: Graph, dependencies: int, count: int, address: int, _context: Context | None
) -> Node:
    """Add a fill."""
    queue = parameters.fill_at(driver, address)
    return await _add_noted(driver, graph, dependencies, count, queue, address, parameters.FILL.size)


@answers("cuGraphAddHostNode")
async def add_host(driver: Driver, graph: Graph, dependencies: int, count: int, address: int) -> Node:
    """Add a call of a function of the host."""
    return await _add(driver, graph, dependencies, count, parameters.host_at(driver, address))


@answers("cuGraphAddEventRecordNode")
async def add_record(driver: Driver, graph: Graph, dependencies: int, count: int, event: Event) -> Node:
    """Add a record of an event."""
    return await _add(driver, graph, dependencies, count, parameters.recording(event))


@answers("cuGraphAddEventWaitNode")
async def add_wait(driver: Driver, graph: Graph, dependencies: int, count: int, event: Event) -> Node:
    """Add a wait for an event."""
    return await _add(driver, graph, dependencies, count, parameters.waiting(event))


@answers("cuGraphAddMemAllocNode")
async def add_allocation(driver: Driver, graph: Graph, dependencies: int, count: int, address: int) -> Node:
    """Add a node that takes memory; the structure gets its address."""
    queue = parameters.allocation_at(driver, address)
    size = parameters.ALLOCATION.size
    return await _add_noted(driver, graph, dependencies, count, queue, address, size)


@answers("cuGraphAddMemFreeNode")
async def add_free(driver: Driver, graph: Graph, dependencies: int, count: int, address: int) -> Node:
    """Add a node that gives memory back."""
    return await _add(driver, graph, dependencies, count, parameters.freeing(address))


@answers("cuGraphAddChildGraphNode")
async def add_child(driver: Driver, graph: Graph, dependencies: int, count: int, child: Graph) -> Node:
    """Add a node that does what another graph does."""
    node = await native.GraphAddChildGraphNode(graph, child, nodes_at(driver, dependencies, count))
    share(driver, child, node.body)
    return node


@answers("cuGraphAddNode")
async def add(driver: Driver, graph: Graph, dependencies: int, count: int, address: int) -> Node:
    """Add a node of any kind."""
    return await add_v2(driver, graph, dependencies, 0, count, address)


@answers("cuGraphAddNode_v2")
async def add_v2(driver: Driver, graph: Graph, dependencies: int, data: int, count: int, address: int) -> Node:
    """Add a node of any kind; the edges may have data."""
    check_edges(data, count)
    kind, inside = kind_at(address), address + UNION
    if kind == _EMPTY:
        return await add_empty(driver, graph, dependencies, count)
    if kind == _CHILD:
        child = driver.handles.find("graph", *unpack("<Q", own_memory.read(inside, 8)))
        return await add_child(driver, graph, dependencies, count, child)
    if kind == _CONDITIONAL:
        return await _add_conditional(driver, graph, dependencies, count, inside)
    form = form_of(kind)
    place = inside + form.offset
    queue = form.queue_at(driver, place)
    return await _add_noted(driver, graph, dependencies, count, queue, place, form.nbytes)


def kind_at(address: int) -> int:
    """Return the kind of node that the structure for all kinds describes."""
    kind: int = unpack("<I", own_memory.read(address, _NODE_PARAMS)[:4])[0]
    return kind


def form_of(kind: int) -> Form:
    """Return how the parameters of a *kind* are read."""
    if kind not in _FORMS:
        known = kind <= _CONDITIONAL
        raise RefusedError(NOT_SUPPORTED if known else INVALID_VALUE, f"nodes of the kind {kind} are not simulated")
    return _FORMS[kind]


# --- conditional nodes


@answers("cuGraphConditionalHandleCreate")
async def create_handle(driver: Driver, graph: Graph, _context: Context | None, default: int, flags: int) -> int:
    """Make a condition, which one node asks and kernels set; kernels get its number."""
    if flags & ~_ASSIGN_DEFAULT:
        raise RefusedError(INVALID_VALUE, f"there are no flags {flags:#x} of conditions")
    number, condition = create_condition(driver.runtime, default if flags else None)
    driver.notes["condition", number] = condition, graph
    return number


async def _add_conditional(driver: Driver, graph: Graph, dependencies: int, count: int, address: int) -> Node:
    number, kind, bodies, _, context = _CONDITION.unpack(own_memory.read(address, _CONDITION.size))
    condition, owner = _condition(driver, number)
    if graph not in (owner, *owner.bodies) or kind >= len(_KINDS):
        raise RefusedError(INVALID_VALUE, f"a node of the kind {kind} that asks a condition of {owner!r}")
    node = await native.GraphAddConditionalNode(
        graph, condition, _KINDS[kind], bodies, nodes_at(driver, dependencies, count)
    )
    handles = [driver.handle("graph", body) for body in node.bodies]
    array = kept(driver, ("bodies", node.first), pack(f"<{bodies}Q", *handles))
    own_memory.write(address, _CONDITION.pack(number, kind, bodies, array, context))
    return node


def _condition(driver: Driver, number: int) -> tuple[Condition, Graph]:
    found: tuple[Condition, Graph] | None = driver.notes.get(("condition", number))
    if found is None:
        raise RefusedError(INVALID_VALUE, f"there is no condition {number:#x}")
    return found


# --- what a node does


@answers("cuGraphKernelNodeGetParams")
async def get_old_kernel(driver: Driver, node: Node, place: int) -> None:
    """The launch that a node makes."""
    own_memory.write(place, parameters.kernel_of(driver, node, parameters.OLD_KERNEL))


@answers("cuGraphKernelNodeGetParams_v2")
async def get_kernel(driver: Driver, node: Node, place: int) -> None:
    """The launch that a node makes."""
    own_memory.write(place, parameters.kernel_of(driver, node))


@answers("cuGraphMemcpyNodeGetParams")
async def get_copy(driver: Driver, node: Node, place: int) -> None:
    """The copy that a node makes."""
    own_memory.write(place, _noted(driver, node) or parameters.copy_of(driver, node))


@answers("cuGraphMemsetNodeGetParams")
async def get_fill(driver: Driver, node: Node, place: int) -> None:
    """The fill that a node makes."""
    own_memory.write(place, _noted(driver, node) or parameters.fill_of(driver, node))


@answers("cuGraphHostNodeGetParams")
async def get_host(driver: Driver, node: Node, place: int) -> None:
    """The function that a node calls."""
    own_memory.write(place, parameters.host_of(driver, node))


@answers("cuGraphMemAllocNodeGetParams")
async def get_allocation(driver: Driver, node: Node, place: int) -> None:
    """The memory that a node takes."""
    own_memory.write(place, _noted(driver, node) or parameters.allocation_of(driver, node))


def _noted(driver: Driver, node: Node) -> bytes:
    """Return the structure with which *node* was added or changed; empty if it was captured."""
    noted: bytes = driver.notes.get(("parameters", node.first), b"")
    return noted


@answers("cuGraphMemFreeNodeGetParams")
async def get_free(_: Driver, node: Node) -> int:
    """The memory that a node gives back."""
    return parameters.memory_of(node).address


@answers("cuGraphEventRecordNodeGetEvent", "cuGraphEventWaitNodeGetEvent")
async def get_event(_: Driver, node: Node) -> Event:
    """The event that a node records or waits for."""
    return parameters.event_of(node)


@answers("cuGraphChildGraphNodeGetGraph")
async def get_child(_: Driver, node: Node) -> Graph:
    """The graph that a node does."""
    if node.kind is not NodeKind.CHILD:
        raise RefusedError(INVALID_VALUE, f"{node!r} has no graph")
    return node.body
