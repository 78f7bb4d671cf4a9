"""Which operation of a recording is certain to be over before which other one, whatever their times are.

The relation is that of acl_py.order; here it is fed with the rows of a recording. Where handovers were watched, tasks
know what they were handed. Otherwise a recording does not have what tasks tell one another, so all of them count as one
host, which knows what any of them knows.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from acl_py.calls import acts
from acl_py.calls.acts import Act, Word
from acl_py.causes.between import Between, Deed, between_calls
from acl_py.causes.captured import Captured
from acl_py.causes.recorded_things import Things
from acl_py.order.order import BEGINNING, Clock, Host, Line, Order, Past, Point, joined
from acl_py.order.relate import Relate, orders
from acl_py.order.signals import Signals
from acl_py.order.things import RecordedStream
from acl_py.trace.rows.columns import Columns, Ints, call_columns, op_columns
from acl_py.trace.rows.timeline import Copied, Memory, Thing, Timeline
from device_model.rules import RULES, DefaultStream, Destroy, DeviceSync, EventClass, PageableCopy

_WAKING, _GRANTED, _OP, _CALL, _BETWEEN, _ENTRY = range(6)  # rows of one instant come in this order


class Relation:
    """The relation of one recording.

    `nothing_new` has the waits and synchronisations that order nothing new, as indices of calls. Calls that happen to
    wait, such as a free, order nothing. With *apart* a task knows only its own waits and what other hosts handed over.
    Only calls whose purpose is to wait count then: a copy of pageable memory does not, because it need not wait once
    that memory is pinned. With *unwaited* the calls with these indices tell the host nothing, and the legacy stream is
    a stream like others, as in a program without these barriers.

    A launch of a graph is a sequence of operations in its stream, in the order of its nodes; what was captured orders
    nothing.
    """

    def __init__(self, timeline: Timeline, *, apart: bool = False, unwaited: Collection[int] | None = None) -> None:
        self.timeline = timeline
        self.nothing_new: list[int] = []
        self._apart = apart
        self._unwaited = list(unwaited or ())
        self._order = Order()
        ops, calls = self._ops, self._calls = op_columns(timeline.ops), call_columns(timeline.calls)
        self._captured = Captured(timeline)
        self._kinds = [calls.kinds[kind] for kind in calls.kind.tolist()]
        self._callers = {
            (each.name, each.by): place for place, host in enumerate(timeline.hosts) for each in host.callers
        }
        callers = {self._key(calls, caller) for caller in np.unique(calls.caller).tolist()}
        self._order.has_several_hosts = len(callers | set(self._callers.values())) > 1
        self._signals = Signals(self._order)
        self._relate = Relate(self._order, self._signals, lambda word: (word.memory.buffer, word.offset))
        self._hosts: dict[Hashable, Host] = {}
        self._between = between_calls(timeline)
        self._awaited: dict[int, list[Point]] = {}  # by calls that have not returned
        self._given: dict[int, Point] = {}  # by the rows of handovers
        self._epochs: defaultdict[int, list[int]] = defaultdict(list)  # of the operations of each actor
        nowhere = Point(-1, 0, BEGINNING)
        self._points = [nowhere] * len(ops)
        self._known: list[Clock] = [{}] * len(ops)  # by the host, when it queued them
        self._woken: defaultdict[int, list[int]] = defaultdict(list)  # by call: what each sleep ended with, or -1
        for call, after in zip(calls.sleeps.call.tolist(), calls.sleeps.after.tolist(), strict=True):
            self._woken[call].append(after)
        rules = RULES.get(timeline.rules)
        has_legacy = rules is not None and rules.default_stream is not DefaultStream.INDEPENDENT
        self._things = Things(timeline, has_legacy=has_legacy and unwaited is None)
        self._syncs_devices = rules is not None and rules.device_sync is DeviceSync.DEVICE
        synchronous = rules is not None and rules.pageable_copy is PageableCopy.SYNCHRONOUS
        self._pageable_waits = synchronous and not apart
        self._destroy_waits = rules is not None and rules.destroy is Destroy.WAITS and not apart
        self._walk()

    def is_before(self, one: int, other: int) -> bool:
        """Whether operation *one* is certain to be over when *other* starts; both are indices."""
        point, later = self._points[one], self._points[other]
        if point.actor == later.actor:
            return point.epoch < later.epoch
        clocks = (self._order.closure(clock) for clock in (later.clock, self._known[other]))
        return any(clock.get(point.actor, 0) >= point.epoch for clock in clocks)

    # --- the rows, in the order in which the host made them

    def _walk(self) -> None:
        for row, index, after in self._rows():
            if row == _WAKING:
                self._order.learn(self._host_of(index), (self._points[after],))
            elif row in (_GRANTED, _BETWEEN):
                self._do(self._between[index])
            elif row == _OP:
                self._op(index)
            elif row == _CALL:
                self._call(index)
            else:
                self._enter(index)

    def _rows(self) -> Iterator[tuple[int, int, int]]:
        """Yield what a row is, its index, and the operation with whose end a caller woke in the call with this index.

        Calls that can order nothing are left out.
        """
        ops, calls, sleeps = self._ops, self._calls, self._calls.sleeps
        pageable = np.array([is_pageable(kind.act, self.timeline.buffers) for kind in calls.kinds], bool)
        queued = np.array([isinstance(kind.act, acts.Queued) for kind in calls.kinds], bool)
        shown = np.array([_shows(kind.act) for kind in calls.kinds], bool)
        ordering = np.array([orders(kind.act) for kind in calls.kinds], bool) & ~shown
        # Operations have rows. A pageable copy would be in its stream, were it pinned.
        ordering &= ~queued | (pageable & self._apart)
        waiting = shown | (pageable & self._pageable_waits)
        is_unwaited = np.isin(sleeps.call, self._unwaited)
        woke = np.flatnonzero(waiting[calls.kind[sleeps.call]] & (sleeps.after >= 0) & ~is_unwaited)
        runs = np.ones(len(calls), bool)
        runs[[*self._captured.calls]] = False
        made = np.flatnonzero(ordering[calls.kind] & runs)
        synchronises = np.array(
            [isinstance(kind.act, acts.Synchronised | acts.Destroyed) for kind in calls.kinds], bool
        )
        synchronises &= ~shown
        entered = np.flatnonzero((synchronises | (pageable & self._pageable_waits))[calls.kind] & runs)
        queued_ns, nodes = ops.queued_ns.copy(), np.flatnonzero(ops.launch >= 0)
        if len(nodes):  # also those in bodies of IF nodes, which were queued later
            queued_ns[nodes] = np.array([each.queued_ns for each in self.timeline.launches])[ops.launch[nodes]]
        granted, seen = (
            [place for place, deed in enumerate(self._between) if deed.seen is each] for each in (False, True)
        )
        did_ns = np.array([deed.at_ns for deed in self._between], np.int64)
        rows: tuple[tuple[int, Ints, Any], ...] = (
            (_WAKING, sleeps.end_ns[woke], sleeps.call[woke]),
            (_GRANTED, did_ns[granted], granted),
            (_OP, queued_ns, np.arange(len(ops))),
            (_CALL, calls.exit_ns[made], made),
            (_BETWEEN, did_ns[seen], seen),
            (_ENTRY, calls.enter_ns[entered], entered),
        )
        at_ns = np.concatenate([each for _, each, _ in rows])
        index = np.concatenate([np.asarray(each, np.int64) for _, _, each in rows])
        row = np.repeat([each for each, _, _ in rows], [len(each) for _, each, _ in rows])
        after = np.append(sleeps.after[woke], np.full(len(index) - len(woke), -1))
        order = np.lexsort((after, index, row, at_ns))
        yield from zip(row[order].tolist(), index[order].tolist(), after[order].tolist(), strict=True)

    def _op(self, index: int) -> None:
        ops = self._ops
        kind = ops.kinds[ops.kind[index]]
        host = self._host(self._key(ops, ops.caller[index]))
        stream, is_ordered = self._things.stream_of(kind.in_stream, kind.device)
        self._points[index] = self._queue(stream, host).point()
        self._known[index] = host.past.clock
        if not is_ordered:
            del self._order.lines[stream]  # its host waits for it, and no synchronisation covers it

    def _do(self, deed: Between) -> None:
        """Take up what a host did between two calls."""
        timeline, row = self.timeline, deed.row
        if deed.deed is Deed.AWAITED:
            access = timeline.accesses[row]
            assert access.after is not None, "an await has its operation"
            self._order.learn(self._host(self._named(access.caller, access.by)), (self._points[access.after],))
            return
        handover = timeline.handovers[row]
        if deed.deed is Deed.TOOK:
            given = (self._given.pop(row),) if row in self._given else ()
            self._order.learn(self._host(handover.taker), given)
        elif handover.giver is not None:
            self._given[row] = self._host(handover.giver).point()
        elif handover.after is not None:
            point = self._points[handover.after]
            self._given[row] = point._replace(past=Past.of(joined(point.clock, self._known[handover.after])))

    def _queue(self, stream: RecordedStream, host: Host) -> Line:
        line = self._order.queue(stream, host)
        self._epochs[line.number].append(line.count)
        return line

    def _call(self, index: int) -> None:
        """Take up a call that sets or awaits something, or whose host waits."""
        host, act = self._host_of(index), self._things.act_of(self._kinds[index])
        match act:
            case acts.Waited(_, RecordedStream() as stream) | acts.Awaited(_, _, _, RecordedStream() as stream):
                self._wait(index, stream, act, host)
                return
            case acts.GraphLaunched(_, RecordedStream() as stream):
                for event in self._captured.records[index]:
                    self._relate.act(acts.Recorded(self._things.event(event), stream), host)
            case acts.Synchronised() | acts.Destroyed(RecordedStream()):
                self._learn(index, act, host)
        line = self._relate.act(act, host)
        if line is not None:
            self._epochs[line.number].append(line.count)

    def _enter(self, index: int) -> None:
        """Take up the begin of a call whose host waits for what was queued by then: other tasks may queue more before
        it ends. An asynchronous copy of pageable memory has waited for its stream before it queues itself.
        """
        match self._things.act_of(self._kinds[index]):
            case acts.Queued(Copied(), RecordedStream() as stream):
                self._order.learn(self._host_of(index), self._order.work_of_stream(stream))
            case act:
                self._awaited[index] = [*self._waited_for(index, act)]

    def _wait(self, index: int, stream: RecordedStream, act: Act[Any], host: Host) -> None:
        """Let *stream* wait, and note it if it knew all that it waits for, or its host did.

        A wait for an event that was never recorded has no effect.
        """
        match act:
            case acts.Waited(event) if event.class_ is not EventClass.FLAG and event.stamp is None:
                self.nothing_new.append(index)
                return
        line = self._order.make_ready_for_signal(stream, host)
        before = line.past
        self._relate.act(act, host)
        if isinstance(act, acts.Awaited) and isinstance(act.signal, Word):  # its value may come by other ways
            return
        if stream is stream.context.legacy or self._signals.is_open(line.past.clock):
            return
        if line.past is before or self._covers([before.clock], Point(line.number, 0, line.past)):
            self.nothing_new.append(index)

    def _learn(self, index: int, act: Act[Any], host: Host) -> None:
        """Let the host know what the call *index* has waited for."""
        points = self._awaited.pop(index) if index in self._awaited else [*self._waited_for(index, act)]
        if is_synchronisation(act) and all(self._covers([host.past.clock], point) for point in points):
            self.nothing_new.append(index)
        points += [self._points[after] for after in self._woken.get(index, ()) if after >= 0]
        self._order.learn(host, points)

    def _waited_for(self, index: int, act: Act[Any]) -> Iterable[Point]:
        if self._woken.get(index, (0,))[-1] < 0:  # its time was over, or it failed
            return ()
        return self._relate.waited_for(act, syncs_devices=self._syncs_devices, destroy_waits=self._destroy_waits)

    def _covers(self, known: list[Clock], point: Point) -> bool:
        """Whether one of the clocks *known* has each operation that is over at *point*."""
        reached = self._order.closure({**point.clock, point.actor: point.epoch})
        closed = [self._order.closure(clock) for clock in known]
        return all(
            any(clock.get(actor, 0) >= self._last(actor, epoch) for clock in closed)
            for actor, epoch in reached.items()
            if actor in self._epochs
        )

    def _last(self, actor: int, epoch: int) -> int:
        """Return the epoch of the last operation of *actor* up to *epoch*: not every epoch is one of an operation."""
        epochs = self._epochs[actor]
        place = bisect_right(epochs, epoch)
        return epochs[place - 1] if place else 0

    # --- what rows name

    def _host_of(self, call: int) -> Host:
        return self._host(self._key(self._calls, self._calls.caller[call]))

    def _key(self, columns: Columns[Any], caller: int) -> Hashable:
        return self._named(columns.callers[caller], columns.by[caller])

    def _named(self, name: str, by: int) -> Hashable:
        """Return what tells a task or thread from others that are another host."""
        if self.timeline.handovers_watched:
            return self._callers.get((name, by), (name, by))
        return name if self._apart else ""

    def _host(self, key: Hashable) -> Host:
        if key not in self._hosts:
            self._hosts[key] = self._order.host()
        return self._hosts[key]


def is_wait(act: Act[Any]) -> bool:
    """Whether *act* is that of a call which is there to wait, and can be one that orders nothing new."""
    is_of_word = isinstance(act, acts.Awaited) and isinstance(act.signal, Word)
    return is_synchronisation(act) or (isinstance(act, acts.Waited | acts.Awaited) and not is_of_word)


def is_synchronisation(act: Act[Any]) -> bool:
    """Whether *act* is that of a call which is there to wait for all work of something."""
    return isinstance(act, acts.Synchronised) and act.subject is not None


def is_pageable(act: Act[Thing], buffers: Sequence[Memory]) -> bool:
    """Whether *act* queues a copy of pageable memory."""
    match act:
        case acts.Queued(Copied() as copy):
            return any(end < 0 or buffers[end].space == "pageable" for end in (copy.dst, copy.src))
    return False


def _shows(act: Act[Any]) -> bool:
    """Whether what the call of *act* waited for shows when its caller wakes."""
    return isinstance(act, acts.Completed) or (isinstance(act, acts.Synchronised) and act.subject is None)
