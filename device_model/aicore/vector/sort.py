"""Sorting: Sort32 sorts groups of 32 scores, MrgSort merges up to four sorted lists; both with indices, descending.

A sorted list consists of 8-byte records: the score (a float, or a half and two unused bytes), then a uint32 index.
"""

from collections.abc import MutableSequence, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.vector.elementwise import FLOATS
from device_model.aicore.vector.masks import counted
from device_model.aicore.vector.unit import (
    VectorPlan,
    VectorUnit,
    check_overlap,
    check_reach,
    check_type,
    issue,
    plain_cost,
    vector_unit,
)
from device_model.kernel.findings import KernelError

GROUP = 32
RECORD = 8  # bytes
MAX_LIST = 4095


class MrgSortSrcList(NamedTuple):
    """Four lists of records for MrgSort, which merges those whose bit is set in `MrgSort4Info.valid_bit`."""

    src1: LocalTensor
    src2: LocalTensor
    src3: LocalTensor
    src4: LocalTensor


class MrgSort4Info(NamedTuple):
    """Parameters of MrgSort (Ascend C: MrgSort4Info).

    Attributes:
        element_lengths: The number of records of each list, 1 to 4095.
        if_exhausted_suspension: Whether the merge stops when a list is used up.
        valid_bit: A bit for each list that is merged: 0b11, 0b111 or 0b1111.
        repeat_times: How many groups of four lists are merged. Above 1, all lists have the same length and follow each
            other in memory without a gap.
    """

    element_lengths: Sequence[int]
    if_exhausted_suspension: bool = False
    valid_bit: int = 15
    repeat_times: int = 1


def _record(dtype: Any) -> np.dtype[Any]:
    return np.dtype({"names": ["score", "index"], "formats": [dtype, np.uint32], "offsets": [0, 4], "itemsize": RECORD})


def Sort32(dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, repeat_time: int) -> None:
    """Sort each 32 scores, with their indices, into records, largest first (Ascend C: Sort32).

    Runs on the vector pipe. Equal scores stay in order.

    Args:
        dst: The records, 8 bytes each: of the type of src0, in UB.
        src0: The scores: half or float32.
        src1: Their indices: uint32.
        repeat_time: How many groups of 32 are sorted.

    Raises:
        KernelError: A type or number is impossible, or a tensor is too small.
    """

    def plan(unit: VectorUnit, *_: Any) -> VectorPlan:
        check_type("Sort32", "src0", src0, FLOATS)
        check_type("Sort32", "dst", dst, (src0.dtype.name,))
        check_type("Sort32", "src1", src1, ("uint32",))
        if not 0 < repeat_time <= 255:
            raise KernelError(f"Sort32: {repeat_time} repeats", "an instruction takes 1 to 255")
        size = GROUP * repeat_time
        scores, indices = counted(src0.dtype.itemsize, GROUP, size), counted(4, GROUP, size)
        itemsize = dst.dtype.itemsize
        written = counted(itemsize, GROUP * RECORD // itemsize, size * RECORD // itemsize)
        for role, tensor, access in (("dst", dst, written), ("src0", src0, scores), ("src1", src1, indices)):
            check_reach("Sort32", role, tensor, access)
        check_overlap(unit.core, "Sort32", dst, written, ((src0, scores), (src1, indices)))
        score, index = src0.view[:size].reshape(-1, GROUP), src1.view[:size].reshape(-1, GROUP)
        out = dst.view[: written.size].view(np.uint8).view(_record(src0.dtype)).reshape(-1, GROUP)

        def compute() -> None:
            order = _descending(score)
            out["score"] = np.take_along_axis(score, order, 1)
            out["index"] = np.take_along_axis(index, order, 1)

        return VectorPlan(
            "Sort32",
            plain_cost(unit.core, "Sort32", repeat_time),
            scores.ranges(src0.memory, src0.address) + indices.ranges(src1.memory, src1.address),
            written.ranges(dst.memory, dst.address),
            compute,
        )

    issue(("Sort32", dst, src0, src1, repeat_time), plan)


def _descending(scores: Any) -> Any:
    """Return the stable order of *scores* along the last axis, largest first."""
    return scores.shape[-1] - 1 - np.argsort(scores[..., ::-1], axis=-1, kind="stable")[..., ::-1]


def MrgSort(
    dst: LocalTensor,
    sort_list: Sequence[LocalTensor],
    params: MrgSort4Info | Sequence[int],
    sorted_num: MutableSequence[int] | None = None,
    valid_bit: int = 15,
    repeat_time: int = 1,
    *,
    is_exhausted_suspension: bool = False,
) -> tuple[int, int, int, int]:
    """Merge up to four sorted lists of records into dst (Ascend C: MrgSort), on the vector pipe.

    Records with equal scores keep the order of their lists. With *if_exhausted_suspension* the merge stops when a list
    is used up, and dst has the records so far.

    Args:
        dst: The merged records, 8 bytes each, in UB: half or float32.
        sort_list: The lists, in UB, of the type of dst.
        params: Their lengths, and which of them are merged; or the lengths alone, and the arguments below say the rest.
        sorted_num: Gets what is returned.
        valid_bit: See MrgSort4Info.
        repeat_time: See MrgSort4Info.
        is_exhausted_suspension: See MrgSort4Info.

    Returns:
        How many records were taken from each list, in the last repeat.

    Raises:
        KernelError: A type, a length or the valid bits are impossible, or a tensor is too small.
    """
    unit = vector_unit()
    rest = is_exhausted_suspension, valid_bit, repeat_time
    if not isinstance(params, MrgSort4Info):
        params = MrgSort4Info(params, *rest)
    elif rest != (False, 15, 1):
        raise TypeError(f"MrgSort with {params!r} and {rest!r}: MrgSort4Info says what is merged")
    params = params._replace(element_lengths=tuple(params.element_lengths))
    plan = unit.plan_of(("MrgSort", dst, tuple(sort_list), params), _plan_merge)
    taken: list[tuple[int, int, int, int]] = []
    if params.if_exhausted_suspension:
        unit.core.check_values("MrgSort that stops when a list is used up")
    unit.issue(plan, partial(plan.compute, taken))
    if not unit.core.values:  # all records of the lists that are merged
        lengths = (*params.element_lengths, 0, 0, 0)[:4]
        first, second, third, fourth = (n if params.valid_bit >> place & 1 else 0 for place, n in enumerate(lengths))
        taken.append((first, second, third, fourth))
    unit.merged = taken[-1]
    if sorted_num is not None:
        sorted_num[:] = taken[-1]
    return taken[-1]


def GetMrgSortResult() -> tuple[int, int, int, int]:
    """Return how many records the last MrgSort of this core has taken from each list (Ascend C: GetMrgSortResult).

    Raises:
        KernelError: There was no MrgSort, or the core has no vector pipe.
    """
    unit = vector_unit()
    if unit.merged is None:
        raise KernelError(f"GetMrgSortResult on {unit.core.program}", "it has no MrgSort before")
    return unit.merged


def _lists_to_merge(dst: LocalTensor, lists: tuple[LocalTensor, ...], params: MrgSort4Info) -> list[int]:
    """Return the numbers of the lists that are merged; raise KernelError if the card could not merge them."""
    lengths, repeats = params.element_lengths, params.repeat_times
    used = [number for number in range(4) if params.valid_bit >> number & 1]
    if len(used) < 2 or used != list(range(len(used))) or len(lists) < len(used):
        raise KernelError(
            f"MrgSort with valid bits {params.valid_bit:#b} and {len(lists)} lists",
            "merge the first 2, 3 or 4: 0b11, 0b111, 0b1111",
        )
    check_type("MrgSort", "dst", dst, FLOATS)
    for number in used:
        check_type("MrgSort", f"list {number}", lists[number], (dst.dtype.name,))
        if not 0 < lengths[number] <= MAX_LIST:
            raise KernelError(f"MrgSort: list {number} of {lengths[number]} records", f"a list has 1 to {MAX_LIST}")
    if repeats != 1:
        step = lengths[0] * RECORD
        in_row = all(lists[number].address == lists[0].address + number * step for number in used)
        if len(used) < 4 or len(set(lengths)) > 1 or not in_row or params.if_exhausted_suspension or repeats < 1:
            raise KernelError(
                f"MrgSort with {repeats} repeats",
                "it takes four lists of one length, one behind the other, and no suspension",
            )
    return used


def _plan_merge(
    unit: VectorUnit, _: str, dst: LocalTensor, lists: tuple[LocalTensor, ...], params: MrgSort4Info
) -> VectorPlan:
    lengths, repeats = params.element_lengths, params.repeat_times
    used = _lists_to_merge(dst, lists, params)
    itemsize = dst.dtype.itemsize
    per_record = RECORD // itemsize
    merged = sum(lengths[number] for number in used)
    reads = [(lists[number], counted(itemsize, 1, lengths[number] * per_record)) for number in used]
    if repeats != 1:
        reads = [(lists[0], counted(itemsize, 1, merged * per_record * repeats))]
    written = counted(itemsize, 1, merged * per_record * repeats)
    check_reach("MrgSort", "dst", dst, written)
    if repeats == 1:
        for number, (tensor, access) in enumerate(reads):
            check_reach("MrgSort", f"list {number}", tensor, access)
    elif lists[0].address + merged * RECORD * repeats > lists[0].memory.size:
        raise KernelError(
            f"MrgSort: {repeats} repeats from {lists[0]!r}", f"they reach beyond the end of {lists[0].memory.name}"
        )
    check_overlap(unit.core, "MrgSort", dst, written, reads)
    memory = lists[0].memory
    record = _record(dst.dtype)
    out = dst.view[: written.size].view(np.uint8).view(record)
    stop_early = params.if_exhausted_suspension

    def compute(taken: list[tuple[int, ...]]) -> None:
        for repeat in range(repeats):
            shift = repeat * merged * RECORD
            parts = [
                memory.bytes[start : start + lengths[number] * RECORD].view(record)
                for number in used
                for start in (lists[number].address + shift,)
            ]
            chosen, counts = _merge(parts, stop_early=stop_early)
            out[repeat * merged : repeat * merged + len(chosen)] = chosen
            taken.append((*counts, *(0,) * (4 - len(counts))))

    return VectorPlan(
        "MrgSort",
        # A repeat of the cost table is 64 records.
        plain_cost(unit.core, "MrgSort", -(-merged * repeats // 64)),
        tuple((memory, tensor.address, tensor.address + access.size * itemsize) for tensor, access in reads),
        written.ranges(dst.memory, dst.address),
        compute,
    )


def _merge(parts: list[Any], *, stop_early: bool) -> tuple[Any, list[int]]:
    """Return the merged records of *parts*, and how many come from each."""
    records = np.concatenate(parts)
    origin = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    order = _descending(records["score"])
    if stop_early:
        last = [np.flatnonzero(origin[order] == number)[-1] for number in range(len(parts))]
        order = order[: min(last) + 1]
    counts = np.bincount(origin[order], minlength=len(parts))
    return records[order], [int(count) for count in counts]
