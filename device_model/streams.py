"""Streams: operations of one stream run in the order in which they were queued.

A stream keeps no list of its work. It knows its *tail*, the completion that the next operation has to wait for, and
what else the next one must wait for (`pending`: event waits, the default-stream rule). Each operation stands in one of
the device's hardware queues, which several streams share: a queue lets nobody pass, so an operation that waits holds
back those of other streams behind it. These false dependencies are seen on the card (docs/semantics.md, "hardware
queues").

The default-stream rule costs a program that never uses the legacy stream one comparison per operation. `LegacyOrder`
counts epochs: work of the legacy stream ends one. The first operation of a blocking stream in an epoch waits for the
legacy work that began it (the rest follow by stream order) and notes the stream; the next legacy work waits for the
tails of the streams noted. That is all of the rule, for what a blocking stream did in earlier epochs the legacy work
between has waited for already.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from device_model.completions import NOTHING, AllOf, Completion, Nanoseconds
from device_model.errors import DeviceError
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.steps import Step

if TYPE_CHECKING:
    from device_model.contexts import Context


class Stream:
    """A queue of work on one device; made by `Context.create_stream`."""

    __slots__ = (
        "bound", "context", "destroyed", "epoch", "error", "home", "id", "made", "name", "order", "pending", "priority",
        "queues", "scheduler", "steps", "stops_on_failure", "tail",
    )  # fmt: skip

    def __init__(
        self,
        context: "Context",
        id_: int,
        name: str,
        queues: "tuple[HardwareQueue, ...]",
        order: "LegacyOrder | None",
        priority: int,
        made: object,
    ) -> None:
        self.context = context
        self.home: Context | None = context  # where it takes work; None once it is destroyed
        self.scheduler = context.device.scheduler
        self.id = id_
        self.name = name
        self.queues = queues  # one per Lane
        self.order = order  # the default-stream rule, None for streams outside it
        self.priority = priority  # smaller is more urgent
        self.made = made
        self.destroyed: object = None  # the line that destroyed it
        self.error: DeviceError | None = None  # the failure of its work that nobody has been told of yet
        self.stops_on_failure = False
        self.bound = False  # its work waits for a model to run it, and hosts do not wait for it
        self.tail: Completion = NOTHING
        self.pending: dict[Completion, None] = {}  # ordered, and quick to ask
        self.steps: dict[Step, None] = {}  # those that are not over, in order
        self.epoch = 0  # the last epoch of the order in which this stream got work

    def __repr__(self) -> str:
        state = f" destroyed at {self.destroyed}" if self.destroyed is not None else "" if self.idle else " busy"
        made = f" made at {self.made}" if self.made is not None else ""
        return f"<Stream {self.name} of device {self.context.device.ordinal}{made}{state}>"

    @property
    def idle(self) -> bool:
        """Has all of its work completed?"""
        return self.tail.done and (not self.pending or all(completion.done for completion in self.pending))

    def enqueue(self, op: Op, ready_ns: Nanoseconds, *, now: bool = True) -> None:
        """Queue *op* behind the work of this stream; it can start at *ready_ns* at the earliest.

        Its engine may start it *now* if the device is settled, as a host finds it; within an instant it waits for the
        grant (scheduler.Engine).
        """
        order = self.order
        if order is not None and self.epoch != order.epoch:
            order.enter(self)
        op.stream = self
        op.queued_ns = self.scheduler.now
        op.ready_ns = ready_ns
        tail = self.tail
        if not tail.done:
            op.blockers = 1
            if tail.waiters is None:
                tail.waiters = [op]
            else:
                tail.waiters.append(op)
        if self.pending:
            for completion in self.pending:
                if not completion.done:
                    op.blockers += 1
                    completion.add_waiter(op)
            self.pending.clear()
        self.tail = op
        queue = op.queue = self.queues[op.lane]
        fifo = queue.fifo
        fifo.append(op)
        if not op.blockers and fifo[0] is op:
            queue.engine.offer(queue, now)

    def backlog(self) -> Completion:
        """The completion of what was queued here up to now, which a host synchronises with. It is not what an operation
        in this stream waits for: that is `turn`.
        """
        if not self.pending:
            return self.tail
        self.tail = AllOf((self.tail, *self.pending))
        self.pending.clear()
        return self.tail

    def turn(self) -> Completion:
        """What an operation, or a record, that is given to this stream now waits for: its backlog, and by the
        default-stream rule work of other streams.

        A host that does an operation of this stream itself waits for it, too.
        """
        order = self.order
        if order is not None and self.epoch != order.epoch:
            order.enter(self)
        return self.backlog() if self.pending else self.tail

    def wait(self, completion: Completion) -> None:
        """Let the work queued from now on wait for *completion* as well."""
        order = self.order
        if order is not None and self.epoch != order.epoch:
            order.enter(self)
        if not completion.done:
            pending = self.pending
            size = len(pending)
            if size >= 8 and not size & (size - 1):  # when it has doubled: waits without work must not pile up
                for each in [each for each in pending if each.done]:
                    del pending[each]
            pending[completion] = None

    def step(
        self,
        what: str,
        site: object,
        course: Iterator[Completion],
        hope: Callable[[], Completion | None] | None = None,
    ) -> "Step":
        """Let *course*, which takes no time on any engine, have its turn behind the work of this stream, and what is
        queued from now on wait for its end. If it waits for a signal, *hope* says which queued work would give it.
        """
        self.tail = step = Step(self, what, site, course, hope)
        if not step.done:
            self.steps[step] = None
        return step


class UnorderedStream(Stream):
    """No stream for users: where copies and fills are queued that take their turn at an engine and wait for nothing
    else.
    """

    __slots__ = ()

    def enqueue(self, op: Op, ready_ns: Nanoseconds, *, now: bool = True) -> None:
        """Queue *op* behind nothing."""
        self.tail = NOTHING
        super().enqueue(op, ready_ns, now=now)

    def turn(self) -> Completion:
        """An operation here waits for nothing."""
        return NOTHING


class LegacyOrder:
    """The default-stream rule of one context: see the head of this file."""

    __slots__ = ("barrier", "epoch", "streams")

    def __init__(self) -> None:
        self.epoch = 1
        self.barrier: Completion = NOTHING  # the legacy work that began this epoch
        self.streams: dict[Stream, None] = {}  # the blocking streams that got work in this epoch, in order

    def enter(self, stream: Stream) -> None:
        """*stream* gets its first work of this epoch."""
        stream.epoch = self.epoch
        self.streams[stream] = None
        if not self.barrier.done:
            stream.pending[self.barrier] = None

    def close(self, barrier: Completion) -> None:
        """Legacy work, *barrier*, ends the epoch."""
        self.epoch += 1
        self.streams.clear()
        self.barrier = barrier


class LegacyStream(Stream):
    """The legacy default stream: it waits for the blocking streams, and they wait for it; records and waits on it
    count as work.
    """

    __slots__ = ("rule",)

    def __init__(self, context: "Context", name: str, queues: "tuple[HardwareQueue, ...]", rule: LegacyOrder) -> None:
        super().__init__(context, 0, name, queues, None, 0, None)
        self.rule = rule

    @property
    def idle(self) -> bool:
        """Has all of its work, and all of the blocking streams', completed?"""
        return super().idle and all(stream.idle for stream in self.rule.streams)

    def enqueue(self, op: Op, ready_ns: Nanoseconds, *, now: bool = True) -> None:
        """Queue *op* behind all blocking streams."""
        self._gather()
        super().enqueue(op, ready_ns, now=now)
        self.rule.close(op)

    def backlog(self) -> Completion:
        """The completion of all work of this stream and of the blocking streams."""
        self._gather()
        return super().backlog()

    def turn(self) -> Completion:
        """The backlog; it holds back later work of blocking streams (measured: legacy-event-only)."""
        backlog = self.backlog()
        self.rule.close(backlog)
        return backlog

    def wait(self, completion: Completion) -> None:
        """A wait on it does, too (measured: legacy-wait-only)."""
        super().wait(completion)
        self.turn()

    def _gather(self) -> None:
        for stream in self.rule.streams:
            if not stream.idle:
                self.pending[stream.backlog()] = None
