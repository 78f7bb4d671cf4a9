"""Pad and UnPad: rows of a matrix are filled up to whole blocks of 32 bytes, or lose what fills them up."""

from operator import index as integer
from typing import NamedTuple

from device_model.aicore.core.names import BLOCK
from device_model.aicore.core.tensors import LocalTensor, int32, uint16, uint32
from device_model.aicore.functions.rows import Rows
from device_model.aicore.functions.scratch import temporary
from device_model.aicore.vector.elementwise import Maxs, Mins
from device_model.aicore.vector.fill import ArithProgression, Duplicate
from device_model.aicore.vector.gather import Gather, GatherMask, GatherMaskParams
from device_model.aicore.vector.unit import check_type
from device_model.kernel.findings import KernelError

TYPES = ("int16", "uint16", "float16", "int32", "uint32", "float32")
ALL = 7  # the pattern of GatherMask that takes all elements


class PadParams(NamedTuple):
    """What Pad adds (Ascend C: PadParams).

    Attributes:
        left_pad: Elements before each row.
        right_pad: Elements behind each row; if rows are whole blocks already, the last elements are replaced.
        pad_value: Their value, a whole number.
    """

    left_pad: int = 0
    right_pad: int = 0
    pad_value: int = 0


class UnPadParams(NamedTuple):
    """What UnPad takes away (Ascend C: UnPadParams).

    Attributes:
        left_pad: 0; the vendor's has no effect yet.
        right_pad: The last elements of each row, less than 32 bytes.
    """

    left_pad: int = 0
    right_pad: int = 0


def Pad(
    dst: LocalTensor,
    src: LocalTensor,
    tmp: LocalTensor | None = None,
    *,
    params: PadParams,
    height: int,
    width: int,
) -> None:
    """Fill up the rows of a matrix to whole blocks of 32 bytes (Ascend C: Pad).

    Made of ArithProgression, Gather and Duplicate: a Gather takes each row apart from its neighbours.

    Args:
        dst: The matrix to write, in UB: a type of 16 or 32 bits. Its rows are as long as those of src, rounded up.
        src: The matrix to read, of the same type; rows lie one behind the other.
        tmp: The temporary buffer, in UB; by default the bytes of UB that no buffer of the TPipe has.
        params: What is added.
        height: The number of rows.
        width: The elements of a row of src.

    Raises:
        KernelError: A type or size is impossible, a tensor is too small, or the temporary buffer is.
    """
    check_type("Pad", "dst", dst, TYPES)
    check_type("Pad", "src", src, (dst.dtype.name,))
    itemsize = dst.dtype.itemsize
    left, right, value = map(integer, params)
    height, width = integer(height), integer(width)
    per_block = BLOCK // itemsize
    whole = -(-width // per_block) * per_block
    is_whole = width == whole
    added = left + (0 if is_whole else right)
    if min(height, width) < 1 or min(left, right) < 0 or (is_whole and (left or not right)):
        raise KernelError(
            f"Pad of {height} rows of {width} elements of {dst.dtype} with {params}",
            "rows that are whole blocks of 32 bytes only have their last elements replaced, with right_pad",
        )
    if width + added > whole or right > width:
        raise KernelError(
            f"Pad of rows of {width} elements of {dst.dtype} with {params}", f"padded rows have {whole} at most"
        )
    for role, tensor, least in (("dst", dst, height * whole), ("src", src, height * width)):
        if tensor.size < least:
            raise KernelError(f"Pad of {height} x {width}", f"{role} has {tensor.size} elements, and needs {least}")
    kept = width - right if is_whole else width
    # Where the elements of a row come from, in bytes; those that are added later come from its first or last one.
    offsets = Rows("Pad", temporary("Pad", tmp, dst, src)).take(int32, whole)
    ArithProgression(offsets, -left * itemsize, itemsize, whole)
    Maxs(offsets, offsets, 0, whole)
    Mins(offsets, offsets, (kept - 1) * itemsize, whole)
    for row in range(height):
        to = dst[row * whole :]
        Gather(to, src, offsets.ReinterpretCast(uint32), row * width * itemsize, whole)
        _fill(to, value, 0, left, per_block)
        _fill(to, value, left + kept, left + kept + right, per_block)


def _fill(dst: LocalTensor, value: int, first: int, last: int, per_block: int) -> None:
    """Issue dst[first:last] = value, in one or two blocks."""
    if first < last:
        begin = first // per_block * per_block
        bits = ((1 << (last - begin)) - 1) ^ ((1 << (first - begin)) - 1)
        Duplicate(dst[begin:], value, [bits, 0], 1, 1, 8)


def UnPad(
    dst: LocalTensor,
    src: LocalTensor,
    tmp: LocalTensor | None = None,
    *,
    params: UnPadParams,
    height: int,
    width: int,
) -> None:
    """Take the last elements of each row away (Ascend C: UnPad), with a GatherMask.

    Args:
        dst: The matrix to write, in UB: a type of 16 or 32 bits. Its rows lie one behind the other.
        src: The matrix to read, of the same type.
        tmp: A temporary buffer, which is not needed here.
        params: What is taken away.
        height: The number of rows.
        width: The elements of a row of src, in whole blocks of 32 bytes.

    Raises:
        KernelError: A type or size is impossible, or a tensor is too small.
    """
    check_type("UnPad", "dst", dst, TYPES)
    check_type("UnPad", "src", src, (dst.dtype.name,))
    if tmp is not None:
        temporary("UnPad", tmp, dst, src)
    height, width, (left, right) = integer(height), integer(width), map(integer, params)
    per_block = BLOCK // dst.dtype.itemsize
    if min(height, width) < 1 or width % per_block or left or not 0 < right < per_block:
        raise KernelError(
            f"UnPad of {height} rows of {width} elements of {dst.dtype} with {params}",
            f"rows are whole blocks of {BLOCK} bytes, left_pad is 0, and right_pad 1 to {per_block - 1}",
        )
    for role, tensor, least in (("dst", dst, height * (width - right)), ("src", src, height * width)):
        if tensor.size < least:
            raise KernelError(f"UnPad of {height} x {width}", f"{role} has {tensor.size} elements, and needs {least}")
    words = (uint16 if dst.dtype.itemsize == 2 else uint32,)
    to, at = dst.ReinterpretCast(*words), src.ReinterpretCast(*words)
    GatherMask(to, at, ALL, True, width - right, GatherMaskParams(1, height, width // per_block, 0))
