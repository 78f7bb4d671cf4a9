"""The context of a card, and the card as verbs see it, whatever the vendor."""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from acl_py.card.driver import Driver, give_back
from acl_py.card.events import CardEvent, Reached
from acl_py.card.streams import CardStream
from acl_py.card.times import EventTimes
from acl_py.card.words import CardWords
from acl_py.card.work import Mark, Works
from acl_py.errors import Kind
from device_model.completions import Completion, Nanoseconds
from device_model.contexts import Context
from device_model.device import Device
from device_model.errors import DeviceError
from device_model.events import Event
from device_model.names import named
from device_model.ops import Op
from device_model.rules import EventClass
from device_model.streams import Stream

if TYPE_CHECKING:
    from acl_py.card.runtime import CardRuntime

_MISSES = 2  # answers of "not yet" after which a look ends
_NEWS = 8  # streams that have got further after which a look ends


class Times(Protocol):
    """What measures when the card has done an operation, by the vendor's records or by events."""

    def begin(self, stream: CardStream, mark: Mark | None) -> None:
        """Prepare for an operation with *mark*."""

    def end(self, stream: CardStream, op: Op, mark: Mark | None) -> None:
        """Note the place of *op*."""

    def finish(self, op: Op) -> None:
        """Note that *op* is done, and tell of it once its times are known."""

    def settle(self) -> None:
        """Give all that is done its times, and tell of it."""

    def close(self) -> None:
        """Give back what the measuring took."""


class CardContext(Context):
    """A context of a card, with the streams and events that the run makes in it."""

    __slots__ = ("asked", "driver", "events", "handle", "reached", "spare_events", "times", "works")
    device: "CardDevice"
    stream_type: ClassVar[type[CardStream]] = CardStream
    works: Works
    times: Times | None

    def __init__(self, device: "CardDevice", id_: int, *, primary: bool, made: object, handle: Any) -> None:
        super().__init__(device, id_, primary=primary, made=made)
        self.driver: Driver = device.driver
        self.handle = handle
        self.works = self.make_works()
        self.spare_events: list[Any] = []  # for marks
        self.events: dict[Any, None] = {}  # that the program has made and not destroyed
        self.asked: dict[CardStream | Reached, None] = {}  # the streams and records of which hosts want to know
        self.reached: dict[Reached, None] = {}  # records of launches that are not known to be done
        self.times = self.make_times() if device.runtime.is_recorded else None
        self.alert = True

    def make_works(self) -> Works:
        """Return the makers of each kind of work."""
        raise NotImplementedError

    def make_times(self) -> Times:
        """Return what times operations."""
        return EventTimes(self)

    def make_current(self) -> None:
        """Let calls of this thread be about this context."""
        self.driver.make_current(self.handle)

    def work(self) -> Completion:
        """Return the completion of everything queued here so far, whichever context is current."""
        with self.device.runtime.on(self):
            return super().work()

    def busy(self) -> list[Stream]:
        """Return all streams: which of them have work is known only when a card is asked."""
        return self.everything()

    def failing(self) -> Iterator[Stream]:
        """Return all streams: pyACL tells a failure when it is asked."""
        return iter(self.everything())

    def update_alert(self) -> None:
        """Each call asks first whether a card can do it."""
        self.alert = True

    def create_stream(
        self, *, nonblocking: bool, priority: int, made: object, bound: bool = False, name: str | None = None
    ) -> Stream:
        """Create a stream of the card; the arguments are those of the model's. None is *bound*."""
        assert not bound, "no stream of CUDA waits for a model"
        index = self.device.next_stream()
        least, most = self.device.rules.priorities
        priority = min(max(priority, most), least)
        handle = self.driver.create_stream(nonblocking=nonblocking, priority=priority)
        order = None if nonblocking else self.order
        called = named("stream", index + 1, name)
        stream = self.stream_type(self, index + 1, called, self.device.queues(index), order, priority, made, handle)
        stream.given_name = name
        self.streams[stream.id] = stream
        self.device.stream_ids.take()
        return stream

    def destroy_stream(self, stream: Stream, site: object) -> None:
        """Destroy a stream: it takes no more work, and what is queued in it completes."""
        assert isinstance(stream, CardStream), f"{stream!r} is not of a card"
        stream.mark_all()  # its handle answers no question later
        super().destroy_stream(stream, site)
        self.end_stream(stream)

    def end_stream(self, stream: CardStream) -> None:
        """Let the driver destroy *stream*."""
        self.driver.destroy_stream(stream.handle)

    def create_event(
        self,
        class_: EventClass | None = None,  # noqa: ARG002 - CUDA has one class
        *,
        timing: bool,
        made: object,
        waitable: bool = True,  # noqa: ARG002 - all are
        name: str | None = None,
    ) -> Event:
        """Create an event of the card; the arguments are those of the model's."""
        event = CardEvent(self, self.device.next_event(), timing=timing, made=made)
        event.given_name = name
        self.events[event] = None
        return event

    def take_event(self) -> Any:
        """Return an event of the driver that takes no times."""
        if self.spare_events:
            return self.spare_events.pop()
        return self.new_event(timing=False)

    def new_event(self, *, timing: bool) -> Any:
        """Return a new event of the driver, of this card, whichever is current."""
        with self.device.runtime.on(self):
            return self.driver.create_event(timing=timing)

    def blocking(self) -> Iterator[CardStream]:
        """The streams that the legacy stream waits for, those included that were destroyed with work left."""
        return (stream for stream in self.all_streams() if stream.is_blocking)

    def all_streams(self) -> Iterator[CardStream]:
        """All streams with work, in order."""
        for stream in self.everything():
            assert isinstance(stream, CardStream), f"{stream!r} is not of a card"
            yield stream

    def look(self) -> bool:
        """Ask the card about what hosts wait for; return whether anything is done that was not before.

        It begins with the stream that it has not asked for longest, and gives up after some answers of "not yet". A
        question costs a microsecond, and there may be many streams. It gives up after some that have ended, too: what
        else the loop has to do does not wait until all tasks have had their turn.
        """
        asked, misses, news = self.asked, 0, 0
        for _ in range(len(asked)):
            stream = next(iter(asked))
            try:
                has_ended = stream.look()
            except DeviceError as error:
                self.fail(self.driver.standing.lost or error)
                return True
            del asked[stream]
            if stream.is_asked:
                asked[stream] = None  # at the end
            news += has_ended
            misses += not has_ended
            if misses == _MISSES or news == _NEWS:
                break
        return news > 0

    def fail(self, error: DeviceError) -> None:
        """Note that the card has failed: nothing is done any more, and each wait ends with *error*."""
        if self.error is None:
            self.lose(error)
            self.failed_ns = self.device.scheduler.now
        self.asked.clear()
        for stream in self.all_streams():
            stream.lose()
        for record in list(self.reached):
            record.lose()

    def give_back(self) -> None:
        """Destroy the streams and events, and what was made for the work."""
        for stream in self.streams.values():
            assert isinstance(stream, CardStream), f"{stream!r} is not of a card"
            give_back(self.driver.destroy_stream, stream.handle)
        for handle in (*self.spare_events, *(event.handle for event in self.events)):
            give_back(self.driver.destroy_event, handle)
        if self.times is not None:
            self.times.close()
        self.works.close()

    def finish(self, entry: Completion, now: Nanoseconds) -> None:
        """Note that *entry* of a stream is done."""
        if not isinstance(entry, Op):
            entry.complete(now)
            return
        entry.start_ns = entry.queued_ns
        entry.end_ns = now
        if entry.error is None and self.error is not None:
            entry.error = self.error
        if self.device.runtime.sanitizer is not None:
            for op in self.parts_of(entry):
                self.works.functions.tell(op)
        waiters, entry.waiters = entry.waiters, None
        entry.done = True
        for waiter in waiters or ():
            waiter.release(entry)
        if self.times is not None:
            self.times.finish(entry)
        else:
            self.tell(entry)

    def parts_of(self, op: Op) -> Iterable[Op]:
        """Return the operations that *op* consists of: itself."""
        return (op,)

    def tell(self, op: Op) -> None:
        """Tell the observers that *op* has ended, as its times say.

        The clocks of the host and of the card agree within an error: work that starts before its call is moved behind.
        """
        if op.called_ns > op.start_ns:
            op.start_ns, op.end_ns = op.called_ns, op.end_ns + op.called_ns - op.start_ns
        if op.queued_ns > op.start_ns:
            op.queued_ns = op.ready_ns = op.start_ns
        ended = self.device.hooks.op_ended
        if ended is not None:
            self.device.call_hook(ended, op)


class CardDevice(Device):
    """A card, by its number among those of the driver."""

    primary: CardContext
    contexts: list[CardContext]  # type: ignore[assignment]
    driver: Driver
    context_handle: Any  # of its primary context

    def __init__(self, runtime: "CardRuntime", ordinal: int) -> None:
        """Take the card, which is current then."""
        self.runtime = runtime
        if not runtime.devices:
            runtime.begin()
        super().__init__(
            ordinal,
            runtime.profile,
            runtime.rules,
            runtime.scheduler,
            runtime.memory,
            runtime.workers,
            runtime.hooks,
            runtime.links,
        )
        self.words = CardWords(self.driver)

    def wait(self) -> None:
        """Wait for all work, without learning what is done: for a thread of its own."""
        self.make_current()
        self.driver.synchronize()

    def count_work(self) -> int:
        """Complete what is done, and return how much the streams still have.

        Raises:
            AclError: Work has failed.
        """
        left = 0
        for context in self.contexts:
            context.make_current()
            left += sum(stream.count_work() for stream in context.all_streams())
        return left

    def unfinished(self) -> list[Op]:
        """Return the operations that are not known to be done, in the order in which they were queued."""
        for context in self.contexts:
            if context.times is not None:
                context.times.settle()
        streams = (stream for context in self.contexts for stream in context.all_streams())
        entries = (entry for stream in streams for entry in stream.entries)
        return sorted((entry for entry in entries if isinstance(entry, Op)), key=attrgetter("queued_ns"))

    def give_back(self, *, is_lost: bool) -> None:
        """Give back what the driver has made; nothing of a card that is lost."""
        for context in () if is_lost else self.contexts:
            context.make_current()
            context.give_back()

    def make_current(self) -> None:
        """Let calls of this thread be about this card."""
        self.driver.make_current(self.context_handle)

    def reset(self, site: object) -> None:
        """Refuse: other users of the process, such as torch, live in the primary context, too."""
        raise self.runtime.error(Kind.NOT_SUPPORTED, "a reset of a card", f"end the process; asked for at {site}")
