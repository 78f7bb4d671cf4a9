"""AscendDequant: results of integer products become floats, each column with its own factor."""

from enum import Enum
from operator import index as integer
from typing import Any, NamedTuple, SupportsIndex

from device_model.aicore.core.names import BLOCK, RoundMode
from device_model.aicore.core.tensors import LocalTensor, bfloat16, float32, uint32, uint64
from device_model.aicore.functions.matrices import Size, each, rowwise
from device_model.aicore.functions.rows import Rows
from device_model.aicore.functions.scratch import temporary
from device_model.aicore.vector.elementwise import Cast, Mul, Muls
from device_model.aicore.vector.gather import GatherMask, GatherMaskParams
from device_model.aicore.vector.unit import check_type
from device_model.kernel.findings import KernelError

MOST_ROWS = 240  # of a piece, less than the repeats of an instruction
PER_REPEAT = 64  # words of 4 bytes in a repeat

# The type of dst -> the types of factors: tensors, and "number".
TYPES = {
    "float16": ("uint64",),
    "float32": ("float32", "bfloat16", "number"),
    "bfloat16": ("bfloat16", "float32", "number"),
}


class DequantParams(NamedTuple):
    """The size of src of AscendDequant (Ascend C: DequantParams).

    Attributes:
        m: The number of rows.
        n: The elements of a row; whole blocks of 32 bytes.
        cal_count: How many elements of each row get a factor.
    """

    m: int
    n: int
    cal_count: int


class DeQuantMode(Enum):
    """What a single row of AscendDequant means (Ascend C: DeQuantMode)."""

    DEQUANT_WITH_SINGLE_ROW = 0  # n / cal_count rows of cal_count elements, if these are whole blocks of dst
    DEQUANT_WITH_MULTI_ROW = 1  # a row as any other


def AscendDequant(
    dst: LocalTensor,
    src: LocalTensor,
    deq_scale: LocalTensor | float,
    *operands: Any,
    mode: DeQuantMode = DeQuantMode.DEQUANT_WITH_SINGLE_ROW,
) -> None:
    """Dst = src * deq_scale, column by column, as floats (Ascend C: AscendDequant).

    Made of Cast and Mul. Rows of dst are as long as those of src, in whole blocks of 32 bytes.

    Args:
        dst: The matrix to write, in UB: half, float or bfloat16.
        src: The matrix to read: int32.
        deq_scale: A factor for each column: uint64 words whose lower half is a float, for half; float or bfloat16 for
            the others, or one number.
        operands: `(params)`, the size of the matrix: DequantParams, or a tuple of their three numbers. With a tensor
            for *deq_scale* `(cal_count)` or nothing may stand there: a row then has as many elements as deq_scale, in
            whole blocks of dst, and the first *cal_count* elements of src are read, or all. A temporary buffer may
            come first; by default it is the bytes of UB that no buffer of the TPipe has.
        mode: What a single row means.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or size is impossible, a tensor is too small, or the temporary buffer is.
    """
    tmp, rest = (operands[0], operands[1:]) if operands and _is_buffer(operands[0]) else (None, operands)
    given = rest[0] if rest else src.size
    if len(rest) > 1 or not (isinstance(given, SupportsIndex) or (isinstance(given, tuple) and len(given) == 3)):
        raise TypeError(f"AscendDequant takes (tmp, params) or (tmp, cal_count) behind deq_scale, not {operands}")
    if isinstance(given, tuple):
        _dequantise(dst, src, deq_scale, tmp, DequantParams(*given), mode)
        return
    if not isinstance(deq_scale, LocalTensor):
        raise TypeError("AscendDequant with a number for deq_scale takes DequantParams behind it")
    n, count = deq_scale.size, integer(given)
    if src.size % n or n * dst.dtype.itemsize % BLOCK or not 0 < count <= src.size:
        raise KernelError(
            f"AscendDequant of {count} elements with {n} factors, without DequantParams",
            f"cal_count is 1 to {src.size}, the elements of src, in rows of {n}: whole blocks of {BLOCK} bytes of dst",
        )
    rows, spare = divmod(count, n)
    each_row = DeQuantMode.DEQUANT_WITH_MULTI_ROW
    if rows:
        _dequantise(dst, src, deq_scale, tmp, DequantParams(rows, n, n), each_row)
    if spare:
        _dequantise(dst[rows * n :], src[rows * n :], deq_scale, tmp, DequantParams(1, n, spare), each_row)


def _is_buffer(operand: Any) -> bool:
    return operand is None or isinstance(operand, LocalTensor)


def _dequantise(
    dst: LocalTensor,
    src: LocalTensor,
    deq_scale: LocalTensor | float,
    tmp: LocalTensor | None,
    params: DequantParams,
    mode: DeQuantMode,
) -> None:
    check_type("AscendDequant", "dst", dst, tuple(TYPES))
    check_type("AscendDequant", "src", src, ("int32",))
    number = 1.0 if isinstance(deq_scale, LocalTensor) else float(deq_scale)
    given = deq_scale.dtype.name if isinstance(deq_scale, LocalTensor) else "number"
    if given not in TYPES[dst.dtype.name]:
        raise KernelError(
            f"AscendDequant to {dst.dtype} with factors {given}", f"they are {', '.join(TYPES[dst.dtype.name])}"
        )
    itemsize = dst.dtype.itemsize
    m, n, used = map(integer, params)
    if m < 1 or not 0 < used <= n or n * 4 % BLOCK:
        raise KernelError(
            f"AscendDequant of {params}", f"all are 1 or more, and n is at least cal_count, in blocks of {BLOCK} bytes"
        )
    if mode is DeQuantMode.DEQUANT_WITH_SINGLE_ROW and m == 1 and used * itemsize % BLOCK == 0 and n % used == 0:
        m, n = n // used, used
    apart = -(-n * itemsize // BLOCK) * BLOCK // itemsize
    for role, tensor, least in (("dst", dst, m * apart), ("src", src, m * n)):
        if tensor.size < least:
            raise KernelError(f"AscendDequant of {params}", f"{role} has {tensor.size} elements, and needs {least}")
    if isinstance(deq_scale, LocalTensor) and deq_scale.size < used:
        raise KernelError(f"AscendDequant of {params}", f"deq_scale has {deq_scale.size} elements")
    buffer = temporary("AscendDequant", tmp, dst, src, *([deq_scale] if isinstance(deq_scale, LocalTensor) else []))
    first = Rows("AscendDequant", buffer)
    factors = _factors(deq_scale, used, first) if isinstance(deq_scale, LocalTensor) else None
    rows = max(min(m, MOST_ROWS, first.room // (n * 4)), 1)
    wide = first.take(float32, rows * n)
    for start in range(0, m, rows):
        size = Size(min(rows, m - start), n, used)
        Cast(wide, src[start * n :], RoundMode.CAST_RINT, size.rows * n)
        out = dst[start * apart :] if itemsize == 4 else wide
        if factors is not None:
            rowwise(Mul, out, wide, factors, size, 0)
        else:
            each(Muls, out, wide, size, number)
        if itemsize == 2:
            _narrow(dst[start * apart :], wide, size, apart)


def _factors(deq_scale: LocalTensor, count: int, buffer: Rows) -> LocalTensor:
    """Return the factors in float."""
    if deq_scale.dtype == uint64:
        repeats = -(-count * 2 // PER_REPEAT)
        words = buffer.take(uint32, repeats * PER_REPEAT // 2)
        GatherMask(words, deq_scale.ReinterpretCast(uint32), 1, True, count * 2, GatherMaskParams(1, 1, 8, 0))
        return words.ReinterpretCast(float32)
    if deq_scale.dtype == bfloat16:
        wide = buffer.take(float32, count)
        Cast(wide, deq_scale, RoundMode.CAST_NONE, count)
        return wide
    return deq_scale


def _narrow(dst: LocalTensor, wide: LocalTensor, size: Size, apart: int) -> None:
    if apart == size.k:
        Cast(dst, wide, RoundMode.CAST_RINT, size.rows * size.k)
        return
    for row in range(size.rows):
        Cast(dst[row * apart :], wide[row * size.k :], RoundMode.CAST_RINT, size.k)
