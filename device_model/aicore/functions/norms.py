"""RmsNorm, LayerNorm, Normalize, DeepNorm and GroupNorm over the rows of a matrix.

Of the tiling only the sizes have an effect: the temporary buffer decides how many rows are computed at once.
"""

from operator import index as integer
from typing import Any, NamedTuple

import numpy as np

from device_model.aicore.core.names import BLOCK, RoundMode
from device_model.aicore.core.tensors import LocalTensor, float32, uint8
from device_model.aicore.functions.matrices import MOST_ROWS, Rowful, checked, each, pieces_of_rows, reduced, rowwise
from device_model.aicore.functions.operands import NormTiling, numbers_and
from device_model.aicore.functions.rows import Broadcast, Rows
from device_model.aicore.functions.scratch import temporary
from device_model.aicore.vector.elementwise import Add, Adds, Cast, Div, Mul, Muls, Rsqrt, Sqrt, Sub
from device_model.aicore.vector.fill import ArithProgression
from device_model.aicore.vector.gather import Gather, brcb_first
from device_model.aicore.vector.reduce_repeats import WholeReduceSum
from device_model.aicore.vector.unit import check_type
from device_model.kernel.findings import KernelError

GROUP = 8  # numbers that a repeat of Brcb takes


def check_row(name: str, role: str, row: LocalTensor, dst: LocalTensor, h: int) -> None:
    """Raise KernelError unless *row* has *h* elements of the type of *dst*."""
    check_type(name, role, row, (dst.dtype.name,))
    if row.size < h:
        raise KernelError(f"{name}: {role} has {row.size} elements", f"a row has {h}")


def RmsNorm(
    dst: LocalTensor,
    src: LocalTensor,
    gamma: LocalTensor,
    *operands: Any,
) -> None:
    """Dst = src / sqrt(mean of the row's squares + epsilon) * gamma (Ascend C: RmsNorm).

    Args:
        dst: The matrix to write, in UB: half or float. It may be src.
        src: The matrix to read, of the same type.
        gamma: A factor for each column, of the same type.
        operands: `(tmp, epsilon, tiling)`. *tmp* is the temporary buffer, in UB; by default the bytes of UB that no
            buffer of the TPipe has. *epsilon* is added to the mean. *tiling* is a NormTiling: the sizes.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or size is impossible, a tensor is too small, or the temporary buffer is.
    """
    tmp, [epsilon], tiling = numbers_and("RmsNorm", operands, ("epsilon",), NormTiling)
    size = checked("RmsNorm", *tiling.sizes, dst, src)
    check_row("RmsNorm", "gamma", gamma, dst, size.k)
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
        rowwise(Mul, piece.y, piece.y, piece.wide(gamma, size.k), piece.size, 0)


def LayerNorm(
    output: LocalTensor,
    output_mean: LocalTensor,
    output_variance: LocalTensor,
    input_x: LocalTensor,
    gamma: LocalTensor,
    beta: LocalTensor,
    *operands: Any,
) -> None:
    """Output = (x - mean) / sqrt(variance + epsilon) * gamma + beta, row by row (Ascend C: LayerNorm).

    Args:
        output: The matrix to write, in UB: half or float.
        output_mean: The mean of each row, of the same type.
        output_variance: The variance of each row, of the same type.
        input_x: The matrix to read, of the same type.
        gamma: A factor for each column, of the same type.
        beta: A summand for each column, of the same type.
        operands: `(tmp, epsilon, tiling)`. *tmp* is the temporary buffer, in UB; by default the bytes of UB that no
            buffer of the TPipe has. *epsilon* is added to the variance. *tiling* is a NormTiling: the sizes.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or size is impossible, a tensor is too small, or the temporary buffer is.
    """
    tmp, [epsilon], tiling = numbers_and("LayerNorm", operands, ("epsilon",), NormTiling)
    size = checked("LayerNorm", *tiling.sizes, output, input_x)
    for role, row in (("gamma", gamma), ("beta", beta)):
        check_row("LayerNorm", role, row, output, size.k)
    for role, column in (("output_mean", output_mean), ("output_variance", output_variance)):
        check_row("LayerNorm", role, column, output, size.rows)
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
        rowwise(Mul, piece.y, piece.y, piece.wide(gamma, size.k), piece.size, 0)
        rowwise(Add, piece.y, piece.y, piece.wide(beta, size.k), piece.size, 0)


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


class NormalizePara(NamedTuple):
    """The size of a matrix for Normalize (Ascend C: NormalizePara).

    Attributes:
        a_length: The number of rows.
        r_length: The elements of a row that are used.
        r_length_with_padding: From one row to the next, in elements; whole blocks of 32 bytes.
    """

    a_length: int
    r_length: int
    r_length_with_padding: int


def Normalize(
    output: LocalTensor,
    output_rstd: LocalTensor,
    input_mean: LocalTensor,
    input_variance: LocalTensor,
    input_x: LocalTensor,
    gamma: LocalTensor | None,
    beta: LocalTensor | None,
    *operands: Any,
) -> None:
    """Output = (x - mean) * rstd * gamma + beta, where the mean and variance of rows are known (Ascend C: Normalize).

    Args:
        output: The matrix to write, in UB: half or float. It is not input_x.
        output_rstd: 1 / sqrt(variance + epsilon) of each row: float.
        input_mean: The mean of each row: float.
        input_variance: The variance of each row: float.
        input_x: The matrix to read, of the type of output.
        gamma: A factor for each column, of the type of output or float; None for none (isNoGamma).
        beta: A summand for each column, of the type of gamma; None for none (isNoBeta).
        operands: `(epsilon, para)` or `(tmp, epsilon, para)`. *epsilon* is added to the variance, and *para* is a
            NormalizePara, the size of the matrix. *tmp* is the temporary buffer, in UB; by default the bytes of UB that
            no buffer of the TPipe has.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or size is impossible, a tensor is too small, or the temporary buffer is.
    """
    name = "Normalize"
    tmp, [epsilon], para = numbers_and(name, operands, ("epsilon",), NormalizePara)
    rows, k, n = integer(para.a_length), integer(para.r_length_with_padding), integer(para.r_length)
    size = checked(name, rows, k, n, output, input_x)
    columns = [(role, row) for role, row in (("gamma", gamma), ("beta", beta)) if row is not None]
    for role, row in columns:
        check_type(name, role, row, tuple({output.dtype.name: None, "float32": None}))
    states = {"output_rstd": output_rstd, "input_mean": input_mean, "input_variance": input_variance}
    for role, column in states.items():
        check_type(name, role, column, ("float32",))
    for role, tensor, needed in (
        *((role, row, size.n) for role, row in columns),
        *((role, column, size.rows) for role, column in states.items()),
    ):
        if tensor.size < needed:
            raise KernelError(f"{name} with {para}", f"{role} has {tensor.size} elements, and needs {needed}")
    if len({row.dtype for _, row in columns}) > 1:
        raise KernelError(f"{name} with gamma {gamma!r} and beta {beta!r}", "both are of one type")
    Adds(output_rstd, input_variance, epsilon, size.rows)
    Rsqrt(output_rstd, output_rstd, size.rows)
    used = (*states.values(), *(row for _, row in columns))
    # A Brcb reads from whole blocks on: of 8 rows.
    for piece in pieces_of_rows(name, tmp, output, input_x, size, 2, fixed=8 * size.k, used=used, grain=GROUP):
        for blocks, column, op, source in zip(
            piece.blocks, (input_mean, output_rstd), (Sub, Mul), (piece.x, piece.y), strict=True
        ):
            brcb_first(blocks, column[piece.start :], piece.size.rows)
            rowwise(op, piece.y, source, blocks, piece.size, 1)
        for (_, row), op in zip(columns, (Mul, Add) if gamma is not None else (Add,), strict=False):
            rowwise(op, piece.y, piece.y, piece.wide(row, size.n), piece.size, 0)


def DeepNorm(
    dst: LocalTensor,
    mean: LocalTensor,
    rstd: LocalTensor,
    src: LocalTensor,
    gx: LocalTensor,
    beta: LocalTensor,
    gamma: LocalTensor,
    *operands: Any,
) -> None:
    """Dst = LayerNorm of alpha * src + gx (Ascend C: DeepNorm). The sum is rounded to the type of dst.

    Args:
        dst: The matrix to write, in UB: half or float. It is none of the sources.
        mean: The mean of each row of the sum, of the same type.
        rstd: 1 / sqrt(variance + epsilon) of each row, of the same type.
        src: The matrix that is multiplied, of the same type.
        gx: The matrix that is added, of the same type.
        beta: A summand for each column, of the same type.
        gamma: A factor for each column, of the same type.
        operands: `(tmp, alpha, epsilon, tiling)`. *tmp* is the temporary buffer, in UB; by default the bytes of UB that
            no buffer of the TPipe has. *alpha* is the factor of src. *epsilon* is added to the variance. *tiling* is a
            NormTiling: the sizes.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or size is impossible, a tensor is too small, or the temporary buffer is.
    """
    tmp, [alpha, epsilon], tiling = numbers_and("DeepNorm", operands, ("alpha", "epsilon"), NormTiling)
    size = checked("DeepNorm", *tiling.sizes, dst, src, gx)
    count = size.rows * size.k
    Muls(dst, src, alpha, count)
    Add(dst, dst, gx, count)
    LayerNorm(dst, mean, rstd, dst, gamma, beta, tmp, epsilon, tiling)
    Adds(rstd, rstd, epsilon, size.rows)
    Rsqrt(rstd, rstd, size.rows)


class GroupNormShape(NamedTuple):
    """The sizes of GroupNorm, which Ascend C has in its tiling.

    Attributes:
        n: The number of features.
        c: The channels of a feature.
        hw: The pixels of a channel.
        group_num: The groups into which the channels are divided.
    """

    n: int
    c: int
    hw: int
    group_num: int


def GroupNorm(
    output: LocalTensor,
    output_mean: LocalTensor,
    output_variance: LocalTensor,
    input_x: LocalTensor,
    gamma: LocalTensor,
    beta: LocalTensor,
    *operands: Any,
) -> None:
    """Output = LayerNorm of each group of channels, with a factor and a summand for each channel (Ascend C: GroupNorm).

    Made of Broadcast and of what LayerNorm is made of.

    Args:
        output: The tensor to write, in UB: half or float.
        output_mean: The mean of each group, feature by feature, of the same type.
        output_variance: The variance of each group, in the same way.
        input_x: The tensor to read, of the same type.
        gamma: A factor for each channel, of the same type.
        beta: A summand for each channel, of the same type.
        operands: `(tmp, epsilon, shape)`. *tmp* is the temporary buffer, in UB; by default the bytes of UB that no
            buffer of the TPipe has. *epsilon* is added to the variance. *shape* is a GroupNormShape: the sizes; a group
            is whole blocks of 32 bytes.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or size is impossible, a tensor is too small, or the temporary buffer is.
    """
    tmp, [epsilon], shape = numbers_and("GroupNorm", operands, ("epsilon",), GroupNormShape)
    name = "GroupNorm"
    n, c, hw, groups = map(integer, shape)
    if min(n, c, hw, groups) < 1 or c % groups:
        raise KernelError(f"{name} of {shape}", "all are 1 or more, and group_num divides c")
    channels, h = c // groups, c // groups * hw
    checked(name, n * groups, h, h, output, input_x)
    for role, row in (("gamma", gamma), ("beta", beta)):
        check_row(name, role, row, output, c)
    for role, column in (("output_mean", output_mean), ("output_variance", output_variance)):
        check_row(name, role, column, output, n * groups)
    buffer = Rows(name, temporary(name, tmp, output, input_x, gamma, beta, output_mean, output_variance))
    factors, summands = (buffer.take(output.dtype, h) for _ in range(2))
    columns = [buffer.take(output.dtype, -(-channels // 16) * 16) for _ in range(2)]
    rest = buffer.take(uint8, buffer.room // BLOCK * BLOCK)
    for group in range(groups):
        for row, each_channel, column in ((factors, gamma, columns[0]), (summands, beta, columns[1])):
            first = each_channel[group * channels :]
            if first.address % BLOCK:  # a Gather may read anywhere
                offsets = rest.ReinterpretCast(np.int32)
                ArithProgression(offsets, 0, output.dtype.itemsize, channels)
                at = group * channels * output.dtype.itemsize
                Gather(column, each_channel, offsets.ReinterpretCast(np.uint32), at, channels)
                first = column
            Broadcast(row, first, (channels, hw), (channels, 1), rest)
        for feature in range(n):
            number = feature * groups + group
            part = slice(number * h, (number + 1) * h)
            LayerNorm(
                output[part], output_mean[number:], output_variance[number:], input_x[part], factors, summands, rest,
                epsilon, NormTiling(1, 1, h),
            )  # fmt: skip
