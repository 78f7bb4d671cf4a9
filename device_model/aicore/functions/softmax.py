"""SoftMax over the rows of a matrix, whole or in parts (SoftmaxFlashV2).

Sums and maxima have a block of 32 bytes for each row, which holds one number several times, as in Ascend C.
"""

from collections.abc import Sequence
from itertools import takewhile
from math import prod
from operator import index as integer
from typing import Any, NamedTuple

from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.functions.matrices import (
    WIDTH,
    Rowful,
    Size,
    check_blocks,
    checked,
    each,
    pieces_of_rows,
    reduced,
    rowwise,
    store_blocks,
)
from device_model.aicore.functions.operands import tail
from device_model.aicore.vector.elementwise import FLOATS, Add, Adds, Div, Exp, Max, Mul, Sub
from device_model.kernel.findings import KernelError


class SoftMaxShapeInfo(NamedTuple):
    """The size of a matrix for SoftMax (Ascend C: SoftMaxShapeInfo).

    Attributes:
        src_m: The number of rows.
        src_k: From one row to the next, in elements; whole blocks of 32 bytes.
        ori_src_m: The rows that are used; all of them by default.
        ori_src_k: The elements of a row that are used; all of them by default.
    """

    src_m: int
    src_k: int
    ori_src_m: int | None = None
    ori_src_k: int | None = None


def size_of(name: str, shape: SoftMaxShapeInfo, *matrices: LocalTensor) -> Size:
    """Return the size of *matrices* that *shape* describes; see `matrices.checked`."""
    m, k = integer(shape.src_m), integer(shape.src_k)
    rows = m if shape.ori_src_m is None else integer(shape.ori_src_m)
    n = k if shape.ori_src_k is None else integer(shape.ori_src_k)
    if rows > m:
        raise KernelError(f"{name} of {shape}", "ori_src_m is at most src_m")
    return checked(name, rows, k, n, *matrices)


def behind(name: str, operands: Sequence[Any], src: LocalTensor) -> tuple[LocalTensor | None, SoftMaxShapeInfo]:
    """Return the temporary buffer and the shape among *operands*, or the shape of *src*."""
    tmp, shape = tail(name, operands, SoftMaxShapeInfo)
    return tmp, shape or _carried(name, src)


def _carried(name: str, src: LocalTensor) -> SoftMaxShapeInfo:
    try:
        info = src.GetShapeInfo()
    except KernelError:
        raise KernelError(
            f"{name} without a shape", "give it a SoftMaxShapeInfo as the last argument, or src one with SetShapeInfo()"
        ) from None
    shape, used = info.shape, info.original_shape or info.shape
    return SoftMaxShapeInfo(prod(shape[:-1]), shape[-1], prod(used[:-1]), used[-1])


def exponentials(piece: Rowful, largest: LocalTensor) -> None:
    """Issue y = e to the power of x - largest, row by row."""
    rowwise(Sub, piece.y, piece.x, largest, piece.size, 1)
    each(Exp, piece.y, piece.y, piece.size)


def sums_of(piece: Rowful, sums: LocalTensor) -> None:
    """Issue: `one` and the blocks of *sums* = the sums of the rows of y."""
    reduced("sum", piece.one, piece.y, piece.lanes, piece.size)
    piece.fill(sums)


def SoftMax(dst: LocalTensor, *operands: Any) -> None:
    """Dst = e to the power of (src - largest of the row), divided by the sum of the row (Ascend C: SoftMax).

    Operands are those of Ascend C in its order: `(dst, src, tiling, shape)` or `(dst, sum, max, src, tiling, shape)`,
    and both with *tmp* behind src.

    Args:
        dst: The matrix to write, in UB: half or float.
        operands: *src* is the matrix to read, of the same type, and may be dst. *sum* and *max* get the sums and the
            largest elements: half, or float for all types of src. *tmp* is the temporary buffer; by default the bytes
            of UB that no buffer of the TPipe has. *tiling* has no effect: it may be None, or be left out. *shape* is a
            SoftMaxShapeInfo, the size of the matrix; by default what `src.SetShapeInfo` has set.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or size is impossible, a tensor is too small, or the temporary buffer is.
    """
    tensors = list(takewhile(lambda each: isinstance(each, LocalTensor), operands))
    if not 1 <= len(tensors) <= 4:
        raise TypeError(
            f"SoftMax takes (dst, src) or (dst, sum, max, src), and (tmp, tiling, shape) behind them, not {operands}"
        )
    results = tensors[:2] if len(tensors) > 2 else []
    src = tensors[len(results)]
    tmp, shape = behind("SoftMax", operands[len(results) + 1 :], src)
    size = size_of("SoftMax", shape, dst, src)
    for role, tensor in zip(("sum", "max"), results, strict=False):
        check_blocks("SoftMax", role, tensor, size.rows, FLOATS)
    room = 2 * size.rows * 4 * 2 * WIDTH if results else 0  # for blocks of half
    for piece in pieces_of_rows("SoftMax", tmp, dst, src, size, 1, fixed=min(room, 20_000), used=tuple(results)):
        (blocks,) = piece.blocks
        reduced("max", piece.one, piece.x, piece.lanes, piece.size)
        piece.fill(blocks)
        if results:
            store_blocks(results[1], piece, blocks)
        exponentials(piece, blocks)
        sums_of(piece, blocks)
        if results:
            store_blocks(results[0], piece, blocks)
        rowwise(Div, piece.y, piece.y, blocks, piece.size, 1)


def SimpleSoftMax(
    dst: LocalTensor,
    in_sum: LocalTensor,
    in_max: LocalTensor,
    src: LocalTensor,
    *operands: Any,
) -> None:
    """Dst = e to the power of (src - in_max), divided by in_sum (Ascend C: SimpleSoftMax).

    Args:
        dst: The matrix to write, in UB: half or float.
        in_sum: The sums, in float: a block of 32 bytes for each row.
        in_max: The largest elements, in float, too.
        src: The matrix to read, of the type of dst.
        operands: `(tmp, tiling, shape)`, as for SoftMax.

    Raises:
        TypeError: There are more operands.
        KernelError: As for SoftMax.
    """
    tmp, shape = behind("SimpleSoftMax", operands, src)
    size = size_of("SimpleSoftMax", shape, dst, src)
    for role, tensor in (("in_sum", in_sum), ("in_max", in_max)):
        check_blocks("SimpleSoftMax", role, tensor, size.rows, ("float32",))
    for piece in pieces_of_rows("SimpleSoftMax", tmp, dst, src, size, 0, used=(in_sum, in_max)):
        start = piece.start * WIDTH
        exponentials(piece, in_max[start:])
        rowwise(Div, piece.y, piece.y, in_sum[start:], piece.size, 1)


def SoftmaxFlashV2(
    dst: LocalTensor,
    sum_: LocalTensor,
    max_: LocalTensor,
    src: LocalTensor,
    exp_max: LocalTensor,
    in_sum: LocalTensor,
    in_max: LocalTensor,
    *operands: Any,
    is_update: bool = False,
) -> None:
    """Compute SoftMax of rows that come in parts, without the division (Ascend C: SoftmaxFlashV2).

    Dst = e to the power of (src - max). With *is_update*, max is the larger of in_max and the row's largest element,
    exp_max = e to the power of (in_max - max), and sum = exp_max * in_sum + the sum of dst's row.

    Args:
        dst: The matrix to write, in UB: half or float.
        sum_: The sums, in float: a block of 32 bytes for each row. It may be in_sum.
        max_: The largest elements, in float, too. It may be in_max.
        src: The matrix to read, of the type of dst.
        exp_max: What earlier results are to be multiplied by, in float, too; written with *is_update*.
        in_sum: The sums of the parts before this one; read with *is_update*.
        in_max: The largest elements of the parts before this one; read with *is_update*.
        operands: `(tmp, tiling, shape)`, as for SoftMax.
        is_update: Whether there are parts before this one.

    Raises:
        TypeError: There are more operands.
        KernelError: As for SoftMax.
    """
    tmp, shape = behind("SoftmaxFlashV2", operands, src)
    size = size_of("SoftmaxFlashV2", shape, dst, src)
    states = {"sum": sum_, "max": max_, "exp_max": exp_max, "in_sum": in_sum, "in_max": in_max}
    for role, tensor in states.items():
        check_blocks("SoftmaxFlashV2", role, tensor, size.rows, ("float32",))
    for piece in pieces_of_rows("SoftmaxFlashV2", tmp, dst, src, size, 1, used=tuple(states.values())):
        (blocks,) = piece.blocks
        count = piece.size.rows * WIDTH
        largest, scale, total, old_total, old = (
            tensor[piece.start * WIDTH :] for tensor in (max_, exp_max, sum_, in_sum, in_max)
        )
        reduced("max", piece.one, piece.x, piece.lanes, piece.size)
        piece.fill(blocks)
        if is_update:
            Max(blocks, blocks, old, count)
            Sub(scale, old, blocks, count)
            Exp(scale, scale, count)
        Adds(largest, blocks, 0, count)
        exponentials(piece, largest)
        sums_of(piece, blocks)
        if is_update:
            Mul(total, scale, old_total, count)
            Add(total, total, blocks, count)
        else:
            Adds(total, blocks, 0, count)
