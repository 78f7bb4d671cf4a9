"""Operations: an `Op` is one piece of work in a stream, and its own completion.

It is queued when the host submits it, starts when an engine takes it, and ends when its bytes have moved:
`Work.perform` runs at the simulated end (a core kernel runs at its start, and publishes what it wrote at its end).
`blockers` counts the completions that it still waits for: the operation before it in its stream, and what events and
the default-stream rule add.

Event records and waits are no operations: they only say which completions count (events.py), take no time on any
engine and no room in any queue.

There is one class of operation, whatever the work, because the interpreter is three times as fast on attributes of
objects that are all of one class; a launch that is repeated has one `Kernel` as its work.
"""

from typing import TYPE_CHECKING

from device_model.completions import Completion, Nanoseconds
from device_model.errors import DeviceError, Kind
from device_model.work import D2D, Copy, Label, Lane, Work

if TYPE_CHECKING:
    from device_model.queues import HardwareQueue
    from device_model.streams import Stream

P2P = Label("p2p", Lane.PEER)  # between two devices
P2P_STAGED = Label("p2p", Lane.STAGED)  # the same where neither has access to the other
ON_DEVICES = (D2D, P2P, P2P_STAGED)  # no end of these is the host's


class Op(Completion):
    """Work queued in a stream. Times are simulated nanoseconds; `start_ns` and `end_ns` are -1 while unknown."""

    __slots__ = (
        "blockers", "blocks_left", "called_ns", "cores_held", "error", "lane", "nbytes", "queue", "queued_ns",
        "ready_ns", "site", "start_ns", "stream", "work",
    )  # fmt: skip

    work: Work
    site: object  # the host's line that submitted it; str() gives "file.py:12"
    called_ns: (
        Nanoseconds  # when the call began that did nothing but queue it; -1 if it was queued on the way of another call
    )
    error: DeviceError | None
    # From Stream.enqueue on:
    stream: "Stream"
    queue: "HardwareQueue"
    blockers: int
    queued_ns: Nanoseconds
    ready_ns: Nanoseconds  # no engine may start it earlier
    start_ns: Nanoseconds
    # Of kernels with exclusive blocks and of core kernels, while the dispatcher has them:
    blocks_left: int  # blocks not yet placed
    cores_held: int  # AI cores that it has to itself; an exclusive block holds one

    def __init__(self, work: Work, lane: int, nbytes: int, site: object, called_ns: Nanoseconds = -1) -> None:
        # Not super().__init__(): one call less, a million times. Lane and size are the work's, here for speed.
        self.done = False
        self.waiters = None
        self.end_ns = -1
        self.start_ns = -1
        self.blockers = 0
        self.error = None
        self.work = work
        self.lane = lane  # type: ignore[misc]
        self.nbytes = nbytes
        self.site = site
        self.called_ns = called_ns

    def __repr__(self) -> str:
        where = f" on {self.stream.name}" if hasattr(self, "stream") else ""
        at = f" submitted at {self.site}" if self.site is not None else ""
        return f"<{self.work.label}{where}{at}>"

    def release(self, by: Completion) -> None:
        """One of the completions waited for is there; what crosses engines or streams takes a while to be noticed."""
        queue = self.queue
        ready = by.end_ns + (queue.after_same if by.stream is self.stream else queue.after_other)[by.lane]
        if ready > self.ready_ns:
            self.ready_ns = ready
        self.blockers -= 1
        if not self.blockers and queue.fifo[0] is self:  # nobody passes the head
            queue.engine.offer(queue)


class UnreachableCopy(Copy):
    """A copy between two devices of which neither has access to the other, where that is needed."""

    __slots__ = ()

    def perform(self) -> None:
        """Fail."""
        raise DeviceError(
            Kind.ILLEGAL_ADDRESS,
            f"a copy from {self.src!r} to {self.dst!r}, and neither device has access to the other",
            f"make device {self.src.device} current and call DeviceEnablePeerAccess({self.dst.device}) first",
        )
