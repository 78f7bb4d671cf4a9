"""The packed rows of a trace: how a row of each kind is packed.

A row of an operation takes 89 bytes, a row of a call 24, of a record or a wait 36. It has times and sizes, numbers that
stand for the values that many rows share (stream, call site, label), and the number of the task or thread that called.
Numbers are given in the order in which the values first appear, so a trace is the same for every run and contains no
address.
"""

from collections.abc import Callable
from io import BytesIO
from struct import Struct
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

_K = TypeVar("_K")
_TYPES = {"I": "<i4", "i": "<i4", "q": "<i8", "d": "<f8", "B": "u1"}  # numbers of things are below 2**31


class Packing:
    """How rows are packed: their fields in order, each with its code of the module struct."""

    __slots__ = ("pack", "size", "type")

    def __init__(self, **fields: str) -> None:
        packed = Struct("<" + "".join(fields.values()))
        self.pack: Callable[..., bytes] = packed.pack
        self.size = packed.size
        self.type = np.dtype([(name, _TYPES[code]) for name, code in fields.items()])

    def count(self, stored: BytesIO) -> int:
        """Return the number of rows that are *stored*."""
        return stored.tell() // self.size

    def rows(self, stored: BytesIO) -> npt.NDArray[Any]:
        """Return the *stored* rows as an array with these fields."""
        return np.frombuffer(stored.getvalue(), self.type)


# An operation: *serial* is its number in the order of queuing, *number* stands for its stream, site and label, *caller*
# for the task or thread that called, *dst* and *src* for the memory at both ends, *dst* of a kernel for what its
# launches have in common; *called* to *end* are times. It was *ready* because of *why*, and waited for the operation
# with the serial number *after*; -1 for none.
OP = Packing(
    serial="I", number="I", caller="I", dst="i", src="i", dst_offset="q", src_offset="q", bytes="q", called="q",
    queued="q", ready="q", start="q", end="q", why="B", after="i",
)  # fmt: skip
CALL = Packing(number="I", caller="I", enter="q", exit="q")
# A step: the *record* that a wait waits for; the *serial* number of the operation with whose end it is over, or NO_OP
# if it was over at once, or LATER.
STEP = Packing(number="I", caller="I", enter="q", exit="q", record="i", serial="q")
SLEEP = Packing(caller="I", begin="q", end="q", after="i")  # *after*: the operation whose end woke it
RUN = Packing(launch="i", first="i", count="i")  # of a launch: its first operation, and how many follow
# In place of an operation: none; one that ended at that instant; it is known later, and stored by the row of the step;
# a staged copy, whose waits are the rows before it: STAGED minus the number of the copy.
NO_OP, ANY_OP, LATER, STAGED = -1, -2, -3, -4
BY_ROWS = -5  # as the source of a copy: its destination is the number of a launch that touches the same bytes


class Numbers(dict[_K, int]):
    """Numbers for values, from 0, in the order in which they first appear."""

    __slots__ = ()

    def __missing__(self, key: _K) -> int:
        number = self[key] = len(self)
        return number
