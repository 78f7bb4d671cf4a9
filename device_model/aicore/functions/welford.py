"""Welford's algorithm: mean and variance of a long row that comes in parts of the same length."""

from operator import index as integer
from typing import Any, NamedTuple

import numpy as np

from device_model.aicore.core.names import BLOCK, RoundMode
from device_model.aicore.core.tensors import LocalTensor, float32
from device_model.aicore.functions.matrices import Size, rowwise
from device_model.aicore.functions.operands import buffer_and
from device_model.aicore.functions.rows import Rows, Sum, SumParams
from device_model.aicore.functions.scratch import pieces, temporary
from device_model.aicore.vector.elementwise import FLOATS, Add, Cast, Mul, Muls, Sub
from device_model.aicore.vector.fill import Duplicate
from device_model.aicore.vector.gather import brcb_first
from device_model.aicore.vector.unit import check_type
from device_model.kernel.findings import KernelError


class WelfordUpdateParam(NamedTuple):
    """What WelfordUpdate is given (Ascend C: WelfordUpdateParam).

    Attributes:
        rn_length: 1.
        ab_length: The length of a part, in whole blocks of 32 bytes.
        ab_compute_length: How many elements of it are computed.
        n_rec: 1 / the number of parts with this one.
    """

    rn_length: int
    ab_length: int
    ab_compute_length: int
    n_rec: float


class WelfordFinalizePara(NamedTuple):
    """What WelfordFinalize is given (Ascend C: WelfordFinalizePara).

    Attributes:
        rn_length: The number of parts.
        ab_length: The length of a part, a multiple of 8.
        head_count: How many parts the first elements were in.
        head_count_length: The number of these elements.
        tail_count: How many parts the others were in; 0 if there are no others.
        tail_count_length: The number of the others.
        ab_rec: 1 / ab_length.
        r_rec: 1 / the length of the whole row.
    """

    rn_length: int
    ab_length: int
    head_count: int
    head_count_length: int
    tail_count: int
    tail_count_length: int
    ab_rec: float
    r_rec: float


def WelfordUpdate(
    output_mean: LocalTensor,
    output_variance: LocalTensor,
    input_mean: LocalTensor,
    input_variance: LocalTensor,
    input_x: LocalTensor,
    *operands: Any,
) -> None:
    """Take a part of a row into running means and sums of squared distances (Ascend C: WelfordUpdate).

    Each element has a mean and a sum of its own: mean' = mean + (x - mean) * n_rec, and
    variance' = variance + (x - mean) * (x - mean').

    Args:
        output_mean: The new means, in UB: float. It may be input_mean.
        output_variance: The new sums: float. It may be input_variance.
        input_mean: The means before: float.
        input_variance: The sums before: float.
        input_x: The part: half or float.
        operands: `(para)` or `(tmp, para)`. *para* is a WelfordUpdateParam, the lengths; *tmp* is the temporary buffer,
            in UB, by default the bytes of UB that no buffer of the TPipe has.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or length is impossible, a tensor is too small, or the temporary buffer is.
    """
    name = "WelfordUpdate"
    tmp, para = buffer_and(name, operands, WelfordUpdateParam)
    check_type(name, "input_x", input_x, FLOATS)
    rn, length, count = map(integer, para[:3])
    if rn != 1 or length < 1 or length * input_x.dtype.itemsize % BLOCK or not 0 < count <= length:
        raise KernelError(
            f"{name} with {para}",
            f"rn_length is 1, ab_length whole blocks of {BLOCK} bytes, and ab_compute_length 1 to ab_length",
        )
    states = {
        "output_mean": output_mean,
        "output_variance": output_variance,
        "input_mean": input_mean,
        "input_variance": input_variance,
    }
    for role, tensor in states.items():
        check_type(name, role, tensor, ("float32",))
    for role, tensor in {**states, "input_x": input_x}.items():
        if tensor.size < count:
            raise KernelError(f"{name} with {para}", f"{role} has {tensor.size} elements, and needs {count}")
    narrow = input_x.dtype == np.float16
    buffer = temporary(name, tmp, input_x, *states.values())
    for start, size, (distance, work, *wide) in pieces(name, buffer, count, (float32,) * (2 + narrow)):
        x, mean, total = input_x[start:], output_mean[start:], output_variance[start:]
        if narrow:
            Cast(wide[0], x, RoundMode.CAST_NONE, size)
            x = wide[0]
        Sub(distance, x, input_mean[start:], size)
        Muls(work, distance, para.n_rec, size)
        Add(mean, input_mean[start:], work, size)
        Sub(work, x, mean, size)
        Mul(work, work, distance, size)
        Add(total, input_variance[start:], work, size)


def WelfordFinalize(
    output_mean: LocalTensor,
    output_variance: LocalTensor,
    input_mean: LocalTensor,
    input_variance: LocalTensor,
    *operands: Any,
) -> None:
    """Make one mean and one variance of what WelfordUpdate has left (Ascend C: WelfordFinalize).

    Operands behind the first four: `(para)`, `(tmp, para)`, `(counts, para)` or `(counts, tmp, para)`.

    Args:
        output_mean: The mean, one number, in UB: float.
        output_variance: The variance, one number: float.
        input_mean: The means: float.
        input_variance: The sums of squared distances: float.
        operands: *counts* has how many parts each element was in: int32. *tmp* is the temporary buffer: uint8; by
            default the bytes of UB that no buffer of the TPipe has. *para* is a WelfordFinalizePara, the lengths;
            without *counts* they say how many parts each element was in.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or length is impossible, a tensor is too small, or the temporary buffer is.
    """
    name = "WelfordFinalize"
    counts, tmp, para = _counts_buffer_and_lengths(operands)
    rn, length, head, head_length, tail, tail_length = map(integer, para[:6])
    if rn < 1 or length < 1 or length % 8 or head_length + tail_length != length or (tail == 0 and tail_length):
        raise KernelError(
            f"{name} with {para}",
            "rn_length is 1 or more, ab_length a multiple of 8 and head_count_length + tail_count_length, and "
            "tail_count_length 0 where tail_count is",
        )
    states = {"input_mean": input_mean, "input_variance": input_variance}
    for role, tensor in (*states.items(), ("output_mean", output_mean), ("output_variance", output_variance)):
        check_type(name, role, tensor, ("float32",))
    if counts is not None:
        check_type(name, "counts", counts, ("int32",))
        states["counts"] = counts
    for role, tensor in states.items():
        if tensor.size < length:
            raise KernelError(f"{name} with {para}", f"{role} has {tensor.size} elements, and needs {length}")
    buffer = Rows(name, temporary(name, tmp, output_mean, output_variance, *states.values()))
    weights, work, spread = (buffer.take(float32, length) for _ in range(3))
    has_tail = counts is not None or tail_length > 0
    if counts is not None:
        Cast(weights, counts, RoundMode.CAST_NONE, length)
    else:
        Duplicate(weights, float(head if has_tail else rn), length)
        if tail_length:
            _duplicate_from(weights, head_length, float(tail), length)
    params, rest = SumParams(1, length, length), buffer.take(float32, 2 * -(-length // 64) + 16)
    if has_tail:
        Mul(work, input_mean, weights, length)
        Muls(work, work, para.r_rec, length)
    else:
        Muls(work, input_mean, para.ab_rec, length)
    Sum(output_mean, work, rest, params)
    block = buffer.take(float32, 64)
    brcb_first(block, output_mean, 1)
    rowwise(Sub, work, input_mean, block, Size(1, length, length), 1)
    Mul(work, work, work, length)
    Mul(work, work, weights, length)
    Add(work, work, input_variance, length)
    Muls(spread, work, para.r_rec, length)
    Sum(output_variance, spread, rest, params)


def _counts_buffer_and_lengths(
    operands: tuple[Any, ...],
) -> tuple[LocalTensor | None, LocalTensor | None, WelfordFinalizePara]:
    match operands:
        case (WelfordFinalizePara() as para,):
            return None, None, para
        case (LocalTensor() as one, WelfordFinalizePara() as para):
            return (None, one, para) if one.dtype == np.uint8 else (one, None, para)
        case (LocalTensor() as counts, LocalTensor() as tmp, WelfordFinalizePara() as para):
            return counts, tmp, para
    raise TypeError(
        "WelfordFinalize takes (WelfordFinalizePara) behind its tensors, and counts, tmp or both before it, "
        f"not {operands}"
    )


def _duplicate_from(dst: LocalTensor, first: int, value: float, length: int) -> None:
    """Issue dst[first:length] = value, where *first* need not begin a block."""
    begin = first // 8 * 8
    if first > begin:
        mask = sum(1 << lane for lane in range(first - begin, min(8, length - begin)))
        Duplicate(dst[begin:], value, [mask, 0], 1, 1, 8)
        begin += 8
    if begin < length:
        Duplicate(dst[begin:], value, length - begin)
