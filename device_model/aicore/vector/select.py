"""Vector instructions that compare and select: Compare, Compares, Select. All run on the vector pipe.

Results of comparisons are bits; the first one is the lowest bit of the first byte.
"""

from functools import partial
from typing import Any

import numpy as np

from device_model.aicore.core.names import BLOCK, CMPMODE, SELMODE
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.vector.elementwise import FLOATS, access_of, typed
from device_model.aicore.vector.masks import (
    BINARY,
    UNARY,
    BinaryRepeatParams,
    Lanes,
    Mask,
    UnaryRepeatParams,
    active_lanes,
    counted,
    frozen,
)
from device_model.aicore.vector.unit import (
    VectorPlan,
    VectorUnit,
    check_count,
    check_overlap,
    check_reach,
    check_type,
    cost,
    lanes_of,
    vector_unit,
)
from device_model.kernel.findings import KernelError

BYTES = ("int8", "uint8")
MASKS = ("uint8", "uint16", "uint32", "uint64")

_COMPARE: dict[CMPMODE, np.ufunc] = {
    CMPMODE.LT: np.less,
    CMPMODE.GT: np.greater,
    CMPMODE.GE: np.greater_equal,
    CMPMODE.LE: np.less_equal,
    CMPMODE.EQ: np.equal,
    CMPMODE.NE: np.not_equal,
}


def Compare(
    dst: LocalTensor,
    src0: LocalTensor,
    src1: LocalTensor,
    cmp_mode: CMPMODE,
    count: Lanes,
    repeat_time: int | None = None,
    repeat_params: BinaryRepeatParams = BINARY,
) -> None:
    """Compare two tensors element by element; dst gets a bit for each result (Ascend C: Compare).

    Runs on the vector pipe.

    Args:
        dst: int8 or uint8 in UB. The bits of repeats are adjacent; strides of dst have no effect.
        src0: The left operand: half or float32, and int32 for CMPMODE.EQ.
        src1: The right operand, of the same type.
        cmp_mode: The comparison.
        count: The number of elements, in whole repeats of 256 bytes; or, with *repeat_time*, a mask,
            which has no effect: all lanes are compared.
        repeat_time: The number of repeats, 0 to 255.
        repeat_params: Strides of the sources, in blocks of 32 bytes.

    Raises:
        KernelError: A type, count or mask is impossible, or a tensor is too small.
    """
    _, at0, at1, _, at0_next, at1_next = repeat_params
    _compare("Compare", dst, (src0, src1), cmp_mode, count, repeat_time, ((at0, at0_next), (at1, at1_next)), None)


def Compares(
    dst: LocalTensor,
    src0: LocalTensor,
    src1: float,
    cmp_mode: CMPMODE,
    count: Lanes,
    repeat_time: int | None = None,
    repeat_params: UnaryRepeatParams = UNARY,
) -> None:
    """Compare a tensor with a scalar; dst gets a bit for each result (Ascend C: Compares, CompareScalar).

    Runs on the vector pipe.

    Args:
        dst: int8 or uint8 in UB. The bits of repeats are adjacent; strides of dst have no effect.
        src0: The left operand: half or float32, and int32 for CMPMODE.EQ.
        src1: The right operand, a number of the type of src0.
        cmp_mode: The comparison.
        count: The number of elements, in whole repeats of 256 bytes; or, with *repeat_time*, a mask,
            which has no effect: all lanes are compared.
        repeat_time: The number of repeats, 0 to 255.
        repeat_params: Strides of src0, in blocks of 32 bytes.

    Raises:
        KernelError: A type, count or mask is impossible, or a tensor is too small.
    """
    strides = ((repeat_params.src_blk_stride, repeat_params.src_rep_stride),)
    _compare("Compares", dst, (src0,), cmp_mode, count, repeat_time, strides, src1)


CompareScalar = Compares  # the older name


def compare_first(dst: LocalTensor, src0: LocalTensor, scalar: float, cmp_mode: CMPMODE, count: int) -> None:
    """Compare the first *count* elements with a number, for functions that cut tensors anywhere.

    A card compares whole repeats; what it makes of the elements after these is not used.
    """
    _compare("Compares", dst, (src0,), cmp_mode, count, None, ((1, 8),), scalar, cuts=True)


def _compare(
    name: str,
    dst: LocalTensor,
    sources: tuple[LocalTensor, ...],
    mode: CMPMODE,
    count: Lanes,
    repeat_time: int | None,
    strides: tuple[tuple[int, int], ...],
    scalar: float | None,
    *,
    cuts: bool = False,
) -> None:
    unit = vector_unit()
    key = (name, dst, sources, mode, frozen(count, repeat_time), repeat_time, strides, cuts)
    plan = unit.plan_of(key, _plan_compare)
    scalars = () if scalar is None else (typed(name, scalar, sources[0].dtype),)
    unit.issue(plan, partial(plan.compute, *scalars))


def _plan_compare(
    unit: VectorUnit,
    name: str,
    dst: LocalTensor,
    sources: tuple[LocalTensor, ...],
    mode: CMPMODE,
    count: Mask,
    repeat_time: int | None,
    strides: tuple[tuple[int, int], ...],
    cuts: bool,
) -> VectorPlan:
    types = (*FLOATS, "int32") if mode is CMPMODE.EQ else FLOATS
    for index, source in enumerate(sources):
        check_type(name, f"src{index}", source, types if index == 0 else (sources[0].dtype.name,))
    check_type(name, "dst", dst, BYTES)
    lanes = lanes_of(*sources)
    if repeat_time is None:
        check_count(name, count)
        assert isinstance(count, int)
        if count % lanes and not cuts:
            raise KernelError(
                f"{name}: a count of {count}", f"it must be a multiple of {lanes}: whole repeats of 256 bytes"
            )
    else:
        active_lanes(count, lanes)  # refuses what is no mask; Atlas A2 and A3 compare all lanes, whatever it says
        count = lanes
    reads = [
        (tensor, access_of(tensor.dtype.itemsize, lanes, count, repeat_time, each))
        for tensor, each in zip(sources, strides, strict=True)
    ]
    written = counted(1, lanes // 8, -(-reads[0][1].size // 8))
    check_reach(name, "dst", dst, written)
    for index, (tensor, access) in enumerate(reads):
        check_reach(name, f"src{index}", tensor, access)
    check_overlap(unit.core, name, dst, written, reads)
    ask = _COMPARE[mode]
    out = dst.view.view(np.uint8)[: written.size]
    views = [(tensor.view, access.where) for tensor, access in reads]

    def compute(*scalar: Any) -> None:
        out[...] = np.packbits(ask(*[view[where] for view, where in views], *scalar), bitorder="little")

    operands = tuple((tensor.address, access) for tensor, access in reads)
    return VectorPlan(
        name,
        cost(unit.core, name, operands, (dst.address, written)),
        tuple(part for tensor, access in reads for part in access.ranges(tensor.memory, tensor.address)),
        written.ranges(dst.memory, dst.address),
        compute,
    )


def Select(
    dst: LocalTensor,
    sel_mask: LocalTensor,
    src0: LocalTensor,
    src1: LocalTensor | float,
    sel_mode: SELMODE,
    count: Lanes,
    repeat_time: int | None = None,
    repeat_params: BinaryRepeatParams = BINARY,
) -> None:
    """Select src0 where a bit is set and src1 elsewhere (Ascend C: Select).

    Runs on the vector pipe.

    Args:
        dst: The tensor to write: half or float32 in UB.
        sel_mask: The bits, as Compare writes them: uint8, uint16, uint32 or uint64 in UB.
        src0: The elements for bits that are set, of the type of dst.
        src1: The elements for bits that are not set: a tensor, or a number with VSEL_TENSOR_SCALAR_MODE.
        sel_mode: VSEL_CMPMASK_SPR uses the first bits of *sel_mask* in each repeat. VSEL_TENSOR_TENSOR_MODE and
            VSEL_TENSOR_SCALAR_MODE use the next bits in each repeat.
        count: The number of elements; or, with *repeat_time*, the mask.
        repeat_time: The number of repeats, 0 to 255.
        repeat_params: Strides in blocks of 32 bytes.

    Raises:
        KernelError: A type, count, mask or mode is impossible, or a tensor is too small.
    """
    scalar = None if isinstance(src1, LocalTensor) else src1
    if (scalar is not None) != (sel_mode is SELMODE.VSEL_TENSOR_SCALAR_MODE):
        raise KernelError(
            f"Select with {sel_mode} and src1 {src1!r}",
            "src1 is a number with VSEL_TENSOR_SCALAR_MODE, and a tensor with the other modes",
        )
    other = src1 if isinstance(src1, LocalTensor) else None
    unit, mask = vector_unit(), frozen(count, repeat_time)
    key = ("Select", dst, sel_mask, src0, other, sel_mode, mask, repeat_time, repeat_params)
    plan = unit.plan_of(key, _plan_select)
    scalars = () if scalar is None else (typed("Select", scalar, dst.dtype),)
    unit.issue(plan, partial(plan.compute, *scalars))


def _plan_select(
    unit: VectorUnit,
    name: str,
    dst: LocalTensor,
    sel_mask: LocalTensor,
    src0: LocalTensor,
    src1: LocalTensor | None,
    mode: SELMODE,
    count: Mask,
    repeat_time: int | None,
    params: BinaryRepeatParams,
) -> VectorPlan:
    check_type(name, "dst", dst, FLOATS)
    check_type(name, "selMask", sel_mask, MASKS)
    sources = [src0] if src1 is None else [src0, src1]
    for index, source in enumerate(sources):
        check_type(name, f"src{index}", source, (dst.dtype.name,))
    if repeat_time is None:
        check_count(name, count)
    itemsize, lanes = dst.dtype.itemsize, lanes_of(dst)
    to, at0, at1, to_next, at0_next, at1_next = params
    written = access_of(itemsize, lanes, count, repeat_time, (to, to_next))
    accesses = [
        access_of(itemsize, lanes, count, repeat_time, strides)
        for strides, _ in zip(((at0, at0_next), (at1, at1_next)), sources, strict=False)
    ]
    reads = list(zip(sources, accesses, strict=True))
    # The bit of each element.
    lane = access_of(itemsize, lanes, count, repeat_time, (1, 8)).indices
    if mode is SELMODE.VSEL_CMPMASK_SPR:
        lane = lane % lanes
    bits = counted(1, lanes // 8, int(lane.max(initial=-1)) // 8 + 1)
    check_reach(name, "dst", dst, written)
    for index, (tensor, access) in enumerate(reads):
        check_reach(name, f"src{index}", tensor, access)
    mask_bytes = sel_mask.view.view(np.uint8)
    if sel_mask.address % BLOCK or bits.size > len(mask_bytes):
        raise KernelError(
            f"{name}: selMask {sel_mask!r}", f"it must be aligned to {BLOCK} bytes and have {bits.size} of them"
        )
    check_overlap(unit.core, name, dst, written, reads)
    out = dst.view
    views = [(tensor.view, access.where) for tensor, access in reads]

    def compute(*scalar: Any) -> None:
        chosen = np.unpackbits(mask_bytes[: bits.size], bitorder="little")[lane].view(bool)
        out[written.where] = np.where(chosen, *[view[where] for view, where in views], *scalar)

    operands = tuple((tensor.address, access) for tensor, access in reads)
    return VectorPlan(
        name,
        cost(unit.core, name, operands, (dst.address, written), whole=written.size == written.repeats * lanes),
        tuple(part for tensor, access in reads for part in access.ranges(tensor.memory, tensor.address))
        + bits.ranges(sel_mask.memory, sel_mask.address),
        written.ranges(dst.memory, dst.address),
        compute,
    )
