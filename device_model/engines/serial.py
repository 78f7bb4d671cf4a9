"""Copy engines, which run one operation at a time.

What they do was found on an H200 (docs/accuracy.md has the evidence):

* A copy engine moves bytes in one direction and serves several hardware queues. It drains one queue until the head of
  that queue has to wait, and then takes the next queue, in cyclic order, whose head can start. While both directions
  run, each takes a little longer, because they share the bus.
"""

from collections.abc import Callable, Sequence
from heapq import heappush
from typing import TYPE_CHECKING

from device_model.completions import Nanoseconds
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.scheduler import Engine, Scheduler

if TYPE_CHECKING:
    from device_model.curves import Curve

# Called at the end of an operation: the device does its work (Device.finish).
Finish = Callable[[Op, Nanoseconds], None]
# Called at the start of an operation on managed memory, with its time without moves: the device moves the pages that it
# needs, and returns how long it takes (Device.move_pages).
Page = Callable[[Op, Nanoseconds], Nanoseconds]


class CopyEngine(Engine):
    """Moves bytes in one direction, one copy at a time."""

    __slots__ = (
        "_end", "_latest", "busy_ns", "draining", "duplex_bytes", "duplex_permille", "finish", "free_ns", "gap_ns",
        "last", "move_pages", "opposite", "orders", "queues", "ready_heads", "rest", "running", "time_of", "urgent",
    )  # fmt: skip

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        time_of: "Curve",
        gap_ns: Nanoseconds,
        duplex_bytes: int,
        duplex_permille: int,
        finish: Finish,
        move_pages: Page,
    ) -> None:
        super().__init__(scheduler, name)
        self.finish = finish
        self.move_pages = move_pages
        self.time_of = time_of
        self.gap_ns = gap_ns  # from the end of a copy to the start of the next
        self.duplex_bytes = duplex_bytes  # smaller copies are nearly all latency, and share nothing
        self.duplex_permille = duplex_permille  # how much longer a copy takes while the opposite engine runs
        self.opposite = self  # the engine of the other direction; the device sets it
        self.running: Op | None = None
        self.last: Op | None = None  # the copy that ended last
        self.free_ns = 0  # no copy can start earlier
        self.busy_ns = 0  # the running copy moves bytes until then
        self.draining = 0  # the index of the queue being drained
        self.ready_heads = 0  # how many queues have a head that can start
        self.queues: tuple[HardwareQueue, ...] = ()
        self.rest: tuple[HardwareQueue, ...] = ()  # served in turn,
        self.urgent: tuple[HardwareQueue, ...] = ()  # behind these
        self.orders: dict[int, tuple[HardwareQueue, ...]] = {}  # by the queue being drained: in which order to look
        self._end = self._ended  # bound once

    def __repr__(self) -> str:
        return f"<CopyEngine {self.name} running={self.running!r}>"

    def serve(self, queues: Sequence[HardwareQueue], urgent: Sequence[HardwareQueue] = ()) -> None:
        """Serve *queues* from now on, and before them the *urgent* ones."""
        self.rest, self.urgent = tuple(queues), tuple(urgent)
        self.queues = (*queues, *urgent)
        self.orders.clear()
        # The queue that got a ready head last. If only one queue has a ready head, it is mostly this one.
        self._latest = self.queues[0]

    def offer(self, queue: HardwareQueue, now: bool = False) -> None:
        """Count the ready head of *queue*."""
        self.ready_heads += 1
        self._latest = queue
        if self.running is None:
            if now:
                self.grant()
            elif not self.is_dirty:  # request_grant(), written out here and below: this is the hot path
                self.is_dirty = True
                self.scheduler.dirty.append(self)

    def grant(self) -> None:
        """Start the next copy: from the queue being drained, or from the next queue whose head can start."""
        self.is_dirty = False
        if self.running is not None or not self.ready_heads:
            return
        queue = self._latest
        fifo = queue.fifo
        head = fifo[0] if fifo else None
        if self.ready_heads > 1 or head is None or head.blockers:
            queue = self._choose()
            fifo = queue.fifo
        self.draining = queue.index
        op = fifo.popleft()
        self.ready_heads -= 1
        if fifo:
            head = fifo[0]
            if not head.blockers:
                self.ready_heads += 1
        if queue.requests:
            queue.pass_on(op)
        scheduler = self.scheduler
        start = ready = op.ready_ns
        if scheduler.now > start:
            start = scheduler.now
        if self.free_ns > start:
            start = self.free_ns
        if start > ready:
            op.by = self.last
        op.start_ns = start
        self.running = op
        end = start + self.time_of[op.nbytes]
        if op.work.moves_pages:
            end = start + self.move_pages(op, end - start)
        if scheduler.choices is not None:
            end = start + scheduler.choices.started(op, end - start)
        if op.nbytes >= self.duplex_bytes:
            end = self._share(start, end)
        self.busy_ns = end
        scheduler.sequence += 1
        heappush(scheduler.heap, (end, scheduler.sequence, self._end, op))

    def drop(self, op: Op) -> None:
        """Take *op* out of its queue."""
        if not op.blockers and op.queue.fifo[0] is op:
            self.ready_heads -= 1
        op.queue.drop(op)

    def _choose(self) -> HardwareQueue:
        order, choices = self.orders.get(self.draining) or self._order(), self.scheduler.choices
        if choices is not None and self.ready_heads:
            ready = [queue for queue in order if queue.fifo and not queue.fifo[0].blockers]
            return ready[choices.next_of([queue.fifo[0] for queue in ready])]
        for queue in order:
            if queue.fifo and not queue.fifo[0].blockers:
                return queue
        raise AssertionError(f"{self!r} counts {self.ready_heads} ready heads and finds none")

    def _order(self) -> tuple[HardwareQueue, ...]:
        """Note in which order to look while the queue of index `draining` is drained, and return it."""
        rest = self.rest
        first = self.draining if self.draining < len(rest) else 0
        order = self.orders[self.draining] = (*self.urgent, *rest[first:], *rest[:first])
        return order

    def _share(self, start: Nanoseconds, end: Nanoseconds) -> Nanoseconds:
        """Return the end of a copy from *start* to *end*, later if it shares the bus; delay the opposite copy likewise.

        Both copies run slower until the first of them is done. For shared bandwidth this is exact: the other copy is
        then alone, until the next copy starts and shares again. In `both` nanoseconds side by side, a copy that is p
        permille slower moves as many bytes as it would alone in `both` * 1000 / (1000 + p).
        """
        opposite = self.opposite
        other = opposite.running
        if other is None or other.nbytes < self.duplex_bytes:
            return end
        begin = max(start, other.start_ns)
        mine, theirs = self.duplex_permille, opposite.duplex_permille
        both = min((end - begin) * (1000 + mine), (opposite.busy_ns - begin) * (1000 + theirs)) // 1000
        if both <= 0:
            return end
        opposite.busy_ns += both * theirs // (1000 + theirs)
        return end + both * mine // (1000 + mine)

    def _ended(self, op: Op) -> None:
        """End the running copy, or wait longer if the opposite engine has slowed it down meanwhile."""
        now = self.scheduler.now
        if self.busy_ns > now:
            self.scheduler.at(self.busy_ns, self._end, op)
            return
        self.running = None
        self.last = op
        self.free_ns = now + self.gap_ns
        self.finish(op, now)
        if self.ready_heads and not self.is_dirty:
            self.is_dirty = True
            self.scheduler.dirty.append(self)
