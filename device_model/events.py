"""Events: recorded in one stream, waited for in others or by the host.

There are three classes of events (`rules.EventClass`):

* A snapshot event is CUDA's, and the one that CreateEventExWithFlag makes under ACL. A record notes the completion of
  all work that its stream has been given so far. Waits, queries and times look at that completion. So neither a record
  nor a wait is an operation. They take no time on an engine and no place in a hardware queue (measured on an H200:
  records do not count against the depth of a queue). The last record counts. A wait that was queued before it keeps the
  completion of the record before.
* A recorded event, which CreateEvent makes under ACL, is a snapshot event that cannot be waited for before its first
  record.
* A flag event (CreateEventWithFlag under ACL) is a level. A record sets it when the stream reaches the record, a reset
  clears it, and a wait lasts until the flag is set, by an earlier record or a later one. Here record,
  reset and wait are steps, which take their turn in the stream.

Under ACL a card has a limited number of event ids (`Ids`). A flag event holds one while it exists, the other classes
hold one for each record until the recorded work has completed.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from device_model import handles
from device_model.completions import NOTHING, Completion, Nanoseconds, Then
from device_model.display import table
from device_model.handles import Handle
from device_model.ids import Ids
from device_model.names import named
from device_model.rules import EventClass
from device_model.steps import Level, StepKind, recording, within
from device_model.streams import Stream

if TYPE_CHECKING:
    from device_model.contexts import Context
    from device_model.graphs.capture import Captured


class EventCore(Handle):
    """What records and waits need of an event: where it may be used, and its last record."""

    __slots__ = ("home", "recorded_ns", "stream", "work")
    # Verbs test this alone: its context; None once it is destroyed, and while a record in a capture is its last one.
    home: "Context | None"
    work: Completion | None  # all that its stream had been given at the last record
    stream: Stream | None  # the stream of the last record
    recorded_ns: Nanoseconds


class Event(EventCore, handles.Event):
    """A snapshot event, as CUDA has it: the last record counts; an earlier wait keeps the record that it found."""

    __slots__ = (
        "blocking", "captured", "context", "destroyed", "external", "given_name", "id", "made", "row", "stamp",
        "timing", "waitable", "waits",
    )  # fmt: skip
    id: int
    timing: bool
    class_: ClassVar[EventClass] = EventClass.SNAPSHOT

    def __init__(self, context: "Context", id_: int, *, timing: bool, made: object, waitable: bool = True) -> None:
        self.context = context
        self.home = context
        self.captured: Captured | None = None  # that record
        self.id = id_
        self.timing = timing
        self.waitable = waitable
        self.blocking = False  # the thread of a host that waits for it sleeps, and wakes late
        self.external = False  # for streams only: the host may neither wait for it nor query it
        self.made = made
        self.given_name: str | None = None  # as the program calls it
        self.destroyed: object = None  # the line that destroyed it
        self.work = None
        self.stream = None
        self.recorded_ns = -1
        self.row = -1  # of the last record in a trace
        self.stamp: Any = None  # what an observer keeps with it
        self.waits = 0  # waits of streams that are not over; counted for the classes that ACL lets a host ask about

    @property
    def name(self) -> str:
        """As messages call it, whatever its state."""
        return named("Event", self.id, self.given_name)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        stream = None if self.stream is None else self.stream.name
        rows = {"recorded in": stream, "timing": "yes" if self.timing else "no", "made at": self.made}
        return table(self.name, {"state": self._state or "done", **rows})

    def __repr__(self) -> str:
        made = f" made at {self.made}" if self.made is not None else ""
        return f"<{self.name}{made}{self._state and f' {self._state}'}>"

    @property
    def _state(self) -> str:
        if self.destroyed is not None:
            return f"destroyed at {self.destroyed}"
        if self.work is None:
            return "never recorded"
        return "" if self.work.done else "pending"

    @property
    def done(self) -> bool:
        """Whether all work that was recorded has completed; also True if there was no record."""
        return self.work is None or self.work.done

    def destroy(self, site: object) -> None:
        """Destroy the event: no call may name it any more. Streams and hosts that wait for it still do."""
        self.destroyed = site
        self.home = None

    def record(self, stream: Stream, site: object = None) -> Completion:  # noqa: ARG002 - records that are steps need it
        """Record all work that *stream* has been given so far, and return its completion."""
        self.work = stream.turn()
        self.stream = stream
        self.recorded_ns = stream.scheduler.now
        return self.work

    def leave_capture(self) -> None:
        """Forget a record in a capture: another one follows."""
        self.captured = None
        self.home = self.context

    def stand_for(self, record: Completion, stream: Stream) -> None:
        """Let the event stand for *record*, which a launch of a graph in *stream* will reach."""
        self.work = record
        self.stream = stream
        self.recorded_ns = stream.scheduler.now

    def hold_back(self, stream: Stream, site: object, limit_ns: Nanoseconds) -> Completion:
        """Let work that is queued in *stream* from now on wait for this event. Return what it waits for.

        If the wait takes longer than *limit_ns*, it is a failure of *stream*; 0 sets no limit.
        """
        if self.work is None or self.work.done:
            return self.work or NOTHING
        if limit_ns:
            generator = within(stream, self.work, limit_ns, repr(self))
            what = f"wait for {self.name}"
            return stream.step(StepKind.WAIT, self.name, what, site, generator, remedy=recording(self.name))
        stream.wait(self.work)
        return self.work

    def ms_since(self, start: "Event") -> float:
        """Return the milliseconds from the time of *start* to that of this event, by the device."""
        return (self.timestamp_ns() - start.timestamp_ns()) / 1e6

    def timestamp_ns(self) -> Nanoseconds:
        """Return when the record took place on the device: after the call, and after all work that it recorded."""
        assert self.work is not None, f"{self!r} has no time"
        assert self.work.done, f"{self!r} has no time yet"
        return max(self.recorded_ns, self.work.end_ns)


class CountedEvent(Event):
    """A snapshot event under ACL: each record holds an event id of the device until the recorded work has completed."""

    __slots__ = ()

    @property
    def ids(self) -> Ids:
        """The event ids of its device. A caller makes sure that one is free before it records."""
        return self.context.device.event_ids

    def record(self, stream: Stream, site: object = None) -> Completion:
        """Record as a snapshot event does, and take an event id if that work has not completed yet."""
        work = super().record(stream, site)
        if not work.done:
            self.ids.take()
            work.add_waiter(self.ids)
        return work


class RecordedEvent(CountedEvent):
    """A snapshot event that must be recorded before it can be waited for; the verb refuses the wait."""

    __slots__ = ()
    class_ = EventClass.RECORDED

    def hold_back(self, stream: Stream, site: object, limit_ns: Nanoseconds) -> Completion:
        """Let later work of *stream* wait, and count the wait until it is over."""
        held = super().hold_back(stream, site, limit_ns)
        if self.work is not None and not self.work.done:
            self.waits += 1
            self.work.add_waiter(Then(self._end_wait))
        return held

    def _end_wait(self, by: Completion) -> None:  # noqa: ARG002 - each wait is for one
        self.waits -= 1


class FlagEvent(Event):
    """An event that is a level: set by a record, cleared by a reset, waited for until it is set."""

    __slots__ = ("level",)
    class_ = EventClass.FLAG

    def __init__(self, context: "Context", id_: int, *, timing: bool, made: object, waitable: bool = True) -> None:
        super().__init__(context, id_, timing=timing, made=made, waitable=waitable)
        context.device.event_ids.take()  # the caller has made sure that one is free
        context.flags[self] = None
        self.level = Level()

    def destroy(self, site: object) -> None:
        """Destroy the event, and give its id back to the device."""
        super().destroy(site)
        del self.context.flags[self]
        self.context.device.event_ids.give(self.context.device.scheduler.now)

    def record(self, stream: Stream, site: object = None) -> Completion:
        """Queue a step in *stream* that sets the flag, and return its completion."""
        self.work = stream.step(
            StepKind.RECORD, self.name, f"record of {self.name}", site, self.level.raising(stream.scheduler)
        )
        self.stream = stream
        self.recorded_ns = stream.scheduler.now
        stream.scheduler.settle()
        return self.work

    def reset(self, stream: Stream, site: object) -> Completion:
        """Queue a step in *stream* that clears the flag, and return its completion."""
        step = stream.step(StepKind.RESET, self.name, f"reset of {self.name}", site, self.level.clearing())
        stream.scheduler.settle()
        return step

    def hold_back(self, stream: Stream, site: object, limit_ns: Nanoseconds) -> Completion:
        """Queue a step in *stream* that lasts until the flag is set; later work of *stream* waits for it."""
        self.waits += 1
        generator = self._wait(stream, limit_ns)
        what = f"wait for {self.name}"
        return stream.step(StepKind.WAIT, self.name, what, site, generator, lambda: self.work, recording(self.name))

    def _wait(self, stream: Stream, limit_ns: Nanoseconds) -> Iterator[Completion]:
        yield from self.level.until_set(stream, limit_ns, repr(self))
        self.waits -= 1
