"""Vector instructions that fill tensors: Copy, Duplicate, CreateVecIndex, ArithProgression. All run on V."""

from functools import partial
from typing import Any, NamedTuple

from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.vector.elementwise import NUMBERS, WORDS, Strides, access_of, elementwise, typed, unary
from device_model.aicore.vector.masks import Lanes, UnaryRepeatParams, frozen
from device_model.aicore.vector.math import copy
from device_model.aicore.vector.unit import VectorPlan, VectorUnit, check_type, lanes_of, vector_unit

_copy = unary("Copy", copy, WORDS, "")


class CopyRepeatParams(NamedTuple):
    """Strides of Copy, each from one start to the next, in blocks of 32 bytes (Ascend C: CopyRepeatParams).

    Attributes:
        dst_stride: From one block of a repeat to the next in the destination.
        src_stride: From one block of a repeat to the next in the source.
        dst_repeat_size: From one repeat to the next in the destination; 0 writes the same repeat again.
        src_repeat_size: From one repeat to the next in the source; 0 reads the same repeat again.
    """

    dst_stride: int = 1
    src_stride: int = 1
    dst_repeat_size: int = 8
    src_repeat_size: int = 8


def Copy(
    dst: LocalTensor,
    src: LocalTensor,
    mask: Lanes,
    repeat_time: int,
    repeat_params: CopyRepeatParams | UnaryRepeatParams,
) -> None:
    """Copy masked repeats within UB (Ascend C: Copy), on the vector pipe.

    Args:
        dst: The tensor to write.
        src: The tensor to read, of the same type.
        mask: The lanes that are copied.
        repeat_time: The number of repeats, 0 to 255.
        repeat_params: The strides.

    Raises:
        KernelError: A type, mask or stride is impossible, or a tensor is too small.
    """
    _copy(dst, src, mask, repeat_time, UnaryRepeatParams(*repeat_params))


def Duplicate(
    dst: LocalTensor,
    scalar: float,
    count: Lanes,
    repeat_time: int | None = None,
    dst_blk_stride: int = 1,
    dst_rep_stride: int = 8,
) -> None:
    """Fill a tensor with a number (Ascend C: Duplicate), on the vector pipe.

    Args:
        dst: The tensor to write, in UB.
        scalar: The number, of the type of dst.
        count: The number of elements; or, with *repeat_time*, the mask.
        repeat_time: The number of repeats, 0 to 255.
        dst_blk_stride: Blocks of 32 bytes from a block of dst to the next.
        dst_rep_stride: Blocks of 32 bytes from a repeat of dst to the next.

    Raises:
        KernelError: A type, count, mask or stride is impossible, or dst is too small.
    """
    mask, unit = frozen(count, repeat_time), vector_unit()
    plan = unit.plan_of(("Duplicate", dst, mask, repeat_time, dst_blk_stride, dst_rep_stride), _plan_duplicate)
    unit.issue(plan, partial(plan.compute, typed("Duplicate", scalar, dst.dtype)))


def _plan_duplicate(unit: VectorUnit, *key: Any) -> VectorPlan:
    name, dst, mask, repeat_time, *strides = key
    check_type(name, "dst", dst, WORDS)
    return elementwise(unit, name, _fill, dst, (), mask, repeat_time, tuple(strides), ())


def _fill(scalar: Any, out: Any) -> None:
    out[...] = scalar


def CreateVecIndex(
    dst: LocalTensor,
    first_value: float,
    count: Lanes,
    repeat_time: int | None = None,
    dst_blk_stride: int = 1,
    dst_rep_stride: int = 8,
) -> None:
    """Fill a tensor with first_value, first_value + 1, ... (Ascend C: CreateVecIndex), on the vector pipe.

    Arguments are those of Duplicate, with *first_value* as the first number. Lanes that the mask leaves out are counted
    too.

    Raises:
        KernelError: As for Duplicate.
    """
    _progression("CreateVecIndex", dst, first_value, 1, count, repeat_time, (dst_blk_stride, dst_rep_stride))


def ArithProgression(dst: LocalTensor, first_value: float, diff_value: float, count: int) -> None:
    """Fill a tensor with an arithmetic progression (Ascend C: ArithProgression), on the vector pipe.

    Args:
        dst: The tensor to write, in UB: half, float32, int16 or int32.
        first_value: The first number.
        diff_value: From each number to the next.
        count: How many numbers.

    Raises:
        KernelError: A type or count is impossible, or dst is too small.
    """
    _progression("ArithProgression", dst, first_value, diff_value, count, None, (1, 8))


def _progression(
    name: str,
    dst: LocalTensor,
    first: float,
    step: float,
    count: Lanes,
    repeat_time: int | None,
    strides: Strides,
) -> None:
    mask, unit = frozen(count, repeat_time), vector_unit()
    plan = unit.plan_of((name, dst, mask, repeat_time, strides), _plan_progression)
    unit.issue(plan, partial(plan.compute, typed(name, first, dst.dtype), typed(name, step, dst.dtype)))


def _plan_progression(unit: VectorUnit, *key: Any) -> VectorPlan:
    name, dst, mask, repeat_time, strides = key
    check_type(name, "dst", dst, NUMBERS)
    lanes = lanes_of(dst)
    numbers = access_of(dst.dtype.itemsize, lanes, mask, repeat_time, (1, 8)).indices

    def fill(first: Any, step: Any, out: Any) -> None:
        out[...] = first + numbers.astype(out.dtype) * step

    return elementwise(unit, name, fill, dst, (), mask, repeat_time, strides, ())
