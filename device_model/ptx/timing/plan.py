"""What the times of launches owe to the kernel, the shape and the card alone. Launches of one shape share it."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from device_model.ptx.lanes.clocks import Rates
from device_model.ptx.lanes.program import Program
from device_model.ptx.timing.alone import rates_of
from device_model.ptx.timing.analysis import analysis_of
from device_model.ptx.timing.registers import registers_of
from device_model.ptx.timing.trace import SECTOR, Trace
from device_model.sm.occupancy import Occupancy
from device_model.sm.spec import SmSpec

SAMPLES = 32  # blocks that are looked at
_KNOWN = 256  # estimates that are kept


@dataclass(frozen=True, slots=True)
class Card:
    """What a launch runs on: *sms* SMs with the numbers of *spec*.

    The L2 keeps what launches before have left, as long as they touch no more than *kept_bytes*; above *lost_bytes*
    it has nothing of it.
    """

    spec: SmSpec
    sms: int
    kept_bytes: int
    lost_bytes: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """The time of a launch, in *cycles* of an SM, without what is spent before its first block and after its last.

    Attributes:
        cycles: The time.
        registers: Of a thread.
        resident: Blocks that an SM holds.
        busy: The part of the time in which the busiest unit works (0 to 1).
    """

    cycles: float
    registers: int
    resident: int
    busy: float


class Sole(NamedTuple):
    """The *timeline* of all launches of a kernel that touches nothing, how long they take, and when they give back how
    many SMs.
    """

    timeline: Any
    duration_ns: int
    released: tuple[tuple[int, int], ...]


class Plan:
    """How launches of *program* with *blocks* blocks of *threads* threads, and *shared* bytes of dynamic shared memory,
    use *card*.

    Attributes:
        cores: SMs that have a block.
        registers: Registers of a thread.
        shared_bytes: Bytes of shared memory of a block.
        occupancy: How many blocks an SM holds, and why not more.
        resident: The same, and 1 if not even one fits.
        places: How many blocks the card holds.
        analysis: What an assembler makes of the kernel.
        sole: The times of all launches, if the kernel touches nothing and one has run.
    """

    sole: Sole | None = None

    def __init__(self, program: Program, card: Card, blocks: int, threads: int, shared: int = 0) -> None:
        self.program = program
        self.card = card
        self.blocks = blocks
        self.cores = min(blocks, card.sms)
        self.registers = registers_of(program, card.spec)
        self.shared_bytes = program.shared_bytes + shared
        self.occupancy = occupancy(program, threads, shared, card.spec)
        self.resident = max(1, self.occupancy.blocks)
        self.places = self.resident * card.sms
        self.analysis = analysis_of(program, card.spec)
        per_sm = max(1, min(self.resident, -(-blocks // card.sms)))
        self._l1 = max(32768, card.spec.l1_bytes - self.shared_bytes * per_sm) // per_sm // SECTOR
        count = min(SAMPLES, blocks)
        self._sampled = [blocks * (2 * number + 1) // (2 * count) for number in range(count)]
        self._known: dict[Hashable, Estimate] = {}

    @cached_property
    def rates(self) -> Rates:
        """What the times that lanes read are made of."""
        return rates_of(self.program, self.analysis.runs, self.analysis.shared, self.card.spec, self.places)

    def trace(self) -> Trace:
        """Return what watches a launch."""
        known, warps = self.analysis, self.occupancy.warps
        return Trace(
            self._sampled, known.issues, (self.blocks, warps), self._l1, known.sums, known.widths, self.card.spec
        )

    def known(self, key: Hashable) -> Estimate | None:
        """Return the time of launches that did *key*, if there was one."""
        return self._known.get(key)

    def know(self, key: Hashable, estimate: Estimate) -> None:
        """Keep the time of a launch that did *key*."""
        if len(self._known) == _KNOWN:
            self._known.clear()
        self._known[key] = estimate


def occupancy(program: Program, threads: int, shared: int, spec: SmSpec) -> Occupancy:
    """Return how many blocks of *threads* threads, with *shared* bytes of dynamic shared memory, an SM holds."""
    return Occupancy(threads, registers_of(program, spec), program.shared_bytes + shared, spec)
