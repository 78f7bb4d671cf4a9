"""Moves of matrices between memory and the registers of a warp: ldmatrix, stmatrix, movmatrix, and those of wmma."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from device_model.ptx.lanes.group import WARP, Array, Lanes
from device_model.ptx.lanes.memory import load, store
from device_model.ptx.lanes.warps import Table, common

_ROWS = 8  # of the 8 x 8 matrices of 16-bit elements that ldmatrix and others move
_WORDS = 4  # of 32 bits in such a row
_WORD = np.dtype(np.uint32)


def places(at: Lanes, rows: int, columns: int, number: int) -> tuple[Array, Array]:
    """Return row and column of one element of each lane in a matrix of wmma.

    The lanes have the elements row after row. A fragment with more elements than the matrix repeats them.
    """
    count = rows * columns // WARP
    place = (at.thread % WARP * count + number % count).astype(np.uint64)
    return place // np.uint64(columns), place % np.uint64(columns)


def wmma_load(
    at: Lanes, space: str, address: Array, stride: Array, matrix: tuple[int, int], dtype: np.dtype[Any], registers: int,
    *, is_row: bool,
) -> list[Array]:  # fmt: skip
    """Return the registers of a matrix in memory.

    Args:
        at: The lanes.
        space: strs elements.
        address: Where the matrix begins, the same in all lanes of a warp.
        stride: How many elements lie between the beginnings of two rows, or of two columns.
        matrix: Its rows and columns.
        dtype: Its elements.
        registers: How many the fragment has.
        is_row: Whether it lies in memory row after row, and not column after column.
    """
    each = max(1, 4 // dtype.itemsize)  # elements in a register
    rows, columns = matrix
    values = [
        load(at, space, _element(at, address, stride, matrix, number, dtype, is_row=is_row), dtype)
        for number in range(rows * columns // WARP)
    ]
    repeated = [values[number % len(values)] for number in range(registers * each)]
    if each == 1:
        return repeated
    return [
        np.stack(repeated[first : first + each], -1).view(np.uint32)[..., 0] for first in range(0, len(repeated), each)
    ]


def wmma_store(
    at: Lanes, space: str, address: Array, stride: Array, matrix: tuple[int, int], dtype: np.dtype[Any],
    registers: Sequence[Array], *, is_row: bool,
) -> None:  # fmt: skip
    """Store the matrix of *registers*; the arguments are those of `wmma_load`."""
    for number in range(matrix[0] * matrix[1] // WARP):
        if dtype.itemsize == 2:
            register = np.ascontiguousarray(np.broadcast_to(registers[number // 2], at.shape))
            value = register.view(dtype)[..., number % 2 :: 2]
        else:
            value = registers[number]
        store(at, space, _element(at, address, stride, matrix, number, dtype, is_row=is_row), value)


def _element(
    at: Lanes, address: Array, stride: Array, matrix: tuple[int, int], number: int, dtype: np.dtype[Any], *,
    is_row: bool,
) -> Array:  # fmt: skip
    """Return the address of one element of each lane."""
    row, column = places(at, *matrix, number)
    index = row * stride + column if is_row else column * stride + row
    return np.asarray(address + index * np.uint64(dtype.itemsize))


def ldmatrix(at: Lanes, space: str, address: Array, count: int, *, transposed: bool = False) -> list[Array]:
    """Return the registers of *count* matrices; lane 8 * i + j has the address of row j of matrix i."""
    owners, part = _owners(at, address, count)
    words = load(owners, space, part, _WORD, _WORDS)
    rows = Table(owners)
    matrices = np.stack([rows.of(word) for word in words], -1)[:, : _ROWS * count]
    matrices = matrices.reshape(-1, count, _ROWS, _WORDS)
    if transposed:
        matrices = _transposed(matrices)
    table = Table(at)
    return [table.back(np.ascontiguousarray(matrices[:, number].reshape(-1, WARP))) for number in range(count)]


def stmatrix(at: Lanes, space: str, address: Array, registers: Sequence[Array], *, transposed: bool = False) -> None:
    """Store matrices, one in each of *registers*; the addresses are as for `ldmatrix`."""
    count = len(registers)
    table = Table(at)
    matrices = np.stack(common(*map(table.of, registers)), 1).reshape(-1, count, _ROWS, _WORDS)
    if transposed:
        matrices = _transposed(matrices)
    rows = np.zeros((len(matrices), WARP, _WORDS), np.uint32)
    rows[:, : _ROWS * count] = matrices.reshape(-1, _ROWS * count, _WORDS)
    owners, part = _owners(at, address, count)
    index = _warp_places(owners)
    words = np.tile(rows, (_warps(at) // len(rows), 1, 1)).reshape(-1, _WORDS)[index]
    store(owners, space, part, *(np.ascontiguousarray(words[:, number])[None, :] for number in range(_WORDS)))


def movmatrix(at: Lanes, register: Array) -> Array:
    """Return the register of a matrix that is transposed."""
    table = Table(at)
    matrix = table.of(register).reshape(-1, _ROWS, _WORDS)
    return table.back(np.ascontiguousarray(_transposed(matrix).reshape(-1, WARP)))


def _transposed(words: Array) -> Array:
    """Return 8 x 8 matrices, whose rows are four words, transposed."""
    halves = np.ascontiguousarray(words).view(np.uint16)
    return np.ascontiguousarray(np.swapaxes(halves, -1, -2)).view(np.uint32)


def _owners(at: Lanes, address: Array, count: int) -> tuple[Lanes, Array]:
    """Return the lanes that have addresses of rows, and these addresses."""
    has_row = np.broadcast_to(at.thread % WARP < _ROWS * count, at.shape).reshape(-1)
    address = np.broadcast_to(address, at.shape).reshape(-1)[has_row][None, :]
    return Lanes(at.group, at.flat.reshape(-1)[has_row]), address


def _warps(at: Lanes) -> int:
    return at.group.blocks * -(-at.group.threads // WARP)


def _warp_places(at: Lanes) -> Array:
    """Return the places of lanes in the table of warps."""
    warps = -(-at.group.threads // WARP)
    return np.asarray((at.block * (warps * WARP) + at.thread).reshape(-1))
