"""Advice on how a kernel uses memory, from the addresses that a launch really used.

The benefit of each advice is computed, not guessed: the launch is played again as if every line had followed the
guideline, and the difference is the time saved. Both times are those with an empty L2. Bandwidth that no other copy
needed, or a bank conflict behind a longer copy, saves nothing, and the text says so. The guidelines are the vendor's:
copies of 16 KB or more, aligned to 512 bytes in GM, and operands in different banks of the UB. Two more follow from
how the L2 and Fixpipe are timed: cores at different lines, and a cube that goes on.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import cache
from math import inf
from typing import NamedTuple

from device_model.aicore.core.names import BLOCK, Pipe
from device_model.aicore.core.program import Direction, Flow, Instruction, Kind, Program
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.runner import Result
from device_model.aicore.timing.bandwidth import Demand
from device_model.aicore.timing.gm import L2, MOMENT, Gm
from device_model.aicore.timing.play import play
from device_model.aicore.vector.banks import BANK_SHIFT, Conflict, steady_cycles
from device_model.kernel.advice import Advice, Case
from device_model.kernel.sites import Site

LINE = 512  # bytes of a line of the L2
LARGE = 16384  # bytes of a copy from which on its start costs little
_WASTE = 1.125  # bytes requested for each useful byte, above which a line gets advice
_WORTH = 0.03  # of the launch: advice on how cores or pipes meet is given only if it saves as much
# Distances by which an operand may be moved away from another: to other groups, or to another bank of its group.
_SHIFTS = (256, *(BLOCK * blocks for blocks in range(1, 16)), 1 << BANK_SHIFT)


class Guideline(Enum):
    """The guidelines for memory; the value says what to do."""

    ALIGNED_COPIES = "start parts, tiles and rows at multiples of 512 bytes in GM"
    WHOLE_LINES = "take more columns and fewer rows at a time, or store data that is read together in one piece"
    LARGE_COPIES = "use tiles of at least 16 KB, or copy several tiles at once"
    CORES_APART = (
        "let each core start at another k: go round from GetBlockIdx() % steps, as all steps are added up anyway"
    )
    CUBE_GOES_ON = (
        "let C leave block by block, with unit_flag in MmadParams and FixpipeParams, or take two buffers in L0C"
    )
    BANKS_APART = "move the operands apart in the UB, for example with a longer buffer in front of one"


class _Mended(NamedTuple):
    """The flow, the cycles and the waits that an instruction would have."""

    flow: Flow | None
    cycles: int
    waits: tuple[Instruction, ...]


_Mends = dict[Instruction, _Mended]
_Line = Sequence[tuple[Program, Instruction]]  # what was issued at one line


class _Asked(NamedTuple):
    """What a copy asked GM for, and at which cycle."""

    at: float
    demand: Demand


class _Launch(NamedTuple):
    """A launch as it is with an empty L2: what each of its copies asked for, and how long a wait of a pipe lasted."""

    spec: CoreSpec
    duration_ns: int
    asked: Mapping[Instruction, _Asked]
    waited: Mapping[Instruction, float]  # in cycles: the waits of the cube for Fixpipe with an Mmad behind them


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
    if not lines:
        return []
    launch = _cold(result)
    found: list[Advice] = []
    of_matmuls = _of_matmuls(result.programs)
    for guideline, check in _CHECKS.items():
        mends: _Mends = {}
        cases, elsewhere = [], _Elsewhere()
        for site, line in lines.items():
            if guideline in _MEETINGS and site in of_matmuls:
                continue
            mended, what = check(line, elsewhere, launch)
            if mended:
                first = next(iter(mended))
                cases.append(Case(site, f"{first.name} ({first.pipe})", len(mended), what))
                mends |= mended
        if cases:
            saved = launch.duration_ns - _duration_with(result, mends)
            if guideline not in _MEETINGS or saved >= _WORTH * launch.duration_ns:
                found.append(Advice(guideline, tuple(cases), saved / 1000))
    return sorted(found, key=lambda each: -each.saved_us)


def _lines(programs: Sequence[Program]) -> dict[Site, list[tuple[Program, Instruction]]]:
    """Copies through GM, vector instructions with conflicts, and waits of the cube for Fixpipe, by their line, in the
    order of its first.
    """
    lines: dict[Site, list[tuple[Program, Instruction]]] = {}
    for program in programs:
        for each in program.instructions:
            if each.flow is not None or each in program.conflicts or _is_for_fixpipe(each):
                lines.setdefault(each.site, []).append((program, each))
    return lines


def _of_matmuls(programs: Sequence[Program]) -> set[Site]:
    """Return the lines that copy and multiply: a Matmul does, which has no choice of the k where it starts, and chooses
    by its tiling how C leaves L0C.
    """
    pipes: dict[Site, set[Pipe]] = {}
    for program in programs:
        for each in program.instructions:
            if each.pipe is Pipe.M or each.pipe is Pipe.MTE2:
                pipes.setdefault(each.site, set()).add(each.pipe)
    return {site for site, found in pipes.items() if len(found) == 2}


def _is_for_fixpipe(each: Instruction) -> bool:
    """Whether *each* is a wait of the cube until Fixpipe has emptied a buffer of L0C."""
    return each.pipe is Pipe.M and each.kind is Kind.WAIT and any(setter.pipe is Pipe.FIX for setter in each.waits)


def _cold(result: Result) -> _Launch:
    """Return the launch with an empty L2; restore the times of its instructions afterwards."""
    with _restored(result, {}):
        duration_ns = play(result.programs, result.spec).duration_ns
        waited: dict[Instruction, float] = {}
        for program in result.programs:
            is_followed = False
            for each in reversed(program.instructions):
                if _is_for_fixpipe(each) and is_followed:
                    waited[each] = each.end - each.start
                is_followed |= each.pipe is Pipe.M and each.kind is Kind.WORK
        return _Launch(result.spec, duration_ns, _asked(result), waited)


def _asked(result: Result) -> dict[Instruction, _Asked]:
    """Return what the copies asked GM for, which depends on the order in which they did."""
    copies: list[tuple[float, Instruction, Flow, int]] = []
    for program in result.programs:
        ended = dict.fromkeys(Pipe, 0.0)
        for each in program.instructions:
            if each.flow is not None:  # it asks when the one before it has ended
                copies.append((max(each.start, ended[each.pipe]), each, each.flow, program.index))
                ended[each.pipe] = each.end
    gm = Gm(result.programs, result.spec)
    copies.sort(key=lambda copy: copy[0])
    return {each: _Asked(at, gm.ask(each, flow, core, at)) for at, each, flow, core in copies}


def _duration_with(result: Result, mends: _Mends) -> int:
    """Return the duration of the launch with *mends* in ns; restore the instructions afterwards."""
    with _restored(result, mends):
        _set(mends)
        return play(result.programs, result.spec).duration_ns


@contextmanager
def _restored(result: Result, mends: _Mends) -> Iterator[None]:
    """Restore the times of all instructions, and the rest of those of *mends*, at the end of the block."""
    times = [(each, each.start, each.end) for program in result.programs for each in program.instructions]
    before = {each: _Mended(each.flow, each.cycles, each.waits) for each in mends}
    try:
        yield
    finally:
        _set(before)
        for each, start, end in times:
            each.start, each.end = start, end


def _set(mends: _Mends) -> None:
    for each, mended in mends.items():
        each.flow, each.cycles, each.waits = mended


def _with_flow(each: Instruction, flow: Flow | None) -> _Mended:
    return _Mended(flow, each.cycles, each.waits)


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


def _misaligned(line: _Line, elsewhere: _Elsewhere, _launch: _Launch) -> tuple[_Mends, str]:
    mended = {
        each: _with_flow(each, elsewhere.flow([flow], flow.length, flow.rows, -(-flow.stride // LINE) * LINE))
        for _, each, flow in _copies(line)
        if flow.length >= LINE and (flow.start % LINE or flow.stride % LINE)
    }
    if not mended:
        return {}, ""
    flow = _example(mended)
    rows = f", its rows {flow.stride:,} bytes apart" if flow.rows > 1 else ""
    return mended, f"begins {flow.start % LINE} bytes into a line of {LINE}{rows}"


def _in_pieces(line: _Line, elsewhere: _Elsewhere, launch: _Launch) -> tuple[_Mends, str]:
    mended = {
        each: _with_flow(each, elsewhere.flow([flow], flow.nbytes))
        for _, each, flow in _copies(line)
        if flow.rows > 1 and (flow.length < LINE or _requested(flow, launch.spec) > _WASTE * flow.nbytes)
    }
    if not mended:
        return {}, ""
    flow = _example(mended)
    requested = _requested(flow, launch.spec)
    more = f", and asks for {requested:,} bytes to get {flow.nbytes:,}" if requested > flow.nbytes else ""
    return mended, f"has rows of {flow.length:,} bytes, {flow.stride:,} apart{more}{_from_l2(mended, launch)}"


def _requested(flow: Flow, spec: CoreSpec) -> int:
    """Return the bytes of the requests that the rows of *flow* take if each begins at a line."""
    request = spec.l1_request_bytes if flow.path == "l1" else spec.request_bytes
    return -(-flow.length // request) * request * flow.rows


def _from_l2(mended: _Mends, launch: _Launch) -> str:
    """Say how often the rows come from the L2, and how long that takes; "" if short rows lose nothing there."""
    flows = [each.flow for each in mended if each.flow is not None and launch.asked[each].demand.memory == L2]
    reads = [flow for flow in flows if flow.direction is Direction.READ and not flow.bypass]
    piece = launch.spec.l1_request_bytes if reads and reads[0].path == "l1" else LINE
    if not reads or -(-reads[0].length // piece) * piece <= _WASTE * reads[0].length:
        return ""
    times = f"{len(reads):,} of {len(mended):,} times" if len(mended) > 1 else "they come"
    return f"; {times} from the L2, where each row takes as long as {piece} bytes"


def _crowded(line: _Line, _elsewhere: _Elsewhere, launch: _Launch) -> tuple[_Mends, str]:
    """Find copies that begin in the line where another core began a moment ago. Mended, each core goes round: it starts
    its loop over a buffer at a step of its own, and reads the same bytes.
    """
    loops: dict[tuple[object, int], list[tuple[Instruction, Flow]]] = {}
    at_line: dict[object, list[tuple[float, int]]] = {}
    is_crowded = False
    for program, each, flow in _copies(line):
        if flow.direction is Direction.READ:
            asked = launch.asked[each]
            loops.setdefault((flow.key, program.index), []).append((each, flow))
            at_line.setdefault((flow.key, flow.start // LINE), []).append((asked.at, program.index))
            is_crowded |= asked.demand.group is not None
    mended: _Mends = {}
    places = {core: place for place, core in enumerate(sorted({core for _, core in loops}))}
    for (_, core), copies in loops.items() if is_crowded else ():
        for step, (each, flow) in enumerate(copies):
            other = copies[(step + places[core]) % len(copies)][1]
            if other is not flow:
                mended[each] = _with_flow(each, other)
    if not mended:
        return {}, ""
    return mended, f"reads lines that up to {max(map(_meeting, at_line.values()))} cores read at one time"


def _meeting(reads: Sequence[tuple[float, int]]) -> int:
    """Return how many cores read a line at one time, at most: each within a moment of the one before."""
    most, together, last = 0, set[int](), -inf
    for at, core in sorted(reads):
        if at - last >= MOMENT:
            together = set()
        together.add(core)
        most, last = max(most, len(together)), at
    return most


def _small(line: _Line, elsewhere: _Elsewhere, _launch: _Launch) -> tuple[_Mends, str]:
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
            mended |= {each: _with_flow(each, None) for each, _ in together}
            parts = [flow for _, flow in together]
            mover, _ = together[0 if parts[0].direction is Direction.READ else -1]
            mended[mover] = _with_flow(mover, elsewhere.flow(parts, sum(part.nbytes for part in parts)))
    return mended, f"moves {moved // len(mended):,} bytes at a time" if mended else ""


# The cube


def _held_by_fixpipe(line: _Line, _elsewhere: _Elsewhere, launch: _Launch) -> tuple[_Mends, str]:
    """Find waits of the cube for Fixpipe. Mended, each waits for an earlier Fixpipe, as with one more buffer in L0C."""
    mended: _Mends = {}
    waited = 0.0
    before: dict[int, tuple[Instruction, ...]] = {}
    for program, each in line:
        if each in launch.waited:
            mended[each] = _Mended(each.flow, each.cycles, before.get(program.index, ()))
            before[program.index] = each.waits
            waited += launch.waited[each]
    if not waited:
        return {}, ""
    us = waited / launch.spec.mhz / len(before)
    return mended, f"keeps the cube until Fixpipe has stored C: {us:.2f} us of each core"


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


def _in_conflict(line: _Line, _elsewhere: _Elsewhere, _launch: _Launch) -> tuple[_Mends, str]:
    remedies: dict[Instruction, tuple[Conflict, _Remedy]] = {}
    for program, each in line:
        conflict = program.conflicts.get(each)
        remedy = None if conflict is None else _remedy(conflict)
        if conflict is not None and remedy is not None:
            remedies[each] = conflict, remedy
    if not remedies:
        return {}, ""
    mended = {
        each: _Mended(each.flow, each.cycles - conflict.cycles + remedy.cycles, each.waits)
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


_Check = Callable[[_Line, _Elsewhere, _Launch], tuple[_Mends, str]]
_CHECKS: dict[Guideline, _Check] = {
    Guideline.ALIGNED_COPIES: _misaligned,
    Guideline.WHOLE_LINES: _in_pieces,
    Guideline.LARGE_COPIES: _small,
    Guideline.CORES_APART: _crowded,
    Guideline.CUBE_GOES_ON: _held_by_fixpipe,
    Guideline.BANKS_APART: _in_conflict,
}
_MEETINGS = (Guideline.CORES_APART, Guideline.CUBE_GOES_ON)  # no instruction is at fault alone
