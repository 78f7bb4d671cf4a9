"""CumSum: running sums along the rows or columns of a matrix, in float."""

from operator import index as integer
from typing import NamedTuple

from device_model.aicore.core.names import BLOCK, RoundMode
from device_model.aicore.core.tensors import LocalTensor, float32, half
from device_model.aicore.functions.rows import Rows
from device_model.aicore.functions.scratch import temporary
from device_model.aicore.vector.elementwise import FLOATS, Add, Adds, Cast
from device_model.aicore.vector.masks import MAX_REPEATS
from device_model.aicore.vector.transdata import ROWS, TransDataTo5HD, TransDataTo5HDParams
from device_model.aicore.vector.unit import check_type
from device_model.kernel.findings import KernelError

WIDTH = BLOCK // 4  # floats of a block


class CumSumInfo(NamedTuple):
    """The matrix of CumSum (Ascend C: CumSumInfo).

    Attributes:
        outter: The number of rows.
        inner: The elements of a row, in whole blocks of 32 bytes.
    """

    outter: int
    inner: int


def CumSum(
    dst: LocalTensor,
    last_row: LocalTensor | None,
    src: LocalTensor,
    tmp: LocalTensor | CumSumInfo | None,
    info: CumSumInfo | None = None,
    *,
    is_last_axis: bool = True,
    output_last_row: bool = False,
) -> None:
    """Add up each row, or each column, step by step (Ascend C: CumSum): `(dst, last_row, src, info)` or with *tmp*.

    Along columns a row is added to the one before. Along rows, 16 of them are transposed before and after. Made of Add
    and TransDataTo5HD, and of Cast for half, whose sums are float.

    Args:
        dst: The sums, in UB: half or float.
        last_row: With *output_last_row* the last sum of each column, or of each row with *is_last_axis*.
        src: The matrix, of the same type.
        tmp: The temporary buffer, in UB; by default the bytes of UB that no buffer of the TPipe has.
        info: The size of the matrix.
        is_last_axis: Whether the elements of a row are added up; otherwise those of a column.
        output_last_row: Whether *last_row* is written.

    Raises:
        TypeError: There is no info, or no last_row where it is written.
        KernelError: A type or size is impossible, a tensor is too small, or the temporary buffer is.
    """
    if isinstance(tmp, CumSumInfo):
        tmp, info = None, tmp
    if not isinstance(info, CumSumInfo):
        raise TypeError(f"CumSum: info must be CumSumInfo(outter, inner), not {info!r}")
    if output_last_row and not isinstance(last_row, LocalTensor):
        raise TypeError(f"CumSum with output_last_row: last_row must be a tensor, not {last_row!r}")
    check_type("CumSum", "dst", dst, FLOATS)
    check_type("CumSum", "src", src, (dst.dtype.name,))
    outter, inner = map(integer, info)
    if min(outter, inner) < 1 or inner * dst.dtype.itemsize % BLOCK:
        raise KernelError(f"CumSum of {info}", f"outter is 1 or more, and a row whole blocks of {BLOCK} bytes")
    sizes = [("dst", dst, outter * inner), ("src", src, outter * inner)]
    last = last_row if output_last_row else None
    if last is not None:
        check_type("CumSum", "last_row", last, (dst.dtype.name,))
        sizes.append(("last_row", last, outter if is_last_axis else inner))
    for role, tensor, size in sizes:
        if tensor.size < size:
            raise KernelError(f"CumSum of {info}", f"{role} has {tensor.size} elements, and needs {size}")
    used = [dst, src] if last is None else [dst, src, last]
    if is_last_axis:
        _along_rows(dst, last, src, Rows("CumSum", temporary("CumSum", tmp, *used)), outter, inner)
    elif dst.dtype == half:
        _down_columns_of_half(dst, src, Rows("CumSum", temporary("CumSum", tmp, *used)), outter, inner)
    else:
        Adds(dst, src, 0.0, inner)
        for row in range(1, outter):
            Add(dst[row * inner :], dst[(row - 1) * inner :], src[row * inner :], inner)
    if last is not None and not is_last_axis:
        Adds(last, dst[(outter - 1) * inner :], 0.0, inner)


def _down_columns_of_half(dst: LocalTensor, src: LocalTensor, buffer: Rows, outter: int, inner: int) -> None:
    total, added = buffer.take(float32, inner), buffer.take(float32, inner)
    Cast(total, src, RoundMode.CAST_NONE, inner)
    Cast(dst, total, RoundMode.CAST_NONE, inner)
    for row in range(1, outter):
        Cast(added, src[row * inner :], RoundMode.CAST_NONE, inner)
        Add(total, total, added, inner)
        Cast(dst[row * inner :], total, RoundMode.CAST_NONE, inner)


def _along_rows(
    dst: LocalTensor, last: LocalTensor | None, src: LocalTensor, buffer: Rows, outter: int, inner: int
) -> None:
    is_half = dst.dtype == half
    columns = buffer.take(float32, inner * ROWS)  # a row of 16 for each column
    unused = buffer.take(float32, WIDTH)
    wide = buffer.take(float32, ROWS * inner) if is_half else src
    for first in range(0, outter, ROWS):
        rows = min(ROWS, outter - first)
        if is_half:
            Cast(wide, src[first * inner :], RoundMode.CAST_NONE, rows * inner)
        source = wide if is_half else src[first * inner :]
        target = wide if is_half else dst[first * inner :]
        _transpose(columns, source, rows, inner)
        for column in range(1, inner):
            part = columns[column * ROWS :]
            Add(part, columns[(column - 1) * ROWS :], part, ROWS)
        _transpose_back(target, columns, unused, rows, inner)
        if is_half:
            Cast(dst[first * inner :], wide, RoundMode.CAST_NONE, rows * inner)
        if last is not None:
            sums = columns[(inner - 1) * ROWS :]
            if is_half:
                Cast(last[first:], sums, RoundMode.CAST_NONE, rows)
            else:
                Adds(last[first:], sums, 0.0, rows)


def _transpose(columns: LocalTensor, source: LocalTensor, rows: int, inner: int) -> None:
    """Make rows of 16 of the columns of *source*; beyond its *rows* the last one is taken again."""
    to = [columns[WIDTH * place :] for place in range(ROWS)]
    at = [source[min(row, rows - 1) * inner :] for row in range(ROWS)]
    _repeat(to, at, inner // WIDTH, ROWS, 1)


def _transpose_back(target: LocalTensor, columns: LocalTensor, unused: LocalTensor, rows: int, inner: int) -> None:
    """Write 16 columns at a time to 8 rows at a time; what lies beyond the matrix goes to *unused*."""
    for low in range(0, rows, WIDTH):
        for start in range(0, inner, ROWS):
            to = [
                target[row * inner + column :] if row < rows and column < inner else unused
                for row in range(low, low + WIDTH)
                for column in (start, start + WIDTH)
            ]
            at = [columns[min(start + column, inner - 1) * ROWS + low :] for column in range(ROWS)]
            _repeat(to, at, 1, 0, 0)


def _repeat(to: list[LocalTensor], at: list[LocalTensor], repeats: int, to_step: int, at_step: int) -> None:
    for first in range(0, repeats, MAX_REPEATS):
        count = min(MAX_REPEATS, repeats - first)
        steps = (to_step, at_step) if count > 1 else (0, 0)  # a single repeat would begin a step behind its places
        to_places, at_places = (
            [each[first * step * WIDTH :] for each in places] for places, step in ((to, to_step), (at, at_step))
        )
        TransDataTo5HD(to_places, at_places, TransDataTo5HDParams(False, False, count, *steps))
