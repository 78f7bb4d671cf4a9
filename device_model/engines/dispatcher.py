"""The dispatcher: places the blocks of kernels on the AI cores (SMs), and runs copies inside the device and fills.

What it does was found on an H200 (docs/accuracy.md has the evidence):

* There is one list, ordered by (priority, arrival). Only the operation at the head of the list may place blocks. When
  all its blocks are placed, the next operation is the head. So a kernel that waits for cores holds back all behind it,
  though some of those would fit.
* An exclusive block needs an empty core. Other blocks take the core with the fewest blocks, and where all have an
  exclusive block, one beside it: they never wait for a core.
* A limited number of kernels is resident at once.
* A part of a collective waits in this list for as many cores as its collective has channels, and then holds them to its
  end. *Seen:* four all-reduces of 8 MiB beside kernels of 220 us on all SMs take 220 us longer. The kernels behind the
  first one take as long as with fewer cores (collectives.json, overlap).
* Copies inside the device and fills run as kernels. They stay the head of the list until shortly before they end,
  because they use the memory of the whole device.
* A core kernel (kernel/launch.py) takes all the AI cores it wants at once, because its blocks may wait for one another.
  It gives each core back when the last block on that core is over. This is assumed, not measured. One that waits for
  others (waiting.py) keeps as many cores as the blocks fill that have not ended.

Rounds are skipped. If the head has more blocks than there are empty cores, each wave of blocks that ends is
followed by an equal one on the same cores, until something else frees a core or becomes the head. A kernel of a million
blocks would need thousands of entries on the heap, all alike. So all of these rounds but the last are skipped: the
waves in flight end so many periods later (`_skip`). If a core becomes free or another operation becomes the head
meanwhile, `_fall_back` puts the waves into the round in which they really are:

    10 blocks of 100 ns on 4 cores     wave of 4 from 0 to 100, of 4 from 100 to 200, of 2 from 200 to 300
    60 blocks of 100 ns on 4 cores     one wave of 4 that ends at 1,400, then one of 4 that ends at 1,500
    another operation comes at 250     the wave ends at 300, and 48 blocks are left to place
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from device_model.completions import Nanoseconds
from device_model.core_kernels import CoreKernel, Occupation, Pause
from device_model.engines.serial import Finish, Page
from device_model.engines.waiting import Waiting
from device_model.observe import Hooks
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.scheduler import Engine, Scheduler
from device_model.work import Fill, Kernel, Work

if TYPE_CHECKING:
    from device_model.choices import Choices
    from device_model.curves import Curve

Begin = Callable[[Op], Occupation | Pause]  # runs a core kernel at its start, or behind a wait (Device.begin_core)
WORTHWHILE = 2  # rounds of equal waves that are worth skipping


class Wave:
    """Exclusive blocks of one kernel that run side by side and end together."""

    __slots__ = ("blocks", "end_ns", "op")

    def __init__(self, op: Op, blocks: int, end_ns: Nanoseconds) -> None:
        self.op = op
        self.blocks = blocks
        self.end_ns = end_ns


class _Lead(NamedTuple):
    """*op*, the head of the list, has skipped *rounds* rounds of *period_ns*: its waves end that much later."""

    op: Op
    rounds: int
    period_ns: Nanoseconds


class Dispatcher(Engine):
    """Places the blocks of kernels on the AI cores, and runs copies inside the device and fills."""

    __slots__ = (
        "_end", "_held", "_lead", "_waves", "begin", "begin_part", "block_overhead_ns",
        "copy_time", "cores", "cores_of_part", "drain_ns", "fill_time", "finish", "finish_core", "freed",
        "go_on", "list", "listed", "move_pages", "node_copy_time", "open_cores", "paged_ns", "parts",
        "pinned_fill_time", "resident", "resident_limit", "shared_blocks", "tail_ns", "waiting",
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
        copy_time: "Curve",
        node_copy_time: "Curve",
        fill_time: "Curve",
        pinned_fill_time: "Curve",
        finish: Finish,
        move_pages: Page,
        begin: Begin,
        go_on: Begin,
        hooks: Hooks,
        finish_core: Finish,
        cores_of_part: int,
        begin_part: Callable[[Op], None],
    ) -> None:
        super().__init__(scheduler, "cores")
        self.finish = finish
        self.move_pages = move_pages
        self.paged_ns: dict[Op, Nanoseconds] = {}  # of running kernels on managed memory: the time of a block
        self.begin = begin
        self.go_on = go_on
        self.waiting = Waiting(scheduler, hooks, self.resume)
        self.finish_core = finish_core
        self.cores_of_part = cores_of_part  # what a part of a collective holds
        self.begin_part = begin_part
        self.parts: dict[Op, None] = {}  # parts that have had their turn; those that hold cores say so
        self.cores = cores  # how many there are
        self.open_cores = cores  # AI cores without an exclusive block
        self.shared_blocks = 0  # running blocks that are not exclusive
        # Kernels, copies and fills with all blocks placed. One with blocks left must not count: at the limit it and a
        # kernel of higher priority would wait for each other.
        self.resident = 0
        self.resident_limit = resident_limit
        self.block_overhead_ns = block_overhead_ns  # what a block takes beyond its own work
        self.drain_ns = drain_ns  # from the end of the last block to the end of the kernel
        self.tail_ns = tail_ns  # a copy inside the device lets the next one start this long before its end
        self.copy_time = copy_time
        self.node_copy_time = node_copy_time  # of a copy that is a node of a graph
        self.fill_time = fill_time
        self.pinned_fill_time = pinned_fill_time
        self.list: list[tuple[int, int, Op]] = []  # a heap of (priority, arrival, operation)
        self.freed: Op | None = None  # what let go of its cores, or of the memory, last
        self.listed = 0  # how many operations so far
        self._held = False  # a copy or fill uses the memory of the whole device, so nothing else starts
        self._waves: dict[Op, list[Wave]] = {}  # in flight, of kernels with more blocks than one wave
        self._lead: _Lead | None = None
        self._end = self._ended  # bound once

    def __repr__(self) -> str:
        return f"<Dispatcher open_cores={self.open_cores} resident={self.resident} listed={len(self.list)}>"

    def time_alone(self, work: Work) -> Nanoseconds | None:
        """Return how long a kernel takes that has all cores to itself; None for other work, or if pages may move."""
        if type(work) is not Kernel or work.moves_pages:
            return None
        waves = -(-work.blocks // self.cores) if work.exclusive else 1
        return waves * (work.block_ns + self.block_overhead_ns) + self.drain_ns

    def has_only(self, op: Op) -> bool:
        """Whether nothing runs here, and *op* is all that can start."""
        return not self.resident and len(self.list) == 1 and self.list[0][2] is op

    @property
    def is_open(self) -> bool:
        """Whether nothing is listed, and a kernel without exclusive blocks that takes the place of another starts."""
        return not self.list and not self._held and self._lead is None

    def exchange(self, ended: Work, begun: Work) -> None:
        """Count the blocks of *begun*, which runs instead of *ended*; neither has exclusive blocks."""
        assert isinstance(ended, Kernel), f"{ended!r} is no kernel"
        assert isinstance(begun, Kernel), f"{begun!r} is no kernel"
        self.shared_blocks += begun.blocks - ended.blocks

    def offer(self, queue: HardwareQueue, now: bool = False) -> None:
        """List the ready operations at the head of *queue*."""
        self._collect(queue)
        if now:
            if self._lead is not None and self._is_disturbed(self._lead):
                self._fall_back(self._lead, settled=True)
            self.grant()
        elif not self.is_dirty:
            self.is_dirty = True
            self.scheduler.dirty.append(self)

    def _collect(self, queue: HardwareQueue) -> None:
        fifo = queue.fifo
        op = head = fifo[0]
        while not op.blockers:
            fifo.popleft()
            if op is not head:
                op.pass_behind(head, self.scheduler.now)
            if queue.requests:
                queue.pass_on(op)
            self.listed += 1
            priority = op.own_priority
            heappush(self.list, (op.stream.priority if priority is None else priority, self.listed, op))
            if not fifo:
                break
            op = fifo[0]

    def grant(self) -> None:
        """Let the head of the list place its blocks, then the next, until a head cannot place all of its blocks."""
        self.is_dirty = False
        if self._lead is not None and self._is_disturbed(self._lead):
            self._fall_back(self._lead, settled=False)
        entries = self.list
        scheduler = self.scheduler
        while entries and not self._held:
            if scheduler.choices is not None:
                self._choose(scheduler.choices)
            op = entries[0][2]
            work = op.work
            if op.start_ns < 0 and self.resident >= self.resident_limit:
                return
            kernel = work if type(work) is Kernel else None
            if kernel is None:
                if work.joins:
                    if not self._hold(op):
                        return
                elif not isinstance(work, CoreKernel):
                    self._start(op)
                    self._move(op, work)
                elif not self._take_cores(op, work):
                    return
            elif kernel.exclusive:
                if not self._place(op, kernel):
                    return
            else:  # all blocks at once, so one entry on the heap is enough
                self.shared_blocks += kernel.blocks
                start = op.start_ns = op.ready_ns
                if scheduler.now > start:
                    start = op.start_ns = scheduler.now
                    op.by = self.freed
                if scheduler.choices is not None:
                    scheduler.choices.started(op, 0)
                block_ns = self.move_pages(op, kernel.block_ns) if kernel.moves_pages else kernel.block_ns
                end = start + block_ns + self.block_overhead_ns + self.drain_ns
                scheduler.sequence += 1
                heappush(scheduler.heap, (end, scheduler.sequence, self._end, op))
            heappop(entries)
            self.resident += 1

    def _choose(self, choices: "Choices") -> None:
        """Let *choices* say which of the listed operations of one priority is the head; one that has begun stays it."""
        entries = self.list
        head = entries[0]
        if head[2].start_ns >= 0:
            return
        equals = sorted(entry for entry in entries if entry[0] == head[0])
        taken = equals[choices.next_of([entry[2] for entry in equals])]
        if taken is not head:  # they change places, so that the heap stays one
            entries[entries.index(taken)] = (*taken[:2], head[2])
            entries[0] = (*head[:2], taken[2])

    def _start(self, op: Op) -> Nanoseconds:
        """Note that *op* starts now, or as soon as it is ready, and return that time."""
        now = self.scheduler.now
        if op.ready_ns >= now:
            op.start_ns = op.ready_ns
        else:
            op.start_ns = now
            op.by = self.freed
        return op.start_ns

    def ask(self, op: Op) -> None:
        """List the part *op* of a collective, which begins once it has its cores."""
        op.cores_held = 0
        self.listed += 1
        priority = op.own_priority
        heappush(self.list, (op.stream.priority if priority is None else priority, self.listed, op))
        self.request_grant()

    def hold_at_once(self, op: Op) -> bool:
        """Give the part *op* its cores if a grant would do the same. Nothing else is due at this instant.

        Returns whether it has them.
        """
        count, scheduler = self.cores_of_part, self.scheduler
        if (
            self.open_cores < count
            or self.list
            or self._held
            or self._lead is not None
            or scheduler.dirty
            or scheduler.choices is not None
        ):
            return False
        op.cores_held = count
        self.open_cores -= count
        self.resident += 1
        return True

    def give_back(self, op: Op) -> None:
        """Take back the cores of the part *op*."""
        held = op.cores_held
        self.freed = op
        self.open_cores += held
        self.resident -= 1
        if self.list:
            self.request_grant()

    def _hold(self, op: Op) -> bool:
        """Give the part at the head of the list its cores if so many are free; it shares them with no exclusive block.

        Returns whether they were. Cores that other parts hold are no reason to wait: those may wait for this one.
        """
        if self.open_cores < min(self.cores_of_part, self.cores - sum(each.cores_held for each in self.parts)):
            return False
        op.cores_held = self.cores_of_part
        self.open_cores -= op.cores_held
        self.scheduler.at(self.scheduler.now, self.begin_part, op)
        return True

    def drop(self, op: Op) -> None:
        """Take *op* out of its queue, or off the list."""
        if op in op.queue.fifo:
            op.queue.drop(op)
        else:
            self.list = [entry for entry in self.list if entry[2] is not op]
            heapify(self.list)
            self.request_grant()

    def _place(self, op: Op, kernel: Kernel) -> bool:
        """Place as many exclusive blocks as there are empty cores. Returns whether all blocks are placed."""
        if op.start_ns < 0:
            op.blocks_left, op.cores_held = kernel.blocks, 0
        count = min(op.blocks_left, self.open_cores - self.shared_blocks)
        if count <= 0:
            return False
        if op.start_ns < 0:
            self._start(op)
            if self.scheduler.choices is not None:
                self.scheduler.choices.started(op, 0)
            if kernel.moves_pages:
                self._stretch(op, kernel)
        self.open_cores -= count
        op.blocks_left -= count
        op.cores_held += count
        start = max(self.scheduler.now, op.start_ns)
        block_ns = self.paged_ns[op] if kernel.moves_pages else kernel.block_ns
        period_ns = block_ns + self.block_overhead_ns
        wave = Wave(op, count, start + period_ns)
        self.scheduler.at(wave.end_ns, self._wave_ended, wave)
        if not op.blocks_left:
            return True
        self._waves.setdefault(op, []).append(wave)
        rounds = op.blocks_left // op.cores_held - 1  # without the last round, which may have fewer blocks
        if rounds >= WORTHWHILE:
            self._skip(_Lead(op, rounds, period_ns))
        return False

    def _stretch(self, op: Op, kernel: Kernel) -> None:
        """Note the time of a block of a kernel on managed memory: each wave of blocks waits for its share of pages."""
        waves = -(-kernel.blocks // min(kernel.blocks, self.open_cores - self.shared_blocks))
        waiting = self.move_pages(op, kernel.block_ns) - kernel.block_ns
        self.paged_ns[op] = kernel.block_ns + waiting // waves

    def _skip(self, lead: _Lead) -> None:
        """Let all waves of the head end some rounds later; in each round every wave would take its cores again."""
        op, rounds, period_ns = lead
        op.blocks_left -= rounds * op.cores_held
        for wave in self._waves[op]:
            wave.end_ns += rounds * period_ns  # `_wave_ended` looks at it when the old end has come
        self._lead = lead

    def _is_disturbed(self, lead: _Lead) -> bool:
        """Whether one more block would find an empty core, or the head is another operation."""
        return self.open_cores > self.shared_blocks or self.list[0][2] is not lead.op

    def _fall_back(self, lead: _Lead, *, settled: bool) -> None:
        """Let the waves end in the round in which they now are.

        If a wave ends at this very instant, the next one has started only if the device has *settled* since.
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
            ahead = rounds - passed
            if ahead <= 0:
                continue
            op.blocks_left += ahead * wave.blocks
            wave.end_ns -= ahead * period_ns
            self.scheduler.forget(wave)
            if wave.end_ns > now:
                self.scheduler.at(wave.end_ns, self._wave_ended, wave)
            else:
                self._wave_ended(wave)

    def _take_cores(self, op: Op, work: CoreKernel) -> bool:
        """Start a core kernel if as many cores as it wants are empty. Returns whether they were."""
        if self.open_cores - self.shared_blocks < work.cores:
            return False
        op.cores_held = work.cores
        self.open_cores -= work.cores
        start, foreseen_ns = self._start(op), work.foreseen_ns()
        if foreseen_ns is None or op.stream.context.error is not None:
            self.scheduler.at(start, self._run_core, op)
        else:
            self.scheduler.at(start + foreseen_ns, self._core_ended, op)
        return True

    def _run_core(self, op: Op) -> None:
        """Run a core kernel that starts now; the run says how long it takes."""
        self._take_up(op, self.begin(op))

    def resume(self, op: Op) -> None:
        """Let a core kernel go on that has waited."""
        self._take_up(op, self.go_on(op))

    def end_wait(self, op: Op, occupation: Occupation) -> None:
        """End the wait of a core kernel that does not go on."""
        self.waiting.remove(op)
        self._take_up(op, occupation)

    def _take_up(self, op: Op, outcome: Occupation | Pause) -> None:
        """Let a core kernel wait, or end when it says."""
        now, start = self.scheduler.now, op.start_ns
        if isinstance(outcome, Pause):
            until_ns, cores, _ = outcome
            if cores < op.cores_held:
                self._cores_released((op, op.cores_held - cores))
            self.waiting.add(op, None if until_ns is None else start + until_ns)
            return
        duration_ns, released = outcome
        left = op.cores_held
        if len(released) == 1 and released[0] == (duration_ns, left):
            self.scheduler.at(max(now, start + duration_ns), self._core_ended, op)
            return
        for after_ns, count in released:
            left -= count
            self.scheduler.at(max(now, start + after_ns), self._cores_released, (op, count))
        assert not left, f"{op!r} gives back other cores than it took"
        self.scheduler.at(max(now, start + duration_ns), self._core_ended, op)

    def _cores_released(self, part: tuple[Op, int]) -> None:
        """Free the cores of a core kernel whose last block is over."""
        op, count = part
        self.freed = op
        self.open_cores += count
        op.cores_held -= count
        if self.list:
            self.request_grant()

    def _core_ended(self, op: Op) -> None:
        """End a core kernel, and free the cores that it still has."""
        self.open_cores += op.cores_held
        op.cores_held = 0
        self.freed = op
        self.resident -= 1
        self.finish_core(op, self.scheduler.now)
        if self.list:
            self.request_grant()

    def _move(self, op: Op, work: Work) -> None:
        """Start a copy inside the device, or a fill."""
        if isinstance(work, Fill):
            time = (self.pinned_fill_time if work.pinned else self.fill_time)[op.nbytes]
        else:
            time = (self.node_copy_time if op.queue.is_of_graph else self.copy_time)[op.nbytes]
        if work.moves_pages:
            time = self.move_pages(op, time)
        if self.scheduler.choices is not None:
            time = self.scheduler.choices.started(op, time)
        end = op.start_ns + time
        self.scheduler.at(end, self._end, op)
        if end - self.tail_ns > self.scheduler.now:
            self._held = True
            self.scheduler.at(end - self.tail_ns, self._let_next, op)

    def _ended(self, op: Op) -> None:
        """End a kernel, a copy or a fill."""
        self.freed = op
        self.resident -= 1
        work = op.work
        if type(work) is Kernel:
            kernel = work
            if not kernel.exclusive:
                self.shared_blocks -= kernel.blocks
        if self.paged_ns:
            self.paged_ns.pop(op, None)
        self.finish(op, self.scheduler.now)
        if self.list and not self.is_dirty:
            self.request_grant()

    def _wave_ended(self, wave: Wave) -> None:
        """End the blocks of *wave* and free their cores, or wait longer if rounds have been skipped meanwhile."""
        op = wave.op
        if wave.end_ns > self.scheduler.now:
            self.scheduler.at(wave.end_ns, self._wave_ended, wave)
            return
        waves = self._waves.get(op)
        if waves is not None and wave in waves:
            waves.remove(wave)
            if not waves:
                del self._waves[op]
        self.freed = op
        self.open_cores += wave.blocks
        op.cores_held -= wave.blocks
        if not op.blocks_left and not op.cores_held:
            self.scheduler.at(self.scheduler.now + self.drain_ns, self._end, op)
        self.request_grant()

    def _let_next(self, op: Op) -> None:
        """Let the next operation start: *op*, the copy or fill that held the list, is nearly done."""
        self.freed = op
        self._held = False
        self.request_grant()
