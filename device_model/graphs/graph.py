"""Graphs and their nodes."""

from collections.abc import Iterable
from enum import Enum

from device_model.display import drawing
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
    WHILE = "while"
    SWITCH = "switch"
    RECORD = "record"
    WAIT = "wait"
    ALLOCATE = "allocation"
    FREE = "free"


# What the body of an IF node may have, and so may its children and its own bodies (documented by NVIDIA:
# cudaConditionalNodeParams).
CONDITIONAL = (NodeKind.IF, NodeKind.WHILE, NodeKind.SWITCH)
_BY_DEVICE = (NodeKind.KERNEL, NodeKind.COPY, NodeKind.FILL, NodeKind.CHILD)
_IN_BODIES = (NodeKind.KERNEL, NodeKind.COPY, NodeKind.FILL, NodeKind.EMPTY, NodeKind.CHILD, *CONDITIONAL)


class Condition(Handle):
    """The number that a conditional node asks for when its turn comes; for an IF node it may be a bool.

    Each launch sets it to *default* first, unless that is None; kernels `set` it.
    """

    __slots__ = ("default", "is_asked", "value")

    def __init__(self, default: int | None) -> None:
        self.is_asked = False  # by a node
        self.default = default
        self.value = default or 0

    def __repr__(self) -> str:
        always = "" if self.default is None else f", {self.default} at each launch"
        return f"<Condition {self.value}{always}>"

    def set(self, value: object) -> None:
        """Let the node run its body if *value* is true. For kernels and host functions of the same graph."""
        self.value = value if isinstance(value, int) else bool(value)


class Node(Handle):
    """One part of a graph, which runs when its *dependencies* are over.

    *index* is its place in the graph, counted from 0: dependencies always have a smaller one. *work* is that of a
    kernel, a copy, a fill or a host function. Other nodes are about a *subject*: an event, a child graph, the body of
    a conditional node, an allocation; *others* are the further bodies of such a node.

    Executables keep the nodes that they were made from. So a node whose work changes is replaced by another one:
    `first` is the node that all of them stand for. *source* is the first node that this one is a copy of.
    """

    __slots__ = (
        "condition", "dependencies", "first", "graph", "index", "kind", "others", "row", "site", "source", "stream",
        "subject", "work",
    )  # fmt: skip

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
        self.others: tuple[Graph, ...] = ()
        self.condition: Condition | None = None
        self.first: Node = self
        self.source: Node | None = None
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
        """The graph that a conditional node runs, or that a child node is."""
        if not isinstance(self.subject, Graph):
            raise TypeError(f"{self!r} has no body")
        return self.subject

    @property
    def bodies(self) -> "tuple[Graph, ...]":
        """The graphs that a conditional node may run; that of a child node."""
        return (self.subject, *self.others) if isinstance(self.subject, Graph) else ()

    def body_for(self, value: int) -> int | None:
        """Return which of its bodies a conditional node runs when its condition is *value*; None if it runs none.

        The second body of an IF node runs if the condition is 0.
        """
        if self.kind is NodeKind.SWITCH:
            return value if 0 <= value < len(self.bodies) else None
        if value:
            return 0
        return 1 if self.others else None

    def doing(self, work: Work | None, subject: "Event | Graph | Allocation | None", site: object) -> "Node":
        """Return a node that does something else in its place; the graph has still this one."""
        node = Node(self.graph, self.kind, self.dependencies, site, work, subject)
        node.index, node.others, node.condition = self.index, self.others, self.condition
        node.first, node.source, node.stream = self.first, self.source, self.stream
        return node

    def doing_nothing(self) -> "Node":
        """Return an empty node for its place."""
        node = self.doing(None, None, self.site)
        node.kind, node.others, node.condition = NodeKind.EMPTY, (), None
        return node


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

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the picture of `draw`."""
        return drawing(repr(self).strip("<>"), self.draw())

    @property
    def edges(self) -> list[tuple[Node, Node]]:
        """Each dependency as (the node before, the node behind), by the order of the nodes behind."""
        return [(before, node) for node in self.nodes for before in node.dependencies]

    @property
    def bodies(self) -> "list[Graph]":
        """The graphs that its nodes have: children and bodies of conditional nodes, each followed by its own."""
        own = [body for node in self.nodes for body in node.bodies]
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
            twin.others = tuple(body.copy(body.name, made) for body in node.others)
            twin.condition, twin.stream, twin.row, twin.source = node.condition, node.stream, node.row, node.first
        return copy

    def check(self, fail: Fail) -> None:
        """Refuse the use of a graph that is destroyed."""
        if self.destroyed is not None:
            raise fail(Kind.INVALID_VALUE, f"{self!r} is gone", "make or capture another one", dead=self)

    def check_executable(self, fail: Fail) -> None:
        """Refuse a second executable of a graph with conditional nodes, or one that allocates memory, and a body of a
        conditional node with a node that may not be there.
        """
        self.check_copy(fail)
        self._check_bodies(fail)
        conditional = next((node for node in self.nodes if node.kind in CONDITIONAL), None)
        if self.is_bound and conditional is not None:
            raise fail(
                Kind.NOT_SUPPORTED,
                f"{self!r} has an {conditional.kind.name} node, and an executable already",
                "make a second graph, or launch the executable that there is",
            )

    def node_not_for_device(self) -> "Node | None":
        """Return a node that no launch by the device may have. It is one that is no kernel, copy, fill or graph of
        these, or copies pageable memory (measured); None if there is none.
        """
        for node in self.nodes:
            inner = node.body.node_not_for_device() if node.kind is NodeKind.CHILD else None
            is_pageable = isinstance(node.work, Copy) and node.work.is_pageable
            if inner is not None or node.kind not in _BY_DEVICE or is_pageable:
                return node
        return None

    def _check_bodies(self, fail: Fail) -> None:
        for owner in self.nodes:
            if owner.kind is NodeKind.CHILD:
                owner.body._check_bodies(fail)
            elif owner.kind in CONDITIONAL:
                graphs = [each for body in owner.bodies for each in (body, *body.bodies)]
                wrong = [node for graph in graphs for node in graph.nodes if node.kind not in _IN_BODIES]
                if wrong:
                    raise fail(
                        Kind.NOT_SUPPORTED,
                        f"{wrong[0]!r} in the body of {owner!r}, which may have kernels, copies, fills and graphs only",
                        f"put it before or behind the {owner.kind.name} node",
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
