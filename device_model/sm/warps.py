"""One SM: when each warp of its resident blocks issues each of its instructions.

Warps issue in order. An instruction waits for the registers that it reads, for its scheduler (warp w uses scheduler
w % 4, which issues one instruction a cycle), and for its unit. The warps are played in the order of time, 16
instructions of a row at most at once, so that warps that share a scheduler take turns.

Times are cycles from the start of the blocks.
"""

from collections.abc import Callable, Hashable, Sequence
from heapq import heappush
from typing import NamedTuple

from device_model.sm.instructions import UNIT, Op, Row, Unit
from device_model.sm.schedulers import SCHEDULERS, Barrier, Schedulers
from device_model.sm.spec import SmSpec

_AT_ONCE = 16  # instructions of a warp, before those of others


class Played:
    """What became of the blocks of an SM.

    Attributes:
        cycles: When the last warp of each block ended.
        busy: Cycles that each unit worked, summed over the schedulers.
    """

    __slots__ = ("busy", "cycles")

    def __init__(self, cycles: list[float], busy: dict[Unit, float]) -> None:
        self.cycles = cycles
        self.busy = busy

    def __repr__(self) -> str:
        return f"<Played {len(self.cycles)} blocks: {max(self.cycles, default=0):.0f} cycles>"


def play(blocks: Sequence[Sequence[Row]], spec: SmSpec, sharers: int = 1) -> Played:
    """Return when *blocks*, which are resident on one SM, end, while *sharers* SMs of the card do the same."""
    return Sm(blocks, spec, sharers).run()


class _Values(NamedTuple):
    """The results of a row: when the first and the last are there."""

    first: float
    last: float


class Warp:
    """A warp: where it is in its rows, and what it waits for."""

    __slots__ = (
        "block",
        "copies",
        "first",
        "groups",
        "index",
        "left",
        "mma",
        "next",
        "number",
        "ready",
        "rows",
        "scheduler",
        "uncommitted",
    )

    def __init__(self, block: "_Block", index: int, rows: Sequence[Row]) -> None:
        self.block = block
        self.index = index  # in its block
        self.number = 0  # on the SM
        self.scheduler = 0
        self.rows = rows
        self.next = 0
        self.left = 0  # instructions of the row at `next` that it has begun
        self.first = 0.0  # when the first result of that row is there
        self.ready: dict[int, _Values] = {}  # by register
        self.uncommitted = 0.0  # when the last copy arrives that is in no group yet
        self.groups: list[float] = []  # when groups arrive, as long as it has not waited for them
        self.copies = 0.0  # when the last of all copies arrives
        self.mma = 0.0  # when it may issue to the tensor core again


class _Block:
    """A block: its barriers."""

    __slots__ = ("barriers", "end", "expected", "number", "phases")

    def __init__(self, number: int, rows: Sequence[Row]) -> None:
        self.number = number
        self.end = 0.0
        self.barriers: dict[Hashable, Barrier[Warp]] = {}
        self.phases: dict[tuple[Hashable, int], Barrier[Warp]] = {}
        self.expected: dict[tuple[Hashable, int], int] = {}  # phase -> arrivals that complete it
        for row in rows:
            if row.op is Op.ARRIVE or row.op is Op.COPY_ARRIVE:
                phase = row.key, row.number
                self.expected[phase] = self.expected.get(phase, 0) + row.warps.bit_count() * row.count


class Sm(Schedulers[Warp]):
    """An SM while it plays its blocks; `History` notes what it does."""

    def __init__(self, blocks: Sequence[Sequence[Row]], spec: SmSpec, sharers: int) -> None:
        super().__init__(spec, sharers)
        self.blocks = [_Block(number, rows) for number, rows in enumerate(blocks)]
        self.warps = [
            Warp(block, index, own)
            for block, rows in zip(self.blocks, blocks, strict=True)
            for index, own in enumerate(_rows_of_warps(rows))
        ]
        for number, warp in enumerate(self.warps):
            warp.number, warp.scheduler = number, number % SCHEDULERS
        self.busy = dict.fromkeys(UNIT.values(), 0.0)
        math = spec.math_permille / 1000
        mma = spec.mma_interval_permille / 1000
        self.math: dict[
            Op, tuple[float, float, float]
        ] = {  # cycles of the pipe, between issues of a warp, to the result
            Op.FMA: (1, 1, math),
            Op.ALU: (spec.alu_interval, spec.alu_interval, math),
            Op.SFU: (spec.sfu_interval, spec.sfu_interval, spec.sfu),
            Op.MMA: (mma, spec.mma_warp_permille / 1000, spec.mma),
        }
        self.pace = {op: between for op, (_, between, _) in self.math.items()}
        joins = {Op.LDS_64: 1, Op.LDS_128: 3}  # as if no lanes shared their addresses
        self.latency = {op: spec.lds + spec.lds_join * joins.get(op, 0) for op in Op if UNIT[op] is Unit.LSU}
        self.phase = spec.phase
        self.store = spec.store_warp_permille / 1000
        self.store_sector = spec.store_sector_permille / 1000
        self.copy_warp, self.copy_extra, self.group = spec.copy_warp, spec.copy_extra, spec.group
        self.barrier = spec.barrier_permille / 1000
        self.named, self.mbarrier = spec.named_barrier_permille / 1000, spec.mbarrier_permille / 1000
        handlers: dict[Op, Callable[[Warp, Row, float], float | None]] = {
            Op.CP_ASYNC: self._copy, Op.COMMIT: self._commit, Op.WAIT_GROUP: self._wait_group,
            Op.BARRIER: self._barrier, Op.SYNC_WARP: self._issued,
            Op.ARRIVE: self._arrive, Op.COPY_ARRIVE: self._arrive,
            Op.WAIT_PHASE: self._wait_phase, Op.LDG: self._global, Op.STG: self._global, Op.ATOMG: self._global,
        }  # fmt: skip
        default = {Unit.LSU: self._shared}
        self.handlers: dict[Op, Callable[[Warp, Row, float], float | None]] = {
            op: handlers.get(op) or default.get(UNIT[op], self._math) for op in Op
        }

    def run(self) -> Played:
        """Play the blocks to their ends."""
        for warp in self.warps:
            self._go_on(warp, 0.0)
        self.take_turns()
        for block in self.blocks:
            for barrier in (*block.barriers.values(), *block.phases.values()):
                for warp in barrier.waiting:
                    raise AssertionError(f"warp {warp.index} waits without end at {warp.rows[warp.next - 1]!r}")
        return Played([block.end for block in self.blocks], self.busy)

    def step(self, warp: Warp, now: float) -> None:
        """Issue what *warp* does next."""
        row = warp.rows[warp.next]
        if not warp.left:
            warp.left = row.count
        then = self.handlers[row.op](warp, row, now)
        if then is not None:
            self._go_on(warp, then)

    def _go_on(self, warp: Warp, now: float) -> None:
        """Let *warp* issue its next instruction as soon as its registers are there, from *now* on."""
        if not warp.left:
            if warp.next == len(warp.rows):
                warp.block.end = max(warp.block.end, now, *(each.last for each in warp.ready.values()), warp.copies)
                return
            row = warp.rows[warp.next]
            for register in row.reads:
                values = warp.ready.get(register)
                if values is not None and values.last > now:
                    now = max(now, self._needed(values, row))
        if warp.mma > now and warp.rows[warp.next].op is Op.MMA:
            now = warp.mma
        heappush(self.to_run, (now, warp.number))

    def _needed(self, values: _Values, row: Row) -> float:
        """Return when *row* can begin: when each of its instructions, one after the other, finds its own elements."""
        pace = self.math[row.op][2] / row.chains if row.chains and row.op in self.math else self.pace.get(row.op, 1.0)
        return max(values.first, values.last - (row.count - 1) * pace)

    def _done(self, warp: Warp, row: Row, instructions: int, first: float, end: float) -> None:
        """*warp* has issued *instructions* of *row*, whose results are there from *first* to *end*."""
        if warp.left == row.count:
            warp.first = first
        warp.left -= instructions
        if not warp.left:
            warp.next += 1
            for register in row.writes:
                warp.ready[register] = _Values(end if row.chains else warp.first, end)

    def _math(self, warp: Warp, row: Row, now: float) -> float | None:
        cycles, between, latency = self.math[row.op]
        unit = UNIT[row.op]
        pipes = self.pipes[warp.scheduler]
        start = max(now, pipes[unit])
        count = min(warp.left, _AT_ONCE)
        if row.op is Op.MMA:
            warp.mma = start + count * between
        self.issue[warp.scheduler] = now + count
        pipes[unit] = start + count * cycles
        self.busy[unit] += count * cycles
        between = max(between, latency / row.chains) if row.chains else between
        then = start + (count - 1) * between
        is_last = warp.left == count
        self._done(warp, row, count, start + latency, then + latency)
        if row.op is Op.MMA:
            return now + count  # a compiler puts independent instructions between them
        return then + 1 if is_last else then + between

    def _shared(self, warp: Warp, row: Row, now: float) -> float | None:
        phases = row.phases if isinstance(row.phases, int) else row.phases[warp.index]
        count = min(warp.left, max(1, _AT_ONCE // max(1, phases)))  # warps take turns at the LSU by its phases
        start = max(now, self.lsu)
        self.issue[warp.scheduler] = now + count
        self.lsu = start + count * phases
        self.busy[Unit.LSU] += count * phases
        first = start + self.latency[row.op] + self.phase * phases
        self._done(warp, row, count, first, first + (count - 1) * phases)
        if row.op is Op.STS:
            return start + (count - 1) * max(phases, self.store) + 1
        return now + count  # a compiler puts what needs the first values between the loads of the others

    def _global(self, warp: Warp, row: Row, now: float) -> float | None:
        count = warp.left
        start = max(now, self.lsu)
        sectors, misses = _traffic(row, warp)
        cycles = max(1.0, self.store_sector * sectors / count) if row.op is Op.STG else 1.0
        self.issue[warp.scheduler] = now + count
        self.lsu = start + count * cycles
        self.busy[Unit.LSU] += count * cycles
        arrival = self.memory.request(start, sectors, misses)
        self._done(warp, row, count, arrival, arrival)
        return start + (count - 1) * cycles + 1

    def _copy(self, warp: Warp, row: Row, now: float) -> float | None:
        phases = (row.phases if isinstance(row.phases, int) else row.phases[warp.index]) + self.copy_extra
        start = max(now, self.lsu)
        self.issue[warp.scheduler] = now + 1
        self.lsu = start + phases
        self.busy[Unit.LSU] += phases
        sectors, misses = _traffic(row, warp)
        arrival = self.memory.request(start, sectors / row.count, misses / row.count)
        warp.uncommitted = max(warp.uncommitted, arrival)
        self._done(warp, row, 1, arrival, arrival)
        return start + (self.copy_warp if row.chains else 1)

    def _commit(self, warp: Warp, row: Row, now: float) -> float | None:
        warp.copies = max(warp.copies, warp.uncommitted)
        warp.groups.append(max(warp.uncommitted, now) + self.group)
        warp.uncommitted = 0.0
        return self._issued(warp, row, now)

    def _wait_group(self, warp: Warp, row: Row, now: float) -> float | None:
        older = len(warp.groups) - row.number
        if older > 0:
            now = max(now, *warp.groups[:older])
            del warp.groups[:older]
        return self._issued(warp, row, now)

    def _barrier(self, warp: Warp, row: Row, now: float) -> float | None:
        self._issued(warp, row, now)
        barrier = warp.block.barriers.setdefault(row.key, Barrier(self.named if row.key else self.barrier))
        self.arrive(barrier, now)
        barrier.waiting.append(warp)
        if barrier.arrived == row.number:
            del warp.block.barriers[row.key]
            self._complete(barrier)
        return None

    def _arrive(self, warp: Warp, row: Row, now: float) -> float | None:
        warp.copies = max(warp.copies, warp.uncommitted)
        time = max(now, warp.copies) if row.op is Op.COPY_ARRIVE else now
        then = self._issued(warp, row, now)
        key = row.key, row.number
        phase = warp.block.phases.setdefault(key, Barrier(self.mbarrier))
        self.arrive(phase, time, row.count)
        if phase.arrived == warp.block.expected[key]:
            self._complete(phase)
        return then

    def _wait_phase(self, warp: Warp, row: Row, now: float) -> float | None:
        key = row.key, row.number
        self._issued(warp, row, now)
        phase = warp.block.phases.setdefault(key, Barrier(self.mbarrier))
        if phase.arrived == warp.block.expected.get(key):
            return max(now + self.latency[Op.LDS_32] + self.phase, phase.end)  # it looks into shared memory at least
        phase.waiting.append(warp)
        return None

    def _complete(self, barrier: Barrier[Warp]) -> None:
        """Let all warps go on that wait at *barrier*, which is complete."""
        waiting, barrier.waiting = barrier.waiting, []
        for warp in waiting:
            self._go_on(warp, barrier.end)

    def _issued(self, warp: Warp, row: Row, now: float) -> float:
        """One instruction that takes an issue and has no result; return when the next can be issued."""
        self.issue[warp.scheduler] = max(self.issue[warp.scheduler], now) + 1
        self._done(warp, row, warp.left, now, now)
        return now + 1


def _rows_of_warps(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """The rows that each warp issues; warps that issue the same share one sequence."""
    warps = 0
    for row in rows:
        warps |= row.warps
    if all(row.warps == warps for row in rows):
        return [rows] * warps.bit_length()
    return [[row for row in rows if row.warps >> warp & 1] for warp in range(warps.bit_length())]


def _traffic(row: Row, warp: Warp) -> tuple[int, int]:
    """Sectors that *warp* moves, and how many of them the L2 lacks."""
    sectors = row.sectors if isinstance(row.sectors, int) else row.sectors[warp.index]
    misses = row.misses if isinstance(row.misses, int) else row.misses[warp.index]
    return sectors, misses
