"""Advice on how a kernel uses memory, from the addresses that a launch really used.

The benefit of each advice is computed, not guessed: the launch is played again as if every line had followed the
guideline, and the difference is the time saved. Both times are those with an empty L2. Bandwidth that no other copy
needed, or a bank conflict behind a longer copy, saves nothing, and the text says so. The guidelines are the vendor's:
copies of 16 KB or more, aligned to 512 bytes in GM, and operands in different banks of the UB.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import cache
from typing import NamedTuple

from device_model.aicore.core.names import BLOCK
from device_model.aicore.core.program import Direction, Flow, Instruction, Program
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.runner import Result
from device_model.aicore.timing.play import play
from device_model.aicore.vector.banks import BANK_SHIFT, Conflict, steady_cycles
from device_model.kernel.advice import Advice, Case
from device_model.kernel.sites import Site

LINE = 512  # bytes of a line of the L2
LARGE = 16384  # bytes of a copy from which on its start costs little
_WASTE = 1.125  # bytes requested for each useful byte, above which a line gets advice
# Distances by which an operand may be moved away from another: to other groups, or to another bank of its group.
_SHIFTS = (256, *(BLOCK * blocks for blocks in range(1, 16)), 1 << BANK_SHIFT)


class Guideline(Enum):
    """The guidelines for memory; the value says what to do."""

    ALIGNED_COPIES = "start parts, tiles and rows at multiples of 512 bytes in GM"
    WHOLE_LINES = "take more columns and fewer rows at a time, or store data that is read together in one piece"
    LARGE_COPIES = "use tiles of at least 16 KB, or copy several tiles at once"
    BANKS_APART = "move the operands apart in the UB, for example with a longer buffer in front of one"


class _Mended(NamedTuple):
    """The flow and cycles that an instruction would have."""

    flow: Flow | None
    cycles: int


_Mends = dict[Instruction, _Mended]
_Line = Sequence[tuple[Program, Instruction]]  # what was issued at one line


def advise(result: Result) -> list[Advice]:
    """Return advice on a launch, in the order of the time saved; an empty list if all guidelines are followed.

    Args:
        result: The result of a launch: `completion.work.result`, or that of `runner.run`.

    Raises:
        ValueError: The launch was stopped, or ran without timing.
    """
    if result.timeline is None:
        raise ValueError("this launch has no times: it was stopped, or run without timing")
    lines = _lines(result.programs)
    found: list[tuple[Guideline, list[Case], _Mends]] = []
    for guideline, check in _CHECKS.items():
        mends: _Mends = {}
        cases, elsewhere = [], _Elsewhere()
        for site, line in lines.items():
            mended, what = check(line, elsewhere, result.spec)
            if mended:
                cases.append(Case(site, f"{line[0][1].name} ({line[0][1].pipe})", len(mended), what))
                mends |= mended
        if cases:
            found.append((guideline, cases, mends))
    cold_ns = _duration_with(result, {}) if found else 0
    advice = [
        Advice(guideline, tuple(cases), (cold_ns - _duration_with(result, mends)) / 1000)
        for guideline, cases, mends in found
    ]
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
    """An imaginary allocation in GM where mended copies get aligned places; copies of one place share theirs."""

    def __init__(self) -> None:
        self._starts: dict[object, int] = {}
        self._end = 0

    def flow(self, parts: Sequence[Flow], length: int, rows: int = 1, stride: int = 0) -> Flow:
        """Return an aligned flow with the bytes of *parts*, which have one direction."""
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
    """Return the bytes of the requests that the rows of *flow* take if each begins at a line."""
    request = spec.l1_request_bytes if flow.path == "l1" else spec.request_bytes
    return -(-flow.length // request) * request * flow.rows


def _small(line: _Line, elsewhere: _Elsewhere, _spec: CoreSpec) -> tuple[_Mends, str]:
    """Find the small copies of one core from (or to) one buffer, of which several could be one copy.

    Mended, the first of several reads brings the bytes of all, or the last of several writes takes them: the same bytes
    in the same order, with fewer starts.
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
    """How a conflict can be mended: the move of an operand, or none if its own strides cause the conflict."""

    cycles: int  # of the instruction without the conflict
    operand: int = 0  # the index of the operand that moves; the destination is the last
    shift: int = 0  # the bytes it moves by; 0 if nothing moves


@cache
def _remedy(conflict: Conflict) -> _Remedy | None:
    """Return the move of one tensor that leaves the fewest cycles; None if no move helps, as for the product x * x."""
    operands = (*conflict.reads, conflict.write)
    best = _Remedy(conflict.cycles)
    for place in (*range(1, len(operands)), 0):  # the first source last: an earlier instruction may have written it
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
    # An operand conflicts with itself because of its strides.
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
