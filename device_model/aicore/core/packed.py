"""int4b_t: signed numbers of 4 bits, of which a byte holds two, the first one in its low half.

NumPy has no such array. So the `view` of a tensor of int4b_t is its bytes, copies move these, and the few instructions
that compute with the numbers unpack them.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.dtypes import small_dtype

int4b_t = small_dtype("int4")

Array = npt.NDArray[Any]


def bytes_of(dtype: np.dtype[Any], size: int) -> int:
    """Return the bytes of *size* elements; half a byte counts as one."""
    return (size + 1) // 2 if dtype is int4b_t else size * dtype.itemsize


def elements_in(dtype: np.dtype[Any], nbytes: int) -> int:
    """Return how many elements *nbytes* bytes hold."""
    return nbytes * 2 if dtype is int4b_t else nbytes // dtype.itemsize


def unpack(packed: Array) -> Array:
    """Return the numbers in an array of bytes as int8; the last axis becomes twice as long."""
    signed = packed.view(np.int8)
    numbers = np.empty((*packed.shape[:-1], packed.shape[-1] * 2), np.int8)
    numbers[..., ::2] = signed << 4 >> 4
    numbers[..., 1::2] = signed >> 4
    return numbers


def pack(numbers: Array) -> Array:
    """Return the bytes of an array of int8 from -8 to 7; the last axis, which has an even length, becomes half."""
    bits = numbers.view(np.uint8)
    return bits[..., ::2] & np.uint8(15) | bits[..., 1::2] << np.uint8(4)
