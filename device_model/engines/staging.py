"""Pageable host memory: the driver copies it to and from the device through pinned buffers of its own.

The host thread does that copying. So each staged copy is a `Process` that the host takes part in:

* To the device, up to 64 KB: the host copies the bytes into a ring of 4 MB, then an ordinary copy takes them. The host
  waits only while the ring is full. Each hardware queue has a ring of its own.
* To the device, larger, or several rows: chunks of 1 MB go through two buffers, whatever their stream. The host goes on
  when it has staged the last chunk. Until then it waits for free buffers, and so for the work of the stream that is
  ahead of the chunks. A chunk has a buffer to itself, however small it is.
* To the host: the device copies chunks into two further buffers, and the host copies each of them out. The host goes on
  when it has copied the last chunk.

The source of a copy to the device is read when it is staged; a program may change it once the call has returned. All
of this was found on an H200: see docs/accuracy.md, "pageable memory". (Sizes are those of that card; a profile holds
them.)
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING

from device_model.completions import NOTHING, Completion, Nanoseconds, Need, Process, Then, Why
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.scheduler import Scheduler
from device_model.streams import Stream
from device_model.work import D2H, H2D, Copy

if TYPE_CHECKING:
    from device_model.profile import DeviceProfile


class Staged(Process):
    """A staged copy, in which the host takes part: it copies, or waits for the device.

    *waits* has its waits that are over: the operation waited for, and the time from which it waited. *number* counts
    the staged copies of the device from 0, in the order in which they began.
    """

    __slots__ = ("_since_ns", "number", "waits")

    def __init__(self, scheduler: Scheduler, generator: Iterator[Completion], number: int) -> None:
        self.number = number
        self._since_ns = scheduler.now
        self.waits: list[tuple[Op, Nanoseconds]] = []
        super().__init__(scheduler, generator)

    def release(self, by: Completion) -> None:
        """Note the wait if it was for an operation, and resume the generator."""
        if isinstance(by, Op):
            self.waits.append((by, self._since_ns))
        self._since_ns = self._scheduler.now
        super().release(by)


class Ring:
    """The memory of one hardware queue through which small copies to the device go."""

    __slots__ = ("_bytes", "_copies", "_overhead", "_requests", "_used")

    def __init__(self, nbytes: int, overhead: int) -> None:
        self._bytes = nbytes
        self._overhead = overhead  # bytes that each copy takes beyond its own
        self._used = 0
        self._copies: dict[Completion, None] = {}  # those that occupy it, in order
        self._requests: deque[Completion] = deque()

    def until_it_takes(self, nbytes: int) -> Completion:
        """Return a completion that is done when there may be room for a copy of *nbytes*.

        Ask again then: another host may have been faster.
        """
        if self._used + nbytes + self._overhead <= self._bytes or not self._used:
            return NOTHING
        request = Need("there is room in the ring for pageable copies", lambda: next(iter(self._copies), None))
        self._requests.append(request)
        return request

    def put(self, op: Op) -> None:
        """Let *op*, a small copy that is queued, occupy its part until it is done."""
        nbytes = op.nbytes + self._overhead
        self._used += nbytes
        if op.done:
            self._give_back(nbytes, op)
        else:
            self._copies[op] = None
            op.add_waiter(Then(partial(self._give_back, nbytes)))

    def _give_back(self, nbytes: int, by: Completion) -> None:
        """Free the *nbytes* that *by* occupied, and let all hosts that wait for room look again."""
        self._copies.pop(by, None)
        self._used -= nbytes
        requests = self._requests
        for _ in range(len(requests)):
            requests.popleft().complete(by.end_ns)


class Staging:
    """The pinned buffers through which one device's driver moves pageable memory."""

    __slots__ = ("_begun", "_buffers", "_copies", "_latency_ns", "_rings", "_scheduler", "strike")

    def __init__(self, scheduler: Scheduler, profile: "DeviceProfile") -> None:
        self._scheduler = scheduler
        self._copies = profile.copies
        self._latency_ns = profile.latency.submit_copy
        # Asks the fault rules how much later an operation may start (Faults.strike); None if there are no rules.
        self.strike: Callable[[Op, Stream, Nanoseconds], Nanoseconds] | None = None
        self._begun = count()
        self._rings: dict[HardwareQueue, Ring] = {}
        self._buffers: deque[Op] = deque()  # the copies that use the chunk buffers; the last may not be queued yet

    def ring(self, stream: Stream) -> Ring:
        """Return the ring for small copies to the device in *stream*."""
        queue = stream.queues[H2D.lane]
        ring = self._rings.get(queue)
        if ring is None:
            ring = self._rings[queue] = Ring(self._copies.ring_bytes, self._copies.ring_overhead)
        return ring

    def to_device(self, stream: Stream, copy: Copy, site: object) -> Staged:
        """Return the process that stages and queues *copy*; done when the host may go on."""
        self._tell(copy, stream, site)
        return Staged(self._scheduler, self._to_device(stream, copy, site), next(self._begun))

    def to_host(self, stream: Stream, copy: Copy, site: object) -> Staged:
        """Return the process that queues *copy*, into pageable memory; done when its bytes are there."""
        self._tell(copy, stream, site)
        return Staged(self._scheduler, self._to_host(stream, copy, site), next(self._begun))

    def _tell(self, copy: Copy, stream: Stream, site: object) -> None:
        staged = stream.context.device.hooks.staged
        if staged is not None:
            staged(copy, stream, site)

    def _to_device(self, stream: Stream, copy: Copy, site: object) -> Iterator[Completion]:
        copies = self._copies
        whole = copies.stage[copy.nbytes]
        yield self._after(copies.stage_fixed)
        for chunk in copy.parts(copies.stage_chunk):
            while len(self._buffers) >= copies.stage_buffers:
                yield self._buffers[0]
                if self._buffers[0].done:  # otherwise another host has taken the buffer
                    self._buffers.popleft()
            op = Op(chunk, H2D.lane, chunk.nbytes, site)
            self._buffers.append(op)
            yield self._after(whole * chunk.nbytes // copy.nbytes)
            if self._scheduler.before_return is not None:
                self._scheduler.before_return()  # the host reads now: join bodies that may still write
            chunk.stage()
            self._enqueue(stream, op, copy)

    def _to_host(self, stream: Stream, copy: Copy, site: object) -> Iterator[Completion]:
        copies = self._copies
        coming: deque[Op] = deque()
        chunks, left = copy.parts(copies.stage_chunk), copy.nbytes
        while left:
            for chunk in islice(chunks, copies.stage_buffers - len(coming)):
                op = Op(chunk, D2H.lane, chunk.nbytes, site)
                self._enqueue(stream, op, copy)
                coming.append(op)
            first = coming[0]
            if not first.done:
                yield first
                yield self._after(copies.unstage_fixed)
            yield self._after(copies.unstage[first.nbytes])
            left -= coming.popleft().nbytes

    def _enqueue(self, stream: Stream, op: Op, copy: Copy) -> None:
        """Queue *op*, a part of *copy*, within an instant: its engine starts it at the next grant."""
        op.why = Why.STAGING
        ready_ns = self._scheduler.now + self._latency_ns
        if self.strike is not None:
            ready_ns += self.strike(op, stream, self._scheduler.now)
        stream.enqueue(op, ready_ns, False)
        device = stream.context.device
        device.call_hook(device.hooks.part_queued, op, copy)

    def _after(self, delay: Nanoseconds) -> Completion:
        return self._scheduler.timer(self._scheduler.now + delay) if delay else NOTHING
