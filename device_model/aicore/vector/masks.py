"""The elements that a vector instruction touches: the first *count*, or those of masked, strided repeats.

A repeat is 256 bytes of the widest operand: 8 blocks of 32 bytes, with a lane for each element. *mask* selects lanes
and *repeat_time* is the number of repeats. The strides, in blocks, lead from a block of an operand to its next one, and
from a repeat to the next one. For half, 128 lanes:

    mask 64, repeat_time 4, rep_stride 8    the first 64 of each 128 elements, 4 times

The resulting indices depend on these numbers alone, so they are computed once and shared by all cores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from operator import index
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.machine import ALL_LANES, running
from device_model.aicore.core.memories import Range
from device_model.aicore.core.names import BLOCK
from device_model.aicore.core.tensors import whole
from device_model.kernel.findings import KernelError

REPEAT = 256  # bytes
MAX_REPEATS = 255


@dataclass(frozen=True, slots=True)
class Counter:
    """A mask in counter mode: a number of elements, over as many repeats as they take."""

    elements: int


class Placeholder(Enum):
    """MASK_PLACEHOLDER stands for the mask that SetVectorMask has set."""

    MASK_PLACEHOLDER = 0


MASK_PLACEHOLDER = Placeholder.MASK_PLACEHOLDER
# The first lanes; 64-bit words with a bit for each lane, lowest first; or elements over all repeats.
Mask = int | tuple[int, ...] | Counter
Lanes = int | Sequence[int] | Placeholder  # a mask as kernels write it
Indices = npt.NDArray[np.intp]


class UnaryRepeatParams(NamedTuple):
    """Strides of an instruction with one source, in blocks of 32 bytes, 0 to 255 (Ascend C: UnaryRepeatParams).

    Attributes:
        dst_blk_stride: From one block of a repeat to the next in the destination.
        src_blk_stride: From one block of a repeat to the next in the source.
        dst_rep_stride: From one repeat to the next in the destination.
        src_rep_stride: From one repeat to the next in the source.
    """

    dst_blk_stride: int = 1
    src_blk_stride: int = 1
    dst_rep_stride: int = 8
    src_rep_stride: int = 8


class BinaryRepeatParams(NamedTuple):
    """Strides of an instruction with two sources, in blocks of 32 bytes, 0 to 255 (Ascend C: BinaryRepeatParams).

    Attributes:
        dst_blk_stride: From one block of a repeat to the next in the destination.
        src0_blk_stride: The same in the first source.
        src1_blk_stride: The same in the second source.
        dst_rep_stride: From one repeat to the next in the destination.
        src0_rep_stride: The same in the first source.
        src1_rep_stride: The same in the second source.
    """

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
        """Return the access to the elements at *indices*, with *step* of them in each repeat."""
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
        """The elements as an array of indices."""
        return np.arange(self.where.start, self.where.stop) if isinstance(self.where, slice) else self.where

    def of_repeat(self, repeat: int) -> slice | Indices:
        """Return *where* for one repeat alone."""
        first = repeat * self.step
        if isinstance(self.where, slice):
            start = self.where.start
            return slice(start + first, min(start + first + self.step, self.where.stop))
        return self.where[first : first + self.step]

    def ranges(self, memory: Any, address: int) -> tuple[Range, ...]:
        """Return the bytes that are touched of an operand at *address* of *memory*, as `Core.issue` takes them."""
        return tuple((memory, address + row[0], address + row[1], *row[2:]) for row in self.rows)


def frozen(mask: Lanes, repeat_time: int | None) -> Mask:
    """Return *mask* as a key; it is a number of elements if *repeat_time* is None.

    Counts and words may be NumPy integers. They become Python integers, because shifts of the former overflow.
    """
    if repeat_time is None and type(mask) is int:  # the most frequent form
        return mask
    if isinstance(mask, Placeholder):
        core = running()
        if core.counts_mask and core.mask == ALL_LANES:
            raise KernelError("MASK_PLACEHOLDER without a number of elements", "call SetVectorMask(0, number) first")
        return Counter(core.mask[0]) if core.counts_mask else core.mask
    if isinstance(mask, Sequence | np.ndarray):
        return tuple(map(index, mask))
    number = whole("a count or a mask", mask)
    return Counter(number) if repeat_time is not None and running().counts_mask else number


@cache
def counted(itemsize: int, lanes: int, count: int) -> Access:
    """Return the access to the first *count* elements, *lanes* of them per repeat."""
    repeats = -(-count // lanes)
    per_repeat = max(lanes * itemsize // BLOCK, 1)
    blocks = np.arange(repeats)[:, None] * per_repeat + np.arange(per_repeat)
    return Access(slice(0, count), count, count, lanes, ((0, count * itemsize),), blocks)


@cache
def strided(itemsize: int, lanes: int, mask: Mask, repeats: int, blk_stride: int, rep_stride: int) -> Access:
    """Return the access to lanes *mask* of *repeats* repeats, with strides in blocks.

    A Counter determines the number of repeats itself, and the last one may be short.
    """
    if isinstance(mask, Counter):
        if mask.elements < 0:
            raise KernelError(f"a mask of {mask.elements} elements", "in counter mode it is 0 or more")
        repeats, active = -(-mask.elements // lanes), np.arange(lanes)
        size = mask.elements
    else:
        active = active_lanes(mask, lanes)
        size = repeats * len(active)
    if not 0 <= repeats <= MAX_REPEATS and not isinstance(mask, Counter):
        raise KernelError(f"{repeats} repeats", f"an instruction takes 0 to {MAX_REPEATS}")
    if not (0 <= blk_stride <= 255 and 0 <= rep_stride <= 255):
        raise KernelError(f"strides of {blk_stride} and {rep_stride} blocks", "strides are 0 to 255")
    per_block = BLOCK // itemsize
    in_repeat = active // per_block * (blk_stride * per_block) + active % per_block
    indices = (np.arange(repeats)[:, None] * (rep_stride * per_block) + in_repeat).ravel()[:size]
    # Stride 0 is the same block again: it is read once.
    blocks = np.arange(repeats)[:, None] * rep_stride + np.unique(active // per_block * blk_stride)
    return Access.of(indices, itemsize, len(active), blocks)


@cache
def active_lanes(mask: Mask, lanes: int) -> Indices:
    """Return the lanes that take part: the first *mask*, or those with a bit in 64-bit words, lowest word first."""
    if isinstance(mask, Counter):
        raise KernelError(
            f"a mask of {mask.elements} elements", "this instruction takes a mask of lanes: call SetMaskNorm() first"
        )
    if mask == ALL_LANES:
        return np.arange(lanes)
    if isinstance(mask, int):
        if not 0 < mask <= lanes:
            raise KernelError(f"a mask of {mask} lanes", f"a repeat of this type has 1 to {lanes} lanes")
        return np.arange(mask)
    bits = sum(word << 64 * place for place, word in enumerate(mask))
    if bits <= 0 or bits >> lanes or any(not 0 <= word < 1 << 64 for word in mask):
        words = ", ".join(f"{word:#x}" for word in mask)
        raise KernelError(f"the mask [{words}]", f"it takes 64-bit words with bits for {lanes} lanes, at least one set")
    return np.array([lane for lane in range(lanes) if bits >> lane & 1])


def in_pairs(mask: Mask, lanes: int) -> Mask:
    """Return a mask of elements of 4 bits as one of their bytes; it takes both elements of a byte or none."""
    if isinstance(mask, Counter):
        return Counter(_half(mask.elements))
    if isinstance(mask, int):
        return _half(mask)
    taken = np.zeros(lanes, bool)
    taken[active_lanes(mask, lanes)] = True
    first, second = taken.reshape(-1, 2).T
    if (first != second).any():
        raise KernelError(f"the mask {mask} of int4b_t", "a byte holds two elements: take both lanes of it or none")
    return (sum(1 << int(byte) for byte in np.flatnonzero(first)),)


def _half(elements: int) -> int:
    if elements % 2:
        raise KernelError(f"{elements} elements of int4b_t", "a byte holds two of them: give an even number")
    return elements // 2


@cache
def results(itemsize: int, repeats: int, each: int, distance: int, pick: tuple[int, ...] | None = None) -> Access:
    """Return the access of a reduction's results: *each* elements per repeat, repeats *distance* elements apart.

    With *pick*, only these of each repeat's elements are written.
    """
    chosen = np.arange(each) if pick is None else np.array(pick)
    indices = (np.arange(repeats)[:, None] * distance + chosen).ravel()
    blocks = indices.reshape(repeats, -1)[:, :1] * itemsize // BLOCK
    return Access.of(indices, itemsize, len(chosen), blocks)


def _rows(indices: Indices, itemsize: int) -> tuple[tuple[int, ...], ...]:
    """Return the runs of bytes; as one entry if all have the same length and distance."""
    touched = np.unique(indices)
    breaks = np.flatnonzero(np.diff(touched) != 1)
    starts = touched[np.r_[0, breaks + 1]] * itemsize
    stops = (touched[np.r_[breaks, len(touched) - 1]] + 1) * itemsize
    lengths = stops - starts
    gaps = np.diff(starts)
    if len(starts) > 1 and (lengths == lengths[0]).all() and (gaps == gaps[0]).all():
        return ((int(starts[0]), int(stops[-1]), int(lengths[0]), int(gaps[0])),)
    return tuple((int(start), int(stop)) for start, stop in zip(starts, stops, strict=True))


# The mask of a core


def SetMaskCount() -> None:
    """Switch this core to counter mode (Ascend C: SetMaskCount); no pipe waits.

    From now on a mask that is a number counts elements over all repeats, and *repeat_time* has no effect. This is so
    for the mask of SetVectorMask and for the masks of instructions. Masks of bits still select lanes.
    """
    running().counts_mask = True


def SetMaskNorm() -> None:
    """Switch this core to normal mode, the initial one: masks select lanes of each repeat (Ascend C: SetMaskNorm)."""
    running().counts_mask = False


def SetVectorMask(*mask: int) -> None:
    """Set the mask of instructions whose mask is MASK_PLACEHOLDER (Ascend C: SetVectorMask); no pipe waits.

    Args:
        mask: `(high, low)`: in normal mode the bits of lanes 64 to 127 and 0 to 63, in counter mode 0 and the number
            of elements. `(count)`: the first *count* lanes, or in counter mode the number of elements.

    Raises:
        TypeError: It is neither one number nor two.
    """
    if len(mask) not in (1, 2):
        raise TypeError(f"SetVectorMask takes (high, low) or (count), not {mask}")
    core = running()
    numbers = tuple(map(index, mask))
    if len(numbers) == 1 and not core.counts_mask:
        bits = (1 << numbers[0]) - 1
        numbers = (bits >> 64, bits & (1 << 64) - 1)
    core.mask = numbers[::-1]


def ResetMask() -> None:
    """Set the mask to all lanes, its initial value (Ascend C: ResetMask); no pipe waits."""
    running().mask = ALL_LANES
