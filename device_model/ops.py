"""Operations: an `Op` is one piece of work in a stream, and also the completion of that work.

A host queues it, an engine starts it, and at its simulated end `Work.perform` does the work. (A core kernel runs at its
start, and publishes what it wrote at its end.) `blockers` counts the completions that it still waits for: the operation
before it in its stream, and what events and the default-stream rule add. Each of them releases the operation; when the
count is 0 and the operation is the head of its hardware queue, the queue is offered to its engine.

Event records and waits are no operations. They only say which completions count (events.py), and take no time on any
engine and no place in any queue.

All work has one class of operation: the interpreter is three times as fast on attributes if all objects are of one
class. A launch that is repeated has one `Kernel` as its work, and a copy that is repeated one `Copy`.
"""

from typing import TYPE_CHECKING, ClassVar

from device_model.completions import Completion, Nanoseconds, Why
from device_model.errors import DeviceError, Kind
from device_model.work import D2D, Copy, Label, Lane, Work

if TYPE_CHECKING:
    from device_model.queues import HardwareQueue
    from device_model.streams import Stream

P2P = Label("p2p", Lane.PEER)  # between two devices
P2P_STAGED = Label("p2p", Lane.STAGED)  # between two devices of which neither has access to the other
ON_DEVICES = (D2D, P2P, P2P_STAGED)  # copies with both ends on devices

_HOST = Why.HOST  # a member that is read through its enum takes ten times as long


class Op(Completion):
    """Work queued in a stream. Times are simulated nanoseconds; `start_ns` and `end_ns` are -1 while unknown."""

    __slots__ = (
        "blockers", "blocks_left", "by", "called_ns", "cores_held", "error", "lane", "nbytes", "queue", "queued_ns",
        "ready_ns", "reasons", "row", "site", "start_ns", "stream", "why", "work",
    )  # fmt: skip

    own_priority: ClassVar[int | None] = None  # in place of its stream's priority
    work: Work
    site: object  # the line of the host that queued it; str() gives "file.py:12"
    # Start of the call whose only effect was to queue this; -1 if a larger call (staged or synchronous copy) queued it.
    called_ns: Nanoseconds
    error: DeviceError | None
    # From Stream.enqueue on:
    stream: "Stream"
    queue: "HardwareQueue"
    blockers: int
    queued_ns: Nanoseconds
    ready_ns: Nanoseconds  # no engine starts it earlier
    start_ns: Nanoseconds
    # What it waited for last, until its end: the operation that its engine ran before it, if it starts after
    # `ready_ns`; else a completion of which `reasons` may say why it counts; or None for the host, and `why` says why
    # the host was late. `acl_py.trace.rows.reasons` puts it into words.
    by: Completion | None
    why: Why
    reasons: dict[Completion, Why] | None
    row: int  # its serial number in a trace; -1 without one
    # Of kernels with exclusive blocks and of core kernels, while the dispatcher has them:
    blocks_left: int  # blocks not yet placed
    cores_held: int  # AI cores that it has to itself; an exclusive block holds one

    def __init__(self, work: Work, lane: int, nbytes: int, site: object, called_ns: Nanoseconds = -1) -> None:
        # Not super().__init__(): one call less for each operation. Lane and size are the work's, here for speed.
        self.done = False
        self.waiters = None
        self.end_ns = self.start_ns = self.row = -1
        self.blockers = 0
        self.error = None
        self.by = self.reasons = None
        self.why = _HOST
        self.work = work
        self.lane = lane  # type: ignore[misc]
        self.nbytes = nbytes
        self.site = site
        self.called_ns = called_ns

    def __repr__(self) -> str:
        where = f" on {self.stream.name}" if getattr(self, "stream", None) is not None else ""
        at = f" submitted at {self.site}" if self.site is not None else ""
        return f"<{self.work.label}{where}{at}>"

    def release(self, by: Completion) -> None:
        """Count *by* as done. An engine takes some time to notice an end on another engine or in another stream."""
        queue = self.queue
        ready = by.end_ns + (queue.after_same if by.stream is self.stream else queue.after_other)[by.lane]
        if ready > self.ready_ns:
            self.ready_ns = ready
            self.by = by
        self.blockers -= 1
        if not self.blockers and queue.fifo[0] is self:  # no operation passes the head
            queue.engine.offer(queue)

    def pass_behind(self, head: "Op", now: Nanoseconds) -> None:
        """Note that this could not pass *head*, which has left their hardware queue *now*."""
        if self.ready_ns < now:
            self.ready_ns = now
            self.by = head
            self.reasons = {head: Why.QUEUE}


class UnreachableCopy(Copy):
    """A copy between two devices of which neither has access to the other, where that is needed."""

    __slots__ = ()

    def perform(self) -> None:
        """Raise a DeviceError."""
        raise DeviceError(
            Kind.ILLEGAL_ADDRESS,
            f"cannot copy from {self.src!r} to {self.dst!r}: neither device has access to the other",
            f"make device {self.src.device} current and call DeviceEnablePeerAccess({self.dst.device}) first",
        )
