"""What copies ask of GM: how many bytes they move to and from HBM or the L2, how fast at most, and after what latency.

* A copy is cut into pieces at lines of 512 bytes; a core asks for so many pieces per cycle, short or long. So rows that
  are shorter than a line cannot use a core's bandwidth.
* It moves whole requests, of 128 bytes to UB and 256 to L1. Rows of a line and more that do not begin at a line move
  whole lines.
* Reads of what the L2 has come from there. Others come from HBM, and stay in the L2 unless the tensor says not.
* Writes go to the L2. What they, or reads, evict there is written to HBM first if it is dirty.
* Copies of several cores that begin in one line are served by one slice of the L2.
"""

from collections.abc import Hashable, Sequence
from math import gcd
from typing import Any, NamedTuple

from device_model.aicore.bandwidth import Bandwidth, Demand
from device_model.aicore.l2 import Cache
from device_model.aicore.program import Direction, Flow, Program
from device_model.aicore.spec import CoreSpec

LINE = 512  # bytes of a line of the L2
HBM, L2 = 0, 1  # the memories whose bandwidth is shared
_PARTS = 4  # of a copy: what it waits for beyond its own bytes is rounded to these, so that rates are few


class _Shape(NamedTuple):
    """What follows from the rows of a copy and the way it goes."""

    pieces: int
    moved: int  # bytes
    is_whole: bool  # does each row of a line and more begin at a line?
    cycles: float  # that its pieces take a core at least, from or to HBM
    l2_cycles: float


class Gm:
    """The L2 and HBM of a card during a launch of *programs*."""

    def __init__(self, programs: Sequence[Program], spec: CoreSpec) -> None:
        per_cycle = 1e3 / spec.mhz  # GB/s to bytes per cycle
        self.bandwidth: Bandwidth[Any] = Bandwidth((spec.hbm_gbps * per_cycle, spec.l2_gbps * per_cycle))
        self._spec = spec
        self._cache = Cache(spec.l2_bytes)
        self._same_lines = spec.same_lines_per_us / spec.mhz  # pieces per cycle
        self._shared = _shared(programs)
        self._shapes: dict[Hashable, _Shape] = {}
        # Bytes per cycle of a core, by way and path: from and to HBM, and the L2.
        self._rates = {
            (Direction.READ, "ub"): (spec.read_bytes_per_cycle, spec.hit_read_gbps * per_cycle),
            (Direction.READ, "l1"): (spec.l1_read_bytes_per_cycle, spec.l1_read_gbps * per_cycle),
            (Direction.WRITE, "ub"): (spec.write_bytes_per_cycle,) * 2,
            (Direction.WRITE, "l1"): (spec.write_bytes_per_cycle,) * 2,
            (Direction.WRITE, "l0c"): (spec.l0c_write_gbps * per_cycle,) * 2,
        }

    def ask(self, flow: Flow) -> Demand:
        """What *flow* asks for if it is the next to touch the L2."""
        key = flow.start % LINE, flow.length, flow.rows, flow.stride, flow.path, flow.direction, flow.bypass
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = self._shape(flow)
        missing, evicted = self._cache.touch(flow)
        if flow.direction is Direction.WRITE:
            latency = self._spec.write_latency_ns
            through = shape.moved if flow.bypass else 0
        elif missing:
            latency = self._spec.read_latency_ns
            through = min(shape.moved, missing) if shape.is_whole and not flow.bypass else shape.moved
        else:
            latency, through = self._spec.hit_latency_ns, 0
        cycles = shape.cycles if through else shape.l2_cycles
        nbytes: float = through
        if evicted:
            nbytes += self._write_back(evicted, shape.moved / _PARTS)
        memory = HBM
        if not nbytes:
            memory, nbytes = L2, shape.moved
        cap = nbytes / cycles
        group = flow.key, flow.start // LINE, flow.direction
        if self._shared and group in self._shared:
            return Demand(memory, nbytes, cap, latency, group, self._same_lines * nbytes / shape.pieces)
        return Demand(memory, nbytes, cap, latency)

    def _write_back(self, evicted: int, step: float) -> float:
        """HBM takes what the L2 evicts when it has time; who evicts waits for what is beyond a buffer, in *step*s."""
        owed = self.bandwidth.owed + evicted * self._spec.write_back_permille / 1000
        waits = max(0.0, owed - self._spec.write_back_bytes) // step * step
        self.bandwidth.owed = owed - waits
        return waits

    def _shape(self, flow: Flow) -> _Shape:
        spec = self._spec
        pieces, moved, is_whole = _cut(flow, spec)
        beyond, l2 = (pieces * LINE / rate for rate in self._rates[flow.direction, flow.path])
        if flow.bypass and flow.length < LINE:
            beyond *= spec.bypass_row_permille / 1000
        return _Shape(pieces, moved, is_whole, beyond, l2)


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
