"""Products whose cores have a part of C each, from CANN's best practices: the basic API alone, with GELU of the result
on the vector cores, and a grouped product of int8 with scales and GELU.

A part of C is computed tile by tile; the vector cores beside a cube core take a tile from GM when it is there.
"""

from typing import Any

import numpy as np

from device_model.aicore.core.blocks import ASCEND_IS_AIC, GetBlockIdx, GetBlockNum, GetSubBlockIdx, GetTaskRatio
from device_model.aicore.core.names import PIPE_V, HardEvent, KernelType, Pipe, RoundMode, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, half
from device_model.aicore.flags.crossing import CrossCoreSetFlag, CrossCoreWaitFlag
from device_model.aicore.flags.queues import TBuf, TQue
from device_model.aicore.flags.sync import PipeBarrier, SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy, DataCopyParams
from device_model.aicore.runner import Result, run
from device_model.aicore.vector.elementwise import Adds, BinaryRepeatParams, Cast, Div, Exp, Mul, Muls
from device_model.aicore.vector.fill import Copy, CopyRepeatParams
from device_model.aicore.vector.gather import Brcb, BrcbRepeatParams
from device_model.profile import load
from tests.bench.rows.products import Cube, Product, int8, laid, operands
from tests.bench.rows.vectors import gelu_of

single, int32 = np.dtype(np.float32), np.dtype(np.int32)
LANES = 64  # floats of a repeat
_THERE, _ROOM = 8, 3  # flags between cores


# C by parts


def part_of(product: Product, down: int, across: int, *, by_rows: bool = False) -> list[tuple[int, int]]:
    """Return the tiles of C of this core, column by column or row by row; parts are as even as whole tiles allow."""
    block = GetBlockIdx() if ASCEND_IS_AIC else GetBlockIdx() // 2
    rows, columns = product.tiles()
    tall, wide = -(-rows // down), -(-columns // across)
    top, left = block % down * tall, block // down * wide
    tiles = [
        (row, column)
        for column in range(left, min(left + wide, columns))
        for row in range(top, min(top + tall, rows))
    ]  # fmt: skip
    return sorted(tiles) if by_rows else tiles


def multiply(a: Any, b: Any, c: Any, product: Product, down: int, *, with_gelu: bool, by_rows: bool = False) -> None:
    """Cores form a grid with *down* rows. With GELU, each vector core has half the rows of a tile."""
    c = GlobalTensor(product.out).SetGlobalBuffer(c)
    tiles = part_of(product, down, GetBlockNum() // down, by_rows=by_rows)
    if not ASCEND_IS_AIC:
        _gelu_tiles(c, product, tiles)
        return
    cube, count = Cube(product, a, b), -(-product.k // product.l1[2])
    for row, column in tiles:
        m, n = cube.compute(row, column, 0, count, 0)
        cube.store(c[row * product.l1[0] * product.n + column * product.l1[1]], m, n, product.n)
        if with_gelu:
            CrossCoreSetFlag(2, Pipe.FIX, _THERE)
    cube.close()


def _gelu_tiles(c: GlobalTensor, product: Product, tiles: list[tuple[int, int]]) -> None:
    tall, wide = product.l1[0] // 2, product.l1[1]
    x, y = (LocalTensor(single, TPosition.VECCALC, place * tall * wide * 4, tall * wide) for place in range(2))
    for row, column in tiles:
        top, left = row * product.l1[0] + GetSubBlockIdx() * tall, column * wide
        rows, columns = min(tall, product.m - top), min(wide, product.n - left)
        CrossCoreWaitFlag(_THERE)
        if rows <= 0:
            continue
        there, gap = c[top * product.n + left], (product.n - columns) // 8
        DataCopy(x, there, DataCopyParams(rows, columns // 8, gap, 0))
        _order(HardEvent.MTE2_V)
        gelu_of(x, y, rows * columns)
        _order(HardEvent.V_MTE3)
        DataCopy(there, y, DataCopyParams(rows, columns // 8, 0, gap))
        _order(HardEvent.MTE3_V)  # the next tile overwrites what this one reads and stores
        _order(HardEvent.V_MTE2)


def _order(event: HardEvent) -> None:
    SetFlag(event, 0)
    WaitFlag(event, 0)


def grid_on_card(product: Product, card: str, cores: int, *, with_gelu: bool = False, by_rows: bool = False) -> Result:
    """Run it on *cores* cores of a card, with zeros: four rows of parts, if the cores allow."""
    a, b = operands(product)
    args = a, laid(product, b), np.zeros((product.m, product.n), product.out), product, down_of(cores)

    def kernel(*given: Any) -> None:
        multiply(*given, with_gelu=with_gelu, by_rows=by_rows)

    kind = KernelType.MIX_AIC_1_2 if with_gelu else KernelType.AIC_ONLY
    return run(kernel, cores, args, load(card).aicore, kind=kind, hazards=False, values=False)


def down_of(cores: int) -> int:
    """Return how many parts of C lie below each other."""
    return next(down for down in (4, 2, 1) if cores % down == 0)


# A grouped product


ROWS = 24  # of sums that a vector core scales at a time
PART = 1024  # columns of C that a core computes in one go


def grouped_product(m: int, k: int, n: int) -> Product:
    """Return one group's product: B in fractals, A of a row of tiles stays in L1."""
    return Product(m, k, n, int8, "zN", (128, 256, 512), 128, out=int32, keeps_a=True)


def multiply_groups(
    a: Any, b: Any, scale: Any, of_rows: Any, out: Any, work: Any, product: Product, groups: int, depth: int
) -> None:
    """Groups of equal rows of A, each with its own B. Parts of all groups are dealt out in turn, and *depth* tiles of
    sums of a core may lie in GM.
    """
    blocks, down = GetBlockNum(), product.m // product.l1[0]
    core = GetBlockIdx() if ASCEND_IS_AIC else GetBlockIdx() // GetTaskRatio()
    across = -(-product.n // PART)
    work = GlobalTensor(int32).SetGlobalBuffer(work)
    size = product.l1[0] * product.l1[1]
    tiles = [
        (part // (down * across), part // across % down, column)
        for part in range(core, groups * down * across, blocks)
        for column in range(part % across * PART // 256, min(-(-product.n // 256), (part % across + 1) * PART // 256))
    ]
    places = [(core + number % depth * blocks) * size for number in range(len(tiles))]
    if not ASCEND_IS_AIC:
        scaling = _Scaling(product, scale, of_rows, out)
        for (group, row, column), place in zip(tiles, places, strict=True):
            scaling.scale_tile(work[place], group, row, column)
            CrossCoreSetFlag(2, Pipe.MTE2, _ROOM)
        return
    cube, whole = Cube(product, a, b), GlobalTensor(int8).SetGlobalBuffer(b)
    count, last = -(-product.k // product.l1[2]), (-1, -1)
    for number, ((group, row, column), place) in enumerate(zip(tiles, places, strict=True)):
        if (group, row) != last:  # A of another group may lie in the same row of tiles
            cube.kept, last = -1, (group, row)
            cube.a = GlobalTensor(int8).SetGlobalBuffer(a)[group * product.m * product.k]
            cube.b = whole[group * product.k * product.n]
        m, n = cube.compute(row, column, 0, count, 0)
        if number >= depth:
            CrossCoreWaitFlag(_ROOM)
        cube.store(work[place], m, n, product.l1[1])
        CrossCoreSetFlag(2, Pipe.FIX, _THERE)
    cube.close()
    for _ in range(min(depth, len(tiles))):
        CrossCoreWaitFlag(_ROOM)


class _Scaling:
    """A vector core: scales sums by columns and rows, and stores their GELU as halves, 24 rows at a time."""

    def __init__(self, product: Product, scale: Any, of_rows: Any, out: Any) -> None:
        self.product, self.wide = product, product.l1[1]
        self.scale, self.of_rows = (GlobalTensor(single).SetGlobalBuffer(each) for each in (scale, of_rows))
        self.out = GlobalTensor(half).SetGlobalBuffer(out)
        size = ROWS * self.wide
        pipe = TPipe()
        self.columns, self.rows = TQue(TPosition.VECIN, 1), TQue(TPosition.VECIN, 1)
        self.sums, self.results = TQue(TPosition.VECIN, 1), TQue(TPosition.VECOUT, 1)
        pipe.InitBuffer(self.columns, 2, self.wide * 4)
        pipe.InitBuffer(self.rows, 2, product.l1[0] * 4)
        pipe.InitBuffer(self.sums, 2, size * 4)
        pipe.InitBuffer(self.results, 2, size * 2)
        room = TBuf(TPosition.VECCALC)
        pipe.InitBuffer(room, 118_784)
        whole = room.Get(single)
        self.floats, self.spread, self.scaled, self.active = (whole[place * size :] for place in range(4))
        self.count = 0

    def scale_tile(self, sums: GlobalTensor, group: int, row: int, column: int) -> None:
        """Scale tile (*row*, *column*) of *group*; the vector cores of a block take steps of rows in turn."""
        product, wide, ratio = self.product, self.wide, GetTaskRatio()
        n, tall = min(wide, product.n - column * wide), product.l1[0]
        of_columns = self.columns.AllocTensor(single)
        DataCopy(of_columns, self.scale[group * product.n + column * wide], n)
        self.columns.EnQue(of_columns)
        of_columns = self.columns.DeQue(single)
        CrossCoreWaitFlag(_THERE)
        top = group * product.m + row * tall
        for number, first in enumerate(range(0, tall, ROWS)):
            if number % ratio == GetSubBlockIdx():
                self._scale_rows(sums[first * wide], of_columns, top + first, column, min(ROWS, tall - first), n)
        self.columns.FreeTensor(of_columns)

    def _scale_rows(
        self, sums: GlobalTensor, of_columns: LocalTensor, top: int, column: int, rows: int, n: int
    ) -> None:
        wide, many = self.wide, rows * n
        step = n // 8
        taken = self.sums.AllocTensor(int32)
        DataCopy(taken, sums, DataCopyParams(rows, step, (wide - n) // 8, 0))
        self.sums.EnQue(taken)
        of_rows = self.rows.AllocTensor(single)
        DataCopy(of_rows, self.of_rows[top], rows)
        self.rows.EnQue(of_rows)
        of_rows = self.rows.DeQue(single)
        Brcb(self.active, of_rows, rows // 8, BrcbRepeatParams(1, 8))
        PipeBarrier(PIPE_V)
        for at in range(0, n, LANES):
            Copy(self.spread[at], self.active, LANES, rows, CopyRepeatParams(1, 0, step, 1))
        PipeBarrier(PIPE_V)
        self.rows.FreeTensor(of_rows)
        taken = self.sums.DeQue(int32)
        Adds(self.active, of_columns, 0.0, n)
        PipeBarrier(PIPE_V)
        Cast(self.scaled, taken, RoundMode.CAST_NONE, many)
        PipeBarrier(PIPE_V)
        for at in range(0, n, LANES):
            params = BinaryRepeatParams(1, 1, 1, step, step, 0)
            Mul(self.scaled[at], self.scaled[at], self.active[at], LANES, rows, params)
        PipeBarrier(PIPE_V)
        Adds(self.floats, self.scaled, 0.0, many)
        PipeBarrier(PIPE_V)
        self.sums.FreeTensor(taken)
        Mul(self.scaled, self.floats, self.spread, many)
        PipeBarrier(PIPE_V)
        _fast_gelu(self.active, self.scaled, self.floats, many)
        stored = self.results.AllocTensor(half)
        Cast(stored, self.active, RoundMode.CAST_NONE, many)
        PipeBarrier(PIPE_V)
        self.results.EnQue(stored)
        stored = self.results.DeQue(half)
        to = self.out[top * self.product.n + column * wide]
        DataCopy(to, stored, DataCopyParams(rows, n // 16, 0, (self.product.n - n) // 16))
        self.results.FreeTensor(stored)


def _fast_gelu(y: LocalTensor, x: LocalTensor, room: LocalTensor, count: int) -> None:
    """Y = x / (1 + exp(-1.702 x)), the vendor's quick form of GELU."""
    Muls(room, x, -1.702, count)
    PipeBarrier(PIPE_V)
    Exp(room, room, count)
    PipeBarrier(PIPE_V)
    Adds(room, room, 1.0, count)
    PipeBarrier(PIPE_V)
    Div(y, x, room, count)
    PipeBarrier(PIPE_V)


def grouped_args(product: Product, groups: int, cores: int, depth: int) -> tuple[Any, ...]:
    """Return the arguments of the kernel, zeros."""
    m, k, n = groups * product.m, product.k, product.n
    tiles = depth * cores * product.l1[0] * product.l1[1]
    return (
        np.zeros((m, k), np.int8), np.zeros((groups, k, n), np.int8), np.zeros((groups, n), single),
        np.zeros(m, single), np.zeros((m, n), half), np.zeros(tiles, int32),
    )  # fmt: skip


def grouped_on_card(product: Product, groups: int, card: str, cores: int, scenario: int) -> Result:
    """Run it with zeros. Scenario 0: one vector core for each cube core; 1: two; 2: four tiles on their way, too."""
    kind = KernelType.MIX_AIC_1_2 if scenario else KernelType.MIX_AIC_1_1
    depth = 4 if scenario == 2 else 1
    args = *grouped_args(product, groups, cores, depth), product, groups, depth
    return run(multiply_groups, cores, args, load(card).aicore, kind=kind, hazards=False, values=False)
