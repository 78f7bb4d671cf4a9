"""What copies ask of GM: how many bytes they move to and from HBM or the L2, how fast at most, and after what latency.

* A copy is cut into pieces at lines of 512 bytes; a core asks for so many pieces per cycle, short or long. So rows that
  are shorter than a line cannot use a core's bandwidth.
* It moves whole requests, of 128 bytes to UB and 256 to L1. Rows of a line and more that do not begin at a line move
  whole lines.
* Reads of what the L2 has come from there. Others come from HBM, and stay in the L2 unless the tensor says not. What is
  on its way there for another core does not come twice, but not before it has come for that one.
* Writes go to the L2. What they, or reads, evict there is written to HBM first if it is dirty.
* Copies that begin in a line at which one of another core began a moment ago get so many pieces per cycle, all of
  them together, whichever lines they are.
"""

from collections.abc import Hashable, Sequence
from math import gcd, inf
from typing import Any, NamedTuple

from device_model.aicore.core.program import Direction, Flow, Instruction, Program
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.timing.bandwidth import Bandwidth, Demand
from device_model.aicore.timing.l2 import Cache

LINE = 512  # bytes of a line of the L2
HBM, L2 = 0, 1  # the memories whose bandwidth is shared
_MOMENT = 2000  # cycles before and after a core asks for a line in which it is crowded for others
_PARTS = 4  # of a copy: what it waits for beyond its own bytes is rounded to these, so that rates are few


class _Usual(NamedTuple):
    """What a copy asks for when nothing is written back for it and no other core is at its lines."""

    demand: Demand
    pieces: int
    moved: int  # bytes
    cycles: float  # that its pieces take a core at least


class Gm:
    """The L2 and HBM of a card during a launch of *programs*."""

    def __init__(self, programs: Sequence[Program], spec: CoreSpec) -> None:
        per_cycle = 1e3 / spec.mhz  # GB/s to bytes per cycle
        self.bandwidth: Bandwidth[Any] = Bandwidth((spec.hbm_gbps * per_cycle, spec.l2_gbps * per_cycle))
        self._spec = spec
        self._cache = Cache(spec.l2_bytes)
        self._same_lines = spec.same_lines_per_us / spec.mhz  # pieces per cycle
        # By line at which copies of more than one core begin: whose was the last one, and when.
        self._asked: dict[Hashable, tuple[int, float]] = dict.fromkeys(_shared(programs), (-1, -inf))
        self._bringers: dict[Hashable, Instruction] = {}  # by such a line: the last copy that brought it from HBM
        self.behind: dict[Instruction, Instruction] = {}  # copies, and whose bytes they wait for
        self._usual: dict[Hashable, _Usual] = {}
        # Bytes per cycle of a core, by way and path: from and to HBM, and the L2.
        self._rates = {
            (Direction.READ, "ub"): (spec.read_bytes_per_cycle, spec.hit_read_gbps * per_cycle),
            (Direction.READ, "l1"): (spec.l1_read_bytes_per_cycle, spec.l1_read_gbps * per_cycle),
            (Direction.WRITE, "ub"): (spec.write_bytes_per_cycle,) * 2,
            (Direction.WRITE, "l1"): (spec.write_bytes_per_cycle,) * 2,
            (Direction.WRITE, "l0c"): (spec.l0c_write_gbps * per_cycle,) * 2,
        }

    def ask(self, each: Instruction, flow: Flow, core: int, at: float) -> Demand:
        """What *flow*, that of *each* on *core*, asks for at cycle *at* if it is the next to touch the L2."""
        missing, evicted = self._cache.touch(flow)
        if self._asked and flow.direction is Direction.READ:
            self._follow(each, flow, missing)
        key = flow.start % LINE, flow.length, flow.rows, flow.stride, flow.path, flow.direction, flow.bypass, missing
        usual = self._usual.get(key)
        if usual is None:
            usual = self._usual[key] = self._usually(flow, missing)
        demand, pieces, moved, cycles = usual
        waits = self._write_back(evicted, moved / _PARTS) if evicted else 0.0
        if waits:
            nbytes = waits if demand.memory == L2 else demand.nbytes + waits
            demand = Demand(HBM, nbytes, nbytes / cycles, demand.latency_ns)
        if self._asked and self._is_crowded(flow, core, at):
            together = self._same_lines * demand.nbytes / pieces
            return demand._replace(group=flow.direction, together=together)
        return demand

    def _usually(self, flow: Flow, missing: int) -> _Usual:
        spec = self._spec
        pieces, moved, is_whole = _cut(flow, spec)
        beyond, l2 = (pieces * LINE / rate for rate in self._rates[flow.direction, flow.path])
        if flow.bypass and flow.length < LINE:
            beyond *= spec.bypass_row_permille / 1000
        if flow.direction is Direction.WRITE:
            latency, through = spec.write_latency_ns, moved if flow.bypass else 0
        elif missing:
            latency, through = spec.read_latency_ns, min(moved, missing) if is_whole and not flow.bypass else moved
        else:
            latency, through = spec.hit_latency_ns, 0
        if through:
            share: float = through
            if flow.direction is Direction.READ and flow.path == "l1":
                share *= spec.hbm_l1_permille / 1000
            return _Usual(Demand(HBM, share, share / beyond, latency), pieces, moved, beyond)
        return _Usual(Demand(L2, moved, moved / l2, latency), pieces, moved, l2)

    def _follow(self, each: Instruction, flow: Flow, missing: int) -> None:
        """Note whether *each*, a read, brings its first line to the L2, or waits for another that is bringing it."""
        line = flow.key, flow.start // LINE
        if missing:
            if not flow.bypass:
                self._bringers[line] = each
        elif (bringer := self._bringers.get(line)) is not None and bringer.end is inf:
            self.behind[each] = bringer

    def _is_crowded(self, flow: Flow, core: int, at: float) -> bool:
        """Is another core at work on this line?"""
        line = flow.key, flow.start // LINE, flow.direction
        last = self._asked.get(line)
        if last is None:
            return False
        self._asked[line] = core, at
        other, when = last
        return other != core and abs(at - when) < _MOMENT

    def _write_back(self, evicted: int, step: float) -> float:
        """HBM takes what the L2 evicts when it has time; who evicts waits for what is beyond a buffer, in *step*s."""
        owed = self.bandwidth.owed + evicted * self._spec.write_back_permille / 1000
        waits = max(0.0, owed - self._spec.write_back_bytes) // step * step
        self.bandwidth.owed = owed - waits
        return waits


def moved_bytes(flow: Flow, spec: CoreSpec) -> int:
    """The bytes that *flow* moves: whole requests, and whole lines where rows do not begin at one."""
    return _cut(flow, spec)[1]


def _cut(flow: Flow, spec: CoreSpec) -> tuple[int, int, bool]:
    """The pieces of *flow* in lines, the bytes that it moves, and whether each row of a line and more begins at one."""
    request = spec.l1_request_bytes if flow.path == "l1" else spec.request_bytes
    period = min(flow.rows, LINE // gcd(flow.stride, LINE)) if flow.rows > 1 else 1  # of where rows begin in a line
    pieces = moved = 0
    is_whole = True
    for row in range(period):
        times = (flow.rows - row - 1) // period + 1
        offset = (flow.start + row * flow.stride) % LINE
        lines = (offset + flow.length - 1) // LINE + 1
        pieces += times * lines
        if flow.length >= LINE and offset:
            is_whole = False
            moved += times * lines * LINE
        else:
            moved += times * -(-(offset % request + flow.length) // request) * request
    return pieces, moved, is_whole


def _shared(programs: Sequence[Program]) -> frozenset[Hashable]:
    """The lines at which copies of more than one core begin."""
    cores: dict[Hashable, int] = {}
    shared = set()
    for program in programs:
        for each in program.instructions:
            flow = each.flow
            if flow is not None:
                key = flow.key, flow.start // LINE, flow.direction
                if cores.setdefault(key, program.index) != program.index:
                    shared.add(key)
    return frozenset(shared)
