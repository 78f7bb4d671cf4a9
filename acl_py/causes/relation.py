"""Which operation of a recording is certain to be over before which other one, whatever their times are.

The relation is that of acl_py.order; here it is fed with the rows of a recording. A recording does not have what tasks
tell one another, so all of them count as one host, which knows what any of them knows.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from acl_py.calls import acts
from acl_py.calls.acts import Act, Word
from acl_py.causes.captured import Captured
from acl_py.order.order import BEGINNING, Clock, Host, Line, Order, Point
from acl_py.order.relate import Relate, orders
from acl_py.order.signals import Signals
from acl_py.order.things import RecordedContext, RecordedEvent, RecordedStream
from acl_py.trace.rows.columns import CallKind, call_columns, op_columns
from acl_py.trace.rows.timeline import Copied, Memory, Ref, Thing, Timeline
from device_model.rules import RULES, DefaultStream, Destroy, DeviceSync, EventClass, PageableCopy

_WAKING, _OP, _CALL, _ENTRY = range(4)  # rows of one instant come in this order


class Relation:
    """The relation of one recording.

    `nothing_new` has the waits and synchronisations that order nothing new, as indices of calls. Calls that happen to
    wait, such as a free, order nothing. *apart* lets each task know only what it has waited for itself, and by calls
    that are there to wait: not by copies of pageable memory, which need not wait once it is pinned. With *unwaited* the
    host knows nothing by the calls with these indices, and the legacy stream is a stream like others: so it would be
    in a program that has got rid of these barriers.

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
        callers = {calls.callers[caller] for caller in np.unique(calls.caller).tolist()}
        self._order.has_several_hosts = apart and len(callers) > 1
        self._signals = Signals(self._order)
        self._relate = Relate(self._order, self._signals, lambda word: (word.memory.buffer, word.offset))
        self._hosts: dict[str, Host] = {}
        self._contexts: dict[
            tuple[int, int], RecordedContext
        ] = {}  # by device and number; a primary context has number 0
        self._streams: dict[int, RecordedStream] = {}  # by handle
        self._events: dict[int, RecordedEvent] = {}  # by handle
        self._epochs: defaultdict[int, list[int]] = defaultdict(list)  # of the operations of each actor
        nowhere = Point(-1, 0, BEGINNING)
        self._points = [nowhere] * len(ops)
        self._known: list[Clock] = [{}] * len(ops)  # by the host, when it queued them
        self._woken: defaultdict[int, list[int]] = defaultdict(list)  # by call: what each sleep ended with, or -1
        for call, after in zip(calls.sleeps.call.tolist(), calls.sleeps.after.tolist(), strict=True):
            self._woken[call].append(after)
        rules = RULES.get(timeline.rules)
        has_legacy = rules is not None and rules.default_stream is not DefaultStream.INDEPENDENT
        self._has_legacy = has_legacy and unwaited is None
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
        ordering &= ~queued | pageable  # operations have rows; a pageable copy would be in its stream, were it pinned
        waiting = shown | (pageable & self._pageable_waits)
        is_unwaited = np.isin(sleeps.call, self._unwaited)
        woke = np.flatnonzero(waiting[calls.kind[sleeps.call]] & (sleeps.after >= 0) & ~is_unwaited)
        runs = np.ones(len(calls), bool)
        runs[[*self._captured.calls]] = False
        made = np.flatnonzero(ordering[calls.kind] & runs)
        entered = np.flatnonzero((pageable & self._pageable_waits)[calls.kind] & runs)
        queued_ns, nodes = ops.queued_ns.copy(), np.flatnonzero(ops.launch >= 0)
        if len(nodes):  # also those in bodies of IF nodes, which were queued later
            queued_ns[nodes] = np.array([each.queued_ns for each in self.timeline.launches])[ops.launch[nodes]]
        at_ns = np.concatenate((sleeps.end_ns[woke], queued_ns, calls.exit_ns[made], calls.enter_ns[entered]))
        row = np.repeat((_WAKING, _OP, _CALL, _ENTRY), (len(woke), len(ops), len(made), len(entered)))
        index = np.concatenate((sleeps.call[woke], np.arange(len(ops)), made, entered))
        after = np.append(sleeps.after[woke], np.full(len(index) - len(woke), -1))
        order = np.lexsort((after, index, row, at_ns))
        yield from zip(row[order].tolist(), index[order].tolist(), after[order].tolist(), strict=True)

    def _op(self, index: int) -> None:
        ops = self._ops
        kind = ops.kinds[ops.kind[index]]
        host = self._host(ops.callers[ops.caller[index]])
        stream, is_ordered = self._stream_of(kind.in_stream, kind.device)
        self._points[index] = self._queue(stream, host).point()
        self._known[index] = host.past.clock
        if not is_ordered:
            self._order.end(stream)

    def _queue(self, stream: RecordedStream, host: Host) -> Line:
        line = self._order.queue(stream, host)
        self._epochs[line.number].append(line.count)
        return line

    def _call(self, index: int) -> None:
        """Take up a call that sets or awaits something, or whose host waits."""
        host, act = self._host_of(index), self._act_of(self._kinds[index])
        match act:
            case acts.Waited(_, RecordedStream() as stream) | acts.Awaited(_, _, _, RecordedStream() as stream):
                self._wait(index, stream, act, host)
                return
            case acts.GraphLaunched(_, RecordedStream() as stream):
                for event in self._captured.records[index]:
                    self._relate.act(acts.Recorded(self._event(event), stream), host)
            case acts.Synchronised() | acts.Destroyed(RecordedStream()):
                self._learn(index, act, host)
        line = self._relate.act(act, host)
        if line is not None:
            self._epochs[line.number].append(line.count)

    def _enter(self, index: int) -> None:
        """Take up the begin of an asynchronous copy of pageable memory whose host waits for its stream first."""
        match self._act_of(self._kinds[index]):
            case acts.Queued(Copied(), RecordedStream() as stream):
                self._order.learn(self._host_of(index), self._order.work_of_stream(stream))

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
        points = [*self._waited_for(index, act)]
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
        return self._host(self._calls.callers[self._calls.caller[call]])

    def _host(self, caller: str) -> Host:
        name = caller if self._apart else ""
        if name not in self._hosts:
            self._hosts[name] = self._order.host()
        return self._hosts[name]

    def _act_of(self, call: CallKind) -> Act[Any]:
        """Return what *call* did, with things in place of handles, and numbers for those that have none."""
        return acts.mapped(call.act, lambda each: self._thing(each.handle) if isinstance(each, Ref) else each)

    def _thing(self, place: int) -> object:
        handle = self.timeline.handles[place]
        if handle.kind == "stream":
            return self._stream_of(place, handle.device)[0]
        if handle.kind == "event":
            return self._event(place)
        return self._context(handle.device, handle.number) if handle.kind in ("context", "device") else place

    def _stream_of(self, place: int, device: int) -> tuple[RecordedStream, bool]:
        """Return a stream, and whether it is one: work outside streams has one of its own each time."""
        if place in self._streams:
            return self._streams[place], True
        handles = self.timeline.handles
        if not 0 <= place < len(handles):
            self._streams[place] = RecordedStream(self._context(device))
            return self._streams[place], True
        name, options = handles[place].name, handles[place].options
        context = self._context(device, int(options.get("context", 0)))
        if name.startswith("no stream"):
            return RecordedStream(context), False
        takes_part = None if options.get("nonblocking") else context.legacy
        stream = context.legacy if name.startswith("legacy") else None
        self._streams[place] = stream or RecordedStream(context, takes_part)
        return self._streams[place], True

    def _context(self, device: int, number: int = 0) -> RecordedContext:
        context = self._contexts.get((device, number))
        if context is None:
            context = self._contexts[device, number] = RecordedContext(device)
            context.legacy = RecordedStream(context) if self._has_legacy else None
        return context

    def _event(self, place: int) -> RecordedEvent:
        if place not in self._events:
            name = self.timeline.handles[place].options.get("class")
            self._events[place] = RecordedEvent(EventClass.FLAG if name == "flag" else EventClass.SNAPSHOT)
        return self._events[place]


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
