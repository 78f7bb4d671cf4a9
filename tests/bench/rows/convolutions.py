"""Convolution of an image in raw instructions, after the public one of PTO-ISA: the filter as a matrix product, which
LoadData unrolls from the image (im2col).

A core has one image and some columns of the result, that is, output channels. Of each 128 places of the filter and 256
columns it adds up one plane of 16 channels after the other: the rows of the image that these places see, and the part
of the filter, each with a flag of its own. Each plane is loaded to L0 in as many pieces as the filter has rows: the
image at once, and the filter tap by tap.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from device_model.aicore.core.blocks import GetBlockIdx, GetBlockNum
from device_model.aicore.core.names import HardEvent, KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, half
from device_model.aicore.cube.fixpipe import CO2Layout, Fixpipe, FixpipeParams, QuantMode
from device_model.aicore.cube.im2col import LoadData3DParamsV2
from device_model.aicore.cube.loads import LoadData, LoadData2DParams
from device_model.aicore.cube.mmad import SIDE, Mmad, MmadParams
from device_model.aicore.flags.sync import SetFlag, WaitFlag
from device_model.aicore.moving.copies import DataCopy, DataCopyParams
from device_model.aicore.runner import Result, run
from device_model.profile import load
from tests.bench.rows.products import Slots, single
from tests.bench.rows.vectors import parts

FRACTAL = SIDE * SIDE  # halves
PLACES, COLUMNS = 128, 256  # of a tile
L0_SLOT = 32 * 1024  # bytes
_IMAGE = 2  # the first of the flags that say that rows of the image are in L1


@dataclass(frozen=True)
class Convolution:
    """*batch* images of *planes* planes of *high* x *wide* pixels of 16 halves; *columns* output channels.

    The filter moves by one pixel, and the image is padded so that the result has its size.
    """

    batch: int
    planes: int
    high: int
    wide: int
    columns: int
    filter: tuple[int, int] = (3, 3)  # rows and columns, odd

    def shape_of_filter(self) -> tuple[int, int, int, int]:
        """The filter in fractals: planes, rows and columns in one; output channels in 16s; 16 of them; 16 channels."""
        return self.planes * self.filter[0] * self.filter[1], self.columns // SIDE, SIDE, SIDE


class _Cube:
    """The cube core: its buffers, and how a tile passes through them."""

    def __init__(self, what: Convolution, x: Any, weights: Any, out: Any) -> None:
        self.what = what
        high, wide = what.filter
        self.taps, self.depth = high * wide, wide * SIDE
        seen = min(what.high, -(-PLACES // what.wide) + high) * what.wide * SIDE  # halves of a plane, at most
        part = self.taps * SIDE * COLUMNS
        self.l1 = Slots(
            "l1",
            [
                (
                    LocalTensor(half, TPosition.A1, slot * seen * 2, seen),
                    LocalTensor(half, TPosition.B1, (2 * seen + slot * part) * 2, part),
                )
                for slot in range(2)
            ],
            0,
        )
        self.l0 = Slots(
            "l0",
            [
                (
                    LocalTensor(half, TPosition.A2, slot * L0_SLOT, PLACES * self.depth),
                    LocalTensor(half, TPosition.B2, slot * L0_SLOT, COLUMNS * self.depth),
                )
                for slot in range(2)
            ],
            0,
        )
        self.c = LocalTensor(single, TPosition.CO1, 0, PLACES * COLUMNS)
        self.x, self.weights, self.out = (GlobalTensor(half).SetGlobalBuffer(each) for each in (x, weights, out))

    def compute(self, image: int, first: int, left: int, right: int) -> None:
        """Compute the columns *left* to *right* of the places from *first* on, and store them."""
        what, (high, wide) = self.what, self.what.filter
        size = what.high * what.wide
        places, columns = min(PLACES, size - first), right - left
        top, bottom = first // what.wide - high // 2, (first + places - 1) // what.wide + high // 2
        above, below = max(0, -top), max(0, bottom - what.high + 1)
        rows = bottom - below - (top + above) + 1
        params = LoadData3DParamsV2(
            rows, what.wide, SIDE, self.depth, places, 0, first % what.wide,
            (wide // 2, wide // 2, above, below), filter_w=wide, filter_h=high,
        )  # fmt: skip
        numbers: list[int] = []
        for plane in range(what.planes + 1):
            if plane < what.planes:  # the next plane is on its way while this one is computed
                pixels, weights = self.l1.fill()
                source = self.x[((image * what.planes + plane) * size + (top + above) * what.wide) * SIDE]
                DataCopy(pixels, source, rows * what.wide * SIDE)
                SetFlag(HardEvent.MTE2_MTE1, _IMAGE + self.l1.last)
                source = self.weights[(plane * self.taps * what.columns + left) * SIDE]
                gap = what.columns - columns
                DataCopy(weights, source, DataCopyParams(self.taps, columns, gap, 0))
                numbers.append(self.l1.filled())
            if plane:
                self._multiply(numbers.pop(0), params, places, columns, is_first=plane == 1)
        self._store(image, first, left, places, columns)

    def _multiply(self, number: int, params: LoadData3DParamsV2, places: int, columns: int, *, is_first: bool) -> None:
        pixels, weights = self.l1.tensors[number]
        (pieces, taps), count = self.what.filter, columns // SIDE
        for piece in range(pieces):
            a2, b2 = self.l0.fill()
            if piece == 0:
                WaitFlag(HardEvent.MTE2_MTE1, _IMAGE + number)
            LoadData(a2, pixels, params._replace(k_start_pt=piece * self.depth))
            if piece == 0:
                self.l1.wait(number)
            for tap in range(taps):
                LoadData(b2[tap * count * FRACTAL :], weights, LoadData2DParams((piece * taps + tap) * count, count))
            if piece == pieces - 1:
                self.l1.emptied(number)
            full = self.l0.filled()
            self.l0.wait(full)
            Mmad(self.c, a2, b2, MmadParams(max(places, 2), columns, self.depth, is_first and not piece))
            self.l0.emptied(full)

    def _store(self, image: int, first: int, left: int, places: int, columns: int) -> None:
        size = self.what.high * self.what.wide
        SetFlag(HardEvent.M_FIX, 0)
        WaitFlag(HardEvent.M_FIX, 0)
        to = self.out[(image * self.what.columns + left) * size + first * SIDE]
        Fixpipe(to, self.c, FixpipeParams(columns, places, 0, size, QuantMode.F322F16), CO2Layout.NZ)
        SetFlag(HardEvent.FIX_M, 0)
        WaitFlag(HardEvent.FIX_M, 0)

    def close(self) -> None:
        """Wait for all flags."""
        self.l1.close()
        self.l0.close()


def convolve(x: Any, weights: Any, out: Any, what: Convolution) -> None:
    """The kernel: cores form a grid of images and columns; a core goes through its places row by row."""
    down = min(what.batch, GetBlockNum())
    across = GetBlockNum() // down
    row, column = divmod(GetBlockIdx(), across)
    cube = _Cube(what, x, weights, out)
    left, right = (SIDE * at for at in parts(what.columns // SIDE, across, column))
    if row < down:
        for image in range(*parts(what.batch, down, row)):
            for first in range(0, what.high * what.wide, PLACES):
                for at in range(left, right, COLUMNS):
                    cube.compute(image, first, at, min(at + COLUMNS, right))
    cube.close()


def arguments(what: Convolution) -> tuple[Any, ...]:
    """Return images, filter and result, zeros, in planes of 16 channels."""
    pixels = what.high, what.wide, SIDE
    return (
        np.zeros((what.batch, what.planes, *pixels), half),
        np.zeros(what.shape_of_filter(), half),
        np.zeros((what.batch, what.columns // SIDE, *pixels), half),
    )


def on_card(what: Convolution, card: str, cores: int) -> Result:
    """Run it on *cores* cores of a card, with zeros."""
    args = *arguments(what), what
    return run(convolve, cores, args, load(card).aicore, kind=KernelType.AIC_ONLY, hazards=False, values=False)
