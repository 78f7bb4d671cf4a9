"""The engines of a device: a copy engine per direction, the dispatcher of blocks, and the thread that runs host functions.

What an engine does was found on an H200 (docs/accuracy.md has the evidence):

* A copy engine serves several hardware queues. It drains one queue until its head is not ready, then turns to the next queue, in
  cyclic order, whose head is. While both directions run, each takes a little longer.
* The dispatcher has one list, ordered by (priority, arrival). Only its head may place blocks; when all blocks of the head are
  placed, the next kernel fills what is left of the cores. So a kernel that waits for room holds back all behind it. An exclusive
  block needs an empty core; others share the cores without exclusive blocks, each on the emptiest. A limited number of kernels is
  resident at once.
* Copies inside the device and fills run as kernels; they hold the head of the list until shortly before they end, for they use the memory of the
  whole device.
* One thread runs the host functions of all streams, in the order in which they became ready.
"""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from device_model.ops import Copy, Fill, HostFunction, Kernel, Lane, Op
from device_model.profile import Curve
from device_model.scheduler import Nanoseconds, Scheduler
from device_model.streams import HardwareQueue

Finish = Callable[[Op], None]  # what the device does with an operation whose time is over


class CopyEngine:
    """Moves bytes in one direction, one copy at a time."""

    __slots__ = (
        "busy_ns", "duplex_permille", "finish", "free_ns", "gap_ns", "name", "opposite", "orders", "queues", "running", "scheduler",
        "time_of", "turn",
    )  # fmt: skip

    def __init__(
        self, scheduler: Scheduler, name: str, time_of: Curve, gap_ns: Nanoseconds, duplex_permille: int, finish: Finish
    ) -> None:
        self.scheduler = scheduler
        self.name = name
        self.time_of = time_of
        self.gap_ns = gap_ns  # between two copies
        self.duplex_permille = duplex_permille  # how much longer a copy takes while the opposite engine runs
        self.finish = finish
        self.opposite: CopyEngine | None = None
        self.running: Op | None = None
        self.free_ns = 0  # no copy can start earlier
        self.busy_ns = 0  # the running one moves bytes until then
        self.turn = 0  # the queue being drained
        self.queues: tuple[HardwareQueue, ...] = ()
        self.orders: tuple[tuple[HardwareQueue, ...], ...] = ()  # for each turn, the order in which to look

    def __repr__(self) -> str:
        return f"<CopyEngine {self.name} running={self.running!r}>"

    def serve(self, queues: Sequence[HardwareQueue]) -> None:
        """Serve these queues from now on."""
        self.queues = tuple(queues)
        self.orders = tuple(self.queues[turn:] + self.queues[:turn] for turn in range(len(self.queues)))

    def head_unblocked(self, queue: HardwareQueue) -> None:  # noqa: ARG002 - which queue it is, `grant` looks itself
        """A queue has a copy that could start."""
        if self.running is None:
            self.scheduler.dirty[self] = None

    def grant(self) -> None:
        """Start the next copy: of the queue whose turn it is, else of the next that has a ready head."""
        if self.running is not None:
            return
        for queue in self.orders[self.turn]:
            fifo = queue.fifo
            if fifo and not fifo[0].blockers:
                self.turn = queue.index
                self._start(queue.take())
                return

    def _start(self, op: Op) -> None:
        scheduler = self.scheduler
        start = scheduler.now
        if op.ready_ns > start:
            start = op.ready_ns
        if self.free_ns > start:
            start = self.free_ns
        op.start_ns = start
        self.running = op
        end = start + self.time_of(op.nbytes)
        opposite = self.opposite
        if opposite is not None and opposite.running is not None and op.nbytes:
            end = self._share(start, end, opposite)
        self.busy_ns = end
        scheduler.sequence += 1
        heappush(scheduler.heap, (end, scheduler.sequence, self))

    def _share(self, start: Nanoseconds, end: Nanoseconds, opposite: "CopyEngine") -> Nanoseconds:
        """Both run at once until the first is done: stretch both by the time they have in common.

        This is exact for shared bandwidth: whoever goes on afterwards is alone, until the next copy starts and shares again.
        """
        common = min(end - start, opposite.busy_ns - start)
        if common <= 0:
            return end
        opposite.busy_ns += common * opposite.duplex_permille // 1000
        return end + common * self.duplex_permille // 1000

    def fire(self) -> None:
        """The running copy ends, unless the opposite engine has slowed it down meanwhile."""
        scheduler = self.scheduler
        if self.busy_ns > scheduler.now:
            scheduler.at(self.busy_ns, self)
            return
        op = self.running
        assert op is not None, f"{self!r} ends a copy that it did not start"
        self.running = None
        self.free_ns = scheduler.now + self.gap_ns
        self.finish(op)
        scheduler.dirty[self] = None


class Dispatcher:
    """Places the blocks of kernels on the AI cores (SMs)."""

    __slots__ = (
        "_arrivals", "_held", "block_overhead_ns", "copy_time", "drain_ns", "fill_time", "finish", "list", "name", "open_cores",
        "pinned_fill_time", "resident", "resident_limit", "scheduler", "shared_blocks", "tail_ns",
    )  # fmt: skip

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        cores: int,
        resident_limit: int,
        block_overhead_ns: Nanoseconds,
        drain_ns: Nanoseconds,
        tail_ns: Nanoseconds,
        copy_time: Curve,
        fill_time: Curve,
        pinned_fill_time: Curve,
        finish: Finish,
    ) -> None:
        self.scheduler = scheduler
        self.name = "cores"
        self.finish = finish
        self.open_cores = cores  # those without an exclusive block on them
        self.shared_blocks = 0  # running blocks that share
        self.resident = 0
        self.resident_limit = resident_limit
        self.block_overhead_ns = block_overhead_ns  # what a block takes beyond its own work
        self.drain_ns = drain_ns  # from the end of the last block to the end of the kernel
        self.tail_ns = tail_ns  # a copy inside the device lets the next one start this long before its end
        self.copy_time = copy_time
        self.fill_time = fill_time
        self.pinned_fill_time = pinned_fill_time
        self.list: list[tuple[int, int, Op]] = []  # a heap of (priority, arrival, operation)
        self._arrivals = 0
        self._held = False  # a copy or fill has the memory of the device for itself

    def __repr__(self) -> str:
        return f"<Dispatcher cores={self.open_cores} resident={self.resident} listed={len(self.list)}>"

    def head_unblocked(self, queue: HardwareQueue) -> None:
        """List the ready operations at the head of *queue*."""
        fifo = queue.fifo
        while fifo and not fifo[0].blockers:
            op = queue.take()
            self._arrivals += 1
            heappush(self.list, (op.stream.priority, self._arrivals, op))
        self.scheduler.dirty[self] = None

    def grant(self) -> None:
        """Let the head of the list place its blocks, then the next, as long as the head could place all."""
        entries = self.list
        while entries and not self._held:
            op = entries[0][2]
            if op.start_ns < 0:
                if self.resident >= self.resident_limit:
                    return
                now = self.scheduler.now
                op.start_ns = op.ready_ns if op.ready_ns > now else now
                self.resident += 1
            if isinstance(op, Kernel):
                if not self._place(op):
                    return
            else:
                self._move(op)
            heappop(entries)

    def _place(self, kernel: Kernel) -> bool:
        """Place as many blocks as there is room for; was that all?"""
        scheduler = self.scheduler
        now = scheduler.now
        start = kernel.start_ns if kernel.start_ns > now else now
        if not kernel.exclusive:
            if not self.open_cores:
                return False
            # All at once, so one entry on the heap is enough.
            self.shared_blocks += kernel.blocks
            kernel.left = 0
            end = start + kernel.block_ns + self.block_overhead_ns + self.drain_ns
            scheduler.sequence += 1
            heappush(scheduler.heap, (end, scheduler.sequence, _End(self, kernel)))
            return True
        count = min(kernel.left, self.open_cores - self.shared_blocks)
        if count <= 0:
            return False
        self.open_cores -= count
        kernel.left -= count
        kernel.running += count
        scheduler.at(start + kernel.block_ns + self.block_overhead_ns, _Wave(self, kernel, count))
        return not kernel.left

    def _move(self, op: Op) -> None:
        if isinstance(op, Fill):
            time = (self.pinned_fill_time if op.pinned else self.fill_time)(op.nbytes)
        else:
            time = self.copy_time(op.nbytes)
        end = op.start_ns + time
        self.scheduler.at(end, _End(self, op))
        if end - self.tail_ns > self.scheduler.now:
            self._held = True
            self.scheduler.at(end - self.tail_ns, _Letting(self))

    def ended(self, op: Op) -> None:
        """A kernel, copy or fill ends."""
        self.resident -= 1
        if isinstance(op, Kernel) and not op.exclusive:
            self.shared_blocks -= op.blocks
        self.finish(op)
        if self.list:
            self.scheduler.dirty[self] = None

    def wave_ended(self, kernel: Kernel, count: int) -> None:
        """*count* blocks end together; their cores are free."""
        self.open_cores += count
        kernel.running -= count
        if not kernel.left and not kernel.running:
            self.scheduler.at(self.scheduler.now + self.drain_ns, _End(self, kernel))
        self.scheduler.dirty[self] = None

    def let_next(self) -> None:
        """The copy or fill that held the list is nearly done."""
        self._held = False
        self.scheduler.dirty[self] = None


class _End:
    __slots__ = ("dispatcher", "op")

    def __init__(self, dispatcher: Dispatcher, op: Op) -> None:
        self.dispatcher = dispatcher
        self.op = op

    def fire(self) -> None:
        self.dispatcher.ended(self.op)


class _Wave:
    __slots__ = ("count", "dispatcher", "kernel")

    def __init__(self, dispatcher: Dispatcher, kernel: Kernel, count: int) -> None:
        self.dispatcher = dispatcher
        self.kernel = kernel
        self.count = count

    def fire(self) -> None:
        self.dispatcher.wave_ended(self.kernel, self.count)


class _Letting:
    __slots__ = ("dispatcher",)

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher

    def fire(self) -> None:
        self.dispatcher.let_next()


class HostThread:
    """Runs host functions, one at a time, in the order in which they became ready."""

    __slots__ = ("after_other", "after_same", "finish", "free_ns", "name", "pause_ns", "ready", "running", "scheduler")

    def __init__(
        self,
        scheduler: Scheduler,
        pause_ns: Nanoseconds,
        after_same: tuple[int, ...],
        after_other: tuple[int, ...],
        finish: Finish,
    ) -> None:
        self.scheduler = scheduler
        self.name = "host"
        self.pause_ns = pause_ns  # between two functions
        self.after_same = after_same
        self.after_other = after_other
        self.finish = finish
        self.ready: deque[Op] = deque()
        self.running: HostFunction | None = None
        self.free_ns = 0

    def __repr__(self) -> str:
        return f"<HostThread running={self.running!r} ready={len(self.ready)}>"

    def append(self, op: Op) -> None:
        """Take *op*; it lines up once it waits for nothing more."""
        if not op.blockers:
            self.unblocked(op)

    def unblocked(self, op: Op) -> None:
        """*op* may run."""
        self.ready.append(op)
        self.scheduler.dirty[self] = None

    def grant(self) -> None:
        """Start the next function."""
        if self.running is None and self.ready:
            op = self.ready.popleft()
            assert isinstance(op, HostFunction), f"{op!r} is no host function"
            op.start_ns = max(self.scheduler.now, op.ready_ns, self.free_ns)
            self.running = op
            self.scheduler.at(op.start_ns + op.duration_ns, self)

    def fire(self) -> None:
        """The running function returns."""
        op = self.running
        assert op is not None, f"{self!r} ends a function that it did not start"
        self.running = None
        self.free_ns = self.scheduler.now + self.pause_ns
        self.finish(op)
        self.scheduler.dirty[self] = None


__all__ = ["Copy", "CopyEngine", "Dispatcher", "HostThread", "Lane"]
