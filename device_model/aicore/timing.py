"""Plays the programs of a launch: when each instruction starts and ends.

Each core has an in-order queue per pipe. Its scalar pipe issues; a pipe takes an instruction when it is issued, the one
before it has let go, and the flags it waits for are set. Copies through GM are flows: they issue, wait out a latency
(which the next copy of the pipe may do meanwhile), and then share the bandwidth of the memory with all other cores'
flows (bandwidth.py). Everything else takes cycles that are known when it starts. Formulas and their sources stand in
docs/accuracy.md.

Times are core cycles from the start of the task.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from types import MappingProxyType

from device_model.aicore.bandwidth import Bandwidth
from device_model.aicore.l2 import Cache
from device_model.aicore.names import CoreType, Pipe
from device_model.aicore.program import Direction, Instruction, Kind, Program
from device_model.aicore.spec import CoreSpec

_REPORTED = {
    Pipe.S: "scalar", Pipe.V: "vec", Pipe.M: "mac", Pipe.MTE1: "mte1", Pipe.MTE2: "mte2", Pipe.MTE3: "mte3",
    Pipe.FIX: "fixpipe",
}  # fmt: skip
_GOLDEN = 0.6180339887498949  # spreads core numbers over the range of start times evenly, and the same each time


class Timeline:
    """The times of one launch. Instructions carry their own, in core cycles from the start of the task."""

    __slots__ = ("_cores", "busy_us", "duration_ns", "free_cycles", "ns_per_cycle")

    def __init__(
        self,
        duration_ns: int,
        ns_per_cycle: float,
        busy_us: Mapping[str, float],
        free_cycles: Mapping[str, float],
        cores: Mapping[int, str],
    ) -> None:
        self.duration_ns = duration_ns  # the whole task, with what a launch takes beyond its blocks
        self.ns_per_cycle = ns_per_cycle
        self.busy_us = busy_us  # as the vendor's profiler reports: means over the cores in use
        self.free_cycles = free_cycles  # by physical core: when its last block is over
        self._cores = cores

    def __repr__(self) -> str:
        return f"<Timeline of {len(self.free_cycles)} cores: {self.duration_ns / 1000:.2f} us>"

    def core_of(self, program: Program) -> str:
        """The physical core on which *program* ran, as "AIV 3"."""
        return self._cores[program.index]


def play(programs: Sequence[Program], spec: CoreSpec) -> Timeline:
    """Fill in `start` and `end` of every instruction of *programs*, which are one launch on cores of *spec*."""
    return _Play(programs, spec).run()


class _Core:
    """One program on its way."""

    __slots__ = ("begin", "busy", "done", "flowing", "free", "is_over", "name", "next", "number", "program", "queues",
                 "scalar", "warm")  # fmt: skip

    def __init__(self, program: Program, name: str, begin: float) -> None:
        self.program = program
        self.name = name
        self.begin = begin
        self.scalar = begin  # when the scalar pipe is free
        self.next = 0  # the instruction that it issues next
        self.queues: dict[Pipe, deque[tuple[Instruction, float]]] = {pipe: deque() for pipe in Pipe}
        self.free = dict.fromkeys(Pipe, begin)  # when the next instruction may start
        self.done = dict.fromkeys(Pipe, begin)  # when all before it are over
        self.warm = dict.fromkeys(Pipe, -1.0)  # until when the start-up of the next one is hidden
        self.flowing: dict[Pipe, deque[Instruction]] = {pipe: deque() for pipe in Pipe}  # not over, in order
        self.busy = dict.fromkeys(Pipe, 0.0)
        self.is_over = False


class _Play:
    def __init__(self, programs: Sequence[Program], spec: CoreSpec) -> None:
        self.programs = programs
        self.spec = spec
        self.cycles_per_ns = spec.mhz / 1000
        self.bandwidth = Bandwidth(spec)
        self.cache = Cache(spec.l2_bytes)
        self.starts: list[tuple[float, int, _Core, Instruction]] = []  # flows whose data phase begins then
        self.sequence = 0
        self.waiting: dict[Instruction, list[_Core]] = {}  # cores that cannot go on before its end is known
        self.known: set[Instruction] = set()  # whose end is known
        self.active: dict[Instruction, tuple[_Core, float]] = {}
        self.woken: list[_Core] = []  # cores that may go on
        self.busy_by: dict[str, dict[Pipe, float]] = {}
        self.core_time: dict[str, float] = {}
        self.free_cycles: dict[str, float] = {}
        self.names: dict[int, str] = {}
        self.left: dict[str, deque[Program]] = {}

    def run(self) -> Timeline:
        spec = self.spec
        fixed = (spec.schedule_ns + spec.init_ns + spec.soft_init_ns) * self.cycles_per_ns
        for program in self.programs:
            count = spec.cores[program.core_type]
            self.left.setdefault(f"{program.core_type.name} {self._number(program, count)}", deque()).append(program)
        for place, (name, queue) in enumerate(self.left.items()):
            skew = spec.start_skew_ns * ((place * _GOLDEN) % 1.0) if len(self.left) > 1 else 0.0
            self._begin(name, queue.popleft(), fixed + skew * self.cycles_per_ns)
        self._flow()
        end = max(self.free_cycles.values(), default=fixed)
        duration = round(end / self.cycles_per_ns) + spec.report_ns
        return Timeline(
            duration,
            1 / self.cycles_per_ns,
            MappingProxyType(self._reported()),
            MappingProxyType(self.free_cycles),
            MappingProxyType(self.names),
        )

    def _number(self, program: Program, count: int) -> int:
        vectors = self.spec.cores[CoreType.AIV] // self.spec.cores[CoreType.AIC]
        mixed = any(each.core_type is not program.core_type for each in self.programs[:3])
        if program.core_type is CoreType.AIV and mixed:
            return (program.block % self.spec.cores[CoreType.AIC]) * vectors + program.sub_block
        return program.block % count

    def _reported(self) -> dict[str, float]:
        per_us = self.cycles_per_ns * 1000
        report: dict[str, float] = {}
        for core_type in CoreType:
            names = [name for name in self.core_time if name.startswith(core_type.name)]
            if not names:
                continue
            key = {"AIC": "aic_time", "AIV": "aiv_time"}[core_type.name]
            report[key] = sum(self.core_time[name] for name in names) / len(names) / per_us
            for pipe, called in _REPORTED.items():
                busy = sum(self.busy_by[name][pipe] for name in names) / len(names) / per_us
                if busy:
                    report[called] = max(busy, report.get(called, 0.0))
        return report

    # --- cores

    def _begin(self, name: str, program: Program, begin: float) -> None:
        self.names[program.index] = name
        self.busy_by.setdefault(name, dict.fromkeys(Pipe, 0.0))
        self._settle(_Core(program, name, begin))

    def _settle(self, core: _Core) -> None:
        """Let *core* go on, and whoever waited for what it does then."""
        self._advance(core)
        while self.woken:
            self._advance(self.woken.pop())

    def _advance(self, core: _Core) -> None:
        """Go on as far as the ends that are known allow."""
        if core.is_over:
            return
        moved = True
        while moved:
            moved = self._issue(core)
            for pipe, queue in core.queues.items():
                while queue and self._take(core, pipe, *queue[0]):
                    queue.popleft()
                    moved = True
        if core.next < len(core.program.instructions) or any(core.queues.values()) or any(core.flowing.values()):
            return
        core.is_over = True
        self._end(core)

    def _issue(self, core: _Core) -> bool:
        """Let the scalar pipe issue; did it?"""
        spec, instructions, before = self.spec, core.program.instructions, core.next
        while core.next < len(instructions):
            each = instructions[core.next]
            at = core.scalar + each.scalar
            if each.pipe is Pipe.S:
                if each.kind is Kind.BARRIER_ALL and (any(core.queues.values()) or any(core.flowing.values())):
                    break
                if each.kind in (Kind.WAIT, Kind.CROSS_WAIT) and not self._are_known(core, each):
                    break
                start = at
                if each.kind is Kind.BARRIER_ALL:
                    at = max(at, *core.done.values()) + spec.barrier_issue
                elif each.kind in (Kind.WAIT, Kind.CROSS_WAIT):
                    wait = spec.cross_core if each.kind is Kind.CROSS_WAIT else spec.flag_latency
                    at = max([at, *(set_.end + wait for set_ in each.waits)]) + spec.flag_issue
                else:
                    at += each.startup + each.cycles + (spec.flag_issue if each.kind is not Kind.WORK else 0)
                # A pipe that waits is not busy.
                core.busy[Pipe.S] += at - start if each.kind is Kind.WORK else spec.flag_issue
                core.scalar = core.free[Pipe.S] = core.done[Pipe.S] = at
                self._finish(each, start, at)
            else:
                issued = at + spec.flag_issue
                core.busy[Pipe.S] += issued - core.scalar
                core.scalar = issued
                core.queues[each.pipe].append((each, issued))
            core.next += 1
        return core.next > before

    def _are_known(self, core: _Core, each: Instruction) -> bool:
        for set_ in each.waits:
            if set_ not in self.known:
                cores = self.waiting.setdefault(set_, [])
                if core not in cores:
                    cores.append(core)
                return False
        return True

    def _take(self, core: _Core, pipe: Pipe, each: Instruction, issued: float) -> bool:
        """Let *pipe* take *each*, if what it needs is known."""
        kind, free = each.kind, core.free[pipe]
        start = issued if issued > free else free
        if kind is Kind.WORK and each.flow is None:
            if pipe is not Pipe.V and core.flowing[pipe]:
                return False
            cold = core.warm[pipe] < start
            end = start + each.cycles + (each.startup if cold else 0)
            core.free[pipe] = core.warm[pipe] = end
            core.done[pipe] = max(core.done[pipe], end)
            core.busy[pipe] += end - start
            self._finish(each, start, end)
            return True
        if each.flow is not None:
            core.free[pipe] = start + self.spec.copy_issue
            each.start = start
            core.flowing[pipe].append(each)
            if len(core.flowing[pipe]) == 1:
                self._schedule(core, each, 0.0)
            return True
        if kind is Kind.WAIT and not self._are_known(core, each):
            return False
        if kind in (Kind.SET, Kind.CROSS_SET, Kind.BARRIER, Kind.BARRIER_ALL) and core.flowing[pipe]:
            return False
        end = max(start, core.done[pipe]) if kind is not Kind.WAIT else start
        if kind is Kind.WAIT:
            end = max([start, *(set_.end + self.spec.flag_latency for set_ in each.waits)])
            core.warm[pipe] = -1.0
        elif kind in (Kind.BARRIER, Kind.BARRIER_ALL):
            core.warm[pipe] = -1.0
        if kind not in (Kind.SET, Kind.CROSS_SET):
            core.free[pipe] = end
        self._finish(each, start, end)
        return True

    def _schedule(self, core: _Core, each: Instruction, earliest: float) -> None:
        """The data of *each* flow once its latency is over and the flow before it has ended."""
        flow = each.flow
        assert flow is not None, f"{each!r} moves nothing through GM"
        hit = self.cache.touch(flow)
        if flow.direction is Direction.WRITE:
            latency = self.spec.write_latency_ns
        else:
            latency = self.spec.hit_latency_ns if hit else self.spec.read_latency_ns
        begin = each.start + self.spec.copy_issue + latency * self.cycles_per_ns
        self.sequence += 1
        heappush(self.starts, (max(begin, earliest), self.sequence, core, each))
        self.active[each] = core, float(hit)

    def _finish(self, each: Instruction, start: float, end: float) -> None:
        each.start, each.end = start, end
        self.known.add(each)
        self.woken += self.waiting.pop(each, ())

    def _end(self, core: _Core) -> None:
        end = max(core.scalar + core.program.tail_scalar, *core.done.values())
        name = core.name
        self.free_cycles[name] = end
        self.core_time[name] = self.core_time.get(name, 0.0) + end - core.begin
        for pipe, busy in core.busy.items():
            self.busy_by[name][pipe] += busy
        queue = self.left[name]
        if queue:
            self._begin(name, queue.popleft(), end + self.spec.next_block_ns * self.cycles_per_ns)

    # --- flows

    def _flow(self) -> None:
        """Let data move until none is left to move."""
        bandwidth, starts = self.bandwidth, self.starts
        while starts or bandwidth.is_busy:
            ending = bandwidth.next_end()
            if starts and (ending is None or starts[0][0] <= ending):
                now, _, core, each = heappop(starts)
                bandwidth.add(now, each, hit=bool(self.active[each][1]))
                continue
            for each in bandwidth.pop_ended():
                core = self.active.pop(each)[0]
                self._flow_ended(core, each, bandwidth.now)

    def _flow_ended(self, core: _Core, each: Instruction, now: float) -> None:
        pipe = each.pipe
        flowing = core.flowing[pipe]
        flowing.popleft()
        core.busy[pipe] += now - max(each.start, core.done[pipe])
        core.done[pipe] = max(core.done[pipe], now)
        if flowing:
            self._schedule(core, flowing[0], now)
        self._finish(each, each.start, now)
        self._settle(core)
