"""Pixel formats: how an image lies in memory, and how it becomes an array.

Here an image is an array (height, width, 3) of bytes: Y, U and V of each pixel for the formats of the YUV family, R, G
and B for the others. Numbers and byte orders are those of acldvppPixelFormat. Strides are bytes per row and rows per
plane, aligned as the vendor's tables for its image processor (VPC) ask: 16 and 2.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]

NV12, NV21, RGB888, RGBA8888, UNKNOWN = 1, 2, 12, 16, 10000
_NEUTRAL = 128  # a chroma value without colour


class MediaError(ValueError):
    """Images or descriptions that the hardware would not process: what was wrong, and what to do."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy


class Family(Enum):
    """What the three values of a pixel mean."""

    YUV = "yuv"
    RGB = "rgb"


@dataclass(frozen=True, slots=True)
class PixelFormat:
    """One way to lay out an image.

    *order* spells the bytes of a pixel (of two, where luma comes twice). With *chroma* they lie in two planes, luma
    and pairs of chroma, one pair for so many pixels across and down.
    """

    name: str
    order: str
    chroma: tuple[int, int] | None = None

    @property
    def family(self) -> Family:
        """YUV or RGB."""
        return Family.RGB if "R" in self.order else Family.YUV

    @property
    def pixel_bytes(self) -> int:
        """Bytes of a pixel in a row of the first plane."""
        return 1 if self.chroma else len(self.order) // max(1, self.order.count("Y"))

    @property
    def multiples(self) -> tuple[int, int]:
        """What width and height must be whole multiples of."""
        return self.chroma or (max(1, self.order.count("Y")), 1)

    def strides(self, width: int, height: int) -> tuple[int, int]:
        """The least strides of an image of this size."""
        return aligned(width, 16) * self.pixel_bytes, aligned(height, 2)

    def nbytes(self, width_stride: int, height_stride: int) -> int:
        """Bytes of an image with these strides."""
        luma = width_stride * height_stride
        return luma + (2 * luma // (self.chroma[0] * self.chroma[1]) if self.chroma else 0)

    def check(self, role: str, width: int, height: int, width_stride: int, height_stride: int) -> None:
        """Refuse sizes and strides that VPC does not take."""
        across, down = self.multiples
        if width % across or height % down:
            raise MediaError(
                f"{role} has {width}x{height} pixels in {self.name}", f"make them multiples of {across} and {down}"
            )
        if width_stride < width * self.pixel_bytes or width_stride % 16:
            raise MediaError(
                f"{role} has width stride {width_stride} for {width} pixels of {self.pixel_bytes} bytes",
                f"use {self.strides(width, height)[0]}, or a larger multiple of 16",
            )
        if height_stride < height or height_stride % 2:
            raise MediaError(
                f"{role} has height stride {height_stride} for {height} rows",
                f"use {self.strides(width, height)[1]}, or a larger even number",
            )

    def read(self, memory: Image, width: int, height: int, width_stride: int, height_stride: int) -> Image:
        """The image at the beginning of *memory*; chroma that several pixels share is repeated for each."""
        image = np.empty((height, width, 3), np.uint8)
        rows = memory[: width_stride * height_stride].reshape(height_stride, width_stride)[:height]
        if self.chroma:
            image[..., 0] = rows[:, :width]
            pairs = self._chroma(memory, width, height, width_stride, height_stride)
            spread = pairs.repeat(self.chroma[1], 0)[:height].repeat(self.chroma[0], 1)[:, :width]
            image[..., 1:] = spread if self.order == "YUV" else spread[..., ::-1]
        elif self.order == "Y":
            image[..., 0] = rows[:, :width]
            image[..., 1:] = _NEUTRAL
        elif self.order.count("Y") == 2:
            quads = rows[:, : 2 * width].reshape(height, width // 2, 4)
            first, second = _places(self.order, "Y")
            image[:, 0::2, 0], image[:, 1::2, 0] = quads[..., first], quads[..., second]
            for channel, letter in ((1, "U"), (2, "V")):
                image[..., channel] = quads[..., self.order.index(letter)].repeat(2, 1)
        else:
            pixels = rows[:, : self.pixel_bytes * width].reshape(height, width, self.pixel_bytes)
            image[:] = pixels[..., [self.order.index(letter) for letter in self.family.name]]
        return image

    def write(self, memory: Image, image: Image, width_stride: int, height_stride: int) -> None:
        """Put *image* at the beginning of *memory*; shared chroma is the mean, padding stays as it is.

        Alpha is the fourth value of a pixel, or 0.
        """
        height, width, values = image.shape
        rows = memory[: width_stride * height_stride].reshape(height_stride, width_stride)[:height]
        if self.chroma:
            rows[:, :width] = image[..., 0]
            means = _block_means(image[..., 1:], *self.chroma)
            pairs = self._chroma(memory, width, height, width_stride, height_stride)
            pairs[:] = means if self.order == "YUV" else means[..., ::-1]
        elif self.order == "Y":
            rows[:, :width] = image[..., 0]
        elif self.order.count("Y") == 2:
            quads = rows[:, : 2 * width].reshape(height, width // 2, 4)  # a view: rows are contiguous there
            first, second = _places(self.order, "Y")
            quads[..., first], quads[..., second] = image[:, 0::2, 0], image[:, 1::2, 0]
            means = _block_means(image[..., 1:], 2, 1)
            quads[..., self.order.index("U")], quads[..., self.order.index("V")] = means[..., 0], means[..., 1]
        else:
            pixels = rows[:, : self.pixel_bytes * width].reshape(height, width, self.pixel_bytes)
            for channel, letter in enumerate(self.family.name):
                pixels[..., self.order.index(letter)] = image[..., channel]
            if "A" in self.order:
                pixels[..., self.order.index("A")] = image[..., 3] if values == 4 else 0

    def rows(
        self, left: int, right: int, top: int, bottom: int, width_stride: int, height_stride: int
    ) -> list[tuple[int, int]]:
        """The bytes of the pixels from *left* to *right* and from *top* to *bottom*, both included, as ranges."""
        planes = [(0, width_stride, left * self.pixel_bytes, (right + 1) * self.pixel_bytes, top, bottom)]
        if self.chroma:
            across, down = self.chroma
            begin, stride = width_stride * height_stride, 2 * width_stride // across
            planes.append((begin, stride, left // across * 2, (right // across + 1) * 2, top // down, bottom // down))
        return [
            (begin + row * stride + first, begin + row * stride + last)
            for begin, stride, first, last, upper, lower in planes
            for row in range(upper, lower + 1)
        ]

    def _chroma(self, memory: Image, width: int, height: int, width_stride: int, height_stride: int) -> Image:
        """The pairs of chroma, as a view (rows, columns, 2)."""
        assert self.chroma is not None, f"{self.name} has one plane"
        across, down = self.chroma
        luma, row = width_stride * height_stride, 2 * width_stride // across
        plane = memory[luma : luma + row * (height_stride // down)].reshape(height_stride // down, row)
        columns = -(-width // across)
        return plane[: -(-height // down), : 2 * columns].reshape(-(-height // down), columns, 2)


def aligned(value: int, step: int) -> int:
    """*value*, rounded up to a multiple of *step*."""
    return -(-value // step) * step


def _places(order: str, letter: str) -> list[int]:
    return [place for place, each in enumerate(order) if each == letter]


def _block_means(values: npt.NDArray[Any], across: int, down: int) -> Image:
    """The mean of each block of *across* by *down* pixels, rounded to the nearest."""
    total = np.full(
        (values.shape[0] // down, values.shape[1] // across, values.shape[2]), across * down // 2, np.uint16
    )
    for row in range(down):
        for column in range(across):
            total += values[row::down, column::across]
    total //= across * down
    return total.astype(np.uint8)


FORMATS: dict[int, PixelFormat] = {
    0: PixelFormat("YUV400", "Y"),
    NV12: PixelFormat("YUV420SP NV12", "YUV", (2, 2)),
    NV21: PixelFormat("YUV420SP NV21", "YVU", (2, 2)),
    3: PixelFormat("YUV422SP", "YUV", (2, 1)),
    4: PixelFormat("YVU422SP", "YVU", (2, 1)),
    5: PixelFormat("YUV444SP", "YUV", (1, 1)),
    6: PixelFormat("YVU444SP", "YVU", (1, 1)),
    7: PixelFormat("YUYV422 packed", "YUYV"),
    8: PixelFormat("UYVY422 packed", "UYVY"),
    9: PixelFormat("YVYU422 packed", "YVYU"),
    10: PixelFormat("VYUY422 packed", "VYUY"),
    11: PixelFormat("YUV444 packed", "YUV"),
    RGB888: PixelFormat("RGB888", "RGB"),
    13: PixelFormat("BGR888", "BGR"),
    14: PixelFormat("ARGB8888", "ARGB"),
    15: PixelFormat("ABGR8888", "ABGR"),
    RGBA8888: PixelFormat("RGBA8888", "RGBA"),
    17: PixelFormat("BGRA8888", "BGRA"),
    1000: PixelFormat("YUV440SP", "YUV", (1, 2)),
    1001: PixelFormat("YVU440SP", "YVU", (1, 2)),
}


# Colour spaces: YUV to RGB and back, by the matrices of acldvppCscMatrix.
#
# BT.601 wide is the default of the hardware, and what JPEG files use. "Narrow" keeps luma in 16 to 235 and chroma in 16
# to 240.


class _Standard(NamedTuple):
    """The weights of red and blue in luma (ITU-R BT.601-7, BT.709-6, BT.2020-2), and the range of the values."""

    red: float
    blue: float
    narrow: bool


STANDARDS = (
    _Standard(0.299, 0.114, narrow=False),
    _Standard(0.299, 0.114, narrow=True),
    _Standard(0.2126, 0.0722, narrow=False),
    _Standard(0.2126, 0.0722, narrow=True),
    _Standard(0.2627, 0.0593, narrow=False),
    _Standard(0.2627, 0.0593, narrow=True),
)


def convert(image: Image, source: Family, target: Family, matrix: int) -> Image:
    """*image* in the *target* family."""
    if source is target:
        return image
    return _to_rgb(image, STANDARDS[matrix]) if target is Family.RGB else _to_yuv(image, STANDARDS[matrix])


def _to_rgb(image: Image, standard: _Standard) -> Image:
    offset, luma, chroma = (16.0, 255 / 219, 255 / 224) if standard.narrow else (0.0, 1.0, 1.0)
    values = image.astype(np.float32)
    y, u, v = (values[..., 0] - offset) * luma, (values[..., 1] - 128) * chroma, (values[..., 2] - 128) * chroma
    red = y + 2 * (1 - standard.red) * v
    blue = y + 2 * (1 - standard.blue) * u
    green = (y - standard.red * red - standard.blue * blue) / (1 - standard.red - standard.blue)
    return _bytes(np.stack((red, green, blue), -1))


def _to_yuv(image: Image, standard: _Standard) -> Image:
    offset, luma, chroma = (16.0, 219 / 255, 224 / 255) if standard.narrow else (0.0, 1.0, 1.0)
    values = image.astype(np.float32)
    red, green, blue = values[..., 0], values[..., 1], values[..., 2]
    y = standard.red * red + (1 - standard.red - standard.blue) * green + standard.blue * blue
    u = (blue - y) / (2 * (1 - standard.blue)) * chroma + 128
    v = (red - y) / (2 * (1 - standard.red)) * chroma + 128
    return _bytes(np.stack((y * luma + offset, u, v), -1))


def _bytes(values: npt.NDArray[np.float32]) -> Image:
    rounded: Image = np.clip(np.floor(values + 0.5), 0, 255).astype(np.uint8)
    return rounded
