"""Banks of the UB, and what it costs when the operands of a vector instruction meet in them.

192 KB are 48 banks of 128 rows of 32 bytes; three banks are a bank group. Of an address, bits 0 to 4 are the byte in a
row, 5 to 8 the group, 9 to 15 the row, 16 and 17 the bank in its group. In a cycle each group reads one row and writes
one, and each bank does one of both. A repeat reads up to 8 rows for each source and writes 8, so sources want to lie
256 bytes apart modulo 512. (Documented for A2 and A3; measured by the vendor's sample of eight layouts of Add.)
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.memories import BLOCK
from device_model.aicore.vector.masks import Access

GROUPS = 16
BANK_SHIFT = 16  # bits of an address below the number of the bank in its group
BANKS = 4 * GROUPS  # numbers that banks may have

Operand = tuple[int, Access]  # address and elements


class Conflict(NamedTuple):
    """A vector instruction whose operands meet in banks: it takes *cycles*, and *lost* of them for that."""

    reads: tuple[Operand, ...]
    write: Operand
    slope: float  # cycles per repeat without conflicts
    read_write: float  # cycles more of a repeat whose reads meet its write
    cycles: int
    lost: int


@cache
def steady_cycles(
    slope: float, read_write: float, reads: tuple[Operand, ...], write: Operand
) -> tuple[int, Conflict | None]:
    """Cycles of an instruction that takes *slope* per repeat, its start-up aside; and its conflict, if it has one."""
    repeats = repeat_cycles(reads, write)
    cycles = round(float(np.maximum(slope, repeats[:, 0] + read_write * repeats[:, 1]).sum()))
    lost = cycles - round(slope * len(repeats))
    return cycles, Conflict(reads, write, slope, read_write, cycles, lost) if lost > 0 else None


@cache
def repeat_cycles(reads: tuple[Operand, ...], write: Operand) -> npt.NDArray[np.float64]:
    """For each repeat: how many cycles its rows take to be read and written, and whether a read meets a write.

    Rows are (cycles, 0 or 1). Conflicts of reads (or writes) with each other count the rows in the busiest group. A
    read and a write that meet in a bank conflict, unless all their rows do, one by one: the card then writes a repeat
    later.
    """
    repeats = write[1].repeats
    cycles = np.ones((repeats, 2))
    if not repeats:
        return cycles
    rows = [_rows(operand, repeats) for operand in reads]
    written = _rows(write, repeats)
    in_group = sum((_per_bank(each % GROUPS, GROUPS) for each in rows), np.zeros((repeats, GROUPS), np.intp))
    cycles[:, 0] = np.maximum(in_group.max(axis=1), _per_bank(written % GROUPS, GROUPS).max(axis=1))
    meet = np.zeros(repeats, bool)
    writes_bank = _per_bank(written, BANKS) > 0
    for each in rows:
        meets = ((_per_bank(each, BANKS) > 0) & writes_bank).any(axis=1)
        if each.shape == written.shape:
            meets &= (each != written).any(axis=1)
        meet |= meets
    cycles[:, 1] = meet
    return cycles


def _rows(operand: Operand, repeats: int) -> npt.NDArray[np.intp]:
    """The banks of the rows of each repeat: 16 times the bank in its group, plus the group."""
    address, access = operand
    addresses = address + access.blocks[:repeats] * BLOCK
    return (addresses >> BANK_SHIFT) * GROUPS + addresses // BLOCK % GROUPS


def _per_bank(rows: npt.NDArray[np.intp], banks: int) -> npt.NDArray[np.intp]:
    """How many rows of each repeat lie in each bank."""
    repeats = len(rows)
    numbers = np.arange(repeats)[:, None] * banks + rows
    return np.bincount(numbers.ravel(), minlength=repeats * banks).reshape(repeats, banks)
