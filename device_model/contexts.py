"""Contexts: the streams, default streams and events that belong together on one device, and their failures.

A device has a primary context from the start, and more if the host creates them. Destroying a context, or resetting its
device, ends everything in it.

A failure of work can show in four places. Which of them are used follows from the rules in force
(`SyncRules.kernel_failure`):

    where           set                                         read                            cleared
    --------------  ------------------------------------------  ------------------------------  -------------------
    Op.error        when the operation ends: it failed, was     by a host that waits for this   never
                    aborted, or ran in a lost context           operation
    Stream.error    PER_STREAM: by the first failure in the     by the next synchronisation of  when it is read
                    stream, or a wait in it that took too       the stream, its context or its  (in acl_py)
                    long. All rules: by an abort                device
    Context.error   STICKY, or a stream that stops on failure:  by every call that touches the  never; ResetDevice
                    by the first failure. All rules: when the   context                         makes a new primary
                    context is destroyed or reset, or its                                       context
                    device is lost
    last_error      by every call that fails: the code of its   by PeekAtLastError and          by GetLastError
    (in acl_py)     error                                       GetLastError, in the same task
                                                                or thread

Two fields go with `Context.error`. `failed_ns` is the time from which work has no effect: an operation that starts at
that time or later ends with the error of its context, and changes nothing.

* After a failure it is the end of the operation that failed: work that ran beside it still counts.
* After a reset or the loss of the device it is 0: not even running work has an effect.
* After the context was destroyed it is never reached: all that is queued takes place, only new calls are refused.

`failed_op` is the operation whose failure lost the context, for messages; None if it was not lost by an operation.
"""

from collections.abc import Iterable, Iterator
from sys import maxsize
from typing import TYPE_CHECKING, ClassVar

from device_model.completions import AllOf, Completion, Nanoseconds, Then
from device_model.errors import INTERRUPTS, DeviceError, Kind
from device_model.events import CountedEvent, Event, FlagEvent, RecordedEvent
from device_model.handles import Handle
from device_model.names import named
from device_model.ops import Op
from device_model.rules import DefaultStream, EventClass, KernelFailure
from device_model.streams import LegacyOrder, LegacyStream, Roll, Stream, UnorderedStream

if TYPE_CHECKING:
    from device_model.device import Device

_FIRST = -maxsize  # more urgent than any stream
# Rules that have several classes of events choose from these; rules that have one class use `Event`.
_EVENTS = {each.class_: each for each in (CountedEvent, RecordedEvent, FlagEvent)}


def _naming_op(op: Op, error: DeviceError) -> DeviceError:
    named = DeviceError(error.kind, f"{op!r} failed: {error.what}", error.remedy)
    named.__cause__ = error.__cause__ or error
    return named


class Context(Handle):
    """A context of one device, made by `Device.create_context`.

    The *primary* context comes with the device and cannot be destroyed. *made* is the line that made the context.
    """

    __slots__ = (
        "_ending", "alert", "apart", "default", "destroyed", "device", "error", "failed", "failed_ns", "failed_op",
        "flags", "id", "legacy", "made", "order", "outside", "per_thread", "primary", "streams",
    )  # fmt: skip
    # Most streams and events are of these types, which verbs use with the fewest checks.
    stream_type: ClassVar[type[Stream]] = Stream
    event_type: ClassVar[type[Event]] = Event

    def __init__(self, device: "Device", id_: int, *, primary: bool, made: object) -> None:
        self.device = device
        self.id = id_
        self.primary = primary
        self.made = made
        self.destroyed: object = None  # the line that destroyed it
        self.alert = device.checks_calls  # calls must be checked before they begin: see update_alert
        self.error: DeviceError | None = None  # sticky: see the head of this file
        self.failed_ns: Nanoseconds = -1
        self.failed_op: Op | None = None
        where = "" if primary else f" of context {id_}"
        # Under the default-stream rule a context has two default streams, otherwise one.
        self.order: LegacyOrder | None = None
        self.apart = Roll()  # of the streams outside that rule
        self.legacy: Stream | None = None
        self.per_thread: Stream | None = None
        self.default: Stream  # the stream that None means in a call
        if device.rules.default_stream is DefaultStream.INDEPENDENT:
            self.default = Stream(self, 0, f"default{where}", device.queues(-1), self.apart, 0, None)
            device.stream_ids.take()  # it counts among the streams of the card
        else:
            self.order = LegacyOrder()
            self.legacy = LegacyStream(self, f"legacy{where}", device.queues(-1), self.order)
            self.per_thread = Stream(self, 0, f"per_thread{where}", device.queues(-2), self.order, 0, None)
            legacy = device.rules.default_stream is DefaultStream.LEGACY
            self.default = self.legacy if legacy else self.per_thread
        self.outside: Stream = UnorderedStream(self, 0, f"no stream{where}", device.outside, None, _FIRST, None)
        self.streams: dict[int, Stream] = {}  # by id, without those destroyed
        self.flags: dict[FlagEvent, None] = {}  # flag events, which hold an id of the device each, in order
        self._ending: dict[Stream, None] = {}  # destroyed, with work left, in order
        self.failed: dict[Stream, None] = {}  # with a failure that no host has seen yet, in order

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
        """Whether all work of all its streams has completed; bound streams do not count."""
        return all(stream.idle for stream in self.everything() if not stream.bound)

    def create_stream(
        self, *, nonblocking: bool, priority: int, made: object, bound: bool = False, name: str | None = None
    ) -> Stream:
        """Create a stream; the caller has made sure that the device has a stream id free.

        Args:
            nonblocking: The stream is outside the default-stream rule.
            priority: The smaller, the more urgent; clamped to the range of the rules.
            made: The line that creates it.
            bound: Its work waits until a model runs it. Hosts do not wait for it.
            name: What the program calls it.
        """
        index = self.device.next_stream()
        least, most = self.device.rules.priorities
        stream = Stream(
            self,
            index + 1,
            named("stream", index + 1, name),
            self.device.private_queues(index) if bound else self.device.queues(index),
            self.apart if nonblocking or self.order is None else self.order,
            min(max(priority, most), least),
            made,
        )
        stream.given_name = name
        if bound:
            stream.bound = True
            stream.tail = Completion()
        self.streams[stream.id] = stream
        self.device.stream_ids.take()
        return stream

    def destroy_stream(self, stream: Stream, site: object) -> None:
        """Destroy a stream: it takes no more work, and the work queued in it completes."""
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
        """Drop every reference to *stream*, which is destroyed and idle: programs may make and destroy any number."""
        self._ending.pop(stream, None)
        if stream.order is not None:
            stream.order.streams.pop(stream, None)

    def create_event(
        self,
        class_: EventClass | None = None,
        *,
        timing: bool,
        made: object,
        waitable: bool = True,
        name: str | None = None,
    ) -> Event:
        """Create an event of *class_*, by default the first class of the rules.

        Streams can wait for a *waitable* event and reset it; they cannot for others. *timing* says whether the host may
        ask for its time. *name* is what the program calls it.
        """
        classes = self.device.rules.events
        make = Event if len(classes) == 1 else _EVENTS[class_ or classes[0]]
        event = make(self, self.device.next_event(), timing=timing, made=made, waitable=waitable)
        event.given_name = name
        return event

    def work(self) -> Completion:
        """Return the completion of everything queued so far in the streams of this context, destroyed ones included."""
        return AllOf([stream.backlog() for stream in self.busy() if not stream.bound])

    def busy(self) -> list[Stream]:
        """Return the streams that have work left, and the legacy stream, in the order of `everything`."""
        if self.legacy is None or self.order is None:
            return _in_order(self.apart.busy())
        return [self.legacy, *_in_order([*self.order.busy(), *self.apart.busy()])]

    def failing(self) -> Iterator[Stream]:
        """Return the streams with a failure that a host finds which begins to wait for this context now. It is asked
        for them when it has waited.
        """
        for stream in [stream for stream in self.failed if stream.destroyed is not None and stream not in self._ending]:
            del self.failed[stream]

        def found() -> Iterator[Stream]:
            yield from _in_order(self.failed)

        return found()

    def everything(self) -> list[Stream]:
        """Return all its streams: the default ones, those created, and those destroyed that still have work."""
        defaults = [self.default] if self.legacy is None or self.per_thread is None else [self.legacy, self.per_thread]
        return [*defaults, *self.streams.values(), *self._ending]

    def destroy(self, site: object) -> None:
        """Destroy the context: work queued in it completes, every later use of it or its streams is refused."""
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
            self.failed_ns = maxsize  # never reached: queued work takes place
        self.destroyed = site

    def abandon(self, site: object) -> None:
        """Destroy the context because its device is reset: queued and running work has no effect any more."""
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
        """Make every later call that touches this context fail with *error*."""
        self.error = error
        self.alert = True

    def update_alert(self) -> None:
        """Set `alert`, the one flag that each call tests: whether this context has failed, fault rules are in force, a
        capture runs, or a host function, which must not call.
        """
        device = self.device
        self.alert = self.error is not None or device.checks_calls or device.calling is not None

    def mark_failed(self, op: Op, error: DeviceError) -> None:
        """End *op* with *error*.

        An exception that is meant for the program (INTERRUPTS), or that shows a mistake in the simulator, also reaches
        the host unchanged when the instant is over.
        """
        op.error = error
        self.note_failure(op.stream, error, op)
        self.device.call_hook(self.device.hooks.failed, op, error)
        cause = error.__cause__
        if isinstance(cause, INTERRUPTS) or (cause is not None and error.kind is Kind.UNKNOWN):
            self.device.scheduler.raise_later(cause)

    def note_failure(self, stream: Stream, error: DeviceError, op: Op | None = None) -> None:
        """Keep the failure of work of *stream*, for the calls that find it later.

        The rules, and whether the stream stops on failure, decide where. Either the stream keeps it until the next
        synchronisation, or the context is lost, and work that starts from now on has no effect. The first failure
        counts in both cases. *op* is None if the work was a step.
        """
        if self.device.rules.kernel_failure is KernelFailure.PER_STREAM and not stream.stops_on_failure:
            if stream.error is None:
                stream.keep_error(error if op is None else _naming_op(op, error))
        elif self.error is None:
            self.lose(error)
            self.failed_ns = self.device.scheduler.now if op is None else op.end_ns
            self.failed_op = op


def _in_order(streams: Iterable[Stream]) -> list[Stream]:
    """Return *streams* in the order in which they were made, and those behind that are destroyed."""
    return sorted(streams, key=lambda stream: (stream.destroyed is not None, stream.id))
