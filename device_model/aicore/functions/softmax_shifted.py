"""SoftMax in parts whose rows are shifted by means, so that halves do not overflow (PASA): SoftmaxFlashV3.

A row is cut into 8 pieces. Each is shifted by alpha / (1 - alpha) times the distance of its mean from that of the row.
The shift of a piece is known from its mean, so later parts can undo it.
"""

from math import isfinite
from operator import index as integer
from typing import Any, NamedTuple

from device_model.aicore.core.names import RoundMode
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.functions.matrices import (
    LANES,
    WIDTH,
    Rowful,
    check_blocks,
    checked,
    each,
    pieces_of_rows,
    reduced,
    rowwise,
)
from device_model.aicore.functions.operands import tail
from device_model.aicore.vector.elementwise import Add, Adds, Cast, Exp, Max, Mul, Muls, Sub
from device_model.aicore.vector.fill import Copy, CopyRepeatParams
from device_model.aicore.vector.gather import brcb_first
from device_model.aicore.vector.masks import MAX_REPEATS, BinaryRepeatParams
from device_model.aicore.vector.reduce_repeats import BlockReduceSum, WholeReduceSum
from device_model.aicore.vector.unit import check_type
from device_model.kernel.findings import KernelError

PIECES = 8  # of a row
_LEAST = PIECES * LANES  # elements of a row


class SoftMaxParams(NamedTuple):
    """The size of a matrix and the numbers of SoftmaxFlashV3 (Ascend C: SoftMaxParams).

    Attributes:
        src_m: The number of rows, a multiple of 8.
        src_k: The elements of a row, a multiple of 64 and 512 or more.
        ori_src_m: The rows that are used: all of them.
        ori_src_k: The elements of a row that are used: all of them.
        loop_cnt: The number of this part, from 1 on.
        split_mean_cnt: The pieces of a row: 8.
        alpha: How far pieces are shifted, 0 to less than 1.
    """

    src_m: int
    src_k: int
    ori_src_m: int | None = None
    ori_src_k: int | None = None
    loop_cnt: int = 1
    split_mean_cnt: int = PIECES
    alpha: float = 0.9375


def SoftmaxFlashV3(
    dst: LocalTensor,
    mean: LocalTensor,
    exp_sum: LocalTensor,
    max_: LocalTensor,
    src: LocalTensor,
    exp_max: LocalTensor,
    in_mean: LocalTensor,
    in_exp_sum: LocalTensor,
    in_max: LocalTensor,
    *operands: Any,
    is_update: bool = False,
) -> None:
    """Compute SoftMax of rows that come in parts, shifted by means, without the division (Ascend C: SoftmaxFlashV3).

    With s = alpha / (1 - alpha) and m the mean of the row, x = src - s * (m - the mean of the piece). Without
    *is_update* mean = m, max = the largest x, dst = e to the power of (x - max), and exp_sum = the sum of dst's row.
    With it, mean is that of this part and those before, max is the larger of s * (m - mean) + the largest x and
    s * (in_mean - mean) + in_max, dst = e to the power of (x + s * (m - mean) - max), exp_max = e to the power of
    (s * (in_mean - mean) + in_max - max), and exp_sum = exp_max * in_exp_sum + the sum of dst's row.

    As on a card, the mean of piece i is taken from lanes 8 * i to 8 * i + 7 of the row's vectors of 64 behind its first
    512 elements. In a row of 512 it is that of the piece itself.

    Args:
        dst: The matrix to write, in UB: half. It may be src.
        mean: The means, in float: a block of 32 bytes for each row. It may be in_mean.
        exp_sum: The sums, in float, too. It may be in_exp_sum.
        max_: The largest elements, in float, too. It may be in_max.
        src: The matrix to read: half.
        exp_max: What earlier results are to be multiplied by: half, a block for each row; written with *is_update*.
        in_mean: The mean of the parts before this one; read with *is_update*.
        in_exp_sum: The sums of the parts before this one; read with *is_update*.
        in_max: The largest elements of the parts before this one; read with *is_update*.
        operands: `(tmp, tiling, params)`. *tmp* is the temporary buffer, in UB; by default the bytes of UB that no
            buffer of the TPipe has. *tiling* has no effect: it may be None, or be left out. *params* are SoftMaxParams:
            the size of the matrix, the number of this part, and alpha.
        is_update: Whether there are parts before this one.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type, size or number is impossible, a tensor is too small, or the temporary buffer is.
    """
    name = "SoftmaxFlashV3"
    tmp, params = tail(name, operands, SoftMaxParams)
    if params is None:
        raise TypeError(f"{name} takes SoftMaxParams as its last argument by position, not {operands}")
    rows, k = _sizes(name, params)
    check_type(name, "dst", dst, ("float16",))
    size = checked(name, rows, k, k, dst, src)
    check_blocks(name, "exp_max", exp_max, rows, ("float16",))
    states = {"mean": mean, "exp_sum": exp_sum, "max": max_}
    states |= {"in_mean": in_mean, "in_exp_sum": in_exp_sum, "in_max": in_max} if is_update else {}
    for role, tensor in states.items():
        check_blocks(name, role, tensor, rows, ("float32",))
    scale = params.alpha / (1 - params.alpha)
    for piece in pieces_of_rows(name, tmp, dst, src, size, 5, used=(*states.values(), exp_max)):
        own, largest, shift, old, total = piece.blocks
        count, start = piece.size.rows * WIDTH, piece.start * WIDTH
        _shift(piece, own, shift, scale)
        reduced("max", piece.one, piece.x, piece.lanes, piece.size)
        piece.fill(largest)
        if is_update:
            before, loop = in_mean[start:], integer(params.loop_cnt)
            Muls(old, before, loop - 1, count)
            Add(old, old, own, count)
            Muls(old, old, 1 / loop, count)  # the mean of all parts
            Sub(shift, own, old, count)
            Muls(shift, shift, scale, count)
            Add(largest, largest, shift, count)
            Sub(own, before, old, count)
            Muls(own, own, scale, count)
            Add(own, own, in_max[start:], count)
            Max(largest, largest, own, count)
            Sub(own, own, largest, count)
            Exp(own, own, count)  # what earlier results are multiplied by
            Adds(mean[start:], old, 0, count)
            Adds(max_[start:], largest, 0, count)
            Sub(largest, largest, shift, count)
        else:
            Adds(mean[start:], own, 0, count)
            Adds(max_[start:], largest, 0, count)
        rowwise(Sub, piece.y, piece.x, largest, piece.size, 1)
        each(Exp, piece.y, piece.y, piece.size)
        reduced("sum", piece.one, piece.y, piece.lanes, piece.size)
        piece.fill(total)
        if is_update:
            Mul(old, own, in_exp_sum[start:], count)
            Add(total, total, old, count)
            _store_halves(exp_max[2 * start :], own, piece)
        Adds(exp_sum[start:], total, 0, count)


def _sizes(name: str, params: SoftMaxParams) -> tuple[int, int]:
    """Check *params*, and return the rows and the elements of each."""
    rows, k = integer(params.src_m), integer(params.src_k)
    if rows < 1 or rows % 8 or k < _LEAST or k % LANES:
        raise KernelError(
            f"{name} of {rows} rows of {k} elements",
            f"src_m is a multiple of 8, and src_k a multiple of {LANES}, {_LEAST} or more",
        )
    if params.ori_src_m not in (None, rows) or params.ori_src_k not in (None, k):
        raise KernelError(f"{name} with {params}", "all of a matrix is used: ori_src_m is src_m, ori_src_k is src_k")
    if params.split_mean_cnt != PIECES or integer(params.loop_cnt) < 1:
        raise KernelError(f"{name} with {params}", f"split_mean_cnt is {PIECES}, and loop_cnt 1 or more")
    if not (isfinite(params.alpha) and 0 <= params.alpha < 1):
        raise KernelError(f"{name} with alpha {params.alpha}", "it is 0 to less than 1")
    return rows, k


def _shift(piece: Rowful, own: LocalTensor, local: LocalTensor, scale: float) -> None:
    """Issue: the blocks of *own* = the means of rows, and each piece of x less *scale* times its distance from them."""
    rows, k = piece.size.rows, piece.size.k
    lanes = piece.lanes
    assert lanes is not None
    for row in range(rows):
        BlockReduceSum(lanes[row * LANES :], piece.x[row * k :], PIECES, LANES, 1, 1, 8)
    for row, column, mask, repeats in piece.size.chunks():
        if column >= _LEAST:
            to = lanes[row * LANES :]
            params = BinaryRepeatParams(1, 1, 1, 8, 8, piece.size.apart if repeats > 1 else 8)
            Add(to, to, piece.x[row * k + column :], mask, repeats, params)
    BlockReduceSum(local, lanes, rows, LANES, 1, 1, 8)
    Muls(local, local, PIECES / k, rows * WIDTH)
    WholeReduceSum(piece.one, local, PIECES, rows, 1, 1, 1)
    Muls(piece.one, piece.one, 1 / PIECES, rows)
    piece.fill(own)
    Sub(local, own, local, rows * WIDTH)
    Muls(local, local, scale, rows * WIDTH)
    brcb_first(lanes, local, rows * PIECES)  # a block for each piece
    long = k // PIECES
    apart = piece.size.apart
    at_once = rows if apart <= MAX_REPEATS else 1
    for number in range(PIECES):
        for column in range(number * long, (number + 1) * long, LANES):
            mask = min(LANES, (number + 1) * long - column)
            for row in range(0, rows, at_once):
                at = row * k + column
                next_row = apart if at_once > 1 else 8
                params = BinaryRepeatParams(1, 1, 0, next_row, next_row, 8)
                Sub(piece.x[at:], piece.x[at:], lanes[row * LANES + number * WIDTH :], mask, at_once, params)


def _store_halves(out: LocalTensor, blocks: LocalTensor, piece: Rowful) -> None:
    """Issue: blocks of halves in *out* = the numbers of *blocks*."""
    rows = piece.size.rows
    assert piece.lanes is not None
    for side in (0, WIDTH):
        Copy(piece.lanes[side:], blocks, WIDTH, rows, CopyRepeatParams(1, 1, 2, 1))
    Cast(out, piece.lanes, RoundMode.CAST_NONE, rows * 2 * WIDTH)
