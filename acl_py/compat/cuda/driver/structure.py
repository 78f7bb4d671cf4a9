"""The structure of graphs: their nodes and edges, which programs look at and change."""

import acl_py as native
from acl_py.compat.cuda.driver.arrays import nodes_at, write_nodes
from acl_py.compat.cuda.driver.user_objects import forget_graphs
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from device_model.graphs.executable import Executable
from device_model.graphs.graph import Graph, Node, NodeKind

_TYPES = {  # CUgraphNodeType
    NodeKind.KERNEL: 0, NodeKind.COPY: 1, NodeKind.FILL: 2, NodeKind.HOST: 3, NodeKind.CHILD: 4, NodeKind.EMPTY: 5,
    NodeKind.WAIT: 6, NodeKind.RECORD: 7, NodeKind.ALLOCATE: 10, NodeKind.FREE: 11, NodeKind.IF: 13,
    NodeKind.WHILE: 13, NodeKind.SWITCH: 13,
}  # fmt: skip


@answers("cuGraphGetNodes")
async def nodes(driver: Driver, graph: Graph, place: int, count: int) -> None:
    """The nodes of a graph."""
    write_nodes(driver, [(place, graph.nodes)], count)


@answers("cuGraphGetRootNodes")
async def roots(driver: Driver, graph: Graph, place: int, count: int) -> None:
    """Those that depend on no other."""
    write_nodes(driver, [(place, [node for node in graph.nodes if not node.dependencies])], count)


@answers("cuGraphGetEdges")
async def edges(driver: Driver, graph: Graph, before: int, behind: int, count: int) -> None:
    """The edges of a graph."""
    await edges_v2(driver, graph, before, behind, 0, count)


@answers("cuGraphGetEdges_v2")
async def edges_v2(driver: Driver, graph: Graph, before: int, behind: int, data: int, count: int) -> None:
    """The edges of a graph, whose data are zeros."""
    if bool(before) != bool(behind):
        raise RefusedError(INVALID_VALUE, "there is a place for one end of the edges only")
    ends = [list(each) for each in zip(*graph.edges, strict=True)] or [[], []]
    write_nodes(driver, [(before, ends[0]), (behind, ends[1])], count, data)


@answers("cuGraphNodeGetDependencies")
async def dependencies(driver: Driver, node: Node, place: int, count: int) -> None:
    """The nodes that a node depends on."""
    write_nodes(driver, [(place, node.dependencies)], count)


@answers("cuGraphNodeGetDependencies_v2")
async def dependencies_v2(driver: Driver, node: Node, place: int, data: int, count: int) -> None:
    """The same, with the data of the edges."""
    write_nodes(driver, [(place, node.dependencies)], count, data)


@answers("cuGraphNodeGetDependentNodes")
async def dependents(driver: Driver, node: Node, place: int, count: int) -> None:
    """The nodes that depend on a node."""
    await dependents_v2(driver, node, place, 0, count)


@answers("cuGraphNodeGetDependentNodes_v2")
async def dependents_v2(driver: Driver, node: Node, place: int, data: int, count: int) -> None:
    """The same, with the data of the edges."""
    write_nodes(driver, [(place, [each for each in node.graph.nodes if node in each.dependencies])], count, data)


@answers("cuGraphNodeGetType")
async def node_type(_: Driver, node: Node) -> int:
    """What kind of node it is."""
    return _TYPES[node.kind]


@answers("cuGraphNodeGetContainingGraph")
async def graph_of(_: Driver, node: Node) -> Graph:
    """The graph that has a node."""
    return node.graph


@answers("cuGraphNodeGetLocalId")
async def local_id(driver: Driver, node: Node) -> int:
    """A number that no other node of its graph has, and that it keeps."""
    return driver.handle("node", node)


@answers("cuGraphNodeGetToolsId")
async def tools_id(driver: Driver, node: Node) -> int:
    """A number that no other node has."""
    return driver.handle("node", node)


@answers("cuGraphGetId")
async def graph_id(driver: Driver, graph: Graph) -> int:
    """A number that no other graph has."""
    return driver.handle("graph", graph)


@answers("cuGraphExecGetId")
async def executable_id(driver: Driver, executable: Executable) -> int:
    """A number that no other executable has."""
    return driver.handle("exec", executable)


@answers("cuGraphAddDependencies")
async def add(driver: Driver, graph: Graph, before: int, behind: int, count: int) -> None:
    """Add edges."""
    await add_v2(driver, graph, before, behind, 0, count)


@answers("cuGraphAddDependencies_v2")
async def add_v2(driver: Driver, graph: Graph, before: int, behind: int, data: int, count: int) -> None:
    """Add edges."""
    with driver.thread.anywhere():
        await native.GraphAddDependencies(graph, _pairs(driver, before, behind, data, count))


@answers("cuGraphRemoveDependencies")
async def remove(driver: Driver, graph: Graph, before: int, behind: int, count: int) -> None:
    """Remove edges."""
    await remove_v2(driver, graph, before, behind, 0, count)


@answers("cuGraphRemoveDependencies_v2")
async def remove_v2(driver: Driver, graph: Graph, before: int, behind: int, data: int, count: int) -> None:
    """Remove edges."""
    with driver.thread.anywhere():
        await native.GraphRemoveDependencies(graph, _pairs(driver, before, behind, data, count))


def _pairs(driver: Driver, before: int, behind: int, data: int, count: int) -> list[tuple[Node, Node]]:
    ends = nodes_at(driver, before, count, data), nodes_at(driver, behind, count)
    return list(zip(*ends, strict=True))


@answers("cuGraphDestroyNode")
async def destroy_node(driver: Driver, node: Node) -> None:
    """Take a node out of its graph."""
    with driver.thread.anywhere():
        await native.GraphDestroyNode(node)
    driver.handles.forget(node)
    forget_graphs(driver, [each for body in node.bodies for each in (body, *body.bodies)])


@answers("cuGraphNodeFindInClone")
async def find_in_clone(_: Driver, node: Node, clone: Graph) -> Node:
    """The node of a clone that was copied from a node."""
    for each in clone.nodes:
        if each.source is node.first:
            return each
    raise RefusedError(INVALID_VALUE, f"{clone!r} has no copy of {node!r}")
