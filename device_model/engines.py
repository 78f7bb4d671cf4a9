"""The engines of a device: a copy engine per direction, the dispatcher of blocks, and the thread that runs host
functions.

What an engine does was found on an H200 (docs/accuracy.md has the evidence):

* A copy engine serves several hardware queues. It drains one queue until its head is not ready, then turns to the next
  queue, in cyclic order, whose head is. While both directions run, each takes a little longer.
* The dispatcher has one list, ordered by (priority, arrival). Only its head may place blocks; when all blocks of the
  head are placed, the next kernel fills what is left of the cores. So a kernel that waits for room holds back all
  behind it. An exclusive block needs an empty core; others share the cores without exclusive blocks, each on the
  emptiest. A limited number of kernels is resident at once.
* Copies inside the device and fills run as kernels; they hold the head of the list until shortly before they end, for
  they use the memory of the whole device.
* A core kernel (aicore/launch.py) takes all the AI cores it wants at once, for its blocks may wait for one another, and
  gives each back when the last block on it is over. This is assumed, not measured.
* One thread runs the host functions of all streams, in the order in which they became ready.
"""

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from device_model.completions import Nanoseconds
from device_model.ops import Op
from device_model.profile import Curve
from device_model.queues import HardwareQueue
from device_model.scheduler import Scheduler
from device_model.work import CoreKernel, Fill, HostFunction, Kernel, Occupation, Work

Finish = Callable[[Op, Nanoseconds], None]  # what the device does with an operation whose time is over
WORTHWHILE = 2  # rounds of equal waves that are skipped rather than played
Begin = Callable[[Op], Occupation]  # how it runs a core kernel whose time has come


class _Engine:
    """What is common to the engines: they list themselves for `Scheduler.settle` when they may have something to hand
    out.
    """

    __slots__ = ("finish", "is_dirty", "name", "scheduler")

    def __init__(self, scheduler: Scheduler, name: str, finish: Finish) -> None:
        self.scheduler = scheduler
        self.name = name
        self.finish = finish
        self.is_dirty = False

    def grant(self) -> None:
        """Start what can start."""
        raise NotImplementedError  # pragma: no cover - each engine has its own

    def drop(self, op: Op) -> None:
        """*op*, which has not started, never will."""
        raise NotImplementedError  # pragma: no cover - each engine has its own

    def mark(self) -> None:
        """Ask to be granted at the end of this instant."""
        if not self.is_dirty:
            self.is_dirty = True
            self.scheduler.dirty.append(self)


class CopyEngine(_Engine):
    """Moves bytes in one direction, one copy at a time."""

    __slots__ = (
        "_end", "_latest", "busy_ns", "duplex_bytes", "duplex_permille", "free_ns", "gap_ns", "opposite", "orders",
        "queues", "ready_heads", "running", "time_of", "turn",
    )  # fmt: skip

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        time_of: Curve,
        gap_ns: Nanoseconds,
        duplex_bytes: int,
        duplex_permille: int,
        finish: Finish,
    ) -> None:
        super().__init__(scheduler, name, finish)
        self.time_of = time_of
        self.gap_ns = gap_ns  # between two copies
        self.duplex_bytes = duplex_bytes  # smaller copies are latency, which nobody has to share
        self.duplex_permille = duplex_permille  # how much longer a copy takes while the opposite engine runs
        self.opposite = self  # until there is another
        self.running: Op | None = None
        self.free_ns = 0  # no copy can start earlier
        self.busy_ns = 0  # the running one moves bytes until then
        self.turn = 0  # the queue being drained
        self.ready_heads = 0  # queues whose head could start
        self.queues: tuple[HardwareQueue, ...] = ()
        self.orders: tuple[tuple[HardwareQueue, ...], ...] = ()  # for each turn, the order in which to look
        self._end = self._ended  # bound once

    def __repr__(self) -> str:
        return f"<CopyEngine {self.name} running={self.running!r}>"

    def serve(self, queues: Sequence[HardwareQueue], urgent: Sequence[HardwareQueue] = ()) -> None:
        """Serve these queues from now on, the *urgent* ones before the others."""
        self.queues = (*queues, *urgent)
        rest = tuple(queues)
        turns = [(*urgent, *rest[turn:], *rest[:turn]) for turn in range(len(rest))]
        self.orders = (*turns, *(turns[0] for _ in urgent))
        self._latest = self.queues[0]  # the queue that got a ready head last: when only one has, mostly that one

    def head_unblocked(self, queue: HardwareQueue) -> None:
        """*queue* has got a head that could start."""
        self.ready_heads += 1
        self._latest = queue
        if self.running is None and not self.is_dirty:  # mark(), written out here and below: this is the hot path
            self.is_dirty = True
            self.scheduler.dirty.append(self)

    def offer(self, queue: HardwareQueue) -> None:
        """The same, with the device settled."""
        self.ready_heads += 1
        self._latest = queue
        if self.running is None:
            self.grant()

    def grant(self) -> None:
        """Start the next copy: of the queue whose turn it is, else of the next that has a ready head."""
        self.is_dirty = False
        if self.running is not None or not self.ready_heads:
            return
        queue = self._latest
        fifo = queue.fifo
        if self.ready_heads > 1 or not fifo or fifo[0].blockers:
            queue = self._choose()
            fifo = queue.fifo
        self.turn = queue.index
        op = fifo.popleft()
        if not fifo or fifo[0].blockers:
            self.ready_heads -= 1
        if queue.waiting:
            queue.left()
        scheduler = self.scheduler
        start = scheduler.now
        if op.ready_ns > start:
            start = op.ready_ns
        if self.free_ns > start:
            start = self.free_ns
        op.start_ns = start
        self.running = op
        end = start + self.time_of[op.nbytes]
        if op.nbytes >= self.duplex_bytes:
            end = self._share(start, end)
        self.busy_ns = end
        scheduler.sequence += 1
        heappush(scheduler.heap, (end, scheduler.sequence, self._end, op))

    def drop(self, op: Op) -> None:
        """It stands in its queue."""
        if not op.blockers and op.queue.fifo[0] is op:
            self.ready_heads -= 1
        op.queue.drop(op)

    def _choose(self) -> HardwareQueue:
        for queue in self.orders[self.turn]:
            if queue.fifo and not queue.fifo[0].blockers:
                return queue
        raise AssertionError(f"{self!r} counts {self.ready_heads} ready heads and finds none")

    def _share(self, start: Nanoseconds, end: Nanoseconds) -> Nanoseconds:
        """While both directions run, until the first is done, each takes longer: stretch both by what that costs them.

        This is exact for shared bandwidth: whoever goes on afterwards is alone, until the next copy starts and shares
        again. Of `both` nanoseconds side by side a copy that is p permille slower gets 1000 / (1000 + p) done.
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
        """The running copy ends, unless the opposite engine has slowed it down meanwhile."""
        now = self.scheduler.now
        if self.busy_ns > now:
            self.scheduler.at(self.busy_ns, self._end, op)
            return
        self.running = None
        self.free_ns = now + self.gap_ns
        self.finish(op, now)
        if self.ready_heads and not self.is_dirty:
            self.is_dirty = True
            self.scheduler.dirty.append(self)


class _Wave:
    """Exclusive blocks of one kernel that run side by side and end together."""

    __slots__ = ("blocks", "end_ns", "op")

    def __init__(self, op: Op, blocks: int, end_ns: Nanoseconds) -> None:
        self.op = op
        self.blocks = blocks
        self.end_ns = end_ns


class _Lead(NamedTuple):
    """The waves of *op*, the head of the list, are so many rounds of *period_ns* ahead of what has happened."""

    op: Op
    rounds: int
    period_ns: Nanoseconds


class Dispatcher(_Engine):
    """Places the blocks of kernels on the AI cores (SMs).

    While the head of the list has more blocks than the cores take, each of its waves is followed by one just like it,
    until something else frees a core or comes to the head. So all of these rounds but the last are skipped: the waves
    in flight end that much later. If something does happen meanwhile, `_fall_back` puts them where they really are.
    """

    __slots__ = (
        "_arrivals", "_end", "_held", "_lead", "_waves", "begin", "block_overhead_ns",
        "copy_time", "drain_ns", "fill_time", "finish_core",
        "list", "open_cores", "pinned_fill_time", "resident", "resident_limit", "shared_blocks", "tail_ns",
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
        begin: Begin,
        finish_core: Finish,
    ) -> None:
        super().__init__(scheduler, "cores", finish)
        self.begin = begin
        self.finish_core = finish_core
        self.open_cores = cores  # those without an exclusive block on them
        self.shared_blocks = 0  # running blocks that share
        self.resident = 0  # kernels, copies and fills that have all they need; one that still has blocks to place does
        # not count, or kernels of higher priority would wait for its end and it for theirs
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
        self._waves: dict[Op, list[_Wave]] = {}  # those in flight of kernels that have, or had, blocks left to place
        self._lead: _Lead | None = None
        self._end = self._ended  # bound once

    def __repr__(self) -> str:
        return f"<Dispatcher open_cores={self.open_cores} resident={self.resident} listed={len(self.list)}>"

    def head_unblocked(self, queue: HardwareQueue) -> None:
        """List the ready operations at the head of *queue*."""
        self._collect(queue)
        if not self.is_dirty:
            self.is_dirty = True
            self.scheduler.dirty.append(self)

    def offer(self, queue: HardwareQueue) -> None:
        """The same, with the device settled."""
        self._collect(queue)
        if self._lead is not None and self._is_disturbed(self._lead):
            self._fall_back(self._lead, settled=True)
        self.grant()

    def _collect(self, queue: HardwareQueue) -> None:
        fifo = queue.fifo
        while fifo and not fifo[0].blockers:
            op = fifo.popleft()
            if queue.waiting:
                queue.left()
            self._arrivals += 1
            heappush(self.list, (op.stream.priority, self._arrivals, op))

    def grant(self) -> None:
        """Let the head of the list place its blocks, then the next, as long as the head could place all."""
        self.is_dirty = False
        if self._lead is not None and self._is_disturbed(self._lead):
            self._fall_back(self._lead, settled=False)
        entries = self.list
        scheduler = self.scheduler
        while entries and not self._held:
            op = entries[0][2]
            work = op.work
            if op.start_ns < 0 and self.resident >= self.resident_limit:
                return
            if type(work) is not Kernel:
                if not isinstance(work, CoreKernel):
                    op.start_ns = max(op.ready_ns, scheduler.now)
                    self._move(op, work)
                elif not self._take_cores(op, work):
                    return
            elif work.exclusive:
                if not self._place(op, work):
                    return
            elif not self.open_cores:
                return
            else:  # all blocks at once, so one entry on the heap is enough
                self.shared_blocks += work.blocks
                start = op.start_ns = op.ready_ns if op.ready_ns > scheduler.now else scheduler.now
                end = start + work.block_ns + self.block_overhead_ns + self.drain_ns
                scheduler.sequence += 1
                heappush(scheduler.heap, (end, scheduler.sequence, self._end, op))
            heappop(entries)
            self.resident += 1

    def drop(self, op: Op) -> None:
        """It stands in its queue, or is listed."""
        if op in op.queue.fifo:
            op.queue.drop(op)
        else:
            self.list = [entry for entry in self.list if entry[2] is not op]
            heapify(self.list)
            self.mark()

    def _place(self, op: Op, kernel: Kernel) -> bool:
        """Place as many exclusive blocks as there are empty cores; were that all?"""
        if op.start_ns < 0:
            op.left, op.running = kernel.blocks, 0
        count = min(op.left, self.open_cores - self.shared_blocks)
        if count <= 0:
            return False
        if op.start_ns < 0:
            op.start_ns = max(op.ready_ns, self.scheduler.now)
        self.open_cores -= count
        op.left -= count
        op.running += count
        start = max(self.scheduler.now, op.start_ns)
        period_ns = kernel.block_ns + self.block_overhead_ns
        wave = _Wave(op, count, start + period_ns)
        self.scheduler.at(wave.end_ns, self._wave_ended, wave)
        if not op.left:
            return True
        self._waves.setdefault(op, []).append(wave)
        rounds = op.left // op.running - 1  # but for the last, which may have fewer blocks
        if rounds >= WORTHWHILE:
            self._skip(_Lead(op, rounds, period_ns))
        return False

    def _skip(self, lead: _Lead) -> None:
        """Let all waves of the head end some rounds later: in each, every wave takes its cores once more."""
        op, rounds, period_ns = lead
        op.left -= rounds * op.running
        for wave in self._waves[op]:
            wave.end_ns += rounds * period_ns  # `_wave_ended` sees to it
        self._lead = lead

    def _is_disturbed(self, lead: _Lead) -> bool:
        """Is there a core for one more block, or another head?"""
        return self.open_cores > self.shared_blocks or self.list[0][2] is not lead.op

    def _fall_back(self, lead: _Lead, *, settled: bool) -> None:
        """Let the waves end in the round in which they are now. One that ends at this very instant has been followed by
        its next only if the device has *settled* since.
        """
        op, rounds, period_ns = lead
        self._lead = None
        now = self.scheduler.now
        for wave in self._waves.get(op, ())[:]:
            end = wave.end_ns - rounds * period_ns
            passed = 0
            if end <= now and period_ns:
                passed = (now - end) // period_ns + 1
                if not settled and (now - end) % period_ns == 0:
                    passed -= 1
            elif end <= now:
                passed = rounds
            left = rounds - passed
            if left <= 0:
                continue
            op.left += left * wave.blocks
            wave.end_ns -= left * period_ns
            self.scheduler.forget(wave)
            if wave.end_ns > now:
                self.scheduler.at(wave.end_ns, self._wave_ended, wave)
            else:
                self._wave_ended(wave)

    def _take_cores(self, op: Op, work: CoreKernel) -> bool:
        """Let a core kernel start on the cores that it wants, if so many are empty."""
        if self.open_cores - self.shared_blocks < work.cores:
            return False
        op.running = work.cores
        self.open_cores -= work.cores
        op.start_ns = max(op.ready_ns, self.scheduler.now)
        self.scheduler.at(op.start_ns, self._run_core, op)
        return True

    def _run_core(self, op: Op) -> None:
        """A core kernel starts; running it tells when it ends."""
        now = self.scheduler.now
        duration_ns, released = self.begin(op)
        assert sum(count for _, count in released) == op.running, f"{op!r} gives back other cores than it took"
        for after_ns, count in released:
            self.scheduler.at(now + after_ns, self._cores_released, (op, count))
        self.scheduler.at(now + duration_ns, self._core_ended, op)

    def _cores_released(self, part: tuple[Op, int]) -> None:
        """Some cores of a core kernel have done their last block."""
        op, count = part
        self.open_cores += count
        op.running -= count
        self.mark()

    def _core_ended(self, op: Op) -> None:
        """A core kernel ends."""
        self.resident -= 1
        self.finish_core(op, self.scheduler.now)
        if self.list:
            self.mark()

    def _move(self, op: Op, work: Work) -> None:
        """A copy inside the device or a fill begins."""
        if isinstance(work, Fill):
            time = (self.pinned_fill_time if work.pinned else self.fill_time)[op.nbytes]
        else:
            time = self.copy_time[op.nbytes]
        end = op.start_ns + time
        self.scheduler.at(end, self._end, op)
        if end - self.tail_ns > self.scheduler.now:
            self._held = True
            self.scheduler.at(end - self.tail_ns, self._let_next, op)

    def _ended(self, op: Op) -> None:
        """A kernel, copy or fill ends."""
        self.resident -= 1
        work = op.work
        if type(work) is Kernel and not work.exclusive:
            self.shared_blocks -= work.blocks
        self.finish(op, self.scheduler.now)
        if self.list:
            self.mark()

    def _wave_ended(self, wave: _Wave) -> None:
        """Some blocks end together, unless their kernel has skipped rounds meanwhile; their cores are free."""
        op = wave.op
        if wave.end_ns > self.scheduler.now:
            self.scheduler.at(wave.end_ns, self._wave_ended, wave)
            return
        waves = self._waves.get(op)
        if waves is not None and wave in waves:
            waves.remove(wave)
            if not waves:
                del self._waves[op]
        self.open_cores += wave.blocks
        op.running -= wave.blocks
        if not op.left and not op.running:
            self.scheduler.at(self.scheduler.now + self.drain_ns, self._end, op)
        self.mark()

    def _let_next(self, op: Op) -> None:  # noqa: ARG002 - only one holds the list
        """The copy or fill that held the list is nearly done."""
        self._held = False
        self.mark()


class HostThread(_Engine):
    """Runs host functions, one at a time, in the order in which they became ready; each stream has its own queue."""

    __slots__ = ("free_ns", "pause_ns", "ready", "running")

    def __init__(self, scheduler: Scheduler, pause_ns: Nanoseconds, finish: Finish) -> None:
        super().__init__(scheduler, "host", finish)
        self.pause_ns = pause_ns  # between two functions
        self.ready: deque[Op] = deque()
        self.running: Op | None = None
        self.free_ns = 0

    def __repr__(self) -> str:
        return f"<HostThread running={self.running!r} ready={len(self.ready)}>"

    def head_unblocked(self, queue: HardwareQueue) -> None:
        """Line up the ready functions at the head of *queue*."""
        fifo = queue.fifo
        while fifo and not fifo[0].blockers:
            self.ready.append(fifo.popleft())
        self.mark()

    def offer(self, queue: HardwareQueue) -> None:
        """The same, with the device settled."""
        self.head_unblocked(queue)
        self.scheduler.settle()

    def drop(self, op: Op) -> None:
        """It stands in its queue, or is ready."""
        if op in op.queue.fifo:
            op.queue.drop(op)
        else:
            self.ready.remove(op)

    def grant(self) -> None:
        """Start the next function."""
        self.is_dirty = False
        if self.running is None and self.ready:
            op = self.ready.popleft()
            work = op.work
            assert isinstance(work, HostFunction), f"{op!r} is no host function"
            op.start_ns = max(self.scheduler.now, op.ready_ns, self.free_ns)
            self.running = op
            self.scheduler.at(op.start_ns + work.duration_ns, self._ended, op)

    def _ended(self, op: Op) -> None:
        """The running function returns."""
        self.running = None
        self.free_ns = self.scheduler.now + self.pause_ns
        context = op.stream.context
        context.device.calling = op  # calls that it makes are refused
        context.alert, before = True, context.alert
        try:
            self.finish(op, self.scheduler.now)
        finally:
            context.device.calling = None
            context.alert = before or context.error is not None
        self.mark()
