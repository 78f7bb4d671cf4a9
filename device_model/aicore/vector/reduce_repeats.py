"""Vector instructions that reduce each repeat, each block of 32 bytes, or each pair of neighbours to one element."""

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from device_model.aicore.core.names import BLOCK
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.vector.elementwise import FLOATS
from device_model.aicore.vector.masks import Lanes, frozen, results
from device_model.aicore.vector.math import highest, lowest, tree, zero
from device_model.aicore.vector.reduction import INDEX, Array, Neutral, plan_reduction, read_access
from device_model.aicore.vector.unit import VectorPlan, VectorUnit, check_type, issue, lanes_of

_NEUTRAL: dict[np.ufunc, Neutral] = {np.add: zero, np.maximum: lowest, np.minimum: highest}


class ReduceOrder(Enum):
    """What WholeReduceMax and WholeReduceMin write for each repeat."""

    ORDER_VALUE_INDEX = 0
    ORDER_INDEX_VALUE = 1
    ORDER_ONLY_VALUE = 2
    ORDER_ONLY_INDEX = 3


class ReduceType(Enum):
    """What ReduceRepeat and ReduceDataBlock do with numbers."""

    SUM = 0
    MAX = 1
    MIN = 2


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


ReducePairElem = PairReduceSum  # the newer name; a sum is all that it does


def _blocks(name: str, combine: np.ufunc, dst: LocalTensor, src: LocalTensor, *rest: Any) -> None:
    _each(name, combine, dst, src, *rest, group=BLOCK // src.dtype.itemsize)


def ReduceRepeat(
    dst: LocalTensor,
    src: LocalTensor,
    mask: Lanes,
    repeat_time: int,
    dst_rep_stride: int,
    src_blk_stride: int,
    src_rep_stride: int,
    order: ReduceOrder = ReduceOrder.ORDER_VALUE_INDEX,
    *,
    reduce_type: ReduceType,
) -> None:
    """Reduce each repeat (Ascend C: ReduceRepeat): WholeReduceSum, WholeReduceMax or WholeReduceMin, by *reduce_type*.

    Arguments are theirs; *order* has no effect on sums.

    Raises:
        KernelError: As for them.
    """
    strides = dst_rep_stride, src_blk_stride, src_rep_stride
    match reduce_type:
        case ReduceType.SUM:
            WholeReduceSum(dst, src, mask, repeat_time, *strides)
        case ReduceType.MAX:
            WholeReduceMax(dst, src, mask, repeat_time, *strides, order)
        case ReduceType.MIN:
            WholeReduceMin(dst, src, mask, repeat_time, *strides, order)


def ReduceDataBlock(
    dst: LocalTensor,
    src: LocalTensor,
    mask: Lanes,
    repeat_time: int,
    dst_rep_stride: int,
    src_blk_stride: int,
    src_rep_stride: int,
    *,
    reduce_type: ReduceType,
) -> None:
    """Reduce each block (Ascend C: ReduceDataBlock): BlockReduceSum, BlockReduceMax or BlockReduceMin.

    Arguments are theirs, with mask and repeat_time the other way round; *reduce_type* says which.

    Raises:
        KernelError: As for them.
    """
    reduce = {ReduceType.SUM: BlockReduceSum, ReduceType.MAX: BlockReduceMax, ReduceType.MIN: BlockReduceMin}
    reduce[reduce_type](dst, src, repeat_time, mask, dst_rep_stride, src_blk_stride, src_rep_stride)


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
    lanes_on = frozen(mask, repeat_time)

    def plan(unit: VectorUnit, *_: Any) -> VectorPlan:
        check_type(name, "src", src, FLOATS)
        check_type(name, "dst", dst, (src.dtype.name,))
        read, lanes = read_access(name, src, lanes_on, repeat_time, src_blk_stride, src_rep_stride)
        width = lanes_of(src)
        count = width // group if group else 1
        itemsize = src.dtype.itemsize
        written = results(itemsize, read.repeats, count, dst_rep_stride * count)
        neutral = _NEUTRAL[combine](src.dtype)

        def rows(values: Array) -> Array:
            return tree(values.reshape(-1, group or width), combine)

        return plan_reduction(unit, name, rows, neutral, dst, written, src, read, lanes, itemsize * count)

    issue((name, dst, src, lanes_on, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride), plan)


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
    lanes_on = frozen(mask, repeat_time)

    def plan(unit: VectorUnit, *_: Any) -> VectorPlan:
        check_type(name, "src", src, FLOATS)
        only_index = order is ReduceOrder.ORDER_ONLY_INDEX
        check_type(name, "dst", dst, (src.dtype.name, "uint32") if only_index else (src.dtype.name,))
        # An index alone is a number of 4 bytes, whatever Ascend C's one type for both tensors.
        to = dst.ReinterpretCast(np.uint32) if only_index else dst
        dst_rep_stride, src_blk_stride, src_rep_stride = strides
        read, lanes = read_access(name, src, lanes_on, repeat_time, src_blk_stride, src_rep_stride)
        each = 1 if order in (ReduceOrder.ORDER_ONLY_VALUE, ReduceOrder.ORDER_ONLY_INDEX) else 2
        written = results(to.dtype.itemsize, read.repeats, each, dst_rep_stride * each)
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

        return plan_reduction(unit, name, rows, neutral, to, written, src, read, lanes, to.dtype.itemsize * each)

    issue((name, dst, src, lanes_on, repeat_time, strides, order), plan)
