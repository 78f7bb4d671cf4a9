"""A launch: its blocks are spread over the SMs of the card, and later blocks take the places of those that ended.

Blocks with the same rows take the same time, so a kind of block is played once for each number of them that are
resident on an SM. The other SMs of the card do the same meanwhile. A block among blocks of other kinds takes as long as
among its own.
"""

from collections.abc import Callable, Sequence
from heapq import heapreplace
from typing import NamedTuple, TypeAlias

from device_model.sm.history import Instruction, Pipe, count, history, later
from device_model.sm.instructions import UNIT, Row, Unit
from device_model.sm.schedulers import SCHEDULERS
from device_model.sm.spec import SmSpec
from device_model.sm.warps import play

_Kind: TypeAlias = tuple[tuple[object, ...], ...]


class Placing(NamedTuple):
    """Where a block ran: in place *place* of *others* blocks of the same *kind* that began together on SM *sm*."""

    kind: int
    others: int
    place: int
    sm: int


class CardTimeline:
    """When the blocks of a launch ran.

    Attributes:
        cycles: When the last block ended, from the start of the first.
        spans: Start and end of each block, in cycles.
        placings: Where each block ran.
        resident: How many blocks an SM held at most at a time.
        busy: For each unit, the part of the time of an SM in which it worked, on average over the blocks (0 to 1).
        kinds: The rows of each kind of block.
        sms: SMs of the card.
    """

    __slots__ = ("_histories", "_spec", "busy", "cycles", "kinds", "placings", "resident", "sms", "spans")

    def __init__(
        self,
        spans: list[tuple[float, float]],
        placings: list[Placing],
        resident: int,
        busy: dict[Unit, float],
        kinds: Sequence[Sequence[Row]],
        spec: SmSpec,
        sms: int,
    ) -> None:
        self.cycles = max((end for _, end in spans), default=0.0)
        self.spans = spans
        self.placings = placings
        self.resident = resident
        self.busy = busy
        self.kinds = kinds
        self._spec = spec
        self.sms = sms
        self._histories: dict[tuple[int, int], list[list[Instruction]]] = {}  # by kind and others

    def __repr__(self) -> str:
        return f"<CardTimeline of {len(self.spans)} blocks, {self.resident} per SM: {self.cycles:.0f} cycles>"

    def count(self, block: int) -> int:
        """Return how many instructions the warps of *block* have."""
        return count(self.kinds[self.placings[block].kind])

    def instructions(self, block: int) -> list[Instruction]:
        """Return what the warps of *block* did, in the order of issue; the first call for a kind of block plays it."""
        kind, others, place, _ = self.placings[block]
        return later(self.history(kind, others)[place], self.spans[block][0])

    def reached(self, block: int, warp: int, rows: int) -> float:
        """Return when *warp* of *block* had issued its part of the first *rows* rows, in cycles."""
        kind, others, place, _ = self.placings[block]
        before = set(map(id, self.kinds[kind][:rows]))
        ends = (
            each.end
            for each in self.history(kind, others)[place]
            if each.warp == warp and each.pipe is Pipe.ISSUE and id(each.row) in before
        )
        return self.spans[block][0] + max(ends, default=0.0)

    def replay(self, mend: Callable[[Row], Row], resident: int) -> "CardTimeline":
        """Return when the blocks would have run with each row mended, and *resident* blocks on an SM."""
        card = Card(self.sms, resident, self._spec)
        card.repeat([list(map(mend, rows)) for rows in self.kinds], [placing.kind for placing in self.placings])
        return card.play()

    def history(self, kind: int, others: int) -> list[list[Instruction]]:
        """Return what the warps of each of *others* blocks of a *kind* did, from their common start on."""
        if (kind, others) not in self._histories:
            self._histories[kind, others] = history(
                [self.kinds[kind]] * others, self._spec, min(self.sms, len(self.spans))
            )
        return self._histories[kind, others]


class Card:
    """The SMs of a card during one launch: it takes the rows of each block, and keeps those of one block of each kind.

    Args:
        sms: The number of SMs.
        resident: How many blocks each can hold at a time, at least 1 (`occupancy.resident_blocks`).
        spec: Their numbers.
    """

    __slots__ = ("_kinds", "_of_block", "_resident", "_rows", "_sms", "_spec")

    def __init__(self, sms: int, resident: int, spec: SmSpec) -> None:
        self._sms = sms
        self._resident = resident
        self._spec = spec
        self._kinds: dict[_Kind, int] = {}
        self._rows: list[Sequence[Row]] = []  # of the first block of each kind
        self._of_block: list[int] = []  # the kind of each block

    def add(self, rows: Sequence[Row]) -> None:
        """Add the next block of the launch, which issues *rows*."""
        kind = self._kinds.setdefault(tuple(map(_cost, rows)), len(self._rows))
        if kind == len(self._rows):
            self._rows.append(rows)
        self._of_block.append(kind)

    def repeat(self, kinds: Sequence[Sequence[Row]], of_block: Sequence[int]) -> None:
        """Take blocks of these *kinds*, instead of those that were added; *of_block* is the kind of each."""
        self._rows, self._of_block = list(kinds), list(of_block)

    def play(self) -> CardTimeline:
        """Return when the blocks that were added ran."""
        blocks = len(self._of_block)
        used = min(self._sms, blocks)
        resident = min(self._resident, -(-blocks // self._sms))
        full, rest = divmod(blocks, self._sms)  # if all are resident: SMs with one block more than the others
        played: dict[tuple[int, int], tuple[float, dict[Unit, float]]] = {}
        busy = dict.fromkeys(UNIT.values(), 0.0)
        # When each place for a block is free, its number, its SM: blocks fill all SMs once before they fill them twice.
        places = [(0.0, place, place % self._sms) for place in range(min(blocks, self._sms * resident))]
        spans, placings = [], []
        for kind in self._of_block:
            start, place, sm = places[0]
            others = resident if blocks >= self._sms * resident or sm < rest else full
            if (kind, others) not in played:
                one = play([self._rows[kind]] * others, self._spec, used)
                cycles = max(one.cycles)
                played[kind, others] = cycles, {unit: _part(unit, each, cycles) for unit, each in one.busy.items()}
            cycles, shares = played[kind, others]
            heapreplace(places, (start + cycles, place, sm))
            spans.append((start, start + cycles))
            placings.append(Placing(kind, others, place // self._sms, sm))
            for unit, share in shares.items():
                busy[unit] += share / blocks
        return CardTimeline(spans, placings, resident, busy, self._rows, self._spec, self._sms)


def _part(unit: Unit, busy: float, cycles: float) -> float:
    """The part of *cycles* in which *unit* worked: an SM has one LSU, and one of the others for each scheduler."""
    units = 1 if unit in (Unit.LSU, Unit.SYNC) else SCHEDULERS
    return busy / max(1.0, units * cycles)


def _cost(row: Row) -> tuple[object, ...]:
    """What decides the time of *row*; registers and barriers have numbers of their block, which begin again in each."""
    return (
        row.op, row.warps, row.count, row.chains, row.phases, row.conflicts, row.sectors, row.misses, row.number,
        row.key, row.reads, row.writes,
    )  # fmt: skip
