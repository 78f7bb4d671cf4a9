"""Advice on how a kernel uses memory, from the addresses that a launch really used.

The benefit of advice is computed: the launch is played again as if all lines had followed the guideline, and the time
saved is reported. Wasted bandwidth that no other copy needed, or a bank conflict hidden behind copies, saves nothing,
and the text says so. The guidelines are the vendor's: copies of 16 KB and more, aligned to 512 bytes in
GM, and operands that lie apart in the banks of the UB.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import NamedTuple

from device_model.aicore.core.memories import BLOCK
from device_model.aicore.core.program import Direction, Flow, Instruction, Program, Site
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.runner import Result
from device_model.aicore.timing.play import play
from device_model.aicore.vector.banks import BANK_SHIFT, Conflict, steady_cycles

LINE = 512  # bytes of a line of the L2
LARGE = 16384  # bytes of a copy that is worth its start
_WASTE = 1.125  # bytes asked for to get a useful one, from which on it is worth a word
# How far an operand may be moved to get it out of another's way: to other groups, or to another bank of its group.
_SHIFTS = (256, *(BLOCK * blocks for blocks in range(1, 16)), 1 << BANK_SHIFT)


class Guideline(Enum):
    """The guidelines that advice is about; the value says what to do."""

    ALIGNED_COPIES = "begin parts, tiles and rows at multiples of 512 bytes in GM"
    WHOLE_LINES = "take more columns and fewer rows, or store in one piece what is read together"
    LARGE_COPIES = "use tiles of 16 KB and more, or bring several at once"
    BANKS_APART = "move operands apart in the UB; a longer buffer before one moves it"


@dataclass(frozen=True, slots=True)
class Case:
    """A line that does not follow a guideline: its instructions are called *name* and ran *count* times."""

    site: Site
    name: str
    count: int
    what: str

    def __str__(self) -> str:
        return f"{self.site}: {self.name} {self.what}" + (f" ({self.count:,} times)" if self.count > 1 else "")


@dataclass(frozen=True, slots=True)
class Advice:
    """A guideline that some lines of a kernel do not follow.

    The launch would take *saved_us* less if all of them did (or more, rarely: cores that are done sooner compete at
    other times).
    """

    guideline: Guideline
    cases: tuple[Case, ...]
    saved_us: float

    def __str__(self) -> str:
        worth = f"costs {self.saved_us:.2f} us of the launch" if self.saved_us >= 0.005 else "costs this launch nothing"
        lines = [f"{self.guideline.name} {worth}: {self.guideline.value}", *map(str, self.cases)]
        return "\n  ".join(lines)


class _Mended(NamedTuple):
    """The flow and cycles that an instruction would have."""

    flow: Flow | None
    cycles: int


_Mends = dict[Instruction, _Mended]
_Line = Sequence[tuple[Program, Instruction]]  # what was issued at one line


def advise(result: Result) -> list[Advice]:
    """Return advice on a launch, the most useful first; empty if all guidelines are followed.

    *result* is what `run` gives, or `work.result` of a launch's completion. A ValueError if it has no times, because
    it was stopped or run without them.
    """
    if result.timeline is None:
        raise ValueError("this launch has no times: it was stopped, or run without timing")
    lines = _lines(result.programs)
    advice = []
    for guideline, check in _CHECKS.items():
        mends: _Mends = {}
        cases, elsewhere = [], _Elsewhere()
        for site, line in lines.items():
            mended, what = check(line, elsewhere, result.spec)
            if mended:
                cases.append(Case(site, f"{line[0][1].name} ({line[0][1].pipe})", len(mended), what))
                mends |= mended
        if cases:
            saved_ns = result.timeline.duration_ns - _duration_with(result, mends)
            advice.append(Advice(guideline, tuple(cases), saved_ns / 1000))
    return sorted(advice, key=lambda each: -each.saved_us)


def _lines(programs: Sequence[Program]) -> dict[Site, list[tuple[Program, Instruction]]]:
    """Copies through GM and vector instructions with conflicts, by their line, in the order of its first."""
    lines: dict[Site, list[tuple[Program, Instruction]]] = {}
    for program in programs:
        for each in program.instructions:
            if each.flow is not None or each in program.conflicts:
                lines.setdefault(each.site, []).append((program, each))
    return lines


def _duration_with(result: Result, mends: _Mends) -> int:
    """Return the duration of the launch with *mends* in ns; restore the instructions afterwards."""
    times = [(each, each.start, each.end) for program in result.programs for each in program.instructions]
    before = {each: _Mended(each.flow, each.cycles) for each in mends}
    try:
        _set(mends)
        return play(result.programs, result.spec).duration_ns
    finally:
        _set(before)
        for each, start, end in times:
            each.start, each.end = start, end


def _set(mends: _Mends) -> None:
    for each, (flow, cycles) in mends.items():
        each.flow, each.cycles = flow, cycles


# Copies


class _Elsewhere:
    """An allocation in which mended copies have places of their own, aligned; who had one place still has one."""

    def __init__(self) -> None:
        self._starts: dict[object, int] = {}
        self._end = 0

    def flow(self, parts: Sequence[Flow], length: int, rows: int = 1, stride: int = 0) -> Flow:
        """What brings the same as *parts*, which go one way."""
        like = parts[0]
        place = tuple((part.key, part.start, part.length, part.rows, part.stride) for part in parts)
        start = self._starts.setdefault(place, self._end)
        flow = Flow(like.direction, like.path, self, start, length, rows, stride, bypass=like.bypass, nd2nz=like.nd2nz)
        if start == self._end:
            self._end += -(-flow.stop // LINE) * LINE - start
        return flow


def _copies(line: _Line) -> Iterator[tuple[Program, Instruction, Flow]]:
    return ((program, each, each.flow) for program, each in line if each.flow is not None)


def _example(mended: _Mends) -> Flow:
    """Return the first mended copy, as an example for the text."""
    flow = next(iter(mended)).flow
    assert flow is not None, "only copies are checked"
    return flow


def _misaligned(line: _Line, elsewhere: _Elsewhere, _spec: CoreSpec) -> tuple[_Mends, str]:
    mended = {
        each: _Mended(elsewhere.flow([flow], flow.length, flow.rows, -(-flow.stride // LINE) * LINE), each.cycles)
        for _, each, flow in _copies(line)
        if flow.length >= LINE and (flow.start % LINE or flow.stride % LINE)
    }
    if not mended:
        return {}, ""
    flow = _example(mended)
    rows = f", its rows {flow.stride:,} bytes apart" if flow.rows > 1 else ""
    return mended, f"begins {flow.start % LINE} bytes into a line of {LINE}{rows}"


def _in_pieces(line: _Line, elsewhere: _Elsewhere, spec: CoreSpec) -> tuple[_Mends, str]:
    mended = {
        each: _Mended(elsewhere.flow([flow], flow.nbytes), each.cycles)
        for _, each, flow in _copies(line)
        if flow.rows > 1 and (flow.length < LINE or _requested(flow, spec) > _WASTE * flow.nbytes)
    }
    if not mended:
        return {}, ""
    flow = _example(mended)
    requested = _requested(flow, spec)
    more = f", and asks for {requested:,} bytes to get {flow.nbytes:,}" if requested > flow.nbytes else ""
    return mended, f"has rows of {flow.length:,} bytes, {flow.stride:,} apart{more}"


def _requested(flow: Flow, spec: CoreSpec) -> int:
    """Bytes of the requests that its rows take, if they begin at lines."""
    request = spec.l1_request_bytes if flow.path == "l1" else spec.request_bytes
    return -(-flow.length // request) * request * flow.rows


def _small(line: _Line, elsewhere: _Elsewhere, _spec: CoreSpec) -> tuple[_Mends, str]:
    """Copies of one core from (or to) one buffer that could be made several at once.

    Mended, the first read of each few brings the bytes of all, or the last write takes them: the same bytes in the same
    order, with fewer starts.
    """
    series: dict[tuple[int, object, Direction], list[tuple[Instruction, Flow]]] = {}
    for program, each, flow in _copies(line):
        series.setdefault((program.index, flow.key, flow.direction), []).append((each, flow))
    mended: _Mends = {}
    moved = 0
    for copies in series.values():
        nbytes = sum(flow.nbytes for _, flow in copies)
        several = LARGE * len(copies) // nbytes
        if several < 2 or len(copies) < 2:
            continue
        moved += nbytes
        for at in range(0, len(copies), several):
            together = copies[at : at + several]
            mended |= {each: _Mended(None, each.cycles) for each, _ in together}
            parts = [flow for _, flow in together]
            mover, _ = together[0 if parts[0].direction is Direction.READ else -1]
            mended[mover] = _Mended(elsewhere.flow(parts, sum(part.nbytes for part in parts)), mover.cycles)
    return mended, f"moves {moved // len(mended):,} bytes at a time" if mended else ""


# Banks


class _Remedy(NamedTuple):
    """Cycles of a conflict that is mended, and by moving what how far; nothing moves where strides are to blame."""

    cycles: int
    operand: int = 0  # the written one counts as the last
    shift: int = 0


@cache
def _remedy(conflict: Conflict) -> _Remedy | None:
    """The move of one tensor that leaves fewest cycles; None if nothing helps, as for the product of x and x."""
    operands = (*conflict.reads, conflict.write)
    best = _Remedy(conflict.cycles)
    for place in (*range(1, len(operands)), 0):  # the first source last: it may be the result of what was before
        for shift in _SHIFTS:
            # Operands at one address are one tensor, and move together.
            moved = tuple(
                (address + shift, access) if address == operands[place][0] else (address, access)
                for address, access in operands
            )
            cycles, _ = steady_cycles(conflict.slope, conflict.read_write, moved[:-1], moved[-1])
            if cycles < best.cycles:
                best = _Remedy(cycles, place, shift)
    if best.shift:
        return best
    # An operand that meets itself does so by its strides.
    alone = (steady_cycles(conflict.slope, conflict.read_write, (each,), each)[1] for each in operands)
    return _Remedy(conflict.cycles - conflict.lost) if any(alone) else None


def _in_conflict(line: _Line, _elsewhere: _Elsewhere, _spec: CoreSpec) -> tuple[_Mends, str]:
    remedies: dict[Instruction, tuple[Conflict, _Remedy]] = {}
    for program, each in line:
        conflict = program.conflicts.get(each)
        remedy = None if conflict is None else _remedy(conflict)
        if conflict is not None and remedy is not None:
            remedies[each] = conflict, remedy
    if not remedies:
        return {}, ""
    mended = {
        each: _Mended(each.flow, each.cycles - conflict.cycles + remedy.cycles)
        for each, (conflict, remedy) in remedies.items()
    }
    [((usual, remedy), _)] = Counter(remedies.values()).most_common(1)
    sources = ["src"] if len(usual.reads) == 1 else [f"src{place}" for place in range(len(usual.reads))]
    names, addresses = [*sources, "dst"], [address for address, _ in (*usual.reads, usual.write)]
    places = ", ".join(f"{name} at UB[{address}]" for name, address in zip(names, addresses, strict=True))
    if remedy.shift:
        what_helps = f"{names[remedy.operand]} belongs {remedy.shift:,} bytes further on"
    else:
        what_helps = "its strides stay in few bank groups"
    cost = f"takes {usual.cycles:,} cycles, {usual.lost:,} of them for operands meeting in banks"
    return mended, f"with {places} {cost}; {what_helps}"


_Check = Callable[[_Line, _Elsewhere, CoreSpec], tuple[_Mends, str]]
_CHECKS: dict[Guideline, _Check] = {
    Guideline.ALIGNED_COPIES: _misaligned,
    Guideline.WHOLE_LINES: _in_pieces,
    Guideline.LARGE_COPIES: _small,
    Guideline.BANKS_APART: _in_conflict,
}
