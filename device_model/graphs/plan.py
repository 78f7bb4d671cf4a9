"""Plans: the nodes of a graph in the form in which a launch runs them.

A child graph becomes part of the plan, and each body of a conditional node a plan of its own. The nodes are divided
into chains (dependencies.py), which have hardware queues of their own, and kernels that follow one another form rows,
which may run as streaks (streaks.py).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from device_model.completions import Nanoseconds
from device_model.graphs.dependencies import chains
from device_model.graphs.graph import CONDITIONAL, Graph, Node, NodeKind
from device_model.graphs.makeup import Makeup, makeup_of
from device_model.memory import Allocation
from device_model.queues import HardwareQueue
from device_model.work import Work

if TYPE_CHECKING:
    from device_model.device import Device

Queues = tuple[HardwareQueue, ...]  # one for each lane
Step = tuple[Callable[[], None], Nanoseconds]  # what a kernel does at its end, and how long it takes alone


class Entry(NamedTuple):
    """A *node*, its *place* in the plan, its *number* among the operations there, the places of those *before* it, its
    *chain*, and what a conditional node may run.
    """

    node: Node
    place: int
    number: int  # of what is no operation: that of the next operation
    before: tuple[int, ...]
    chain: int
    bodies: "tuple[Plan, ...]"


class Row(NamedTuple):
    """Kernels, each of which waits for nothing but the one before, and nothing else waits for that one; or any other
    entry alone. There is a step for each kernel but the last.
    """

    entries: tuple[Entry, ...]
    steps: tuple[Step, ...]


class Plan(NamedTuple):
    """What a launch runs.

    Attributes:
        entries: Each behind those before it.
        rows: The rows that they form, in the order of their first entries.
        singles: Each entry as a row of its own.
        queues: The hardware queues of each chain.
        last: The places of the entries that no other waits for.
        nodes: All nodes, with those of bodies.
        records: Those of them that are records.
        conditional: Those of them that have a condition.
        touched: The memory that they touch.
        updates: How many updates of task groups there were when this was made; later ones may have changed nodes.
        operations: How many of its entries are operations.
        makeup: How many nodes there are of what.
        launch_ns: What the first launch takes the host, and each other one.
    """

    entries: tuple[Entry, ...]
    rows: tuple[Row, ...]
    singles: tuple[Row, ...]
    queues: tuple[Queues, ...]
    last: tuple[int, ...]
    nodes: tuple[Node, ...]
    records: tuple[Node, ...]
    conditional: tuple[Node, ...]
    touched: tuple[Allocation, ...]
    updates: int
    operations: int
    makeup: Makeup
    launch_ns: tuple[Nanoseconds, Nanoseconds]

    @property
    def shape(self) -> list[object]:
        """What another plan must have in common with this one to take its place in an executable."""
        return [(each.node.kind, each.before, [body.shape for body in each.bodies]) for each in self.entries]

    @property
    def size(self) -> int:
        """How many nodes it has, with those of bodies."""
        return len(self.nodes)


def plan_of(graph: Graph, device: "Device") -> Plan:
    """Return the plan of *graph*, as it is now, for *device*."""
    nodes: list[tuple[Node, tuple[int, ...]]] = []
    _flatten(graph, (), nodes)
    numbers = chains([before for _, before in nodes])
    operations = _operations(node for node, _ in nodes)
    entries = tuple(
        Entry(
            node,
            place,
            number,
            before,
            numbers[place],
            tuple(plan_of(body, device) for body in node.bodies) if node.kind in CONDITIONAL else (),
        )
        for place, ((node, before), number) in enumerate(zip(nodes, operations, strict=False))
    )
    return _plan(entries, tuple(device.chain_queues() for _ in range(max(numbers, default=-1) + 1)), device)


def renewed(plan: Plan, device: "Device", others: Mapping[int, Node] = MappingProxyType({})) -> Plan:
    """Return *plan* with the work that its nodes have now, and the same queues. At some places it has *others*."""
    nodes = [others.get(each.place, each.node) for each in plan.entries]
    entries = tuple(
        entry._replace(
            node=node,
            number=number,
            bodies=tuple(renewed(body, device) for body in entry.bodies) if node.bodies else (),
        )
        for entry, node, number in zip(plan.entries, nodes, _operations(nodes), strict=False)
    )
    return _plan(entries, plan.queues, device)


def _operations(nodes: Iterable[Node]) -> Iterator[int]:
    """Yield for each node how many operations there are before it."""
    return accumulate((node.work is not None for node in nodes), initial=0)


def _plan(entries: tuple[Entry, ...], queues: tuple[Queues, ...], device: "Device") -> Plan:
    behind = Counter(place for entry in entries for place in entry.before)
    found = [node for each in entries for node in (each.node, *(node for body in each.bodies for node in body.nodes))]
    works = [node.work for node in found if node.work is not None]
    makeup = makeup_of((each.node, each.before, each.chain, [body.makeup for body in each.bodies]) for each in entries)
    costs = device.profile.graphs
    return Plan(
        entries,
        _rows(entries, behind, device.time_alone),
        tuple(Row((entry,), ()) for entry in entries),
        queues,
        tuple(place for place in range(len(entries)) if place not in behind),
        tuple(found),
        tuple(node for node in found if node.kind is NodeKind.RECORD),
        tuple(node for node in found if node.condition is not None),
        tuple(dict.fromkeys(extent[0] for work in works for extent in (*work.reads(), *work.writes()))),
        device.updates,
        sum(each.node.work is not None for each in entries),
        makeup,
        (makeup.launch_ns(costs, is_first=True), makeup.launch_ns(costs, is_first=False)),
    )


def _rows(
    entries: Sequence[Entry], behind: Mapping[int, int], time_alone: Callable[[Work], Nanoseconds | None]
) -> tuple[Row, ...]:
    """Return the rows of *entries*.

    *behind* says how many entries wait for each, and *time_alone* how long work takes that has the cores for itself;
    None if it may not be part of a streak.
    """
    rows: dict[int, list[Entry]] = {}  # by the place of their first entry
    first: dict[int, int] = {}  # for each kernel that may be in a streak: the first entry of its row
    steps: dict[int, Step] = {}  # what each of these does, and how long it takes
    for entry in entries:
        work = entry.node.work
        alone_ns = time_alone(work) if work is not None else None
        if work is None or alone_ns is None:
            rows[entry.place] = [entry]
            continue
        before = entry.before[0] if len(entry.before) == 1 else -1
        joins = before in first and behind[before] == 1
        first[entry.place] = first[before] if joins else entry.place
        rows.setdefault(first[entry.place], []).append(entry)
        steps[entry.place] = work.perform, alone_ns
    return tuple(Row(tuple(row), tuple(steps[each.place] for each in row[:-1])) for row in rows.values())


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
