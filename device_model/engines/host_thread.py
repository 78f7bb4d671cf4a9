"""The thread that runs the host functions of all streams, one at a time, in the order in which they became ready.

What it does was found on an H200 (docs/accuracy.md has the evidence):

* While it has nothing to do it sleeps, and a function that becomes ready wakes it. That takes longer if it has slept
  long, because the processor that it ran on is then in a deep sleep, too.
* While it is awake it takes the next ready function at once, of whatever stream.
"""

from collections import deque
from typing import TYPE_CHECKING

from device_model.completions import Nanoseconds
from device_model.engines.serial import Finish
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.scheduler import Engine, Scheduler
from device_model.work import HostFunction

if TYPE_CHECKING:
    from device_model.profile import Latencies


class HostThread(Engine):
    """Runs host functions, one at a time, in the order in which they became ready; each stream has its own queue."""

    __slots__ = ("finish", "free_ns", "last", "latency", "ready", "running")

    def __init__(self, scheduler: Scheduler, latency: "Latencies", finish: Finish) -> None:
        super().__init__(scheduler, "host")
        self.finish = finish
        self.latency = latency
        self.ready: deque[Op] = deque()
        self.running: Op | None = None
        self.last: Op | None = None  # the function that returned last
        self.free_ns: Nanoseconds | None = None  # the next function can start then; None if there was none yet

    def __repr__(self) -> str:
        return f"<HostThread running={self.running!r} ready={len(self.ready)}>"

    def offer(self, queue: HardwareQueue, now: bool = False) -> None:
        """Line up the ready functions at the head of *queue*."""
        fifo = queue.fifo
        while fifo and not fifo[0].blockers:
            op = fifo.popleft()
            op.ready_ns += self._wake_ns(op)
            self.ready.append(op)
        if now:
            self.grant()
        else:
            self.request_grant()

    def _wake_ns(self, op: Op) -> Nanoseconds:
        """Return how long the thread takes to wake up for *op*, which is ready; 0 if it is awake."""
        if self.running is not None or self.ready:
            return 0
        latency = self.latency
        if self.free_ns is not None and max(self.scheduler.now, op.ready_ns) < self.free_ns:
            return 0
        if self.free_ns is None or self.scheduler.now - self.free_ns >= latency.host_function_idle:
            return latency.host_function_start + latency.host_function_asleep
        return latency.host_function_start

    def drop(self, op: Op) -> None:
        """Take *op* out of its queue, or off the list of ready functions."""
        if op in op.queue.fifo:
            op.queue.drop(op)
        else:
            self.ready.remove(op)

    def grant(self) -> None:
        """Start the next function."""
        self.is_dirty = False
        if self.running is None and self.ready:
            choices = self.scheduler.choices
            if choices is not None:
                self.ready.rotate(-choices.next_of(self.ready))
            op = self.ready.popleft()
            work = op.work
            assert isinstance(work, HostFunction), f"{op!r} is no host function"
            op.start_ns = max(self.scheduler.now, op.ready_ns, self.free_ns or 0)
            if op.start_ns > op.ready_ns:
                op.by = self.last
            self.running = op
            self.scheduler.at(op.start_ns + work.duration_ns, self._ended, op)

    def _ended(self, op: Op) -> None:
        """Return from the running function: its effects take place now."""
        self.running = None
        self.last = op
        self.free_ns = self.scheduler.now + self.latency.host_function_pause
        context = op.stream.context
        context.device.calling = op  # calls of the runtime that the function makes are refused
        context.alert = True
        try:
            self.finish(op, self.scheduler.now)
        finally:
            context.device.calling = None
            context.update_alert()
        self.request_grant()
