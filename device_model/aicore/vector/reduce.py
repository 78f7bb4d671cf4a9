"""Vector instructions that reduce: a whole tensor, each repeat, each block of 32 bytes, or each pair to one number.

The order of additions decides how a sum is rounded, so it is the card's. Within a repeat, neighbours are added, then
neighbouring sums, and so on, as a tree; in half each sum is rounded to half. ReduceSum adds the results of repeats one
after the other in its form with *count*, and as a tree in its form with *mask* (as the vendor documents). Lanes that
the mask leaves out have no influence on the result.

Results may overwrite elements that have been read already (source and destination may be the same), but not elements
of a later repeat.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from device_model.aicore.core.findings import KernelError
from device_model.aicore.core.memories import BLOCK
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.vector.elementwise import FLOATS
from device_model.aicore.vector.masks import (
    Access,
    Counter,
    Lanes,
    Mask,
    active_lanes,
    counted,
    frozen,
    results,
    strided,
)
from device_model.aicore.vector.math import highest, lowest, padded, power_of_two, tree, zero
from device_model.aicore.vector.unit import (
    Plan,
    VectorUnit,
    check_count,
    check_reach,
    check_type,
    check_unread,
    cost,
    lanes_of,
    plain_cost,
    vector_unit,
)

INDEX = {2: np.uint16, 4: np.uint32}


class ReduceOrder(Enum):
    """What WholeReduceMax and WholeReduceMin write for each repeat."""

    ORDER_VALUE_INDEX = 0
    ORDER_INDEX_VALUE = 1
    ORDER_ONLY_VALUE = 2
    ORDER_ONLY_INDEX = 3


Array = Any
Rows = Callable[[Array], Array]  # (repeats, lanes) -> what is written, flat
Neutral = Callable[[Any], Any]  # dtype -> a value that changes no result

_NEUTRAL: dict[np.ufunc, Neutral] = {np.add: zero, np.maximum: lowest, np.minimum: highest}


def _reduction(
    unit: VectorUnit,
    name: str,
    rows: Rows,
    neutral: Any,
    dst: LocalTensor,
    written: Access,
    src: LocalTensor,
    read: Access,
    lanes: Any,
    alignment: int,
    *,
    in_order: bool = True,
) -> Plan:
    """Plan a reduction. *rows* gets the source as repeats by lanes, with *neutral* in the lanes outside the mask.

    With *in_order*, the result of a repeat is written before the next repeat is read.
    """
    width = lanes_of(src)
    check_reach(name, "dst", dst, written, min(alignment, BLOCK))
    check_reach(name, "src", src, read)
    stepwise = in_order and check_unread(unit.core, name, dst, written, src, read)
    view, out = src.view, dst.view
    where, to = read.where, written.where

    def compute() -> None:
        if lanes is None:
            values = padded(view[where], width, neutral)
        else:
            values = np.full((read.repeats, width), neutral, view.dtype)
            values[:, lanes] = view[where].reshape(read.repeats, -1)
        out[to] = rows(values)

    def by_repeats() -> None:
        for repeat in range(read.repeats):
            values = np.full((1, width), neutral, view.dtype)
            values[0, slice(None) if lanes is None else lanes] = view[read.of_repeat(repeat)]
            out[written.of_repeat(repeat)] = rows(values)

    is_whole = read.size == read.repeats * width
    if written.repeats == read.repeats:
        price = cost(unit.core, name, ((src.address, read),), (dst.address, written), whole=is_whole)
    else:  # all repeats become one number, and there is no row of results for each to conflict with
        price = plain_cost(unit.core, name, read.repeats, whole=is_whole)
    return Plan(
        name,
        price,
        read.ranges(src.memory, src.address),
        written.ranges(dst.memory, dst.address),
        by_repeats if stepwise else compute,
    )


def _read(
    name: str, src: LocalTensor, mask: Mask, repeat_time: int, blk_stride: int, rep_stride: int
) -> tuple[Access, Any]:
    lanes = lanes_of(src)
    try:
        access = strided(src.dtype.itemsize, lanes, mask, repeat_time, blk_stride, rep_stride)
    except KernelError as error:
        raise KernelError(f"{name}: {error.what}", error.remedy) from None
    if isinstance(mask, Counter):
        return access, None
    active = active_lanes(mask, lanes)
    return access, None if len(active) == lanes else active


# Of a whole tensor


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
    unit = vector_unit()
    mask = frozen(count, repeat_time)
    key = (name, dst, src, tmp, mask, repeat_time, src_rep_stride, outputs)
    plan = unit.plans.get(key)
    if plan is None:
        check_type(name, "src", src, FLOATS)
        check_type(name, "dst", dst, (src.dtype.name,))
        check_type(name, "tmp", tmp, (src.dtype.name,))
        if repeat_time is None:
            check_count(name, mask)
            assert isinstance(mask, int)
            read, lanes = counted(src.dtype.itemsize, lanes_of(src), mask), None
        else:
            read, lanes = _read(name, src, mask, repeat_time, 1, src_rep_stride)
        if not read.size:
            raise KernelError(f"{name} of nothing", "give 1 repeat or more")
        itemsize = src.dtype.itemsize
        written = counted(itemsize, lanes_of(src), outputs)
        plan = _reduction(
            unit, name, rows, neutral(src.dtype), dst, written, src, read, lanes, itemsize, in_order=False
        )
        if read.repeats > 1:  # the results of repeats go through tmp
            through = counted(itemsize, lanes_of(src), read.repeats)
            check_reach(name, "tmp", tmp, through)
            plan.writes += through.ranges(tmp.memory, tmp.address)
        unit.plans[key] = plan
    unit.issue(plan, plan.compute)


# Of each repeat


def WholeReduceSum(
    dst: LocalTensor,
    src: LocalTensor,
    mask: Lanes,
    repeat_time: int,
    dst_rep_stride: int,
    src_blk_stride: int,
    src_rep_stride: int,
) -> None:
    """Add up each repeat to one element (Ascend C: WholeReduceSum), on the vector pipe.

    Args:
        dst: The tensor for the results, in UB, of the type of src.
        src: The tensor to read: half or float32, in UB.
        mask: The lanes of a repeat that are read.
        repeat_time: The number of repeats, 0 to 255.
        dst_rep_stride: From one result to the next, in elements.
        src_blk_stride: From one block of a repeat to the next, in blocks of 32 bytes.
        src_rep_stride: From one repeat to the next, in blocks of 32 bytes.

    Raises:
        KernelError: A type, mask or stride is impossible, or a tensor is too small.
    """
    _each("WholeReduceSum", np.add, dst, src, mask, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride)


def RepeatReduceSum(
    dst: LocalTensor,
    src: LocalTensor,
    repeat_time: int,
    mask: Lanes,
    dst_blk_stride: int,  # noqa: ARG001  # Ascend C has it, and it has no effect
    src_blk_stride: int,
    dst_rep_stride: int,
    src_rep_stride: int,
) -> None:
    """Add up each repeat to one element (Ascend C: RepeatReduceSum), on the vector pipe.

    It does what WholeReduceSum does; only the order of arguments is different.

    Args:
        dst: The tensor for the results, in UB, of the type of src.
        src: The tensor to read: half or float32, in UB.
        repeat_time: The number of repeats, 0 to 255.
        mask: The lanes of a repeat that are read.
        dst_blk_stride: Has no effect.
        src_blk_stride: From one block of a repeat to the next, in blocks of 32 bytes.
        dst_rep_stride: From one result to the next, in elements.
        src_rep_stride: From one repeat to the next, in blocks of 32 bytes.

    Raises:
        KernelError: A type, mask or stride is impossible, or a tensor is too small.
    """
    _each("RepeatReduceSum", np.add, dst, src, mask, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride)


def BlockReduceSum(
    dst: LocalTensor,
    src: LocalTensor,
    repeat_time: int,
    mask: Lanes,
    dst_rep_stride: int,
    src_blk_stride: int,
    src_rep_stride: int,
) -> None:
    """Add up each block of 32 bytes to one element, 8 per repeat (Ascend C: BlockReduceSum), on the vector pipe.

    Args:
        dst: The tensor for the results, in UB, of the type of src.
        src: The tensor to read: half or float32, in UB.
        repeat_time: The number of repeats, 0 to 255.
        mask: The lanes of a repeat that are read.
        dst_rep_stride: From the 8 results of one repeat to those of the next, in units of 8 elements.
        src_blk_stride: From one block of a repeat to the next, in blocks of 32 bytes.
        src_rep_stride: From one repeat to the next, in blocks of 32 bytes.

    Raises:
        KernelError: A type, mask or stride is impossible, or a tensor is too small.
    """
    _blocks("BlockReduceSum", np.add, dst, src, mask, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride)


def BlockReduceMax(
    dst: LocalTensor,
    src: LocalTensor,
    repeat_time: int,
    mask: Lanes,
    dst_rep_stride: int,
    src_blk_stride: int,
    src_rep_stride: int,
) -> None:
    """Write the largest element of each block of 32 bytes (Ascend C: BlockReduceMax), on the vector pipe.

    Arguments are those of BlockReduceSum.

    Raises:
        KernelError: As for BlockReduceSum.
    """
    _blocks("BlockReduceMax", np.maximum, dst, src, mask, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride)


def BlockReduceMin(
    dst: LocalTensor,
    src: LocalTensor,
    repeat_time: int,
    mask: Lanes,
    dst_rep_stride: int,
    src_blk_stride: int,
    src_rep_stride: int,
) -> None:
    """Write the smallest element of each block of 32 bytes (Ascend C: BlockReduceMin), on the vector pipe.

    Arguments are those of BlockReduceSum.

    Raises:
        KernelError: As for BlockReduceSum.
    """
    _blocks("BlockReduceMin", np.minimum, dst, src, mask, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride)


def PairReduceSum(
    dst: LocalTensor,
    src: LocalTensor,
    repeat_time: int,
    mask: Lanes,
    dst_rep_stride: int,
    src_blk_stride: int,
    src_rep_stride: int,
) -> None:
    """Add each pair of neighbours to one element (Ascend C: PairReduceSum), on the vector pipe.

    Args:
        dst: The tensor for the results, in UB, of the type of src.
        src: The tensor to read: half or float32, in UB.
        repeat_time: The number of repeats, 0 to 255.
        mask: The lanes of a repeat that are read.
        dst_rep_stride: From the results of one repeat to those of the next, in units of 128 bytes.
        src_blk_stride: From one block of a repeat to the next, in blocks of 32 bytes.
        src_rep_stride: From one repeat to the next, in blocks of 32 bytes.

    Raises:
        KernelError: A type, mask or stride is impossible, or a tensor is too small.
    """
    _each("PairReduceSum", np.add, dst, src, mask, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride, group=2)


def _blocks(name: str, combine: np.ufunc, dst: LocalTensor, src: LocalTensor, *rest: Any) -> None:
    _each(name, combine, dst, src, *rest, group=BLOCK // src.dtype.itemsize)


def _each(
    name: str,
    combine: np.ufunc,
    dst: LocalTensor,
    src: LocalTensor,
    mask: Lanes,
    repeat_time: int,
    dst_rep_stride: int,
    src_blk_stride: int,
    src_rep_stride: int,
    *,
    group: int = 0,
) -> None:
    """Reduce each *group* neighbours (0: the whole repeat); strides of dst count the results of one repeat."""
    unit = vector_unit()
    lanes_on = frozen(mask, repeat_time)
    key = (name, dst, src, lanes_on, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride)
    plan = unit.plans.get(key)
    if plan is None:
        check_type(name, "src", src, FLOATS)
        check_type(name, "dst", dst, (src.dtype.name,))
        read, lanes = _read(name, src, lanes_on, repeat_time, src_blk_stride, src_rep_stride)
        width = lanes_of(src)
        count = width // group if group else 1
        itemsize = src.dtype.itemsize
        written = results(itemsize, read.repeats, count, dst_rep_stride * count)
        neutral = _NEUTRAL[combine](src.dtype)

        def rows(values: Array) -> Array:
            return tree(values.reshape(-1, group or width), combine)

        plan = _reduction(unit, name, rows, neutral, dst, written, src, read, lanes, itemsize * count)
        unit.plans[key] = plan
    unit.issue(plan, plan.compute)


def WholeReduceMax(
    dst: LocalTensor,
    src: LocalTensor,
    mask: Lanes,
    repeat_time: int,
    dst_rep_stride: int,
    src_blk_stride: int,
    src_rep_stride: int,
    order: ReduceOrder = ReduceOrder.ORDER_VALUE_INDEX,
) -> None:
    """Write the largest element of each repeat, its lane, or both (Ascend C: WholeReduceMax), on the vector pipe.

    Args:
        dst: The tensor for the results, in UB, of the type of src. With ORDER_ONLY_INDEX its type may also be uint32.
        src: The tensor to read: half or float32, in UB.
        mask: The lanes of a repeat that are read.
        repeat_time: The number of repeats, 0 to 255.
        dst_rep_stride: From one result to the next, in results: one element, or two with both a value and an index.
        src_blk_stride: From one block of a repeat to the next, in blocks of 32 bytes.
        src_rep_stride: From one repeat to the next, in blocks of 32 bytes.
        order: What a result is. An index beside a value is an unsigned integer of the value's width; an index alone is
            a uint32.

    Raises:
        KernelError: A type, mask or stride is impossible, or a tensor is too small.
    """
    strides = (dst_rep_stride, src_blk_stride, src_rep_stride)
    _each_extreme("WholeReduceMax", np.argmax, dst, src, mask, repeat_time, strides, order)


def WholeReduceMin(
    dst: LocalTensor,
    src: LocalTensor,
    mask: Lanes,
    repeat_time: int,
    dst_rep_stride: int,
    src_blk_stride: int,
    src_rep_stride: int,
    order: ReduceOrder = ReduceOrder.ORDER_VALUE_INDEX,
) -> None:
    """Write the smallest element of each repeat, its lane, or both (Ascend C: WholeReduceMin), on the vector pipe.

    Arguments are those of WholeReduceMax.

    Raises:
        KernelError: As for WholeReduceMax.
    """
    strides = (dst_rep_stride, src_blk_stride, src_rep_stride)
    _each_extreme("WholeReduceMin", np.argmin, dst, src, mask, repeat_time, strides, order)


def _each_extreme(
    name: str,
    find: Callable[..., Array],
    dst: LocalTensor,
    src: LocalTensor,
    mask: Lanes,
    repeat_time: int,
    strides: tuple[int, int, int],
    order: ReduceOrder,
) -> None:
    unit = vector_unit()
    lanes_on = frozen(mask, repeat_time)
    key = (name, dst, src, lanes_on, repeat_time, strides, order)
    plan = unit.plans.get(key)
    if plan is None:
        check_type(name, "src", src, FLOATS)
        only_index = order is ReduceOrder.ORDER_ONLY_INDEX
        check_type(name, "dst", dst, (src.dtype.name, "uint32") if only_index else (src.dtype.name,))
        if only_index:  # numbers of 4 bytes, whatever Ascend C's one type for both tensors
            dst = dst.ReinterpretCast(np.uint32)
        dst_rep_stride, src_blk_stride, src_rep_stride = strides
        read, lanes = _read(name, src, lanes_on, repeat_time, src_blk_stride, src_rep_stride)
        each = 1 if order in (ReduceOrder.ORDER_ONLY_VALUE, ReduceOrder.ORDER_ONLY_INDEX) else 2
        written = results(dst.dtype.itemsize, read.repeats, each, dst_rep_stride * each)
        neutral = (lowest if find is np.argmax else highest)(src.dtype)

        def rows(values: Array) -> Array:
            lane = find(values, axis=1)
            if only_index:
                return lane.astype(np.uint32)
            value = values[np.arange(len(values)), lane]
            if order is ReduceOrder.ORDER_ONLY_VALUE:
                return value
            index = lane.astype(INDEX[values.dtype.itemsize]).view(values.dtype)
            pair = (value, index) if order is ReduceOrder.ORDER_VALUE_INDEX else (index, value)
            return np.stack(pair, axis=1).ravel()

        plan = _reduction(unit, name, rows, neutral, dst, written, src, read, lanes, dst.dtype.itemsize * each)
        unit.plans[key] = plan
    unit.issue(plan, plan.compute)
