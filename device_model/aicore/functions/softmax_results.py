"""What goes with SoftMax: its gradient and the front of it, its logarithm, SoftmaxFlash, and rows of one number."""

from math import log
from operator import index as integer
from typing import Any

import numpy as np

from device_model.aicore.core.names import BLOCK, HardEvent
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.flags.sync import pass_flag
from device_model.aicore.functions.matrices import (
    WIDTH,
    check_blocks,
    each,
    pieces_of_rows,
    reduced,
    rowwise,
    store_blocks,
)
from device_model.aicore.functions.operands import take_flag
from device_model.aicore.functions.softmax import SoftMaxShapeInfo, behind, exponentials, size_of, sums_of
from device_model.aicore.vector.elementwise import FLOATS, Add, Adds, Div, Exp, Ln, Max, Mul, Muls, Sub
from device_model.aicore.vector.fill import Duplicate
from device_model.aicore.vector.unit import check_type
from device_model.kernel.findings import KernelError


def SoftmaxGradFront(
    dst: LocalTensor,
    grad: LocalTensor,
    src: LocalTensor,
    *operands: Any,
) -> None:
    """Dst = the sum of grad * src of each row, the front of SoftMax's gradient (Ascend C: SoftmaxGradFront).

    Args:
        dst: A block of 32 bytes for each row, in UB, which gets one number several times: half or float.
        grad: The gradient of the result of SoftMax, of the same type.
        src: The result of SoftMax, of the same type.
        operands: `(tmp, tiling, shape)`, as for SoftMax.

    Raises:
        TypeError: There are more operands.
        KernelError: As for SoftMax.
    """
    name = "SoftmaxGradFront"
    tmp, shape = behind(name, operands, src)
    size = size_of(name, shape, grad, src)
    check_blocks(name, "dst", dst, size.rows, (grad.dtype.name,))
    narrow = grad.dtype == np.float16
    room = size.rows * (4 * size.k + 2 * WIDTH * 4) if narrow else 0
    # Rows of half are converted in the buffer, and grad stays as it is.
    for piece in pieces_of_rows(
        name, tmp, grad, grad, size, 1, fixed=min(room, 20_000), matrices=1 + narrow, used=(dst, src), stores=False
    ):
        (blocks,) = piece.blocks
        count = piece.size.rows * size.k
        other = piece.wide(src[piece.start * size.k :], count)
        products = piece.rest.take(blocks.dtype, count)
        rowwise(Mul, products, piece.x, other, piece.size, -1)
        reduced("sum", piece.one, products, piece.lanes, piece.size)
        piece.fill(blocks)
        store_blocks(dst, piece, blocks)


def SoftmaxGrad(
    dst: LocalTensor,
    grad: LocalTensor,
    src: LocalTensor,
    *operands: Any,
) -> None:
    """Dst = (grad - the sum of grad * src of the row) * src, the gradient of SoftMax (Ascend C: SoftmaxGrad).

    Args:
        dst: The matrix to write, in UB: float. It is neither grad nor src.
        grad: The gradient of the result, of the same type.
        src: The result of SoftMax, of the same type.
        operands: `(tmp, tiling, is_front, shape)`. With *is_front*, which is False by default, this is
            SoftmaxGradFront; the others are those of SoftMax.

    Raises:
        TypeError: There are more operands.
        KernelError: As for SoftMax.
    """
    is_front, rest = take_flag(operands)
    if is_front:
        SoftmaxGradFront(dst, grad, src, *rest)
        return
    tmp, shape = behind("SoftmaxGrad", rest, src)
    size = size_of("SoftmaxGrad", shape, dst, grad, src)
    if dst.dtype.itemsize != 4:
        raise KernelError(f"SoftmaxGrad of {dst.dtype}", "it takes float32: convert with Cast")
    for piece in pieces_of_rows("SoftmaxGrad", tmp, dst, grad, size, 1, used=(src,)):
        (blocks,) = piece.blocks
        result = src[piece.start * size.k :]
        rowwise(Mul, piece.y, piece.x, result, piece.size, -1)
        sums_of(piece, blocks)
        rowwise(Sub, piece.y, piece.x, blocks, piece.size, 1)
        rowwise(Mul, piece.y, piece.y, result, piece.size, -1)


def LogSoftMax(
    dst: LocalTensor,
    sum_: LocalTensor,
    max_: LocalTensor,
    src: LocalTensor,
    *operands: Any,
) -> None:
    """Dst = the common logarithm of SoftMax of src (Ascend C: LogSoftMax).

    Args:
        dst: The matrix to write, in UB: half or float.
        sum_: The sums: a block of 32 bytes for each row, of the same type.
        max_: The largest elements, in the same way.
        src: The matrix to read, of the same type.
        operands: `(tmp, tiling, shape)`, as for SoftMax.

    Raises:
        TypeError: There are more operands.
        KernelError: As for SoftMax.
    """
    tmp, shape = behind("LogSoftMax", operands, src)
    size = size_of("LogSoftMax", shape, dst, src)
    for role, tensor in (("sum", sum_), ("max", max_)):
        check_blocks("LogSoftMax", role, tensor, size.rows, (dst.dtype.name,))
    room = min(2 * size.rows * 4 * 2 * WIDTH, 20_000)  # for blocks of half
    for piece in pieces_of_rows("LogSoftMax", tmp, dst, src, size, 1, fixed=room, used=(sum_, max_)):
        (blocks,) = piece.blocks
        reduced("max", piece.one, piece.x, piece.lanes, piece.size)
        piece.fill(blocks)
        store_blocks(max_, piece, blocks)
        exponentials(piece, blocks)
        sums_of(piece, blocks)
        store_blocks(sum_, piece, blocks)
        rowwise(Div, piece.y, piece.y, blocks, piece.size, 1)
        each(Ln, piece.y, piece.y, piece.size)
        each(Muls, piece.y, piece.y, piece.size, 1 / log(10))


def SoftmaxFlash(
    dst: LocalTensor,
    sum_: LocalTensor,
    max_: LocalTensor,
    src: LocalTensor,
    exp_max: LocalTensor,
    in_sum: LocalTensor,
    in_max: LocalTensor,
    *operands: Any,
) -> None:
    """Compute SoftMax of rows that come in parts, with the division (Ascend C: SoftmaxFlash, the older one).

    With *is_update*, max is the larger of in_max and the row's largest element, sum = e to the power of
    (in_max - max) * in_sum + the sum of the row, and exp_max is the share of the former sum in it.

    Args:
        dst: The matrix to write, in UB: float.
        sum_: The sums: a block of 32 bytes for each row.
        max_: The largest elements, in the same way.
        src: The matrix to read: float.
        exp_max: What earlier results are to be multiplied by; written with *is_update*.
        in_sum: The sums of the parts before this one; read with *is_update*.
        in_max: The largest elements of the parts before this one; read with *is_update*.
        operands: `(tmp, tiling, is_update, shape)`. *is_update* says whether there are parts before this one, and is
            False by default; the others are those of SoftMax.

    Raises:
        TypeError: There are more operands.
        KernelError: As for SoftMax, or the type is half: SoftmaxFlashV2 takes it.
    """
    name = "SoftmaxFlash"
    is_update, rest = take_flag(operands)
    tmp, shape = behind(name, rest, src)
    size = size_of(name, shape, dst, src)
    if dst.dtype.itemsize != 4:
        raise KernelError(f"{name} of {dst.dtype}", "it takes float32 here: use SoftmaxFlashV2")
    states = {"sum": sum_, "max": max_, "exp_max": exp_max, "in_sum": in_sum, "in_max": in_max}
    for role, tensor in states.items():
        check_blocks(name, role, tensor, size.rows, ("float32",))
    for piece in pieces_of_rows(name, tmp, dst, src, size, 1, used=tuple(states.values())):
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
            Mul(scale, scale, old_total, count)
        Adds(largest, blocks, 0, count)
        exponentials(piece, largest)
        sums_of(piece, blocks)
        if is_update:
            Add(blocks, blocks, scale, count)
            Div(scale, scale, blocks, count)
        Adds(total, blocks, 0, count)
        rowwise(Div, piece.y, piece.y, blocks, piece.size, 1)


def AdjustSoftMaxRes(
    soft_max_res: LocalTensor,
    max_tensor: LocalTensor,
    from_: int,
    to: float,
    shape: SoftMaxShapeInfo,
    *,
    step_size_mode: int = 0,
) -> bool:
    """Set the rows to one number whose largest element has certain bits (Ascend C: AdjustSoftMaxRes).

    The scalar pipe reads the largest elements, and a Duplicate fills each such row.

    Args:
        soft_max_res: The matrix, in UB: half or float.
        max_tensor: The largest element of each row: half or float.
        from_: The bits to look for, such as 0xff7fffff for the smallest float.
        to: The number that the rows get.
        shape: The size of the matrix.
        step_size_mode: From the number of one row to that of the next, in elements; 0 for a block of 32 bytes.

    Returns:
        Whether there was such a row.

    Raises:
        KernelError: A type or size is impossible, or a tensor is too small.
    """
    name = "AdjustSoftMaxRes"
    size = size_of(name, shape, soft_max_res)
    check_type(name, "max_tensor", max_tensor, FLOATS)
    itemsize = max_tensor.dtype.itemsize
    step = integer(step_size_mode) or BLOCK // itemsize
    if step < 1 or max_tensor.size < (size.rows - 1) * step + 1:
        raise KernelError(
            f"{name} of {shape} with step_size_mode {step_size_mode}", f"max_tensor has {max_tensor.size} elements"
        )
    words = max_tensor.ReinterpretCast(np.uint16 if itemsize == 2 else np.uint32)
    pass_flag(HardEvent.V_S)
    rows = [row for row in range(size.rows) if int(words.GetValue(row * step)) == integer(from_)]
    for row in rows:
        Duplicate(soft_max_res[row * size.k :], to, size.k)
    return bool(rows)
