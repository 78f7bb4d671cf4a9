"""Banks of the UB: the cycles that a vector instruction loses when its operands lie in the same banks.

The UB's 192 KB are 48 banks of 128 rows of 32 bytes; three banks form a bank group. In an address, bits 0 to 4 are the
byte in a row, bits 5 to 8 the group, bits 9 to 15 the row, and bits 16 and 17 the bank in its group. In one cycle a
group reads one row and writes one row, and a bank either reads or writes. A repeat reads up to 8 rows of each source
and writes 8, so two sources are read without conflict when they lie 256 bytes apart modulo 512.

Source: documented for A2 and A3; the vendor's sample of eight layouts of Add has the measurements.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.names import BLOCK
from device_model.aicore.vector.masks import Access

GROUPS = 16
BANK_SHIFT = 16  # the lowest bit of an address that belongs to the bank's number in its group
BANKS = 4 * GROUPS  # numbers of banks; two bits of an address number a bank in its group, so not all are in use

Operand = tuple[int, Access]  # the address of a tensor, and the elements used


class Conflict(NamedTuple):
    """The bank conflict of a vector instruction: its operands, and its cycles."""

    reads: tuple[Operand, ...]
    write: Operand
    slope: float  # cycles per repeat without conflicts
    read_write: float  # cycles that a repeat loses when a read and its write use one bank
    cycles: int  # of the whole instruction, without its start-up
    lost: int  # those of *cycles* that the conflict causes


@cache
def steady_cycles(
    slope: float, read_write: float, reads: tuple[Operand, ...], write: Operand
) -> tuple[int, Conflict | None]:
    """Return the cycles of an instruction without its start-up, and its conflict or None.

    Args:
        slope: Cycles per repeat without conflicts.
        read_write: Cycles that a repeat loses when a read and its write use one bank.
        reads: The sources.
        write: The destination.
    """
    repeats = repeat_cycles(reads, write)
    cycles = round(float(np.maximum(slope, repeats[:, 0] + read_write * repeats[:, 1]).sum()))
    lost = cycles - round(slope * len(repeats))
    return cycles, Conflict(reads, write, slope, read_write, cycles, lost) if lost > 0 else None


@cache
def repeat_cycles(reads: tuple[Operand, ...], write: Operand) -> npt.NDArray[np.float64]:
    """Return, for each repeat, the cycles that reading and writing its rows takes, and 1 if a read conflicts with it.

    The result has a row (cycles, 0 or 1) for each repeat. The cycles are the number of rows read (or written) in the
    busiest group. A read and a write that use one bank conflict, with one exception. If a source lies row by row in
    the same banks as the destination, the card writes one repeat later than it reads, and loses nothing.
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
    """Return the banks of the rows of each repeat, as 16 * the bank in its group + the group."""
    address, access = operand
    addresses = address + access.blocks[:repeats] * BLOCK
    return (addresses >> BANK_SHIFT) * GROUPS + addresses // BLOCK % GROUPS


def _per_bank(rows: npt.NDArray[np.intp], banks: int) -> npt.NDArray[np.intp]:
    """Return how many rows of each repeat lie in each bank."""
    repeats = len(rows)
    numbers = np.arange(repeats)[:, None] * banks + rows
    return np.bincount(numbers.ravel(), minlength=repeats * banks).reshape(repeats, banks)
