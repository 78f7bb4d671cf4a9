"""Vector instructions that gather and rearrange: Gather, GatherMask, Brcb, Transpose. All run on the vector pipe."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from device_model.aicore.core.names import BLOCK
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.vector.elementwise import WORDS, access_of
from device_model.aicore.vector.masks import REPEAT, Access, Lanes, counted, frozen, strided
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


class BrcbRepeatParams(NamedTuple):
    """Strides of Brcb's destination, in blocks of 32 bytes."""

    dst_blk_stride: int = 1
    dst_rep_stride: int = 8


class GatherMaskParams(NamedTuple):
    """Repeats of GatherMask and strides of its sources, in blocks of 32 bytes."""

    src0_block_stride: int = 1
    repeat_times: int = 1
    src0_repeat_stride: int = 8
    src1_repeat_stride: int = 0


def Gather(
    dst: LocalTensor,
    src: LocalTensor,
    src_offset: LocalTensor,
    src_base_addr: int,
    count: Lanes,
    repeat_time: int | None = None,
    dst_rep_stride: int = 8,
) -> None:
    """Gather elements by byte offsets: dst[i] = src at byte src_base_addr + src_offset[i] (Ascend C: Gather).

    Runs on the vector pipe.

    Args:
        dst: The tensor to write, in UB.
        src: The tensor to read, of the same type.
        src_offset: uint32 offsets in bytes, multiples of the element size; those of repeats are adjacent.
        src_base_addr: A number of bytes that is added to each offset.
        count: The number of elements; or, with *repeat_time*, the mask.
        repeat_time: The number of repeats, 0 to 255.
        dst_rep_stride: Blocks of 32 bytes from a repeat of dst to the next.

    Raises:
        KernelError: An offset lies outside src or is not a multiple of the element size, or a type or count
            is impossible.
    """
    mask = frozen(count, repeat_time)

    def plan(unit: VectorUnit, *_: Any) -> VectorPlan:
        check_type("Gather", "dst", dst, WORDS)
        check_type("Gather", "src", src, (dst.dtype.name,))
        check_type("Gather", "srcOffset", src_offset, ("uint32",))
        if repeat_time is None:
            check_count("Gather", mask)
        itemsize, lanes = dst.dtype.itemsize, lanes_of(dst)
        written = access_of(itemsize, lanes, mask, repeat_time, (1, dst_rep_stride))
        offsets = access_of(4, lanes, mask, repeat_time, (1, lanes * 4 // BLOCK))
        check_reach("Gather", "dst", dst, written)
        check_reach("Gather", "srcOffset", src_offset, offsets)
        check_overlap(unit.core, "Gather", dst, written, ((src_offset, offsets),))
        view, out, table = src.view, dst.view, src_offset.view
        unit.core.check_values(f"Gather by the offsets in {src_offset!r}")

        def compute() -> None:
            at = table[offsets.where].astype(np.int64) + src_base_addr
            if at.size and (int(at.max()) >= src.nbytes or (at % itemsize).any()):
                wrong = at[(at >= src.nbytes) | (at % itemsize != 0)][0]
                raise KernelError(
                    f"Gather: offset {wrong} from {src!r}",
                    f"offsets are bytes, multiples of {itemsize} below {src.nbytes}",
                )
            out[written.where] = view[at // itemsize]

        return VectorPlan(
            "Gather",
            plain_cost(unit.core, "Gather", written.repeats),
            (src.span, *offsets.ranges(src_offset.memory, src_offset.address)),
            written.ranges(dst.memory, dst.address),
            compute,
        )

    issue(("Gather", dst, src, src_offset, src_base_addr, mask, repeat_time, dst_rep_stride), plan)


class GatherRepeatParams(NamedTuple):
    """How the results of Gatherb lie (Ascend C: GatherRepeatParams).

    Attributes:
        dst_blk_stride: From one block of a repeat to the next, in blocks of 32 bytes; 0 means 1.
        dst_rep_stride: From one repeat to the next, in the same way.
    """

    dst_blk_stride: int = 1
    dst_rep_stride: int = 8


_GATHERED = GatherRepeatParams()


def Gatherb(
    dst: LocalTensor,
    src: LocalTensor,
    offset: LocalTensor,
    repeat_time: int,
    repeat_params: GatherRepeatParams = _GATHERED,
) -> None:
    """Gather blocks of 32 bytes by byte offsets, eight in each repeat (Ascend C: Gatherb).

    Runs on the vector pipe.

    Args:
        dst: The tensor to write, in UB: uint16 or uint32.
        src: The tensor to read, of the same type, and not dst.
        offset: uint32 offsets from the start of src in bytes, multiples of 32: eight for each repeat.
        repeat_time: The number of repeats, 0 to 255.
        repeat_params: How the results lie.

    Raises:
        KernelError: An offset lies outside src or is not a multiple of 32, or a type or number is impossible.
    """

    def plan(unit: VectorUnit, *_: Any) -> VectorPlan:
        check_type("Gatherb", "dst", dst, ("uint16", "uint32"))
        check_type("Gatherb", "src", src, (dst.dtype.name,))
        check_type("Gatherb", "offset", offset, ("uint32",))
        itemsize, lanes = dst.dtype.itemsize, lanes_of(dst)
        stride = repeat_params.dst_blk_stride or 1
        written = access_of(itemsize, lanes, lanes, repeat_time, (stride, repeat_params.dst_rep_stride))
        offsets = access_of(4, 8, 8, repeat_time, (1, 1))
        for role, tensor, access in (("dst", dst, written), ("offset", offset, offsets)):
            check_reach("Gatherb", role, tensor, access)
        if src.address < dst.address + dst.nbytes and dst.address < src.address + src.nbytes:
            raise KernelError(f"Gatherb from {src!r} to {dst!r}", "they must not overlap")
        view, out, table, count = src.view, dst.view, offset.view, repeat_time * 8
        unit.core.check_values(f"Gatherb by the offsets in {offset!r}")

        def compute() -> None:
            at = table[:count].astype(np.int64)
            wrong = at[(at + BLOCK > src.nbytes) | (at % BLOCK != 0)]
            if wrong.size:
                raise KernelError(
                    f"Gatherb: offset {wrong[0]} from {src!r}",
                    f"offsets are bytes, multiples of {BLOCK}, up to {src.nbytes - BLOCK}",
                )
            places = (at // itemsize)[:, None] + np.arange(BLOCK // itemsize)
            out[written.where] = view[places.ravel()]

        # Not measured: assumed to take a cycle for each repeat, as instructions that read whole blocks do.
        return VectorPlan(
            "Gatherb",
            plain_cost(unit.core, "Gatherb", repeat_time),
            (src.span, (offset.memory, offset.address, offset.address + count * 4)),
            written.ranges(dst.memory, dst.address),
            compute,
        )

    issue(("Gatherb", dst, src, offset, repeat_time, repeat_params), plan)


# Patterns 1 to 7: which elements of each pair, each four, or all.
_PATTERNS = {1: (0, 2), 2: (1, 2), 3: (0, 4), 4: (1, 4), 5: (2, 4), 6: (3, 4), 7: (0, 1)}


def GatherMask(
    dst: LocalTensor,
    src0: LocalTensor,
    src1_pattern: LocalTensor | int,
    reduce_mode: bool,
    mask: int,
    params: GatherMaskParams,
) -> int:
    """Copy the elements of src0 that a pattern selects to dst, without gaps (Ascend C: GatherMask).

    Runs on the vector pipe.

    Args:
        dst: The tensor to write, in UB.
        src0: The tensor to read, of the same type.
        src1_pattern: A tensor of bits, uint16 or uint32 for elements of 16 or 32 bits; or a fixed pattern: 1 and 2
            select the even and the odd elements, 3 to 6 one of each four, and 7 all.
        reduce_mode: Whether a repeat has *mask* elements instead of 256 bytes.
        mask: The elements of a repeat with *reduce_mode*; it has no effect without.
        params: Repeats and strides.

    Returns:
        The number of elements that were selected.

    Raises:
        KernelError: A type or pattern is impossible, or a tensor is too small.
    """
    unit = vector_unit()
    if isinstance(src1_pattern, LocalTensor):
        unit.core.check_values(f"GatherMask by the bits of {src1_pattern!r}")
    plan = unit.plan_of(("GatherMask", dst, src0, src1_pattern, reduce_mode, mask, params), _plan_gather_mask)
    counts: list[int] = []
    unit.issue(plan, partial(plan.compute, counts))
    if not unit.core.values:
        each = mask if reduce_mode else lanes_of(src0)
        return int(_fixed(src1_pattern, each * params.repeat_times, each).sum())
    return counts[0]


def _fixed(pattern: Any, size: int, each: int) -> Any:
    """Return which of *size* elements, *each* of them in a repeat, a fixed *pattern* selects."""
    first, of = _PATTERNS[pattern]
    return np.arange(size) % each % of == first


def _plan_gather_mask(
    unit: VectorUnit,
    name: str,
    dst: LocalTensor,
    src0: LocalTensor,
    pattern: LocalTensor | int,
    reduce_mode: bool,
    mask: int,
    params: GatherMaskParams,
) -> VectorPlan:
    check_type(name, "dst", dst, WORDS)
    check_type(name, "src0", src0, (dst.dtype.name,))
    itemsize, lanes = src0.dtype.itemsize, lanes_of(src0)
    each = mask if reduce_mode else lanes
    check_count(name, each)
    read = _gather_rows(itemsize, each, params)
    check_reach(name, "src0", src0, read)
    reads = read.ranges(src0.memory, src0.address)
    if isinstance(pattern, LocalTensor):
        check_type(name, "src1Pattern", pattern, ("uint16",) if itemsize == 2 else ("uint32",))
        step = params.src1_repeat_stride * BLOCK * 8
        bits = (np.arange(params.repeat_times)[:, None] * step + np.arange(each)).ravel()
        table = pattern.view.view(np.uint8)
        needed = int(bits.max(initial=-1)) // 8 + 1
        if pattern.address % BLOCK or needed > len(table):
            raise KernelError(
                f"{name}: src1Pattern {pattern!r}", f"it must be aligned to {BLOCK} bytes and have {needed} of them"
            )
        reads += ((pattern.memory, pattern.address, pattern.address + needed),)
        picked: Callable[[], Any] = lambda: np.unpackbits(table[:needed], bitorder="little")[bits].view(bool)  # noqa: E731
    elif pattern in _PATTERNS:
        fixed = _fixed(pattern, read.size, each)
        picked = lambda: fixed  # noqa: E731
    else:
        raise KernelError(f"{name}: pattern {pattern!r}", "fixed patterns are 1 to 7")
    view, out = src0.view, dst.view
    # A tensor of bits tells only when it is read how many elements it selects: at most as many as fit in dst.
    most = read.size if isinstance(pattern, LocalTensor) else int(picked().sum())
    written = counted(itemsize, lanes, min(most, dst.size))
    if not _stays_behind(dst, src0, read, each if isinstance(pattern, LocalTensor) else int(picked()[:each].sum())):
        check_overlap(unit.core, name, dst, written, ((src0, read),))

    def compute(counts: list[int]) -> None:
        chosen = view[read.where][picked()]
        if len(chosen) > len(out):
            raise KernelError(
                f"{name}: {len(chosen)} elements for {dst!r}", "make dst large enough for all selected elements"
            )
        out[: len(chosen)] = chosen
        counts.append(len(chosen))

    return VectorPlan(
        name,
        plain_cost(unit.core, name, -(-read.size // lanes)),
        reads,
        written.ranges(dst.memory, dst.address),
        compute,
    )


def _stays_behind(dst: LocalTensor, src0: LocalTensor, read: Access, picked: int) -> bool:
    """Do the results of GatherMask lie in *src0*, on bytes that earlier repeats have read or this one reads?

    Public kernels gather in place. *picked* is the most that a repeat selects.
    """
    if not src0.address <= dst.address < src0.address + src0.nbytes:
        return False
    first_read = read.indices[:: read.step]
    ends = (dst.address - src0.address) // dst.dtype.itemsize + picked * np.arange(read.repeats)
    return bool((ends <= first_read).all())


def _gather_rows(itemsize: int, each: int, params: GatherMaskParams) -> Access:
    """Return the access to *each* elements per repeat, with the strides of *params*."""
    per_block = BLOCK // itemsize
    one = np.arange(each)
    in_repeat = one // per_block * params.src0_block_stride * per_block + one % per_block
    indices = (np.arange(params.repeat_times)[:, None] * params.src0_repeat_stride * per_block + in_repeat).ravel()
    return Access.of(indices, itemsize, each, indices.reshape(params.repeat_times, -1)[:, :1] // per_block)


# Rearrange


def Brcb(dst: LocalTensor, src0: LocalTensor, repeat_time: int, repeat_params: BrcbRepeatParams) -> None:
    """Repeat each element of src0 through a block of 32 bytes of dst (Ascend C: Brcb), on the vector pipe.

    Args:
        dst: The tensor to write, in UB: 8 blocks per repeat.
        src0: The tensor to read, 8 elements per repeat, of the same type: 16 or 32 bits.
        repeat_time: The number of repeats, 0 to 255.
        repeat_params: The strides of dst.

    Raises:
        KernelError: A type or stride is impossible, or a tensor is too small.
    """
    _brcb(dst, src0, repeat_time, repeat_params, 8 * repeat_time)


def brcb_first(dst: LocalTensor, src0: LocalTensor, count: int) -> None:
    """Repeat each of the first *count* elements through a block, for functions of any number of rows.

    A card reads whole groups of 8; the blocks that it makes of the elements after these are not used.
    """
    _brcb(dst, src0, -(-count // 8), BrcbRepeatParams(), count)


def _brcb(dst: LocalTensor, src0: LocalTensor, repeat_time: int, repeat_params: BrcbRepeatParams, count: int) -> None:
    def plan(unit: VectorUnit, *_: Any) -> VectorPlan:
        check_type("Brcb", "dst", dst, WORDS)
        check_type("Brcb", "src0", src0, (dst.dtype.name,))
        itemsize = dst.dtype.itemsize
        lanes = lanes_of(dst)
        written = strided(
            itemsize, lanes, lanes, repeat_time, repeat_params.dst_blk_stride, repeat_params.dst_rep_stride
        )
        read = counted(itemsize, 8, count)
        check_reach("Brcb", "dst", dst, written)
        check_reach("Brcb", "src0", src0, read)
        check_overlap(unit.core, "Brcb", dst, written, ((src0, read),))
        view, out, where = src0.view[: read.size], dst.view, written.where
        each = BLOCK // itemsize

        def compute() -> None:
            blocks = np.zeros((repeat_time * 8, each), view.dtype)
            blocks[:count] = view[:, None]
            out[where] = blocks.ravel()

        return VectorPlan(
            "Brcb",
            cost(unit.core, "Brcb", (), (dst.address, written)),
            read.ranges(src0.memory, src0.address),
            written.ranges(dst.memory, dst.address),
            compute,
        )

    issue(("Brcb", dst, src0, repeat_time, repeat_params, count), plan)


def Transpose(dst: LocalTensor, src: LocalTensor) -> None:
    """Transpose a 16 x 16 matrix of 16-bit elements (Ascend C: Transpose), on the vector pipe.

    Args:
        dst: The tensor to write, in UB: int16, uint16 or half, 256 elements. It may be *src*.
        src: The tensor to read, of the same type, row by row.

    Raises:
        KernelError: A type is impossible, or a tensor is too small.
    """

    def plan(unit: VectorUnit, *_: Any) -> VectorPlan:
        check_type("Transpose", "dst", dst, ("int16", "uint16", "float16"))
        check_type("Transpose", "src", src, (dst.dtype.name,))
        whole = counted(2, REPEAT // 2, 256)
        check_reach("Transpose", "dst", dst, whole)
        check_reach("Transpose", "src", src, whole)
        if dst.address != src.address:
            check_overlap(unit.core, "Transpose", dst, whole, ((src, whole),))
        view, out = src.view[:256].reshape(16, 16), dst.view[:256].reshape(16, 16)

        def compute() -> None:
            out[...] = view.T.copy()

        return VectorPlan(
            "Transpose",
            plain_cost(unit.core, "Transpose", whole.repeats),
            whole.ranges(src.memory, src.address),
            whole.ranges(dst.memory, dst.address),
            compute,
        )

    issue(("Transpose", dst, src), plan)
