"""Fragments: how the 32 lanes of a warp hold the matrices of mma.m16n8k16, as PTX lays them out.

A fragment is an array of shape (..., 32, n): n elements for each lane. Two elements of 16 bits share a register, the
first in its lower half, so `fragment.view(np.uint32)` has the registers. `A`, `B` and `C` are the layouts of the three
operands, and `C` also is that of the result. `ldmatrix` reads fragments from rows in shared memory.
"""

from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from device_model.sm.names import MATRIX_ROW, Ints
from device_model.sm.tensor_core import DEPTH, Array, check_types, mma

LANES = 32
ROWS, COLUMNS = 16, 8  # of the result of one mma
_SIZES = {"g": 8, "t": 4, "r": 2, "h": 2, "e": 2, "q": 4}


class Layout(NamedTuple):
    """Where the elements of a fragment are in its matrix.

    A place is a number in mixed radix. Its digits are g, the group of four lanes; t, the lane in its group; r and h,
    halves of a matrix; e, the element of a pair; q, one of four elements or of four parts of a matrix. Fragment and
    matrix have the same digits in other orders.

    Attributes:
        lanes: The digits of a place in the fragment, that of the lane first.
        rows: Those of the row in the matrix.
        columns: Those of the column.
    """

    lanes: str
    rows: str
    columns: str

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return _product(self.rows), _product(self.columns)

    @property
    def places(self) -> int:
        """Elements that each lane holds."""
        return _product(self.lanes) // LANES

    def split(self, matrix: Array) -> Array:
        """Return the fragment of a matrix, or of each matrix of an array: (..., rows, columns) to (..., 32, n).

        Raises:
            ValueError: The matrix has another shape.
        """
        if matrix.shape[-2:] != self.shape:
            raise ValueError(f"the matrix of this fragment is {self.shape}, not {matrix.shape[-2:]}")
        return _reordered(matrix, self.rows + self.columns, self.lanes, (LANES, self.places))

    def join(self, fragment: Array) -> Array:
        """Return the matrix of a fragment: (..., 32, n) to (..., rows, columns).

        Raises:
            ValueError: The fragment has another shape.
        """
        if fragment.shape[-2:] != (LANES, self.places):
            raise ValueError(f"this fragment has {LANES} lanes of {self.places} elements, not {fragment.shape[-2:]}")
        return _reordered(fragment, self.lanes, self.rows + self.columns, self.shape)


@cache
def _product(digits: str) -> int:
    return prod(_SIZES[digit] for digit in digits)


def _reordered(values: Array, old: str, new: str, shape: tuple[int, int]) -> Array:
    lead = values.shape[:-2]
    return values.reshape(*lead, -1).take(_order(old, new), axis=-1).reshape(*lead, *shape)


@cache
def _order(old: str, new: str) -> Ints:
    """Return the places of elements in the old order of digits, in the new order."""
    places = np.arange(_product(old)).reshape([_SIZES[digit] for digit in old])
    return places.transpose([old.index(digit) for digit in new]).reshape(-1)


A = Layout("gthre", "rg", "hte")
B = Layout("gthe", "hte", "g")
C = Layout("gtre", "rg", "te")


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


def ldmatrix(memory: NDArray[np.uint8], addresses: Ints, count: int, *, transposed: bool = False) -> Array:
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
    is_wrong = (rows & (MATRIX_ROW - 1) != 0) | (rows < 0) | (rows > memory.size - MATRIX_ROW)
    if is_wrong.any():
        place = tuple(np.argwhere(is_wrong)[0])
        raise ValueError(
            f"ldmatrix: lane {place[-1]} gives address {rows[place]}; a row of a matrix has {MATRIX_ROW} bytes, begins "
            f"at a multiple of {MATRIX_ROW} and lies within the {memory.size} bytes of shared memory"
        )
    whole = memory[: memory.size // 2 * 2].view(np.uint16)
    return whole.take(elements_of_rows(addresses, count, transposed=transposed))


def elements_of_rows(addresses: Ints, count: int, *, transposed: bool = False) -> Ints:
    """Return which 16-bit elements of shared memory `ldmatrix` gives to each lane: shape (..., 32, 2 * count)."""
    rows = addresses[..., : 8 * count]
    lead = rows.shape[:-1]
    matrices = (rows[..., None] // 2 + np.arange(8)).reshape(*lead, count, 8, 8)
    if transposed:
        matrices = np.swapaxes(matrices, -1, -2)
    # A register has two elements of a row; lane after lane has one, row after row.
    registers = matrices.reshape(*lead, count, LANES, 2)
    return np.swapaxes(registers, -3, -2).reshape(*lead, LANES, 2 * count).astype(np.intp, copy=False)


class TileProduct(NamedTuple):
    """Products of tiles, and how many mma instructions stand for each of them."""

    value: NDArray[np.float32]
    instructions: int


def tile_mma(a: Array, b: Array, c: NDArray[np.float32], *, exact: bool = False) -> TileProduct:
    """Return `a @ b + c` for whole tiles, in place of the mma.m16n8k16 instructions that each takes.

    Args:
        a: Matrices of float16 or bfloat16, of shape (..., m, k).
        b: Matrices of the same type, of shape (..., k, n).
        c: Accumulators of float32, of shape (..., m, n).
        exact: Whether the result has every bit of the tensor core's, whose sums are truncated 16 products at a time.
            Otherwise it is one product of float32 matrices, which takes a small part of the time.

    Raises:
        TypeError: The types are none that the tensor core multiplies.
        ValueError: The shapes do not fit, or m, n and k are no multiples of 16, 8 and 16.
    """
    check_types(a, b, c)
    (m, k), (depth, n) = a.shape[-2:], b.shape[-2:]
    if k != depth or c.shape[-2:] != (m, n) or m % ROWS or n % COLUMNS or k % DEPTH:
        raise ValueError(
            f"a tile multiplies (m, k) by (k, n) and adds (m, n), with m, n and k multiples of {ROWS}, {COLUMNS} and "
            f"{DEPTH}; these shapes are {a.shape}, {b.shape} and {c.shape}"
        )
    instructions = m // ROWS * (n // COLUMNS) * (k // DEPTH)
    if not exact:
        with np.errstate(all="ignore"):  # infinities and NaN are results here
            return TileProduct(product(a, b) + c, instructions)
    for begin in range(0, k, DEPTH):
        c = mma(a[..., begin : begin + DEPTH], b[..., begin : begin + DEPTH, :], c)
    return TileProduct(c, instructions)


def product(a: Array, b: Array) -> NDArray[np.float32]:
    """Return `a @ b` of 16-bit matrices as a product of float32 matrices."""
    return np.asarray(_single(a) @ _single(b))


def _single(numbers: Array) -> NDArray[np.float32]:
    """Return 16-bit numbers as float32, ten times as fast as NumPy converts them."""
    return _singles(numbers.dtype).take(numbers.view(np.uint16))


@cache
def _singles(dtype: np.dtype[Any]) -> NDArray[np.float32]:
    """Return all numbers of a 16-bit type as float32, in the order of their bits."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
