"""Contexts: what belongs together on one device: its streams, its default streams, and how it failed."""

from collections.abc import Iterable
from sys import maxsize
from typing import TYPE_CHECKING

from device_model.completions import AllOf, Completion, Nanoseconds, Then
from device_model.errors import INTERRUPTS, DeviceError, Kind
from device_model.events import CountedEvent, Event, FlagEvent, RecordedEvent
from device_model.ops import Op
from device_model.rules import DefaultStream, EventClass, KernelFailure
from device_model.streams import LegacyOrder, LegacyStream, Stream, UnorderedStream

if TYPE_CHECKING:
    from device_model.device import Device

_FIRST = -maxsize  # more urgent than any stream
_EVENTS = {each.class_: each for each in (CountedEvent, RecordedEvent, FlagEvent)}  # where there are several classes


def _naming_op(op: Op, error: DeviceError) -> DeviceError:
    told = DeviceError(error.kind, f"{op!r} failed: {error.what}", error.remedy)
    told.__cause__ = error.__cause__ or error
    return told


class Context:
    """A context of one device; made by `Device.create_context`. *primary* contexts come with the device and cannot be
    destroyed.
    """

    __slots__ = (
        "_ending", "alert", "default", "destroyed", "device", "error", "failed_ns", "failed_op", "flags", "id",
        "legacy", "made", "order", "outside", "per_thread", "primary", "streams",
    )  # fmt: skip

    def __init__(self, device: "Device", id_: int, *, primary: bool, made: object) -> None:
        self.device = device
        self.id = id_
        self.primary = primary
        self.made = made
        self.destroyed: object = None  # the line that destroyed it
        self.alert = device.has_fault_rules  # calls must be checked before they begin: see update_alert
        self.error: DeviceError | None = None  # sticky: all later work and calls fail with it
        self.failed_ns: Nanoseconds = -1
        self.failed_op: Op | None = None
        where = "" if primary else f" of context {id_}"
        # Under the default-stream rule there are two default streams, without it one.
        self.order: LegacyOrder | None = None
        self.legacy: Stream | None = None
        self.per_thread: Stream | None = None
        self.default: Stream  # what None means
        if device.rules.default_stream is DefaultStream.INDEPENDENT:
            self.default = Stream(self, 0, f"default{where}", device.queues(-1), None, 0, None)
            device.stream_ids.take()  # it counts among the streams of the card
        else:
            self.order = LegacyOrder()
            self.legacy = LegacyStream(self, f"legacy{where}", device.queues(-1), self.order)
            self.per_thread = Stream(self, 0, f"per_thread{where}", device.queues(-2), self.order, 0, None)
            legacy = device.rules.default_stream is DefaultStream.LEGACY
            self.default = self.legacy if legacy else self.per_thread
        self.outside: Stream = UnorderedStream(self, 0, f"no stream{where}", device.outside, None, _FIRST, None)
        self.streams: dict[int, Stream] = {}  # by id, those not destroyed
        self.flags: dict[FlagEvent, None] = {}  # those that have an id of the device, in order
        self._ending: dict[Stream, None] = {}  # destroyed, with work left, in order

    def __repr__(self) -> str:
        state = (
            f" destroyed at {self.destroyed}"
            if self.destroyed is not None
            else " failed"
            if self.error is not None
            else ""
        )
        kind = "primary context" if self.primary else f"context {self.id}"
        return f"<{kind} of device {self.device.ordinal}{state}>"

    @property
    def idle(self) -> bool:
        """Has all work of all its streams completed?"""
        return all(stream.idle for stream in self.everything() if not stream.bound)

    def create_stream(self, *, nonblocking: bool, priority: int, made: object, bound: bool = False) -> Stream:
        """A new stream; a *nonblocking* one is outside the default-stream rule. The work of a *bound* one waits for a
        model to run it, and hosts do not wait for it. A *priority* that the rules do not have is clamped to theirs.
        """
        index = self.device.next_stream()
        least, most = self.device.rules.priorities
        stream = Stream(
            self,
            index + 1,
            f"stream {index + 1}",
            self.device.private_queues(index) if bound else self.device.queues(index),
            None if nonblocking else self.order,
            min(max(priority, most), least),
            made,
        )
        if bound:
            stream.bound = True
            stream.tail = Completion()
        self.streams[stream.id] = stream
        self.device.stream_ids.take()
        return stream

    def destroy_stream(self, stream: Stream, site: object) -> None:
        """Its work completes; it takes no more."""
        stream.destroyed = site
        stream.home = None
        del self.streams[stream.id]
        self.device.stream_ids.give(self.device.scheduler.now)
        if stream.idle or stream.bound:
            self.forget(stream)
        else:
            self._ending[stream] = None
            stream.backlog().add_waiter(Then(lambda _: self.forget(stream)))

    def forget(self, stream: Stream) -> None:
        """Keep nothing of *stream*, which is destroyed and idle: programs may make and destroy them for ever."""
        self._ending.pop(stream, None)
        if self.order is not None:
            self.order.streams.pop(stream, None)

    def create_event(
        self, class_: EventClass | None = None, *, timing: bool, made: object, waitable: bool = True
    ) -> Event:
        """A new event of that class, by default the first of the rules; only a *waitable* one can be waited for by
        streams, and reset.
        """
        classes = self.device.rules.events
        make = Event if len(classes) == 1 else _EVENTS[class_ or classes[0]]
        return make(self, self.device.next_event(), timing=timing, made=made, waitable=waitable)

    def work(self) -> Completion:
        """The completion of everything queued in any stream of this context, also of destroyed ones."""
        return AllOf([stream.backlog() for stream in self.everything() if not stream.bound])

    def everything(self) -> list[Stream]:
        """All its streams: the default ones, those created, and those destroyed that still have work."""
        defaults = [self.default] if self.legacy is None or self.per_thread is None else [self.legacy, self.per_thread]
        return [*defaults, *self.streams.values(), *self._ending]

    def destroy(self, site: object) -> None:
        """Its work completes; its streams and every later use of it are refused."""
        for stream in list(self.streams.values()):
            self.destroy_stream(stream, site)
        if self.legacy is None and self.destroyed is None:
            self.device.stream_ids.give(self.device.scheduler.now)
        for event in list(self.flags):
            event.destroy(site)
        if self.error is None:
            self.lose(
                DeviceError(
                    Kind.INVALID_CONTEXT,
                    f"{self!r} was destroyed at {site}",
                    "make another current with SetCurrentContext() or SetDevice()",
                )
            )
            self.failed_ns = maxsize  # never: what is queued takes place
        self.destroyed = site

    def abandon(self, site: object) -> None:
        """What is queued, and even what is running, has no effect any more."""
        self.failed_ns = 0
        self.lose(
            DeviceError(
                Kind.INVALID_CONTEXT,
                f"{self!r} was reset at {site}",
                "make another current: SetDevice() takes the new primary context of the device",
            )
        )
        self.failed_op = None
        self.destroy(site)

    def lose(self, error: DeviceError) -> None:
        """From now on every call that touches it fails with *error*."""
        self.error = error
        self.alert = True

    def update_alert(self) -> None:
        """Set `alert`, the one flag that each call tests: whether this context has failed, fault rules are in force, or
        a host function runs, which must not call.
        """
        device = self.device
        self.alert = self.error is not None or device.has_fault_rules or device.calling is not None

    def mark_failed(self, op: Op, error: DeviceError) -> None:
        """*op* failed. What is no matter of its work alone, the end of the program (INTERRUPTS) or a mistake of ours,
        reaches the host as it is when the instant is over.
        """
        op.error = error
        self.note_failure(op.stream, error, op)
        self.device.tell(self.device.hooks.failed, op, error)
        cause = error.__cause__
        if isinstance(cause, INTERRUPTS) or (cause is not None and error.kind is Kind.UNKNOWN):
            self.device.scheduler.raise_later(cause)

    def note_failure(self, stream: Stream, error: DeviceError, op: Op | None = None) -> None:
        """Work of *stream* failed. Either the context is lost, and what starts from now on has no effect, or the stream
        remembers it for who asks next; the rules say which, and whether the stream stops on failure.
        """
        if self.device.rules.kernel_failure is KernelFailure.PER_STREAM and not stream.stops_on_failure:
            if stream.error is None:
                stream.error = error if op is None else _naming_op(op, error)
        elif self.error is None:
            self.lose(error)
            self.failed_ns = self.device.scheduler.now if op is None else op.end_ns
            self.failed_op = op

    def take_errors(self, streams: "Iterable[Stream]") -> DeviceError | None:
        """The first failure that *streams* remember, if any; they forget theirs."""
        first: DeviceError | None = None
        for stream in streams:
            first = first or stream.error
            stream.error = None
        return first
