"""Vector instructions that compare and select: Compare, Compares, Select, and the register CmpMask between them.

All run on the vector pipe. Results of comparisons are bits; the first one is the lowest bit of the first byte. CmpMask
has 128 of them, enough for a repeat of half. Compare writes it where dst is None, and Select takes its bits where
sel_mask is None.
"""

from functools import partial
from typing import Any

import numpy as np

from device_model.aicore.core.names import BLOCK, CMPMODE, SELMODE, Space
from device_model.aicore.core.spec import CMP_MASK_BYTES
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.vector.elementwise import FLOATS, access_of, typed
from device_model.aicore.vector.masks import (
    BINARY,
    UNARY,
    Access,
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
    issue,
    lanes_of,
    plain_cost,
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
    dst: LocalTensor | None,
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
        dst: int8 or uint8 in UB. The bits of repeats are adjacent; strides of dst have no effect. None compares one
            repeat into CmpMask, of which all other bits become 0.
        src0: The left operand: half or float32, and int32 for CMPMODE.EQ and a *dst*.
        src1: The right operand, of the same type.
        cmp_mode: The comparison.
        count: The number of elements, in whole repeats of 256 bytes; or, with *repeat_time*, a mask,
            which has no effect: all lanes are compared. Without *dst*, the mask, which says which lanes are.
        repeat_time: The number of repeats, 0 to 255; without *dst* there is one.
        repeat_params: Strides of the sources, in blocks of 32 bytes.

    Raises:
        KernelError: A type, count or mask is impossible, or a tensor is too small.
    """
    _, at0, at1, _, at0_next, at1_next = repeat_params
    if dst is None:
        if isinstance(repeat_time, BinaryRepeatParams):
            raise KernelError(
                "Compare without dst and with repeat_params in the place of repeat_time", "write repeat_params=..."
            )
        if repeat_time not in (None, 1):
            raise KernelError(f"Compare of {repeat_time} repeats without dst", "CmpMask has the bits of one repeat")
        _compare("Compare", None, (src0, src1), cmp_mode, count, 1, ((at0, at0_next), (at1, at1_next)), None)
        return
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
    dst: LocalTensor | None,
    sources: tuple[LocalTensor, ...],
    mode: CMPMODE,
    count: Lanes,
    repeat_time: int | None,
    strides: tuple[tuple[int, int], ...],
    scalar: float | None,
    *,
    cuts: bool = False,
) -> None:
    if mode not in _COMPARE:
        raise KernelError(f"{name} with cmp_mode {mode!r}", "give a CMPMODE, such as CMPMODE.LT")
    unit = vector_unit()
    key = (name, dst, sources, mode, frozen(count, repeat_time), repeat_time, strides, cuts)
    plan = unit.plan_of(key, _plan_compare_to_register if dst is None else _plan_compare)
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
    _check_sources(name, sources, (*FLOATS, "int32") if mode is CMPMODE.EQ else FLOATS)
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
    reads = _reads_of(name, sources, lanes, count, repeat_time, strides)
    written = counted(1, lanes // 8, -(-reads[0][1].size // 8))
    check_reach(name, "dst", dst, written)
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


def _plan_compare_to_register(
    unit: VectorUnit,
    name: str,
    _: None,
    sources: tuple[LocalTensor, ...],
    mode: CMPMODE,
    count: Mask,
    repeat_time: int,
    strides: tuple[tuple[int, int], ...],
    cuts: bool,  # noqa: ARG001 - as the key has it
) -> VectorPlan:
    _check_sources(name, sources, FLOATS)
    lanes = lanes_of(*sources)
    active = active_lanes(count, lanes)
    reads = _reads_of(name, sources, lanes, count, repeat_time, strides)
    ask, register = _COMPARE[mode], unit.core.memory(Space.CMP_MASK)
    views = [(tensor.view, access.where) for tensor, access in reads]

    def compute() -> None:
        bits = np.zeros(CMP_MASK_BYTES * 8, bool)
        bits[active] = ask(*[view[where] for view, where in views])
        register.bytes[:] = np.packbits(bits, bitorder="little")

    return VectorPlan(
        name,
        plain_cost(unit.core, name, 1, whole=len(active) == lanes),
        tuple(part for tensor, access in reads for part in access.ranges(tensor.memory, tensor.address)),
        ((register, 0, CMP_MASK_BYTES),),
        compute,
    )


def _check_sources(name: str, sources: tuple[LocalTensor, ...], types: tuple[str, ...]) -> None:
    for index, source in enumerate(sources):
        check_type(name, f"src{index}", source, types if index == 0 else (sources[0].dtype.name,))


def _reads_of(
    name: str,
    sources: tuple[LocalTensor, ...],
    lanes: int,
    count: Mask,
    repeat_time: int | None,
    strides: tuple[tuple[int, int], ...],
) -> list[tuple[LocalTensor, Access]]:
    """Return the sources with what is read of each, which lies within it."""
    reads = [
        (tensor, access_of(tensor.dtype.itemsize, lanes, count, repeat_time, each))
        for tensor, each in zip(sources, strides, strict=False)
    ]
    for index, (tensor, access) in enumerate(reads):
        check_reach(name, f"src{index}", tensor, access)
    return reads


def GetCmpMask(dst: LocalTensor) -> None:
    """Copy the register CmpMask to UB: the bits of the last Compare without dst (Ascend C: GetCmpMask).

    Runs on the vector pipe. The vendor asks for 128 bytes, and its sample gives 32, of which the first 16 are written.

    Args:
        dst: 16 bytes or more in UB, of 1 to 4 bytes an element.

    Raises:
        KernelError: The tensor is too small, not aligned to 16 bytes or not in UB, or its type is wider.
    """
    issue(("GetCmpMask", dst), _plan_register)


def SetCmpMask(src: LocalTensor) -> None:
    """Set the register CmpMask for a Select without sel_mask (Ascend C: SetCmpMask).

    Runs on the vector pipe. With VSEL_TENSOR_SCALAR_MODE and VSEL_TENSOR_TENSOR_MODE, give Select its number, or its
    mask, itself.

    Args:
        src: The bits: 16 bytes or more in UB, as Compare writes them.

    Raises:
        KernelError: The tensor is too small, not aligned to 16 bytes or not in UB.
    """
    issue(("SetCmpMask", src), _plan_register)


_REGISTER_TYPES = ("int8", "uint8", "int16", "uint16", "float16", "bfloat16", "int32", "uint32", "float32")


def _plan_register(unit: VectorUnit, name: str, tensor: LocalTensor) -> VectorPlan:
    """Plan GetCmpMask or SetCmpMask: a copy of 16 bytes."""
    gets = name == "GetCmpMask"
    types = _REGISTER_TYPES if gets else (*_REGISTER_TYPES, "int64", "uint64")
    check_type(name, "dst" if gets else "src", tensor, types)
    if tensor.address % CMP_MASK_BYTES or tensor.nbytes < CMP_MASK_BYTES:
        raise KernelError(
            f"{name} with {tensor!r}", f"it has {CMP_MASK_BYTES} bytes or more, and begins at a multiple of them"
        )
    register = unit.core.memory(Space.CMP_MASK)
    in_ub = tensor.view.view(np.uint8)[:CMP_MASK_BYTES]
    of_tensor = ((tensor.memory, tensor.address, tensor.address + CMP_MASK_BYTES),)
    of_register = ((register, 0, CMP_MASK_BYTES),)
    dst, src = (in_ub, register.bytes) if gets else (register.bytes, in_ub)
    reads, writes = (of_register, of_tensor) if gets else (of_tensor, of_register)
    return VectorPlan(name, plain_cost(unit.core, name, 1), reads, writes, partial(np.copyto, dst, src))


def Select(
    dst: LocalTensor,
    sel_mask: LocalTensor | None,
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
        sel_mask: The bits, as Compare writes them: uint8, uint16, uint32 or uint64 in UB. None takes those of CmpMask,
            with VSEL_CMPMASK_SPR.
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
    if sel_mask is None and sel_mode is not SELMODE.VSEL_CMPMASK_SPR:
        raise KernelError(f"Select with {sel_mode} and no sel_mask", "CmpMask has bits for VSEL_CMPMASK_SPR only")
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
    sel_mask: LocalTensor | None,
    src0: LocalTensor,
    src1: LocalTensor | None,
    mode: SELMODE,
    count: Mask,
    repeat_time: int | None,
    params: BinaryRepeatParams,
) -> VectorPlan:
    check_type(name, "dst", dst, FLOATS)
    sources = (src0,) if src1 is None else (src0, src1)
    for index, source in enumerate(sources):
        check_type(name, f"src{index}", source, (dst.dtype.name,))
    if repeat_time is None:
        check_count(name, count)
    itemsize, lanes = dst.dtype.itemsize, lanes_of(dst)
    to, at0, at1, to_next, at0_next, at1_next = params
    written = access_of(itemsize, lanes, count, repeat_time, (to, to_next))
    reads = _reads_of(name, sources, lanes, count, repeat_time, ((at0, at0_next), (at1, at1_next)))
    # The bit of each element.
    lane = access_of(itemsize, lanes, count, repeat_time, (1, 8)).indices
    if mode is SELMODE.VSEL_CMPMASK_SPR:
        lane = lane % lanes
    bits = counted(1, lanes // 8, int(lane.max(initial=-1)) // 8 + 1)
    check_reach(name, "dst", dst, written)
    mask_memory, mask_at, mask_bytes = _mask_of(unit, name, sel_mask, bits.size)
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
        + bits.ranges(mask_memory, mask_at),
        written.ranges(dst.memory, dst.address),
        compute,
    )


def _mask_of(unit: VectorUnit, name: str, sel_mask: LocalTensor | None, nbytes: int) -> tuple[Any, int, Any]:
    """Return the memory of the bits, where they begin, and their bytes."""
    if sel_mask is None:
        register = unit.core.memory(Space.CMP_MASK)
        return register, 0, register.bytes
    check_type(name, "selMask", sel_mask, MASKS)
    mask_bytes = sel_mask.view.view(np.uint8)
    if sel_mask.address % BLOCK or nbytes > len(mask_bytes):
        raise KernelError(
            f"{name}: selMask {sel_mask!r}", f"it must be aligned to {BLOCK} bytes and have {nbytes} of them"
        )
    return sel_mask.memory, sel_mask.address, mask_bytes
