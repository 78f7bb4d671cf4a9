"""Matrices in UB, as functions of rows see them: instructions over all rows, reductions of rows, and pieces of rows.

A matrix has *rows* rows that are *k* elements apart, of which the first *n* are used. All is computed in float; rows of
half are converted in a temporary buffer.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from device_model.aicore.core.names import BLOCK, RoundMode
from device_model.aicore.core.tensors import LocalTensor, float32
from device_model.aicore.functions.rows import Rows
from device_model.aicore.functions.scratch import temporary
from device_model.aicore.vector.elementwise import FLOATS, Add, Adds, Cast, Max
from device_model.aicore.vector.fill import Copy, CopyRepeatParams
from device_model.aicore.vector.gather import brcb_first
from device_model.aicore.vector.masks import MAX_REPEATS, BinaryRepeatParams, UnaryRepeatParams
from device_model.aicore.vector.reduce_repeats import ReduceOrder, WholeReduceMax, WholeReduceSum
from device_model.aicore.vector.unit import check_type
from device_model.kernel.findings import KernelError

LANES = 64  # floats of a repeat
WIDTH = 8  # floats of a block
MOST_ROWS = 240  # of a piece, less than the repeats of an instruction


class Size(NamedTuple):
    """The size of a matrix: rows, elements from one row to the next, and elements of a row that are used."""

    rows: int
    k: int
    n: int

    def chunks(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (first row, first column, lanes, rows) of the instructions that cover the matrix."""
        at_once = self.rows if self.apart <= MAX_REPEATS else 1
        for column in range(0, self.n, LANES):
            for row in range(0, self.rows, at_once):
                yield row, column, min(LANES, self.n - column), at_once

    @property
    def apart(self) -> int:
        """Blocks from one row to the next."""
        return self.k // WIDTH


def checked(name: str, rows: int, k: int, n: int, *matrices: LocalTensor) -> Size:
    """Return the size of *matrices*, which are of one type, half or float.

    Raises:
        KernelError: A type or size is impossible, or a matrix is smaller.
    """
    first = matrices[0]
    for place, matrix in enumerate(matrices):
        check_type(name, f"matrix {place}", matrix, FLOATS if place == 0 else (first.dtype.name,))
    if rows < 1 or not 0 < n <= k or k * first.dtype.itemsize % BLOCK:
        raise KernelError(
            f"{name} of {rows} rows of {n} elements, {k} apart",
            f"all are 1 or more, and rows are whole blocks of {BLOCK} bytes apart",
        )
    for place, matrix in enumerate(matrices):
        if matrix.size < rows * k:
            raise KernelError(f"{name} of {rows} x {k} elements", f"matrix {place} has {matrix.size}")
    return Size(rows, k, n)


def rowwise(op: Callable[..., None], dst: LocalTensor, a: LocalTensor, b: LocalTensor, size: Size, step: int) -> None:
    """Issue `dst = op(a, b)` over a matrix.

    Row i of b is its block i with *step* 1, its only row with *step* 0, and row i of a matrix with *step* -1.
    """
    apart = size.apart
    for row, column, mask, repeats in size.chunks():
        at = row * size.k + column
        if step == 1:
            other, strides = b[row * WIDTH :], (0, 1)
        elif step == 0:
            other, strides = b[column:], (1, 0)
        else:
            other, strides = b[at:], (1, apart)
        next_row = apart if repeats > 1 else 8
        params = BinaryRepeatParams(1, 1, strides[0], next_row, next_row, strides[1] if repeats > 1 else 8)
        op(dst[at:], a[at:], other, mask, repeats, params)


def each(op: Callable[..., None], dst: LocalTensor, src: LocalTensor, size: Size, *scalars: float) -> None:
    """Issue `dst = op(src, *scalars)` over a matrix."""
    if size.n == size.k:
        op(dst, src, *scalars, size.rows * size.k)
        return
    for row, column, mask, repeats in size.chunks():
        at = row * size.k + column
        next_row = size.apart if repeats > 1 else 8
        op(dst[at:], src[at:], *scalars, mask, repeats, UnaryRepeatParams(1, 1, next_row, next_row))


def _largest(dst: LocalTensor, src: LocalTensor, mask: int, repeats: int, to: int, step: int, apart: int) -> None:
    WholeReduceMax(dst, src, mask, repeats, to, step, apart, ReduceOrder.ORDER_ONLY_VALUE)


def reduced(kind: str, dst: LocalTensor, src: LocalTensor, lanes: LocalTensor | None, size: Size) -> None:
    """Issue dst[i] = the "sum" or "max" of row i; *lanes* has room for 64 floats of each row if n is larger."""
    whole = WholeReduceSum if kind == "sum" else _largest
    if lanes is None:
        for row, _, mask, repeats in size.chunks():
            whole(dst[row:], src[row * size.k :], mask, repeats, 1, 1, size.apart if repeats > 1 else 8)
        return
    fold = Add if kind == "sum" else Max
    for row, column, mask, repeats in size.chunks():
        at, to = row * size.k + column, lanes[row * LANES :]
        next_row = size.apart if repeats > 1 else 8
        if column == 0:
            Copy(to, src[at:], mask, repeats, CopyRepeatParams(1, 1, 8, next_row))
        else:
            fold(to, to, src[at:], mask, repeats, BinaryRepeatParams(1, 1, 1, 8, 8, next_row))
    whole(dst, lanes, LANES, size.rows, 1, 1, 8)


class Rowful(NamedTuple):
    """Some rows of a function's matrices, in float: x is read, y is written, and may be x.

    *one* has room for a float of each row, *lanes* is for `reduced`, and *blocks* have a block for each row.
    """

    start: int
    size: Size
    x: LocalTensor
    y: LocalTensor
    one: LocalTensor
    lanes: LocalTensor | None
    blocks: list[LocalTensor]
    rest: Rows

    def fill(self, blocks: LocalTensor) -> None:
        """Issue: block i of *blocks* = `one`[i] eight times."""
        brcb_first(blocks, self.one, self.size.rows)

    def wide(self, row: LocalTensor, count: int) -> LocalTensor:
        """Return *count* elements of *row* in float, converted in the rest of the buffer if they are half."""
        if row.dtype != np.float16:
            return row
        wide = self.rest.take(float32, count)
        Cast(wide, row, RoundMode.CAST_NONE, count)
        return wide


def pieces_of_rows(
    name: str,
    tmp: LocalTensor | None,
    dst: LocalTensor,
    src: LocalTensor,
    size: Size,
    blocks: int,
    *,
    fixed: int = 0,
    matrices: int = 0,
    used: tuple[LocalTensor, ...] = (),
    stores: bool = True,
    grain: int = 1,
) -> Iterator[Rowful]:
    """Yield the pieces of a matrix that fit the temporary buffer; y becomes a part of *dst* when the next is asked for.

    Args:
        name: The function.
        tmp: The temporary buffer, or None for the rest of the UB.
        dst: The matrix to write.
        src: The matrix to read, of the same type.
        size: Their size.
        blocks: How many blocks each row gets.
        fixed: Bytes that the function takes from `rest` for a piece.
        matrices: How many floats for each element it takes from `rest`.
        used: Other tensors, which the buffer must not overlap.
        stores: Whether y becomes a part of *dst*; otherwise *dst* only says what type rows have.
        grain: Of how many rows a piece is a multiple, but the last one.
    """
    buffer = temporary(name, tmp, dst, src, *used)
    narrow = dst.dtype == np.float16
    each_row = 4 + blocks * BLOCK + (LANES * 4 if size.n > LANES else 0) + (narrow + matrices) * size.k * 4
    room = buffer.nbytes - fixed - (blocks + 2) * BLOCK * WIDTH
    rows = min(size.rows, MOST_ROWS, max(room // each_row // grain * grain, grain))
    for start in range(0, size.rows, rows):
        count = min(rows, size.rows - start)
        rest = Rows(name, buffer)
        one = rest.take(float32, count)
        lanes = rest.take(float32, count * LANES) if size.n > LANES else None
        padded = -(-count // WIDTH) * WIDTH  # a Brcb writes whole groups of blocks
        made = [rest.take(float32, padded * WIDTH) for _ in range(blocks)]
        part = slice(start * size.k, (start + count) * size.k)
        x, y = src[part], dst[part]
        if narrow:
            x = y = rest.take(float32, count * size.k)
            Cast(x, src[part], RoundMode.CAST_NONE, count * size.k)
        yield Rowful(start, Size(count, size.k, size.n), x, y, one, lanes, made, rest)
        if narrow and stores:
            Cast(dst[part], y, RoundMode.CAST_NONE, count * size.k)


def store_blocks(out: LocalTensor, piece: Rowful, blocks: LocalTensor) -> None:
    """Issue: the blocks of *out* that belong to the rows of *piece* = *blocks*; half is converted."""
    rows, start = piece.size.rows, piece.start
    if out.dtype == np.float16:
        narrow = piece.rest.take(out.dtype, rows)
        Cast(narrow, piece.one, RoundMode.CAST_NONE, rows)
        wide = piece.rest.take(out.dtype, -(-rows // WIDTH) * WIDTH * 2 * WIDTH)
        brcb_first(wide, narrow, rows)
        Copy(out[start * 2 * WIDTH :], wide, 2 * WIDTH, rows, CopyRepeatParams(1, 1, 1, 1))
    else:
        Adds(out[start * WIDTH :], blocks, 0, rows * WIDTH)


def check_blocks(name: str, role: str, tensor: Any, rows: int, types: tuple[str, ...]) -> None:
    """Raise KernelError unless *tensor* has a block of 32 bytes for each row."""
    check_type(name, role, tensor, types)
    if tensor.size < rows * BLOCK // tensor.dtype.itemsize:
        raise KernelError(
            f"{name}: {role} has {tensor.size} elements",
            f"it has a block of {BLOCK} bytes for each row: {rows * BLOCK // tensor.dtype.itemsize} of {tensor.dtype}",
        )
