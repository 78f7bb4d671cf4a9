"""Groups of blocks that do the same: one run of the kernel's function is recorded, and each block takes it from there.

The blocks are recorded together first. Where their answers differ (`core.each`), they are divided by their answers and
recorded again. Blocks that are left alone run the kernel's function themselves. So do all blocks if a record cannot be
made: where the kernel looks at values, meets other cores, or raises an error.
"""

import sys
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from device_model.aicore.alike.plain import is_plain
from device_model.aicore.alike.recorder import Found, Recorder
from device_model.aicore.core.each import Blocks, Differ, Each
from device_model.aicore.core.machine import BlockStrand, Core
from device_model.aicore.core.memories import Range
from device_model.aicore.core.program import Flow, Instruction

RunBlock = Callable[[Core, Callable[[], object]], None]
LEAST_BLOCKS = 8  # of a launch: with fewer, a record that fails costs too much
_LEAST = 2  # blocks of a group
_BLOCKS_OF_A_RECORD = 4  # a launch makes at most one record for so many blocks


class Group:
    """Blocks that do what *recorder* has recorded."""

    def __init__(self, recorder: Recorder, blocks: Blocks) -> None:
        self._blocks = blocks
        self._recorder = recorder
        program = recorder.program
        self._instructions = program.instructions
        self._conflicts, self._tail_scalar = program.conflicts, program.tail_scalar
        numbers = {id(each): number for number, each in enumerate(self._instructions)}
        self._waits = [
            (number, [numbers[id(wait)] for wait in each.waits])
            for number, each in enumerate(self._instructions)
            if each.waits
        ]
        self._conflicting = [(numbers[id(each)], conflict) for each, conflict in self._conflicts.items()]
        # The flows by their place, as several instructions may have one.
        flows = {id(each.flow): each.flow for each in self._instructions if each.flow is not None}
        self._flows = list(flows.values())
        places = {key: place for place, key in enumerate(flows)}
        self._of_flow = [None if each.flow is None else places[id(each.flow)] for each in self._instructions]

    def run(self, place: int, core: Core, run_alone: Callable[[], None]) -> None:
        """Do what the block at *place* of the group does on *core*; *run_alone* does it without the record."""
        if not self._compute(place):
            run_alone()  # which raises the error where the kernel's lines are in its traceback
            return
        program = core.program
        program.instructions += self._issued(core.index, place)
        program.conflicts.update((program.instructions[number], conflict) for number, conflict in self._conflicting)
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
        except Exception:
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
        flows = [
            Flow(
                each.direction, each.path, each.key, _at(each.start, place), each.length, each.rows, each.stride,
                bypass=each.bypass, nd2nz=each.nd2nz,
            )
            for each in self._flows
        ]  # fmt: skip
        if not place:
            for each, number in zip(self._instructions, self._of_flow, strict=True):
                each.flow = None if number is None else flows[number]
            return self._instructions
        issued: list[Instruction] = []
        for each, number in zip(self._instructions, self._of_flow, strict=True):
            copy = Instruction(
                core, each.pipe, each.kind, each.name, each.startup, each.cycles, each.scalar,
                None if number is None else flows[number], (), each.code, each.lasti,
            )  # fmt: skip
            copy.seq = each.seq
            issued.append(copy)
        for number, waits in self._waits:
            issued[number].waits = tuple([issued[wait] for wait in waits])
        return issued

    def _check(self, core: Core, place: int) -> None:
        """Check the accesses to GM, and report what was found, in the order of the record."""
        issued, findings = core.program.instructions, core.findings
        for note in self._recorder.notes:
            if isinstance(note, Found):
                if not findings.seen(note.key) and note.finding is not None:
                    findings.add(note.key, note.finding)
                continue
            number, clock, reads, writes, atomic = note
            each = issued[number]
            core.clocks[each.pipe], core.seqs[each.pipe], core.atomic = clock, each.seq - 1, atomic
            core.access(each, [_range(touched, place) for touched in reads], [_range(to, place) for to in writes])


def _at(number: Any, place: int) -> Any:
    return number.values[place] if type(number) is Each else number


def _range(touched: Range, place: int) -> Range:
    return (touched[0], *[_at(number, place) for number in touched[1:]])


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
    is_possible = len(cores) == first.block_dim >= LEAST_BLOCKS and not first.weak and sys.gettrace() is None
    if not is_possible or not is_plain(kernel):
        return {}
    found: dict[int, Callable[[Callable[[], None]], None]] = {}
    parts, left = [list(cores)], len(cores) // _BLOCKS_OF_A_RECORD
    while parts and left:
        part, left = parts.pop(), left - 1
        blocks = Blocks(len(part))
        recorder = Recorder(part, blocks)
        is_whole = _record(recorder, partial(run_block, recorder, kernel))
        if blocks.answers is not None:
            parts += _divided(part, blocks.answers)
        elif is_whole:
            group = Group(recorder, blocks)
            found.update((core.index, partial(group.run, place, core)) for place, core in enumerate(part))
    return found


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


def _divided(cores: Sequence[Core], answers: Sequence[Hashable]) -> list[list[Core]]:
    """Return the cores with the same answer together, where there are several."""
    parts: dict[Hashable, list[Core]] = {}
    for core, answer in zip(cores, answers, strict=True):
        parts.setdefault(answer, []).append(core)
    return [part for part in parts.values() if len(part) >= _LEAST]
