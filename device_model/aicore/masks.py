"""Which elements of its operands a vector instruction touches: the first *count*, or those of masked, strided repeats.

A repeat is 256 bytes of the widest operand: 8 blocks of 32 bytes, a lane for each element. *mask* says which lanes
take part, *repeat_time* how often, and strides, in blocks, where an operand has its next block and its next repeat.
What follows from these numbers is computed once and shared by all cores.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.findings import KernelError

BLOCK = 32  # bytes
REPEAT = 256  # bytes
MAX_REPEATS = 255

Mask = int | tuple[int, ...]  # the first lanes, or 64-bit words with a bit for each lane, lowest first
Lanes = int | Sequence[int]  # a mask as kernels write it
Indices = npt.NDArray[np.intp]


class UnaryRepeatParams(NamedTuple):
    """Strides of an instruction with one source, in blocks of 32 bytes."""

    dst_blk_stride: int = 1
    src_blk_stride: int = 1
    dst_rep_stride: int = 8
    src_rep_stride: int = 8


class BinaryRepeatParams(NamedTuple):
    """Strides of an instruction with two sources, in blocks of 32 bytes."""

    dst_blk_stride: int = 1
    src0_blk_stride: int = 1
    src1_blk_stride: int = 1
    dst_rep_stride: int = 8
    src0_rep_stride: int = 8
    src1_rep_stride: int = 8


UNARY = UnaryRepeatParams()
BINARY = BinaryRepeatParams()


class Access:
    """The elements of one operand, in the order of repeats and lanes.

    *where* selects them from a flat view: a slice if they follow each other, else their indices. *reach* is the number
    of elements up to the last one touched. *rows* are their bytes from the start of the operand, each (start, stop) or
    (start, stop, length, stride). *blocks* numbers the blocks of each repeat. *step* is how many elements a repeat
    has; the last one may have fewer.
    """

    __slots__ = ("blocks", "reach", "repeats", "rows", "size", "step", "where")

    def __init__(
        self,
        where: slice | Indices,
        size: int,
        reach: int,
        step: int,
        rows: tuple[tuple[int, ...], ...],
        blocks: Indices,
    ) -> None:
        self.where = where
        self.size = size
        self.reach = reach
        self.step = step
        self.rows = rows
        self.blocks = blocks
        self.repeats = len(blocks)

    def __repr__(self) -> str:
        return f"<Access {self.size} elements in {self.repeats} repeats, reach {self.reach}>"

    @classmethod
    def of(cls, indices: Indices, itemsize: int, step: int, blocks: Indices) -> "Access":
        """The elements at *indices*, *step* of them in each repeat."""
        size = len(indices)
        if not size:
            return cls(slice(0, 0), 0, 0, step, (), blocks)
        reach = int(indices.max()) + 1
        first = int(indices[0])
        where: slice | Indices = indices
        if reach == first + size and np.array_equal(indices, np.arange(first, reach)):
            where = slice(first, reach)
        else:
            indices.flags.writeable = False
        return cls(where, size, reach, step, _rows(indices, itemsize), blocks)

    @property
    def indices(self) -> Indices:
        """The elements as indices."""
        return np.arange(self.where.start, self.where.stop) if isinstance(self.where, slice) else self.where

    def of_repeat(self, repeat: int) -> slice | Indices:
        """What *where* is for one repeat alone."""
        first = repeat * self.step
        if isinstance(self.where, slice):
            start = self.where.start
            return slice(start + first, min(start + first + self.step, self.where.stop))
        return self.where[first : first + self.step]

    def ranges(self, memory: Any, address: int) -> tuple[tuple[Any, ...], ...]:
        """The bytes touched of an operand at *address* of *memory*, as `Core.issue` takes them."""
        return tuple((memory, address + row[0], address + row[1], *row[2:]) for row in self.rows)


def frozen(mask: Lanes) -> Mask:
    """*mask* as a key; counts may be NumPy integers."""
    return tuple(mask) if isinstance(mask, Sequence) else int(mask)


@cache
def counted(itemsize: int, lanes: int, count: int) -> Access:
    """The first *count* elements, *lanes* of them per repeat."""
    repeats = -(-count // lanes)
    per_repeat = max(lanes * itemsize // BLOCK, 1)
    blocks = np.arange(repeats)[:, None] * per_repeat + np.arange(per_repeat)
    return Access(slice(0, count), count, count, lanes, ((0, count * itemsize),), blocks)


@cache
def strided(itemsize: int, lanes: int, mask: Mask, repeats: int, blk_stride: int, rep_stride: int) -> Access:
    """The elements of lanes *mask* of *repeats* repeats, whose blocks and repeats stand so many blocks apart."""
    if not 0 <= repeats <= MAX_REPEATS:
        raise KernelError(f"{repeats} repeats", f"an instruction takes 0 to {MAX_REPEATS}")
    if not (0 <= blk_stride <= 255 and 0 <= rep_stride <= 255):
        raise KernelError(f"strides of {blk_stride} and {rep_stride} blocks", "strides are 0 to 255")
    active = active_lanes(mask, lanes)
    per_block = BLOCK // itemsize
    in_repeat = active // per_block * (blk_stride * per_block) + active % per_block
    indices = (np.arange(repeats)[:, None] * (rep_stride * per_block) + in_repeat).ravel()
    # Stride 0 is the same block again: it is read once.
    blocks = np.arange(repeats)[:, None] * rep_stride + np.unique(active // per_block * blk_stride)
    return Access.of(indices, itemsize, len(active), blocks)


@cache
def active_lanes(mask: Mask, lanes: int) -> Indices:
    """Which of *lanes* lanes take part: the first *mask*, or those whose bits are set in 64-bit words, lowest first."""
    if isinstance(mask, int):
        if not 0 < mask <= lanes:
            raise KernelError(f"a mask of {mask} lanes", f"a repeat of this type has 1 to {lanes} lanes")
        return np.arange(mask)
    bits = sum(word << 64 * index for index, word in enumerate(mask))
    if bits <= 0 or bits >> lanes or any(not 0 <= word < 1 << 64 for word in mask):
        words = ", ".join(f"{word:#x}" for word in mask)
        raise KernelError(f"the mask [{words}]", f"it takes 64-bit words with bits for {lanes} lanes, at least one set")
    return np.array([lane for lane in range(lanes) if bits >> lane & 1])


@cache
def results(itemsize: int, repeats: int, each: int, distance: int, pick: tuple[int, ...] | None = None) -> Access:
    """*each* elements per repeat, the next repeat *distance* elements on: where reductions write.

    With *pick* only these of each are written.
    """
    chosen = np.arange(each) if pick is None else np.array(pick)
    indices = (np.arange(repeats)[:, None] * distance + chosen).ravel()
    blocks = indices.reshape(repeats, -1)[:, :1] * itemsize // BLOCK
    return Access.of(indices, itemsize, len(chosen), blocks)


def _rows(indices: Indices, itemsize: int) -> tuple[tuple[int, ...], ...]:
    """Runs of bytes; as one entry if they are equally long and equally far apart."""
    touched = np.unique(indices)
    breaks = np.flatnonzero(np.diff(touched) != 1)
    starts = touched[np.r_[0, breaks + 1]] * itemsize
    stops = (touched[np.r_[breaks, len(touched) - 1]] + 1) * itemsize
    lengths = stops - starts
    gaps = np.diff(starts)
    if len(starts) > 1 and (lengths == lengths[0]).all() and (gaps == gaps[0]).all():
        return ((int(starts[0]), int(stops[-1]), int(lengths[0]), int(gaps[0])),)
    return tuple((int(start), int(stop)) for start, stop in zip(starts, stops, strict=True))
