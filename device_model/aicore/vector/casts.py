"""Cast: the conversions that exist between types, and how each mode rounds.

Values are converted through double, which holds every source value exactly except large 64-bit integers. Rounding those
to double first would round twice. So their lowest kept bit is set if any bit below it was set (a sticky bit), and the
second step then rounds as if it had seen all bits.

A value that does not fit an integer type saturates, and NaN becomes 0. A value that does not fit a float type becomes
infinite or the largest number of the type, depending on the mode.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.names import RoundMode
from device_model.aicore.core.packed import int4b_t, pack
from device_model.aicore.core.tensors import bfloat16, float32, half, int8

Array = npt.NDArray[Any]
Double = npt.NDArray[np.float64]

NONE, RINT, FLOOR = RoundMode.CAST_NONE, RoundMode.CAST_RINT, RoundMode.CAST_FLOOR
CEIL, ROUND, TRUNC, ODD = RoundMode.CAST_CEIL, RoundMode.CAST_ROUND, RoundMode.CAST_TRUNC, RoundMode.CAST_ODD

_NEAREST = (RINT, FLOOR, CEIL, ROUND, TRUNC)
_ANY = (NONE, *_NEAREST)

INT4 = -8, 7  # the least and the largest int4b_t

# (source type, destination type) -> modes, on Atlas A2 and A3.
CASTS: dict[tuple[str, str], tuple[RoundMode, ...]] = {
    ("float16", "float32"): (NONE,),
    ("float16", "int32"): _NEAREST,
    ("float16", "int16"): _NEAREST,
    ("float16", "int8"): _ANY,
    ("float16", "uint8"): _ANY,
    ("float16", "int4"): _ANY,
    ("float32", "float32"): _NEAREST,
    ("float32", "float16"): (*_ANY, ODD),
    ("float32", "bfloat16"): _NEAREST,
    ("float32", "int64"): _NEAREST,
    ("float32", "int32"): _NEAREST,
    ("float32", "int16"): _NEAREST,
    ("bfloat16", "float32"): (NONE,),
    ("bfloat16", "int32"): _NEAREST,
    ("uint8", "float16"): (NONE,),
    ("int8", "float16"): (NONE,),
    ("int4", "float16"): (NONE,),
    ("int16", "float16"): _ANY,
    ("int16", "float32"): (NONE,),
    ("int32", "float32"): _ANY,
    ("int32", "float16"): _ANY,  # multiplied by the factor of SetDeqScale, and rounded once whatever the mode
    ("int32", "int64"): (NONE,),
    ("int32", "int16"): (NONE,),
    ("int64", "float32"): _NEAREST,
    ("int64", "int32"): (NONE,),
}


def cast(x: Array, dtype: np.dtype[Any], mode: RoundMode) -> Array:
    """Return *x* as *dtype*, rounded by *mode*; the pair of types and the mode must be in CASTS.

    Of int4b_t it gives the bytes; numbers of this type come unpacked, as int8.
    """
    if dtype is int4b_t:
        return pack(np.clip(_to_integer(x, int8, mode), *INT4))
    if dtype.kind in "iu":
        return _to_integer(x, dtype, mode)
    if x.dtype == dtype:
        return _INTEGRAL[mode](x)
    if mode in (NONE, RINT) and x.dtype.itemsize <= 4:
        return x.astype(dtype)
    return narrow(_wide(x), dtype, mode)


def _to_integer(x: Array, dtype: np.dtype[Any], mode: RoundMode) -> Array:
    limits = np.iinfo(dtype)
    if x.dtype.kind in "iu":
        own = np.iinfo(x.dtype)  # NumPy 2.0 clips to no bound beyond these
        return np.clip(x, max(limits.min, own.min), min(limits.max, own.max)).astype(dtype)
    rounded = _INTEGRAL[mode](x.astype(np.float64))
    # The largest int64 is not a double, so np.clip would give a number that does not fit.
    too_large, too_small = rounded >= float(limits.max), rounded <= float(limits.min)
    fits = np.where(too_large | too_small | np.isnan(rounded), 0, rounded).astype(dtype)
    fits[too_large] = limits.max
    fits[too_small] = limits.min
    return fits


def _wide(x: Array) -> Double:
    """Return *x* as doubles; the last bit of a large integer is set if any lower bit was."""
    if x.dtype != np.int64:
        return x.astype(np.float64)
    magnitude = np.where(x < 0, 0 - x.view(np.uint64), x.view(np.uint64))
    kept = magnitude & ~np.uint64(0x7FF) | ((magnitude & np.uint64(0x7FF)) != 0).astype(np.uint64) << np.uint64(11)
    magnitude = np.where(magnitude >> np.uint64(53) != 0, kept, magnitude)
    return np.copysign(magnitude.astype(np.float64), x.astype(np.float64))


_BITS = {
    half: np.uint16,
    bfloat16: np.uint16,
    float32: np.uint32,
}


def narrow(x: Double, dtype: np.dtype[Any], mode: RoundMode) -> Array:
    """Return doubles as a narrower float type, rounded by *mode*."""
    nearest = x.astype(dtype)
    if mode in (NONE, RINT):
        return nearest
    # Round towards zero first. Without the sign, the bits of a float are its rank among the numbers of its type, so
    # the next smaller magnitude has these bits minus 1.
    size = np.abs(x)
    bits = np.abs(nearest).view(_BITS[dtype])
    bits -= (np.abs(nearest.astype(np.float64)) > size).astype(bits.dtype)
    below = bits.view(dtype).astype(np.float64)
    inexact = below != size
    up: Any
    if mode is TRUNC:
        up = False
    elif mode is FLOOR:
        up = inexact & (x < 0)
    elif mode is CEIL:
        up = inexact & (x > 0)
    elif mode is ODD:
        up = inexact & (bits & 1 == 0)
    else:
        above = (bits + bits.dtype.type(1)).view(dtype).astype(np.float64)
        # Above the largest number, round as if the next power of two were a number of the type.
        above = np.where(np.isinf(above), below + (below - _previous(bits, dtype)), above)
        up = inexact & (size - below >= above - size)
    bits += np.asarray(up).astype(bits.dtype)
    result = np.copysign(bits.view(dtype), nearest)
    return np.where(np.isnan(x), nearest, result)


def _previous(bits: Array, dtype: np.dtype[Any]) -> Double:
    previous: Array = np.maximum(bits, 1) - bits.dtype.type(1)
    return previous.view(dtype).astype(np.float64)


def _half_away(x: Array) -> Array:
    # In double, because 0.49999997f + 0.5f is 1 in float32.
    size = np.abs(x.astype(np.float64))
    return np.copysign(np.floor(size + 0.5), x).astype(x.dtype)


_INTEGRAL: dict[RoundMode, Callable[[Array], Array]] = {
    NONE: np.rint,
    RINT: np.rint,
    FLOOR: np.floor,
    CEIL: np.ceil,
    ROUND: _half_away,
    TRUNC: np.trunc,
}
