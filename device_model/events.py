"""Events: a record remembers what its stream was given up to then; waiting, querying and timing look at that.

There are three classes (rules.EventClass). A snapshot event is CUDA's, and the one that CreateEventExWithFlag makes
under ACL. A recorded event, which CreateEvent makes there, is the same but for a wait without a record. A flag event
(CreateEventWithFlag) is a level: a record sets it when the stream comes to it, a reset clears it, and a wait lasts
until it is set, whichever record does that: one made later, or one that is long past.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from device_model.completions import Completion, Nanoseconds, Then
from device_model.ids import Ids
from device_model.rules import EventClass
from device_model.steps import Level, within
from device_model.streams import Stream

if TYPE_CHECKING:
    from device_model.contexts import Context


class Event:
    """A snapshot event (CUDA's): the last record counts, and who waited before keeps what the event stood for then."""

    __slots__ = (
        "blocking", "context", "destroyed", "external", "home", "id", "made", "recorded_ns", "stream", "timing",
        "waitable", "waits", "work",
    )  # fmt: skip
    class_: ClassVar[EventClass] = EventClass.SNAPSHOT

    def __init__(self, context: "Context", id_: int, *, timing: bool, made: object, waitable: bool = True) -> None:
        self.context = context
        self.home: Context | None = context  # where it can be used without further questions; None once it is destroyed
        self.id = id_
        self.timing = timing
        self.waitable = waitable
        self.blocking = False  # a host that waits for it sleeps
        self.external = False  # for streams only: no host may wait for it or ask
        self.made = made
        self.destroyed: object = None  # the line that destroyed it
        self.work: Completion | None = None  # what the last record stands for
        self.stream: Stream | None = None  # where that was
        self.recorded_ns: Nanoseconds = -1
        self.waits = 0  # waits of streams for it that are not over; counted for the classes whose rules ask

    @property
    def name(self) -> str:
        """What it is called in stories, whatever its state."""
        return f"Event {self.id}" + (f" made at {self.made}" if self.made is not None else "")

    def __repr__(self) -> str:
        if self.destroyed is not None:
            state = f" destroyed at {self.destroyed}"
        elif self.work is None:
            state = " never recorded"
        else:
            state = "" if self.work.done else " pending"
        return f"<{self.name}{state}>"

    @property
    def done(self) -> bool:
        """Is all that the last record stands for complete? So it is when there was no record."""
        return self.work is None or self.work.done

    def destroy(self, site: object) -> None:
        """It cannot be used any more; who waits for it goes on waiting."""
        self.destroyed = site
        self.home = None

    def record(self, stream: Stream, site: object = None) -> Completion:  # noqa: ARG002 - for those that are steps
        """Stand for all that *stream* was given up to now."""
        self.work = stream.turn()
        self.stream = stream
        self.recorded_ns = stream.scheduler.now
        return self.work

    def hold_back(self, stream: Stream, site: object, limit_ns: Nanoseconds) -> None:
        """Let what is queued in *stream* from now on wait for this event, *limit_ns* at the longest; 0 is no limit."""
        if self.work is None or self.work.done:
            return
        if limit_ns:
            stream.step(f"wait for {self.name}", site, within(stream, self.work, limit_ns, self.name))
        else:
            stream.wait(self.work)

    def timestamp_ns(self) -> Nanoseconds:
        """When the record took place on the device: it was made, and what it stands for had completed."""
        assert self.work is not None, f"{self!r} has no time"
        assert self.work.done, f"{self!r} has no time yet"
        return max(self.recorded_ns, self.work.end_ns)


class CountedEvent(Event):
    """A snapshot event of which each record has one of the device's event ids until it is over."""

    __slots__ = ()

    @property
    def ids(self) -> Ids:
        """The ids of its device; the caller sees to it that one is left."""
        return self.context.device.event_ids

    def record(self, stream: Stream, site: object = None) -> Completion:
        """Stand for all that *stream* was given up to now."""
        work = super().record(stream, site)
        if not work.done:
            self.ids.take()
            work.add_waiter(self.ids)
        return work


class RecordedEvent(CountedEvent):
    """A snapshot event for which nobody can wait before it was recorded: the host is told so."""

    __slots__ = ()
    class_ = EventClass.RECORDED

    def hold_back(self, stream: Stream, site: object, limit_ns: Nanoseconds) -> None:
        """Count the wait, too."""
        super().hold_back(stream, site, limit_ns)
        if self.work is not None and not self.work.done:
            self.waits += 1
            self.work.add_waiter(Then(self._end_wait))

    def _end_wait(self, by: Completion) -> None:  # noqa: ARG002 - each wait is for one
        self.waits -= 1


class FlagEvent(Event):
    """A level flag."""

    __slots__ = ("level",)
    class_ = EventClass.FLAG

    def __init__(self, context: "Context", id_: int, *, timing: bool, made: object, waitable: bool = True) -> None:
        super().__init__(context, id_, timing=timing, made=made, waitable=waitable)
        context.device.event_ids.take()  # the caller sees to it that one is left
        context.flags[self] = None
        self.level = Level()

    def destroy(self, site: object) -> None:
        """It cannot be used any more, and somebody else may have its id."""
        super().destroy(site)
        del self.context.flags[self]
        self.context.device.event_ids.give(self.context.device.scheduler.now)

    def record(self, stream: Stream, site: object = None) -> Completion:
        """Be set when *stream* comes to it."""
        self.work = stream.step(f"record of {self.name}", site, self.level.raising(stream.scheduler))
        self.stream = stream
        self.recorded_ns = stream.scheduler.now
        stream.scheduler.settle()
        return self.work

    def reset(self, stream: Stream, site: object) -> Completion:
        """Be cleared when *stream* comes to it."""
        step = stream.step(f"reset of {self.name}", site, self.level.clearing())
        stream.scheduler.settle()
        return step

    def hold_back(self, stream: Stream, site: object, limit_ns: Nanoseconds) -> None:
        """Let what is queued in *stream* from now on wait until the flag is set."""
        self.waits += 1
        stream.step(f"wait for {self.name}", site, self._wait(stream, limit_ns), lambda: self.work)

    def _wait(self, stream: Stream, limit_ns: Nanoseconds) -> Iterator[Completion]:
        yield from self.level.until_set(stream, limit_ns, self.name)
        self.waits -= 1
