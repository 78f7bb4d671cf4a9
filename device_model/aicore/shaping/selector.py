"""Selects the kind of kernel for the rows of a matrix: rows whole, padded, in pieces, or shared by cores.

Softmax and normalisation reduce a whole row to a number before they can compute its first element. Kernels for them
come in four kinds (`RowKind`). For a shape, the selector makes the tiling of each possible kind, estimates its time,
and takes the fastest. The result also lists the other kinds, with their estimates or why they are not possible.

An estimate is a few lines of arithmetic: bytes over bandwidth, latencies, and cycles of the vector pipe. That is enough
to tell the kinds apart. For a measurement, use `tune`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy.typing as npt

from device_model.aicore.core.names import BLOCK
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.core.tensors import dtype_of
from device_model.aicore.shaping.tiling import BlockTiling, TilingKey, block_tiling
from device_model.aicore.vector.masks import REPEAT

SLOT = 32  # bytes of the workspace for each block, so that no two blocks write to one DataBlock
_LARGE = 16384  # least bytes of a tile that use the bandwidth of a copy well
_TILES = 4  # least tiles of a block, so that copies and vector work overlap
# Cycles for each tile: queues, flags, start-up of vector instructions, and reading a number with the scalar pipe.
_PER_TILE = 100


class RowKind(Enum):
    """How a kernel goes through rows; the value describes it."""

    FULL_LOAD = "the UB holds whole rows"
    PAD = "the UB holds whole rows, each padded to a multiple of 32 bytes"
    SPLIT = "each row passes through the UB twice, in pieces"
    SPLIT_CORES = "several cores share a row and combine their results in a workspace"


class Candidate(NamedTuple):
    """A kind of kernel that was considered, whether it is possible or not.

    Attributes:
        kind: The kind.
        us: The estimated time in microseconds; None if the kind is not possible.
        why: The tiling in words; for a kind that is not possible, the reason.
    """

    kind: RowKind
    us: float | None
    why: str


@dataclass(frozen=True)
class RowTiling:
    """A tiling of a matrix for one kind of kernel, and the reasons for the choice; str() lists them.

    A block goes through some rows and a part of the columns: for each tile of `rows(block)`, all of `pieces(block)`.

    Attributes:
        kind: The kind that was chosen.
        by_rows: The tiling of the rows.
        by_columns: The tiling of the columns.
        workspace_bytes: The bytes of GM that the kind needs as a workspace; 0 for all but SPLIT_CORES.
        candidates: All kinds that were considered.
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
        """The number of the kind, as a tiling key (`ROW_KEY`)."""
        return ROW_KEY(kind=self.kind)

    @property
    def block_num(self) -> int:
        """The number of blocks to launch."""
        return self.by_rows.block_num * self.by_columns.block_num

    @property
    def blocks_per_row(self) -> int:
        """The number of blocks that share a row; their indices are consecutive."""
        return self.by_columns.block_num

    def rows(self, block: int) -> Iterator[tuple[int, int]]:
        """Return the first row and the number of rows of each tile of *block*."""
        return self.by_rows.tiles(block // self.blocks_per_row)

    def pieces(self, block: int) -> Iterator[tuple[int, int]]:
        """Return the first column and the number of columns of each piece of a row in *block*."""
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
    """Choose the kind of kernel with the shortest estimated time for a matrix that is read once and written once.

    Args:
        spec: The cores of the card: `profile.aicore`.
        rows: Rows of the matrix.
        columns: Elements of a row.
        dtype: Their type.
        tensors: How many tensors of the size of a tile the kernel keeps in the UB; a double buffer counts as two.
        vector_cycles: Cycles of the vector pipe for each 256 bytes of a row.
        cores: How many vector cores it may use; by default all.
        workspace: Bytes of GM that it may use as a workspace.
        reserved: Bytes of the UB that it uses besides these tensors.
        kinds: The kinds that it is written for.

    Returns:
        The tiling; str() of it tells what was considered.

    Raises:
        ValueError: A number is below 1, the tensors do not fit in the UB, or no kind is possible (with the reasons).
    """
    cores = spec.vector_cores if cores is None else min(cores, spec.vector_cores)
    if min(rows, columns, tensors, cores) < 1:
        raise ValueError(f"{rows} x {columns} elements, {tensors} tensors, {cores} cores: all must be 1 or more")
    room = (spec.ub_bytes - reserved) // tensors // BLOCK * BLOCK
    if room < BLOCK:
        raise ValueError(f"{tensors} tensors and {reserved} bytes do not fit in the {spec.ub_bytes} bytes of the UB")
    shape = _Shape(rows, columns, dtype_of(dtype).itemsize, cores, workspace, room, vector_cycles)
    possible: list[tuple[float, RowKind, BlockTiling, BlockTiling]] = []
    candidates: list[Candidate] = []
    for kind in kinds:
        obstacle = _obstacle(kind, shape)
        if obstacle:
            candidates.append(Candidate(kind, None, obstacle))
            continue
        by_rows, by_columns = _tilings(kind, shape)
        us = _estimate_us(spec, shape, by_rows, by_columns)
        possible.append((us, kind, by_rows, by_columns))
        candidates.append(Candidate(kind, us, _description(shape, by_rows, by_columns)))
    if not possible:
        reasons = "; ".join(f"{kind.name}: {why}" for kind, _, why in candidates) or "no kinds are given"
        raise ValueError(f"no way to go through {rows} x {columns} elements: {reasons}")
    _, kind, by_rows, by_columns = min(possible, key=lambda each: each[0])
    blocks = by_rows.block_num * by_columns.block_num
    return RowTiling(kind, by_rows, by_columns, blocks * SLOT if kind is RowKind.SPLIT_CORES else 0, tuple(candidates))


def _obstacle(kind: RowKind, shape: _Shape) -> str:
    """Return why *kind* is not possible; an empty string if it is."""
    tail, padded = shape.row_bytes % BLOCK, -(-shape.row_bytes // BLOCK) * BLOCK
    match kind:
        case RowKind.FULL_LOAD if tail:
            return f"rows of {shape.row_bytes:,} bytes are not a multiple of {BLOCK} bytes"
        case RowKind.PAD if not tail:
            return f"rows of {shape.row_bytes:,} bytes need no padding"
        case RowKind.FULL_LOAD | RowKind.PAD if padded > shape.room:
            return f"a row takes {padded:,} bytes, and the UB has {shape.room:,} for it"
        case RowKind.SPLIT_CORES:
            blocks = shape.cores // shape.rows * shape.rows
            if min(shape.cores // shape.rows, -(-shape.row_bytes // BLOCK)) < 2:
                return f"{shape.rows:,} rows of {shape.row_bytes:,} bytes leave {shape.cores} cores nothing to share"
            if shape.workspace < blocks * SLOT:
                return f"it needs {blocks * SLOT:,} bytes of workspace, and there are {shape.workspace:,}"
    return ""


def _tilings(kind: RowKind, shape: _Shape) -> tuple[BlockTiling, BlockTiling]:
    """Return the tilings of the rows and of the columns."""
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


def _description(shape: _Shape, by_rows: BlockTiling, by_columns: BlockTiling) -> str:
    pieces = len(list(by_columns.tiles(0)))
    if by_columns.block_num > 1:
        return f"{by_columns.block_num} cores for each row, {pieces} pieces each"
    if pieces > 1:
        return f"{by_rows.block_num} cores, a row in {pieces} pieces"
    return f"{by_rows.block_num} cores, {min(by_rows.tile, shape.rows)} rows at a time"


def _estimate_us(spec: CoreSpec, shape: _Shape, by_rows: BlockTiling, by_columns: BlockTiling) -> float:
    """Return the estimated time of a launch.

    Cores start one after the other, and the blocks with one row more come first. So either the last of these ends last,
    or the last block of all.
    """
    parts = by_columns.block_num
    last = [rows * parts - 1 for rows in (by_rows.former_num, by_rows.block_num) if rows]
    ends = (_block_ns(spec, shape, by_rows, by_columns, block) + spec.start_interval_ns * block for block in last)
    return (spec.schedule_ns + spec.init_ns + spec.soft_init_ns + max(ends) + spec.report_ns) / 1e3


def _block_ns(spec: CoreSpec, shape: _Shape, by_rows: BlockTiling, by_columns: BlockTiling, block: int) -> float:
    """Return the time of *block* in ns.

    The latency of a tile, its copy to the UB and its vector work follow each other, because the scalar pipe waits for
    the reduced number. The copy back runs beside the next tile. The second pass over a row in pieces does not wait for
    a number, and reads from the L2 if that holds all rows.
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
