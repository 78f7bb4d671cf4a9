"""The plan of a reduction: what it reads and writes, how it computes, and what it costs.

The order of additions decides how a sum is rounded, so it is the card's. Within a repeat, neighbours are added, then
neighbouring sums, and so on, as a tree; in half each sum is rounded to half. Lanes that the mask leaves out have no
influence on the result.

Results may overwrite elements that have been read already (source and destination may be the same), but not elements
of a later repeat.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from device_model.aicore.core.names import BLOCK
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.vector.masks import Access, Counter, Mask, active_lanes, strided
from device_model.aicore.vector.math import padded
from device_model.aicore.vector.unit import (
    VectorPlan,
    VectorUnit,
    check_reach,
    check_unread,
    cost,
    lanes_of,
    plain_cost,
)
from device_model.kernel.findings import KernelError

INDEX = {2: np.uint16, 4: np.uint32}  # the type of an index, by the bytes of an element

Array = Any
Rows = Callable[[Array], Array]  # (repeats, lanes) -> what is written, flat
Neutral = Callable[[Any], Any]  # dtype -> a value that changes no result


def plan_reduction(
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
) -> VectorPlan:
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
    return VectorPlan(
        name,
        price,
        read.ranges(src.memory, src.address),
        written.ranges(dst.memory, dst.address),
        by_repeats if stepwise else compute,
    )


def read_access(
    name: str, src: LocalTensor, mask: Mask, repeat_time: int, blk_stride: int, rep_stride: int
) -> tuple[Access, Any]:
    """Return what repeats of *src* under *mask* read, and the lanes that are active; None if all of them are.

    Raises:
        KernelError: The mask, the number of repeats or a stride is impossible; the message begins with *name*.
    """
    lanes = lanes_of(src)
    try:
        access = strided(src.dtype.itemsize, lanes, mask, repeat_time, blk_stride, rep_stride)
    except KernelError as error:
        raise KernelError(f"{name}: {error.what}", error.remedy) from None
    if isinstance(mask, Counter):
        return access, None
    active = active_lanes(mask, lanes)
    return access, None if len(active) == lanes else active
