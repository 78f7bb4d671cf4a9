"""Products of int8 whose sums the vector cores scale, as the public templates have them (catlass): D = (A * B) times a
number for each column and one for each row, in bfloat16.

A cube core stores a tile of sums to GM, and the two vector cores beside it scale 32 rows of it at a time. Where C has
few tiles, cores split k: the vector cores then add the parts first.
"""

from typing import Any

import numpy as np

from device_model.aicore.core.blocks import ASCEND_IS_AIC, GetBlockIdx, GetBlockNum
from device_model.aicore.core.names import (
    PIPE_ALL,
    PIPE_V,
    CacheMode,
    HardEvent,
    KernelType,
    Pipe,
    RoundMode,
    TPosition,
)
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, bfloat16
from device_model.aicore.flags.crossing import CrossCoreSetFlag, CrossCoreWaitFlag, SyncAll
from device_model.aicore.flags.sync import PipeBarrier, SetFlag, WaitFlag
from device_model.aicore.moving.copies import DataCopy, DataCopyParams
from device_model.aicore.runner import Result, run
from device_model.aicore.vector.elementwise import Add, BinaryRepeatParams, Cast, Mul
from device_model.aicore.vector.gather import Brcb, BrcbRepeatParams
from device_model.profile import load
from tests.bench.rows.products import Cube, Product, int8, laid, operands

single, int32 = np.dtype(np.float32), np.dtype(np.int32)
TILE = (128, 256, 512)
TALL = 32  # rows that a vector core scales at a time
VECTORS = 2  # beside a cube core
STAGES = 2  # tiles of sums of a core that may lie in GM
LANES = 64  # floats of a repeat
_SUMS, _ROOM = (4, 5), (6, 7)  # flags between cores: a tile is there, or its room is free


def product_of(m: int, k: int, n: int, b: str = "row", *, keeps_a: bool = False, flags: bool = False) -> Product:
    """Return the product with its tiles; cores begin at tiles of their own along k. *flags*: see `unit_flags`."""
    return Product(
        m, k, n, int8, b, TILE, 128, (3, 0), shuffles=True, out=int32, keeps_a=keeps_a, unit_flags=flags
    )  # fmt: skip


def tasks_of(product: Product, *, in_turn: bool) -> list[tuple[int, int]]:
    """Return the tiles of this block: every so many-th, or where A is kept, those that follow each other by rows."""
    block, blocks = GetBlockIdx(), GetBlockNum()
    if not ASCEND_IS_AIC:
        block //= VECTORS
    down, across = product.tiles()
    if in_turn:
        return [product.place(task) for task in range(block, down * across, blocks)]
    each, rest = divmod(down * across, blocks)
    first = block * each + min(block, rest)
    return [divmod(task, across) for task in range(first, first + each + (block < rest))]


class Scaling:
    """The vector core: its buffers, and how tiles of sums pass through them."""

    def __init__(self, product: Product, scale: Any, of_rows: Any, out: Any) -> None:
        self.product = product
        self.wide = product.l1[1]
        self.scale, self.of_rows = (GlobalTensor(single).SetGlobalBuffer(each) for each in (scale, of_rows))
        self.out = GlobalTensor(bfloat16).SetGlobalBuffer(out)
        self.taken = 0
        at = 0

        def room(dtype: Any, count: int) -> LocalTensor:
            nonlocal at
            tensor = LocalTensor(dtype, TPosition.VECCALC, at, count)
            at += count * np.dtype(dtype).itemsize
            return tensor

        size = TALL * self.wide
        self.slots = [
            (room(int32, size), room(single, self.wide), room(single, TALL), room(bfloat16, size)) for _ in range(2)
        ]
        self.floats, self.product_of_columns, self.blocks = room(single, size), room(single, size), room(single, 256)
        for slot in range(2):
            SetFlag(HardEvent.V_MTE2, slot)
            SetFlag(HardEvent.MTE3_V, slot)

    def scale_tile(self, sums: GlobalTensor, stride: int, row: int, column: int) -> None:
        """Scale tile (*row*, *column*), which lies in *sums*; the vector cores of a block take rows in turn."""
        product, wide = self.product, self.wide
        top, left = row * product.l1[0], column * wide
        m, n = min(product.l1[0], product.m - top), min(wide, product.n - left)
        for number in range(GetBlockIdx() % VECTORS, -(-m // TALL), VECTORS):
            first = number * TALL
            rows = min(TALL, m - first)
            slot = self.taken % 2
            self.taken += 1
            c, of_columns, of_rows, d = self.slots[slot]
            WaitFlag(HardEvent.V_MTE2, slot)
            DataCopy(c, sums[first * stride], DataCopyParams(rows, n // 8, (stride - n) // 8, (wide - n) // 8))
            DataCopy(of_columns, self.scale[left], n)
            DataCopy(of_rows, self.of_rows[top + first], -(-rows // 8) * 8)
            SetFlag(HardEvent.MTE2_V, slot)
            WaitFlag(HardEvent.MTE2_V, slot)
            Cast(self.floats, c, RoundMode.CAST_RINT, rows * wide)
            PipeBarrier(PIPE_V)
            step = wide // 8
            for at in range(0, wide, LANES):
                params = BinaryRepeatParams(1, 1, 1, step, step, 0)
                Mul(self.product_of_columns[at], self.floats[at], of_columns[at], LANES, rows, params)
            Brcb(self.blocks, of_rows, -(-rows // 8), BrcbRepeatParams(1, 8))
            PipeBarrier(PIPE_V)
            for at in range(0, wide, LANES):
                params = BinaryRepeatParams(1, 1, 0, step, step, 1)
                Mul(self.product_of_columns[at], self.product_of_columns[at], self.blocks, LANES, rows, params)
            PipeBarrier(PIPE_V)
            SetFlag(HardEvent.V_MTE2, slot)
            WaitFlag(HardEvent.MTE3_V, slot)
            Cast(d, self.product_of_columns, RoundMode.CAST_RINT, rows * wide)
            SetFlag(HardEvent.V_MTE3, slot)
            WaitFlag(HardEvent.V_MTE3, slot)
            to = self.out[(top + first) * product.n + left]
            DataCopy(to, d, DataCopyParams(rows, n // 16, (wide - n) // 16, (product.n - n) // 16))
            SetFlag(HardEvent.MTE3_V, slot)

    def close(self) -> None:
        """Wait for all flags."""
        for slot in range(2):
            WaitFlag(HardEvent.V_MTE2, slot)
            WaitFlag(HardEvent.MTE3_V, slot)


def multiply(a: Any, b: Any, scale: Any, of_rows: Any, out: Any, work: Any, product: Product) -> None:
    """Tiles of sums pass through two places of each core in GM; what only one core reads bypasses the L2."""
    tasks = tasks_of(product, in_turn=not (product.keeps_a and product.tiles()[0] > 1))
    work = GlobalTensor(int32).SetGlobalBuffer(work)
    size = product.l1[0] * product.l1[1]
    if not ASCEND_IS_AIC:
        scaling, block = Scaling(product, scale, of_rows, out), GetBlockIdx() // VECTORS
        for number, (row, column) in enumerate(tasks):
            stage = number % STAGES
            CrossCoreWaitFlag(_SUMS[stage])
            scaling.scale_tile(work[(stage * GetBlockNum() + block) * size], product.l1[1], row, column)
            CrossCoreSetFlag(2, Pipe.MTE3, _ROOM[stage])
        scaling.close()
        return
    cube, count = Cube(product, a, b), -(-product.k // product.l1[2])
    for tensor, tiles in ((cube.b, product.tiles()[0]), (cube.a, product.tiles()[1])):
        if tiles == 1:
            tensor.SetL2CacheHint(CacheMode.CACHE_MODE_DISABLE)
    for number, (row, column) in enumerate(tasks):
        stage = number % STAGES
        if number >= STAGES:
            CrossCoreWaitFlag(_ROOM[stage])
        m, n = cube.compute(row, column, 0, count, GetBlockIdx() % count if product.shuffles else 0)
        cube.store(work[(stage * GetBlockNum() + GetBlockIdx()) * size], m, n, product.l1[1])
        CrossCoreSetFlag(2, Pipe.FIX, _SUMS[stage])
    cube.close()
    for number in range(max(0, len(tasks) - STAGES), len(tasks)):
        CrossCoreWaitFlag(_ROOM[number % STAGES])


def parts_of_k(product: Product, cores: int) -> int:
    """Return over how many cores the sums of a tile are split."""
    down, across = product.tiles()
    return max(1, min(cores // (down * across) or 2, -(-product.k // product.l1[2])))


def multiply_parts(a: Any, b: Any, scale: Any, of_rows: Any, out: Any, work: Any, product: Product, parts: int) -> None:
    """Each core has a tile over a part of k; then vector cores add the parts, and then they scale the sums."""
    down, across = product.tiles()
    work, size = GlobalTensor(int32).SetGlobalBuffer(work), product.m * product.n
    if ASCEND_IS_AIC:
        cube = Cube(product, a, b)
        each, rest = divmod(-(-product.k // product.l1[2]), parts)
        for task in range(GetBlockIdx(), down * across * parts, GetBlockNum()):
            part, tile = divmod(task, down * across)
            row, column = product.place(tile)
            first = part * each + min(part, rest)
            m, n = cube.compute(row, column, first, first + each + (part < rest), 0)
            to = part * size + row * product.l1[0] * product.n + column * product.l1[1]
            cube.store(work[to], m, n, product.n)
        cube.close()
        CrossCoreSetFlag(2, Pipe.FIX, _SUMS[0])
        return
    CrossCoreWaitFlag(_SUMS[0])
    SyncAll()
    _add_parts(work, work[parts * size], size, parts)
    PipeBarrier(PIPE_ALL)
    SyncAll()
    scaling = Scaling(product, scale, of_rows, out)
    for tile in range(GetBlockIdx() // VECTORS, down * across, GetBlockNum()):
        row, column = product.place(tile)
        at = parts * size + row * product.l1[0] * product.n + column * product.l1[1]
        scaling.scale_tile(work[at], product.n, row, column)
    scaling.close()


def _add_parts(parts: GlobalTensor, to: GlobalTensor, size: int, count: int) -> None:
    """Add *count* parts of *size* sums; each vector core has a piece of them."""
    cores = GetBlockNum() * VECTORS
    room = 192 * 1024 // 4
    piece = min(max(1, -(-(size // cores) // LANES)) * LANES, room // count // LANES * LANES)
    sums = LocalTensor(int32, TPosition.VECCALC, 0, room)
    SetFlag(HardEvent.MTE3_MTE2, 0)
    for first in range(GetBlockIdx() * piece, size, cores * piece):
        many = min(piece, size - first)
        WaitFlag(HardEvent.MTE3_MTE2, 0)
        DataCopy(sums, parts[first], DataCopyParams(count, many // 8, (size - many) // 8, 0))
        SetFlag(HardEvent.MTE2_V, 0)
        WaitFlag(HardEvent.MTE2_V, 0)
        for part in range(1, count):
            Add(sums, sums, sums[part * many], many)
            PipeBarrier(PIPE_V)
        SetFlag(HardEvent.V_MTE3, 0)
        WaitFlag(HardEvent.V_MTE3, 0)
        DataCopy(to[first], sums, many)
        SetFlag(HardEvent.MTE3_MTE2, 0)
    WaitFlag(HardEvent.MTE3_MTE2, 0)


def run_on(spec: Any, product: Product, cores: int, *given: Any, parts: int = 0, **options: Any) -> Result:
    """Run it on *cores* cube cores; *given* are A, B and the two scales, and D to write."""
    tiles = product.l1[0] * product.l1[1]
    size = product.m * product.n * (parts + 1) if parts else STAGES * cores * tiles
    args = (*given, np.zeros(size, int32), product, *((parts,) if parts else ()))
    kernel = multiply_parts if parts else multiply
    return run(kernel, cores, args, spec, kind=KernelType.MIX_AIC_1_2, **options)


def on_card(product: Product, card: str, cores: int, *, splits: bool = False) -> Result:
    """Run it on *cores* cores of a card, with zeros; with *splits* k is split over cores."""
    a, b = operands(product)
    scales = np.zeros(product.n, single), np.zeros(-(-product.m // 8) * 8, single)
    down, across = product.tiles()
    given = a, laid(product, b), *scales, np.zeros((product.m, product.n), bfloat16)
    parts = parts_of_k(product, cores) if splits else 0
    cores = cores if splits else min(cores, down * across)
    return run_on(load(card).aicore, product, cores, *given, parts=parts, hazards=False, values=False)
