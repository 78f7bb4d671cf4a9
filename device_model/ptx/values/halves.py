"""Arithmetic of f16 and bf16, one by one or in pairs, with one rounding each.

*kind* says what the operands hold: `f16` in float16, `bf16` in the bits of uint16, `f16x2` and `bf16x2` two of them in
uint32, the first in the lower half. NaN results are 0x7fff; only of bf16 `neg` and `abs_` change no more than the sign.

Options have the names of PTX: *ftz* for operands and results, *sat* for a result in [0, 1], where NaN becomes +0, and
*relu* for a result of at least 0, where NaN stays NaN.
"""

from typing import Any, Literal

import numpy as np

from device_model.ptx.values import approximate, comparisons
from device_model.ptx.values.packed import split, word_of
from device_model.ptx.values.rounding import (
    BF16,
    F16,
    NAN16,
    Array,
    Bits,
    from_bf16,
    from_f16,
    in_pieces,
    saturated,
    to_bf16,
    to_f16,
    to_odd,
    two_sum,
)

Kind = Literal["f16", "bf16", "f16x2", "bf16x2"]
LEAST_NORMAL_OF_F16 = 2.0**-14
SIGN = np.uint16(0x8000)
TIE_OF_BF16 = np.int64(-(1 << 63))


@in_pieces(4096)
def add(
    a: Array, b: Array, kind: Kind, *, ftz: bool = False, sat: bool = False, relu: bool = False
) -> Array:  # fmt: skip
    """Return a + b."""
    x, y = _opened(kind, ftz, a, b)
    return _closed(x + y, kind, ftz, sat, relu)  # f32 has bits enough that to round twice does no harm


@in_pieces(4096)
def sub(
    a: Array, b: Array, kind: Kind, *, ftz: bool = False, sat: bool = False, relu: bool = False
) -> Array:  # fmt: skip
    """Return a - b."""
    x, y = _opened(kind, ftz, a, b)
    return _closed(x - y, kind, ftz, sat, relu)


@in_pieces(4096)
def mul(
    a: Array, b: Array, kind: Kind, *, ftz: bool = False, sat: bool = False, relu: bool = False
) -> Array:  # fmt: skip
    """Return a * b."""
    x, y = _opened(kind, ftz, a, b)
    return _closed(x * y, kind, ftz, sat, relu)  # subnormal in f32, it loses less than bf16 can show


@in_pieces(4096)
def fma(a: Array, b: Array, c: Array, kind: Kind, *, ftz: bool = False, sat: bool = False, relu: bool = False) -> Array:
    """Return a * b + c, rounded once."""
    x, y, z = _opened(kind, ftz, a, b, c)
    if kind.startswith("f16"):
        # The product is exact in f32. What their sum loses in f64 is too small to matter for f16.
        return _closed(np.add(x * y, z, dtype=np.float64), kind, ftz, sat, relu)
    product = np.multiply(x, y, dtype=np.float64)
    total = np.asarray(np.add(product, z, dtype=np.float64))
    # As for f32, but a sum that is subnormal is exact, or far from a tie.
    is_suspect = total.view(np.int64) << 19 == TIE_OF_BF16
    if is_suspect.any():
        product, z = (np.broadcast_to(each, total.shape)[is_suspect] for each in (product, z))
        total[is_suspect] = to_odd(*two_sum(product, z.astype(np.float64)))
    return _closed(total, kind, ftz, sat, relu)


def neg(a: Array, kind: Kind, *, ftz: bool = False) -> Array:
    """Return a with the other sign."""
    bits = _signs(a, kind, ftz)
    return _packed(_quiet(bits, bits ^ SIGN, kind), kind)


def abs_(a: Array, kind: Kind, *, ftz: bool = False) -> Array:
    """Return a without its sign."""
    bits = _signs(a, kind, ftz)
    return _packed(_quiet(bits, bits & ~SIGN, kind), kind)


def minimum(
    a: Array, b: Array, kind: Kind, *, ftz: bool = False, nan: bool = False, xorsign: bool = False
) -> Array:  # fmt: skip
    """Return the lesser of both, where -0 is less than +0.

    Args:
        a: Operands.
        b: The same.
        kind: What they hold.
        ftz: Whether subnormal operands count as 0.
        nan: Whether one NaN makes the result NaN; otherwise only two do.
        xorsign: Whether magnitudes are compared and the result has the exclusive or of the signs (.xorsign.abs).
    """
    return _extreme(a, b, kind, False, ftz, nan, xorsign)


def maximum(
    a: Array, b: Array, kind: Kind, *, ftz: bool = False, nan: bool = False, xorsign: bool = False
) -> Array:  # fmt: skip
    """Return the greater of both; the arguments are those of `minimum`."""
    return _extreme(a, b, kind, True, ftz, nan, xorsign)


def compare(a: Array, b: Array, kind: Kind, operator: str, *, ftz: bool = False) -> Array:
    """Return where two values compare so, as `comparisons.compare`; of pairs both, along a new last axis."""
    x, y = _opened(kind, ftz, a, b)
    return comparisons.compare(x, y, operator)


def as_value(comparison: Array, kind: Kind) -> Array:
    """Return a comparison as set gives it in this type: 1 or 0; of pairs both in a word."""
    one = np.uint16(0x3C00 if kind.startswith("f16") else 0x3F80)
    return _packed(comparison.astype(np.uint16) * one, kind)


@in_pieces(4096)
def ex2(a: Array, kind: Kind, *, ftz: bool = False) -> Array:
    """Return 2**a, here rounded to nearest.

    The PTX ISA bounds the relative error by 2**-9.9 for f16 and by 2**-7 for bf16.
    """
    (x,) = _opened(kind, ftz, a)
    return _closed(approximate.ex2_wide(x.astype(np.float64)), kind, ftz)


@in_pieces(4096)
def tanh(a: Array, kind: Kind) -> Array:
    """Return the hyperbolic tangent, here rounded to nearest.

    The PTX ISA bounds the absolute error by 2**-10.987 for f16 and by 2**-8 for bf16.
    """
    (x,) = _opened(kind, False, a)
    return _closed(approximate.tanh_wide(x.astype(np.float64)), kind, False)


def _bits(a: Array, kind: Kind) -> Bits:
    """Return the bits of each value, of pairs along a new last axis."""
    return split(a, np.uint16) if kind.endswith("x2") else a.view(np.uint16)


def _opened(kind: Kind, ftz: bool, *operands: Array) -> list[Any]:
    """Return operands as f32."""
    bits = [_bits(operand, kind) for operand in operands]
    if ftz:
        bits = [_flushed(each, kind) for each in bits]
    if kind.startswith("f16"):
        return [from_f16(each.view(np.float16)) for each in bits]
    return [from_bf16(each) for each in bits]


def _closed(x: Array, kind: Kind, ftz: bool, sat: bool = False, relu: bool = False) -> Array:
    """Return f32 or f64 as results of this kind."""
    x = np.asarray(x)
    if sat:
        x = saturated(x)
    if relu:
        x = np.asarray(np.maximum(x, x.dtype.type(0)) + x.dtype.type(0))
    if ftz:  # before it is rounded, as a card does (measured)
        x = np.where(np.abs(x) < x.dtype.type(LEAST_NORMAL_OF_F16), np.copysign(x.dtype.type(0), x), x)
    return _packed(to_f16(x).view(np.uint16) if kind.startswith("f16") else to_bf16(x), kind)


def _packed(bits: Bits, kind: Kind) -> Array:
    if kind.endswith("x2"):
        return word_of(bits)
    return bits.view(np.float16) if kind == "f16" else bits


def _flushed(bits: Bits, kind: Kind) -> Bits:
    exponent = np.uint16((F16 if kind.startswith("f16") else BF16).infinity)
    return np.asarray(bits & (SIGN | -(bits & exponent != 0).astype(np.uint16)))


def _signs(a: Array, kind: Kind, ftz: bool) -> Bits:
    """Return the bits whose signs change."""
    bits = _bits(a, kind)
    return _flushed(bits, kind) if ftz else bits


def _quiet(bits: Bits, result: Bits, kind: Kind) -> Bits:
    """Return a result with the NaNs of f16 as a card has them (measured)."""
    return np.where((bits & ~SIGN) > F16.infinity, np.uint16(NAN16), result) if kind.startswith("f16") else result


def _extreme(a: Array, b: Array, kind: Kind, is_max: bool, ftz: bool, nan: bool, xorsign: bool) -> Array:
    x, y = _bits(a, kind), _bits(b, kind)
    sign = (x ^ y) & SIGN
    if ftz:
        x, y = _flushed(x, kind), _flushed(y, kind)
    if xorsign:
        x, y = x & ~SIGN, y & ~SIGN
    keys = _key(x), _key(y)
    result = _key((np.maximum if is_max else np.minimum)(*keys).view(np.uint16)).view(np.uint16)
    infinity = (F16 if kind.startswith("f16") else BF16).infinity
    is_x_nan, is_y_nan = x & ~SIGN > infinity, y & ~SIGN > infinity
    is_nan = is_x_nan | is_y_nan
    if is_nan.any():
        other = np.uint16(NAN16) if nan else np.where(is_x_nan & is_y_nan, np.uint16(NAN16), np.where(is_x_nan, y, x))
        result = np.where(is_nan, other, result)
    if xorsign:
        result = np.where(result & ~SIGN > infinity, result, result | sign)
    return _packed(np.asarray(result), kind)


def _key(bits: Bits) -> Array:
    """Return integers in the order of the floats with these bits; of their bits it returns the bits of the floats."""
    signed = bits.view(np.int16)
    return np.asarray(signed ^ (signed >> 15 & np.int16(0x7FFF)))
