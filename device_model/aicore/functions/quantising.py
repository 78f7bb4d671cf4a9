"""AscendQuant and AscendAntiQuant: floats become int8 with factors and offsets, and int8 becomes floats again."""

from operator import index as integer
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from device_model.aicore.core.names import RoundMode
from device_model.aicore.core.tensors import LocalTensor, bfloat16, float32, half
from device_model.aicore.functions.rows import Rows
from device_model.aicore.functions.scratch import temporary
from device_model.aicore.vector.elementwise import FLOATS, Add, Adds, Cast, Mul, Muls
from device_model.aicore.vector.unit import check_type
from device_model.kernel.findings import KernelError

GRAIN = 32  # elements: a block of int8


def _take_buffer(operands: tuple[Any, ...]) -> tuple[LocalTensor | None, list[Any]]:
    """Return the temporary buffer, which is the tensor of uint8 among *operands*, and the others."""
    buffers = [each for each in operands if isinstance(each, LocalTensor) and each.dtype == np.uint8]
    rest = [each for each in operands if not any(each is buffer for buffer in buffers)]
    return (buffers[0] if buffers else None), rest


def AscendQuant(dst: LocalTensor, src: LocalTensor, *operands: LocalTensor | float) -> None:
    """Dst = src * scale + offset, rounded to int8 (Ascend C: AscendQuant).

    Made of Cast, Mul and Add, and computed in half. Numbers beyond the range of int8 become its ends.

    Args:
        dst: The tensor to write, in UB: int8.
        src: The tensor to read: half or float.
        operands: `(scale, offset)` or `(scale, offset, cal_count)` with two numbers; with a tensor of the type of src
            for *scale*, and for *offset* too or not, one factor for each column: `(scale, offset)`, or these with
            `(scale_count, cal_count)` or `(scale_count, offset_count, cal_count)` behind them. A temporary buffer of
            uint8 may come first; by default it is the bytes of UB that no buffer of the TPipe has.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or count is impossible, a tensor is too small, or the temporary buffer is.
    """
    name = "AscendQuant"
    tmp, rest = _take_buffer(operands)
    if len(rest) < 2:
        raise TypeError(f"{name} takes a scale and an offset behind its tensors, not {operands}")
    scale, offset, *counts = rest
    check_type(name, "dst", dst, ("int8",))
    check_type(name, "src", src, FLOATS)
    tensors = [each for each in (scale, offset) if isinstance(each, LocalTensor)]
    for each in tensors:
        check_type(name, "scale and offset", each, (src.dtype.name,))
    if isinstance(offset, LocalTensor) and not isinstance(scale, LocalTensor):
        raise KernelError(f"{name} with an offset tensor and a number as scale", "a scale tensor goes with it")
    if not isinstance(scale, LocalTensor):
        columns, count = 0, integer(counts[0]) if counts else src.size
    else:
        columns, count = (integer(counts[0]), integer(counts[-1])) if counts else (scale.size, src.size)
    if len(counts) > (3 if tensors else 1) or (tensors and len(counts) == 1):
        raise TypeError(f"{name} with the counts {counts}")
    if count < 1 or count > src.size or count > dst.size:
        raise KernelError(
            f"{name} with a cal_count of {count}", f"src has {src.size} elements, and dst {dst.size}; it is 1 or more"
        )
    if tensors and (columns < 1 or columns % GRAIN or count % columns):
        raise KernelError(
            f"{name} with a scale_count of {columns} and a cal_count of {count}",
            f"a row is whole blocks of {GRAIN} elements, and cal_count whole rows",
        )
    for each in tensors:
        if each.size < columns:
            raise KernelError(f"{name} with a scale_count of {columns}", f"{each!r} has {each.size} elements")
    buffer = Rows(name, temporary(name, tmp, dst, src, *tensors))
    factors = [
        _as_half(each, columns, buffer) if isinstance(each, LocalTensor) else float(each) for each in (scale, offset)
    ]
    length = columns or count
    for start, size, work in _work_pieces(buffer, count, length):
        if src.dtype == np.float32:
            Cast(work, src[start:], RoundMode.CAST_RINT, size)
            at = work
        else:
            at = src[start:]
        _per_row(Mul, Muls, work, at, factors[0], size, columns)
        _per_row(Add, Adds, work, work, factors[1], size, columns)
        Cast(dst[start:], work, RoundMode.CAST_RINT, size)


def _as_half(tensor: LocalTensor, count: int, buffer: Rows) -> LocalTensor:
    if tensor.dtype == np.float16:
        return tensor
    narrow = buffer.take(half, count)
    Cast(narrow, tensor, RoundMode.CAST_RINT, count)
    return narrow


def _work_pieces(buffer: Rows, count: int, length: int, dtype: Any = half) -> Any:
    """Yield the start and size of pieces that fit the buffer, and room for one: whole rows of *length*, or grains."""
    room = buffer.room // dtype.itemsize
    unit = length if length < count else GRAIN
    size = min(count, max(room // unit * unit, 1))
    work = buffer.take(dtype, max(size, unit) if unit < count else count)
    for start in range(0, count, size):
        yield start, min(size, count - start), work


def _per_row(
    op: Any, scalar_op: Any, dst: LocalTensor, src: LocalTensor, factor: LocalTensor | float, size: int, columns: int
) -> None:
    """Issue dst = op(src, factor), row by row where the factor is a row."""
    if not isinstance(factor, LocalTensor):
        scalar_op(dst, src, factor, size)
        return
    for row in range(0, size, columns):
        op(dst[row:], src[row:], factor, columns)


class AntiQuantShapeInfo(NamedTuple):
    """The shapes of offset and scale of AscendAntiQuant (Ascend C: AntiQuantShapeInfo); 0 for numbers."""

    offset_height: int = 0
    offset_width: int = 0
    scale_height: int = 0
    scale_width: int = 0


def AscendAntiQuant(
    dst: LocalTensor,
    src: LocalTensor,
    *operands: Any,
) -> None:
    """Dst = scale * (src + offset), as floats (Ascend C: AscendAntiQuant, without transposition).

    Made of Cast, Add and Mul; half is computed in half, and bfloat16 in float.

    Args:
        dst: The matrix to write, in UB: half or bfloat16.
        src: The matrix to read, k rows: int8.
        operands: `(offset, scale, k, shape_info)` or `(scale, k, shape_info)`. *offset* and *scale* are numbers, or
            tensors of the type of dst with a row of factors for each group of rows. *k* is the number of rows of src,
            and *shape_info* an AntiQuantShapeInfo, the shapes of the tensors, which numbers do not need. A temporary
            buffer of uint8 may stand before *k*; by default it is the bytes of UB that no buffer of the TPipe has.

    Raises:
        TypeError: There are more or fewer operands.
        KernelError: A type or shape is impossible, a tensor is too small, or the temporary buffer is.
    """
    name = "AscendAntiQuant"
    tmp, rest = _take_buffer(operands)
    shape_info = rest.pop() if rest and isinstance(rest[-1], AntiQuantShapeInfo) else AntiQuantShapeInfo()
    if not 2 <= len(rest) <= 3 or not isinstance(rest[-1], SupportsIndex):
        raise TypeError(f"{name} takes (offset, scale, k, shape_info) or (scale, k, shape_info), not {operands}")
    k = rest.pop()
    scale, offset = rest[-1], rest[0] if len(rest) == 2 else None
    check_type(name, "dst", dst, ("float16", "bfloat16"))
    check_type(name, "src", src, ("int8",))
    rows = integer(k)
    if rows < 1 or src.size % rows or dst.size < src.size:
        raise KernelError(f"{name} with k {k}", f"src has {src.size} elements in whole rows, and dst {dst.size}")
    columns = src.size // rows
    info = AntiQuantShapeInfo(*map(integer, shape_info))
    of_scale = _group(name, "scale", scale, (info.scale_height, info.scale_width), dst, rows, columns)
    of_offset = _group(name, "offset", offset, (info.offset_height, info.offset_width), dst, rows, columns)
    tensors = [each for each in (scale, offset) if isinstance(each, LocalTensor)]
    buffer = Rows(name, temporary(name, tmp, dst, src, *tensors))
    wide = half if dst.dtype == np.float16 else float32
    row_half = buffer.take(half, columns) if wide is float32 else None
    work = buffer.take(wide, columns) if wide is float32 else None
    factor = buffer.take(float32, columns) if wide is float32 and tensors else None
    for row in range(rows):
        at, out = src[row * columns :], dst[row * columns :]
        y = out if work is None else work
        Cast(out if row_half is None else row_half, at, RoundMode.CAST_NONE, columns)
        if row_half is not None:
            Cast(y, row_half, RoundMode.CAST_NONE, columns)
        if offset is not None:
            _one_row(Add, Adds, y, offset, row // of_offset, columns, factor)
        _one_row(Mul, Muls, y, scale, row // of_scale, columns, factor)
        if work is not None:
            Cast(out, y, RoundMode.CAST_RINT, columns)


def _group(name: str, role: str, value: Any, shape: tuple[int, int], dst: LocalTensor, rows: int, columns: int) -> int:
    """Return how many rows share a row of factors; check these."""
    if not isinstance(value, LocalTensor):
        return 1
    check_type(name, role, value, (dst.dtype.name,))
    height, width = shape
    if height < 1 or width != columns or rows % height or value.size < height * width or width % GRAIN:
        raise KernelError(
            f"{name} with {role} of {height} x {width} for {rows} x {columns}",
            f"it has a row of {columns} elements, in blocks of {GRAIN}, for each group of rows",
        )
    return rows // height


def _one_row(
    op: Any, scalar_op: Any, y: LocalTensor, value: Any, row: int, columns: int, factor: LocalTensor | None
) -> None:
    if not isinstance(value, LocalTensor):
        scalar_op(y, y, float(value), columns)
        return
    at = value[row * columns :]
    if value.dtype == bfloat16:
        assert factor is not None
        Cast(factor, at, RoundMode.CAST_NONE, columns)
        at = factor
    op(y, y, at, columns)
