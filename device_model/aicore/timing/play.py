"""Plays the programs of a launch: when each instruction starts and ends.

Each core has an in-order queue for each pipe, and its scalar pipe issues to them. A pipe starts an instruction when it
has been issued, the one before it no longer occupies the pipe, and the flags that it waits for are set. Copies through
GM are flows. They are issued, wait for a latency (which overlaps with that of the pipe's next copy), and then share the
bandwidth of the memory with the flows of all other cores (bandwidth.py). All other instructions take cycles that are
known when they start. The formulas and their sources are in docs/accuracy.md.

Cores affect each other only by flows and by flags between cores. Between two of these a core is played in one go, pipe
by pipe. Each pipe goes on until it needs the end of an instruction that is not known yet, and is woken when it is.

Times are core cycles from the start of the task.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

from device_model.aicore.core.names import PIPE_FIX, PIPE_M, PIPE_S, PIPE_V, PIPES, PIPES_OF, CoreType, Pipe
from device_model.aicore.core.program import Direction, Instruction, Kind, Program
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.timing.bandwidth import Bandwidth
from device_model.aicore.timing.gm import HBM, Gm
from device_model.aicore.timing.l2 import Cache

_REPORTED = {
    Pipe.S: "scalar", Pipe.V: "vec", Pipe.M: "mac", Pipe.MTE1: "mte1", Pipe.MTE2: "mte2", Pipe.MTE3: "mte3",
    Pipe.FIX: "fixpipe",
}  # fmt: skip
# A member that is read through its enum takes ten times as long.
_WORK, _WAIT, _SET, _READ = Kind.WORK, Kind.WAIT, Kind.SET, Direction.READ
_CROSS_SET, _CROSS_WAIT, _BARRIER_ALL = Kind.CROSS_SET, Kind.CROSS_WAIT, Kind.BARRIER_ALL
_GOLDEN = 0.6180339887498949  # spreads core numbers evenly over a range, and the same each time


@dataclass(eq=False, slots=True)
class Timeline:
    """The times of one launch. Instructions carry their own, in core cycles from the start of the task."""

    duration_ns: int  # the whole task, with the overhead of the launch
    ns_per_cycle: float
    busy_us: Mapping[str, float]  # as the vendor's profiler reports: means over the cores in use
    free_cycles: Mapping[str, float]  # by physical core: when its last block ends
    _cores: Mapping[int, str]

    def __repr__(self) -> str:
        return f"<Timeline of {len(self.free_cycles)} cores: {self.duration_ns / 1000:.2f} us>"

    def core_of(self, program: Program) -> str:
        """Return the physical core that ran *program*, as "AIV 3"."""
        return self._cores[program.index]


def play(programs: Sequence[Program], spec: CoreSpec, l2: Cache | None = None) -> Timeline:
    """Set `start` and `end` of all instructions of *programs*, which are one launch on the cores of *spec*.

    *l2* has what earlier launches left in the L2, and then also what this one leaves; by default the L2 is empty.
    """
    return _Play(programs, spec, l2).run()


class _Queue:
    """One pipe of a core: the instructions that were issued to it, and its times."""

    __slots__ = (
        "busy",
        "core",
        "done",
        "flowing",
        "free",
        "instructions",
        "next",
        "pipe",
        "waits_for",
        "warm",
    )

    def __init__(self, core: "_Core", pipe: Pipe, begin: float) -> None:
        self.core = core
        self.pipe = pipe
        self.instructions: list[Instruction] = []
        self.next = 0  # the index of the next instruction
        self.free = begin  # when the next instruction may start
        self.done = begin  # when all earlier ones end, as far as known
        self.waits_for: Instruction | None = None
        self.warm = -1.0  # until then the start-up of the next one is hidden
        self.flowing: deque[Instruction] = deque()  # copies that have not ended, and flags set after them, in order
        self.busy = 0.0

    def is_idle(self) -> bool:
        """Whether it has finished all instructions that were issued to it."""
        return self.next == len(self.instructions) and not self.flowing


class _Core:
    """One program that is being played."""

    __slots__ = ("away_ns", "begin", "is_over", "name", "next", "program", "queues", "scalar")

    def __init__(self, program: Program, name: str, begin: float, init: float, away_ns: float) -> None:
        self.program = program
        self.away_ns = away_ns
        self.name = name
        self.begin = begin
        self.scalar = begin + init  # when the scalar pipe is free
        self.next = 0  # the index of the instruction that it issues next
        self.queues = [_Queue(self, pipe, begin) for pipe in PIPES]
        self.is_over = False
        self.queues[PIPE_S].busy = init

    def is_idle(self) -> bool:
        """Whether all pipes have finished all instructions that were issued to them."""
        for queue in self.queues:  # noqa: SIM110 - a third of the time of a generator
            if not queue.is_idle():
                return False
        return True


class _Play:
    """One launch that is being played."""

    def __init__(self, programs: Sequence[Program], spec: CoreSpec, l2: Cache | None) -> None:
        self.programs = programs
        self.spec = spec
        self.cycles_per_ns = spec.mhz / 1000
        self.gm = Gm(programs, spec, l2)
        self.bandwidth: Bandwidth = self.gm.bandwidth
        self.waiting: dict[Instruction, list[_Queue]] = {}  # instruction -> queues that need its end to go on
        # Copy -> queues whose first copy lacks only bytes that this copy brings.
        self.incomplete: dict[Instruction, list[_Queue]] = {}
        self.woken: list[_Queue] = []  # queues that may go on; the one of S stands for its core
        self.busy_by: dict[str, list[float]] = {}
        self.core_time: dict[str, float] = {}
        self.free_cycles: dict[str, float] = {}
        self.names: dict[int, str] = {}
        self.to_run: dict[str, deque[Program]] = {}

    def run(self) -> Timeline:
        self.begin_all()
        self._flow()
        return self.timeline()

    def begin_all(self) -> None:
        """Let the first block of each core begin."""
        spec = self.spec
        for program in self.programs:
            count = spec.cores[program.core_type]
            self.to_run.setdefault(f"{program.core_type.name} {self._number(program, count)}", deque()).append(program)
            for each in program.instructions:
                each.end = inf  # not known yet
        fixed = (spec.schedule_ns + spec.init_ns) * self.cycles_per_ns
        self.places = {name: place for place, name in enumerate(self.to_run)}
        for place, (name, queue) in enumerate(self.to_run.items()):
            self._begin(name, queue.popleft(), fixed + place * spec.start_interval_ns * self.cycles_per_ns)
            self._run_woken()

    def timeline(self) -> Timeline:
        """Return the times, once all blocks have ended."""
        spec = self.spec
        fixed = (spec.schedule_ns + spec.init_ns) * self.cycles_per_ns
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
            for pipe in PIPES_OF[core_type]:
                busy = sum(self.busy_by[name][pipe] for name in names) / len(names) / per_us
                report[_REPORTED[pipe]] = max(busy, report.get(_REPORTED[pipe], 0.0))
        return report

    # --- cores

    def _begin(self, name: str, program: Program, begin: float) -> None:
        self.names[program.index] = name
        self.busy_by.setdefault(name, [0.0] * len(PIPES))
        init = self.spec.soft_init_ns * self.cycles_per_ns
        away = (self.places[name] * _GOLDEN) % 1.0 * self.spec.latency_spread_ns
        core = _Core(program, name, begin, init, away)
        self.woken.append(core.queues[PIPE_S])

    def _run_woken(self) -> None:
        """Let all woken queues go on, and the queues that they wake."""
        woken = self.woken
        while woken:
            queue = woken.pop()
            core = queue.core
            if queue.pipe is PIPE_S:
                self._issue(core)
            else:
                self._take(queue)
            if queue.is_idle() and (not woken or woken[-1].core is not core):
                self._look(core)

    def _look(self, core: _Core) -> None:
        """Wake the scalar pipe if it can go on, or end the block if all pipes are done."""
        if core.is_over:
            return
        instructions = core.program.instructions
        if core.next < len(instructions):
            each = instructions[core.next]
            if each.kind is _BARRIER_ALL and core.is_idle():
                self.woken.append(core.queues[PIPE_S])
        elif core.is_idle():
            core.is_over = True
            self._end(core)

    def _issue(self, core: _Core) -> None:
        """Let the scalar pipe issue as far as it can."""
        spec, queues, scalar_queue = self.spec, core.queues, core.queues[PIPE_S]
        instructions = core.program.instructions
        flag_issue = spec.flag_issue
        scalar, busy, place = core.scalar, scalar_queue.busy, core.next
        touched = [False] * len(queues)
        while place < len(instructions):
            each = instructions[place]
            at = scalar + each.scalar
            pipe = each.pipe
            if pipe:
                at += flag_issue
                busy += at - scalar
                scalar = at
                each.start = at  # the earliest; the pipe sets the real one
                queues[pipe].instructions.append(each)
                touched[pipe] = True
                place += 1
                continue
            kind, start = each.kind, at
            if kind is _WORK:
                at += each.startup + each.cycles
            elif kind is _BARRIER_ALL:
                if any(touched) or not core.is_idle():
                    break
                for queue in queues:
                    at = max(at, queue.done)
                at += spec.barrier_issue
            elif kind is _WAIT or kind is _CROSS_WAIT:
                if not self._are_known(scalar_queue, each):
                    break
                wait = spec.cross_core if kind is _CROSS_WAIT else spec.flag_latency
                for set_ in each.waits:
                    at = max(at, set_.end + wait)
                at += flag_issue
            else:
                at += flag_issue
            # A pipe that waits is not busy.
            busy += each.scalar + (at - start if kind is _WORK else flag_issue)
            scalar = scalar_queue.done = at
            self._finish(each, start, at)
            place += 1
        core.scalar, scalar_queue.busy, core.next = scalar, busy, place
        self.woken += [queues[pipe] for pipe in reversed(PIPES) if touched[pipe]]

    def _are_known(self, queue: _Queue, each: Instruction) -> bool:
        for set_ in each.waits:
            if set_.end == inf:
                self._wait_for(queue, set_)
                return False
        return True

    def _wait_for(self, queue: _Queue, set_: Instruction) -> None:
        """Wake *queue* once when *set_* ends, however often this is called before."""
        if queue.waits_for is not set_:
            queue.waits_for = set_
            self.waiting.setdefault(set_, []).append(queue)

    def _take(self, queue: _Queue) -> None:
        """Play a pipe up to an instruction that needs an end which is not known yet."""
        spec, instructions = self.spec, queue.instructions
        free, done, warm, busy, flowing = queue.free, queue.done, queue.warm, queue.busy, queue.flowing
        is_vector = queue.pipe is PIPE_V
        is_cube = queue.pipe is PIPE_M or queue.pipe is PIPE_FIX
        copy_issue, flag_latency = spec.copy_issue, spec.flag_latency
        waiting, woken = self.waiting, self.woken
        for place in range(queue.next, len(instructions)):
            each = instructions[place]
            kind = each.kind
            start = each.start
            if start < free:
                start = free
            if kind is _WORK:
                if each.waits and not is_vector:  # for unit flags: it starts when those it waits for have
                    begun = self._begun(queue, each)
                    if begun == inf:
                        break
                    if begun > start:
                        start = begun
                if each.flow is not None:
                    free = start + copy_issue
                    each.start = start
                    flowing.append(each)
                    if len(flowing) == 1:
                        self._schedule(queue, each, 0.0)
                    continue
                if flowing and not is_vector:
                    break
                end = start + each.cycles
                if warm < start or (each.waits and is_vector):
                    end += each.startup
                busy += end - start
                if each.waits and not is_vector:
                    for setter in each.waits:
                        end = max(end, setter.end + flag_latency)
                free = warm = end
                if end > done:
                    done = end
                if is_cube and waiting:
                    woken += waiting.pop(each, ())
            elif kind is _WAIT:
                end = start
                for setter in each.waits:
                    arrives = setter.end
                    if arrives == inf:
                        self._wait_for(queue, setter)
                        break
                    arrives += flag_latency
                    if arrives > end:
                        end = arrives
                else:
                    each.start, each.end = start, end
                    warm = -1.0
                    free = end
                    continue
                break
            elif flowing:
                if kind is not _SET and kind is not _CROSS_SET:
                    break
                each.start = start
                flowing.append(each)  # it is set when the copy before it ends; the next one need not wait for that
                continue
            else:
                end = start if start > done else done
                if kind is _SET or kind is _CROSS_SET:
                    if waiting:
                        woken += waiting.pop(each, ())
                else:
                    warm = -1.0
                    free = end
            each.start, each.end = start, end
        else:
            place = len(instructions)
        queue.next, queue.free, queue.done, queue.warm, queue.busy = place, free, done, warm, busy

    def _begun(self, queue: _Queue, each: Instruction) -> float:
        """When all that *each* follows block by block (`unit_flags`) have begun; inf while an end is not known."""
        for setter in each.waits:
            if setter.end == inf:
                self._wait_for(queue, setter)
                return inf
        begun = 0.0
        for setter in each.waits:
            begun = max(begun, setter.start)
        return begun + self.spec.flag_latency

    def _schedule(self, queue: _Queue, each: Instruction, earliest: float) -> None:
        """Let the data of *each* flow after its latency and after the flow before it."""
        flow = each.flow
        assert flow is not None, f"{each!r} moves nothing through GM"
        demand = self.gm.ask(each, flow, queue.core.program.index, max(each.start, earliest))
        latency: float = demand.latency_ns
        if flow.direction is _READ:
            latency += queue.core.away_ns
            if demand.memory == HBM:
                latency += self.spec.queue_ns * self.bandwidth.mean_load
        begin = each.start + self.spec.copy_issue + latency * self.cycles_per_ns
        self.bandwidth.add(max(begin, earliest), queue, demand)

    def _finish(self, each: Instruction, start: float, end: float) -> None:
        each.start, each.end = start, end
        if self.waiting:
            self.woken += self.waiting.pop(each, ())

    def _end(self, core: _Core) -> None:
        end = core.scalar + core.program.tail_scalar
        for queue in core.queues:
            end = max(end, queue.done)
        name = core.name
        self.free_cycles[name] = end
        self.core_time[name] = self.core_time.get(name, 0.0) + end - core.begin
        self.busy_by[name] = [busy + queue.busy for busy, queue in zip(self.busy_by[name], core.queues, strict=True)]
        core.queues.clear()  # breaks reference cycles: the collector is off
        to_run = self.to_run[name]
        if to_run:
            self._begin(name, to_run.popleft(), end + self.spec.next_block_ns * self.cycles_per_ns)

    # --- flows

    def _flow(self) -> None:
        """Play all flows to their ends."""
        bandwidth = self.bandwidth
        while ended := bandwidth.next_ended():
            for queue in ended:
                self._flow_ended(queue, bandwidth.now)

    def _flow_ended(self, queue: _Queue, now: float) -> None:
        flowing = queue.flowing
        each = flowing[0]
        brought_by = self.gm.behind.pop(each, None)
        if brought_by is not None and brought_by.end == inf:
            self.incomplete.setdefault(brought_by, []).append(queue)
            return
        flowing.popleft()
        for setter in each.waits:  # no block leaves before it has come
            now = max(now, setter.end + self.spec.flag_latency)
        done = queue.done
        queue.busy += now - (each.start if each.start > done else done)
        if now > done:
            queue.done = now
        self._finish(each, each.start, now)
        while flowing and flowing[0].flow is None:
            set_ = flowing.popleft()
            self._finish(set_, set_.start, max(set_.start, now))
        if flowing:
            self._schedule(queue, flowing[0], now)
        if queue.waits_for is None or queue.waits_for.end < inf:  # or its end wakes it
            self.woken.append(queue)
        self._run_woken()
        for other in self.incomplete.pop(each, ()):
            self._flow_ended(other, now)
