"""Vector instructions that fill: Copy, Duplicate, CreateVecIndex, ArithProgression."""

from functools import partial
from typing import Any, NamedTuple

from device_model.aicore import vector_math as vm
from device_model.aicore.masks import Lanes, UnaryRepeatParams, frozen
from device_model.aicore.tensors import LocalTensor
from device_model.aicore.vector import NUMBERS, WORDS, Strides, access_of, elementwise, typed, unary
from device_model.aicore.vector_unit import check_type, lanes_of, vector_unit

_copy = unary("Copy", vm.copy, WORDS, "")


class CopyRepeatParams(NamedTuple):
    """Strides of Copy, in blocks of 32 bytes."""

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
    """Dst = src, within UB: the lanes of *mask*, *repeat_time* times. A repeat distance of 0 copies one again."""
    _copy(dst, src, mask, repeat_time, UnaryRepeatParams(*repeat_params))


def Duplicate(
    dst: LocalTensor,
    scalar: float,
    count: Lanes,
    repeat_time: int | None = None,
    dst_blk_stride: int = 1,
    dst_rep_stride: int = 8,
) -> None:
    """Dst = scalar in each element: `(dst, scalar, count)` or `(dst, scalar, mask, repeat_time, strides)`."""
    mask = frozen(count, repeat_time)
    unit = vector_unit()
    key = ("Duplicate", dst, mask, repeat_time, dst_blk_stride, dst_rep_stride)
    plan = unit.plans.get(key)
    if plan is None:
        check_type("Duplicate", "dst", dst, WORDS)
        strides = (dst_blk_stride, dst_rep_stride)
        plan = elementwise(unit, "Duplicate", _fill, dst, (), mask, repeat_time, strides, ())
        unit.plans[key] = plan
    unit.issue(plan, partial(plan.compute, typed("Duplicate", scalar, dst.dtype)))


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
    """Dst = first_value, first_value + 1, ...: with count, or with mask, repeat_time and strides.

    The number goes on over lanes that the mask leaves out.
    """
    _progression("CreateVecIndex", dst, first_value, 1, count, repeat_time, (dst_blk_stride, dst_rep_stride))


def ArithProgression(dst: LocalTensor, first_value: float, diff_value: float, count: int) -> None:
    """Dst = first_value, first_value + diff_value, ..., *count* numbers."""
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
    mask = frozen(count, repeat_time)
    unit = vector_unit()
    key = (name, dst, mask, repeat_time, strides)
    plan = unit.plans.get(key)
    if plan is None:
        check_type(name, "dst", dst, NUMBERS)
        lanes = lanes_of(dst)
        numbers = access_of(dst.dtype.itemsize, lanes, mask, repeat_time, (1, 8)).indices

        def fill(first: Any, step: Any, out: Any) -> None:
            out[...] = first + numbers.astype(out.dtype) * step

        plan = elementwise(unit, name, fill, dst, (), mask, repeat_time, strides, ())
        unit.plans[key] = plan
    unit.issue(plan, partial(plan.compute, typed(name, first, dst.dtype), typed(name, step, dst.dtype)))
