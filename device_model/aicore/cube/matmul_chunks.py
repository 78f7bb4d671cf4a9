"""Parts of A and B on their way to the cube: from GM or L1 as chunks in L1, and from these to L0A and L0B.

A chunk lies in L1 in fractals, in the layout Nz: column after column, each as many fractals high as the chunk. Only a
chunk of float that has to be transposed lies in strips of 16 rows, because the two fractals of a square must be
adjacent. A matrix that the kernel itself has brought to L1 is one chunk, of which pieces are loaded.
"""

from typing import NamedTuple

from device_model.aicore.core.names import BLOCK
from device_model.aicore.core.packed import elements_in
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.cube.loads import (
    LoadData,
    LoadData2DParams,
    LoadData2dTransposeParams,
    LoadDataWithTranspose,
    repeats_of,
)
from device_model.aicore.cube.mmad import FRACTAL, SIDE, fractals, k0
from device_model.aicore.cube.sparse import INDEX_FRACTAL, LoadDataWithSparse
from device_model.aicore.moving.copies import DataCopy, DataCopyParams, Nd2NzParams


class Operand(NamedTuple):
    """A or B, in GM or L1.

    Attributes:
        tensor: The matrix.
        is_transposed: Whether it is stored transposed.
        row: Row by row, the elements from one row to the next; in NZ, the rows of a column of fractals.
        is_nz: Whether it is stored in NZ.
    """

    tensor: GlobalTensor | LocalTensor
    is_transposed: bool
    row: int
    is_nz: bool = False


class Chunk(NamedTuple):
    """A part of a matrix in L1, in fractals: columns of *high* fractals, of which it begins at (*down*, *across*)."""

    tensor: LocalTensor
    high: int
    down: int = 0
    across: int = 0

    def number(self, down: int, across: int) -> int:
        """Return the number of the fractal (*down*, *across*) of the chunk in its tensor."""
        return (self.across + across) * self.high + self.down + down


def copy_chunk(
    dst: LocalTensor, operand: Operand, row: int, column: int, rows: int, columns: int, tall: int = SIDE
) -> Chunk:
    """Copy a part of a matrix in GM to L1 as fractals (Nz), whose columns have a multiple of *tall* rows."""
    height = -(-rows // tall) * tall
    if operand.is_nz:
        _copy_fractals(dst, operand, row, column, fractals(rows) * SIDE, columns, height)
    else:
        source = operand.tensor[row * operand.row + column :]
        DataCopy(dst, source, Nd2NzParams(1, rows, columns, 0, operand.row, height, 1, 0))
    return Chunk(dst, height // SIDE)


def copy_strips(dst: LocalTensor, operand: Operand, row: int, column: int, rows: int, columns: int) -> Chunk:
    """Copy a part of a matrix of float to L1 as fractals, 16 rows after 16 rows, so that squares are adjacent."""
    step = fractals(columns) * SIDE * SIDE
    if operand.is_nz:
        for strip in range(fractals(rows)):
            _copy_fractals(dst[strip * step :], operand, row + strip * SIDE, column, SIDE, columns, SIDE)
        return Chunk(dst, 1)
    source = operand.tensor[row * operand.row + column :]
    whole, rest = divmod(rows, SIDE)
    if whole:
        DataCopy(dst, source, Nd2NzParams(whole, SIDE, columns, SIDE * operand.row, operand.row, SIDE, 1, step))
    if rest:
        into, out_of = dst[whole * step :], source[whole * SIDE * operand.row :]
        DataCopy(into, out_of, Nd2NzParams(1, rest, columns, 0, operand.row, SIDE, 1, 0))
    return Chunk(dst, 1)


def _copy_fractals(
    dst: LocalTensor, operand: Operand, row: int, column: int, rows: int, columns: int, height: int
) -> None:
    """Copy a part of a matrix in NZ, whose columns in L1 have *height* rows."""
    width = k0(dst.dtype)
    source = operand.tensor[(column // width * operand.row + row) * width :]
    DataCopy(dst, source, DataCopyParams(fractals(columns, width), rows, operand.row - rows, height - rows))


def copy_indices(
    dst: LocalTensor, index: GlobalTensor, left: int, first: int, n: int, depth: int, whole_n: int
) -> None:
    """Copy the indices of a part of a sparse B to L1, in the order of its fractals.

    In GM a column of fractals has 8 bytes for each of the *whole_n* columns of B, in whole fractals.
    """
    high, rows = fractals(whole_n) * SIDE, fractals(n) * SIDE
    source = index[(first * high + left) * (INDEX_FRACTAL // SIDE) :]
    blocks = rows * (INDEX_FRACTAL // SIDE) // BLOCK
    DataCopy(dst, source, DataCopyParams(depth, blocks, high * (INDEX_FRACTAL // SIDE) // BLOCK - blocks, 0))


def load_sparse_b(chunk: Chunk, indices: LocalTensor, b2: LocalTensor, n: int, k: int, first: int) -> None:
    """Load a piece of a sparse B and its indices; *k* and *first* count what is left of B."""
    for start, count in repeats_of(fractals(n) * fractals(k, k0(b2.dtype))):
        params = LoadData2DParams(chunk.number(0, first) + start, count)
        LoadDataWithSparse(b2[start * FRACTAL :], chunk.tensor, indices, params)


def load_a(chunk: Chunk, a2: LocalTensor, m: int, k: int, first: int, *, is_transposed: bool) -> None:
    """Load a piece of A to L0A, from the layout Nz to Zz; one instruction for each fractal of the shorter side.

    The piece begins at fractal *first* of the chunk along k.
    """
    width = k0(a2.dtype)
    rows, depth = fractals(m), fractals(k, width)
    size = elements_in(a2.dtype, FRACTAL)
    a1 = chunk.tensor
    if is_transposed:
        for row in range(rows):
            LoadData(a2[row * depth * size :], a1, LoadData2DParams(chunk.number(first, row), depth, 1, 0, True))
    elif depth <= rows:
        for column in range(depth):
            LoadData(a2[column * size :], a1, LoadData2DParams(chunk.number(0, first + column), rows, 1, depth - 1))
    else:
        for row in range(rows):
            LoadData(a2[row * depth * size :], a1, LoadData2DParams(chunk.number(row, first), depth, chunk.high))


def load_b(chunk: Chunk, b2: LocalTensor, n: int, k: int, first: int, *, is_transposed: bool) -> None:
    """Load a piece of B to L0B, from the layout Nz to Zn.

    If B is transposed in GM, it has that layout already. Otherwise each fractal, or square of fractals, is transposed.
    The piece begins at fractal *first* of the chunk along k.
    """
    width = k0(b2.dtype)
    columns, depth = fractals(n), fractals(k, width)
    size = elements_in(b2.dtype, FRACTAL)
    b1 = chunk.tensor
    if is_transposed:
        if chunk.high == columns:  # columns of fractals follow each other
            for start, count in repeats_of(depth * columns):
                LoadData(b2[start * size :], b1, LoadData2DParams(chunk.number(0, first) + start, count))
        else:
            for row in range(depth):
                LoadData(b2[row * columns * size :], b1, LoadData2DParams(chunk.number(0, first + row), columns))
    elif width == SIDE:
        for row in range(depth):
            fractal = LoadData2DParams(chunk.number(first + row, 0), columns, chunk.high, 0, True)
            LoadData(b2[row * columns * size :], b1, fractal)
    elif width < SIDE:
        for row in range(fractals(k)):
            params = LoadData2dTransposeParams((first // 2 + row) * columns, columns, 1, 0, columns - 1)
            LoadDataWithTranspose(b2[row * 2 * columns * size :], b1, params)
    else:
        squares, each = fractals(n, width), width // SIDE
        for row in range(depth):
            start = chunk.number((first + row) * each, 0) // each
            params = LoadData2dTransposeParams(start, squares, chunk.high // each, each - 1, 0)
            LoadDataWithTranspose(b2[row * each * squares * size :], b1, params)
