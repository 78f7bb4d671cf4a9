"""Groups of blocks that do the same: one run of the kernel's function is recorded, and each block takes it from there.

The blocks are recorded together first. Where their answers differ (`core.each`), they are divided by their answers and
recorded again. Blocks that are left alone run the kernel's function themselves. So do all blocks if a record cannot be
made: where the kernel looks at values, meets other cores, or raises an error.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from device_model.aicore.alike.plain import Judge
from device_model.aicore.alike.recorder import Found, Recorder
from device_model.aicore.core.each import Blocks, Differ, Each, range_of_blocks
from device_model.aicore.core.machine import BlockStrand, Core
from device_model.aicore.core.memories import Range
from device_model.aicore.core.program import Flow, Instruction

RunBlock = Callable[[Core, Callable[[], object]], None]
LEAST_BLOCKS = 8  # of a launch: with fewer, a record that fails costs too much
_LEAST = 2  # blocks of a group
_BLOCKS_OF_A_FAILURE = 4  # in a launch at most one record for so many blocks may lead to nothing


class Group:
    """Blocks that do what *recorder* has recorded, as long as *has_changed()* is false of what the kernel reads."""

    def __init__(self, recorder: Recorder, blocks: Blocks, has_changed: Callable[[], bool]) -> None:
        self._blocks = blocks
        self._has_changed = has_changed
        self._has_failed = False
        self._recorder = recorder
        program = recorder.program
        self._instructions = program.instructions
        self._tail_scalar = program.tail_scalar
        numbers = {id(each): number for number, each in enumerate(self._instructions)}
        self._conflicts = [(numbers[id(each)], conflict) for each, conflict in program.conflicts.items()]
        self._waits = [
            (number, [numbers[id(wait)] for wait in each.waits])
            for number, each in enumerate(self._instructions)
            if each.waits
        ]
        # Several instructions may have one flow; -1 is the place of no flow.
        flows = {id(each.flow): each.flow for each in self._instructions if each.flow is not None}
        places = {key: place for place, key in enumerate(flows)}
        self._flows = list(flows.values())
        self._rows = [
            (
                each.pipe, each.kind, each.name, each.startup, each.cycles, each.scalar, places.get(id(each.flow), -1),
                each.code, each.lasti, each.seq,
            )
            for each in self._instructions
        ]  # fmt: skip
        self._notes = [
            note if isinstance(note, Found) else (note, _by_place(note.reads, blocks), _by_place(note.writes, blocks))
            for note in recorder.notes
        ]

    def run(self, place: int, core: Core, run_alone: Callable[[], None]) -> None:
        """Do what the block at *place* of the group does on *core*; *run_alone* does it without the record."""
        # The record is not what this block does if a block that ran by itself has set what the kernel reads, or if the
        # first block cannot compute it.
        self._has_failed = self._has_failed or self._has_changed() or not self._compute(place)
        if self._has_failed:
            run_alone()  # which raises the error where the kernel's lines are in its traceback
            return
        program = core.program
        program.instructions += self._issued(core.index, place)
        program.conflicts.update((program.instructions[number], conflict) for number, conflict in self._conflicts)
        program.tail_scalar = self._tail_scalar
        self._check(core, place)

    def _compute(self, place: int) -> bool:
        """Compute all instructions; return False, with GM as it was, if one of them fails."""
        recorder, blocks = self._recorder, self._blocks
        for memory in recorder.kept if recorder.computes else ():
            memory.bytes.view(np.uint16)[:] = np.frombuffer(recorder.fill, np.uint16)
        blocks.place = place
        rooms = [memory.bytes[start:stop] for memory, start, stop in self._changed()]
        saved = [(room, room.copy()) for room in rooms]
        try:
            with np.errstate(all="ignore"):
                for compute in recorder.computes:
                    compute()
        except (Differ, Exception):
            for room, old in saved:
                room[:] = old
            return False
        finally:
            blocks.place = -1
        return True

    def _changed(self) -> Sequence[tuple[Any, Any, Any]]:
        """Return the ranges of GM that a second run of a block would not find as the first one did."""
        recorder = self._recorder
        read = {id(memory) for memory in recorder.read}
        return [each[:3] for each in recorder.written if id(each[0]) in read] if recorder.computes else []

    def _issued(self, core: int, place: int) -> list[Instruction]:
        """Return the instructions of the block at *place*; those of the first block, which findings name, are kept."""
        flows: list[Flow | None] = [
            Flow(
                each.direction, each.path, each.key, _at(each.start, place), each.length, each.rows, each.stride,
                bypass=each.bypass, nd2nz=each.nd2nz,
            )
            for each in self._flows
        ]  # fmt: skip
        flows.append(None)
        if not place:
            for each, row in zip(self._instructions, self._rows, strict=True):
                each.flow = flows[row[6]]
            return self._instructions
        issued: list[Instruction] = []
        for pipe, kind, name, startup, cycles, scalar, flow, code, lasti, seq in self._rows:
            copy = Instruction(core, pipe, kind, name, startup, cycles, scalar, flows[flow], (), code, lasti)
            copy.seq = seq
            issued.append(copy)
        for number, waits in self._waits:
            issued[number].waits = tuple([issued[wait] for wait in waits])
        return issued

    def _check(self, core: Core, place: int) -> None:
        """Check the accesses to GM, and report what was found, in the order of the record."""
        issued, findings, seqs, clocks = core.program.instructions, core.findings, core.seqs, core.clocks
        for each in self._notes:
            if isinstance(each, Found):
                if not findings.seen(each.key) and each.finding is not None:
                    findings.add(each.key, each.finding)
                continue
            note, reads, writes = each
            instruction = issued[note.number]
            pipe = instruction.pipe
            clocks[pipe], seqs[pipe], core.atomic = note.clock, instruction.seq - 1, note.atomic
            core.access(instruction, reads[place], writes[place])


def _at(number: Any, place: int) -> Any:
    return number.values[place] if type(number) is Each else number


def _by_place(ranges: Sequence[Range], blocks: Blocks) -> list[tuple[Range, ...]]:
    """Return *ranges* of GM in each block."""
    columns = [
        zip(*(each.values if type(each) is Each else [each] * blocks.count for each in touched), strict=True)
        for touched in ranges
    ]
    return list(zip(*columns, strict=True)) if columns else [()] * blocks.count


def groups_of(
    cores: Sequence[Core], kernel: Callable[[], object], run_block: RunBlock
) -> dict[int, Callable[[Callable[[], None]], None]]:
    """Return what runs a block of a group, by the index of its core; see `Group.run`.

    Args:
        cores: The cores of a launch. Blocks with several cores, which wait for each other, are in no group.
        kernel: The kernel with its arguments.
        run_block: Runs a kernel on a core from its start to its end.
    """
    first = cores[0]
    is_possible = len(cores) == first.block_dim >= LEAST_BLOCKS and not first.weak and not _is_watched()
    judge = Judge()
    if not is_possible or not judge.is_plain(kernel):
        return {}
    found: dict[int, Callable[[Callable[[], None]], None]] = {}
    parts, left = [list(cores)], len(cores) // _BLOCKS_OF_A_FAILURE
    while parts and left:
        part = parts.pop()
        blocks = Blocks(len(part))
        recorder = Recorder(part, blocks)
        with own_range(judge.loops.values()):
            is_whole = _record(recorder, partial(run_block, recorder, kernel))
        if judge.was_wrong():
            return {}
        if not is_whole:
            left -= 1
        if blocks.answers is not None:
            parts += _divided(part, blocks.answers)
        elif is_whole:
            group = Group(recorder, blocks, judge.has_changed)
            found.update((core.index, partial(group.run, place, core)) for place, core in enumerate(part))
    return found


def _is_watched() -> bool:
    """Return whether a debugger, or another tool that traces lines, would see a block run."""
    monitoring: Any = getattr(sys, "monitoring", None)  # from Python 3.12 on
    return sys.gettrace() is not None or (
        monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None
    )


def _record(recorder: Recorder, run: Callable[[], None]) -> bool:
    """Run a block until it ends; return False if it does not, as it waits for other cores or raises an error."""
    strand = BlockStrand(recorder, run)
    try:
        strand.switch()
    except (Differ, Exception):  # an error comes again when the block runs alone
        return False
    if strand.dead:
        return True
    strand.throw()
    return False


@contextmanager
def own_range(modules: Iterable[dict[str, Any]]) -> Iterator[None]:
    """Let `range` in *modules*, each its global names, take numbers that differ from block to block meanwhile.

    If launches in two threads overlap here, the first one to end takes it from the other, which divides its blocks.
    """
    for names in modules:
        names["range"] = range_of_blocks
    try:
        yield
    finally:
        for names in modules:
            names.pop("range", None)


def _divided(cores: Sequence[Core], answers: Sequence[Hashable]) -> list[list[Core]]:
    """Return the cores with the same answer together, where there are several."""
    parts: dict[Hashable, list[Core]] = {}
    for core, answer in zip(cores, answers, strict=True):
        parts.setdefault(answer, []).append(core)
    return [part for part in parts.values() if len(part) >= _LEAST]
