"""C = A * B in raw instructions: tiles in L1 and L0 with two slots each, pieces of C in turn, as the public templates
for these cards have them (catlass: basic, preload and split-k matmuls).

A tile of C is computed by one core: for each tile along k the factors come to L1, four pieces of them to L0, and
their products are added in L0C, from where Fixpipe stores them block by block (unit flags).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from device_model.aicore.core.blocks import GetBlockIdx, GetBlockNum
from device_model.aicore.core.names import HardEvent, KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, half
from device_model.aicore.cube.fixpipe import CO2Layout, Fixpipe, FixpipeParams, QuantMode
from device_model.aicore.cube.loads import (
    LoadData,
    LoadData2DParams,
    LoadData2dTransposeParams,
    LoadDataWithTranspose,
)
from device_model.aicore.cube.mmad import PRODUCTS, SIDE, Mmad, MmadParams, fractals, k0
from device_model.aicore.cube.unit_flags import KEEP, TURN
from device_model.aicore.flags.sync import SetFlag, WaitFlag
from device_model.aicore.moving.copies import DataCopy, DataCopyParams, Nd2NzParams
from device_model.aicore.runner import Result, run
from device_model.profile import load

single, int8 = np.dtype(np.float32), np.dtype(np.int8)
_FRACTAL = 512  # bytes
_BLOCK = 32
_MOST = 255  # fractals that one LoadData loads
_KEPT = 4  # the flag of rows of A that stay in L1
FULL = {  # what one pipe tells the next: the slot is full, or empty again
    "l1": (HardEvent.MTE2_MTE1, HardEvent.MTE1_MTE2),
    "l0": (HardEvent.MTE1_M, HardEvent.M_MTE1),
}


@dataclass(frozen=True)
class Product:
    """A product and its tiles. B is stored by rows ("row"), by columns ("column") or in fractals ("zN").

    With *keeps_a* the rows of A that a tile of C needs come to L1 whole, and stay for the next tiles of these rows.
    """

    m: int
    k: int
    n: int
    dtype: Any = half
    b: str = "row"
    l1: tuple[int, int, int] = (128, 256, 256)  # rows, columns and depth of a tile
    depth: int = 64  # of a piece in L0
    swizzle: tuple[int, int] = (3, 0)
    shuffles: bool = False  # cores begin at tiles of their own along k
    out: Any = half
    keeps_a: bool = False
    unit_flags: bool = True  # Fixpipe stores block by block while the last Mmad computes

    def has_unit_flags(self) -> bool:
        """Whether results leave L0C block by block. Squares of int8 may be wider than what Fixpipe stores."""
        return self.unit_flags and (k0(self.dtype) <= SIDE or self.n % k0(self.dtype) == 0)

    def tiles(self) -> tuple[int, int]:
        """The tiles of C, down and across."""
        return -(-self.m // self.l1[0]), -(-self.n // self.l1[1])

    def place(self, task: int) -> tuple[int, int]:
        """The tile of C that comes at *task*: bands of some rows (0) or columns (1) of tiles, in a snake."""
        offset, direction = self.swizzle
        down, across = self.tiles()
        long, wide = (down, across) if direction == 0 else (across, down)
        band, inside = divmod(task, offset * wide)
        width = min(offset, long - offset * band)
        at, along = band * offset + inside % width, inside // width
        if band % 2:
            along = wide - along - 1
        return (at, along) if direction == 0 else (along, at)


class Slots:
    """Buffers of one memory, taken in turn; each has a flag for "full" and one for "empty"."""

    def __init__(self, level: str, tensors: list[tuple[LocalTensor, ...]], first: int) -> None:
        self.tensors, self.first = tensors, first
        self.full, self.empty = FULL[level]
        self.taken = 0
        for number in range(len(tensors)):
            SetFlag(self.empty, first + number)

    def fill(self) -> tuple[LocalTensor, ...]:
        """Return the next buffers, when they are empty."""
        number = self.taken % len(self.tensors)
        WaitFlag(self.empty, self.first + number)
        self.taken += 1
        return self.tensors[number]

    def filled(self) -> int:
        """Note that those that were taken last are full, and let the reader wait for them."""
        SetFlag(self.full, self.first + self.last)
        return self.last

    @property
    def last(self) -> int:
        """The number of the buffers that were taken last."""
        return (self.taken - 1) % len(self.tensors)

    def wait(self, number: int) -> None:
        """Let the reader wait until buffers *number* are full."""
        WaitFlag(self.full, self.first + number)

    def emptied(self, number: int) -> None:
        """Note that all reads of buffers *number* have been issued."""
        SetFlag(self.empty, self.first + number)

    def close(self) -> None:
        """Wait for all flags."""
        for number in range(len(self.tensors)):
            WaitFlag(self.empty, self.first + number)


class Cube:
    """The cube core: its buffers, and how tiles pass through them."""

    def __init__(self, product: Product, a: Any, b: Any) -> None:
        self.product, dtype = product, product.dtype
        self.width = k0(dtype)
        self.total = np.dtype(PRODUCTS[dtype.name])
        rows, columns, long = product.l1
        size = dtype.itemsize
        tall = max(self.width, SIDE)
        a1, b1 = rows * (product.k if product.keeps_a else long), -(-columns // tall) * tall * long
        at = (0, 0, a1 * size) if product.keeps_a else (0, a1 * size, 2 * a1 * size)
        at += (at[2] + b1 * size,)
        self.kept = -1  # the row of tiles whose A is in L1
        self.l1 = Slots(
            "l1",
            [
                (LocalTensor(dtype, TPosition.A1, at[slot], a1), LocalTensor(dtype, TPosition.B1, at[2 + slot], b1))
                for slot in range(2)
            ],
            0,
        )
        a2, b2 = rows * product.depth, -(-columns // tall) * tall * product.depth
        self.l0 = Slots(
            "l0",
            [
                (
                    LocalTensor(dtype, TPosition.A2, slot * a2 * size, a2),
                    LocalTensor(dtype, TPosition.B2, slot * b2 * size, b2),
                )
                for slot in range(2)
            ],
            0,
        )
        self.c = LocalTensor(self.total, TPosition.CO1, 0, rows * -(-columns // tall) * tall)
        self.a, self.b = GlobalTensor(dtype).SetGlobalBuffer(a), GlobalTensor(dtype).SetGlobalBuffer(b)

    def compute(self, row: int, column: int, first: int, stop: int, shift: int) -> tuple[int, int]:
        """Add up the products of tile (*row*, *column*) of C over the tiles *first* to *stop* along k, which begin
        at *shift*; return its rows and columns.
        """
        product = self.product
        m = min(product.l1[0], product.m - row * product.l1[0])
        n = min(product.l1[1], product.n - column * product.l1[1])
        count, started = stop - first, False
        waiting: list[tuple[int, int, int]] = []
        if product.keeps_a and row != self.kept:
            self._keep_a(row, m)
        for number in range(count + 1):
            if number < count:  # the next tile is on its way while this one is computed
                tile = first + (number + shift) % count
                long = min(product.l1[2], product.k - tile * product.l1[2])
                a1, b1 = self.l1.fill()
                if not product.keeps_a:
                    self._load_a1(a1, row, tile, m, long)
                self._load_b1(b1, column, tile, n, long)
                waiting.append((self.l1.filled(), long, tile * product.l1[2] if product.keeps_a else 0))
            if number:
                slot, long, left = waiting.pop(0)
                self.l1.wait(slot)
                a1, b1 = self.l1.tensors[slot]
                for at in range(0, long, product.depth):
                    k = min(product.depth, long - at)
                    a2, b2 = self.l0.fill()
                    self._load_a2(a1, a2, m, k, left + at)
                    self._load_b2(b1, b2, n, k, at, long)
                    if at + k == long:
                        self.l1.emptied(slot)
                    full = self.l0.filled()
                    self.l0.wait(full)
                    is_last = number == count and at + k == long
                    flag = (TURN if is_last else KEEP) if product.has_unit_flags() else 0
                    Mmad(self.c, a2, b2, MmadParams(max(m, 2), self._wide(n), k, not started, flag))
                    started = True
                    self.l0.emptied(full)
        return m, n

    def store(self, c: GlobalTensor, m: int, n: int, stride: int) -> None:
        """Store what L0C holds to *c*."""
        mode = QuantMode.NoQuant if c.dtype == self.total else QuantMode.F322F16
        is_flagged = self.product.has_unit_flags()
        if not is_flagged:
            SetFlag(HardEvent.M_FIX, 0)
            WaitFlag(HardEvent.M_FIX, 0)
        Fixpipe(
            c, self.c, FixpipeParams(n, m, 0, stride, mode, unit_flag=TURN if is_flagged else 0), CO2Layout.ROW_MAJOR
        )
        if not is_flagged:
            SetFlag(HardEvent.FIX_M, 0)
            WaitFlag(HardEvent.FIX_M, 0)

    def close(self) -> None:
        """Wait for all flags."""
        self.l1.close()
        self.l0.close()

    def _wide(self, n: int) -> int:
        """The columns that are multiplied: squares of int8 are 32 wide."""
        return n if self.product.b != "row" or self.width <= SIDE else -(-n // self.width) * self.width

    def _load_a1(self, a1: LocalTensor, row: int, tile: int, m: int, long: int) -> None:
        rows, _, depth = self.product.l1
        source = self.a[row * rows * self.product.k + tile * depth]
        DataCopy(a1, source, Nd2NzParams(1, m, long, 0, self.product.k, fractals(m) * SIDE, 1, 0))

    def _keep_a(self, row: int, m: int) -> None:
        """Bring all of A that *row* of tiles needs, when no tile before needs what is there."""
        long = self.product.k
        full, empty = FULL["l1"]
        SetFlag(empty, _KEPT)
        WaitFlag(empty, _KEPT)
        source = self.a[row * self.product.l1[0] * long]
        DataCopy(self.l1.tensors[0][0], source, Nd2NzParams(1, m, long, 0, long, fractals(m) * SIDE, 1, 0))
        SetFlag(full, _KEPT)
        WaitFlag(full, _KEPT)
        self.kept = row

    def _load_b1(self, b1: LocalTensor, column: int, tile: int, n: int, long: int) -> None:
        product = self.product
        left, top = column * product.l1[1], tile * product.l1[2]
        if product.b == "column":
            source = self.b[left * product.k + top]
            DataCopy(b1, source, Nd2NzParams(1, n, long, 0, product.k, fractals(n) * SIDE, 1, 0))
        elif product.b == "zN":  # columns of fractals, as they lie in L1
            blocks = fractals(long) * SIDE
            source = self.b[(left // self.width) * product.k * self.width + top * self.width]
            gap = product.k - blocks
            DataCopy(b1, source, DataCopyParams(fractals(n, self.width), blocks, gap, 0))
        elif self.width < SIDE:  # in stripes of 16 rows, so that both fractals of a square lie side by side
            wide, (whole, rest) = fractals(n) * SIDE, divmod(long, SIDE)
            for first, count, rows in ((0, whole, SIDE), (whole, 1, rest)):
                if count and rows:
                    params = Nd2NzParams(count, rows, n, SIDE * product.n, product.n, SIDE, 1, SIDE * wide)
                    DataCopy(b1[first * SIDE * wide :], self.b[(top + first * SIDE) * product.n + left :], params)
        else:
            tall = max(self.width, SIDE)
            source = self.b[top * product.n + left]
            DataCopy(b1, source, Nd2NzParams(1, long, n, 0, product.n, -(-long // tall) * tall, 1, 0))

    def _load_a2(self, a1: LocalTensor, a2: LocalTensor, m: int, k: int, at: int) -> None:
        rows, depth = fractals(m), fractals(k, self.width)
        first, size = at // self.width, _FRACTAL // self.product.dtype.itemsize
        if depth <= rows:
            for column in range(depth):
                LoadData(a2[column * size :], a1, LoadData2DParams((first + column) * rows, rows, 1, depth - 1))
        else:
            for row in range(rows):
                LoadData(a2[row * depth * size :], a1, LoadData2DParams(first * rows + row, depth, rows))

    def _load_b2(self, b1: LocalTensor, b2: LocalTensor, n: int, k: int, at: int, long: int) -> None:
        width, size = self.width, _FRACTAL // self.product.dtype.itemsize
        columns, depth = fractals(n), fractals(k, width)
        if self.product.b == "column":
            for start in range(0, depth * columns, _MOST):
                count = min(_MOST, depth * columns - start)
                LoadData(b2[start * size :], b1, LoadData2DParams(at // width * columns + start, count))
        elif width == SIDE:
            for row in range(depth):
                start = at // SIDE + row
                LoadData(b2[row * columns * size :], b1, LoadData2DParams(start, columns, fractals(long), 0, True))
        elif width < SIDE:
            for row in range(fractals(k)):
                params = LoadData2dTransposeParams((at // SIDE + row) * columns, columns, 1, 0, columns - 1)
                LoadDataWithTranspose(b2[row * columns * SIDE * SIDE :], b1, params)
        else:
            high = -(-long // width)
            for row in range(-(-k // width)):
                params = LoadData2dTransposeParams(at // width + row, -(-n // width), high, 1, 0)
                LoadDataWithTranspose(b2[row * columns * size :], b1, params)


def multiply(a: Any, b: Any, c: Any, product: Product) -> None:
    """The kernel: each core has every so many-th tile of C."""
    cube = Cube(product, a, b)
    down, across = product.tiles()
    count = -(-product.k // product.l1[2])
    result = GlobalTensor(product.out).SetGlobalBuffer(c)
    for task in range(GetBlockIdx(), down * across, GetBlockNum()):
        row, column = product.place(task)
        m, n = cube.compute(row, column, 0, count, GetBlockIdx() % count if product.shuffles else 0)
        cube.store(result[row * product.l1[0] * product.n + column * product.l1[1]], m, n, product.n)
    cube.close()


def operands(product: Product, rng: np.random.Generator | None = None) -> Iterator[Any]:
    """Yield A and B as they lie in GM, with random or no values."""
    for rows, columns in ((product.m, product.k), (product.k, product.n)):
        if rng is None:
            yield np.zeros((rows, columns), product.dtype)
        elif product.dtype == int8:
            yield rng.integers(-8, 8, (rows, columns), np.int8)
        else:
            yield rng.normal(size=(rows, columns)).astype(product.dtype)


def laid(product: Product, b: Any) -> Any:
    """Return B as it is stored."""
    if product.b == "column":
        return np.ascontiguousarray(b.T)
    if product.b == "zN":
        width = k0(product.dtype)
        return np.ascontiguousarray(b.reshape(product.k, -1, width).transpose(1, 0, 2)).reshape(b.shape)
    return b


def on_card(product: Product, card: str, cores: int) -> Result:
    """Run it on *cores* cores of a card, with zeros."""
    a, b = operands(product)
    c = np.zeros((product.m, product.n), product.out)
    args = a, laid(product, b), c, product
    return run(multiply, cores, args, load(card).aicore, kind=KernelType.AIC_ONLY, hazards=False, values=False)
