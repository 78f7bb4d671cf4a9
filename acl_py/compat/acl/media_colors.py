"""Colour spaces: YUV to RGB and back, by the matrices of acldvppCscMatrix.

BT.601 wide is the default of the hardware, and what JPEG files use. "Narrow" keeps luma in 16 to 235 and chroma in 16
to 240.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acl_py.compat.acl.media_formats import Family, Image


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
