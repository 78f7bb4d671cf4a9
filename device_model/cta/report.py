"""LaunchReport: what a launch made of the card: occupancy, traffic by level, bank conflicts, hidden copies.

All of it follows from the rows of the blocks and from their times. Bandwidths are means over the time from the start of
the first block to the end of the last.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from device_model.kernel.sites import Site
from device_model.sm.card import CardTimeline
from device_model.sm.history import Instruction, Kind, Pipe
from device_model.sm.instructions import SECTOR, Op, Row
from device_model.sm.occupancy import Occupancy
from device_model.sm.spec import SmSpec

PHASE = 128  # bytes that shared memory moves in a phase
_SHARED = frozenset((Op.LDS_32, Op.LDS_64, Op.LDS_128, Op.LDMATRIX, Op.STS, Op.ATOMS, Op.CP_ASYNC))
_SHOWN = 8  # lines with conflicts


class Level(NamedTuple):
    """The traffic of one level of memory.

    Attributes:
        nbytes: Bytes moved: in shared memory whole phases of 128 bytes, elsewhere whole sectors of 32.
        gb_per_s: Bytes per nanosecond, of all SMs.
        peak_gb_per_s: What the level could move in that time.
    """

    nbytes: int
    gb_per_s: float
    peak_gb_per_s: float

    @property
    def share(self) -> float:
        """The part of the peak that was reached (0 to 1)."""
        return self.gb_per_s / self.peak_gb_per_s

    def __str__(self) -> str:
        share = f"{100 * self.share:.1f} % of {self.peak_gb_per_s:,.0f}"
        return f"{self.nbytes / 1e6:,.2f} MB, {self.gb_per_s:,.1f} GB/s, {share}"


class Conflict(NamedTuple):
    """A line with bank conflicts.

    Attributes:
        site: The line.
        name: Its instruction.
        times: How often a warp issued it with a conflict.
        phases: The phases that its instructions took.
        conflicts: How many of these they took because banks conflict.
    """

    site: Site
    name: str
    times: int
    phases: int
    conflicts: int

    @property
    def ways(self) -> float:
        """How many phases a pass takes on average; 1 would be no conflict."""
        return self.phases / (self.phases - self.conflicts)

    def __str__(self) -> str:
        return f"{self.site}: {self.name}, {self.ways:.1f} ways, {self.conflicts:,} of {self.phases:,} phases"


class LaunchReport(NamedTuple):
    """What a launch made of the card; str() is the text for users.

    Attributes:
        blocks: Blocks of the launch.
        sms: SMs of the card.
        occupancy: How many blocks an SM can hold, and why not more.
        resident: How many blocks an SM held at most.
        duration_us: From the start of the first block to the end of the last.
        sectors: Sectors that were asked of the L2.
        hits: Those of them that it had.
        shared: The traffic of shared memory.
        l2: The traffic of the L2.
        dram: The traffic of the device's memory.
        conflicts: Lines with bank conflicts, those with most first.
        copy_us: How long asynchronous copies were on their way to an SM, on average over the waves of blocks.
        hidden: The part of that time in which at least one warp of the SM was in no wait and at no barrier (0 to 1);
            None if the launch has no asynchronous copies.
    """

    blocks: int
    sms: int
    occupancy: Occupancy
    resident: int
    duration_us: float
    sectors: int
    hits: int
    shared: Level
    l2: Level
    dram: Level
    conflicts: Sequence[Conflict]
    copy_us: float
    hidden: float | None

    @property
    def waves(self) -> float:
        """How often the blocks fill the card; the last wave may be a part."""
        return self.blocks / (self.sms * self.occupancy.blocks)

    @property
    def hit_rate(self) -> float:
        """The part of the sectors that the L2 had (0 to 1); 0 if none were asked for."""
        return self.hits / self.sectors if self.sectors else 0.0

    def __str__(self) -> str:
        occupancy = self.occupancy
        limits = ", ".join(f"{name} {blocks}" for name, blocks in occupancy.limits.items())
        lines = [
            f"launch     blocks {self.blocks:,}, waves {self.waves:.3g} on {self.sms} SMs, {self.duration_us:,.2f} us",
            f"occupancy  {100 * occupancy.share:.0f} %, limited by {' and '.join(occupancy.limiters)}",
            f"           blocks of {occupancy.warps} warps that fit on an SM: {limits}",
            f"shared     {self.shared}",
            f"L2         {self.l2}; {100 * self.hit_rate:.1f} % of {self.sectors:,} sectors hit",
            f"DRAM       {self.dram}",
        ]
        if self.hidden is not None:
            lines.append(f"copies     {self.copy_us:,.2f} us on their way, {100 * self.hidden:.0f} % of it hidden")
        if self.conflicts:
            lines.append("conflicts  " + "\n           ".join(map(str, self.conflicts[:_SHOWN])))
        return "\n".join(lines)


def report(card: CardTimeline, occupancy: Occupancy, spec: SmSpec) -> LaunchReport:
    """Return the report of a launch whose blocks ran as *card* says, on SMs of *spec*."""
    rows = _rows(card)
    passes = sum(times * row.count * (row.of_warps(row.phases) - row.of_warps(row.conflicts))
                 for row, times in rows if row.op in _SHARED)  # fmt: skip
    sectors = sum(times * row.of_warps(row.sectors) for row, times in rows)
    misses = sum(times * row.of_warps(row.misses) for row, times in rows)
    ns = card.cycles * 1e6 / spec.khz

    def level(nbytes: int, per_cycle: float) -> Level:
        return Level(nbytes, nbytes / ns if ns else 0.0, per_cycle * spec.khz / 1e6)

    copy_cycles, hidden_cycles = _copies(card)
    return LaunchReport(
        len(card.spans),
        card.sms,
        occupancy,
        card.resident,
        ns / 1000,
        sectors,
        sectors - misses,
        level(passes * PHASE, card.sms * PHASE),
        level(sectors * SECTOR, card.sms * spec.sm_bytes_permille / 1000),
        level(misses * SECTOR, spec.dram_bytes_permille / 1000),
        conflicts_of(card),
        copy_cycles * 1e3 / spec.khz,
        hidden_cycles / copy_cycles if copy_cycles else None,
    )


def conflicts_of(card: CardTimeline) -> list[Conflict]:
    """Return the lines with bank conflicts, those with most first."""
    lines: dict[tuple[Site, str], Conflict] = {}
    for row, times in _rows(card):
        if row.op in _SHARED and row.of_warps(row.conflicts):
            place, each = (Site(row.code, row.lasti), row.name), times * row.count
            _, _, count, phases, conflicts = lines.get(place, Conflict(*place, 0, 0, 0))
            count += each * sum(row.of_warp(row.conflicts, warp) > 0 for warp in range(row.warps.bit_length()))
            phases += each * row.of_warps(row.phases)
            lines[place] = Conflict(*place, count, phases, conflicts + each * row.of_warps(row.conflicts))
    return sorted(lines.values(), key=lambda line: -line.conflicts)


def _rows(card: CardTimeline) -> list[tuple[Row, int]]:
    """Return the rows of each kind of block, with the number of blocks of that kind."""
    kinds = Counter(placing.kind for placing in card.placings)
    return [(row, times) for kind, times in kinds.items() for row in card.kinds[kind]]


def _copies(card: CardTimeline) -> tuple[float, float]:
    """Return for how many cycles copies were on their way to an SM, and in how many of these a warp did not wait.

    Both are means over the groups of blocks that began together on an SM.
    """
    groups = Counter((placing.kind, placing.others) for placing in card.placings)
    on_their_way = hidden = waves = 0.0
    for (kind, others), blocks in groups.items():
        together = card.history(kind, others)
        copies = [
            (each.start, each.end)
            for block in together
            for each in block
            if each.pipe is Pipe.MEM and each.row.op is Op.CP_ASYNC
        ]
        active = [span for block in together for span in _active(block)]
        waves += blocks / others
        on_their_way += blocks / others * _length(copies)
        hidden += blocks / others * (_length(copies) + _length(active) - _length(copies + active))
    return on_their_way / waves, hidden / waves


def _active(block: Sequence[Instruction]) -> Iterator[tuple[float, float]]:
    """Yield the times in which each warp of *block* is in no wait and at no barrier."""
    of_warp: dict[int, list[Instruction]] = {}
    for each in block:
        if each.pipe is not Pipe.MEM:
            of_warp.setdefault(each.warp, []).append(each)
    for instructions in of_warp.values():
        at = 0.0
        for each in instructions:
            if each.kind in (Kind.WAIT, Kind.BARRIER):
                yield at, each.start
                at = each.end
        yield at, max(at, *(each.end for each in instructions))


def _length(spans: Iterable[tuple[float, float]]) -> float:
    """Return for how long one or more of *spans* last."""
    length, reached = 0.0, 0.0
    for start, end in sorted(spans):
        length += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return length
