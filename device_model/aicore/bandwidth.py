"""Bandwidth that flows share: max-min fair over the cores, between reads and writes.

Flows of one class (which way, which path, from the L2 or not) may take the same rate at most, so they all have the same
rate at any time. Each class keeps one clock of bytes that a flow of it has had; a flow ends when that clock has gone on
by its size. So whatever joins or leaves changes a few rates, and no flow.
"""

from functools import cache
from heapq import heappop, heappush

from device_model.aicore.program import Direction, Flow, Instruction
from device_model.aicore.spec import CoreSpec

_EPSILON = 1e-6  # bytes
_LINE = 512  # bytes of a line of the L2: rows that begin elsewhere are slower


class _Class:
    __slots__ = ("cap", "count", "ends", "given", "is_hit", "rate")

    def __init__(self, cap: float, *, is_hit: bool) -> None:
        self.cap = cap  # bytes per cycle of one flow at most
        self.is_hit = is_hit
        self.count = 0
        self.rate = 0.0
        self.given = 0.0  # bytes that each of its flows has had since the beginning
        self.ends: list[tuple[float, int, Instruction]] = []  # at which reading of `given` each flow ends


class Bandwidth:
    """The memory of a card, on which flows of all cores draw."""

    def __init__(self, spec: CoreSpec) -> None:
        self.spec = spec
        self.now = 0.0
        self._classes: dict[tuple[Direction, str, bool], _Class] = {}
        self._sequence = 0
        per_cycle = 1e3 / spec.mhz  # GB/s to bytes per cycle
        self._hbm, self._l2 = spec.hbm_gbps * per_cycle, spec.l2_gbps * per_cycle
        self._caps = {
            (Direction.READ, "ub"): (spec.read_bytes_per_cycle, spec.hit_read_gbps * per_cycle),
            (Direction.READ, "l1"): (spec.l1_read_bytes_per_cycle, spec.l1_read_gbps * per_cycle),
            (Direction.WRITE, "ub"): (spec.write_bytes_per_cycle, spec.write_bytes_per_cycle),
            (Direction.WRITE, "l1"): (spec.write_bytes_per_cycle, spec.write_bytes_per_cycle),
            (Direction.WRITE, "l0c"): (spec.l0c_write_gbps * per_cycle,) * 2,
        }

    @property
    def is_busy(self) -> bool:
        """Does anything flow?"""
        return any(each.count for each in self._classes.values())

    def add(self, now: float, each: Instruction, *, hit: bool) -> None:
        """*each* begins to flow."""
        self._go_on(now)
        flow = each.flow
        assert flow is not None, f"{each!r} moves nothing through GM"
        key = flow.direction, flow.path, hit
        found = self._classes.get(key)
        if found is None:
            caps = self._caps[flow.direction, flow.path]
            found = self._classes[key] = _Class(caps[hit], is_hit=hit)
        self._sequence += 1
        heappush(found.ends, (found.given + moved_bytes(flow, self.spec), self._sequence, each))
        found.count += 1
        self._share()

    def next_end(self) -> float | None:
        """When the next flow ends, if nothing changes."""
        ends = [
            self.now + max(0.0, each.ends[0][0] - each.given) / each.rate
            for each in self._classes.values()
            if each.count
        ]
        return min(ends, default=None)

    def pop_ended(self) -> list[Instruction]:
        """Go on to the next end: the flows that end there."""
        end = self.next_end()
        assert end is not None, "nothing flows"
        self._go_on(end)
        ended = []
        for each in self._classes.values():
            while each.ends and each.ends[0][0] <= each.given + _EPSILON:
                ended.append(heappop(each.ends)[2])
                each.count -= 1
        self._share()
        return ended

    def _go_on(self, now: float) -> None:
        passed = now - self.now
        if passed > 0:
            for each in self._classes.values():
                if each.count:
                    each.given += passed * each.rate
            self.now = now

    def _share(self) -> None:
        """New rates: HBM among those that miss the L2, the L2 among those that hit it."""
        for is_hit, total in ((False, self._hbm), (True, self._l2)):
            classes = [each for each in self._classes.values() if each.is_hit is is_hit and each.count]
            rates = _max_min(total, tuple((each.cap, each.count) for each in classes))
            for each, rate in zip(classes, rates, strict=True):
                each.rate = rate


@cache
def _max_min(total: float, wanted: tuple[tuple[float, int], ...]) -> tuple[float, ...]:
    """The fair rate of each class of (most, flows): nobody gets more than it can take, the rest is shared evenly."""
    rates = [0.0] * len(wanted)
    left, flows = total, sum(count for _, count in wanted)
    for place in sorted(range(len(wanted)), key=lambda place: wanted[place][0]):
        cap, count = wanted[place]
        rates[place] = min(cap, left / flows)
        left -= rates[place] * count
        flows -= count
    return tuple(rates)


def moved_bytes(flow: Flow, spec: CoreSpec) -> float:
    """The bytes that really move: whole requests for each row, and more for rows that are not aligned."""
    granule = spec.l1_request_bytes if flow.path == "l1" else spec.request_bytes
    per_row = -(-(flow.start % granule + flow.length) // granule) * granule
    moved = float(per_row * flow.rows)
    if flow.start % _LINE and flow.length >= _LINE:
        moved /= spec.unaligned_permille / 1000
    return moved
