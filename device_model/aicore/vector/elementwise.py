"""Vector instructions that work element by element.

Each has two forms, as in Ascend C:

    Add(dst, src0, src1, count)                                   the first *count* elements
    Add(dst, src0, src1, mask, repeat_time, repeat_params)        masked, strided repeats of 256 bytes, see `masks`

Source and destination may be the same elements; if they overlap in part, that is the finding PARTIAL_OVERLAP. Types are
those of Atlas A2 and A3; others are refused. Operands lie in the UB, and start at multiples of 32 bytes.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from device_model.aicore.core.names import RoundMode
from device_model.aicore.core.packed import int4b_t, unpack
from device_model.aicore.core.tensors import LARGEST, LocalTensor
from device_model.aicore.core.unknown import Unknown
from device_model.aicore.vector.casts import CASTS, cast
from device_model.aicore.vector.masks import (
    BINARY,
    UNARY,
    Access,
    BinaryRepeatParams,
    Lanes,
    Mask,
    UnaryRepeatParams,
    counted,
    frozen,
    in_pairs,
    strided,
)
from device_model.aicore.vector.math import (
    add_relu,
    axpy,
    larger,
    leaky_relu,
    multiply_add,
    multiply_add_relu,
    reciprocal,
    relu,
    rsqrt,
    shift_left,
    shift_right,
    smaller,
    subtract_relu,
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
    vector_unit,
)
from device_model.kernel.findings import KernelError

FLOATS = ("float16", "float32")
NUMBERS = ("float16", "float32", "int16", "int32")
BITS = ("int16", "uint16")
SHIFTED = (*BITS, "int32", "uint32")
WORDS = ("float16", "bfloat16", "int16", "uint16", "float32", "int32", "uint32")  # of 16 and 32 bits

Strides = tuple[int, int]  # of blocks, of repeats
Compute = Callable[..., object]
_I = TypeVar("_I")


def access_of(itemsize: int, lanes: int, count: Mask, repeat_time: int | None, strides: Strides) -> Access:
    """Return the elements of an operand, in either form of an instruction."""
    if repeat_time is None:
        assert isinstance(count, int)
        return counted(itemsize, lanes, count)
    return strided(itemsize, lanes, count, repeat_time, *strides)


def _access(tensor: LocalTensor, lanes: int, count: Mask, repeat_time: int | None, strides: Strides) -> Access:
    """Do as `access_of` for *tensor*; of int4b_t it is the access to its bytes, of which one has two elements."""
    if tensor.dtype is not int4b_t:
        return access_of(tensor.dtype.itemsize, lanes, count, repeat_time, strides)
    return access_of(1, lanes // 2, in_pairs(count, lanes), repeat_time, strides)


def elementwise(
    unit: VectorUnit,
    name: str,
    compute: Compute,
    dst: LocalTensor,
    sources: Sequence[LocalTensor],
    count: Mask,
    repeat_time: int | None,
    dst_strides: Strides,
    strides: Sequence[Strides],
) -> VectorPlan:
    """Plan `compute(*scalar, *sources, out)`; check counts, sizes and overlaps, but not types."""
    core = unit.core
    if repeat_time is None:
        check_count(name, count)
    lanes = lanes_of(dst, *sources)
    try:
        written = _access(dst, lanes, count, repeat_time, dst_strides)
        reads = [
            (tensor, _access(tensor, lanes, count, repeat_time, each))
            for tensor, each in zip(sources, strides, strict=True)
        ]
    except KernelError as error:
        raise KernelError(f"{name}: {error.what}", error.remedy) from None
    check_reach(name, "dst", dst, written)
    for index, (tensor, access) in enumerate(reads):
        check_reach(name, f"src{index}" if len(reads) > 1 else "src", tensor, access)
    stepwise = check_overlap(core, name, dst, written, reads)
    return VectorPlan(
        name,
        cost(
            core,
            name,
            tuple((tensor.address, access) for tensor, access in reads),
            (dst.address, written),
            whole=written.size == written.repeats * (lanes // 2 if dst.dtype is int4b_t else lanes),
        ),
        tuple(part for tensor, access in reads for part in access.ranges(tensor.memory, tensor.address)),
        written.ranges(dst.memory, dst.address),
        _work(compute, dst, written, reads, stepwise=stepwise),
        _saturation(dst, written) if dst.dtype.name in LARGEST else None,
    )


def _saturation(dst: LocalTensor, written: Access) -> Compute:
    """Return a function that makes results finite: infinity becomes the largest number, and NaN becomes 0."""
    out, largest = dst.view, LARGEST[dst.dtype.name]

    def saturate() -> None:
        results = out[written.where].astype(np.float32)
        out[written.where] = np.nan_to_num(results, nan=0.0, posinf=largest, neginf=-largest).astype(out.dtype)

    return saturate


def _work(
    compute: Compute,
    dst: LocalTensor,
    written: Access,
    reads: Sequence[tuple[LocalTensor, Access]],
    *,
    stepwise: bool,
) -> Compute:
    """Return the NumPy work: on views where possible, or through indices.

    If a repeat reads the results of an earlier one (*stepwise*), it works repeat by repeat.
    """
    out = dst.view
    views = [tensor.view for tensor, _ in reads]
    if stepwise:
        steps = [
            ([access.of_repeat(repeat) for _, access in reads], written.of_repeat(repeat))
            for repeat in range(written.repeats)
        ]

        def by_repeats(*scalars: Any) -> None:
            for where, to in steps:
                inputs = [view[each].copy() for view, each in zip(views, where, strict=True)]
                result = np.empty(len(inputs[0]), out.dtype)
                compute(*scalars, *inputs, result)
                out[to] = result

        return by_repeats
    if isinstance(written.where, slice):
        target = out[written.where]
        if all(isinstance(access.where, slice) for _, access in reads):
            return partial_last(
                compute, [view[access.where] for view, (_, access) in zip(views, reads, strict=True)], target
            )

    size = written.size

    def through_indices(*scalars: Any) -> None:
        result = np.empty(size, out.dtype)
        compute(*scalars, *[view[access.where] for view, (_, access) in zip(views, reads, strict=True)], result)
        out[written.where] = result

    return through_indices


def partial_last(compute: Compute, inputs: Sequence[Any], out: Any) -> Compute:
    """Return *compute* with its last arguments given; scalars come before them."""
    if len(inputs) == 1:
        (one,) = inputs
        return lambda *scalars: compute(*scalars, one, out)
    if len(inputs) == 2:
        one, two = inputs
        return lambda *scalars: compute(*scalars, one, two, out)
    return lambda *scalars: compute(*scalars, *inputs, out)


def typed(name: str, scalar: Any, dtype: np.dtype[Any]) -> Any:
    """Return *scalar* as a value of *dtype*; one that is unknown as it is."""
    if isinstance(scalar, Unknown):
        return scalar
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if int(scalar) != scalar or not limits.min <= scalar <= limits.max:
            raise KernelError(
                f"{name}: the scalar {scalar!r} does not fit the type {dtype}", "give a number of the tensors' type"
            )
        return dtype.type(int(scalar))
    return dtype.type(scalar)


class Unary(Protocol):
    """An instruction with one source."""

    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        count: Lanes,
        repeat_time: int | None = None,
        repeat_params: UnaryRepeatParams = ...,
    ) -> None:
        """`(dst, src, count)` or `(dst, src, mask, repeat_time, repeat_params)`."""


class Binary(Protocol):
    """An instruction with two sources."""

    def __call__(
        self,
        dst: LocalTensor,
        src0: LocalTensor,
        src1: LocalTensor,
        count: Lanes,
        repeat_time: int | None = None,
        repeat_params: BinaryRepeatParams = ...,
    ) -> None:
        """`(dst, src0, src1, count)` or `(dst, src0, src1, mask, repeat_time, repeat_params)`."""


class Scalar(Protocol):
    """An instruction with one source and a scalar."""

    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        scalar: float,
        count: Lanes,
        repeat_time: int | None = None,
        repeat_params: UnaryRepeatParams = ...,
    ) -> None:
        """`(dst, src, scalar, count)` or `(dst, src, scalar, mask, repeat_time, repeat_params)`."""


def _check_same(name: str, types: Sequence[str], dst: LocalTensor, *sources: LocalTensor, widens: bool = False) -> None:
    check_type(name, "dst", dst, types)
    are_half = widens and dst.dtype == np.float32 and sources[0].dtype == np.float16
    for index, source in enumerate(sources):
        wanted = "float16" if are_half else dst.dtype.name
        check_type(name, f"src{index}" if len(sources) > 1 else "src", source, (wanted,))


def unary(name: str, compute: Compute, types: Sequence[str], doc: str) -> Unary:
    """Make an instruction with one source."""
    plan = _plan_of_unary(compute, types)

    def instruction(
        dst: LocalTensor,
        src: LocalTensor,
        count: Lanes,
        repeat_time: int | None = None,
        repeat_params: UnaryRepeatParams = UNARY,
    ) -> None:
        issue((name, dst, src, frozen(count, repeat_time), repeat_time, repeat_params), plan)

    return _named(instruction, name, doc)


def _plan_of_unary(compute: Compute, types: Sequence[str]) -> Callable[..., VectorPlan]:
    def plan(unit: VectorUnit, *key: Any) -> VectorPlan:
        name, dst, src, mask, repeat_time, (to, at, to_next, at_next) = key
        _check_same(name, types, dst, src)
        return elementwise(unit, name, compute, dst, (src,), mask, repeat_time, (to, to_next), ((at, at_next),))

    return plan


def _binary(
    name: str,
    compute: Compute,
    types: Sequence[str],
    doc: str,
    *,
    reads_dst: int | None = None,
    widens: bool = False,
) -> Binary:
    """Make an instruction with two sources.

    *reads_dst* is the index before which `compute` takes the old contents of dst among its sources; None if it does
    not read dst. With *widens*, sources may be half where dst is float.
    """

    def plan(unit: VectorUnit, *key: Any) -> VectorPlan:
        _, dst, *sources, mask, repeat_time, repeat_params = key
        _check_same(name, types, dst, *sources, widens=widens)
        to, at0, at1, to_next, at0_next, at1_next = repeat_params
        strides = [(at0, at0_next), (at1, at1_next)]
        if reads_dst is not None:
            sources.insert(reads_dst, dst)
            strides.insert(reads_dst, (to, to_next))
        return elementwise(unit, name, compute, dst, sources, mask, repeat_time, (to, to_next), strides)

    def instruction(
        dst: LocalTensor,
        src0: LocalTensor,
        src1: LocalTensor,
        count: Lanes,
        repeat_time: int | None = None,
        repeat_params: BinaryRepeatParams = BINARY,
    ) -> None:
        issue((name, dst, src0, src1, frozen(count, repeat_time), repeat_time, repeat_params), plan)

    return _named(instruction, name, doc)


def _scalar(name: str, compute: Compute, types: Sequence[str], doc: str) -> Scalar:
    make = _plan_of_unary(compute, types)

    def instruction(
        dst: LocalTensor,
        src: LocalTensor,
        scalar: float,
        count: Lanes,
        repeat_time: int | None = None,
        repeat_params: UnaryRepeatParams = UNARY,
    ) -> None:
        mask, unit = frozen(count, repeat_time), vector_unit()
        plan = unit.plan_of((name, dst, src, mask, repeat_time, repeat_params), make)
        unit.issue(plan, partial(plan.compute, typed(name, scalar, src.dtype)))

    return _named(instruction, name, doc)


def _named(instruction: _I, name: str, doc: str) -> _I:
    instruction.__name__ = instruction.__qualname__ = name  # type: ignore[attr-defined]
    instruction.__doc__ = f"{doc}\n\n    (Ascend C: {name}.){_CONTRACT}"
    return instruction


# The part of the docstrings that all instructions of this kind share.
_CONTRACT = """ Runs on the vector pipe (V), after its earlier instructions; order other pipes with flags or queues.

    Args:
        dst: The tensor to write, in UB, starting at a multiple of 32 bytes.
        src: The tensor to read (src0 and src1 where there are two), in UB and of the same type.
        scalar: Where there is one, a number of the tensors' type.
        count: The number of elements; or, with *repeat_time*, the mask: a number of lanes, 64-bit words of bits, or
            MASK_PLACEHOLDER.
        repeat_time: The number of repeats of 256 bytes, 0 to 255.
        repeat_params: Strides between blocks and repeats, in blocks of 32 bytes, 0 to 255.

    Raises:
        KernelError: The core has no vector pipe, or a type, a count, a mask or a stride is impossible.
    """


Add = _binary("Add", np.add, NUMBERS, "dst = src0 + src1; integers wrap.")
Sub = _binary("Sub", np.subtract, NUMBERS, "dst = src0 - src1; integers wrap.")
Mul = _binary("Mul", np.multiply, NUMBERS, "dst = src0 * src1; integers wrap.")
Div = _binary("Div", np.divide, FLOATS, "dst = src0 / src1.")
Max = _binary("Max", larger, NUMBERS, "dst = the larger of src0 and src1; NaN if one is.")
Min = _binary("Min", smaller, NUMBERS, "dst = the smaller of src0 and src1; NaN if one is.")
And = _binary("And", np.bitwise_and, BITS, "dst = src0 & src1, bit by bit.")
Or = _binary("Or", np.bitwise_or, BITS, "dst = src0 | src1, bit by bit.")
AddRelu = _binary("AddRelu", add_relu, (*FLOATS, "int16"), "dst = max(src0 + src1, 0).")
SubRelu = _binary("SubRelu", subtract_relu, (*FLOATS, "int16"), "dst = max(src0 - src1, 0).")
MulAddDst = _binary(
    "MulAddDst",
    multiply_add,
    FLOATS,
    "dst = src0 * src1 + dst, rounded once; sources may be half where dst is float.",
    reads_dst=2,
    widens=True,
)
FusedMulAdd = _binary("FusedMulAdd", multiply_add, FLOATS, "dst = src0 * dst + src1, rounded once.", reads_dst=1)
FusedMulAddRelu = _binary(
    "FusedMulAddRelu", multiply_add_relu, FLOATS, "dst = max(src0 * dst + src1, 0), rounded once.", reads_dst=1
)

Abs = unary("Abs", np.abs, FLOATS, "dst = |src|.")
Exp = unary("Exp", np.exp, FLOATS, "dst = e to the power of src.")
Ln = unary("Ln", np.log, FLOATS, "dst = natural logarithm of src.")
Sqrt = unary("Sqrt", np.sqrt, FLOATS, "dst = square root of src.")
Rsqrt = unary("Rsqrt", rsqrt, FLOATS, "dst = 1 / square root of src.")
Reciprocal = unary("Reciprocal", reciprocal, FLOATS, "dst = 1 / src.")
Relu = unary("Relu", relu, (*FLOATS, "int32"), "dst = max(src, 0).")
Not = unary("Not", np.invert, BITS, "dst = ~src, bit by bit.")

Adds = _scalar("Adds", np.add, NUMBERS, "dst = src + scalar.")
Muls = _scalar("Muls", np.multiply, NUMBERS, "dst = src * scalar.")
Maxs = _scalar("Maxs", larger, NUMBERS, "dst = the larger of src and scalar.")
Mins = _scalar("Mins", smaller, NUMBERS, "dst = the smaller of src and scalar.")
ShiftLeft = _scalar("ShiftLeft", shift_left, SHIFTED, "dst = src << scalar, which is 0 to the width of the type.")
ShiftRight = _scalar("ShiftRight", shift_right, SHIFTED, "dst = src >> scalar; negative numbers stay negative.")
LeakyRelu = _scalar("LeakyRelu", leaky_relu, FLOATS, "dst = src where it is not negative, else src * scalar.")


def Axpy(
    dst: LocalTensor,
    src: LocalTensor,
    scalar: float,
    count: Lanes,
    repeat_time: int | None = None,
    repeat_params: UnaryRepeatParams = UNARY,
) -> None:
    """Dst = src * scalar + dst, rounded once (Ascend C: Axpy).

    Runs on the vector pipe. Arguments are those of Muls, but src may be half where dst is float.

    Raises:
        KernelError: As for Muls.
    """
    mask, unit = frozen(count, repeat_time), vector_unit()
    plan = unit.plan_of(("Axpy", dst, src, mask, repeat_time, repeat_params), _plan_axpy)
    unit.issue(plan, partial(plan.compute, typed("Axpy", scalar, src.dtype)))


def _plan_axpy(unit: VectorUnit, *key: Any) -> VectorPlan:
    _, dst, src, mask, repeat_time, (to, at, to_next, at_next) = key
    check_type("Axpy", "dst", dst, FLOATS)
    check_type("Axpy", "src", src, FLOATS if dst.dtype == np.float32 else ("float16",))
    strides = ((at, at_next), (to, to_next))
    return elementwise(unit, "Axpy", axpy, dst, (src, dst), mask, repeat_time, (to, to_next), strides)


def Cast(
    dst: LocalTensor,
    src: LocalTensor,
    round_mode: RoundMode,
    count: Lanes,
    repeat_time: int | None = None,
    repeat_params: UnaryRepeatParams = UNARY,
) -> None:
    """Dst = src, converted to the type of dst (Ascend C: Cast).

    Runs on the vector pipe. A repeat is 256 bytes of the wider type. Values beyond the range of an integer type
    saturate; float to float rounds to whole numbers; int32 to half is multiplied by the factor of SetDeqScale, whatever
    the mode. In place, a type may become one of the same width or a narrower one, as in public kernels. The results of
    a wider one would lie on bytes that are still to be read. Of int4b_t, whose bytes hold two elements each, the count
    is even, and a mask takes both elements of a byte or none.

    Args:
        dst: The tensor to write, in UB.
        src: The tensor to read, in UB.
        round_mode: How to round; which modes there are depends on the two types.
        count: The number of elements; or, with *repeat_time*, the mask.
        repeat_time: The number of repeats, 0 to 255.
        repeat_params: Strides in blocks of 32 bytes, 0 to 255.

    Raises:
        KernelError: There is no such conversion or mode, or a count, a mask or a stride is impossible.
    """
    unit = vector_unit()
    mask = frozen(count, repeat_time)
    plan = unit.plan_of(("Cast", dst, src, round_mode, mask, repeat_time, repeat_params, unit.deq_scale), _plan_cast)
    unit.issue(plan, plan.compute)


def SetDeqScale(scale: float) -> None:
    """Set the factor of casts from int32 to half (Ascend C: SetDeqScale); no pipe waits.

    Args:
        scale: The factor, which is rounded to half.

    Raises:
        KernelError: The core has no vector pipe, or the factor is no number of the type half.
    """
    factor = np.float64(scale).astype(np.float16)
    if not np.isfinite(factor):
        raise KernelError(f"SetDeqScale({scale!r})", f"the factor is a half: -{_MOST_HALF:.0f} to {_MOST_HALF:.0f}")
    vector_unit().deq_scale = float(factor)


_MOST_HALF = np.finfo(np.float16).max


def _plan_cast(unit: VectorUnit, *key: Any) -> VectorPlan:
    _, dst, src, round_mode, mask, repeat_time, (to, at, to_next, at_next), scale = key
    _check_cast(dst, src, round_mode)
    dtype = dst.dtype
    scaled = src.dtype == np.int32 and dtype == np.float16
    if scaled and scale is None:
        raise KernelError("Cast from int32 to float16 without a factor", "call SetDeqScale(factor) first")

    def compute(x: Any, out: Any) -> None:
        if scaled:
            out[...] = x.astype(np.float64) * scale
        else:
            out[...] = cast(unpack(x) if src.dtype is int4b_t else x, dtype, round_mode)

    return elementwise(unit, "Cast", compute, dst, (src,), mask, repeat_time, (to, to_next), ((at, at_next),))


def _check_cast(dst: LocalTensor, src: LocalTensor, mode: RoundMode) -> None:
    sources = sorted({source for source, _ in CASTS})
    check_type("Cast", "src", src, sources)
    source = src.dtype.name
    check_type("Cast", f"dst (from {source})", dst, [to for origin, to in CASTS if origin == source])
    modes = CASTS[source, dst.dtype.name]
    if mode not in modes:
        raise KernelError(
            f"Cast from {src.dtype} to {dst.dtype} with {mode}", f"it takes {', '.join(each.name for each in modes)}"
        )
