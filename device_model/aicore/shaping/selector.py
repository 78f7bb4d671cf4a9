"""Which variant of a kernel over the rows of a matrix fits a shape: rows whole, padded, in pieces, or shared by cores.

Kernels such as softmax and normalisation need a number of the whole row before they can give its first element. They
come in four kinds. The selector makes the tiling of each kind that is possible, estimates what it takes, and chooses
the fastest; what it says of the others is part of the result. The estimates are a few lines of arithmetic (bytes over
bandwidth, latencies, cycles of the vector pipe), good enough to tell the kinds apart; `tune` measures.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy.typing as npt

from device_model.aicore.core.memories import BLOCK
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.core.tensors import dtype_of
from device_model.aicore.shaping.tiling import BlockTiling, TilingKey, block_tiling
from device_model.aicore.vector.masks import REPEAT

SLOT = 32  # bytes of the workspace for each block: no two write to one DataBlock
_LARGE = 16384  # bytes of a tile that is worth a copy
_TILES = 4  # of a block, so that they overlap
_PER_TILE = 100  # cycles: queues, flags, the start-up of vector instructions, the way of a number to the scalar pipe


class RowKind(Enum):
    """How a kernel goes through rows; the value says what it does."""

    FULL_LOAD = "rows lie in the UB whole"
    PAD = "rows lie in the UB whole, each padded to whole blocks of 32 bytes"
    SPLIT = "a row passes through the UB in pieces, twice"
    SPLIT_CORES = "cores share a row, and meet through a workspace"


class Candidate(NamedTuple):
    """A kind that was considered: what it would take, in us, or None and why it is not possible."""

    kind: RowKind
    us: float | None
    why: str


@dataclass(frozen=True)
class RowTiling:
    """The tiling of *rows* x *columns* elements of one *kind*, and why it was chosen. str() tells.

    A block has the product of some rows and a part of the columns: for each of `rows(block)`, all of `pieces(block)`.
    *key* tells kinds apart as a number, *workspace_bytes* is what the kind needs of a workspace.
    """

    kind: RowKind
    by_rows: BlockTiling
    by_columns: BlockTiling
    workspace_bytes: int
    candidates: tuple[Candidate, ...]

    def __str__(self) -> str:
        lines = [f"{self.kind.name} (key {self.key}) on {self.block_num} blocks: {self.kind.value}"]
        for kind, us, why in self.candidates:
            estimate = "not possible" if us is None else f"{us:.2f} us estimated"
            lines.append(f"  {kind.name}: {estimate}, {why}")
        return "\n".join(lines)

    @property
    def key(self) -> int:
        """The tiling key."""
        return ROW_KEY(kind=self.kind)

    @property
    def block_num(self) -> int:
        """Blocks to launch."""
        return self.by_rows.block_num * self.by_columns.block_num

    @property
    def blocks_per_row(self) -> int:
        """Blocks that share a row; they are neighbours."""
        return self.by_columns.block_num

    def rows(self, block: int) -> Iterator[tuple[int, int]]:
        """The first row and the number of rows of each tile of *block*."""
        return self.by_rows.tiles(block // self.blocks_per_row)

    def pieces(self, block: int) -> Iterator[tuple[int, int]]:
        """The first column and the number of columns of each piece of a row that *block* has."""
        return self.by_columns.tiles(block % self.blocks_per_row)


ROW_KEY = TilingKey(kind=tuple(RowKind))


class _Shape(NamedTuple):
    rows: int
    columns: int
    itemsize: int
    cores: int
    workspace: int
    room: int  # bytes of the UB for a tile
    vector_cycles: float

    @property
    def row_bytes(self) -> int:
        return self.columns * self.itemsize


def select_rows(
    spec: CoreSpec,
    rows: int,
    columns: int,
    dtype: npt.DTypeLike,
    *,
    tensors: int,
    vector_cycles: float,
    cores: int | None = None,
    workspace: int = 0,
    reserved: int = 2048,
    kinds: Sequence[RowKind] = tuple(RowKind),
) -> RowTiling:
    """Choose how to go through *rows* x *columns* elements of *dtype*, read and written once.

    The kernel keeps *tensors* tensors of a tile in the UB, and *reserved* bytes beside them, and spends *vector_cycles*
    cycles of the vector pipe for each 256 bytes. It may use *cores* vector cores (by default all) and *workspace* bytes
    of GM. *kinds* are those that it is written for. A ValueError, with the reasons, if none of them is possible.
    """
    cores = spec.vector_cores if cores is None else min(cores, spec.vector_cores)
    if min(rows, columns, tensors, cores) < 1:
        raise ValueError(f"{rows} x {columns} elements, {tensors} tensors, {cores} cores: all must be 1 or more")
    room = (spec.ub_bytes - reserved) // tensors // BLOCK * BLOCK
    if room < BLOCK:
        raise ValueError(f"{tensors} tensors and {reserved} bytes do not fit in the {spec.ub_bytes} bytes of the UB")
    shape = _Shape(rows, columns, dtype_of(dtype).itemsize, cores, workspace, room, vector_cycles)
    found: list[tuple[float, RowKind, BlockTiling, BlockTiling]] = []
    candidates: list[Candidate] = []
    for kind in kinds:
        obstacle = _obstacle(kind, shape)
        if obstacle:
            candidates.append(Candidate(kind, None, obstacle))
            continue
        by_rows, by_columns = _tilings(kind, shape)
        us = _estimate_us(spec, shape, by_rows, by_columns)
        found.append((us, kind, by_rows, by_columns))
        candidates.append(Candidate(kind, us, _words(shape, by_rows, by_columns)))
    if not found:
        reasons = "; ".join(f"{kind.name}: {why}" for kind, _, why in candidates) or "no kinds are given"
        raise ValueError(f"no way to go through {rows} x {columns} elements: {reasons}")
    _, kind, by_rows, by_columns = min(found, key=lambda each: each[0])
    blocks = by_rows.block_num * by_columns.block_num
    return RowTiling(kind, by_rows, by_columns, blocks * SLOT if kind is RowKind.SPLIT_CORES else 0, tuple(candidates))


def _obstacle(kind: RowKind, shape: _Shape) -> str:
    """Why *kind* is not possible; empty if it is."""
    tail, padded = shape.row_bytes % BLOCK, -(-shape.row_bytes // BLOCK) * BLOCK
    match kind:
        case RowKind.FULL_LOAD if tail:
            return f"rows of {shape.row_bytes:,} bytes are no whole blocks of {BLOCK}"
        case RowKind.PAD if not tail:
            return f"rows of {shape.row_bytes:,} bytes need no padding"
        case RowKind.FULL_LOAD | RowKind.PAD if padded > shape.room:
            return f"a row takes {padded:,} bytes and the UB has {shape.room:,} for it"
        case RowKind.SPLIT_CORES:
            blocks = shape.cores // shape.rows * shape.rows
            if min(shape.cores // shape.rows, -(-shape.row_bytes // BLOCK)) < 2:
                return f"{shape.rows:,} rows of {shape.row_bytes:,} bytes leave {shape.cores} cores nothing to share"
            if shape.workspace < blocks * SLOT:
                return f"it needs {blocks * SLOT:,} bytes of workspace, and there are {shape.workspace:,}"
    return ""


def _tilings(kind: RowKind, shape: _Shape) -> tuple[BlockTiling, BlockTiling]:
    """How rows and columns are cut."""
    unit = BLOCK // shape.itemsize
    piece = shape.room // shape.itemsize // unit * unit
    match kind:
        case RowKind.FULL_LOAD | RowKind.PAD:
            blocks = block_tiling(shape.rows, shape.cores)
            padded = -(-shape.row_bytes // BLOCK) * BLOCK
            wanted = max(-(-_LARGE // padded), -(-blocks.former_length // _TILES))
            tile = min(shape.room // padded, wanted)
            return block_tiling(shape.rows, shape.cores, tile=tile), block_tiling(shape.columns, 1)
        case RowKind.SPLIT:
            return block_tiling(shape.rows, shape.cores, tile=1), block_tiling(shape.columns, 1, unit=unit, tile=piece)
        case RowKind.SPLIT_CORES:
            parts = shape.cores // shape.rows
            return block_tiling(shape.rows, shape.rows), block_tiling(shape.columns, parts, unit=unit, tile=piece)


def _words(shape: _Shape, by_rows: BlockTiling, by_columns: BlockTiling) -> str:
    pieces = len(list(by_columns.tiles(0)))
    if by_columns.block_num > 1:
        return f"{by_columns.block_num} cores for each row, {pieces} pieces each"
    if pieces > 1:
        return f"{by_rows.block_num} cores, a row in {pieces} pieces"
    return f"{by_rows.block_num} cores, {min(by_rows.tile, shape.rows)} rows at a time"


def _estimate_us(spec: CoreSpec, shape: _Shape, by_rows: BlockTiling, by_columns: BlockTiling) -> float:
    """What a launch takes: until the last of the blocks with most rows is done, or the last block of all.

    Cores start one after the other, and blocks with a row more are the first.
    """
    parts = by_columns.block_num
    last = [rows * parts - 1 for rows in (by_rows.former_num, by_rows.block_num) if rows]
    ends = (_block_ns(spec, shape, by_rows, by_columns, block) + spec.start_interval_ns * block for block in last)
    return (spec.schedule_ns + spec.init_ns + spec.soft_init_ns + max(ends) + spec.report_ns) / 1e3


def _block_ns(spec: CoreSpec, shape: _Shape, by_rows: BlockTiling, by_columns: BlockTiling, block: int) -> float:
    """How long *block* works.

    Each tile's latency, its way in and its vector work follow each other, for the scalar pipe waits for the number it
    needs; its way out runs beside the next tile. The second pass over a row in pieces waits for nothing, and finds the
    row in the L2 if that holds all rows.
    """
    row_block, part = divmod(block, by_columns.block_num)
    rows, pieces = by_rows.part(row_block)[1], len(list(by_columns.tiles(part)))
    tiles = len(list(by_rows.tiles(row_block))) * pieces
    nbytes = rows * by_columns.part(part)[1] * shape.itemsize
    all_bytes = shape.rows * shape.row_bytes
    per_ns = spec.mhz / 1e3
    writing = nbytes / spec.write_bytes_per_cycle
    cycles = max(nbytes / spec.read_bytes_per_cycle, all_bytes * per_ns / spec.hbm_gbps)
    cycles += shape.vector_cycles * nbytes / REPEAT + tiles * _PER_TILE + writing / tiles
    latency_ns = tiles * spec.read_latency_ns + spec.write_latency_ns
    if pieces > 1:
        if all_bytes <= spec.l2_bytes:
            again = max(nbytes / spec.hit_read_gbps, all_bytes / spec.l2_gbps) * per_ns
        else:
            again = max(nbytes / spec.read_bytes_per_cycle, all_bytes * per_ns / spec.hbm_gbps)
        cycles += max(again, writing)
        latency_ns += rows * spec.hit_latency_ns
    if by_columns.block_num > 1:
        cycles += spec.cross_core + _PER_TILE
        latency_ns += spec.write_latency_ns + spec.hit_latency_ns
    return cycles / per_ns + latency_ns
