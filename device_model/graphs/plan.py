"""Plans: the nodes of a graph in the form in which a launch runs them.

A child graph becomes part of the plan, and the body of an IF node a plan of its own. The nodes are divided into chains
(chains.py), which have hardware queues of their own.
"""

from collections.abc import Callable
from typing import NamedTuple

from device_model.graphs.chains import chains
from device_model.graphs.graph import Graph, Node, NodeKind
from device_model.queues import HardwareQueue

Queues = tuple[HardwareQueue, ...]  # one for each lane


class Entry(NamedTuple):
    """A *node*, the places in the plan of those *before* it, its *chain*, and what an IF node runs."""

    node: Node
    before: tuple[int, ...]
    chain: int
    body: "Plan | None"


class Plan(NamedTuple):
    """The entries, each behind those before it; the hardware queues of each chain; the places of the last entries; all
    nodes, with those of bodies, and those of them that are records or have a condition.
    """

    entries: tuple[Entry, ...]
    queues: tuple[Queues, ...]
    last: tuple[int, ...]
    nodes: tuple[Node, ...]
    records: tuple[Node, ...]
    conditional: tuple[Node, ...]

    @property
    def shape(self) -> list[object]:
        """What another plan must have in common with this one to take its place in an executable."""
        return [(each.node.kind, each.before, each.body and each.body.shape) for each in self.entries]

    @property
    def size(self) -> int:
        """How many nodes it has, with those of bodies."""
        return len(self.nodes)


def plan_of(graph: Graph, make_queues: Callable[[], Queues]) -> Plan:
    """Return the plan of *graph* as it is now; *make_queues* gives the hardware queues of a chain."""
    nodes: list[tuple[Node, tuple[int, ...]]] = []
    _flatten(graph, (), nodes)
    numbers = chains([before for _, before in nodes])
    inner = {place for _, before in nodes for place in before}
    entries = tuple(
        Entry(node, before, chain, plan_of(node.body, make_queues) if node.kind is NodeKind.IF else None)
        for (node, before), chain in zip(nodes, numbers, strict=True)
    )
    found = [node for each in entries for node in (each.node, *(each.body.nodes if each.body is not None else ()))]
    return Plan(
        entries,
        tuple(make_queues() for _ in range(max(numbers, default=-1) + 1)),
        tuple(place for place in range(len(nodes)) if place not in inner),
        tuple(found),
        tuple(node for node in found if node.kind is NodeKind.RECORD),
        tuple(node for node in found if node.condition is not None),
    )


def _flatten(graph: Graph, behind: tuple[int, ...], nodes: list[tuple[Node, tuple[int, ...]]]) -> tuple[int, ...]:
    """Add the nodes of *graph* behind those at *behind*; return the places of its last ones."""
    ends: list[tuple[int, ...]] = []  # by the index of the node: what a node behind it waits for
    for node in graph.nodes:
        before = tuple(dict.fromkeys(place for each in node.dependencies for place in ends[each.index])) or behind
        if node.kind is NodeKind.CHILD:
            ends.append(_flatten(node.body, before, nodes))
        else:
            ends.append((len(nodes),))
            nodes.append((node, before))
    inner = {each.index for node in graph.nodes for each in node.dependencies}
    last = tuple(place for index, places in enumerate(ends) if index not in inner for place in places)
    return last or behind
