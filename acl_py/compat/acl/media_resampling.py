"""Resizing: the interpolations that a resize configuration can name.

As the vendor documents them for cards of the A2 generation: 0, the default, and 1 are the common bilinear
interpolation with OpenCV's pixel centres, 2 nearest neighbour as OpenCV does it, 3 and 4 the same two with the
positions of TensorFlow 1. None of them smooths when it shrinks.
"""

import numpy as np
import numpy.typing as npt

from acl_py.compat.acl.media_formats import Image

INTERPOLATIONS = range(5)
_NEAREST = (2, 4)
_CORNERED = 3  # positions count from the corner of a pixel, not from its middle


def resize(image: Image, width: int, height: int, interpolation: int) -> Image:
    """*image* with *width* by *height* pixels."""
    if image.shape[:2] == (height, width):
        return image
    if interpolation in _NEAREST:
        return image[_nearest(height, image.shape[0])[:, None], _nearest(width, image.shape[1])]
    values = _blend(image.astype(np.float32), 0, height, interpolation)
    values = _blend(values, 1, width, interpolation)
    values += 0.5
    return values.astype(np.uint8)  # which takes the floor: nothing is negative


def _blend(values: npt.NDArray[np.float32], axis: int, target: int, interpolation: int) -> npt.NDArray[np.float32]:
    """*values* with *target* places along *axis*: each lies between two of the old ones."""
    first, second, weight = _neighbours(target, values.shape[axis], interpolation)
    weight = weight.reshape([-1 if axis == each else 1 for each in range(values.ndim)])
    blended = values.take(first, axis)
    blended *= 1 - weight
    other = values.take(second, axis)
    other *= weight
    blended += other
    return blended


def _nearest(target: int, source: int) -> npt.NDArray[np.int64]:
    return np.arange(target) * source // target


def _neighbours(
    target: int, source: int, interpolation: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """For each of *target* places, two of *source* and the weight of the second."""
    scale = source / target
    middle = 0.0 if interpolation == _CORNERED else 0.5
    places = np.maximum((np.arange(target) + middle) * scale - middle, 0)
    first = places.astype(np.int64)
    return first, np.minimum(first + 1, source - 1), (places - first).astype(np.float32)
