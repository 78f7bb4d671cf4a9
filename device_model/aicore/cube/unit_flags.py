"""Unit flags: Mmad and Fixpipe take turns at L0C block by block, without M_FIX and FIX_M.

Each block of 512 bytes of L0C has a flag of one bit: empty (0) or full (1). Instructions with unit_flag 0 ignore it.
With 2 or 3, an Mmad waits until the blocks that it writes are empty, and a Fixpipe until the blocks that it reads are
full. With 3 the instruction also flips the flags when it has finished with the blocks; with 2 it leaves them. So of the
Mmads that sum up one result the last one has 3 and the others have 2, and so it is with Fixpipes that read the same
blocks.

A card checks each flag when the instruction reaches the block, so a Fixpipe follows its Mmad closely, and the next Mmad
follows the Fixpipe. Here an instruction starts when the one it follows has started, and ends no earlier than that one
(`timing`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from device_model.aicore.core.findings import Rule
from device_model.aicore.core.machine import Core
from device_model.aicore.core.names import Pipe
from device_model.aicore.core.program import Instruction
from device_model.kernel.findings import KernelError

BLOCK = 512  # bytes
KEEP, TURN = 2, 3


class UnitFlags:
    """The unit flags of one core, and the instructions that flipped them."""

    __slots__ = ("_core", "_emptied", "_filled")

    def __init__(self, core: Core) -> None:
        self._core = core
        blocks = core.spec.l0c_bytes // BLOCK
        self._filled = np.full(blocks, None, object)  # the Mmad that filled a block, while it is full
        self._emptied = np.full(blocks, None, object)  # the Fixpipe that emptied it, until an Mmad has waited for it

    def issue(self, unit_flag: int, pipe: Pipe, start: int, stop: int, plan: Sequence[Any]) -> None:
        """Issue *plan*, an Mmad (of Pipe.M) that writes bytes start:stop of L0C or a Fixpipe that reads them."""
        if unit_flag not in (KEEP, TURN):
            raise KernelError(f"unit_flag {unit_flag}", "it is 0 (off), 2 (leaves the flags) or 3 (flips them)")
        blocks = slice(start // BLOCK, -(-stop // BLOCK))
        filled = self._filled[blocks]
        if pipe is Pipe.M:
            for mmad in _distinct(filled):
                raise KernelError(
                    f"Mmad with unit_flag {unit_flag} never ends: {mmad} filled L0C[{start}:{stop}]",
                    "a Fixpipe with unit_flag 3 must read a result before an Mmad overwrites it; of "
                    "several Mmads that sum up one result, only the last has unit_flag 3",
                )
            before = _distinct(self._emptied[blocks])
            self._emptied[blocks] = None
        else:
            before = _distinct(filled)
            if None in filled.tolist():
                raise KernelError(
                    f"Fixpipe with unit_flag {unit_flag} never ends: no Mmad filled all of L0C[{start}:{stop}]",
                    "issue an Mmad with unit_flag 3 before it, the last one of those that sum up the result, and read "
                    "each result with unit_flag 3 once",
                )
        instruction = self._issue_behind(before, pipe, plan)
        if unit_flag == TURN and pipe is Pipe.M:
            self._filled[blocks] = instruction
        elif unit_flag == TURN:
            self._filled[blocks] = None
            self._emptied[blocks] = instruction
            # Later waits for this Fixpipe are ordered after each Mmad whose last blocks it emptied.
            full = _distinct(self._filled)
            clock = self._core.clocks[pipe]
            clock[Pipe.M] = max(clock[Pipe.M], *(mmad.seq for mmad in before if mmad not in full), 0)

    def _issue_behind(self, before: Sequence[Instruction], pipe: Pipe, plan: Sequence[Any]) -> Instruction:
        """Issue *plan*, whose accesses to L0C are ordered after those of *before*."""
        core = self._core
        if not before:
            return core.issue(*plan)
        clock, other = core.clocks[pipe], before[0].pipe
        known = clock[other]
        # For this instruction alone: later ones may start while those of *before* still use other bytes.
        clock[other] = max(known, *(each.seq for each in before))
        try:
            instruction = core.issue(*plan)
        finally:
            clock[other] = known
        instruction.waits = tuple(before)
        return instruction

    def clear(self) -> None:
        """Mark all blocks as empty."""
        self._filled[:] = None
        self._emptied[:] = None

    def finish(self) -> None:
        """Report blocks of L0C that are still full at the end of a block of the kernel."""
        for mmad in _distinct(self._filled):
            self._core.find(
                Rule.FLAG_LEFT_SET,
                f"{mmad} filled L0C with unit_flag 3 and no Fixpipe with unit_flag 3 emptied it; "
                "an Mmad of the next kernel on this core would wait for that; add the Fixpipe",
                mmad,
                missing="Fixpipe with unit_flag 3",
            )


def _distinct(instructions: Any) -> list[Instruction]:
    return [each for each in dict.fromkeys(instructions.tolist()) if each is not None]
