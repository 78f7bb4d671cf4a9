"""z = x + y on 8192 x 8192 halves, step by step faster: the vendor's sample of tuning (A2).

The rows of 48 cores with single buffers were measured with the first version of the sample, in which nothing overlaps:
the published times of its pipes add up to the whole.
"""

from functools import partial

import numpy as np

from device_model.aicore.core.blocks import GetBlockIdx, GetBlockNum
from device_model.aicore.core.names import CacheMode, HardEvent, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, half
from device_model.aicore.flags.sync import SetFlag, WaitFlag
from device_model.aicore.moving.copies import DataCopy
from device_model.aicore.runner import run
from device_model.aicore.vector.elementwise import Add
from device_model.profile import load
from tests.bench.rows import Row

CARD = "ascend910b1"
SIZE = 8192
LARGE = 16384  # elements that a buffer has room for
APART = 16256  # so far apart two operands lie in other bank groups


def slices(size, share, *arrays):
    """The rows of this core, of which the first 1/*share* are done."""
    each, rest = divmod(size, GetBlockNum())
    block = GetBlockIdx()
    first, rows = block * each + min(block, rest), each + (block < rest)
    count = rows * SIZE // share
    return [GlobalTensor(half).SetGlobalBuffer(array[first * SIZE :], count) for array in arrays], count


def locals_at(*addresses):
    return [LocalTensor(half, TPosition.VECCALC, address * 2, LARGE) for address in addresses]


def single(tile, share, x, y, z):
    """One buffer for each: copies in wait for the Add before, Adds for the copy out before."""
    (x, y, z), count = slices(SIZE, share, x, y, z)
    a, b, c = locals_at(0, LARGE, 2 * LARGE)
    for start in range(0, count, tile):
        size = min(tile, count - start)
        if start:
            WaitFlag(HardEvent.V_MTE2, 0)
        DataCopy(a, x[start:], size)
        DataCopy(b, y[start:], size)
        SetFlag(HardEvent.MTE2_V, 0)
        WaitFlag(HardEvent.MTE2_V, 0)
        if start:
            WaitFlag(HardEvent.MTE3_V, 0)
        Add(c, a, b, size)
        if start + tile < count:
            SetFlag(HardEvent.V_MTE2, 0)
        SetFlag(HardEvent.V_MTE3, 0)
        WaitFlag(HardEvent.V_MTE3, 0)
        DataCopy(z[start:], c, size)
        if start + tile < count:
            SetFlag(HardEvent.MTE3_V, 0)


def serial(tile, share, x, y, z):
    """One buffer for each, and nothing at the same time: copies in wait for the copy out before."""
    (x, y, z), count = slices(SIZE, share, x, y, z)
    a, b, c = locals_at(0, LARGE, 2 * LARGE)
    SetFlag(HardEvent.MTE3_MTE2, 0)
    for start in range(0, count, tile):
        size = min(tile, count - start)
        WaitFlag(HardEvent.MTE3_MTE2, 0)
        DataCopy(a, x[start:], size)
        DataCopy(b, y[start:], size)
        SetFlag(HardEvent.MTE2_V, 0)
        WaitFlag(HardEvent.MTE2_V, 0)
        Add(c, a, b, size)
        SetFlag(HardEvent.V_MTE3, 0)
        WaitFlag(HardEvent.V_MTE3, 0)
        DataCopy(z[start:], c, size)
        SetFlag(HardEvent.MTE3_MTE2, 0)
    WaitFlag(HardEvent.MTE3_MTE2, 0)


def double(tile, addresses, bypass, x, y, z):
    """Two buffers for each, in turns."""
    (x, y, z), count = slices(SIZE, 1, x, y, z)
    for each in (x, y):
        each.SetL2CacheHint(CacheMode(bypass))
    buffers = [locals_at(*three) for three in addresses]
    for slot in (0, 1):
        SetFlag(HardEvent.V_MTE2, slot)
        SetFlag(HardEvent.MTE3_V, slot)
    for turn, start in enumerate(range(0, count, tile)):
        slot = turn % 2
        a, b, c = buffers[slot]
        size = min(tile, count - start)
        WaitFlag(HardEvent.V_MTE2, slot)
        DataCopy(a, x[start:], size)
        DataCopy(b, y[start:], size)
        SetFlag(HardEvent.MTE2_V, slot)
        WaitFlag(HardEvent.MTE2_V, slot)
        WaitFlag(HardEvent.MTE3_V, slot)
        Add(c, a, b, size)
        SetFlag(HardEvent.V_MTE2, slot)
        SetFlag(HardEvent.V_MTE3, slot)
        WaitFlag(HardEvent.V_MTE3, slot)
        DataCopy(z[start:], c, size)
        SetFlag(HardEvent.MTE3_V, slot)
    for slot in (0, 1):
        WaitFlag(HardEvent.V_MTE2, slot)
        WaitFlag(HardEvent.MTE3_V, slot)


def scalar(tile, share, x, y, z):
    """An element at a time in the scalar pipe."""
    (x, y, z), count = slices(SIZE, share, x, y, z)
    a, b, c = locals_at(0, LARGE, 2 * LARGE)
    for start in range(0, count, tile):
        DataCopy(a, x[start:], tile)
        DataCopy(b, y[start:], tile)
        SetFlag(HardEvent.MTE2_S, 0)
        WaitFlag(HardEvent.MTE2_S, 0)
        for index in range(tile):
            c.SetValue(index, a.GetValue(index) + b.GetValue(index))
        SetFlag(HardEvent.S_MTE3, 0)
        WaitFlag(HardEvent.S_MTE3, 0)
        DataCopy(z[start:], c, tile)


STACKED = [(0, LARGE, 2 * LARGE), (3 * LARGE, 4 * LARGE, 5 * LARGE)]
SHIFTED = [(0, APART, 4 * LARGE), (2 * LARGE, 2 * LARGE + APART, 4 * LARGE + APART)]


def add(kernel, cores, *options, share=1):
    x, y, z = (np.full(SIZE * SIZE, value, np.float16) for value in (1, 2, 0))
    result = run(partial(kernel, *options), cores, (x, y, z), load(CARD).aicore, hazards=False)
    assert np.count_nonzero(z == 3) == SIZE // cores * cores * SIZE // share or (z == 3).all()
    return result


def row(what, published, columns, *options, share=1, fitted=False):
    vec, scalar, mte2, mte3 = columns
    named = {"vec": vec, "scalar": scalar, "mte2": mte2, "mte3": mte3}
    return Row("Add", what, CARD, published, partial(add, *options, share=share), share, "aiv_time", fitted, named)


ROWS = [
    row("1 core, scalar", 1239688.6, (0, 1233742, 5916, 2485), scalar, 1, 4096, 4096, share=4096, fitted=True),
    row("1 core, 8 KB", 6909.1, (761.65, 231.2, 6208.8, 2613.2), single, 1, 4096, 16, share=16, fitted=True),
    row("48 cores, 8 KB", 297.14, (15.885, 8.219, 215.485, 54.33), serial, 48, 4096, 1, fitted=True),
    row("48 cores, 32 KB", 261.5, (12.845, 2.833, 184.369, 57.354), serial, 48, LARGE, 1),
    row("... double buffer", 257.56, (12.846, 2.796, 250.528, 84.988), double, 48, LARGE, STACKED, False, fitted=True),
    row("... inputs bypass the L2", 185.15, (12.846, 4.479, 175.997, 160.291), double, 48, LARGE, STACKED, True),
    row("... bank groups apart", 178.49, (6.954, 3.424, 171.611, 121.442), double, 48, APART, SHIFTED, True),
]
