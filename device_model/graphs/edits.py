"""Changes of graphs: edges come and go, nodes are replaced and taken out.

The nodes of a graph always stand behind those that they depend on, so a new edge may move nodes.
"""

from device_model.graphs.graph import Graph, Node, ancestors


def links(before: Node, behind: Node) -> bool:
    """Return whether *behind* depends on *before* directly."""
    return before in behind.dependencies


def would_loop(before: Node, behind: Node) -> bool:
    """Return whether *before* depends on *behind*, so that no edge can lead the other way."""
    return behind in ancestors([before])


def link(before: Node, behind: Node) -> None:
    """Let *behind* depend on *before*, which must not depend on it."""
    behind.dependencies = (*behind.dependencies, before)
    if before.index > behind.index:
        _sort(behind.graph)


def unlink(before: Node, behind: Node) -> None:
    """Let *behind* no longer depend on *before*."""
    behind.dependencies = tuple(each for each in behind.dependencies if each is not before)


def remove(node: Node) -> None:
    """Take *node* out of its graph, with its edges."""
    graph = node.graph
    for each in graph.nodes:
        unlink(node, each)
    graph.nodes.remove(node)
    _number(graph)


def replace(old: Node, new: Node) -> None:
    """Put *new* in the place of *old*, with its edges."""
    graph = old.graph
    graph.nodes[old.index] = new
    for each in graph.nodes:
        each.dependencies = tuple(new if before is old else before for before in each.dependencies)


def _sort(graph: Graph) -> None:
    """Put each node behind those that it depends on, and otherwise keep the order."""
    placed: dict[Node, None] = {}
    left = graph.nodes[::-1]
    while left:
        missing = [each for each in left[-1].dependencies if each not in placed]
        if missing:
            left += reversed(missing)
        else:
            placed[left.pop()] = None
    graph.nodes[:] = placed
    _number(graph)


def _number(graph: Graph) -> None:
    for index, node in enumerate(graph.nodes):
        node.index = index
