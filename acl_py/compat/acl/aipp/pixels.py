"""Pixels: what AIPP computes from the bytes of an image. Files and calls (static and dynamic AIPP) both end here.

The steps and their order are those of the vendor's pages on AIPP. Channels are swapped, an area is cut out, colours
are converted, values are shifted and scaled, a border is added. A conversion is a matrix in 1/256, rounded down and
kept within 0 to 255. The limits are those that the vendor's pages name for the four formats that these cards read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

SIDES, STARTS, BORDERS = range(1, 4097), range(4096), range(33)  # of images, of cut areas, of borders: in pixels
WEIGHTS, BIASES, MEANS = range(-32677, 32677), range(256), range(256)
LEAST_WIDTH = 2  # of a source
WIDEST_PADDED = 1080
LARGEST_HALF = 65504.0  # of float16
_NONE = (0.0, 0.0, 0.0, 0.0)
_ONE = (1.0, 1.0, 1.0, 1.0)


class AippError(ValueError):
    """Settings of AIPP that do not fit together, or not to the model: what was wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Format:
    """How the pixels of a source lie in memory. *number* is its aclAippInputFormat, *code* the one in the parameters
    of dynamic AIPP; a pixel has *channels* values.
    """

    name: str
    number: int
    code: int
    channels: int

    @property
    def has_chroma_plane(self) -> bool:
        """Whether luma and half as much chroma lie in two planes."""
        return self.name == "YUV420SP_U8"

    def nbytes(self, width: int, height: int) -> int:
        """Return the bytes of an image."""
        return width * height * 3 // 2 if self.has_chroma_plane else width * height * self.channels

    def dims(self, width: int, height: int) -> tuple[int, int, int]:
        """Return the dims of the bytes of an image: rows, columns, bytes of a place."""
        return (height * 3 // 2, width, 1) if self.has_chroma_plane else (height, width, self.channels)

    def values(self, data: Bytes, width: int, height: int) -> Bytes:
        """Return the values of an image, (rows, columns, channels); chroma is that of the two by two pixels."""
        if not self.has_chroma_plane:
            return data.reshape(height, width, self.channels)
        luma, chroma = data[: width * height].reshape(height, width, 1), data[width * height :]
        pairs = chroma.reshape(height // 2, width // 2, 2).repeat(2, 0).repeat(2, 1)
        return np.concatenate((luma, pairs), -1)


FORMATS = {
    each.name: each
    for each in (
        Format("YUV420SP_U8", 1, 1, 3),
        Format("XRGB8888_U8", 2, 2, 4),
        Format("RGB888_U8", 3, 5, 3),
        Format("YUV400_U8", 4, 10, 1),
    )
}


@dataclass(frozen=True, slots=True)
class Colours:
    """A conversion of colours: nine weights in 1/256, row by row. Values of YUV are taken less *before*; *after* is
    added to those that are computed from RGB.
    """

    weights: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def convert(self, values: Bytes, *, is_yuv: bool) -> Bytes:
        """Return *values*, of three channels, in the other colours."""
        shifted = values.astype(np.int32) - (np.array(self.before, np.int32) if is_yuv else 0)
        mixed = shifted @ np.array(self.weights, np.int32).reshape(3, 3).T >> 8
        kept: Bytes = np.clip(mixed if is_yuv else mixed + np.array(self.after, np.int32), 0, 255).astype(np.uint8)
        return kept


@dataclass(frozen=True, slots=True)
class Source:
    """The images that a program passes: all have one format and size. *swaps_ends* exchanges R and B, or U and V;
    *turns_first* puts the first of four channels last.
    """

    format: Format
    width: int
    height: int
    colours: Colours | None = None
    swaps_ends: bool = False
    turns_first: bool = False

    def check(self) -> None:
        """Raise AippError if the hardware does not read such images."""
        if not LEAST_WIDTH <= self.width < SIDES.stop or self.height not in SIDES:
            raise AippError(
                f"the source has {self.width}x{self.height} pixels; give it a width of {LEAST_WIDTH} to 4096 and a "
                "height of 1 to 4096"
            )
        if self.format.has_chroma_plane and (self.width % 2 or self.height % 2):
            raise AippError(f"the source has {self.width}x{self.height} pixels; in YUV420SP_U8 both must be even")
        if self.colours is not None and self.format.channels == 1:
            raise AippError("YUV400_U8 has no colours to convert; switch csc off")

    @property
    def nbytes(self) -> int:
        """Bytes of one image."""
        return self.format.nbytes(self.width, self.height)

    def pixels(self, data: Bytes) -> Bytes:
        """Return the values of one image, with its channels in their order."""
        values = self.format.values(data, self.width, self.height)
        if self.turns_first and self.format.channels == 4:
            values = values[..., [1, 2, 3, 0]]
        if self.swaps_ends and self.format.channels > 1:
            order = [0, 2, 1] if self.format.has_chroma_plane else [2, 1, 0, 3][: self.format.channels]
            values = values[..., order]
        return values

    def converted(self, values: Bytes) -> Bytes:
        """Return *values* in the colours of the model."""
        if self.colours is None:
            return values
        return self.colours.convert(values[..., :3], is_yuv=self.format.has_chroma_plane)


@dataclass(frozen=True, slots=True)
class Area:
    """What is made of one image: the part *cut* out of it (left, top, width, height), the *border* around that (top,
    bottom, left, right) with its *filling*, and for each channel (value - mean - least) * scale.
    """

    cut: tuple[int, int, int, int] | None = None
    border: tuple[int, int, int, int] = (0, 0, 0, 0)
    filling: float = 0.0
    mean: tuple[int, ...] = (0, 0, 0, 0)
    least: tuple[float, ...] = _NONE
    scale: tuple[float, ...] = _ONE

    def check(self, source: Source) -> None:
        """Raise AippError if it does not lie within *source*, or becomes too wide."""
        if self.cut is not None:
            left, top, width, height = self.cut
            if left + width > source.width or top + height > source.height:
                what = f"the area to cut out has {width}x{height} pixels from {left}, {top}"
                raise AippError(f"{what}; stay within the source, which has {source.width}x{source.height}")
            if source.format.has_chroma_plane and (left % 2 or top % 2):
                raise AippError(f"the area to cut out begins at {left}, {top}; in YUV420SP_U8 begin at even places")
        width, _ = self.size(source)
        if any(self.border) and width > WIDEST_PADDED:
            raise AippError(f"with its border the image is {width} pixels wide; keep within {WIDEST_PADDED}")

    def size(self, source: Source) -> tuple[int, int]:
        """Return width and height of what becomes of *source*."""
        width, height = (source.width, source.height) if self.cut is None else self.cut[2:]
        top, bottom, left, right = self.border
        return width + left + right, height + top + bottom

    def cut_out(self, values: Bytes) -> Bytes:
        """Return the part of *values* that is cut out."""
        if self.cut is None:
            return values
        left, top, width, height = self.cut
        return values[top : top + height, left : left + width]

    def scaled(self, values: Bytes, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return *values* as the model takes them: in bytes they stay, in int8 they lose their mean, in floats they are
        also scaled. The card holds *least* and *scale* in float16.
        """
        count = values.shape[-1]
        if dtype == np.uint8:
            return values
        mean = np.array(self.mean[:count], np.float32)
        if dtype == np.int8:
            signed: npt.NDArray[Any] = np.clip(values - mean, -128, 127).astype(np.int8)
            return signed
        least, scale = (np.array(each[:count], np.float16).astype(np.float32) for each in (self.least, self.scale))
        with np.errstate(over="ignore"):  # beyond float16: infinite
            scaled: npt.NDArray[Any] = ((values - mean - least) * scale).astype(dtype)
        return scaled

    def framed(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return *values* with the border around them."""
        top, bottom, left, right = self.border
        if not any(self.border):
            return values
        wide = ((top, bottom), (left, right), (0, 0))
        return np.pad(values, wide, constant_values=values.dtype.type(self.filling))


def process(
    data: Bytes, source: Source, areas: Sequence[Area], channels: int, dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Return what the model gets of the images in *data*, one for each of *areas*: (images, rows, columns, channels).

    Raises:
        AippError: There are fewer bytes, or fewer channels.
    """
    needed = source.nbytes * len(areas)
    if data.size < needed:
        raise AippError(f"{len(areas)} images take {needed} bytes, and there are {data.size}")
    images = []
    for image, area in zip(data.reshape(-1)[:needed].reshape(len(areas), -1), areas, strict=True):
        values = source.converted(area.cut_out(source.pixels(image)))
        if values.shape[-1] < channels:
            raise AippError(f"the model takes {channels} channels, and {source.format.name} gives {values.shape[-1]}")
        images.append(area.framed(area.scaled(values[..., :channels], dtype)))
    return np.stack(images)
