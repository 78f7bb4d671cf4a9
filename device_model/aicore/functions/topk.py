"""TopK: the largest or smallest elements of each row and where they are, made of Sort32, MrgSort and GatherMask."""

from enum import Enum
from operator import index as integer
from typing import Any, NamedTuple

from device_model.aicore.core.names import BLOCK, HardEvent
from device_model.aicore.core.tensors import LocalTensor, int32, uint32
from device_model.aicore.flags.sync import pass_flag
from device_model.aicore.functions.rows import Rows
from device_model.aicore.functions.scratch import temporary
from device_model.aicore.functions.sorting import Sort
from device_model.aicore.vector.elementwise import FLOATS, Muls
from device_model.aicore.vector.fill import ArithProgression, Copy, CopyRepeatParams, Duplicate
from device_model.aicore.vector.gather import GatherMask, GatherMaskParams
from device_model.aicore.vector.masks import MAX_REPEATS
from device_model.aicore.vector.sort import GROUP, RECORD, Sort32
from device_model.aicore.vector.unit import check_type
from device_model.kernel.findings import KernelError

MOST = 4096  # elements of a row


class TopKMode(Enum):
    """How long the rows of TopK are (Ascend C: TopKMode): any multiple of 32, or 32."""

    TOPK_NORMAL = 0
    TOPK_NSMALL = 1


class TopKInfo(NamedTuple):
    """The rows of TopK (Ascend C: TopKInfo).

    Attributes:
        outter: The number of rows.
        inner: From the start of a row to the next, in elements: n, rounded up to a multiple of 32.
        n: The elements of a row. Those beyond it are sorted too, so they must not be among the first k.
    """

    outter: int
    inner: int
    n: int


def TopK(
    dst_value: LocalTensor,
    dst_index: LocalTensor,
    src: LocalTensor,
    src_index: LocalTensor | None,
    finish: LocalTensor | None,
    *operands: Any,
    is_init_index: bool = False,
    is_has_finish: bool = False,
    topk_mode: TopKMode = TopKMode.TOPK_NORMAL,
) -> None:
    """Find the first *k* elements of each row in descending or ascending order, and where they are (Ascend C: TopK).

    Made of Sort32, MrgSort and GatherMask. Of equal elements, the first one of the row comes first.

    Args:
        dst_value: The elements, in UB: half or float. A row has k of them, and begins at a whole block of 32 bytes; in
            TOPK_NSMALL, rows of k follow each other without gaps.
        dst_index: Their places, int32, laid out in the same way.
        src: The rows, of the type of dst_value.
        src_index: With *is_init_index* the places that stand for 0, 1, ... : int32, a row for all, and in TOPK_NSMALL
            one for each.
        finish: With *is_has_finish* a uint8 for each row; where it is not 0, all places of the row become n. In
            TOPK_NORMAL only.
        operands: `(k, tiling, info)` or `(k, tiling, info, is_largest)`, or these behind a temporary buffer; by default
            it is the bytes of UB that no buffer of the TPipe has. *tiling* has no effect: it may be None, or be left
            out.
        is_init_index: Whether *src_index* is used.
        is_has_finish: Whether *finish* is used.
        topk_mode: TOPK_NSMALL for rows of 32.

    Raises:
        TypeError: There are more or fewer operands, or a tensor that is used is None.
        KernelError: A type or size is impossible, a tensor is too small, or the temporary buffer is.
    """
    has_tmp = bool(operands) and isinstance(operands[0], LocalTensor)
    tmp, numbers = (operands[0], operands[1:]) if has_tmp else (None, operands)
    if len(numbers) > 2 and isinstance(numbers[2], TopKInfo):
        numbers = (numbers[0], *numbers[2:])
    if not 2 <= len(numbers) <= 3 or not isinstance(numbers[1], TopKInfo):
        raise TypeError(f"TopK takes k, tiling, TopKInfo and is_largest behind its tensors, not {operands}")
    k, info, is_largest = (*numbers, True)[:3]
    k, outter, inner, n = integer(k), *map(integer, info)
    small = topk_mode is TopKMode.TOPK_NSMALL
    _check(dst_value, dst_index, src, k, TopKInfo(outter, inner, n), small=small)
    for name, tensor, used, dtype, size in (
        ("src_index", src_index, is_init_index, "int32", outter * inner if small else inner),
        ("finish", finish, is_has_finish, "uint8", outter),
    ):
        if used and not isinstance(tensor, LocalTensor):
            raise TypeError(f"TopK: {name} must be a tensor, not {tensor!r}")
        if used and tensor is not None:
            check_type("TopK", name, tensor, (dtype,))
            if tensor.size < size:
                raise KernelError(f"TopK of {info}", f"{name} has {tensor.size} elements, and needs {size}")
    if small and is_has_finish:
        raise KernelError("TopK in TOPK_NSMALL with is_has_finish", "only TOPK_NORMAL has it")
    used_tensors = [each for each in (dst_value, dst_index, src, src_index, finish) if each is not None]
    buffer = Rows("TopK", temporary("TopK", tmp, *used_tensors))
    places = src_index if is_init_index else _places(buffer, inner, outter if small else 1)
    assert places is not None
    rows = outter if small else 1
    records = buffer.take(src.dtype, rows * inner * RECORD // src.dtype.itemsize)
    scratch = buffer.take(src.dtype, records.size if inner > GROUP else 1)
    negated = None if is_largest else buffer.take(src.dtype, rows * inner)
    if small:
        scores = _signed(negated, src, rows * inner)
        Sort32(records, scores, places.ReinterpretCast(uint32), rows)
        _extract(dst_value, dst_index, records, k, rows, is_largest=is_largest)
        return
    value_row, index_row = (-(-k * size // BLOCK) * BLOCK // size for size in (src.dtype.itemsize, 4))
    for row in range(outter):
        scores = _signed(negated, src[row * inner :], inner)
        Sort(records, scores, places.ReinterpretCast(uint32), scratch, inner // GROUP, is_full_sort=True)
        to = dst_index[row * index_row :]
        _extract(dst_value[row * value_row :], to, records, k, 1, is_largest=is_largest)
        if is_has_finish and finish is not None and _is_set(finish, row):
            Duplicate(to, n, k)


def _check(
    dst_value: LocalTensor, dst_index: LocalTensor, src: LocalTensor, k: int, info: TopKInfo, *, small: bool
) -> None:
    check_type("TopK", "dst_value", dst_value, FLOATS)
    check_type("TopK", "src", src, (dst_value.dtype.name,))
    check_type("TopK", "dst_index", dst_index, ("int32",))
    outter, inner, n = info
    if outter < 1 or not 1 <= n <= inner <= MOST or inner % GROUP:
        raise KernelError(f"TopK of {info}", f"n is 1 to inner, and inner a multiple of {GROUP} up to {MOST}")
    if not 1 <= k <= n:
        raise KernelError(f"TopK of {info} with a k of {k}", f"k is 1 to n, which is {n}")
    if small and (inner != GROUP or outter > MAX_REPEATS):
        raise KernelError(
            f"TopK of {info} in TOPK_NSMALL", f"rows have {GROUP} elements, and there are {MAX_REPEATS} at most"
        )
    for role, tensor in (("dst_value", dst_value), ("dst_index", dst_index)):
        size = tensor.dtype.itemsize
        needed = outter * (k if small else -(-k * size // BLOCK) * BLOCK // size)
        if tensor.size < needed:
            raise KernelError(
                f"TopK of {info} with a k of {k}", f"{role} has {tensor.size} elements, and needs {needed}"
            )
    if src.size < outter * inner:
        raise KernelError(f"TopK of {info}", f"src has {src.size} elements, and needs {outter * inner}")


def _places(buffer: Rows, inner: int, rows: int) -> LocalTensor:
    """Return the places 0, 1, ... of each row."""
    places = buffer.take(int32, rows * inner)
    ArithProgression(places, 0, 1, inner)
    if rows > 1:
        Copy(places[inner:], places, inner, rows - 1, CopyRepeatParams(1, 1, inner * 4 // BLOCK, 0))
    return places


def _signed(negated: LocalTensor | None, src: LocalTensor, count: int) -> LocalTensor:
    """Return the scores that Sort32 puts in descending order."""
    if negated is None:
        return src
    Muls(negated, src, -1.0, count)
    return negated


def _extract(
    values: LocalTensor, places: LocalTensor, records: LocalTensor, k: int, rows: int, *, is_largest: bool
) -> None:
    """Take the first *k* records of each row apart."""
    per_record = RECORD // records.dtype.itemsize
    params = GatherMaskParams(1, rows, GROUP * RECORD // BLOCK, 0)
    # A record is two floats, or four halves of which the first is the score.
    GatherMask(values, records, 1 if per_record == 2 else 3, True, k * per_record, params)
    GatherMask(places.ReinterpretCast(uint32), records.ReinterpretCast(uint32), 2, True, 2 * k, params)
    if not is_largest:
        Muls(values, values, -1.0, rows * k)


def _is_set(finish: LocalTensor, row: int) -> bool:
    """Read a row's byte with the scalar pipe, behind the vector pipe, which knows who wrote it."""
    pass_flag(HardEvent.V_S)
    return bool(finish.GetValue(row))
