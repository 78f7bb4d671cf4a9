"""Sort: sorts any number of scores with their indices, made of Sort32 and MrgSort; Concat and Extract around it.

A sorted list consists of records of 8 bytes, as in `vector.sort`.
"""

import numpy.typing as npt

from device_model.aicore.core.tensors import LocalTensor, dtype_of, uint32
from device_model.aicore.moving.copies import DataCopy
from device_model.aicore.vector.elementwise import FLOATS
from device_model.aicore.vector.gather import GatherMask, GatherMaskParams
from device_model.aicore.vector.masks import MAX_REPEATS
from device_model.aicore.vector.sort import GROUP, MAX_LIST, RECORD, MrgSort, MrgSort4Info, Sort32
from device_model.aicore.vector.unit import check_type
from device_model.kernel.findings import KernelError

LISTS = 4  # that one MrgSort merges


def GetSortLen(elem_count: int, dtype: npt.DTypeLike) -> int:
    """Return how many elements of *dtype* the records of so many scores take (Ascend C: GetSortLen)."""
    return elem_count * RECORD // _score(dtype)


def GetSortOffset(elem_offset: int, dtype: npt.DTypeLike) -> int:
    """Return the element of *dtype* at which record *elem_offset* begins (Ascend C: GetSortOffset)."""
    return elem_offset * RECORD // _score(dtype)


def _score(dtype: npt.DTypeLike) -> int:
    resolved = dtype_of(dtype)
    if resolved.name not in FLOATS:
        raise KernelError(f"scores of {resolved}", f"they are {' or '.join(FLOATS)}")
    return resolved.itemsize


def Concat(
    concat: LocalTensor | None,  # noqa: ARG001 - Ascend C has it, and the result stands for it
    src: LocalTensor,
    tmp: LocalTensor | None,  # noqa: ARG001 - Ascend C has it, and it has no effect
    repeat_time: int,
) -> LocalTensor:
    """Return the scores for Sort (Ascend C: Concat): on Atlas A2 and A3 they are *src* itself, and no pipe is used.

    Args:
        concat: Has no effect; the result stands for it.
        src: The scores: half or float32, in UB.
        tmp: Has no effect.
        repeat_time: How many groups of 16 scores there are, 0 to 255.

    Raises:
        KernelError: A type or number is impossible, or *src* has fewer scores.
    """
    check_type("Concat", "src", src, FLOATS)
    if not 0 <= repeat_time <= MAX_REPEATS or 16 * repeat_time > src.size:
        raise KernelError(f"Concat of {repeat_time} groups of 16", f"0 to {MAX_REPEATS}; src has {src.size} scores")
    return src


def Sort(
    dst: LocalTensor, concat: LocalTensor, index: LocalTensor, tmp: LocalTensor, repeat_time: int, *, is_full_sort: bool
) -> None:
    """Sort scores with their indices, largest first (Ascend C: Sort).

    Made of Sort32, MrgSort and copies within UB.

    Args:
        dst: The records, 8 bytes each: of the type of *concat*, in UB.
        concat: The scores: half or float32.
        index: Their indices: uint32.
        tmp: The temporary buffer: of the type of *concat*, and as large as dst's records with *is_full_sort*.
        repeat_time: How many groups of 32 there are, 0 to 255.
        is_full_sort: Whether all scores are sorted; otherwise each group is.

    Raises:
        KernelError: A type or number is impossible, or a tensor is too small.
    """
    Sort32(dst, concat, index, repeat_time)
    if not is_full_sort or repeat_time < 2:
        return
    check_type("Sort", "tmp", tmp, (dst.dtype.name,))
    width = RECORD // dst.dtype.itemsize
    total = repeat_time * GROUP
    if tmp.size < total * width:
        raise KernelError(
            f"Sort of {total} scores with a temporary buffer of {tmp.size} elements",
            f"it needs {total * width}: GetSortLen({total}, {dst.dtype})",
        )
    here, there, length = dst, tmp, GROUP
    while length < total:
        _merge_level(there, here, length, total, width)
        here, there, length = there, here, length * LISTS
    if here is not dst:
        DataCopy(dst, here, total * width)


def _merge_level(dst: LocalTensor, src: LocalTensor, length: int, total: int, width: int) -> None:
    """Merge the lists of *length* records in src, four at a time; the last ones may be fewer or shorter."""
    group = length * LISTS
    if length > MAX_LIST:
        raise KernelError(f"Sort merges lists of {length} records", f"MrgSort takes at most {MAX_LIST}")
    whole = total // group
    if whole:
        lists = [src[each * length * width :] for each in range(LISTS)]
        MrgSort(dst, lists, MrgSort4Info([length] * LISTS, False, 15, whole))
    start = whole * group
    lengths = [min(length, total - at) for at in range(start, total, length)]
    if len(lengths) > 1:
        lists = [src[(start + each * length) * width :] for each in range(len(lengths))]
        valid = (1 << len(lengths)) - 1
        MrgSort(dst[start * width :], lists, MrgSort4Info([*lengths, 0, 0][:LISTS], False, valid, 1))
    elif lengths:
        DataCopy(dst[start * width :], src[start * width :], lengths[0] * width)


def Extract(dst_value: LocalTensor, dst_index: LocalTensor, sorted_: LocalTensor, repeat_time: int) -> None:
    """Take scores and indices out of sorted records (Ascend C: Extract). Made of GatherMask.

    Args:
        dst_value: The scores, of the type of *sorted_*, in UB.
        dst_index: The indices: uint32.
        sorted_: The records: half or float32.
        repeat_time: How many groups of 32 records there are, 0 to 255.

    Raises:
        KernelError: A type or number is impossible, or a tensor is too small.
    """
    check_type("Extract", "sorted", sorted_, FLOATS)
    check_type("Extract", "dstIndex", dst_index, (uint32.name,))
    if not 0 <= repeat_time <= MAX_REPEATS:
        raise KernelError(f"Extract of {repeat_time} groups", f"an instruction takes 0 to {MAX_REPEATS} repeats")
    if repeat_time == 0:
        return
    params = GatherMaskParams(1, repeat_time, 8, 0)
    # A record is two floats, or four halves of which the first is the score.
    GatherMask(dst_value, sorted_, 1 if sorted_.dtype.itemsize == 4 else 3, False, 0, params)
    GatherMask(dst_index, sorted_.ReinterpretCast(uint32), 2, False, 0, params)
