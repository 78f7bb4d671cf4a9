"""Reads of a matrix of halves without any work on it: the vendor's sample of how to copy (A2)."""

from functools import partial

import numpy as np

from device_model.aicore.core.blocks import GetBlockIdx, GetBlockNum
from device_model.aicore.core.names import CacheMode, KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, half
from device_model.aicore.moving.copies import DataCopy, DataCopyExtParams, DataCopyPad, Nd2NzParams
from device_model.aicore.runner import run
from device_model.profile import load
from tests.bench.rows import Row

CARD = "ascend910b1"
SIZE = 12288


def to_ub(rows, columns, width):
    """Copies of tiles of so many rows and columns into the UB."""
    local = LocalTensor(half, TPosition.VECIN, 0, rows * columns)

    def copy(source, columns):
        DataCopyPad(local, source, DataCopyExtParams(rows, columns * 2, (width - columns) * 2, 0))

    return copy


def to_l1(rows, columns, width):
    """Copies of tiles of so many rows and columns into L1, which make them fractal."""
    local = LocalTensor(half, TPosition.A1, 0, rows * columns)

    def copy(source, columns):
        DataCopy(local, source, Nd2NzParams(1, rows, columns, 0, width, rows, 1, 0))

    return copy


def each_once(copier, rows, columns, share, width, source):
    """Each core copies its part of the rows, 1/*share* of it, tile by tile."""
    source = GlobalTensor(half).SetGlobalBuffer(source)
    copy, part = copier(rows, columns, width), SIZE // GetBlockNum()
    for row in range(GetBlockIdx() * part, GetBlockIdx() * part + max(rows, part // share), rows):
        for column in range(0, width, columns):
            copy(source[row * width + column :], min(columns, width - column))


def four_times(copier, rows, columns, parts, source):
    """Each core copies its part of the rows four times, or four times each of four ranges of columns."""
    source = GlobalTensor(half).SetGlobalBuffer(source)
    copy, part = copier(rows, columns, SIZE), SIZE // GetBlockNum()
    for first in range(0, SIZE, SIZE // parts):
        for _ in range(4):
            for row in range(GetBlockIdx() * part, (GetBlockIdx() + 1) * part, rows):
                for column in range(first, first + SIZE // parts, columns):
                    copy(source[row * SIZE + column :], columns)


def all_of_it(copier, rows, apart, share, source):
    """Each core copies the whole matrix of 6144 x 512, all in one order or each from another block of rows on."""
    height, width, columns = 6144, 512, 64
    source = GlobalTensor(half).SetGlobalBuffer(source)
    source.SetL2CacheHint(CacheMode.CACHE_MODE_DISABLE)
    copy, part = copier(rows, columns, width), height // GetBlockNum()
    for block in range(GetBlockNum() // share):
        start = (block + apart * GetBlockIdx()) % GetBlockNum() * part
        for row in range(start, start + part, rows):
            for column in range(0, width, columns):
                copy(source[row * width + column :], columns)


def copies(kernel, cores, elements, *options):
    kind = KernelType.AIV_ONLY if cores == 48 else KernelType.AIC_ONLY
    source = np.zeros(elements, np.float16)
    return run(partial(kernel, *options), cores, (source,), load(CARD).aicore, kind=kind, hazards=False)


def row(family, what, published, mte2, *options, share=1, fitted=False):
    ours = partial(copies, *options)
    columns = {"mte2": mte2} if mte2 else {}
    return Row(family, what, CARD, published, ours, share, "task", fitted, columns)


ALL = SIZE * SIZE
TO_UB = [
    row("To UB", "[1, 64]", 564.84, 548.161, each_once, 48, ALL, to_ub, 1, 64, 32, SIZE, share=32),
    row("To UB", "[64, 64]", 233.54, 220.772, each_once, 48, ALL, to_ub, 64, 64, 4, SIZE, share=4),
    row("To UB", "[64, 1024]", 215.82, 202.657, each_once, 48, ALL, to_ub, 64, 1024, 1, SIZE, fitted=True),
    row("To UB", "[64, 1024] of 12287", 275.3, 259.047, each_once, 48, ALL, to_ub, 64, 1024, 1, SIZE - 1),
    row("To UB", "4 times", 828.06, 0, four_times, 48, ALL, to_ub, 64, 1024, 1),
    row("To UB", "4 quarters 4 times", 365.74, 0, four_times, 48, ALL, to_ub, 64, 1024, 4),
    row("To UB", "the same addresses", 539.42, 474.717, all_of_it, 48, 6144 * 512, to_ub, 128, 0, 4, share=4),
    row("To UB", "addresses apart", 328.88, 307.38, all_of_it, 48, 6144 * 512, to_ub, 128, 1, 4, share=4, fitted=True),
]
TO_L1 = [
    row("To L1", "[64, 64]", 300.7, 283.508, each_once, 24, ALL, to_l1, 64, 64, 4, SIZE, share=4, fitted=True),
    row("To L1", "[64, 256]", 230.24, 214.519, each_once, 24, ALL, to_l1, 64, 256, 1, SIZE, fitted=True),
    row("To L1", "[64, 256] of 12287", 438.76, 422.515, each_once, 24, ALL, to_l1, 64, 256, 1, SIZE - 1),
    row("To L1", "4 times", 899.34, 0, four_times, 24, ALL, to_l1, 64, 1024, 1),
    row("To L1", "4 quarters 4 times", 414.96, 0, four_times, 24, ALL, to_l1, 64, 1024, 4),
    row(
        "To L1",
        "the same addresses",
        278.56,
        240.198,
        all_of_it,
        24,
        6144 * 512,
        to_l1,
        256,
        0,
        4,
        share=4,
        fitted=True,
    ),
    row("To L1", "addresses apart", 221.34, 209.8, all_of_it, 24, 6144 * 512, to_l1, 256, 1, 4, share=4),
]
