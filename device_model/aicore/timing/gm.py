"""The demands of copies on GM: how many bytes they move from or to HBM and the L2, at which rate, after which latency.

* A copy is cut into pieces at lines of 512 bytes. A core requests a fixed number of pieces per cycle, short or long, so
  rows that are shorter than a line cannot use all its bandwidth.
* A copy moves whole requests: 128 bytes to UB, 256 bytes to L1. Rows that are at least a line long and do not begin at
  a line move whole lines.
* Rows of a matrix that become fractals in L1 and begin inside a sector of 128 bytes cost one request more, and two if
  they begin inside a block of 32 bytes. They come from the L2 no faster than from HBM.
* Bytes that are in the L2 are read from there. Others are read from HBM, and stay in the L2 unless the tensor bypasses
  it. Bytes that are on their way to the L2 for another core are not read again, but arrive no earlier than for that
  core.
* Writes go to the L2. When a read or a write evicts dirty bytes from the L2, these are written to HBM first. HBM turns
  from reads to writes and back, so a written byte costs more as long as there are bytes that are read beside it.
* Copies of several cores that begin in the same line within a moment are crowded. All crowded copies together get a
  fixed number of pieces per cycle, whichever lines they are at.
"""

from collections.abc import Hashable, Sequence
from math import gcd, inf
from typing import NamedTuple

from device_model.aicore.core.names import BLOCK
from device_model.aicore.core.program import Direction, Flow, Instruction, Program
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.timing.bandwidth import Bandwidth, Demand
from device_model.aicore.timing.l2 import SECTOR, Cache

LINE = 512  # bytes of a line of the L2
HBM, L2 = 0, 1  # the memories whose bandwidth is shared
_READ = Direction.READ  # a member that is read through its enum takes ten times as long
MOMENT = 2000  # cycles within which two cores at one line are in each other's way
# The bytes that a copy waits for, beyond its own, are rounded to quarters of it: so there are few classes of rates.
_PARTS = 4


class _Usual(NamedTuple):
    """The demand of a copy for which nothing is written back, and at whose lines no other core is."""

    demand: Demand
    pieces: int
    moved: int  # bytes
    cycles: float  # least time of a core for its pieces


class Gm:
    """The L2 and HBM of a card during a launch of *programs*; without *l2* the L2 is empty."""

    def __init__(self, programs: Sequence[Program], spec: CoreSpec, l2: Cache | None = None) -> None:
        per_cycle = 1e3 / spec.mhz  # GB/s to bytes per cycle
        self.bandwidth: Bandwidth = Bandwidth((spec.hbm_gbps * per_cycle, spec.l2_gbps * per_cycle))
        self._spec = spec
        self._cache = Cache(spec.l2_bytes) if l2 is None else l2
        self._read = 0.0  # bytes that HBM has read since it wrote as many, at most a buffer of them
        self._same_lines = spec.same_lines_per_us / spec.mhz  # pieces per cycle
        # For each line at which copies of more than one core begin: the core and the cycle of the last copy.
        self._last_at: dict[Hashable, tuple[int, float]] = dict.fromkeys(_shared(programs), (-1, -inf))
        self._fetchers: dict[Hashable, Instruction] = {}  # the last copy that read such a line from HBM
        self.behind: dict[Instruction, Instruction] = {}  # a copy -> the copy whose bytes it waits for
        self._usual: dict[Hashable, _Usual] = {}
        # Bytes per cycle of a core, by direction and path: with HBM, and with the L2.
        self._rates = {
            (Direction.READ, "ub"): (spec.read_bytes_per_cycle, spec.hit_read_gbps * per_cycle),
            (Direction.READ, "l1"): (spec.l1_read_bytes_per_cycle, spec.l1_read_gbps * per_cycle),
            (Direction.WRITE, "ub"): (spec.write_bytes_per_cycle,) * 2,
            (Direction.WRITE, "l1"): (spec.write_bytes_per_cycle,) * 2,
            (Direction.WRITE, "l0c"): (spec.l0c_write_gbps * per_cycle,) * 2,
        }
        # To L1: lines of the L2 at which several cores begin, and rows of a matrix from HBM that become fractals, by
        # whether several cores begin there.
        self._shared_rate = spec.l1_shared_read_gbps * per_cycle
        self._rows_rates = spec.l1_rows_read_gbps * per_cycle, spec.l1_rows_shared_read_gbps * per_cycle

    def ask(self, each: Instruction, flow: Flow, core: int, at: float) -> Demand:
        """Return the demand of *flow*, that of *each* on *core*, at cycle *at*; update the L2 accordingly.

        Call it in the order in which copies start: what is in the L2 depends on all copies before.
        """
        missing, evicted = self._cache.touch(flow)
        if missing and flow.direction is _READ:
            self._read = min(self._read + missing, self._spec.write_back_bytes)
        if self._last_at and flow.direction is _READ:
            self._follow(each, flow, missing)
        is_shared = bool(self._last_at) and (flow.key, flow.start // LINE, flow.direction) in self._last_at
        key = (
            flow.start % LINE, flow.length, flow.rows, flow.stride, flow.path, flow.direction, flow.bypass, missing,
            is_shared, flow.nd2nz,
        )  # fmt: skip
        usual = self._usual.get(key)
        if usual is None:
            usual = self._usual[key] = self._usually(flow, missing, is_shared=is_shared)
        demand, pieces, moved, cycles = usual
        waits = self._write_back(evicted, moved / _PARTS) if evicted else 0.0
        if waits:
            nbytes = waits if demand.memory == L2 else demand.nbytes + waits
            demand = Demand(HBM, nbytes, nbytes / cycles, demand.latency_ns)
        if self._last_at and self._is_crowded(flow, core, at):
            together = self._same_lines * demand.nbytes / pieces
            return demand._replace(group=flow.direction, together=together)
        return demand

    def _usually(self, flow: Flow, missing: int, *, is_shared: bool) -> _Usual:
        spec = self._spec
        pieces, moved, is_whole = _cut(flow, spec)
        to_l1 = flow.direction is _READ and flow.path == "l1"
        from_hbm, from_l2 = self._rates[flow.direction, flow.path]
        if to_l1 and flow.nd2nz and not flow.bypass:
            from_hbm = min(from_hbm, self._rows_rates[is_shared])
        if to_l1 and is_shared:
            from_l2 = self._shared_rate
        asked = moved if to_l1 and not flow.bypass else pieces * LINE  # L1 asks for requests, UB for pieces of lines
        inside, more = _inside_sectors(flow, spec)
        slow = (inside + more) / self._rows_rates[False]
        beyond, l2 = (asked - inside) / from_hbm + slow, (asked - inside) / from_l2 + slow
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
            if to_l1:
                share *= spec.hbm_l1_permille / 1000
                if flow.length < spec.l1_request_bytes and not flow.bypass:
                    share *= spec.hbm_short_permille / 1000
            return _Usual(Demand(HBM, share, share / beyond, latency), pieces, moved, beyond)
        return _Usual(Demand(L2, moved, moved / l2, latency), pieces, moved, l2)

    def _follow(self, each: Instruction, flow: Flow, missing: int) -> None:
        """Note whether *each*, a read, fetches its first line from HBM, or waits for a copy that is fetching it."""
        line = flow.key, flow.start // LINE
        if missing:
            if not flow.bypass:
                self._fetchers[line] = each
        elif (fetcher := self._fetchers.get(line)) is not None and fetcher.end == inf:
            self.behind[each] = fetcher

    def _is_crowded(self, flow: Flow, core: int, at: float) -> bool:
        """Return True if a copy of another core began at this line within a moment."""
        line = flow.key, flow.start // LINE, flow.direction
        last = self._last_at.get(line)
        if last is None:
            return False
        self._last_at[line] = core, at
        other, when = last
        return other != core and abs(at - when) < MOMENT

    def _write_back(self, evicted: int, step: float) -> float:
        """Add *evicted* bytes to those that HBM has to write; return how many of them the copy must wait for.

        HBM writes them in time that no flow uses. A buffer holds them until then; a copy waits for the bytes that do
        not fit in it, rounded down to a multiple of *step*.
        """
        beside = min(evicted, self._read)
        self._read -= beside
        owed = self.bandwidth.owed + evicted + beside * (self._spec.write_back_permille / 1000 - 1)
        waits = max(0.0, owed - self._spec.write_back_bytes) // step * step
        self.bandwidth.owed = owed - waits
        return waits


def _inside_sectors(flow: Flow, spec: CoreSpec) -> tuple[int, int]:
    """Return the bytes of rows that become fractals and begin inside a sector, and what these cost more, in bytes."""
    moved = requests = 0
    if flow.nd2nz and not flow.bypass:
        for offset, times in _offsets(flow):
            if offset % SECTOR:
                moved += times * _moved(flow, offset, spec.l1_request_bytes)
                requests += times * (2 if offset % BLOCK else 1)
    return moved, requests * spec.l1_request_bytes


def _offsets(flow: Flow) -> list[tuple[int, int]]:
    """Return where rows of *flow* begin in a line, and how many do. It repeats after so many rows."""
    period = min(flow.rows, LINE // gcd(flow.stride, LINE)) if flow.rows > 1 else 1
    return [
        ((flow.start + row * flow.stride) % LINE, (flow.rows - row - 1) // period + 1) for row in range(period)
    ]  # fmt: skip


def _moved(flow: Flow, offset: int, request: int) -> int:
    """Return the bytes that move for a row that begins at *offset* in a line."""
    if flow.length >= LINE and offset:
        return ((offset + flow.length - 1) // LINE + 1) * LINE
    return -(-(offset % request + flow.length) // request) * request


def _cut(flow: Flow, spec: CoreSpec) -> tuple[int, int, bool]:
    """Return the pieces of *flow*, the bytes it moves, and True if each row of at least a line begins at a line."""
    request = spec.l1_request_bytes if flow.path == "l1" else spec.request_bytes
    pieces = moved = 0
    is_whole = True
    for offset, times in _offsets(flow):
        pieces += times * ((offset + flow.length - 1) // LINE + 1)
        moved += times * _moved(flow, offset, request)
        is_whole = is_whole and not (flow.length >= LINE and offset)
    return pieces, moved, is_whole


def _shared(programs: Sequence[Program]) -> frozenset[Hashable]:
    """Return the lines at which copies of more than one core begin."""
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
