"""Vector instructions that reduce a whole tensor: ReduceSum, ReduceMax, ReduceMin.

ReduceSum adds the results of repeats one after the other in its form with *count*, and as a tree in its form with
*mask* (as the vendor documents). Within a repeat the order is that of every reduction (reduction.py).

On the card each of them is several instructions. The results of repeats are reduced once more, except in ReduceSum with
*count*, which adds them up in a register. Then the scalar pipe waits for the result, moves it, and the vector pipe
waits for that. So nothing hides the start-up of the first one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from device_model.aicore.core.names import BLOCK
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.vector.elementwise import FLOATS
from device_model.aicore.vector.masks import Lanes, counted, frozen
from device_model.aicore.vector.math import highest, lowest, power_of_two, tree, zero
from device_model.aicore.vector.reduction import INDEX, Array, Neutral, Rows, plan_reduction, read_access
from device_model.aicore.vector.unit import (
    VectorPlan,
    VectorUnit,
    check_count,
    check_reach,
    check_type,
    lanes_of,
    plain_cost,
    vector_unit,
)
from device_model.kernel.findings import KernelError


def ReduceSum(
    dst: LocalTensor,
    src: LocalTensor,
    shared_tmp_buffer: LocalTensor,
    count: Lanes,
    repeat_time: int | None = None,
    src_rep_stride: int = 8,
) -> None:
    """Write the sum of src to dst[0] (Ascend C: ReduceSum), on the vector pipe.

    `(dst, src, tmp, count)` or `(dst, src, tmp, mask, repeat_time, src_rep_stride)`.

    Args:
        dst: The tensor for the result, in UB, of the type of src.
        src: The tensor to read: half or float32, in UB.
        shared_tmp_buffer: A tensor of the same type with an element for each repeat, which the instruction overwrites.
        count: The number of elements; or, with *repeat_time*, the mask.
        repeat_time: The number of repeats of 256 bytes.
        src_rep_stride: From one repeat to the next, in blocks of 32 bytes.

    Raises:
        KernelError: A type, count or mask is impossible, or a tensor is too small.
    """
    by_count = repeat_time is None

    def total(values: Array) -> Array:
        sums = tree(values, np.add)
        if by_count:
            return np.add.accumulate(sums)[-1:]
        return tree(power_of_two(sums, sums.dtype.type(0))[None], np.add)

    _whole("ReduceSum", total, zero, dst, src, shared_tmp_buffer, count, repeat_time, src_rep_stride, 1)


def ReduceMax(
    dst: LocalTensor,
    src: LocalTensor,
    shared_tmp_buffer: LocalTensor,
    count: Lanes,
    repeat_time: int | bool | None = None,
    src_rep_stride: int = 8,
    cal_index: bool = False,
) -> None:
    """Write the largest element of src to dst[0] (Ascend C: ReduceMax), on the vector pipe.

    `(dst, src, tmp, count, cal_index)` or `(dst, src, tmp, mask, repeat_time, src_rep_stride, cal_index)`.

    Args:
        dst: The tensor for the result, in UB, of the type of src.
        src: The tensor to read: half or float32, in UB.
        shared_tmp_buffer: A tensor of the same type with an element for each repeat, which the instruction overwrites.
        count: The number of elements; or, with *repeat_time*, the mask.
        repeat_time: The number of repeats of 256 bytes; in the form with *count*, *cal_index*.
        src_rep_stride: From one repeat to the next, in blocks of 32 bytes.
        cal_index: Whether dst[1] gets the index of the first such element, as the bits of an unsigned integer of the
            element's width.

    Raises:
        KernelError: A type, count or mask is impossible, or a tensor is too small.
    """
    _extreme("ReduceMax", np.argmax, lowest, dst, src, shared_tmp_buffer, count, repeat_time, src_rep_stride, cal_index)


def ReduceMin(
    dst: LocalTensor,
    src: LocalTensor,
    shared_tmp_buffer: LocalTensor,
    count: Lanes,
    repeat_time: int | bool | None = None,
    src_rep_stride: int = 8,
    cal_index: bool = False,
) -> None:
    """Write the smallest element of src to dst[0] (Ascend C: ReduceMin), on the vector pipe.

    Arguments are those of ReduceMax.

    Raises:
        KernelError: As for ReduceMax.
    """
    _extreme(
        "ReduceMin", np.argmin, highest, dst, src, shared_tmp_buffer, count, repeat_time, src_rep_stride, cal_index
    )


def _extreme(
    name: str,
    find: Callable[..., Array],
    neutral: Neutral,
    dst: LocalTensor,
    src: LocalTensor,
    tmp: LocalTensor,
    count: Lanes,
    repeat_time: int | bool | None,
    src_rep_stride: int,
    cal_index: bool,
) -> None:
    if isinstance(repeat_time, bool):  # the fifth argument of the form with count
        cal_index = repeat_time
        repeat_time = None
    lanes = lanes_of(src)
    distance = lanes if repeat_time is None else src_rep_stride * (BLOCK // src.dtype.itemsize)

    def best(values: Array) -> Array:
        flat = values.ravel()
        first = int(find(flat))
        if not cal_index:
            return flat[first : first + 1]
        repeat, lane = divmod(first, lanes)
        index = np.array([repeat * distance + lane], INDEX[flat.itemsize]).view(flat.dtype)
        return np.append(flat[first : first + 1], index)

    _whole(name, best, neutral, dst, src, tmp, count, repeat_time, src_rep_stride, 2 if cal_index else 1)


def _whole(
    name: str,
    rows: Rows,
    neutral: Neutral,
    dst: LocalTensor,
    src: LocalTensor,
    tmp: LocalTensor,
    count: Lanes,
    repeat_time: int | None,
    src_rep_stride: int,
    outputs: int,
) -> None:
    mask = frozen(count, repeat_time)

    def plan(unit: VectorUnit, *_: Any) -> VectorPlan:
        check_type(name, "src", src, FLOATS)
        check_type(name, "dst", dst, (src.dtype.name,))
        check_type(name, "tmp", tmp, (src.dtype.name,))
        if repeat_time is None:
            check_count(name, mask)
            assert isinstance(mask, int)
            read, lanes = counted(src.dtype.itemsize, lanes_of(src), mask), None
        else:
            read, lanes = read_access(name, src, mask, repeat_time, 1, src_rep_stride)
        if not read.size:
            raise KernelError(f"{name} of nothing", "give 1 repeat or more")
        itemsize = src.dtype.itemsize
        written = counted(itemsize, lanes_of(src), outputs)
        planned = plan_reduction(
            unit, name, rows, neutral(src.dtype), dst, written, src, read, lanes, itemsize, in_order=False
        )
        if read.repeats > 1:  # the results of repeats go through tmp
            through = counted(itemsize, lanes_of(src), read.repeats)
            check_reach(name, "tmp", tmp, through)
            planned.writes += through.ranges(tmp.memory, tmp.address)
        adds_up = name == "ReduceSum" and repeat_time is None
        planned.cycles += planned.startup + _rest(unit, name, 1 if adds_up else read.repeats, outputs)
        planned.startup = 0
        return planned

    unit = vector_unit()
    planned = unit.plan_of((name, dst, src, tmp, mask, repeat_time, src_rep_stride, outputs), plan)
    unit.issue(planned, planned.compute)
    if name == "ReduceSum" and repeat_time is None:
        unit.summed = float(dst.view[0])


def _rest(unit: VectorUnit, name: str, results: int, outputs: int) -> int:
    """Cycles from the *results* of the repeats to the one result, of *outputs* numbers, in dst."""
    spec, again = unit.core.spec, plain_cost(unit.core, name, 1)
    reduced = again.startup + again.steady if results > 1 else 0
    return reduced + 2 * spec.flag_latency + outputs * (spec.get_value + spec.set_value)
