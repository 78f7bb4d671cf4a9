"""The instructions of core kernels in a trace: a packed row each, decoded when they are read.

A launch may have millions of instructions, so a limited number is kept of each launch: whole blocks in their order, and
the beginning of the last one. The trace also has the number of instructions that were left out.
"""

from collections.abc import Iterator
from io import BytesIO
from operator import attrgetter
from typing import TYPE_CHECKING

from acl_py.trace.rows.packing import Packing
from acl_py.trace.rows.timeline import CoreInstruction

if TYPE_CHECKING:
    from device_model.kernel.results import Instruction, Result
    from device_model.kernel.sites import Site

_ROW = Packing(program="I", number="I", start="d", end="d", bytes="q", waited_for="i")  # -1: for none
_end = attrgetter("end")


class Instructions:
    """Stores up to *limit* instructions of each launch."""

    __slots__ = ("_labels", "_limit", "_numbers", "_programs", "_rows")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows = BytesIO()
        self._programs: list[tuple[int, str, int]] = []  # operation, core, block
        # By the identity of the code object, because hashing a code object reads all of it; the site keeps it alive.
        self._numbers: dict[tuple[str, int, int, int], int] = {}
        self._labels: list[tuple[str, str, str, Site]] = []  # by number: pipe, kind, name, site

    def note(self, operation: int, start_ns: int, result: "Result") -> int:
        """Store instructions of *result*, which began at *start_ns*, and return how many were left out."""
        if not self._limit:
            return 0
        timeline = result.timeline
        assert timeline is not None, "a launch that was stopped has no instructions to show"
        write, pack, per_cycle = self._rows.write, _ROW.pack, timeline.ns_per_cycle
        row = _ROW.count(self._rows)
        row_of: dict[Instruction, int] = {}
        kept: list[tuple[int, Instruction]] = []
        left_out = 0
        for program in result.programs:
            instructions = program.instructions[: self._limit - len(kept)]
            left_out += len(program.instructions) - len(instructions)
            if not instructions:
                continue
            number = len(self._programs)
            self._programs.append((operation, timeline.core_of(program), program.block))
            kept += [(number, instruction) for instruction in instructions]
        for place, (_, instruction) in enumerate(kept, start=row):
            row_of[instruction] = place
        for number, each in kept:
            waited_for = max(each.waits, key=_end) if each.waits else None
            flow = each.flow
            write(
                pack(
                    number,
                    self._number(each),
                    start_ns + each.start * per_cycle,
                    start_ns + each.end * per_cycle,
                    0 if flow is None else flow.nbytes,
                    -1 if waited_for is None else row_of.get(waited_for, -1),
                )
            )
        return left_out

    def _number(self, instruction: "Instruction") -> int:
        key = (instruction.name, instruction.pipe, id(instruction.code), instruction.lasti)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._labels)
            kind = instruction.kind.name.lower()
            self._labels.append((str(instruction.pipe), kind, instruction.name, instruction.site))
        return number

    @property
    def sites(self) -> "Iterator[Site]":
        """The lines that the rows name."""
        return (site for *_, site in self._labels)

    def decoded(self) -> list[CoreInstruction]:
        """All rows."""
        labels = [(pipe, kind, name, str(site)) for pipe, kind, name, site in self._labels]
        rows = []
        for program, number, start, end, nbytes, waited_for in _ROW.rows(self._rows).tolist():
            operation, core, block = self._programs[program]
            pipe, kind, name, site = labels[number]
            awaited = None if waited_for < 0 else waited_for
            rows.append(CoreInstruction(operation, core, block, pipe, kind, name, start, end, nbytes, site, awaited))
        return rows
