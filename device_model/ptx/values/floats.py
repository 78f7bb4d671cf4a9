"""Arithmetic of f32 and f64: add, sub, mul, div, fma, sqrt and rcp, with one rounding each.

The dtype of the operands says which of both it is. Options have the names of PTX: *rounding*, *ftz* for operands and
results of f32, *sat* for a result in [0, 1].

The bits of a NaN that these functions return depend on the processor. Call `canonical` where they become visible.
`copysign` changes the sign bit only. Of a NaN a card makes the same with `neg` and `abs_` as with arithmetic.
"""

from collections.abc import Callable

import numpy as np

from device_model.ptx.values import exact
from device_model.ptx.values.rounding import (
    Array,
    Doubles,
    Rounding,
    flushed,
    flushed_once,
    in_pieces,
    is_below_least,
    layout_of,
    saturated,
    stepped,
    to_f32,
    to_odd,
    two_product,
    two_sum,
)

NAN32 = np.uint32(0x7FFFFFFF)
NAN64 = np.uint64(0xFFF8000000000000)
QUIET32 = np.uint32(1 << 22)
QUIET = np.uint64(1 << 51)
# Between these bounds the error of a product of doubles is exact.
SMALL = 1e-280
LARGE = 1e300
TIE_OF_F32 = np.int64(-(1 << 63))  # the bits that f32 loses, shifted to the top: the smallest number
SIZE_OF_NORMAL = np.uint32((1 << 24) - 1)  # above that of the least normal f32, which may be a rounded subnormal one


def canonical(x: Array, *operands: Array) -> Array:
    """Return a result with the NaNs that the card gives.

    For f32 that is 0x7fffffff, as the CUDA C++ Programming Guide says (floating-point standard: "the result of a
    single-precision floating-point operation involving one or more input NaNs is the quiet NaN of bit pattern
    0x7fffffff"). For f64 neither it nor the PTX ISA says more than IEEE 754, by which a NaN among the operands is
    propagated: here the first of them, made quiet. With none among them it is 0xfff8000000000000, CUDART_NAN of
    math_constants.h.

    All arithmetic of this module, `comparisons.minimum` and `maximum`, the functions of `approximate` and conversions
    to f32 and f64 need it; `halves` and the conversions to 16 bits do it themselves.

    Args:
        x: Results.
        operands: What they were computed from, for f64.
    """
    is_nan = np.isnan(x)
    if not is_nan.any():
        return x
    if x.dtype == np.float32:
        return np.where(is_nan, NAN32.view(np.float32), x)
    bits = np.where(is_nan, NAN64, x.view(np.uint64))
    for operand in reversed(operands):
        is_origin = is_nan & np.isnan(operand)
        bits = np.where(is_origin, operand.view(np.uint64) | QUIET, bits)
    return np.asarray(bits.view(np.float64))


def quiet(x: Array) -> Array:
    """Return f32 with each NaN as a quiet one."""
    return np.where(np.isnan(x), (x.view(np.uint32) | QUIET32).view(np.float32), x)


def add(a: Array, b: Array, *, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False) -> Array:
    """Return a + b."""
    return _with_options(_add, (a, b), rounding, ftz=ftz, sat=sat)


def sub(a: Array, b: Array, *, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False) -> Array:
    """Return a - b."""
    return _with_options(_add, (a, -b), rounding, ftz=ftz, sat=sat)


def mul(a: Array, b: Array, *, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False) -> Array:
    """Return a * b."""
    return _with_options(_mul, (a, b), rounding, ftz=ftz, sat=sat)


def fma(a: Array, b: Array, c: Array, *, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False) -> Array:
    """Return a * b + c, rounded once."""
    return _with_options(_fma, (a, b, c), rounding, ftz=ftz, sat=sat)


def div(a: Array, b: Array, *, rounding: Rounding = "rn", ftz: bool = False) -> Array:
    """Return a / b."""
    return _with_options(_div, (a, b), rounding, ftz=ftz)


def div_full(a: Array, b: Array, *, ftz: bool = False) -> Array:
    """Return a / b of f32 for div.full: within 2 units in the last place, by the PTX ISA; here rounded to nearest."""
    return div(a, b, ftz=ftz)


def div_approx(a: Array, b: Array, *, ftz: bool = False) -> Array:
    """Return a / b of f32 for div.approx.

    By the PTX ISA it is within 2 units in the last place where the magnitude of b is from 2**-126 to 2**126. Above, the
    result is 0, or NaN if a is infinite. Here it is rounded to nearest.
    """
    quotient = div(a, b, ftz=ftz)
    is_large = (np.abs(b) > np.float32(1 << 126)) & np.isfinite(b)
    if not is_large.any():
        return quotient
    zero = np.copysign(np.float32(0), b)
    return np.where(is_large, a * zero, quotient)


def rcp(a: Array, *, rounding: Rounding = "rn", ftz: bool = False) -> Array:
    """Return 1 / a."""
    return div(np.ones_like(a), a, rounding=rounding, ftz=ftz)


def sqrt(a: Array, *, rounding: Rounding = "rn", ftz: bool = False) -> Array:
    """Return the square root; that of -0 is -0."""
    return _with_options(_sqrt, (a,), rounding, ftz=ftz)


def abs_(a: Array, *, ftz: bool = False) -> Array:
    """Return a without its sign."""
    return np.asarray(np.abs(flushed(a) if ftz else a))


def neg(a: Array, *, ftz: bool = False) -> Array:
    """Return a with the other sign."""
    return np.asarray(-(flushed(a) if ftz else a))


def copysign(a: Array, b: Array) -> Array:
    """Return b with the sign of a: copysign d, a, b."""
    return np.asarray(np.copysign(b, a))


def _with_options(
    function: Callable[..., Array],
    operands: tuple[Array, ...],
    rounding: Rounding,
    *,
    ftz: bool = False,
    sat: bool = False,
) -> Array:
    if ftz:
        operands = tuple(flushed(operand) for operand in operands)
    result = np.asarray(function(*operands, rounding))
    if ftz:
        result = flushed_once(result, lambda: _is_tiny(function, operands, rounding))
    return saturated(result) if sat else result


def _is_tiny(function: Callable[..., Array], operands: tuple[Array, ...], rounding: Rounding) -> Array:
    """Return where the least normal f32 is the result only because subnormal numbers have fewer bits."""
    wide = (operand.astype(np.float64) for operand in operands)
    exact = np.asarray(function(*wide, "rz" if rounding == "rn" else rounding))
    return is_below_least(exact, rounding)


def _add(a: Array, b: Array, rounding: Rounding) -> Array:
    if rounding == "rn":
        return np.asarray(a + b)
    if a.dtype == np.float32:
        total, error = two_sum(a.astype(np.float64), b.astype(np.float64))
        result = to_f32(to_odd(total, error), rounding)
    else:
        total, error = two_sum(a, b)
        result = stepped(total, error, rounding)
        is_unsafe = ~(np.abs(a) < LARGE) | ~(np.abs(b) < LARGE)
        if is_unsafe.any():
            result = exact.replaced(result, is_unsafe & np.isfinite(a) & np.isfinite(b), exact.add, rounding, a, b)
    return _zero_rounded_down(result, a, b) if rounding == "rm" else result


def _mul(a: Array, b: Array, rounding: Rounding) -> Array:
    if rounding == "rn":
        return np.asarray(a * b)
    if a.dtype == np.float32:
        return to_f32(a.astype(np.float64) * b.astype(np.float64), rounding)
    product, error = two_product(a, b)
    size = np.abs(product)
    is_unsafe = ~((size > SMALL) & (size < LARGE) & (np.abs(a) < LARGE) & (np.abs(b) < LARGE))
    if not is_unsafe.any():
        return stepped(product, error, rounding)
    result = stepped(product, np.where(is_unsafe, 0, error), rounding)
    return exact.replaced(result, is_unsafe & _are_numbers(a, b), exact.mul, rounding, a, b)


def _div(a: Array, b: Array, rounding: Rounding) -> Array:
    if rounding == "rn":
        return np.asarray(a / b)
    if a.dtype == np.float32:
        # A quotient of two significands of 24 bits has no value of f32 closer than the doubles next to it.
        return to_f32(a.astype(np.float64) / b.astype(np.float64), rounding)
    quotient = a / b
    product, error = two_product(quotient, b)
    rest = ((a - product) - error) * np.copysign(1.0, b)
    least, most = np.minimum(np.abs(a), np.abs(b)), np.maximum(np.abs(a), np.abs(b))  # of shapes that may differ
    size = np.abs(quotient)
    is_unsafe = ~((np.minimum(least, size) > SMALL) & (np.maximum(most, size) < LARGE))
    if not is_unsafe.any():
        return stepped(quotient, rest, rounding)
    result = stepped(quotient, np.where(is_unsafe, 0, rest), rounding)
    return exact.replaced(result, is_unsafe & _are_numbers(a, b), exact.div, rounding, a, b)


def _sqrt(a: Array, rounding: Rounding) -> Array:
    if rounding == "rn":
        return np.asarray(np.sqrt(a))
    if a.dtype == np.float32:
        return to_f32(np.sqrt(a.astype(np.float64)), rounding)
    root = np.sqrt(a)
    product, error = two_product(root, root)
    rest = (a - product) - error
    is_unsafe = ~((a > SMALL) & (a < LARGE))
    if not is_unsafe.any():
        return stepped(root, rest, rounding)
    result = stepped(root, np.where(is_unsafe, 0, rest), rounding)
    return exact.replaced(result, is_unsafe & np.isfinite(a) & (a > 0), exact.sqrt, rounding, a)


def _fma(a: Array, b: Array, c: Array, rounding: Rounding) -> Array:
    return _fma32(a, b, c, rounding) if a.dtype == np.float32 else _fma64(a, b, c, rounding)


@in_pieces(8192)
def _fma32(a: Array, b: Array, c: Array, rounding: Rounding) -> Array:
    product = np.asarray(np.multiply(a, b, dtype=np.float64))  # exact
    if rounding != "rn":
        wide = c.astype(np.float64)
        odd = to_odd(*two_sum(product, wide))
        return to_f32(_zero_rounded_down(odd, product, wide) if rounding == "rm" else odd, rounding)
    total = np.asarray(np.add(product, c, dtype=np.float64))
    result = np.asarray(total.astype(np.float32))
    # The second rounding to nearest is wrong only if the first one made a tie. Ties of subnormals have other bits.
    lost = total.view(np.int64) << 35
    size = result.view(np.uint32) << 1
    size -= 2  # zeros are the largest then, and subnormals the smallest
    if np.minimum.reduce(lost, None) == TIE_OF_F32 or np.minimum.reduce(size, None) < SIZE_OF_NORMAL:
        is_suspect = (lost == TIE_OF_F32) | (size < SIZE_OF_NORMAL)
        product, c = (np.broadcast_to(each, result.shape)[is_suspect] for each in (product, c))
        result[is_suspect] = to_f32(to_odd(*two_sum(product, c.astype(np.float64))))
    return result


@in_pieces(4096)
def _fma64(a: Doubles, b: Doubles, c: Doubles, rounding: Rounding) -> Array:
    product, low = two_product(a, b)
    high, rest = two_sum(c, low)
    total, lost = two_sum(product, high)
    tail = to_odd(*two_sum(lost, rest))  # product + low + c is total + tail, up to a part below the bits of tail
    result = np.asarray(total + tail) if rounding == "rn" else stepped(*two_sum(total, tail), rounding)
    if rounding == "rm":
        result = _zero_rounded_down(result, product, c)
    size = np.abs(product)
    is_unsafe = ~((size > SMALL) & (size < LARGE) & (np.abs(c) < LARGE) & (np.abs(a) < LARGE) & (np.abs(b) < LARGE))
    if not is_unsafe.any():
        return result
    result = np.where(
        is_unsafe, _zero_rounded_down(product + c, product, c) if rounding == "rm" else product + c, result
    )
    is_product = np.isfinite(a) & np.isfinite(b)
    result = np.where(is_product & ~np.isfinite(c), c, result)
    return exact.replaced(result, is_unsafe & np.isfinite(c) & _are_numbers(a, b), exact.fma, rounding, a, b, c)


def _are_numbers(a: Array, b: Array) -> Array:
    """Return where neither is 0, infinite or NaN."""
    return np.asarray(np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0))


def _zero_rounded_down(result: Array, a: Array, b: Array) -> Array:
    """Return the sum of a and b, rounded down: a 0 is -0 unless both are +0."""
    is_zero = result == 0
    if not is_zero.any():
        return result
    bits = layout_of(result).bits
    sign = (a.view(bits) | b.view(bits)) & bits(1 << 8 * result.dtype.itemsize - 1)
    return np.where(is_zero, sign.view(result.dtype), result)
