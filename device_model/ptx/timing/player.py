"""One SM: when each warp of its blocks does each of its runs. A block that ends makes room for the next one.

Warps are played in the order of time. A run takes issues of its scheduler and cycles of the pipes of that scheduler;
accesses take the LSU of the SM and, behind it, the memory. Times are cycles from the start of the launch.
"""

from collections.abc import Sequence
from heapq import heappush
from typing import NamedTuple

from device_model.ptx.code.order import Kind
from device_model.ptx.text.syntax import Register
from device_model.ptx.timing.runs import Run
from device_model.ptx.timing.samples import Access
from device_model.ptx.timing.trace import SECTOR
from device_model.sm.instructions import Unit
from device_model.sm.schedulers import SCHEDULERS, Barrier, Schedulers
from device_model.sm.spec import SmSpec

Step = tuple[Run, Access, bool]  # a run, the traffic of its accesses, whether it is in shared memory


class Memory(NamedTuple):
    """What the memory is to an SM. *sharers* SMs do the same; of the sectors that they read, *misses* (0 to 1) come
    from DRAM, and of those that they write, *written* go there. An atomic
    of a warp adds *hot* cycles to the slice of the L2 that has most of them, on average.
    """

    sharers: int
    misses: float
    written: float
    hot: float


class _Warp:
    """A warp: where it is in its steps, and when its registers are there."""

    __slots__ = ("answered", "block", "next", "number", "ready", "scheduler", "steps")

    def __init__(self, block: "_Block", steps: Sequence[Step], number: int) -> None:
        self.block = block
        self.steps = steps
        self.number = number
        self.scheduler = number % SCHEDULERS
        self.next = 0
        self.ready: dict[Register, float] = {}
        self.answered = 0.0  # when the L2 has answered to all that it has stored


class _Block:
    """A block: its barrier, and how many of its warps have not ended."""

    __slots__ = ("barrier", "end", "left")

    def __init__(self, warps: int, latency: float) -> None:
        self.left = warps
        self.end = 0.0
        self.barrier: Barrier[_Warp] = Barrier(latency)


class Player(Schedulers[_Warp]):
    """Plays blocks on an SM.

    Args:
        blocks: The steps of each warp of each block, in the order in which the blocks begin.
        resident: How many blocks the SM holds.
        spec: The SM.
        memory: What the memory is to it.
    """

    def __init__(self, blocks: Sequence[Sequence[Sequence[Step]]], resident: int, spec: SmSpec, memory: Memory) -> None:
        super().__init__(spec, memory.sharers)
        self._to_begin = list(reversed(blocks))
        self._resident = resident
        self._spec = spec
        self._shares = memory
        self._l2 = spec.l2_sectors / memory.sharers  # sectors a cycle
        self._l2_free = 0.0
        self._load_line, self._store_line = spec.load_line_permille / 1000, spec.store_line_permille / 1000
        self._tag = spec.l1_tag_permille / 1000
        self._store_sector = spec.store_sector_permille / 1000
        self._parts = spec.l2_parts_permille / 1000 / memory.sharers
        self._atomic = spec.atomic_lane_permille / 1000
        self._path = 0.0  # when the path from L1 to the L2 is free
        self._launched = 0.0
        self._begun: list[_Warp] = []
        self.warps = self._begun
        self._atomics = 0.0  # when the slice of the L2 that has most atomics has done them
        self.ends: list[float] = []

    def play(self) -> list[float]:
        """Return when each block ended, the first one first."""
        for _ in range(min(self._resident, len(self._to_begin))):
            self._begin(0.0)
        self.take_turns()
        return sorted(self.ends)

    def _begin(self, now: float) -> None:
        own = self._to_begin.pop()
        block = _Block(len(own), self._spec.barrier_permille / 1000)
        start = max(now, self._launched)
        self._launched = start + self._spec.block_warp * len(own)
        for steps in own:
            warp = _Warp(block, steps, len(self._begun))
            self._begun.append(warp)
            self._go_on(warp, start + self._spec.launch)

    def _go_on(self, warp: _Warp, now: float) -> None:
        if warp.next == len(warp.steps):
            self._end(warp, now)
            return
        ready = warp.ready
        for register, offset in warp.steps[warp.next][0].reads:
            there = ready.get(register)
            if there is not None and there - offset > now:
                now = there - offset
        heappush(self.to_run, (now, warp.number))

    def _end(self, warp: _Warp, now: float) -> None:
        block = warp.block
        block.left -= 1
        block.end = max(block.end, now)
        if not block.left:
            self.ends.append(block.end)
            if self._to_begin:
                self._begin(block.end)
        elif block.barrier.arrived >= block.left:
            self._complete(block.barrier)

    def step(self, warp: _Warp, now: float) -> None:
        """Do the next run of *warp*."""
        run, access, is_shared = warp.steps[warp.next]
        warp.next += 1
        if run.kind is Kind.MATH:
            self._math(warp, run, now)
        elif run.kind is Kind.BARRIER:
            self._barrier(warp, now)
        elif run.kind is Kind.FENCE:
            self._fence(warp, run, now)
        elif is_shared:
            self._shared(warp, run, access, now)
        else:
            self._global(warp, run, access, now)

    def _math(self, warp: _Warp, run: Run, now: float) -> None:
        pipes = self.pipes[warp.scheduler]
        start = now
        for unit, _ in run.units:
            start = max(start, self.lsu if unit is Unit.LSU else pipes[unit])
        for unit, cycles in run.units:
            if unit is Unit.LSU:
                self.lsu = start + cycles
            else:
                pipes[unit] = start + cycles
        self.issue[warp.scheduler] = now + run.issues
        ready = warp.ready
        for register, offset in run.writes:
            ready[register] = start + offset
        self._go_on(warp, start + run.until)

    def _barrier(self, warp: _Warp, now: float) -> None:
        block = warp.block
        self.issue[warp.scheduler] = now + 1
        self.arrive(block.barrier, now)
        block.barrier.waiting.append(warp)
        if block.barrier.arrived >= block.left:
            self._complete(block.barrier)

    def _fence(self, warp: _Warp, run: Run, now: float) -> None:
        self.issue[warp.scheduler] = now + run.issues
        now = max([now, warp.answered, *warp.ready.values()])
        self._go_on(warp, now + run.asks * self._spec.l2_permille / 1000)

    def _complete(self, barrier: Barrier[_Warp]) -> None:
        waiting, barrier.waiting, barrier.arrived = barrier.waiting, [], 0
        for warp in waiting:
            self._go_on(warp, barrier.end)

    def _shared(self, warp: _Warp, run: Run, access: Access, now: float) -> None:
        phases = max(access.phases, run.issues)
        start = max(now, self.lsu)
        self.lsu = start + phases
        self.issue[warp.scheduler] = now + run.issues
        base = start + (self._spec.atomic_shared if run.kind is Kind.ATOM else self._spec.lds + self._spec.phase)
        for register, number in run.writes:
            warp.ready[register] = base + phases * (number + 1) / run.issues
        self._go_on(warp, max(now + run.issues, start + phases - 16))

    def _global(self, warp: _Warp, run: Run, access: Access, now: float) -> None:
        is_load = run.kind is Kind.LOAD
        cycles = self._cycles(run, access)
        self.lsu = max(now, self.lsu) + run.issues
        start = max(now, self.lsu - run.issues, self._path)
        self._path = start + cycles
        self.issue[warp.scheduler] = now + run.issues
        arrival = start + self._spec.l1
        if access.sectors:
            arrival = self._from_l2(run, access, start, self._shares.misses if is_load else self._shares.written)
        if run.kind is Kind.STORE:  # a block ends when the L2 has taken all that it has stored
            warp.block.end = max(warp.block.end, self._l2_free)
        if run.kind is Kind.ATOM and access.atomics:
            queue = self._shares.hot * self._shares.sharers * run.issues
            self._atomics = max(self._atomics, arrival) + queue
            arrival = self._atomics
            warp.block.end = max(warp.block.end, arrival)
        if not is_load:
            warp.answered = max(warp.answered, arrival)
        for register, _ in run.writes:
            warp.ready[register] = arrival
        self._go_on(warp, max(now + run.issues, start + cycles - 16))

    def _cycles(self, run: Run, access: Access) -> float:
        """Return how long the SM is busy with giving the accesses of *run* to the L2."""
        if run.kind is Kind.LOAD:
            return max(self._load_line * access.lines, self._tag * access.tags)
        if run.kind is Kind.ATOM:
            again = max(0, access.same - run.issues)  # lanes that come back to an address
            return max(self._store_sector * access.sectors, self._atomic * again)
        return max(self._store_sector * access.sectors, self._store_line * access.lines)

    def _from_l2(self, run: Run, access: Access, start: float, share: float) -> float:
        """Return when the last of the accesses of *run* arrives."""
        cycles = access.sectors / self._l2
        if run.kind is Kind.STORE and access.wanted < access.sectors:  # sectors of which a part is written
            cycles = max(cycles, access.sectors / self._parts)
        self._l2_free = max(self._l2_free, start) + cycles
        at = self._l2_free - cycles
        return self.memory.request(at, access.sectors, share * access.sectors)


assert SECTOR == 32, "memory counts sectors"
