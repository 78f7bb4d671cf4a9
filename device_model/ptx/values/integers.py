"""Integer arithmetic: products, quotients, sums with carry or saturation. Operands have the dtype of the type."""

import numpy as np

from device_model.ptx.values.rounding import SIGNED, UNSIGNED, Array, in_pieces

LOW_WORD = np.uint64(0xFFFFFFFF)


def mul_hi(a: Array, b: Array) -> Array:
    """Return the upper half of the product, for 16, 32 or 64 bits, signed or not."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        return np.asarray((mul_wide(a, b) >> bits).astype(a.dtype))
    high = _mul_hi_unsigned(a.view(np.uint64), b.view(np.uint64))
    if a.dtype.kind == "u":
        return np.asarray(high)
    return np.asarray(high.view(np.int64) - (b & (a >> 63)) - (a & (b >> 63)))


def mul_wide(a: Array, b: Array) -> Array:
    """Return the product with twice the bits, of 16 or 32."""
    wide = (SIGNED if a.dtype.kind == "i" else UNSIGNED)[2 * a.dtype.itemsize]
    return np.asarray(a.astype(wide) * b.astype(wide))


def mad_hi(a: Array, b: Array, c: Array, *, sat: bool = False) -> Array:
    """Return the upper half of a * b, plus c; *sat* (s32) clamps the sum."""
    return add(mul_hi(a, b), c, sat=sat)


def mad_wide(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c, where product and c have twice the bits of a."""
    return np.asarray(mul_wide(a, b) + c)


def mul24_lo(a: Array, b: Array) -> Array:
    """Return the lower 32 bits of the product of the lower 24 bits of each."""
    return _mul24(a, b).astype(a.dtype)


def mul24_hi(a: Array, b: Array) -> Array:
    """Return bits 16 to 47 of the product of the lower 24 bits of each."""
    return np.asarray((_mul24(a, b) >> 16).astype(a.dtype))


def mad24_lo(a: Array, b: Array, c: Array) -> Array:
    """Return `mul24_lo` plus c."""
    return np.asarray(mul24_lo(a, b) + c)


def mad24_hi(a: Array, b: Array, c: Array, *, sat: bool = False) -> Array:
    """Return `mul24_hi` plus c; *sat* (s32) clamps the sum."""
    return add(mul24_hi(a, b), c, sat=sat)


def sad(a: Array, b: Array, c: Array) -> Array:
    """Return c plus the distance of a and b."""
    return np.asarray(c + (np.maximum(a, b) - np.minimum(a, b)))


@in_pieces(8192)
def div(a: Array, b: Array) -> Array:
    """Return the quotient, cut off as in C. A division by 0 gives all ones, as the card does."""
    quotient, is_zero = _quotient(a, b)
    return quotient | -is_zero.astype(a.dtype) if is_zero.any() else quotient


@in_pieces(8192)
def rem(a: Array, b: Array) -> Array:
    """Return what `div` leaves, with the sign of a. A division by 0 gives all ones, as the card does."""
    quotient, is_zero = _quotient(a, b)
    left = np.asarray(a - quotient * b)
    return left | -is_zero.astype(a.dtype) if is_zero.any() else left


def abs_(a: Array) -> Array:
    """Return the magnitude; that of the least number is itself."""
    return np.asarray(np.abs(a))


def neg(a: Array) -> Array:
    """Return -a; that of the least number is itself."""
    return np.asarray(-a)


def minimum(a: Array, b: Array, *, relu: bool = False) -> Array:
    """Return the lesser of both, with *relu* (s32) at least 0."""
    least = np.minimum(a, b)
    return np.asarray(np.maximum(least, a.dtype.type(0)) if relu else least)


def maximum(a: Array, b: Array, *, relu: bool = False) -> Array:
    """Return the greater of both, with *relu* (s32) at least 0."""
    most = np.maximum(a, b)
    return np.asarray(np.maximum(most, a.dtype.type(0)) if relu else most)


def add(a: Array, b: Array, *, sat: bool = False) -> Array:
    """Return a + b, which wraps, or with *sat* (s32) is clamped."""
    total = a + b
    return _clamped(total, a, (total ^ a) & (total ^ b)) if sat else np.asarray(total)


def sub(a: Array, b: Array, *, sat: bool = False) -> Array:
    """Return a - b, which wraps, or with *sat* (s32) is clamped."""
    rest = a - b
    return _clamped(rest, a, (rest ^ a) & (a ^ b)) if sat else np.asarray(rest)


def add_carry(a: Array, b: Array, carry: Array | None = None) -> tuple[Array, Array]:
    """Return a + b, and the carry, as a predicate: add.cc, and with *carry* addc and addc.cc."""
    unsigned = UNSIGNED[a.dtype.itemsize]
    x, y = a.view(unsigned), b.view(unsigned)
    total = x + y
    out = total < x
    if carry is not None:
        total = total + carry
        out = out | ((total == 0) & carry)
    return np.asarray(total.view(a.dtype)), np.asarray(out)


def sub_carry(a: Array, b: Array, carry: Array | None = None) -> tuple[Array, Array]:
    """Return a - b, and the borrow, as a predicate: sub.cc, and with the borrow in *carry* subc and subc.cc."""
    unsigned = UNSIGNED[a.dtype.itemsize]
    x, y = a.view(unsigned), b.view(unsigned)
    rest, out = x - y, x < y
    if carry is not None:
        out = out | ((rest == 0) & carry)
        rest = rest - carry
    return np.asarray(rest.view(a.dtype)), np.asarray(out)


def mad_carry(a: Array, b: Array, c: Array, carry: Array | None = None, *, hi: bool = False) -> tuple[Array, Array]:
    """Return c plus a half of a * b, and the carry of the sum: mad.lo.cc or mad.hi.cc, and with *carry* madc."""
    return add_carry(mul_hi(a, b) if hi else np.asarray(a * b), c, carry)


@in_pieces(8192)
def _mul_hi_unsigned(a: Array, b: Array) -> Array:
    a_low, a_high, b_low, b_high = a & LOW_WORD, a >> 32, b & LOW_WORD, b >> 32
    middle = a_high * b_low + (a_low * b_low >> 32)
    other = a_low * b_high + (middle & LOW_WORD)
    return np.asarray(a_high * b_high + (middle >> 32) + (other >> 32))


def _mul24(a: Array, b: Array) -> Array:
    wide = np.int64 if a.dtype.kind == "i" else np.uint64
    return np.asarray((a << 8 >> 8).astype(wide) * (b << 8 >> 8).astype(wide))


def _quotient(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the quotient cut off, 0 for a division by 0, and where that is."""
    is_zero = np.asarray(b == 0)
    divisor = b | is_zero.astype(b.dtype) if is_zero.any() else b
    if a.dtype.itemsize < 8:  # the quotient of two doubles is exact enough, and faster
        quotient = (a.astype(np.float64) / divisor.astype(np.float64)).astype(np.int64).astype(a.dtype)
    elif a.dtype.kind == "u":
        quotient = a // divisor
    else:
        magnitude = np.abs(a).view(np.uint64) // np.abs(divisor).view(np.uint64)
        sign = (a ^ divisor) >> 63
        quotient = (magnitude.view(np.int64) ^ sign) - sign
    if is_zero.any():
        quotient = quotient & (is_zero.astype(a.dtype) - a.dtype.type(1))
    return np.asarray(quotient), is_zero


def _clamped(result: Array, a: Array, overflow: Array) -> Array:
    """Return the sum or difference clamped where *overflow* is negative: to the bound on the side of a."""
    is_over = overflow < 0
    if not is_over.any():
        return np.asarray(result)
    last = 8 * a.dtype.itemsize - 1
    return np.where(is_over, (a >> last) ^ np.iinfo(a.dtype).max, result)
