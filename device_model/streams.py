"""Streams: operations of one stream run in the order in which they were queued.

A stream keeps no list of its work. It knows its *tail*, the completion that the next operation waits for, and in
`pending` what else the next operation waits for: events, and the default-stream rule. The operations themselves stand
in the hardware queues of the device, which several streams share (queues.py).

    kernel K is queued in an empty stream     K waits for nothing                     tail: K
    the stream waits for event E              E goes to `pending`                     tail: K
    copy C is queued                          C waits for K and E: `blockers` is 2    tail: C

The default-stream rule: an operation of the legacy stream waits for all earlier work of the blocking streams, and their
later work waits for it. A program that never uses the legacy stream pays one comparison per operation for this rule.
`LegacyOrder` counts epochs, and each operation of the legacy stream ends one. The first operation of a blocking stream
in an epoch waits for the legacy work that began the epoch, and notes its stream. The others of that stream follow by
stream order. The next legacy operation waits for the tails of the streams noted. It need not look at earlier epochs,
because the legacy work that ended those has waited for them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from device_model import handles
from device_model.completions import NOTHING, AllOf, Completion, Nanoseconds, Why
from device_model.display import table
from device_model.errors import DeviceError
from device_model.handles import Handle
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.scheduler import Scheduler
from device_model.steps import Step, StepKind

if TYPE_CHECKING:
    from device_model.contexts import Context
    from device_model.graphs.capture import Branch
    from device_model.graphs.groups import Update


class StreamCore(Handle):
    """What operations need of their stream: where they are queued, and what they wait for."""

    __slots__ = (
        "context", "epoch", "home", "order", "pending", "priority", "queues", "scheduler", "tail",
    )  # fmt: skip
    context: "Context"
    home: "Context | None"  # its context; None once the stream is destroyed, and while it captures or takes an update
    scheduler: Scheduler
    queues: tuple[HardwareQueue, ...]  # one for each Lane
    # The default-stream rule, or, for streams outside it, what only notes which of them have work. None for the
    # legacy stream itself, which has the rule in LegacyStream.rule.
    order: "Roll | None"
    epoch: int  # the last epoch of the order in which this stream got work
    priority: int  # smaller is more urgent
    tail: Completion
    pending: dict[Completion, Why]  # in order, with the reason

    def enqueue(self, op: Op, ready_ns: Nanoseconds, now: bool = True) -> None:
        """Queue *op* behind the work of this stream; it can start at *ready_ns* at the earliest.

        Its engine may start it *now* if the device is settled, as a host finds it; within an instant it waits for the
        grant (scheduler.Engine).
        """
        order = self.order
        if order is not None and self.epoch != order.epoch:
            order.enter(self)  # type: ignore[arg-type]  # a Stream
        op.stream = self  # type: ignore[assignment]  # a Stream
        scheduler = self.scheduler
        op.queued_ns = scheduler.now
        op.ready_ns = ready_ns
        if scheduler.choices is not None:
            scheduler.choices.queued(op)
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
            op.reasons, self.pending = self.pending, {}
        self.tail = op
        queue = self.queues[op.lane]
        fifo = queue.fifo
        if fifo and fifo[-1].stream is not self:
            queue = self.queue_for(op.lane)
            fifo = queue.fifo
        op.queue = queue
        fifo.append(op)
        if not op.blockers and fifo[0] is op:
            queue.engine.offer(queue, now)

    def queue_for(self, lane: int) -> HardwareQueue:
        """Return the hardware queue of *lane* for the next operation: that of the operation before.

        If work of others stands there, but none of this stream, it is the next queue that is empty, if there is one
        (measured: u022, u048, and a program with 12 streams of which two have copies).
        """
        queue = self.queues[lane]
        if not queue.fifo or not queue.shared or any(op.stream is self for op in reversed(queue.fifo)):
            return queue
        for other in queue.others():
            if not other.fifo and not other.reserved:
                self.queues = tuple(other if each is queue else each for each in self.queues)
                queue.pass_on()  # this stream's place, if it had one
                return other
        return queue

    def backlog(self) -> Completion:
        """Return the completion of everything queued here so far. A host that synchronises with the stream waits for
        it. An operation that is given to the stream may have to wait for more: see `turn`.
        """
        if not self.pending:
            return self.tail
        self.tail = AllOf((self.tail, *self.pending), self.pending)
        self.pending = {}
        return self.tail

    def turn(self) -> Completion:
        """Return the completion that an operation, or a record, given to this stream now waits for: its backlog, and
        the work of other streams that the default-stream rule adds.

        A host that does an operation of this stream itself, such as a copy between two host buffers, waits for it too.
        """
        order = self.order
        if order is not None and self.epoch != order.epoch:
            order.enter(self)  # type: ignore[arg-type]  # a Stream
        return self.backlog() if self.pending else self.tail

    def give(self, completion: Completion) -> None:
        """Make everything queued here from now on wait for *completion*, which has waited for its `turn`."""
        self.tail = completion

    def wait(self, completion: Completion, why: Why = Why.EVENT) -> None:
        """Make everything queued here from now on wait for *completion* as well; *why* is for reports."""
        order = self.order
        if order is not None and self.epoch != order.epoch:
            order.enter(self)  # type: ignore[arg-type]  # a Stream
        if not completion.done:
            pending = self.pending
            size = len(pending)
            # Each time that it has doubled, forget those that are done: a stream may wait again and again without work.
            if size >= 8 and not size & (size - 1):
                for each in [each for each in pending if each.done]:
                    del pending[each]
            pending[completion] = why


class Stream(StreamCore, handles.Stream):
    """A queue of work on one device; made by `Context.create_stream`."""

    __slots__ = (
        "bound", "branch", "destroyed", "error", "given_name", "id", "made", "name", "stamp", "steps",
        "stops_on_failure", "update",
    )  # fmt: skip
    id: int
    name: str  # as messages and views call it

    def __init__(
        self,
        context: "Context",
        id_: int,
        name: str,
        queues: "tuple[HardwareQueue, ...]",
        order: "Roll | None",
        priority: int,
        made: object,
    ) -> None:
        self.context = context
        self.home = context
        self.branch: Branch | None = None  # its part in a capture
        self.update: Update | None = None  # the update of a task group that takes its kernels
        self.scheduler = context.device.scheduler
        self.id = id_
        self.name = name
        self.given_name: str | None = None  # as the program calls it
        self.queues = queues
        self.order = order
        self.priority = priority
        self.made = made
        self.destroyed: object = None  # the line that destroyed it
        self.error: DeviceError | None = None  # a failure of its work that no host has seen yet
        self.stops_on_failure = False
        self.bound = False  # its work waits until a model runs it; hosts do not wait for it
        self.tail = NOTHING
        self.pending = {}
        self.steps: dict[Step, None] = {}  # those that are not done, in order
        self.epoch = 0
        self.stamp: Any = None  # what an observer keeps with it

    def __repr__(self) -> str:
        state = f" destroyed at {self.destroyed}" if self.destroyed is not None else "" if self.idle else " busy"
        made = f" made at {self.made}" if self.made is not None else ""
        return f"<Stream {self.name} of device {self.context.device.ordinal}{made}{state}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        state = f"destroyed at {self.destroyed}" if self.destroyed is not None else "idle" if self.idle else "busy"
        rows = {"device": self.context.device.ordinal, "priority": self.priority, "made at": self.made}
        return table(self.name, {"state": state, **rows})

    @property
    def is_blocking(self) -> bool:
        """Whether it is under the default-stream rule, and is not the legacy stream."""
        return self.order is not None and self.order is self.context.order

    @property
    def idle(self) -> bool:
        """Whether all of its work is done."""
        return self.tail.done and (not self.pending or all(completion.done for completion in self.pending))

    def keep_error(self, error: DeviceError) -> None:
        """Keep a failure of its work for the next host that synchronises with it."""
        self.error = error
        self.context.failed[self] = None

    def stop_on_failure(self) -> None:
        """Let a failure of its work lose the whole context."""
        self.stops_on_failure = True

    def step(
        self,
        kind: StepKind,
        name: str,
        what: str,
        site: object,
        generator: Iterator[Completion],
        hope: Callable[[], Completion | None] | None = None,
        remedy: str = "",
    ) -> "Step":
        """Queue a step: *generator* runs when all earlier work of this stream is done, and takes no time on an engine.

        What is queued from now on waits for its end. *kind* and *name* of its subject, *what* and *site* are for
        traces and reports. If it waits for a signal, *hope* returns the queued work that would give the signal, or
        None; *remedy* says what to do if the signal never comes.
        """
        step = Step(self, kind, name, what, site, generator, hope, remedy)
        self.give(step)
        if not step.done:
            self.steps[step] = None
        queued = self.context.device.hooks.step_queued
        if queued is not None:
            queued(step)
        return step


class UnorderedStream(Stream):
    """Holds copies and fills that belong to no stream of the user. They wait for a free engine and for nothing else."""

    __slots__ = ()

    def enqueue(self, op: Op, ready_ns: Nanoseconds, now: bool = True) -> None:
        """Queue *op*; it waits for no other operation."""
        self.tail = NOTHING
        super().enqueue(op, ready_ns, now)

    def turn(self) -> Completion:
        """Return NOTHING: an operation here waits for no other."""
        return NOTHING


class Roll:
    """Notes which streams have work, so that nobody has to ask all others."""

    __slots__ = ("epoch", "streams")

    def __init__(self) -> None:
        self.epoch = 1
        self.streams: dict[Stream, None] = {}  # those that got work in this epoch, in order

    def enter(self, stream: Stream) -> None:
        """Note *stream*, which gets its first work of this epoch."""
        stream.epoch = self.epoch
        self.streams[stream] = None

    def busy(self) -> Iterable[Stream]:
        """Return the noted streams with work left; the others are noted again when they get some."""
        for stream in [stream for stream in self.streams if stream.idle]:
            del self.streams[stream]
            stream.epoch = 0
        return self.streams


class LegacyOrder(Roll):
    """The default-stream rule of one context; the head of this file explains it."""

    __slots__ = ("barrier",)

    def __init__(self) -> None:
        super().__init__()
        self.barrier: Completion = NOTHING  # the legacy work with which this epoch began

    def enter(self, stream: Stream) -> None:
        """Note *stream*, whose first work of this epoch waits for the barrier."""
        super().enter(stream)
        if not self.barrier.done:
            stream.pending[self.barrier] = Why.LEGACY

    def close(self, barrier: Completion) -> None:
        """End the epoch with *barrier*, the legacy work that later work of blocking streams waits for."""
        self.epoch += 1
        self.streams.clear()
        self.barrier = barrier


class LegacyStream(Stream):
    """The legacy default stream: it waits for the blocking streams, and they wait for it.

    Records and waits on it count as work.
    """

    __slots__ = ("rule",)

    def __init__(self, context: "Context", name: str, queues: "tuple[HardwareQueue, ...]", rule: LegacyOrder) -> None:
        super().__init__(context, 0, name, queues, None, 0, None)
        self.rule = rule

    @property
    def idle(self) -> bool:
        """Whether all of its work, and that of the blocking streams, is done."""
        return super().idle and all(stream.idle for stream in self.rule.streams)

    def enqueue(self, op: Op, ready_ns: Nanoseconds, now: bool = True) -> None:
        """Queue *op* behind the work of all blocking streams."""
        self._gather()
        super().enqueue(op, ready_ns, now)
        self.rule.close(op)

    def backlog(self) -> Completion:
        """Return the completion of all work of this stream and of the blocking streams."""
        self._gather()
        return super().backlog()

    def turn(self) -> Completion:
        """Return the backlog. Later work of blocking streams waits for it (measured: legacy-event-only)."""
        backlog = self.backlog()
        self.rule.close(backlog)
        return backlog

    def give(self, completion: Completion) -> None:
        """Let later work of this stream, and of blocking streams, wait for *completion*."""
        super().give(completion)
        self.rule.close(completion)

    def wait(self, completion: Completion, why: Why = Why.EVENT) -> None:
        """Wait for *completion*; later work of blocking streams then waits for it too (measured: legacy-wait-only)."""
        super().wait(completion, why)
        self.turn()

    def _gather(self) -> None:
        for stream in self.rule.streams:
            if not stream.idle:
                self.pending[stream.backlog()] = Why.LEGACY
