"""One SM: when each warp of its blocks does each of its runs. A block that ends makes room for the next one.

Warps are played in the order of time. A run takes issues of its scheduler and cycles of the pipes of that scheduler;
accesses take the LSU of the SM and, behind it, the memory. Times are cycles from the start of the launch.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from device_model.ptx.code.order import Kind
from device_model.ptx.text.syntax import Register
from device_model.ptx.timing.costs import Pipe
from device_model.ptx.timing.rates import RATES
from device_model.ptx.timing.runs import Run
from device_model.ptx.timing.samples import Access
from device_model.ptx.timing.trace import SECTOR
from device_model.sm.memory import SmMemory
from device_model.sm.spec import SmSpec

SCHEDULERS = 4
Step = tuple[Run, Access, bool]  # a run, the traffic of its accesses, whether it is in shared memory


class Memory(NamedTuple):
    """What the memory is to an SM: *sharers* SMs do the same; of the sectors that they read, *misses* (0 to 1) come
    from DRAM, and of those that they write, *written* go there. An atomic
    of a warp adds *hot* cycles of the L2 to the line that has most of them, on average.
    """

    sharers: int
    misses: float
    written: float
    hot: float


class _Warp:
    __slots__ = ("block", "next", "ready", "scheduler", "steps")

    def __init__(self, block: "_Block", steps: Sequence[Step], scheduler: int) -> None:
        self.block = block
        self.steps = steps
        self.scheduler = scheduler
        self.next = 0
        self.ready: dict[Register, float] = {}


class _Block:
    __slots__ = ("arrived", "end", "left", "time", "waiting")

    def __init__(self, warps: int) -> None:
        self.left = warps
        self.end = 0.0
        self.arrived = 0
        self.time = 0.0
        self.waiting: list[_Warp] = []


class Player:
    """Plays blocks on an SM.

    Args:
        blocks: The steps of each warp of each block, in the order in which the blocks begin.
        resident: How many blocks the SM holds.
        spec: The SM.
        memory: What the memory is to it.
    """

    def __init__(self, blocks: Sequence[Sequence[Sequence[Step]]], resident: int, spec: SmSpec, memory: Memory) -> None:
        self._to_begin = list(reversed(blocks))
        self._resident = resident
        self._spec = spec
        self._memory = SmMemory(spec, memory.sharers)
        self._shares = memory
        self._l2 = RATES.l2_sectors / memory.sharers  # sectors a cycle
        self._l2_free = 0.0
        self._issue = [0.0] * SCHEDULERS
        self._pipes = [[0.0] * len(Pipe) for _ in range(SCHEDULERS)]
        self._lsu = 0.0
        self._path = 0.0  # when the path from L1 to the L2 is free
        self._launched = 0.0
        self._number = 0  # of what is to run
        self._warps = 0  # that have begun
        self._atomics = 0.0  # when the L2 has done the atomics on the line that has most
        self._to_run: list[tuple[float, int, _Warp]] = []
        self.ends: list[float] = []

    def play(self) -> list[float]:
        """Return when each block ended, the first one first."""
        for _ in range(min(self._resident, len(self._to_begin))):
            self._begin(0.0)
        to_run, issue = self._to_run, self._issue
        while to_run:
            now, _, warp = heappop(to_run)
            free = issue[warp.scheduler]
            if free > now:
                self._push(warp, free)
                continue
            self._step(warp, now)
        return sorted(self.ends)

    def _begin(self, now: float) -> None:
        own = self._to_begin.pop()
        block = _Block(len(own))
        start = max(now, self._launched)
        self._launched = start + RATES.block * len(own)
        for number, steps in enumerate(own):
            warp = _Warp(block, steps, (self._warps + number) % SCHEDULERS)
            self._go_on(warp, start + RATES.launch)
        self._warps += len(own)

    def _push(self, warp: _Warp, now: float) -> None:
        self._number += 1
        heappush(self._to_run, (now, self._number, warp))

    def _go_on(self, warp: _Warp, now: float) -> None:
        if warp.next == len(warp.steps):
            self._end(warp, now)
            return
        ready = warp.ready
        for register, offset in warp.steps[warp.next][0].reads:
            there = ready.get(register)
            if there is not None and there - offset > now:
                now = there - offset
        self._push(warp, now)

    def _end(self, warp: _Warp, now: float) -> None:
        block = warp.block
        block.left -= 1
        block.end = max(block.end, now)
        if not block.left:
            self.ends.append(block.end)
            if self._to_begin:
                self._begin(block.end)
        elif block.arrived >= block.left:
            self._complete(block)

    def _step(self, warp: _Warp, now: float) -> None:
        run, access, is_shared = warp.steps[warp.next]
        warp.next += 1
        if run.kind is Kind.MATH:
            self._math(warp, run, now)
        elif run.kind is Kind.BARRIER:
            self._barrier(warp, now)
        elif is_shared:
            self._shared(warp, run, access, now)
        else:
            self._global(warp, run, access, now)

    def _math(self, warp: _Warp, run: Run, now: float) -> None:
        pipes = self._pipes[warp.scheduler]
        start = now
        for pipe, _ in run.pipes:
            free = self._lsu if pipe is Pipe.LSU else pipes[pipe]
            start = max(start, free)
        for pipe, cycles in run.pipes:
            if pipe is Pipe.LSU:
                self._lsu = max(self._lsu, start) + cycles
            else:
                pipes[pipe] = max(pipes[pipe], start) + cycles
        self._issue[warp.scheduler] = now + run.issues
        ready = warp.ready
        for register, offset in run.writes:
            ready[register] = start + offset
        self._go_on(warp, start + run.until)

    def _barrier(self, warp: _Warp, now: float) -> None:
        block = warp.block
        self._issue[warp.scheduler] = now + 1
        block.time = max(block.time, now) + self._spec.barrier_arrival
        block.arrived += 1
        block.waiting.append(warp)
        if block.arrived >= block.left:
            self._complete(block)

    def _complete(self, block: _Block) -> None:
        waiting, block.waiting, block.arrived = block.waiting, [], 0
        for warp in waiting:
            self._go_on(warp, block.time + self._spec.barrier_permille / 1000)

    def _shared(self, warp: _Warp, run: Run, access: Access, now: float) -> None:
        phases = max(access.phases, run.issues)
        start = max(now, self._lsu)
        self._lsu = start + phases
        self._issue[warp.scheduler] = now + run.issues
        base = start + (RATES.atomic_shared if run.kind is Kind.ATOM else self._spec.lds + self._spec.phase)
        for register, number in run.writes:
            warp.ready[register] = base + phases * (number + 1) / run.issues
        self._go_on(warp, max(now + run.issues, start + phases - 16))

    def _global(self, warp: _Warp, run: Run, access: Access, now: float) -> None:
        is_load = run.kind is Kind.LOAD
        if is_load:
            cycles = RATES.line * access.lines
        else:
            cycles = max(self._spec.store_sector_permille / 1000 * access.sectors,
                         RATES.store_line * access.lines)  # fmt: skip
        self._lsu = max(now, self._lsu) + run.issues
        start = max(now, self._lsu - run.issues, self._path)
        self._path = start + cycles
        self._issue[warp.scheduler] = now + run.issues
        arrival = start + RATES.l1
        if access.sectors:
            share = self._shares.misses if is_load else self._shares.written
            self._l2_free = max(self._l2_free, start) + access.sectors / self._l2
            queued = self._l2_free - start - access.sectors / self._l2
            arrival = self._memory.request(start + queued, access.sectors, share * access.sectors)
        if run.kind is Kind.ATOM and access.atomics:
            queue = self._shares.hot * self._shares.sharers * run.issues
            self._atomics = max(self._atomics, arrival) + queue
            arrival = self._atomics
            warp.block.end = max(warp.block.end, arrival)
        for register, _ in run.writes:
            warp.ready[register] = arrival
        self._go_on(warp, max(now + run.issues, start + cycles - 16))


assert SECTOR == 32, "memory counts sectors"
