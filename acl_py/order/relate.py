"""What each act orders: the only place that knows.

The sanitizer gives it the acts of a program that runs, and `acl_py.causes.relation` those of a recording. The things in
an act are then streams, events, contexts and devices, live or recorded ones: what is asked of them is in the protocols
here and in order.py.

Live, observers are told more than acts say. They learn of each wait of a host what it waits for and whether that is
promised; of operations, records and waits that need no act; and when a callback is over. A recording has only its rows.
What depends on that is an argument here.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, Protocol, assert_never

from acl_py.calls import acts
from acl_py.calls.acts import Act, Word
from acl_py.order.actors import CallbackWait, Context, Host, Line, Stream
from acl_py.order.clocks import PlainPoint, Point
from acl_py.order.meetings import Communicator, Meetings
from acl_py.order.order import Order
from acl_py.order.signals import Signals
from acl_py.order.things import RecordedContext, RecordedEvent, RecordedStream
from device_model import contexts, events, streams
from device_model.device import Device
from device_model.rules import EventClass
from device_model.signals import Compare, satisfies

# Live ones, and those of a recording.
_STREAMS, _EVENTS = (streams.Stream, RecordedStream), (events.Event, RecordedEvent)
_CONTEXTS = (contexts.Context, RecordedContext)
# Acts that order nothing; what the host has waited for meanwhile is no part of them.
_ORDERS_NOTHING = (
    acts.Batched, acts.Completed, acts.Asked, acts.Made, acts.Slept, acts.Plain, acts.NodeAdded, acts.GraphUpdated,
    acts.CaptureBegan, acts.CaptureEnded,
)  # fmt: skip


class Event(Protocol):
    """What the relation asks of an event."""

    stamp: PlainPoint | None  # what its last record stands for

    @property
    def class_(self) -> EventClass:
        """What kind of event it is."""


class Relate:
    """Puts what calls do into *order* and *signals*.

    *key_of* gives what stands for a word of memory in `signals`. *set_late* is called when a signal is set that a wait
    may see which was queued before.
    """

    __slots__ = ("_blocking", "_due", "_key_of", "_meetings", "_set_late", "order", "signals")

    def __init__(
        self,
        order: Order,
        signals: Signals,
        key_of: Callable[["Word[Any]"], Hashable],
        set_late: Callable[[], object] = lambda: None,
    ) -> None:
        self.order = order
        self.signals = signals
        self._key_of = key_of
        self._set_late = set_late
        self._meetings = Meetings()
        self._due: dict[Stream, deque[Point]] = {}  # the turns of callbacks that no host has taken yet
        self._blocking: dict[Stream, deque[CallbackWait]] = {}  # the waits for callbacks that are not over yet

    def act(self, act: Act[Any], host: Host, access: Callable[[Stream], object] | None = None) -> Line | None:
        """Take up what a call of *host* has done, and return the actor in which it has begun an epoch, if any.

        What happened to work that was captured is no act here: a launch does it. What a host has waited for, it learns
        from `waited_for`. *access* returns what findings call the call, on a stream. A file may lack the call that
        handed a callback over; then taking it orders nothing.
        """
        match act:
            case acts.Recorded(event, stream):
                self.record(event, stream, host, access)
            case acts.Waited(event, stream):
                self.wait(event, stream, host, access)
            case acts.Set(signal, value, stream):
                self._set(signal, value, stream, host, access)
            case acts.Cleared(signal, stream):
                self.signals.clear(signal, self._epoch(stream, host), host.past.clock, _of(access, stream))
            case acts.Awaited(signal, value, compare, stream):
                self._await(signal, value, compare, self.order.make_ready_for_signal(stream, host), _of(access, stream))
            case acts.HandedOver(stream, block):
                line = self.order.make_ready(stream, host)
                self._due.setdefault(stream, deque()).append(line.point())
                if block:
                    self._blocking.setdefault(stream, deque()).append(self.order.wait_for_callback(line))
            case acts.CallbackBegan(_, stream):
                if stream is not None and self._due.get(stream):
                    self.order.learn(host, (self._due[stream].popleft(),))
            case acts.CallbackEnded(stream, block):
                if block and self._blocking.get(stream):
                    self.order.end_callback(self._blocking[stream].popleft(), host)
            case acts.Began(_, stream):
                return None if stream is None else self.order.allocate(stream, host)
            case acts.Ended(_, stream) | acts.Queued(_, stream):
                return None if stream is None else self.order.queue(stream, host)
            case acts.Joined(calls, communicators, streams):
                for call, communicator, stream in zip(calls, communicators, streams, strict=True):
                    self._join(call, communicator, stream, host)
            case acts.Destroyed(thing):
                self._destroy(thing, host)
            case acts.Synchronised() | acts.GraphLaunched():
                return None  # see `waited_for`; a launch is related by its nodes
            case _ if isinstance(act, _ORDERS_NOTHING):
                return None
            case _:
                assert_never(act)
        return None

    def record(self, event: Event, stream: Stream, host: Host, access: Callable[[Stream], object] | None) -> None:
        """Let *event* stand for all that *stream* was given so far. A record of a flag sets it."""
        if event.class_ is EventClass.FLAG:
            self._set(event, 1, stream, host, access)
        event.stamp = self.order.record(stream, host)

    def wait(self, event: Event, stream: Stream, host: Host, access: Callable[[Stream], object] | None) -> None:
        """Put *stream* behind the last record of *event*, or behind what sets the flag.

        A wait for an event that was never recorded has no effect: not even on the legacy stream, where any other wait
        is a barrier.
        """
        if event.class_ is EventClass.FLAG:
            self.signals.wait(event, self.order.make_ready_for_signal(stream, host), access=_of(access, stream))
        elif event.stamp is not None:
            self.order.wait(stream, host, (event.stamp,))

    def waited_for(self, act: Act[Any], *, syncs_devices: bool, destroy_waits: bool) -> Iterable[Point]:
        """Return what a host knows to be over because it has waited in a call, as far as its *act* says that.

        *syncs_devices* is whether the wait for a context covers its device, *destroy_waits* whether destroying a stream
        waits for it. A query that was answered "done" counts for nothing: at another time it is answered otherwise.
        Live, observers are told what a host waits for.
        """
        match act:
            case acts.Synchronised(subject):
                return self.work_of(subject, syncs_devices=syncs_devices)
            case acts.Destroyed(subject, None) if destroy_waits and isinstance(subject, _STREAMS):
                return self.order.work_of_stream(subject)
        return ()

    def work_of(self, subject: object, *, syncs_devices: bool = False) -> Iterable[Point]:
        """Return all work of *subject* so far: a stream, an event, a context, a device, or what has a stamp."""
        if isinstance(subject, _STREAMS):
            return self.order.work_of_stream(subject)
        if isinstance(subject, _CONTEXTS):
            return self.order.work_of_device(subject.device) if syncs_devices else self.order.work_of_context(subject)
        if isinstance(subject, Device):
            return self.order.work_of_device(subject)
        stamp = getattr(subject, "stamp", None)
        return () if stamp is None else (Point(*stamp[:3]),)

    def _set(
        self, signal: Any, value: int | None, stream: Stream, host: Host, access: Callable[[Stream], object] | None
    ) -> None:
        """Set a flag, a notify, which has no *value* and is taken by the wait that it lets pass, or a word."""
        key = self._key_of(signal) if isinstance(signal, Word) else signal
        number, is_consumed = (1, True) if value is None else (value, False)
        called = _of(access, stream)
        point = self._epoch(stream, host)
        if self.signals.set(key, point, number, is_consumed=is_consumed, access=called):
            self._set_late()

    def _await(self, signal: Any, value: int | None, compare: int | None, line: Line, access: object) -> None:
        if isinstance(signal, Word):
            assert value is not None, "a word is compared with a value"
            assert compare is not None, "a word is compared in one of four ways"
            self.signals.wait(self._key_of(signal), line, partial(satisfies, Compare(compare), value))
        else:
            self.signals.wait(signal, line, is_consumed=True, access=access)

    def _join(self, call: Any, communicator: Communicator, stream: Stream, host: Host) -> None:
        """Let what is queued behind *call*, of one rank, be behind the work of the ranks that give something to it."""
        meeting, seat, sources = self._meetings.seat(call, communicator)
        late = self.signals.set((meeting, seat), self._epoch(stream, host))
        for source in sources:
            self.signals.wait((meeting, source), self.order.make_ready_for_signal(stream, host))
        if late:
            self._set_late()
        if meeting.is_full:
            for each in range(meeting.size):
                self.signals.forget((meeting, each))

    def _destroy(self, thing: Any, host: Host) -> None:
        if isinstance(thing, _STREAMS):
            self.order.end(thing)
        elif isinstance(thing, _EVENTS):
            thing.stamp = None
            self.signals.forget(thing)
        elif isinstance(thing, Device):  # what was still queued has no effect
            self.order.learn(host, self.order.work_of_gone(_is_gone))

    def _epoch(self, stream: Stream, host: Host) -> Point:
        """Begin an epoch of *stream*, for what sets or clears a signal."""
        self.order.make_ready_for_signal(stream, host)
        return self.order.queue(stream, host).point()


def orders(act: Act[Any]) -> bool:
    """Whether *act* can order something: `Relate` need not be told of others."""
    return not isinstance(act, _ORDERS_NOTHING)


def _is_gone(context: Context) -> bool:
    return context.destroyed is not None


def _of(access: Callable[[Stream], object] | None, stream: Stream) -> object:
    return None if access is None else access(stream)
