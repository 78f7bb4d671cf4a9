"""The pairs of a run that must stay in order, and those that may have to.

Two accesses to the same bytes of which one writes must stay in order, and so must each use of a thing and the end of
its life. Neighbours are enough: what is behind a write is behind all that the write is behind.

Other pairs are *doubtful*. The bytes that a kernel touches may not be declared. A host may use the bytes of a copy
through an array or an address whose uses are not seen. Host functions may share Python objects. Such a pair has an
operation, and the first thing that was certain to come behind it.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple

from acl_py.calls import acts
from acl_py.causes.captured import Captured
from acl_py.causes.relation import At, Node, Relation
from acl_py.order.clocks import Clock
from acl_py.trace.rows.columns import call_columns
from acl_py.trace.rows.timeline import Extent, Operation, Ref, Timeline
from acl_py.verbs.memory import HostRegister

_MOST_RACING = 1000  # accesses to memory in which some are in no order: each is compared with each


class Doubt(StrEnum):
    """Why it is not known whether a wait is needed."""

    KERNEL = "a kernel whose bytes are not declared"
    HOST = "memory of the host whose accesses are not seen"
    FUNCTION = "host functions, which may tell the program something"
    LIMIT = "it has a time-out"
    FAILURE = "it may show a failure of the run"
    THREADS = "without it, the order would rest on when threads happened to call"
    CAPTURE = "it forks or joins a capture"
    SIGNAL = "it takes a signal, which goes only together with what sets it"
    TOLD = "what follows it may tell somebody that work is done"
    FOREIGN = "it is a line of an installed package"


_COPIES_OF_HOST, _ENDS = ("h2d", "d2h", "h2h"), ("dst", "src")
_KERNELS, _OF_HOSTS = (Doubt.KERNEL,), (Doubt.HOST, Doubt.FUNCTION)
_ALL = (*_KERNELS, *_OF_HOSTS)


class Pair(NamedTuple):
    """*one* must be over before *other* begins: both are about the memory called *about*, or the life of a thing; or
    there is a *doubt* whether they are. If it is the life of an event, *event* is its handle.
    """

    one: Node
    other: Node
    about: str
    doubt: Doubt | None = None
    event: int | None = None


class RacesError(ValueError):
    """A run whose accesses are in no order: no advice can keep them in order."""


class Touch(NamedTuple):
    """An access by *node* to the bytes *extent*."""

    node: Node
    extent: Extent
    writes: bool


class _Cell:
    """Bytes that were touched alike: the last writes, and the reads since."""

    __slots__ = ("reads", "start", "stop", "writes")

    def __init__(self, start: int, stop: int, writes: Iterable[Node] = (), reads: Iterable[Node] = ()) -> None:
        self.start, self.stop = start, stop
        self.writes, self.reads = [*writes], [*reads]


class _Bytes:
    """The bytes of one memory, and the pairs of accesses to them. It *forgets* what a later write is behind."""

    def __init__(self, relation: Relation, size: int, birth: Node | None, *, forgets: bool) -> None:
        self._relation = relation
        self._forgets = forgets
        self._cells = [_Cell(0, size, () if birth is None else (birth,))]
        self._starts = [0]
        self.pairs: dict[tuple[Node, Node], None] = {}
        self.races = False

    def touch(self, node: Node, start: int, stop: int, *, writes: bool) -> None:
        """Take up an access."""
        first, last = self._split(start), self._split(stop)
        cells = self._cells[first:last]
        for cell in cells:
            for other in (*cell.writes, *cell.reads) if writes else cell.writes:
                self._pair(other, node)
            if writes:
                cell.writes = [*self._left(cell.writes, node), node]
                cell.reads = self._left(cell.reads, node)
            else:
                cell.reads = [*self._other_actors(cell.reads, node), node]
        if len(cells) > 1 and writes and all(len(cell.writes) == 1 and not cell.reads for cell in cells):
            self._cells[first:last] = [_Cell(start, stop, (node,))]
            self._starts[first:last] = [start]

    def end(self, node: Node) -> None:
        """Take up the end of the life of the memory, which does not race."""
        for cell in self._cells:
            for other in (*cell.writes, *cell.reads):
                if self._is_pair(other, node):
                    self.pairs[other, node] = None

    def _pair(self, one: Node, other: Node) -> None:
        for pair in ((one, other), (other, one)):
            if self._relation.is_ordered(*pair):
                if self._is_pair(*pair):
                    self.pairs[pair] = None
                return
        self.races |= one != other

    def _is_pair(self, one: Node, other: Node) -> bool:
        """Whether only waits put the two in order: one actor does one thing after the other."""
        points = self._relation.point(one), self._relation.point(other)
        return points[0].actor != points[1].actor and self._relation.is_ordered(one, other)

    def _left(self, nodes: list[Node], node: Node) -> list[Node]:
        """Return those of *nodes* that are not behind *node* in each other pair."""
        if not self._forgets:
            return nodes
        return [each for each in nodes if each != node and not self._relation.is_ordered(each, node)]

    def _other_actors(self, nodes: list[Node], node: Node) -> list[Node]:
        if not self._forgets:
            return nodes
        actor = self._relation.point(node).actor
        return [each for each in nodes if self._relation.point(each).actor != actor]

    def _split(self, at: int) -> int:
        """Let a cell begin at *at*, and return its place."""
        place = bisect_right(self._starts, at) - 1
        cell = self._cells[place]
        if cell.start == at:
            return place
        if at >= cell.stop:
            return place + 1
        self._cells.insert(place + 1, _Cell(at, cell.stop, cell.writes, cell.reads))
        self._starts.insert(place + 1, at)
        cell.stop = at
        return place + 1


def pairs_of(relation: Relation) -> list[Pair]:
    """Return all pairs of the run of *relation*, which has its moments.

    Raises:
        RacesError: very many accesses to some memory are in no order.
    """
    return [*_pairs_of_bytes(relation), *_pairs_of_things(relation), *Doubts(relation).pairs()]


# --- what is known


def _pairs_of_bytes(relation: Relation) -> Iterator[Pair]:
    timeline = relation.timeline
    touches: defaultdict[int, list[Touch]] = defaultdict(list)
    for touch in _touches(timeline):
        touches[touch.extent.buffer].append(touch)
    births, ends = _lives(timeline)
    for buffer, touched in touches.items():
        bytes_ = _bytes_of(relation, buffer, touched, births.get(buffer), ends.get(buffer), forgets=True)
        if bytes_.races:
            name = timeline.buffers[buffer].name
            if len(touched) > _MOST_RACING:
                raise RacesError(f"nothing orders some accesses to {name}: look at them with --sanitize")
            bytes_ = _bytes_of(relation, buffer, touched, births.get(buffer), ends.get(buffer), forgets=False)
        yield from (Pair(one, other, timeline.buffers[buffer].name) for one, other in bytes_.pairs)


def _bytes_of(
    relation: Relation, buffer: int, touched: Sequence[Touch], birth: Node | None, end: Node | None, *, forgets: bool
) -> _Bytes:
    size = max(relation.timeline.buffers[buffer].bytes, *(touch.extent.stop for touch in touched))
    bytes_ = _Bytes(relation, size, birth, forgets=forgets)
    for node, (_, start, stop), writes in touched:
        if start < stop:
            bytes_.touch(node, start, stop, writes=writes)
    if end is not None:
        bytes_.end(end)
    return bytes_


def _touches(timeline: Timeline) -> list[Touch]:
    """Return all accesses to memory that has a life, in the order of the run; what reads comes before what writes."""
    touches: list[tuple[tuple[int, int, int], Touch]] = []
    for index, op in enumerate(timeline.ops):
        for writes, extents in ((False, op.reads), (True, op.writes)):
            touches += (((op.start_ns, 1, index), Touch(Node(At.OP, index), each, writes)) for each in extents)
    for row, access in enumerate(timeline.accesses):
        touches += (
            ((access.at_ns, 0, row), Touch(Node(At.ACCESS, row), each, access.writes)) for each in access.extents
        )
    return [touch for _, touch in sorted(touches, key=lambda each: each[0]) if touch.extent.buffer >= 0]


def _lives(timeline: Timeline) -> tuple[dict[int, Node], dict[int, Node]]:
    """Return where the life of each memory begins in a stream, and where each life ends."""
    births, ends = {}, {}
    captured = Captured(timeline).calls
    for index, call in enumerate(timeline.calls):
        if index in captured:
            continue
        match call.act:
            case acts.Began(Extent(buffer), Ref()):
                births[buffer] = Node(At.CALL, index)
            case acts.Ended(Extent(buffer), Ref()):
                ends[buffer] = Node(At.CALL, index)
            case acts.Ended(Extent(buffer), None):
                ends[buffer] = Node(At.ENTRY, index)
    return births, ends


def _pairs_of_things(relation: Relation) -> Iterator[Pair]:
    """Yield the pairs of the last work of a stream, an event or an executable, and the call that ends or changes it."""
    timeline, used = relation.timeline, _Used(relation.timeline)
    captured = Captured(timeline).calls
    for index, call in enumerate(timeline.calls):
        if index in captured:
            continue
        match call.act:
            case acts.Recorded(Ref(event), Ref(stream)):
                used.by[event] = used.last_of(stream, call.exit_ns)
            case acts.GraphLaunched(Ref(executable), Ref(stream)):
                used.by[executable] = used.last_of(stream, call.exit_ns)
            case acts.Destroyed(Ref(handle)) | acts.GraphUpdated(Ref(handle)):
                end = Node(At.ENTRY, index)
                for one in used.uses(handle, call.enter_ns):
                    if relation.point(one).actor != relation.point(end).actor and relation.is_ordered(one, end):
                        thing = timeline.handles[handle]
                        yield Pair(one, end, thing.name, event=handle if thing.kind == "event" else None)


class _Used:
    """The last uses of things, by their handles."""

    def __init__(self, timeline: Timeline) -> None:
        self.by: dict[int, Node | None] = {}  # of events and executables
        self._handles = timeline.handles
        self._queued: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for index, op in enumerate(timeline.ops):
            self._queued[op.in_stream].append((op.queued_ns, index))
        for ops in self._queued.values():
            ops.sort()

    def last_of(self, stream: int, at_ns: int) -> Node | None:
        """Return the last operation that *stream* was given until *at_ns*."""
        ops = self._queued.get(stream, [])
        place = bisect_right(ops, (at_ns, len(self._queued) + (1 << 62)))
        return Node(At.OP, ops[place - 1][1]) if place else None

    def uses(self, handle: int, at_ns: int) -> Iterator[Node]:
        """Yield the last uses of a thing until *at_ns*."""
        kind, device = self._handles[handle].kind, self._handles[handle].device
        if kind == "stream":
            found = [self.last_of(handle, at_ns)]
        elif kind in ("device", "context"):
            streams = [each for each in self._queued if each >= 0 and self._handles[each].device == device]
            found = [self.last_of(stream, at_ns) for stream in streams]
        else:
            found = [self.by.get(handle)]
        yield from (node for node in found if node is not None)


# --- what is not known


class Doubts:
    """The doubtful pairs of the run of *relation*."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation
        self._timeline = timeline = relation.timeline
        self._unseen = _unseen(timeline)
        self._by_actor: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # the epoch and index of each
        self._nodes: defaultdict[int, list[tuple[int, Node]]] = defaultdict(list)  # of all actors
        nodes = chain(
            (Node(At.OP, index) for index in range(len(timeline.ops))),
            (Node(At.ACCESS, row) for row in range(len(timeline.accesses))),
        )
        for node in nodes:
            point = relation.point(node)
            self._nodes[point.actor].append((point.epoch, node))
            if node.at is At.OP and node.place in self._unseen:
                self._by_actor[point.actor].append((point.epoch, node.place))
        for epochs in self._by_actor.values():
            epochs.sort()
        for nodes_of_actor in self._nodes.values():
            nodes_of_actor.sort()

    def pairs(self) -> Iterator[Pair]:
        """Yield them: what a host learns, and what streams put behind other streams."""
        if not self._by_actor:
            return
        for node, before, after in self._relation.learned:
            own = self._relation.point(node).actor
            yield from self._between(own, node, before, self._relation.closed(after), _ALL)
        for actor, nodes in self._nodes.items():
            yield from self._of_stream(actor, [node for _, node in nodes if node.at is At.OP])

    def _of_stream(self, actor: int, ops: Sequence[Node]) -> Iterator[Pair]:
        """Yield the pairs of the operations of one stream with what of other actors they are behind."""
        before: Clock = {}
        since: dict[bool, Clock] = {True: {}, False: {}}  # before the last one with an undeclared kernel, or a host
        for node in ops:
            after = self._relation.clock(node)
            own = self._unseen.get(node.place)
            yield from self._between(actor, node, before, after, _KERNELS)
            if own is Doubt.KERNEL:
                yield from self._all_between(actor, node, since[True], after)
            elif own is not None:
                yield from self._between(actor, node, since[False], after, _OF_HOSTS)
            if own is not None:
                since[own is Doubt.KERNEL] = after
            before = after

    def _between(self, own: int, node: Node, before: Clock, after: Clock, doubts: Container[Doubt]) -> Iterator[Pair]:
        """Yield the pairs of *node* with the last of each of *doubts* of each other actor that is in *after* and not in
        *before*.
        """
        for actor, reached in after.items():
            epochs = self._by_actor.get(actor, ())
            place = bisect_right(epochs, (reached, 1 << 62)) if epochs and actor != own else 0
            told: set[Doubt] = set()
            while place and epochs[place - 1][0] > before.get(actor, 0):
                place -= 1
                index = epochs[place][1]
                doubt = self._unseen[index]
                if doubt in doubts and doubt not in told:
                    told.add(doubt)
                    yield Pair(Node(At.OP, index), node, self._timeline.ops[index].name, doubt)

    def _all_between(self, own: int, node: Node, before: Clock, after: Clock) -> Iterator[Pair]:
        """Yield the pairs of *node*, a kernel whose bytes are not declared, with the last of each other actor."""
        for actor, reached in after.items():
            nodes = self._nodes.get(actor, ())
            place = bisect_left(nodes, reached + 1, key=lambda each: each[0]) if nodes else 0
            if actor != own and place and nodes[place - 1][0] > before.get(actor, 0):
                yield Pair(nodes[place - 1][1], node, self._timeline.ops[node.place].name, Doubt.KERNEL)


class Told:
    """What hosts know where they tell something in the run of *relation*, which has its moments: they may tell somebody
    that work is done.

    A query tells only of what it asks for. A time of an event tells of all that streams were given, and a read of the
    clock and a handover of all operations.
    """

    def __init__(self, relation: Relation) -> None:
        self._relation = relation
        self._pairs: dict[Node, list[Pair]] = {}

    @cached_property
    def _nodes(self) -> dict[int, list[tuple[int, Node]]]:
        """By stream: all that it was given, with its epoch."""
        relation, timeline = self._relation, self._relation.timeline
        nodes: defaultdict[int, list[tuple[int, Node]]] = defaultdict(list)
        calls = (Node(At.CALL, index) for index in range(len(timeline.calls)))
        for node in chain((Node(At.OP, index) for index in range(len(timeline.ops))), filter(relation.has, calls)):
            point = relation.point(node)
            nodes[point.actor].append((point.epoch, node))
        for of_stream in nodes.values():
            of_stream.sort()
        return nodes

    @cached_property
    def _ops(self) -> dict[int, list[tuple[int, Node]]]:
        return {actor: [each for each in nodes if each[1].at is At.OP] for actor, nodes in self._nodes.items()}

    def pairs(self, node: Node) -> list[Pair]:
        """Return what must be over when something is told at *node*."""
        if node not in self._pairs:
            self._pairs[node] = [*self._found(node)]
        return self._pairs[node]

    def _found(self, node: Node) -> Iterator[Pair]:
        clock = self._relation.clock(node)
        reached = clock.items()
        if node.at is At.ENTRY and (asked := self._relation.asked.get(node.place)) is not None:
            reached = {actor: epoch for actor, epoch, _ in asked if clock.get(actor, 0) >= epoch}.items()
        all_nodes = self._nodes if node.at is At.ENTRY else self._ops
        for actor, epoch in reached:
            nodes = all_nodes.get(actor, ())
            place = bisect_right(nodes, epoch, key=itemgetter(0)) if nodes else 0
            if place:
                one = nodes[place - 1][1]
                name = self._relation.timeline.ops[one.place].name if one.at is At.OP else "an event"
                yield Pair(one, node, name, Doubt.TOLD)


def _unseen(timeline: Timeline) -> dict[int, Doubt]:
    """Return the operations behind which something may be unseen."""
    hidden = _Hidden(timeline)
    unseen = {}
    for index, op in enumerate(timeline.ops):
        if op.kind in ("kernel", "graph") and not (op.reads or op.writes):
            unseen[index] = Doubt.KERNEL
        elif op.kind == "host_function":
            unseen[index] = Doubt.FUNCTION
        elif hidden.has_part_in(op):
            unseen[index] = Doubt.HOST
    return unseen


class _Hidden:
    """The memory of a run that its host may use unseen: arrays, also registered ones, and bytes at whose address code
    has got. Functions of other libraries, such as those of the module acl, work with addresses.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._buffers = timeline.buffers
        self._exported: defaultdict[int, list[Extent]] = defaultdict(list)
        for extent in chain.from_iterable(export.extents for export in timeline.exports):
            self._exported[extent.buffer].append(extent)
        self._behind_ns = max([timeline.end_ns, *(op.end_ns for op in timeline.ops)]) + 1
        # When the host was seen to read bytes of each memory, and when operations began to write them.
        self._reads: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self._writes: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for access in timeline.accesses:
            for each in () if access.writes else access.extents:
                self._reads[each.buffer].append((access.at_ns, each.start, each.stop))
        for op in timeline.ops:
            for each in op.writes:
                self._writes[each.buffer].append((op.start_ns, each.start, each.stop))
        for touches in (*self._reads.values(), *self._writes.values()):
            touches.sort()
        self._registered = set()
        self._by_address = any(kind.function for kind in call_columns(timeline.calls).kinds)
        for call in timeline.calls:
            match call.act:
                case acts.Began(Extent(buffer)) if call.name == HostRegister.__name__:
                    self._registered.add(buffer)

    def has_part_in(self, op: Operation) -> bool:
        """Whether *op* touches such memory."""
        touched = (*op.reads, *op.writes)
        if op.kind in _COPIES_OF_HOST and len({each.buffer for each in touched}) < len(_ENDS):
            return True  # a recording has no bytes of arrays
        if any(self._is_read_unseen(each, op) for each in op.writes if each.buffer >= 0):
            return True
        return any(each.buffer < 0 or self._is_hidden(each) for each in touched)

    def _is_hidden(self, extent: Extent) -> bool:
        buffer, start, stop = extent
        space = self._buffers[buffer].space
        if space == "pageable" or buffer in self._registered or (self._by_address and space != "device"):
            return True
        return any(start < other.stop and other.start < stop for other in self._exported.get(buffer, ()))

    def _is_read_unseen(self, extent: Extent, op: Operation) -> bool:
        """Whether the host had an array over the bytes that *op* wrote, and was not seen to read them.

        NumPy tells of most uses of such an array, and of some not: `plain[:] = array` reads it unseen. Where bytes were
        written for the host and not read before they are written again, or in the rest of the run, that is likely.
        """
        memory = self._buffers[extent.buffer]
        if memory.space == "device" or memory.viewed_ns < 0:
            return False
        until_ns = self._next(self._writes[extent.buffer], extent, op.end_ns)
        return memory.viewed_ns <= until_ns <= self._next(self._reads[extent.buffer], extent, op.end_ns)

    def _next(self, touches: Sequence[tuple[int, int, int]], extent: Extent, since_ns: int) -> int:
        """Return the time of the first of *touches*, by time, to bytes of *extent* from *since_ns* on; if there is
        none, a time behind the run.
        """
        later = islice(touches, bisect_left(touches, (since_ns,)), None)
        met = (at_ns for at_ns, start, stop in later if extent.start < stop and start < extent.stop)
        return next(met, self._behind_ns)
