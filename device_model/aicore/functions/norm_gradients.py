"""The gradient of LayerNorm: LayerNormGrad for x, LayerNormGradBeta for gamma and beta.

The tiling that Ascend C passes has no place here: the temporary buffer decides how many rows are computed at once.
"""

from typing import Any

import numpy as np

from device_model.aicore.core.names import BLOCK, RoundMode
from device_model.aicore.core.tensors import LocalTensor, float32, uint8
from device_model.aicore.functions.matrices import WIDTH, Rowful, checked, each, pieces_of_rows, reduced, rowwise
from device_model.aicore.functions.norms import GROUP, check_row
from device_model.aicore.functions.operands import NormTiling, buffer_and, numbers_and
from device_model.aicore.functions.rows import Rows
from device_model.aicore.functions.scratch import temporary
from device_model.aicore.vector.elementwise import Add, Adds, Cast, Div, Mul, Muls, Sqrt, Sub
from device_model.aicore.vector.fill import Duplicate
from device_model.aicore.vector.gather import brcb_first


def LayerNormGrad(
    output_pd_x: LocalTensor,
    res_for_gamma: LocalTensor,
    input_dy: LocalTensor,
    input_x: LocalTensor,
    input_variance: LocalTensor,
    input_mean: LocalTensor,
    input_gamma: LocalTensor,
    *operands: Any,
) -> None:
    """Compute the gradient of LayerNorm with respect to x, row by row (Ascend C: LayerNormGrad).

    With d = x - mean, r = 1 / sqrt(variance + epsilon) and g = dy * gamma, pd_x = g * r + pd_var * 2 / h * d +
    pd_mean / h, where pd_var = -0.5 * sum(g * d) * r to the power of 3 and pd_mean = -sum(g) * r - pd_var * 2 / h *
    sum(d). res_for_gamma = d * r is for LayerNormGradBeta.

    Args:
        output_pd_x: The gradient, in UB: half or float. It may be input_dy or input_x.
        res_for_gamma: d * r, of the same type and size. It may be the other one of these.
        input_dy: The gradient of the result of LayerNorm, of the same type and size.
        input_x: What LayerNorm has read, of the same type and size.
        input_variance: The variance of each row, of the same type.
        input_mean: The mean of each row, of the same type.
        input_gamma: The factor of each column, of the same type.
        operands: `(tmp, epsilon, tiling)`. *tmp* is the temporary buffer, in UB; by default the bytes of UB that no
            buffer of the TPipe has. Beside the rows that are computed at once, it holds two blocks of 32 bytes for each
            row. *epsilon* was added to the variance. *tiling* is a NormTiling: the sizes.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or size is impossible, a tensor is too small, or the temporary buffer is.
    """
    tmp, [epsilon], tiling = numbers_and("LayerNormGrad", operands, ("epsilon",), NormTiling)
    name = "LayerNormGrad"
    size = checked(name, *tiling.sizes, output_pd_x, res_for_gamma, input_dy, input_x)
    columns = {"input_variance": input_variance, "input_mean": input_mean}
    for role, row, length in (
        *((*each_, size.rows) for each_ in columns.items()),
        ("input_gamma", input_gamma, size.k),
    ):
        check_row(name, role, row, output_pd_x, length)
    used = (output_pd_x, res_for_gamma, input_dy, input_x, *columns.values(), input_gamma)
    buffer = Rows(name, temporary(name, tmp, *used))
    means, roots = (_blocks(buffer, column, size.rows) for column in (input_mean, input_variance))
    count = -(-size.rows // GROUP) * GROUP * WIDTH
    # One over the root, in all numbers of the blocks at once.
    Adds(roots, roots, epsilon, count)
    Sqrt(roots, roots, count)
    ones = buffer.take(float32, count)
    Duplicate(ones, 1, count)
    Div(roots, ones, roots, count)
    rest = buffer.take(uint8, buffer.room // BLOCK * BLOCK)
    narrow = output_pd_x.dtype == np.float16
    pieces = pieces_of_rows(
        name, rest, output_pd_x, input_x, size, 3, fixed=4 * size.k * narrow, matrices=3 + narrow, used=used[1:]
    )
    for piece in pieces:
        at = piece.start * WIDTH
        _gradient(piece, input_dy, input_gamma, res_for_gamma, means[at:], roots[at:])


def _blocks(buffer: Rows, column: LocalTensor, rows: int) -> LocalTensor:
    """Issue: a block for each row, which holds its number of *column* eight times in float."""
    wide = column
    if column.dtype == np.float16:
        wide = buffer.take(float32, rows)
        Cast(wide, column, RoundMode.CAST_NONE, rows)
    blocks = buffer.take(float32, -(-rows // GROUP) * GROUP * WIDTH)
    brcb_first(blocks, wide, rows)
    return blocks


def _gradient(
    piece: Rowful, dy: LocalTensor, gamma: LocalTensor, out: LocalTensor, mean: LocalTensor, root: LocalTensor
) -> None:
    size, n = piece.size, piece.size.n
    count, first = size.rows * size.k, piece.start * size.k
    blocks = size.rows * WIDTH
    variance, middle, shift = piece.blocks
    d, g, work = (piece.rest.take(float32, count) for _ in range(3))
    rowwise(Sub, d, piece.x, mean, size, 1)
    rowwise(Mul, g, piece.wide(dy[first:], count), piece.wide(gamma, size.k), size, 0)
    rowwise(Mul, work, g, d, size, -1)
    _sums(piece, variance, work)
    Muls(variance, variance, -0.5, blocks)
    for _ in range(3):
        Mul(variance, variance, root, blocks)
    _sums(piece, middle, g)
    Mul(middle, middle, root, blocks)
    _sums(piece, shift, d)
    Mul(shift, shift, variance, blocks)
    Muls(shift, shift, 2 / n, blocks)
    Add(middle, middle, shift, blocks)
    Muls(middle, middle, -1 / n, blocks)
    rowwise(Mul, work, d, root, size, 1)
    if out.dtype == np.float16:
        Cast(out[first:], work, RoundMode.CAST_NONE, count)
    else:
        Adds(out[first:], work, 0, count)
    rowwise(Mul, g, g, root, size, 1)
    rowwise(Mul, d, d, variance, size, 1)
    each(Muls, d, d, size, 2 / n)
    rowwise(Add, piece.y, g, d, size, -1)
    rowwise(Add, piece.y, piece.y, middle, size, 1)


def _sums(piece: Rowful, blocks: LocalTensor, of: LocalTensor) -> None:
    """Issue: *blocks* = the sums of the rows of a matrix."""
    reduced("sum", piece.one, of, piece.lanes, piece.size)
    piece.fill(blocks)


def LayerNormGradBeta(
    output_pd_gamma: LocalTensor,
    output_pd_beta: LocalTensor,
    res_for_gamma: LocalTensor,
    input_dy: LocalTensor,
    *operands: Any,
) -> None:
    """Compute the gradient of LayerNorm with respect to gamma and beta (Ascend C: LayerNormGradBeta).

    pd_gamma = the sum of dy * res_for_gamma over the rows, and pd_beta = that of dy.

    Args:
        output_pd_gamma: A number for each column, in UB: half or float.
        output_pd_beta: A number for each column, of the same type.
        res_for_gamma: What LayerNormGrad has written, of the same type.
        input_dy: The gradient of the result of LayerNorm, of the same type.
        operands: `(tmp, tiling)`. *tmp* is the temporary buffer, in UB, for three rows of float, and two more for half;
            by default the bytes of UB that no buffer of the TPipe has. *tiling* is a NormTiling: the sizes.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or size is impossible, a tensor is too small, or the temporary buffer is.
    """
    tmp, tiling = buffer_and("LayerNormGradBeta", operands, NormTiling)
    name = "LayerNormGradBeta"
    size = checked(name, *tiling.sizes, res_for_gamma, input_dy)
    for role, row in (("output_pd_gamma", output_pd_gamma), ("output_pd_beta", output_pd_beta)):
        check_row(name, role, row, input_dy, size.k)
    buffer = Rows(name, temporary(name, tmp, output_pd_gamma, output_pd_beta, res_for_gamma, input_dy))
    gammas, betas, work = (buffer.take(float32, size.k) for _ in range(3))
    narrow = input_dy.dtype == np.float16
    wide = [buffer.take(float32, size.k) for _ in range(2 * narrow)]
    for total in (gammas, betas):
        Duplicate(total, 0, size.k)
    for first in range(0, size.rows * size.k, size.k):
        dy, res = (tensor[first:] for tensor in (input_dy, res_for_gamma))
        if narrow:
            for to, from_ in zip(wide, (dy, res), strict=True):
                Cast(to, from_, RoundMode.CAST_NONE, size.k)
            dy, res = wide
        Mul(work, dy, res, size.k)
        Add(gammas, gammas, work, size.k)
        Add(betas, betas, dy, size.k)
    for out, total in ((output_pd_gamma, gammas), (output_pd_beta, betas)):
        if narrow:
            Cast(out, total, RoundMode.CAST_NONE, size.k)
        else:
            Adds(out, total, 0, size.k)
