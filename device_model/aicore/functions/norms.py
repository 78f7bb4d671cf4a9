"""RmsNorm and LayerNorm over the rows of a matrix.

The tiling that Ascend C passes has no place here: the temporary buffer decides how many rows are computed at once.
"""

from operator import index as integer

import numpy as np

from device_model.aicore.core.names import BLOCK, RoundMode
from device_model.aicore.core.tensors import LocalTensor, float32
from device_model.aicore.functions.matrices import MOST_ROWS, Rowful, checked, each, pieces_of_rows, reduced, rowwise
from device_model.aicore.vector.elementwise import Add, Adds, Cast, Div, Mul, Muls, Sqrt, Sub
from device_model.aicore.vector.gather import brcb_first
from device_model.aicore.vector.reduce_repeats import WholeReduceSum
from device_model.aicore.vector.unit import check_type
from device_model.kernel.findings import KernelError

GROUP = 8  # numbers that a repeat of Brcb takes


def _row(name: str, role: str, row: LocalTensor, dst: LocalTensor, h: int) -> None:
    check_type(name, role, row, (dst.dtype.name,))
    if row.size < h:
        raise KernelError(f"{name}: {role} has {row.size} elements", f"a row has {h}")


def _wide(piece: Rowful, row: LocalTensor, h: int) -> LocalTensor:
    """Return *row* in float."""
    if row.dtype != np.float16:
        return row
    wide = piece.rest.take(float32, h)
    Cast(wide, row, RoundMode.CAST_NONE, h)
    return wide


def RmsNorm(
    dst: LocalTensor,
    src: LocalTensor,
    gamma: LocalTensor,
    tmp: LocalTensor | None = None,
    *,
    epsilon: float,
    rows: int,
    h: int,
) -> None:
    """Dst = src / sqrt(mean of the row's squares + epsilon) * gamma (Ascend C: RmsNorm).

    Args:
        dst: The matrix to write, in UB: half or float. It may be src.
        src: The matrix to read, of the same type.
        gamma: A factor for each column, of the same type.
        tmp: The temporary buffer, in UB; by default the bytes of UB that no buffer of the TPipe has.
        epsilon: What is added to the mean.
        rows: The number of rows, B * S in Ascend C.
        h: The elements of a row; whole blocks of 32 bytes.

    Raises:
        KernelError: A type or size is impossible, a tensor is too small, or the temporary buffer is.
    """
    size = checked("RmsNorm", integer(rows), integer(h), integer(h), dst, src)
    _row("RmsNorm", "gamma", gamma, dst, size.k)
    pieces = pieces_of_rows("RmsNorm", tmp, dst, src, size, 1, fixed=4 * size.k, matrices=1, used=(gamma,))
    for piece in pieces:
        (blocks,) = piece.blocks
        count = piece.size.rows
        squares = piece.rest.take(float32, count * size.k)
        rowwise(Mul, squares, piece.x, piece.x, piece.size, -1)
        each(Muls, squares, squares, piece.size, 1 / size.n)
        reduced("sum", piece.one, squares, piece.lanes, piece.size)
        Adds(piece.one, piece.one, epsilon, count)
        Sqrt(piece.one, piece.one, count)
        piece.fill(blocks)
        rowwise(Div, piece.y, piece.x, blocks, piece.size, 1)
        rowwise(Mul, piece.y, piece.y, _wide(piece, gamma, size.k), piece.size, 0)


def LayerNorm(
    output: LocalTensor,
    output_mean: LocalTensor,
    output_variance: LocalTensor,
    input_x: LocalTensor,
    gamma: LocalTensor,
    beta: LocalTensor,
    tmp: LocalTensor | None = None,
    *,
    epsilon: float,
    rows: int,
    h: int,
) -> None:
    """Output = (x - mean) / sqrt(variance + epsilon) * gamma + beta, row by row (Ascend C: LayerNorm).

    Args:
        output: The matrix to write, in UB: half or float.
        output_mean: The mean of each row, of the same type.
        output_variance: The variance of each row, of the same type.
        input_x: The matrix to read, of the same type.
        gamma: A factor for each column, of the same type.
        beta: A summand for each column, of the same type.
        tmp: The temporary buffer, in UB; by default the bytes of UB that no buffer of the TPipe has.
        epsilon: What is added to the variance.
        rows: The number of rows, B * S in Ascend C.
        h: The elements of a row; whole blocks of 32 bytes.

    Raises:
        KernelError: A type or size is impossible, a tensor is too small, or the temporary buffer is.
    """
    size = checked("LayerNorm", integer(rows), integer(h), integer(h), output, input_x)
    for role, row in (("gamma", gamma), ("beta", beta)):
        _row("LayerNorm", role, row, output, size.k)
    for role, column in (("output_mean", output_mean), ("output_variance", output_variance)):
        _row("LayerNorm", role, column, output, size.rows)
    used = (output_mean, output_variance, gamma, beta)
    columns = 4 * min(size.rows + GROUP, MOST_ROWS) * BLOCK if output.dtype == np.float16 else 0
    fixed = 8 * size.k + columns
    pieces = pieces_of_rows("LayerNorm", tmp, output, input_x, size, 1, fixed=fixed, matrices=1, used=used)
    for piece in pieces:
        (blocks,) = piece.blocks
        count = piece.size.rows
        work = piece.rest.take(float32, count * size.k)
        each(Muls, work, piece.x, piece.size, 1 / size.n)
        _column(piece, work, output_mean, blocks)
        rowwise(Sub, piece.y, piece.x, blocks, piece.size, 1)
        rowwise(Mul, work, piece.y, piece.y, piece.size, -1)
        each(Muls, work, work, piece.size, 1 / size.n)
        _column(piece, work, output_variance, blocks)
        Adds(piece.one, piece.one, epsilon, count)
        Sqrt(piece.one, piece.one, count)
        piece.fill(blocks)
        rowwise(Div, piece.y, piece.y, blocks, piece.size, 1)
        rowwise(Mul, piece.y, piece.y, _wide(piece, gamma, size.k), piece.size, 0)
        rowwise(Add, piece.y, piece.y, _wide(piece, beta, size.k), piece.size, 0)


def _column(piece: Rowful, work: LocalTensor, out: LocalTensor, blocks: LocalTensor) -> None:
    """Issue: `one`, *blocks* and this piece's part of *out* = the sums of the rows of *work*."""
    count = piece.size.rows
    reduced("sum", piece.one, work, piece.lanes, piece.size)
    piece.fill(blocks)
    if out.dtype == np.float16:
        narrow = piece.rest.take(out.dtype, count)
        Cast(narrow, piece.one, RoundMode.CAST_NONE, count)
        blocks = piece.rest.take(out.dtype, -(-count // GROUP) * GROUP * BLOCK // 2)
        brcb_first(blocks, narrow, count)
    # Only a reduction may write where no block begins: here of one number a row.
    WholeReduceSum(out[piece.start :], blocks, 1, count, 1, 1, 1)
