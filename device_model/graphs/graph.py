"""Graphs and their nodes."""

from collections.abc import Iterable
from enum import Enum

from device_model.errors import Fail, Kind
from device_model.events import Event
from device_model.graphs.dependencies import dot, picture
from device_model.handles import Handle
from device_model.memory import Allocation
from device_model.scheduler import Scheduler
from device_model.streams import Stream
from device_model.work import Copy, Fill, HostFunction, Work


class NodeKind(Enum):
    """What a node does; the values are what views call it."""

    KERNEL = "kernel"
    COPY = "copy"
    FILL = "fill"
    HOST = "host function"
    EMPTY = "empty"
    CHILD = "graph"
    IF = "if"
    RECORD = "record"
    WAIT = "wait"
    ALLOCATE = "allocation"
    FREE = "free"


# What the body of an IF node may have, and so may its children and its own bodies (documented by NVIDIA:
# cudaConditionalNodeParams).
_CONDITIONAL = (NodeKind.KERNEL, NodeKind.COPY, NodeKind.FILL, NodeKind.EMPTY, NodeKind.CHILD, NodeKind.IF)


class Condition(Handle):
    """What an IF node asks when its turn comes. Each launch sets it to *default* first; kernels `set` it."""

    __slots__ = ("default", "value")

    def __init__(self, default: bool) -> None:
        self.default = default
        self.value = default

    def __repr__(self) -> str:
        return f"<Condition {self.value}, {self.default} at each launch>"

    def set(self, value: object) -> None:
        """Let the IF node run its body if *value* is true. For kernels and host functions of the same graph."""
        self.value = bool(value)


class Node(Handle):
    """One part of a graph, which runs when its *dependencies* are over.

    *index* is its place in the graph, counted from 0: dependencies always have a smaller one. *work* is that of a
    kernel, a copy, a fill or a host function. Other nodes are about a *subject*: an event, a child graph, the body of
    an IF node, an allocation.
    """

    __slots__ = ("condition", "dependencies", "graph", "index", "kind", "row", "site", "stream", "subject", "work")

    def __init__(
        self,
        graph: "Graph",
        kind: NodeKind,
        dependencies: tuple["Node", ...],
        site: object,
        work: Work | None,
        subject: "Event | Graph | Allocation | None",
    ) -> None:
        self.graph = graph
        self.index = len(graph.nodes)
        self.kind = kind
        self.dependencies = dependencies
        self.site = site
        self.work = work
        self.subject = subject
        self.condition: Condition | None = None
        self.stream: Stream | None = None  # from which it was captured
        self.row = -1  # the number of its capture in a trace; nodes of copies of the graph have the same

    def __repr__(self) -> str:
        at = f" added at {self.site}" if self.site is not None else ""
        return f"<{self.name}, node {self.index} of {self.graph.name}{at}>"

    @property
    def name(self) -> str:
        """What it does, for messages and views."""
        if self.work is not None:
            return self.work.label.name
        return self.kind.value if self.subject is None else f"{self.kind.value} of {self.subject.name}"

    @property
    def body(self) -> "Graph":
        """The graph that an IF node runs, or that a child node is."""
        if not isinstance(self.subject, Graph):
            raise TypeError(f"{self!r} has no body")
        return self.subject


class Graph(Handle):
    """Work, and the order that it has to keep, for devices of *scheduler*.

    *name* is what messages call it, *made* the line that made it.
    """

    __slots__ = ("destroyed", "is_bound", "made", "name", "nodes", "row", "scheduler")

    def __init__(self, name: str, made: object, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.name = name
        self.made = made
        self.destroyed: object = None  # the line that destroyed it
        self.nodes: list[Node] = []  # each behind its dependencies
        self.is_bound = False  # it allocates memory and has an executable, so it can have no other
        self.row = -1  # its number in a trace

    def __repr__(self) -> str:
        state = f" destroyed at {self.destroyed}" if self.destroyed is not None else ""
        count = f"{len(self.nodes)} node{'' if len(self.nodes) == 1 else 's'}"
        return f"<{self.name} of {count} made at {self.made}{state}>"

    @property
    def edges(self) -> list[tuple[Node, Node]]:
        """Each dependency as (the node before, the node behind), by the order of the nodes behind."""
        return [(before, node) for node in self.nodes for before in node.dependencies]

    @property
    def bodies(self) -> "list[Graph]":
        """The graphs that its nodes have: children and bodies of IF nodes, each followed by its own."""
        own = [node.subject for node in self.nodes if isinstance(node.subject, Graph)]
        return [each for graph in own for each in (graph, *graph.bodies)]

    @property
    def allocates(self) -> bool:
        """Whether a node allocates or frees memory."""
        return any(
            node.kind in (NodeKind.ALLOCATE, NodeKind.FREE) or (node.kind is NodeKind.CHILD and node.body.allocates)
            for node in self.nodes
        )

    def draw(self) -> str:
        """Return a picture of the graph: a line for each node, with lines to those that it depends on."""
        return picture(self._befores(), [_label(node) for node in self.nodes])

    def dot(self) -> str:
        """Return the graph in the language of Graphviz, for `dot -Tsvg`."""
        return dot(self.name, self._befores(), [_label(node) for node in self.nodes])

    def _befores(self) -> list[list[int]]:
        return [[each.index for each in node.dependencies] for node in self.nodes]

    def add(
        self,
        kind: NodeKind,
        dependencies: Iterable[Node],
        site: object,
        work: Work | None = None,
        subject: "Event | Graph | Allocation | None" = None,
    ) -> Node:
        """Add a node behind *dependencies*, which are nodes of this graph."""
        node = Node(self, kind, tuple(dict.fromkeys(dependencies)), site, work, subject)
        self.nodes.append(node)
        return node

    def copy(self, name: str, made: object) -> "Graph":
        """Return a graph with the same nodes and edges."""
        copy = Graph(name, made, self.scheduler)
        for node in self.nodes:
            before = [copy.nodes[each.index] for each in node.dependencies]
            subject = node.subject.copy(node.subject.name, made) if isinstance(node.subject, Graph) else node.subject
            twin = copy.add(node.kind, before, node.site, node.work, subject)
            twin.condition, twin.stream, twin.row = node.condition, node.stream, node.row
        return copy

    def check(self, fail: Fail) -> None:
        """Refuse the use of a graph that is destroyed."""
        if self.destroyed is not None:
            raise fail(Kind.INVALID_VALUE, f"{self!r} is gone", "make or capture another one", dead=self)

    def check_executable(self, fail: Fail) -> None:
        """Refuse a second executable of a graph with IF nodes, or one that allocates memory, and a body of an IF node
        with a node that may not be there.
        """
        self.check_copy(fail)
        self._check_bodies(fail)
        if self.is_bound and any(node.kind is NodeKind.IF for node in self.nodes):
            raise fail(
                Kind.NOT_SUPPORTED,
                f"{self!r} has an IF node, and an executable already",
                "make a second graph, or launch the executable that there is",
            )

    def _check_bodies(self, fail: Fail) -> None:
        for owner in self.nodes:
            if owner.kind is NodeKind.CHILD:
                owner.body._check_bodies(fail)
            elif owner.kind is NodeKind.IF:
                graphs = (owner.body, *owner.body.bodies)
                wrong = [node for graph in graphs for node in graph.nodes if node.kind not in _CONDITIONAL]
                if wrong:
                    raise fail(
                        Kind.NOT_SUPPORTED,
                        f"{wrong[0]!r} in the body of {owner!r}, which may have kernels, copies, fills and graphs only",
                        "put it before or behind the IF node",
                    )

    def check_copy(self, fail: Fail) -> None:
        """Refuse a second life of a graph that allocates memory: its addresses are of one executable only."""
        if self.allocates and self.is_bound:
            raise fail(
                Kind.NOT_SUPPORTED,
                f"{self!r} allocates memory, and has an executable already",
                "allocate outside the graph, or capture a second one",
            )


def _label(node: Node) -> str:
    return node.name if node.site is None else f"{node.name}  {node.site}"


def ancestors(nodes: Iterable[Node]) -> set[Node]:
    """Return *nodes* and everything that has to be over before them."""
    found: set[Node] = set()
    left = list(nodes)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left.extend(node.dependencies)
    return found


def kind_of(work: Work) -> NodeKind:
    """Return the kind of the node that does *work*."""
    if isinstance(work, Copy):
        return NodeKind.COPY
    if isinstance(work, Fill):
        return NodeKind.FILL
    return NodeKind.HOST if isinstance(work, HostFunction) else NodeKind.KERNEL
