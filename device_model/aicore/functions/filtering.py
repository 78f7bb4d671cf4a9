"""SelectWithBytesMask, which selects by a byte or word for each element, and DropOut."""

from operator import index as integer
from typing import Any, NamedTuple

from device_model.aicore.core.names import BLOCK, CMPMODE, SELMODE, RoundMode
from device_model.aicore.core.tensors import LocalTensor, float32, half, int16, int32, uint8, uint16
from device_model.aicore.functions.scratch import pieces, temporary
from device_model.aicore.vector.elementwise import FLOATS, Cast, Muls
from device_model.aicore.vector.gather import GatherMask, GatherMaskParams
from device_model.aicore.vector.select import Select, compare_first
from device_model.aicore.vector.unit import check_type
from device_model.kernel.findings import KernelError

NAME = "SelectWithBytesMask"
MASKS = ("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32")
ALL = 7  # the pattern of GatherMask that takes every element


class SelectWithBytesMaskShapeInfo(NamedTuple):
    """The rows of SelectWithBytesMask (Ascend C: SelectWithBytesMaskShapeInfo).

    Attributes:
        first_axis: The number of rows.
        src_last_axis: The elements of a row of the source, in whole blocks of 32 bytes.
        mask_last_axis: Those of a row of the mask, at least as many; a multiple of 16, in whole blocks of 32 bytes.
    """

    first_axis: int
    src_last_axis: int
    mask_last_axis: int


def SelectWithBytesMask(
    dst: LocalTensor,
    src0: LocalTensor | float,
    src1: LocalTensor | float,
    mask: LocalTensor,
    tmp: LocalTensor | None,
    info: SelectWithBytesMaskShapeInfo,
) -> None:
    """Select src0 where the mask is 0 and src1 elsewhere (Ascend C: SelectWithBytesMask, and Select with a shape).

    Made of GatherMask, Cast, Compares and Select. If rows of the mask are longer than those of the source, the mask is
    overwritten with its rows one behind the other.

    Args:
        dst: The tensor to write, in UB: half or float.
        src0: The elements for 0: a tensor of the type of dst, or a number.
        src1: The elements for all other values: a tensor, if src0 is a number, and a number, if src0 is a tensor.
        mask: An integer for each element, of 8, 16 or 32 bits, or a bool.
        tmp: The temporary buffer, in UB; by default the bytes of UB that no buffer of the TPipe has.
        info: The shape of source and mask.

    Raises:
        TypeError: Not exactly one of the sources is a tensor.
        KernelError: A type or shape is impossible, a tensor is too small, or the temporary buffer is.
    """
    tensors = [source for source in (src0, src1) if isinstance(source, LocalTensor)]
    if len(tensors) != 1:
        raise TypeError(f"{NAME}: one of src0 {src0!r} and src1 {src1!r} is a tensor, and the other a number")
    (source,) = tensors
    check_type(NAME, "dst", dst, FLOATS)
    check_type(NAME, "src", source, (dst.dtype.name,))
    check_type(NAME, "mask", mask, MASKS)
    if mask.dtype == bool:
        mask = mask.ReinterpretCast(uint8)
    rows, columns, wide = map(integer, info)
    itemsize = mask.dtype.itemsize
    if min(rows, columns) < 1 or columns * dst.dtype.itemsize % BLOCK:
        raise KernelError(f"{NAME} with {info}", f"rows of the source are whole blocks of {BLOCK} bytes, at least one")
    if wide < columns or wide % 16 or wide * itemsize % BLOCK:
        raise KernelError(
            f"{NAME} with {info}",
            f"a row of the mask has {columns} elements or more, a multiple of 16, in whole blocks of {BLOCK} bytes",
        )
    count = rows * columns
    for role, tensor, size in (("dst", dst, count), ("src", source, count), ("mask", mask, rows * wide)):
        if tensor.size < size:
            raise KernelError(f"{NAME} with {info}", f"{role} has {tensor.size} elements, and needs {size}")
    buffer = temporary(NAME, tmp, dst, source, mask)
    if wide != columns:
        # As 16-bit numbers, for GatherMask has no bytes.
        words = mask.ReinterpretCast(uint16)
        params = GatherMaskParams(1, rows, wide * itemsize // BLOCK, 0)
        GatherMask(words, words, ALL, True, columns * itemsize // 2, params)
    signed = mask.ReinterpretCast(int16 if itemsize == 2 else int32) if itemsize > 1 else mask
    number = float32 if itemsize == 4 else half
    of_zero = isinstance(src0, LocalTensor)
    for start, length, (numbers, bits) in pieces(NAME, buffer, count, (number, uint8)):
        Cast(numbers, signed[start:], RoundMode.CAST_NONE, length)
        compare_first(bits, numbers, 0.0, CMPMODE.EQ if of_zero else CMPMODE.NE, length)
        other = src1 if of_zero else src0
        Select(dst[start:], bits, source[start:], other, SELMODE.VSEL_TENSOR_SCALAR_MODE, length)


class DropOutShapeInfo(NamedTuple):
    """The shape of DropOut (Ascend C: DropOutShapeInfo).

    Attributes:
        first_axis: The number of rows.
        src_last_axis: The elements of a row of the source, in whole blocks of 32 bytes.
        mask_last_axis: From one row of the mask to the next, in bytes.
    """

    first_axis: int
    src_last_axis: int
    mask_last_axis: int


def DropOut(
    dst: LocalTensor,
    src: LocalTensor,
    mask: LocalTensor,
    *operands: Any,
    drop_out_mode: int = 0,
) -> None:
    """Dst = src / keep_prob where the mask is not 0, and 0 elsewhere (Ascend C: DropOut).

    Args:
        dst: The tensor to write, in UB: half or float.
        src: The tensor to read, of the same type.
        mask: uint8: a byte for each element, or a bit, the lowest first.
        operands: `(keep_prob, info)`, or these behind a temporary buffer; by default it is the bytes of UB that no
            buffer of the TPipe has. *keep_prob* is between 0 and 1; *info* a `DropOutShapeInfo`.
        drop_out_mode: 1 and 2 for bytes, 3 and 4 for bits; 1 and 4 with rows of the mask that are padded. 0 decides by
            the shape.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type, number or shape is impossible, a tensor is too small, or the temporary buffer is.
    """
    tmp, rest = (operands[0], operands[1:]) if operands and isinstance(operands[0], LocalTensor) else (None, operands)
    if len(rest) != 2 or not isinstance(rest[1], DropOutShapeInfo):
        raise TypeError(f"DropOut takes keep_prob and DropOutShapeInfo behind its tensors, not {operands}")
    keep, info = rest
    check_type("DropOut", "dst", dst, FLOATS)
    check_type("DropOut", "src", src, (dst.dtype.name,))
    check_type("DropOut", "mask", mask, ("uint8",))
    rows, columns, wide = map(integer, info)
    if not 0 < keep < 1 or min(rows, columns) < 1 or columns * dst.dtype.itemsize % BLOCK:
        raise KernelError(
            f"DropOut with {info} and keep_prob {keep}",
            f"keep_prob is between 0 and 1, and rows are whole blocks of {BLOCK} bytes",
        )
    of_bytes = drop_out_mode in (1, 2) or (drop_out_mode == 0 and wide >= columns)
    least = columns if of_bytes else -(-columns // 8)
    if drop_out_mode not in range(5) or wide < least or (wide > least and wide % BLOCK):
        raise KernelError(
            f"DropOut with {info} and drop_out_mode {drop_out_mode}",
            f"the mode is 0 to 4, and rows of the mask have {least} bytes, or more in whole blocks of {BLOCK}",
        )
    for role, tensor, size in (("dst", dst, rows * columns), ("src", src, rows * columns), ("mask", mask, rows * wide)):
        if tensor.size < size:
            raise KernelError(f"DropOut with {info}", f"{role} has {tensor.size} elements, and needs {size}")
    if of_bytes:
        SelectWithBytesMask(dst, 0.0, src, mask, tmp, SelectWithBytesMaskShapeInfo(rows, columns, wide))
    else:
        if tmp is not None:
            temporary("DropOut", tmp, dst, src, mask)
        at_once = rows if wide * 8 == columns else 1
        for row in range(0, rows, at_once):
            at = row * columns
            bits, count = mask[row * wide :], columns * at_once
            Select(dst[at:], bits, src[at:], 0.0, SELMODE.VSEL_TENSOR_SCALAR_MODE, count)
    Muls(dst, dst, 1 / keep, rows * columns)
