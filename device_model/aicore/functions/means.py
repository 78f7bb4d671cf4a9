"""ReduceMean, the remainder of a division (Fmod), and numbers that are limited (ClampMax, ClampMin)."""

from collections.abc import Callable, Sequence
from enum import Enum
from operator import index as integer
from typing import Any

from device_model.aicore.core.names import BLOCK, RoundMode
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.functions.makers import binary
from device_model.aicore.functions.rows import Sum, SumParams
from device_model.aicore.functions.scratch import temporary
from device_model.aicore.vector.elementwise import FLOATS, Add, Adds, Cast, Div, Maxs, Mins, Mul, Muls, Sub
from device_model.aicore.vector.unit import check_count, check_type
from device_model.kernel.findings import KernelError


class ReducePattern(Enum):
    """Which dimension of a matrix is reduced (Ascend C: ReducePattern): A stays, and R is reduced."""

    AR = 0
    RA = 1


def ReduceMean(
    dst: LocalTensor,
    src: LocalTensor,
    *operands: Any,
    pattern: ReducePattern = ReducePattern.AR,
) -> None:
    """Dst = the means of the rows or of the columns of a matrix (Ascend C: ReduceMean).

    Args:
        dst: The means, in UB: float.
        src: The matrix: float.
        operands: `(src_shape, src_inner_pad)`, or these behind a temporary buffer; by default it is the bytes of UB
            that no buffer of the TPipe has. The shape is (rows, columns), and rows are whole blocks of 32 bytes, as
            *src_inner_pad*, True, says.
        pattern: AR for means of rows, RA for means of columns.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or shape is impossible, or a tensor is too small.
    """
    tmp, rest = (operands[0], operands[1:]) if operands and isinstance(operands[0], LocalTensor) else (None, operands)
    if len(rest) != 2:
        raise TypeError(f"ReduceMean takes src_shape and src_inner_pad behind its tensors, not {operands}")
    shape, inner_pad = tuple(map(integer, rest[0])), rest[1]
    check_type("ReduceMean", "dst", dst, ("float32",))
    check_type("ReduceMean", "src", src, ("float32",))
    if len(shape) != 2 or min(shape) < 1 or shape[1] * 4 % BLOCK or inner_pad is not True:
        raise KernelError(
            f"ReduceMean of {shape} with src_inner_pad {inner_pad}",
            f"a shape has two sizes, rows are whole blocks of {BLOCK} bytes, and src_inner_pad is True",
        )
    rows, columns = shape
    results = rows if pattern is ReducePattern.AR else columns
    for role, tensor, least in (("dst", dst, results), ("src", src, rows * columns)):
        if tensor.size < least:
            raise KernelError(f"ReduceMean of {shape}", f"{role} has {tensor.size} elements, and needs {least}")
    if pattern is ReducePattern.AR:
        Sum(dst, src, tmp, SumParams(rows, columns, columns))
        Muls(dst, dst, 1 / columns, rows)
        return
    if tmp is not None:
        temporary("ReduceMean", tmp, dst, src)
    Adds(dst, src, 0, columns)
    for row in range(1, rows):
        Add(dst, dst, src[row * columns :], columns)
    Muls(dst, dst, 1 / rows, columns)


def _fmod(dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, count: int, quotient: LocalTensor) -> None:
    Div(quotient, src0, src1, count)
    Cast(quotient, quotient, RoundMode.CAST_TRUNC, count)
    Mul(quotient, quotient, src1, count)
    Sub(dst, src0, quotient, count)


Fmod = binary(
    "Fmod", _fmod, "dst = src0 - src1 * (src0 / src1, rounded toward zero); exact for small quotients.", temporaries=1
)


def _clamp(
    name: str, op: Callable[..., None], dst: LocalTensor, src: LocalTensor, operands: Sequence[LocalTensor | float]
) -> None:
    check_type(name, "dst", dst, FLOATS)
    check_type(name, "src", src, (dst.dtype.name,))
    if operands and isinstance(operands[0], LocalTensor):
        temporary(name, operands[0], dst, src)
        operands = operands[1:]
    if len(operands) != 2:
        raise TypeError(f"{name} takes a number and a count, not {operands}")
    scalar, count = operands
    check_count(name, count)
    op(dst, src, scalar, count)


def ClampMax(dst: LocalTensor, src: LocalTensor, *operands: LocalTensor | float) -> None:
    """Dst = the smaller of src and a number (Ascend C: ClampMax).

    Args:
        dst: The tensor to write, in UB: half or float.
        src: The tensor to read, of the same type.
        operands: `(scalar, count)`, or these behind a temporary buffer, which is not needed here.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or count is impossible, or a tensor is too small.
    """
    _clamp("ClampMax", Mins, dst, src, operands)


def ClampMin(dst: LocalTensor, src: LocalTensor, *operands: LocalTensor | float) -> None:
    """Dst = the larger of src and a number (Ascend C: ClampMin); see ClampMax."""
    _clamp("ClampMin", Maxs, dst, src, operands)
