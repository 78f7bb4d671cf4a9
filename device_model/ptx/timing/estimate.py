"""How long a launch takes: the sampled blocks are played on one SM, and the rest is worked out from that.

A long loop is not played to its end: two shorter plays say what each further instruction costs. Nor are all blocks
that an SM runs: the last ones that are played say what each further one costs. Blocks that do more than the sampled
ones take longer in proportion.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from device_model.ptx.code.order import Kind
from device_model.ptx.lanes.clocks import Clock
from device_model.ptx.lanes.launch import Launch
from device_model.ptx.timing.plan import Estimate, Plan
from device_model.ptx.timing.player import Memory, Player, Step
from device_model.ptx.timing.runs import Run
from device_model.ptx.timing.samples import Access, Sample, Visit
from device_model.ptx.timing.trace import SECTOR, Trace
from device_model.sm.instructions import Unit
from device_model.sm.schedulers import SCHEDULERS
from device_model.touches import Touches

_STEPS = 5000  # of all warps together, that are played
_WAVES = 3  # blocks that are played, for each place on the SM
_KEPT = 8  # rounds of a loop that are always played, in the longer play


@dataclass(frozen=True, slots=True)
class Touched:
    """Sectors of global memory: those that a launch reads before it writes them, those that it writes, and all."""

    read: int
    written: int
    all: int

    @classmethod
    def of(cls, read: Touches, written: Touches) -> "Touched":
        """Return the sectors of the bytes that a launch has read and written."""
        if not read and not written:
            return cls(0, 0, 0)
        return cls(*(each.sectors(SECTOR) for each in (read, written, read.beside(written))))


class Timing:
    """Times a launch of *plan*, which began at *began_ns*: give `watch` to the launch, and `clock` if there is one, and
    call `estimate` when it has run.
    """

    def __init__(self, plan: Plan, launch: Launch, began_ns: int = 0) -> None:
        self.plan = plan
        self.card = plan.card
        self.resident = plan.resident
        self.watch = plan.trace()
        self._runs, self._issues, self._shared = plan.analysis.runs, plan.analysis.issues, plan.analysis.shared
        self._is_changed = False
        self._mean: dict[int, tuple[float, Access]] = {}
        self._like: list[int] = []  # the blocks that the played ones stand for
        self._begin_together = True  # whether all blocks of the launch do
        self._made: dict[tuple[int, ...], list[Step]] = {}  # by block of code, and its traffic
        self.clock = None
        if plan.program.tells_time:
            launch.places = plan.places
            self.clock = Clock(plan.rates, launch.blocks, launch.threads, began_ns)

    def changed(self, watch: Trace, resident: int = 0) -> "Timing":
        """Return how the same launch would be timed if it had done what *watch* says, with *resident* blocks on an SM
        if that is not 0.
        """
        other = copy(self)
        other.watch, other.resident = watch, resident or self.resident
        other._mean, other._made, other._is_changed = {}, {}, True
        return other

    def estimate(self, touched: Touched, *, is_cold: bool = False) -> Estimate:
        """Return the time, with what the launch left in the L2 the last time, or with nothing there.

        A small launch that did the same as one before takes the same time.
        """
        did = None if self._is_changed else self.watch.everything()
        key = (did, touched, is_cold)
        estimate = None if did is None else self.plan.known(key)
        if estimate is None:
            estimate = self._worked_out(touched, is_cold=is_cold)
            if did is not None:
                self.plan.know(key, estimate)
        return estimate

    def _worked_out(self, touched: Touched, *, is_cold: bool) -> Estimate:
        self._find_means()
        memory = self._memory(touched, is_cold=is_cold)
        per_sm = -(-self.plan.blocks // self.card.sms)
        count = min(per_sm, _WAVES * self.resident)
        played = self._chosen(count)
        cycles, busy = self._played(played, memory)
        cycles = self._scaled(cycles, busy, played)
        return Estimate(cycles, self.plan.registers, self.resident, busy)

    def _memory(self, touched: Touched, *, is_cold: bool) -> Memory:
        card, moved = self.card, self._sectors()
        nbytes = touched.all * SECTOR
        lost = 1.0 if is_cold else (nbytes - card.kept_bytes) / (card.lost_bytes - card.kept_bytes)
        lost = min(1.0, max(0.0, lost))
        written = min(1.0, max(0.0, (nbytes - card.kept_bytes) / (card.lost_bytes - card.kept_bytes)))
        # What was there before is written back, as far as it was in the L2.
        evicted = min(1.0, card.kept_bytes / max(1, nbytes)) if is_cold else 0.0
        return Memory(
            min(card.sms, self.plan.blocks),
            (lost + evicted) * min(1.0, touched.read / max(1, moved[0])),
            max(written, evicted) * card.spec.dram_write_permille / 1000 * min(1.0, touched.written / max(1, moved[1])),
            self.watch.hot / max(1, self.watch.atomics),
        )

    def _sectors(self) -> tuple[float, float]:
        """Return the sectors that all blocks ask the L2 for, and that they give to it."""
        found = {Kind.LOAD: 0.0, Kind.STORE: 0.0}
        for number, runs in self._runs.items():
            for run in runs:
                if run.kind in found:
                    found[run.kind] += self.watch.visits[number] * sum(self._mean[line][0] for line in run.lines)
        return found[Kind.LOAD], found[Kind.STORE]

    def _find_means(self) -> None:
        """Find the mean traffic of each access of a warp: its sectors, and all of it in whole numbers."""
        if self._mean:
            return
        found = Counter(
            access
            for sample in self.watch.samples
            for visits in sample.visits
            for _, accesses in visits
            for access in accesses.items()
        )
        sums: dict[int, Access] = {}
        counts: Counter[int] = Counter()
        for (line, access), times in found.items():
            sums[line] = sums.get(line, Access()).plus(Access(*(each * times for each in access)))
            counts[line] += times
        self._mean = {
            line: (4.0, Access(1, 4, 1)) for runs in self._runs.values() for run in runs for line in run.lines
        }
        for line, access in sums.items():
            self._mean[line] = access.sectors / counts[line], Access(*(-(-each // counts[line]) for each in access))

    def _chosen(self, count: int) -> list[Sample]:
        """Return the sampled blocks that are most like *count* blocks of the SM that takes longest."""
        work, sms = self.watch.work, self.card.sms
        sums, most = work.sum(1), work.max(1)
        numbers = np.arange(self.plan.blocks)
        sm = 0
        self._begin_together = self.plan.blocks <= sms * count
        if self._begin_together:
            untils = sum(self.watch.visits[each] * run.until for each, runs in self._runs.items() for run in runs)
            pace = untils / max(1, int(work.sum()))  # cycles of one warp alone, for each instruction
            of_sm = np.bincount(numbers % sms, weights=sums) / SCHEDULERS
            longest = np.zeros(len(of_sm))
            np.maximum.at(longest, numbers % sms, most * pace)
            sm = int(np.argmax(np.maximum(of_sm, longest)))
        samples = sorted(self.watch.samples, key=lambda each: not each.close)
        self._like = [int(each) for each in numbers[sm::sms][:count]]
        chosen = []
        for number in self._like:
            distances = [abs(int(sums[number] - sums[each.place])) * 2 + abs(int(most[number] - most[each.place]))
                         for each in samples]  # fmt: skip
            chosen.append(samples[distances.index(min(distances))])
        return chosen

    # Playing

    def _played(self, samples: Sequence[Sample], memory: Memory) -> tuple[float, float]:
        """Return the cycles of all blocks of an SM, and how busy its busiest unit is."""
        rows = Counter({number: len(runs) for number, runs in self._runs.items()})
        once = {id(each): sum(rows[number] for warp in each.visits for number, _ in warp) for each in samples}
        part = min(1.0, _STEPS / max(1, sum(once[id(each)] for each in samples)))
        work, cycles, busy = self._play(samples, memory, part)
        total = cycles
        if part < 1.0:
            full = sum(int(self.watch.work[each.place].sum()) for each in samples)
            less, before, _ = self._play(samples, memory, part / 2, _KEPT // 2)
            if work > less:
                total = cycles + (cycles - before) * (full - work) / (work - less)
        more = -(-self.plan.blocks // self.card.sms) - len(samples)
        if more > 0 and not self._begin_together:
            _, before, _ = self._play(samples[: -self.resident], memory, part)
            total *= 1 + more / self.resident * (cycles - before) / cycles
        return total, busy

    def _play(
        self, samples: Sequence[Sample], memory: Memory, part: float, least: int = _KEPT
    ) -> tuple[float, float, float]:
        """Play a *part* of each loop, and *least* rounds of it at least.

        Return the instructions, the cycles, and how busy the busiest unit is.
        """
        kept: dict[int, tuple[list[list[Step]], int]] = {}
        for sample in samples:
            if id(sample) not in kept:
                visits = [thinned(each, part, least) for each in sample.visits]
                work = sum(self._issues[number] for warp in visits for number, _ in warp)
                kept[id(sample)] = [self._steps(each) for each in visits], work
        played = [kept[id(sample)][0] for sample in samples]
        ends = Player(played, self.resident, self.card.spec, memory).play()
        work = sum(kept[id(sample)][1] for sample in samples)
        return work, ends[-1], min(1.0, self._busiest(played) / max(1.0, ends[-1]))

    def _busiest(self, played: Sequence[Sequence[Sequence[Step]]]) -> float:
        """Return the cycles that the busiest unit of an SM works."""
        issues = lsu = 0.0
        line, tag = self.card.spec.load_line_permille / 1000, self.card.spec.l1_tag_permille / 1000
        units = dict.fromkeys(Unit, 0.0)
        for block in played:
            for warp in block:
                for run, access, _ in warp:
                    issues += run.issues
                    if run.kind is not Kind.MATH:
                        lsu += max(access.phases, access.lines * line, access.tags * tag)
                    for unit, cycles in run.units:
                        units[unit] += cycles
        return max(lsu, issues / SCHEDULERS, *(each / SCHEDULERS for each in units.values()))

    def _steps(self, visits: Sequence[Visit]) -> list[Step]:
        steps = []
        for number, accesses in visits:
            key = (number, *map(id, accesses.values()))  # the trace keeps them: none is another one later
            made = self._made.get(key)
            if made is None:
                made = self._made[key] = [self._step(run, accesses) for run in self._runs[number]]
            steps += made
        return steps

    def _step(self, run: Run, accesses: Mapping[int, Access]) -> Step:
        access = Access()
        for line in dict.fromkeys(run.lines):
            access = access.plus(accesses.get(line) or self._mean[line][1])
        return run, access, self._is_shared(run, access)

    def _is_shared(self, run: Run, access: Access) -> bool:
        if run.kind in (Kind.MATH, Kind.BARRIER, Kind.FENCE):
            return False
        return self._shared[run.lines[0]] or (access.phases > 0 and not access.sectors)

    def _scaled(self, cycles: float, busy: float, played: Sequence[Sample]) -> float:
        """Return the *cycles* of the played blocks as those of the blocks that they stand for."""
        work, own = self.watch.work, [each.place for each in played]
        if not self._begin_together:
            return cycles * float(work.sum() / len(work)) / float(work[own].sum() / len(own))
        alone = float(work[self._like].max()) / float(work[own].max())
        return cycles * ((1 - busy) * alone + busy * float(work[self._like].sum()) / float(work[own].sum()))


def thinned(visits: Sequence[Visit], part: float, least: int) -> list[Visit]:
    """Return *visits* with a *part* of the rounds of each loop, and at least so many."""
    if part >= 1.0:
        return list(visits)
    rounds: list[list[Visit]] = []
    before = 1 << 30
    for visit in visits:
        if visit[0] <= before:
            rounds.append([])
        rounds[-1].append(visit)
        before = visit[0]
    kept: list[Visit] = []
    at = 0
    while at < len(rounds):
        stop = at
        while stop < len(rounds) and rounds[stop][0][0] == rounds[at][0][0]:
            stop += 1
        count = stop - at
        wanted = count if count <= least else max(least, round(count * part))
        for number in range(wanted):
            kept += rounds[at + number * count // wanted]
        at = stop
    return kept
