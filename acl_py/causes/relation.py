"""Which operation of a recording is certain to be over before which other one, whatever their times are.

The relation is that of acl_py.order; here it is fed with the rows of a recording. Where handovers were watched, tasks
know what they were handed. Otherwise a recording does not have what tasks tell one another, so all of them count as one
host, which knows what any of them knows.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from typing import Any, NamedTuple

import numpy as np

from acl_py.calls import acts
from acl_py.calls.acts import Act
from acl_py.causes.between import Between, Deed
from acl_py.causes.recorded_things import Things
from acl_py.causes.walk import BETWEEN, CALL, GRANTED, OP, WAKING, Rows
from acl_py.order.actors import Host, Line
from acl_py.order.clocks import BEGINNING, Clock, Past, Point, joined
from acl_py.order.order import Order
from acl_py.order.relate import Relate
from acl_py.order.signals import Signals
from acl_py.order.things import RecordedStream
from acl_py.trace.rows.columns import Columns
from acl_py.trace.rows.timeline import Copied, Timeline
from device_model.rules import RULES, DefaultStream, Destroy, DeviceSync, PageableCopy

# What takes a turn in its stream without being an operation.
_TAKE_TURNS = (acts.Recorded, acts.Waited, acts.Set, acts.Cleared, acts.Awaited, acts.HandedOver)


class At(IntEnum):
    """What a node of the relation is; its place is that of an operation, of a call, or of a row."""

    OP = 0  # an operation
    CALL = 1  # what a call does in a stream, without an operation
    ENTRY = 2  # a host, when it begins a call
    RETURN = 3  # a host, behind a call
    ACCESS = 4  # an access of a host, or an await that finds its operation done
    TOOK = 5  # a host, when it takes a handover
    GAVE = 6  # a host, when it hands something over


class Node(NamedTuple):
    """Something that is before or behind others: *at* says what it is, *place* which one."""

    at: At
    place: int


@dataclass(frozen=True, slots=True)
class Changes:
    """How a program differs from the one of its recording.

    The *calls* and *awaits*, which are rows of accesses, tell nobody anything, and their waits are not made. *behind*
    has for nodes those that they wait for in addition. Without *legacy* the legacy stream is a stream like others;
    without *assumed* handovers that were not seen are not made.
    """

    calls: frozenset[int] = frozenset()
    awaits: frozenset[int] = frozenset()
    behind: Mapping[Node, tuple[Node, ...]] = field(default_factory=dict)
    legacy: bool = True
    assumed: bool = True


class Relation:
    """The relation of one recording.

    With *apart* a task knows only its own waits and what other hosts handed over. Only calls whose purpose is to wait
    count then. A copy of pageable memory does not count, because it need not wait once that memory is pinned. Neither
    does a free. *changes* gives the relation of another program.

    If *moments* are asked for, accesses of hosts, calls and handovers are nodes, too. `learned` then has each node of a
    host behind which it knew more than before, with the clocks of before and after, and `asked` what was queued of the
    subject of each query, by its call.

    A launch of a graph is a sequence of operations in its stream, in the order of its nodes; what was captured orders
    nothing.

    One that *is_lazy* takes up what hosts did only as far as `walk` is asked to. It can be made faster *like* another
    one of the same recording, with the same parameters but the changes.
    """

    def __init__(
        self,
        timeline: Timeline,
        *,
        apart: bool = False,
        changes: Changes | None = None,
        moments: bool = False,
        is_lazy: bool = False,
        like: "Relation | None" = None,
    ) -> None:
        self.timeline = timeline
        self.learned: list[tuple[Node, Clock, Clock]] = []
        self.asked: dict[int, tuple[Point, ...]] = {}
        self._apart = apart
        self._changes = changes = changes or Changes()
        self._moments = moments
        self._at: dict[Node, Point] = {}  # of all nodes but operations
        self._order = Order()
        rules = RULES.get(timeline.rules)
        synchronous = rules is not None and rules.pageable_copy is PageableCopy.SYNCHRONOUS
        self._rows: Rows = (
            Rows(timeline, apart=apart, moments=moments, pageable_waits=synchronous and not apart)
            if like is None
            else like._rows
        )
        rows = self._rows
        ops, calls = rows.ops, rows.calls
        self._order.has_several_hosts = moments or self._has_several_hosts()
        self._signals = Signals(self._order)
        self._relate = Relate(self._order, self._signals, lambda word: (word.memory.buffer, word.offset))
        self._hosts: dict[Hashable, Host] = {}
        self._hosts_of_calls: dict[int, Host] = {}  # by caller
        self._awaited: dict[int, list[Point]] = {}  # by calls that have not returned
        self._given: dict[int, Point] = {}  # by the rows of handovers
        nowhere = Point(-1, 0, BEGINNING)
        self._points = [nowhere] * len(ops)
        self._known: list[Clock] = [{}] * len(ops)  # by the host, when it queued them
        has_legacy = rules is not None and rules.default_stream is not DefaultStream.INDEPENDENT
        self._things = Things(timeline, has_legacy=has_legacy and changes.legacy)
        self._syncs_devices = rules is not None and rules.device_sync is DeviceSync.DEVICE
        self._acts: list[Act[Any] | None] = [None] * len(calls.kinds)  # of the kinds of calls that were met
        self._destroy_waits = rules is not None and rules.destroy is Destroy.WAITS and not apart
        self._left = iter(rows.rows)
        if not is_lazy:
            self.walk()

    def is_before(self, one: int, other: int) -> bool:
        """Whether operation *one* is certain to be over when *other* starts; both are indices."""
        return self.is_ordered(Node(At.OP, one), Node(At.OP, other))

    def is_ordered(self, one: Node, other: Node) -> bool:
        """Whether *one* is certain to be over when *other* begins."""
        point, later = self.point(one), self.point(other)
        if point.actor == later.actor:
            return point.epoch < later.epoch
        return any(clock.get(point.actor, 0) >= point.epoch for clock in self._clocks(other, later))

    def point(self, node: Node) -> Point:
        """Return the point of *node*."""
        return self._points[node.place] if node.at is At.OP else self._at[node]

    def clock(self, node: Node) -> Clock:
        """Return what is certain to be over when *node* begins."""
        one, *others = self._clocks(node, self.point(node))
        return joined(one, others[0]) if others else one

    def closed(self, clock: Clock) -> Clock:
        """Return *clock* with all that is over with the waits that are in it."""
        return self._order.closure(clock)

    def has(self, node: Node) -> bool:
        """Whether the program of this relation has *node*."""
        return node.at is At.OP or node in self._at

    def _clocks(self, node: Node, point: Point) -> Iterator[Clock]:
        yield self._order.closure(point.clock)
        if node.at is At.OP and (known := self._known[node.place]):
            yield self._order.closure(known)

    # --- the rows, in the order in which the host made them

    def walk(self, until_ns: float = inf) -> None:
        """Take up what hosts did until *until_ns*, as far as that is still to be done."""
        for at_ns, row, index, after in self._left:
            self._take(row, index, after)
            if at_ns > until_ns:
                break

    @property
    def is_plain(self) -> bool:
        """Whether what comes later changes nothing that is known so far: so far nothing waits for a signal."""
        return not self._order.waits

    def when(self, node: Node) -> int:
        """Return the time until which one has to `walk` to know all about *node*."""
        timeline, place = self.timeline, node.place
        match node.at:
            case At.OP:
                launch = timeline.ops[place].launch
                return timeline.ops[place].queued_ns if launch is None else timeline.launches[launch].queued_ns
            case At.ENTRY:
                return timeline.calls[place].enter_ns
            case At.ACCESS:
                return timeline.accesses[place].at_ns
            case At.TOOK:
                return timeline.handovers[place].at_ns
            case At.GAVE:
                return timeline.handovers[place].given_ns
        return timeline.calls[place].exit_ns

    def _take(self, row: int, index: int, after: int) -> None:
        if row == WAKING:
            node = Node(At.RETURN, index)
            if index not in self._changes.calls:
                self._let_know(self._host_of(index), (self._points[after],), node)
            self._note(node, self._host_of(index))
        elif row in (GRANTED, BETWEEN):
            self._do(self._rows.between[index])
        elif row == OP:
            self._op(index)
        elif row == CALL:
            if index not in self._changes.calls:
                self._call(index)
            self._note(Node(At.RETURN, index), self._host_of(index))
        else:
            self._enter(index)

    def _let_know(self, host: Host, points: Iterable[Point], node: Node) -> None:
        """Let *host* know that *points* are over, at *node*."""
        before = host.past.clock
        if self._order.learn(host, points) and self._moments:
            self.learned.append((node, before, host.past.clock))

    def _note(self, node: Node, host: Host) -> None:
        if self._moments:
            self._at[node] = host.point()

    def _let_wait(self, node: Node) -> tuple[Point, ...]:
        """Return what *node* waits for in addition."""
        return tuple(self.point(each) for each in self._changes.behind.get(node, ()))

    def _op(self, index: int) -> None:
        ops = self._rows.ops
        kind = ops.kinds[ops.kind[index]]
        host = self._host(self._key(ops, ops.caller[index]))
        stream, is_ordered = self._things.stream_of(kind.in_stream, kind.device)
        if behind := self._let_wait(Node(At.OP, index)):
            self._order.wait(stream, host, behind)
        self._points[index] = self._order.queue(stream, host).point()
        self._known[index] = host.past.clock
        if not is_ordered:
            del self._order.lines[stream]  # its host waits for it, and no synchronisation covers it

    def _do(self, deed: Between) -> None:
        """Take up what a host did between two calls."""
        if deed.deed is Deed.TOUCHED:
            self._access(deed.row)
            return
        timeline, row = self.timeline, deed.row
        handover = timeline.handovers[row]
        if not (deed.seen or self._changes.assumed):
            return
        if deed.deed is Deed.TOOK:
            given = (self._given.pop(row),) if row in self._given else ()
            node, host = Node(At.TOOK, row), self._host(handover.taker)
            self._let_know(host, given, node)
            self._note(node, host)
        elif handover.giver is not None:
            self._given[row] = self._host(handover.giver).point()
            self._note(Node(At.GAVE, row), self._host(handover.giver))
        elif handover.after is not None:
            point = self._points[handover.after]
            self._given[row] = point._replace(past=Past.of(joined(point.clock, self._known[handover.after])))

    def _access(self, row: int) -> None:
        """Take up an access of a host, or an await that has found its operation done."""
        access, node = self.timeline.accesses[row], Node(At.ACCESS, row)
        host = self._host(self._named(access.caller, access.by))
        self._order.learn(host, self._let_wait(node))
        if access.after is not None and row not in self._changes.awaits:
            self._let_know(host, (self._points[access.after],), node)
        if self._moments:
            self._order.act(host)
        self._note(node, host)

    def _call(self, index: int) -> None:
        """Take up a call that sets or awaits something, or whose host waits."""
        host, act = self._host_of(index), self._act_of(index)
        match act:
            case acts.GraphLaunched(_, RecordedStream() as stream):
                for event in self._rows.captured.records[index]:
                    self._relate.act(acts.Recorded(self._things.event(event), stream), host)
            case acts.Synchronised() | acts.Destroyed(RecordedStream()):
                self._learn(index, act, host)
        before = host.past.clock
        line = self._relate.act(act, host)
        if self._moments and host.past.clock is not before:  # it has taken a callback, or a device is gone
            self.learned.append((Node(At.RETURN, index), before, host.past.clock))
        if self._moments and isinstance(act, _TAKE_TURNS):
            line = self._turn(act)
        if line is not None and self._moments:
            self._at[Node(At.CALL, index)] = line.point()

    def _turn(self, act: Any) -> Line | None:
        """Begin an epoch of the stream of *act*: queries of the stream, or of the event, tell whether that is over."""
        line = self._order.lines.get(act.stream)
        if line is not None:
            line.count += 1
            if isinstance(act, acts.Recorded):
                act.event.stamp = line.point()
        return line

    def _enter(self, index: int) -> None:
        """Take up the begin of a call whose host waits for what was queued by then: other tasks may queue more before
        it ends. An asynchronous copy of pageable memory has waited for its stream before it queues itself.
        """
        host, node = self._host_of(index), Node(At.ENTRY, index)
        self._order.learn(host, self._let_wait(node))
        match self._act_of(index):
            case acts.Queued(Copied(), RecordedStream() as stream):
                self._order.learn(host, self._order.work_of_stream(stream))
            case acts.Asked(subject):
                self.asked[index] = tuple(self._relate.work_of(subject))
            case act:
                self._awaited[index] = [*self._waited_for(index, act)]
        self._note(node, host)

    def _learn(self, index: int, act: Act[Any], host: Host) -> None:
        """Let the host know what the call *index* has waited for."""
        points = self._awaited.pop(index) if index in self._awaited else [*self._waited_for(index, act)]
        points += [self._points[after] for after in self._rows.woken.get(index, ()) if after >= 0]
        self._let_know(host, points, Node(At.RETURN, index))

    def _waited_for(self, index: int, act: Act[Any]) -> Iterable[Point]:
        if self._rows.woken.get(index, (0,))[-1] < 0:  # its time was over, or it failed
            return ()
        return self._relate.waited_for(act, syncs_devices=self._syncs_devices, destroy_waits=self._destroy_waits)

    # --- what rows name

    def _act_of(self, call: int) -> Act[Any]:
        kind = self._rows.kind_of[call]
        act = self._acts[kind]
        if act is None:
            act = self._acts[kind] = self._things.act_of(self._rows.calls.kinds[kind])
        return act

    def _has_several_hosts(self) -> bool:
        callers = {self._key(self._rows.calls, caller) for caller in np.unique(self._rows.calls.caller).tolist()}
        return len(callers | set(self._rows.callers.values())) > 1

    def _host_of(self, call: int) -> Host:
        caller = self._rows.caller_of[call]
        host = self._hosts_of_calls.get(caller)
        if host is None:
            host = self._hosts_of_calls[caller] = self._host(self._key(self._rows.calls, caller))
        return host

    def _key(self, columns: Columns[Any], caller: int) -> Hashable:
        return self._named(columns.callers[caller], columns.by[caller])

    def _named(self, name: str, by: int) -> Hashable:
        """Return what tells a task or thread from others that are another host."""
        if self.timeline.handovers_watched:
            return self._rows.callers.get((name, by), (name, by))
        return name if self._apart else ""

    def _host(self, key: Hashable) -> Host:
        if key not in self._hosts:
            self._hosts[key] = self._order.host()
        return self._hosts[key]
