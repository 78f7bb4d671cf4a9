"""A product on cube cores, and an all-reduce on vector cores that takes each tile when it is there.

Two launches side by side, as PTO-ISA's gemm_ar has them: a cube core writes a tile of C to GM, waits for all its pipes
and sets a flag there, which the vector core with its number polls. This is what one of eight cards does. Each tile is
brought to its owner as soon as it is there (reduce-scatter). When all cores have done so, rows go from their owners to
all cards (all-gather), which is as many bytes. Here both halves move C within GM. What the links take is the time of
vector instructions, as many as it takes for a time that was published of the all-reduce alone.
"""

from functools import partial
from typing import Any

import numpy as np

from device_model.aicore.core.blocks import GetBlockIdx, GetBlockNum
from device_model.aicore.core.names import PIPE_ALL, PIPE_V, HardEvent, KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.core.unknown import Unknown
from device_model.aicore.flags.crossing import SyncAll
from device_model.aicore.flags.sync import PipeBarrier, SetFlag, WaitFlag
from device_model.aicore.moving.copies import DataCacheCleanAndInvalid, DataCopy, DataCopyParams
from device_model.aicore.runner import Beside, Result, run_beside
from device_model.aicore.vector.elementwise import Adds
from device_model.profile import load
from tests.bench.rows import Row
from tests.bench.rows.products import Cube, Product, laid, operands

int32 = np.dtype(np.int32)
LINE = 16  # words of a line of the scalar cache: flags of two cores never share one
PRODUCT = Product(5416, 6144, 1408, b="column")  # the published one
CARD, CORES = "ascend910b1", 24
PACE = 124  # vector instructions for each 64 KB


def tiles_of(product: Product, block: int, blocks: int) -> list[tuple[int, int]]:
    """Return the tiles of C of a core: as many in a row as each has, row by row, each odd row backwards."""
    down, across = product.tiles()
    many = -(-down * across // blocks)
    return [
        (at // across, across - 1 - at % across if at // across % 2 else at % across)
        for at in range(block * many, min((block + 1) * many, down * across))
    ]


def multiply(a: Any, b: Any, c: Any, flags: Any, product: Product) -> None:
    """Compute C, and set a flag for each tile."""
    cube, count = Cube(product, a, b), -(-product.k // product.l1[2])
    c, flags = GlobalTensor(product.out).SetGlobalBuffer(c), GlobalTensor(int32).SetGlobalBuffer(flags)
    _, across = product.tiles()
    for row, column in tiles_of(product, GetBlockIdx(), GetBlockNum()):
        m, n = cube.compute(row, column, 0, count, 0)
        cube.store(c[row * product.l1[0] * product.n + column * product.l1[1]], m, n, product.n)
        PipeBarrier(PIPE_ALL)
        there = flags[(row * across + column) * LINE]
        there.SetValue(0, 1)
        DataCacheCleanAndInvalid(there)
    cube.close()


def all_reduce(c: Any, flags: Any, out: Any, product: Product, pace: int) -> None:
    """Bring each tile of C to *out*, when its flag is set; then as many bytes again, when all cores have done so."""
    c, out = (GlobalTensor(product.out).SetGlobalBuffer(each) for each in (c, out))
    flags = GlobalTensor(int32).SetGlobalBuffer(flags)
    (tall, wide, _), (_, across) = product.l1, product.tiles()
    tile = LocalTensor(product.out, TPosition.VECCALC, 0, tall * wide)
    for half_of_it in range(2):
        for row, column in tiles_of(product, GetBlockIdx(), GetBlockNum()):
            if not half_of_it:
                _poll(flags[(row * across + column) * LINE])
            rows, columns = min(tall, product.m - row * tall), min(wide, product.n - column * wide)
            at, gap = row * tall * product.n + column * wide, (product.n - columns) // 16
            source = out if half_of_it else c
            DataCopy(tile, source[at], DataCopyParams(rows, columns // 16, gap, 0))
            SetFlag(HardEvent.MTE2_V, 0)
            WaitFlag(HardEvent.MTE2_V, 0)
            for _ in range(pace):
                Adds(tile, tile, 0.0, rows * columns)
                PipeBarrier(PIPE_V)
            SetFlag(HardEvent.V_MTE3, 0)
            WaitFlag(HardEvent.V_MTE3, 0)
            DataCopy(out[at], tile, DataCopyParams(rows, columns // 16, 0, gap))
            SetFlag(HardEvent.MTE3_MTE2, 0)
            WaitFlag(HardEvent.MTE3_MTE2, 0)
        if not half_of_it:
            SyncAll()


def _poll(flag: GlobalTensor) -> None:
    """Wait until *flag* is set. A run without values looks once: a launch before this one has set it."""
    while not isinstance(value := flag.GetValue(0), Unknown) and value == 0:
        DataCacheCleanAndInvalid(flag)


def launches(product: Product = PRODUCT, pace: int = PACE, cores: int = CORES, rng: Any = None) -> list[Beside]:
    """Return the two launches, with random numbers or with zeros."""
    a, b = operands(product, rng)
    c, out = (np.zeros((product.m, product.n), product.out) for _ in range(2))
    down, across = product.tiles()
    flags = np.zeros(down * across * LINE, int32)
    return [
        Beside(multiply, cores, (a, laid(product, b), c, flags, product), KernelType.AIC_ONLY),
        Beside(all_reduce, cores, (c, flags, out, product, pace)),
    ]


def on_card(*which: int, of: int = 0, card: str = CARD) -> Result:
    """Run the launches with these numbers beside each other; return the result of number *of* among them."""
    both = launches()
    return run_beside([both[each] for each in which], load(card).aicore, values=False)[of]


ROWS = [
    Row("Beside", "product alone", CARD, 368.1, partial(on_card, 0), reads="launch"),
    Row("Beside", "product beside the all-reduce", CARD, 367.2, partial(on_card, 0, 1), reads="launch"),
    Row("Beside", "all-reduce alone", CARD, 437.0, partial(on_card, 1), reads="launch", fitted=True),
    Row("Beside", "all-reduce behind the product, tile by tile", CARD, 560.6, partial(on_card, 0, 1, of=1),
        reads="launch"),
]  # fmt: skip
