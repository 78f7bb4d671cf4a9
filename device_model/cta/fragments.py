"""Fragments: how the 32 lanes of a warp hold the matrices of mma.m16n8k16, as PTX lays them out.

A fragment is an array of shape (..., 32, n): n elements for each lane. Two elements of 16 bits share a register, the
first in its lower half, so `fragment.view(np.uint32)` has the registers. `A`, `B` and `C` are the layouts of the three
operands, and `C` also is that of the result. `ldmatrix` reads fragments from rows in shared memory.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from device_model.cta.tensor import DEPTH, Array, Integers, mma

LANES = 32
ROWS, COLUMNS = 16, 8  # of the result of one mma
MATRIX_ROW = 16  # bytes in a row of the 8 x 8 matrices that ldmatrix loads
_LANE = np.arange(LANES)[:, None]


class Layout(NamedTuple):
    """Where the elements of a fragment are in its matrix.

    Attributes:
        rows: The row of each element, by lane and place in the lane: shape (32, n).
        columns: Its column.
        shape: Rows and columns of the matrix.
    """

    rows: Integers
    columns: Integers
    shape: tuple[int, int]

    def split(self, matrix: Array) -> Array:
        """Return the fragment of a matrix, or of each matrix of an array: (..., rows, columns) to (..., 32, n).

        Raises:
            ValueError: The matrix has another shape.
        """
        if matrix.shape[-2:] != self.shape:
            raise ValueError(f"the matrix of this fragment is {self.shape}, not {matrix.shape[-2:]}")
        return matrix[..., self.rows, self.columns]

    def join(self, fragment: Array) -> Array:
        """Return the matrix of a fragment: (..., 32, n) to (..., rows, columns).

        Raises:
            ValueError: The fragment has another shape.
        """
        if fragment.shape[-2:] != self.rows.shape:
            raise ValueError(f"this fragment has {self.rows.shape} lanes and elements, not {fragment.shape[-2:]}")
        matrix = np.empty((*fragment.shape[:-2], *self.shape), fragment.dtype)
        matrix[..., self.rows, self.columns] = fragment
        return matrix


def _layout(places: int, shape: tuple[int, int]) -> Layout:
    """Return the layout of A or C: pairs of columns; then the rows 8 below; then the columns 8 to the right."""
    place = np.arange(places)[None, :]
    rows = _LANE // 4 + place // 2 % 2 * 8
    columns = _LANE % 4 * 2 + place % 2 + place // 4 * 8
    return Layout(rows, columns, shape)


A = _layout(8, (ROWS, DEPTH))
B = Layout(  # pairs of rows; then the rows 8 below
    _LANE % 4 * 2 + np.arange(4)[None, :] % 2 + np.arange(4)[None, :] // 2 * 8,
    np.broadcast_to(_LANE // 4, (LANES, 4)),
    (DEPTH, COLUMNS),
)
C = _layout(4, (ROWS, COLUMNS))
_ROW_OF_MATRIX = Layout(np.broadcast_to(_LANE // 4, (LANES, 2)), _LANE % 4 * 2 + np.arange(2)[None, :], (8, 8))


def mma_m16n8k16(a: Array, b: Array, c: Array) -> Array:
    """Return the fragment of a product, one for each warp.

    Args:
        a: Fragments of shape (..., 32, 8), of float16 or bfloat16.
        b: Fragments of shape (..., 32, 4), of the same type.
        c: Fragments of shape (..., 32, 4), of float32.

    Raises:
        TypeError, ValueError: As `tensor.mma`.
    """
    return C.split(mma(A.join(a), B.join(b), C.join(c)))


def ldmatrix(memory: NDArray[np.uint8], addresses: Integers, count: int, *, transposed: bool = False) -> Array:
    """Return what each lane gets from ldmatrix: two 16-bit elements of each of `count` 8 x 8 matrices.

    Args:
        memory: The bytes of shared memory.
        addresses: The byte addresses that the lanes give, of shape (..., 32). Those of lanes 0 to 7 are the rows of
            the first matrix, those of the next 8 the rows of the second; lanes beyond `8 * count` are not looked at.
        count: 1, 2 or 4 matrices.
        transposed: Whether each matrix is transposed on the way (.trans).

    Returns:
        Elements as uint16, of shape (..., 32, 2 * count).

    Raises:
        ValueError: Another count, or an address that is not a multiple of 16 or whose row is not in the memory; the
            message names the first such lane.
    """
    if count not in (1, 2, 4):
        raise ValueError(f"ldmatrix loads 1, 2 or 4 matrices, not {count}")
    rows = addresses[..., : 8 * count]
    is_wrong = (rows % MATRIX_ROW != 0) | (rows < 0) | (rows > memory.size - MATRIX_ROW)
    if is_wrong.any():
        place = tuple(np.argwhere(is_wrong)[0])
        raise ValueError(
            f"ldmatrix: lane {place[-1]} gives address {rows[place]}; a row of a matrix has {MATRIX_ROW} bytes, begins "
            f"at a multiple of {MATRIX_ROW} and lies within the {memory.size} bytes of shared memory"
        )
    values = memory[rows[..., None] + np.arange(MATRIX_ROW)].view(np.uint16)
    matrices = values.reshape(*rows.shape[:-1], count, 8, 8)
    if transposed:
        matrices = np.swapaxes(matrices, -1, -2)
    pairs = _ROW_OF_MATRIX.split(matrices)  # (..., count, 32, 2)
    return np.moveaxis(pairs, -3, -2).reshape(*rows.shape[:-1], LANES, 2 * count)


class TileProduct(NamedTuple):
    """A product of tiles, and how many mma instructions a warp or several together issue for it."""

    value: NDArray[np.float32]
    instructions: int


def tile_mma(a: Array, b: Array, c: NDArray[np.float32], *, exact: bool = False) -> TileProduct:
    """Return `a @ b + c` for a whole tile, in place of the mma.m16n8k16 instructions that it takes.

    Args:
        a: A matrix of float16 or bfloat16, of shape (m, k).
        b: A matrix of the same type, of shape (k, n).
        c: Accumulators of float32, of shape (m, n).
        exact: Whether the result has every bit of the tensor core's, whose sums are truncated 16 products at a time.
            Otherwise it is one product of float32 matrices, which takes a small part of the time.

    Raises:
        TypeError: The types are none that the tensor core multiplies.
        ValueError: The shapes do not fit, or m, n and k are no multiples of 16, 8 and 16.
    """
    (m, k), (depth, n) = a.shape, b.shape
    if k != depth or c.shape != (m, n) or m % ROWS or n % COLUMNS or k % DEPTH:
        raise ValueError(
            f"a tile multiplies (m, k) by (k, n) and adds (m, n), with m, n and k multiples of {ROWS}, {COLUMNS} and "
            f"{DEPTH}; these shapes are {a.shape}, {b.shape} and {c.shape}"
        )
    instructions = m // ROWS * (n // COLUMNS) * (k // DEPTH)
    if not exact:
        with np.errstate(all="ignore"):  # infinities and NaN are results here
            return TileProduct(a.astype(np.float32) @ b.astype(np.float32) + c, instructions)
    for begin in range(0, k, DEPTH):
        c = mma(a[:, begin : begin + DEPTH], b[begin : begin + DEPTH], c)
    return TileProduct(c, instructions)
