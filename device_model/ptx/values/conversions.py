"""Conversions: cvt between integers and floats of all sizes.

Integers have the dtype of their type, f16 is in float16, bf16 and tf32 are in the bits of uint16 and uint32. The names
of types are those of PTX. NaN results are 0x7fff in 16 bits, but from and to f64 a NaN keeps its sign and the upper
bits of its fraction, as on a card (measured). Those of f32 and f64 from types of the same size need
`floats.canonical`. From bf16 to f32 a card shifts the bits of a NaN, too, unless the conversion has an option.
"""

from typing import Any, Literal

import numpy as np

from device_model.ptx.values.floats import canonical
from device_model.ptx.values.packed import word_of
from device_model.ptx.values.rounding import (
    BF16,
    F16,
    F32,
    F64,
    Array,
    Layout,
    Rounding,
    flushed,
    flushed_once,
    from_bf16,
    from_f16,
    in_pieces,
    is_below_least,
    saturated,
    stepped,
    to_bf16,
    to_f16,
    to_f32,
    to_odd,
    two_sum,
)

IntegerRounding = Literal["rni", "rzi", "rmi", "rpi"]
INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
LAYOUTS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
HANDED_ON = frozenset(
    (("f16", "f64"), ("bf16", "f64"), ("f32", "f64"), ("f64", "f32"), ("f64", "f16"), ("f64", "bf16"))
)
LARGEST = {"f16": 65504.0, "bf16": 255.0 * 2.0**120}
NAN_OF_TF32 = np.uint32(0x7FFFE000)
LOST_BY_TF32 = 13


def integer_to_integer(a: Array, dtype: Any, *, sat: bool = False) -> Array:
    """Return integers of another type: extended, or cut off, or with *sat* clamped to its range."""
    if sat:
        lowest, highest = _common_range(a.dtype, np.dtype(dtype))
        a = np.minimum(np.maximum(a, a.dtype.type(lowest)), a.dtype.type(highest))
    return a.astype(dtype)


def integer_to_float(a: Array, to: str, *, rounding: Rounding = "rn", sat: bool = False) -> Array:
    """Return integers as `f16`, `bf16`, `f32` or `f64`, with one rounding."""
    if rounding == "rn" and to in ("f32", "f64"):
        nearest = a.astype(f"f{int(to[1:]) // 8}")
        return saturated(nearest) if sat else nearest
    if a.dtype.itemsize < 8:
        wide, error = a.astype(np.float64), np.zeros((), np.float64)
    else:
        low = a & a.dtype.type(0xFFFFFFFF)
        wide, error = two_sum((a - low).astype(np.float64), low.astype(np.float64))
    if to == "f64":
        result = stepped(wide, error, rounding)
        return saturated(result) if sat else result
    return _narrowed(to_odd(wide, error) if error.ndim or error else wide, to, rounding, sat)


def float_to_integer(
    a: Array, source: str, dtype: Any, *, rounding: IntegerRounding = "rzi", ftz: bool = False
) -> Array:  # fmt: skip
    """Return floats as integers, clamped to the range of their type.

    Args:
        a: Values.
        source: Their type: `f16`, `bf16`, `f32` or `f64`.
        dtype: The integers.
        rounding: To nearest, with ties to even, to zero, down or up.
        ftz: Whether subnormal f32 count as 0.

    Returns:
        The integers. Of NaN, by the table of the PTX ISA (cvt): 0 if neither is the source f64 nor do the integers have
        64 bits; else their highest bit alone.
    """
    dtype = np.dtype(dtype)
    x = INTEGRAL[rounding](_opened(a, source, ftz).astype(np.float64))
    bounds = np.iinfo(dtype)
    over = float(bounds.max + 1) if dtype.itemsize == 8 else float(bounds.max)  # the largest of 64 bits is no double
    x = np.asarray(np.maximum(x, float(bounds.min)))
    is_odd = ~(x < over)  # or NaN
    if not is_odd.any():
        return _cast(x, dtype)
    result = np.where(x >= over, dtype.type(bounds.max), _cast(np.where(is_odd, 0.0, x), dtype))
    is_nan = np.isnan(x)
    if is_nan.any() and (source == "f64" or dtype.itemsize == 8):
        highest = bounds.min if dtype.kind == "i" else 1 << 8 * dtype.itemsize - 1
        result = np.where(is_nan, dtype.type(highest), result)
    return np.asarray(result)


def float_to_float(
    a: Array, source: str, to: str, *, rounding: Rounding | IntegerRounding = "rn", ftz: bool = False,
    sat: bool = False, relu: bool = False, satfinite: bool = False,
) -> Array:  # fmt: skip
    """Return floats of another type, or of the same rounded to integers.

    Args:
        a: Values.
        source: Their type: `f16`, `bf16`, `f32` or `f64`.
        to: The type of the result: one of these.
        rounding: Of a narrower type; with `rni`, `rzi`, `rmi` or `rpi` the value becomes an integer first.
        ftz: Whether subnormal f32 become 0, in operands and in results. A card does not heed it for f16 that it rounds
            down or up (measured). With it a NaN of f32 first becomes 0x7fffffff.
        sat: Whether results are in [0, 1]; NaN becomes +0.
        relu: Whether negative results become +0; NaN stays NaN.
        satfinite: Whether results of f16 and bf16 beyond the largest number, infinity too, become that number.
    """
    x = _opened(a, source, ftz and not (to == "f16" and rounding in ("rm", "rp")))
    if rounding in INTEGRAL:
        x, rounding = np.asarray(INTEGRAL[rounding](x)), "rn"
    result = _narrowed(x, to, rounding, sat, relu, satfinite)  # type: ignore[arg-type]  # of Rounding now
    if (source, to) in HANDED_ON and not sat:
        result = _with_nans(result, canonical(a) if ftz and source == "f32" else a, LAYOUTS[source], LAYOUTS[to])
    if not (ftz and to == "f32"):
        return result
    return flushed_once(result, lambda: is_below_least(x.astype(np.float64), rounding))  # type: ignore[arg-type]


@in_pieces(4096)
def pair(
    a: Array, b: Array, to: str, *, rounding: Rounding = "rn", relu: bool = False, satfinite: bool = False
) -> Array:  # fmt: skip
    """Return two f32 as `f16x2` or `bf16x2`: cvt d, a, b, which puts a into the upper half and b into the lower."""
    x, y = np.broadcast_arrays(a, b)
    halves = np.stack([y, x], -1)
    return word_of(_narrowed(halves, to.removesuffix("x2"), rounding, False, relu, satfinite))


def to_tf32(
    a: Array, *, rounding: Literal["rna", "rn", "rz"] = "rna", relu: bool = False, satfinite: bool = False
) -> Array:  # fmt: skip
    """Return f32 as the bits of tf32, the lower 13 of which are 0. With `rna` ties go away from zero.

    A card makes `rna` of integer operations, which cut off the fraction of a NaN, so that it may become infinite. With
    `rn` and `rz` a NaN is 0x7fffe000 (measured).
    """
    if relu:
        a = np.asarray(np.maximum(a, np.float32(0)) + np.float32(0))
    bits = a.view(np.uint32)
    unit = np.uint32(1 << LOST_BY_TF32)
    if rounding == "rna":
        near = bits + (unit >> 1)
    elif rounding == "rn":
        near = bits + (bits >> LOST_BY_TF32 & 1) + ((unit >> 1) - np.uint32(1))
    else:
        near = bits
    near = near & ~(unit - np.uint32(1))
    magnitude = bits & np.uint32(0x7FFFFFFF)
    if satfinite:
        is_over = near & np.uint32(0x7FFFFFFF) >= F32.infinity
        near = np.where(is_over, (bits & np.uint32(1 << 31)) | np.uint32(F32.infinity) - unit, near)
    is_nan = magnitude > F32.infinity
    nan = bits & ~(unit - np.uint32(1)) if rounding == "rna" else NAN_OF_TF32
    return np.where(is_nan, nan, near) if is_nan.any() else np.asarray(near)


def _opened(a: Array, source: str, ftz: bool) -> Array:
    """Return f32 or f64."""
    if source == "f16":
        return from_f16(a)
    if source == "bf16":
        return from_bf16(a)
    return flushed(a) if ftz and source == "f32" else a


def _narrowed(
    x: Array, to: str, rounding: Rounding, sat: bool = False, relu: bool = False, satfinite: bool = False
) -> Array:
    """Return f32 or f64 as another type. All limits are numbers of it, so they may come before the rounding."""
    if sat:
        x = saturated(x)
    if relu:
        x = np.asarray(np.maximum(x, x.dtype.type(0)) + x.dtype.type(0))
    if to == "f64":
        return x.astype(np.float64)
    if to == "f32":
        return to_f32(x, rounding) if x.dtype == np.float64 else x
    if satfinite:
        largest = x.dtype.type(LARGEST[to])
        x = np.asarray(np.minimum(np.maximum(x, -largest), largest))
    return to_f16(x, rounding) if to == "f16" else to_bf16(x, rounding)


def _with_nans(result: Array, a: Array, source: Layout, to: Layout) -> Array:
    """Return *result* with the NaNs of *a*, made quiet: with their signs and the upper bits of their fractions."""
    bits = a.view(source.bits)
    sign = source.bits(1 << 8 * a.dtype.itemsize - 1)
    is_nan = (bits & ~sign) > source.bits(source.infinity)
    if not is_nan.any():
        return result
    wide = bits.astype(np.uint64)
    fraction = (wide << np.uint64(64 - source.fraction)) >> np.uint64(64 - to.fraction)
    nan = fraction | np.uint64(to.infinity | 1 << to.fraction - 1)
    nan |= (wide >> np.uint64(8 * a.dtype.itemsize - 1)) << np.uint64(8 * np.dtype(to.bits).itemsize - 1)
    return np.where(is_nan, nan.astype(to.bits), result.view(to.bits)).view(result.dtype)


def _cast(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return doubles that are integers of this type; by way of int64, which all processors convert alike."""
    return x.astype(np.uint64) if dtype == np.uint64 else x.astype(np.int64).astype(dtype)


def _common_range(source: np.dtype[Any], to: np.dtype[Any]) -> tuple[int, int]:
    first, second = np.iinfo(source), np.iinfo(to)
    return max(first.min, second.min), min(first.max, second.max)
