"""What the warps of an SM did, and when: its blocks are played once more, and each instruction is noted.

Nothing is noted while a launch is timed, because a launch has millions of instructions and nobody asks for most of
them. A second play gives the same times.
"""

from collections.abc import Callable, Hashable, Sequence
from enum import IntEnum
from functools import partial
from operator import attrgetter
from types import CodeType
from typing import NamedTuple

from device_model.kernel.sites import Site
from device_model.sm.instructions import SECTOR, UNIT, Op, Row, Unit
from device_model.sm.schedulers import Barrier
from device_model.sm.spec import SmSpec
from device_model.sm.warps import Sm, Warp


class Pipe(IntEnum):
    """A line of the pipe view: the schedulers, a unit of the SM, or its traffic."""

    ISSUE = 0  # the schedulers; barriers, groups of copies, phases
    LSU = 1
    MEM = 2  # bytes on their way: asynchronous copies, loads and stores of global memory
    TENSOR = 3
    FMA = 4
    ALU = 5
    SFU = 6

    def __str__(self) -> str:
        return self.name


class Kind(IntEnum):
    """How a warp treats an instruction."""

    WORK = 0
    SET = 1  # lets others go on: commit_group, an arrival at an mbarrier
    WAIT = 2  # for copies, or for a phase of an mbarrier
    BARRIER = 3


_PIPE = {unit: Pipe.ISSUE if unit is Unit.SYNC else Pipe[unit.name] for unit in dict.fromkeys(UNIT.values())}
_KIND = {
    Op.COMMIT: Kind.SET, Op.ARRIVE: Kind.SET, Op.COPY_ARRIVE: Kind.SET, Op.WAIT_GROUP: Kind.WAIT,
    Op.WAIT_PHASE: Kind.WAIT, Op.BARRIER: Kind.BARRIER, Op.SYNC_WARP: Kind.BARRIER,
}  # fmt: skip
_MOVES = frozenset((Op.LDG, Op.STG, Op.ATOMG, Op.CP_ASYNC))  # through global memory


class Moved(NamedTuple):
    """What an instruction moved from or to global memory, in whole sectors."""

    nbytes: int


class Instruction:
    """What one warp did for one row in one pipe: each row is in ISSUE, in its unit, and in MEM if it moves bytes there.

    Attributes:
        row: The row of the block.
        warp: The number of the warp in its block.
        pipe: Where it was.
        kind: What it was to the warp.
        start, end: Cycles. In ISSUE and in a unit: from the first of its instructions until the last has left; in MEM
            until the last byte has arrived; a wait or barrier, until the warp goes on.
        waits: What it waited for last, of the same block: what made a register, a copy, an arrival; or nothing.
    """

    __slots__ = ("_nbytes", "end", "kind", "pipe", "row", "start", "waits", "warp")

    def __init__(self, row: Row, warp: int, pipe: Pipe, start: float, waits: "tuple[Instruction, ...]" = ()) -> None:
        self.row = row
        self.warp = warp
        self.pipe = pipe
        self.kind = _KIND.get(row.op, Kind.WORK)
        self.start = self.end = start
        self.waits = waits
        self._nbytes = 0

    def __str__(self) -> str:
        return f"{self.name} at {self.site}"

    def __repr__(self) -> str:
        return f"<{self.name} in {self.pipe}: {self.start:.0f} to {self.end:.0f}>"

    @property
    def name(self) -> str:
        """Its name, how many instructions it stands for, and its warp."""
        times = f" x {self.row.count}" if self.row.count > 1 else ""
        return f"{self.row.name}{times} (warp {self.warp})"

    @property
    def code(self) -> CodeType:
        """The code of its line."""
        return self.row.code

    @property
    def lasti(self) -> int:
        """Its place in `code`."""
        return self.row.lasti

    @property
    def site(self) -> Site:
        """Its line of the kernel."""
        return Site(self.row.code, self.row.lasti)

    @property
    def flow(self) -> Moved | None:
        """What it moved, if it is in MEM."""
        return Moved(self._nbytes) if self._nbytes else None

    def move(self, sectors: int) -> None:
        """Note that it moves *sectors* sectors."""
        self._nbytes = sectors * SECTOR

    def later(self, cycles: float) -> "Instruction":
        """Return the same, *cycles* later, waiting for nothing."""
        copy = Instruction(self.row, self.warp, self.pipe, self.start + cycles)
        copy.end = self.end + cycles
        copy._nbytes = self._nbytes
        return copy


def history(blocks: Sequence[Sequence[Row]], spec: SmSpec, sharers: int = 1) -> list[list[Instruction]]:
    """Return what the warps of each of *blocks* do, in the order of issue; the arguments are those of `sm.play`."""
    return _History(blocks, spec, sharers).noted()


def count(rows: Sequence[Row]) -> int:
    """Return how many instructions `history` has of a block with *rows*."""
    return sum(row.warps.bit_count() * (1 if row.unit is Unit.SYNC else 3 if row.op in _MOVES else 2) for row in rows)


def later(instructions: Sequence[Instruction], cycles: float) -> list[Instruction]:
    """Return *instructions*, which are those of a block, *cycles* later."""
    copies = {each: each.later(cycles) for each in instructions}
    for each, copy in copies.items():
        copy.waits = tuple(copies[other] for other in each.waits)
    return list(copies.values())


class _Noted:
    """What is known of a warp: the instructions of its present row, and those that others may wait for."""

    __slots__ = ("copies", "groups", "made", "now")

    def __init__(self) -> None:
        self.now: dict[Pipe, Instruction] = {}
        self.made: dict[int, Instruction] = {}  # by register
        self.copies: list[Instruction] = []  # in no group yet
        self.groups: list[list[Instruction]] = []  # not waited for yet


class _History(Sm):
    """An SM that notes what its warps do."""

    def __init__(self, blocks: Sequence[Sequence[Row]], spec: SmSpec, sharers: int) -> None:
        super().__init__(blocks, spec, sharers)
        self.handlers = {op: partial(self._note, handler) for op, handler in self.handlers.items()}
        self._noted: list[list[Instruction]] = [[] for _ in blocks]
        self._of_warp = [_Noted() for _ in self.warps]
        self._last: dict[tuple[int, Hashable, int], Instruction] = {}  # the last arrival in a phase of a block
        self._arriving: Instruction | None = None
        self._arrival = 0.0

    def noted(self) -> list[list[Instruction]]:
        """Play the blocks, and return what was noted of each."""
        self.run()
        return self._noted

    def _note(
        self, handler: Callable[[Warp, Row, float], float | None], warp: Warp, row: Row, now: float
    ) -> float | None:
        noted, unit = self._of_warp[warp.number], UNIT[row.op]
        if warp.left == row.count:
            self._begin(noted, warp, row, now)
        pipe = _PIPE[unit]
        working = self._arriving = noted.now[pipe]
        left, busy = warp.left, self.busy[unit]
        then = handler(warp, row, now)
        if unit is Unit.SYNC:
            self._synchronised(noted, warp, row, then)
            return then
        slots = noted.now[Pipe.ISSUE]
        slots.end = self.issue[warp.scheduler]
        working.end = self.lsu if unit is Unit.LSU else self.pipes[warp.scheduler][unit]
        if left == row.count:
            slots.start = slots.end - (left - warp.left)
            working.start = working.end - (self.busy[unit] - busy)
        if row.op in _MOVES:
            flight = noted.now[Pipe.MEM]
            flight.start = working.start
            flight.end = max(flight.end, self._arrival)
        return then

    def _begin(self, noted: _Noted, warp: Warp, row: Row, now: float) -> None:
        """Note that *warp* begins *row*."""
        made = [noted.made[register] for register in row.reads if register in noted.made]
        pipe = _PIPE[UNIT[row.op]]
        working = Instruction(row, warp.index, pipe, now, _last_of(made))
        noted.now = {Pipe.ISSUE: Instruction(row, warp.index, Pipe.ISSUE, now)} | {pipe: working}
        result = working
        if row.op in _MOVES:
            result = noted.now[Pipe.MEM] = Instruction(row, warp.index, Pipe.MEM, now, (working,))
            result.move(row.sectors if isinstance(row.sectors, int) else row.sectors[warp.index])
        if row.op is Op.CP_ASYNC:
            noted.copies.append(result)
        for register in row.writes:
            noted.made[register] = result
        self._noted[warp.block.number] += noted.now.values()

    def _synchronised(self, noted: _Noted, warp: Warp, row: Row, then: float | None) -> None:
        """Note what the synchronising *row* did: the warp goes on at *then*, or as soon as it is released."""
        each, phase = noted.now[Pipe.ISSUE], (warp.block.number, row.key, row.number)
        if then is not None:
            each.end = then
        if row.op is Op.COMMIT:
            noted.groups.append(noted.copies)
            noted.copies = []
        elif row.op is Op.WAIT_GROUP:
            older = max(len(noted.groups) - row.number, 0)
            awaited = [copy for group in noted.groups[:older] for copy in group]
            del noted.groups[:older]
            each.waits = _last_of(awaited)
        elif row.op is Op.ARRIVE or row.op is Op.COPY_ARRIVE:
            self._last[phase] = each
        elif row.op is Op.WAIT_PHASE and then is not None:
            each.waits = (self._last[phase],)

    def _done(self, warp: Warp, row: Row, instructions: int, first: float, end: float) -> None:
        self._arrival = end
        super()._done(warp, row, instructions, first, end)

    def _complete(self, barrier: Barrier[Warp]) -> None:
        """Note that the warps at *barrier* go on, because of the arrival of the present one."""
        assert self._arriving is not None, "a barrier is completed by an arrival"
        for warp in barrier.waiting:
            each = self._of_warp[warp.number].now[Pipe.ISSUE]
            each.end = barrier.end
            each.waits = () if each is self._arriving else (self._arriving,)
        super()._complete(barrier)


def _last_of(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    return (max(instructions, key=attrgetter("end")),) if instructions else ()
