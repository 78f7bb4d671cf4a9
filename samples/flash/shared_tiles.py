"""Copies of tiles between global and shared memory, and fragments from shared memory. See forward.py."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from config import PIECE, SIDE, WARP

from acl_py import cta

Places = Callable[[Any], tuple[Any, Any]]
SWIZZLE_SPACE = 8  # pieces that are permuted among themselves: the 128 bytes of all banks


class GSMemLdstConfig(NamedTuple):
    """How a block copies a tile between global and shared memory: each warp its own rows, 16 bytes a thread.

    Attributes:
        rows: The rows of the tile.
        columns: Its columns.
        warps: The warps that copy it.
        swizzled: Whether pieces are permuted in shared memory.
        async_copy: Whether cp.async copies them.
    """

    rows: int
    columns: int
    warps: int
    swizzled: bool
    async_copy: bool

    @property
    def pieces(self) -> int:
        """The pieces of a row: one for each thread that copies it."""
        return self.columns // PIECE

    @property
    def thread_tile(self) -> tuple[int, int]:
        """The rows and pieces that a warp copies at a time."""
        return max(WARP // self.pieces, 1), min(self.pieces, WARP)

    @property
    def warp_rows(self) -> int:
        """The rows of a warp."""
        return self.rows // self.warps

    def place(self, row: Any, piece: Any) -> Any:
        """Return where *piece* of *row* is in shared memory; swizzled, a column of 8 rows is in 8 places of a space."""
        return piece ^ row % SWIZZLE_SPACE if self.swizzled else piece


class Tile:
    """A tile in shared memory, and the copies into and out of it.

    The array has a dimension more than the tile, so that its last is a piece: one index is then 16 bytes.
    """

    def __init__(self, config: GSMemLdstConfig, dtype: np.dtype[Any], name: str) -> None:
        self.config = config
        self.shared = cta.shared(dtype, (config.rows, config.pieces, PIECE), name)
        rows, pieces = config.thread_tile
        # A place for each row that a thread copies: one instruction of its warp.
        steps = np.arange(0, config.warp_rows, rows)
        self.row = (cta.warp * config.warp_rows + cta.lane // pieces)[:, None] + steps
        self.piece = (cta.lane % pieces)[:, None]
        self.place = config.place(self.row, self.piece)

    def load(self, source: Any, first: int, length: int) -> None:
        """Copy the rows from *first* on of *source*, an array of (length, pieces, 8); those beyond are zeros."""
        row = self.row + first
        beyond = row >= length if first + self.config.rows > length else None
        if beyond is not None:
            row = np.minimum(row, length - 1)
        if self.config.async_copy:
            cta.cp_async(
                self.shared.at[self.row, self.place], source.at[row, self.piece], 16, cache="cg", ignore=beyond
            )
            return
        values = source[row, self.piece]
        if beyond is not None:
            values = cta.select(beyond[..., None], np.zeros(PIECE, values.dtype), values)
        self.shared[self.row, self.place] = values

    def store(self, target: Any, first: int, length: int) -> None:
        """Copy the rows of each warp to *target* from *first* on, but not beyond its *length* rows."""
        for step in range(self.row.shape[1]):
            row, piece = self.row[:, step], self.piece[:, 0]
            values = self.shared[row, self.config.place(row, piece)]
            with cta.where(row + first < length):
                target[row + first, piece] = values

    def put(self, fragments: Any) -> None:
        """Store the results of each warp, fragments of (threads, m, n, 4), as rows of this tile."""
        m, n = fragments.shape[1:3]
        pairs = self.shared.reshape(self.config.rows, self.config.pieces, PIECE // 2, 2)
        rows = cta.warp * self.config.warp_rows + cta.lane // 4
        piece = np.arange(n)[None, None, :]
        for half in range(2):
            row = rows[:, None, None] + (np.arange(m) * SIDE + 8 * half)[None, :, None]
            pairs[row, self.config.place(row, piece), (cta.lane % 4)[:, None, None]] = fragments[
                ..., 2 * half : 2 * half + 2
            ]


class Operand:
    """A tile as an operand of mma: its fragments by parts of 16 of the depth of the product.

    Attributes:
        depth: How many parts there are.
    """

    def __init__(self, tile: Tile, depth: int, width: int, at: Places, *, transposed: bool = False) -> None:
        self.tile = tile
        self.depth = depth
        self.width = width  # elements of a fragment in a thread
        self.at = at  # where the rows of some parts begin, for ldmatrix
        self.transposed = transposed
        self.places: dict[tuple[int, int], Any] = {}  # of some parts in shared memory: the same in each step

    def load(self, part: int, parts: int) -> Any:
        """Return the fragments of *parts* parts from *part* on."""
        if (part, parts) not in self.places:
            row, piece = self.at(np.arange(part, part + parts))
            self.places[part, parts] = self.tile.shared.at[row, self.tile.config.place(row, piece)]
        values = cta.ldmatrix(self.places[part, parts], 4, transposed=self.transposed)
        return values.reshape(*values.shape[:2], -1, self.width)


def queries_of(tile: Tile) -> Operand:
    """Return the rows of each warp as the left operand: fragments of (threads, m, parts, 8)."""
    config = tile.config
    row, piece = cta.warp * config.warp_rows + cta.lane % SIDE, cta.lane // SIDE
    rows = row[:, None, None] + (np.arange(config.warp_rows // SIDE) * SIDE)[None, :, None]
    return Operand(tile, config.columns // SIDE, 8, lambda parts: (rows, piece[:, None, None] + 2 * parts))


def keys_of(tile: Tile) -> Operand:
    """Return keys as the right operand of Q K^T: fragments of (threads, parts, keys / 8, 4)."""
    config = tile.config
    row, piece = cta.lane // SIDE * 8 + cta.lane % 8, cta.lane // 8 % 2
    rows = row[:, None, None] + np.arange(config.rows // SIDE) * SIDE
    return Operand(tile, config.columns // SIDE, 4, lambda parts: (rows, piece[:, None, None] + 2 * parts[:, None]))


def values_of(tile: Tile) -> Operand:
    """Return values as the right operand of P V: fragments of (threads, parts, d / 8, 4), transposed on the way."""
    config = tile.config
    row, piece = cta.lane % SIDE, cta.lane // SIDE
    pieces = piece[:, None, None] + 2 * np.arange(config.columns // SIDE)
    return Operand(
        tile,
        config.rows // SIDE,
        4,
        lambda parts: (row[:, None, None] + parts[:, None] * SIDE, pieces),
        transposed=True,
    )
