"""The tensor core: products of half-precision matrices with float32 accumulators, bit for bit.

`mma` follows the rule that an H200 was measured to follow for mma.m16n8k16 (docs/accuracy.md). One element of the
result is the sum of 16 products and the accumulator:

1. Each product is exact. Its exponent is the sum of the exponents of its factors; it is not normalised, so its
   significand may be as large as 4. A subnormal number has the lowest exponent of its type, and zeros have none.
2. Each term is truncated toward zero to a multiple of 2**(largest exponent - 25).
3. The sum of these multiples is exact. It is truncated toward zero to float32; beyond the range it is infinite.
4. Infinities and NaN follow IEEE 754, but every NaN is 0x7fffffff.

The rule is computed with integers, so neither the rounding mode of the processor nor its handling of subnormal numbers
has a part in it.
"""

from typing import Any, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]
Array: TypeAlias = NDArray[Any]

DEPTH = 16  # products in a sum
_GUARD_BITS = 25  # of the largest exponent, that a term keeps
_NO_EXPONENT = -(1 << 20)  # of a zero: below that of any number
_NAN = 0x7FFFFFFF


class _Format(NamedTuple):
    """A binary format of IEEE 754: how many bits exponent and fraction have."""

    word: type[np.unsignedinteger[Any]]
    exponent: int
    fraction: int


_FORMATS = {
    np.dtype(np.float16): _Format(np.uint16, 5, 10),
    np.dtype(ml_dtypes.bfloat16): _Format(np.uint16, 8, 7),
}
_SINGLE = _Format(np.uint32, 8, 23)


class _Terms(NamedTuple):
    """Numbers `significand * 2**(exponent - scale)`, and which of them are no numbers."""

    significand: Integers  # with its sign
    exponent: Integers
    scale: int
    infinite: Integers  # 1 or -1 for an infinity of that sign, else 0
    nan: NDArray[np.bool_]


def mma(a: Array, b: Array, c: Array) -> NDArray[np.float32]:
    """Return `a @ b + c` as one mma instruction of the tensor core computes it.

    Args:
        a: Matrices of float16 or bfloat16, of shape (..., rows, 16).
        b: Matrices of the same type, of shape (..., 16, columns).
        c: Accumulators of float32, of shape (..., rows, columns).

    Returns:
        Matrices of float32 in the shape of `c`.

    Raises:
        TypeError: The types of `a` and `b` differ or are none of the two, or `c` is not float32.
        ValueError: The shapes do not fit.
    """
    check_types(a, b, c)
    fits = a.ndim >= 2 and b.ndim >= 2 and a.shape[-1] == b.shape[-2] == DEPTH
    if not fits or c.shape[-2:] != (a.shape[-2], b.shape[-1]):
        raise ValueError(
            f"mma multiplies (rows, {DEPTH}) by ({DEPTH}, columns) and adds (rows, columns); these shapes are "
            f"{a.shape}, {b.shape} and {c.shape}"
        )
    form = _FORMATS[a.dtype]
    left = _terms(a[..., :, None, :], form)
    right = _terms(np.swapaxes(b, -1, -2)[..., None, :, :], form)
    return _sum(_products(left, right), _terms(c, _SINGLE)).view(np.float32)


def check_types(a: Array, b: Array, c: Array) -> None:
    """Raise TypeError unless the tensor core multiplies *a* by *b* and adds *c*."""
    if a.dtype not in _FORMATS or b.dtype != a.dtype or c.dtype != np.float32:
        raise TypeError(
            f"mma multiplies float16 by float16 or bfloat16 by bfloat16 and adds float32; these are {a.dtype}, "
            f"{b.dtype} and {c.dtype}"
        )


def _terms(numbers: Array, form: _Format) -> _Terms:
    bits = np.ascontiguousarray(numbers).view(form.word).astype(np.int64)
    top = (1 << form.exponent) - 1
    sign = 1 - 2 * (bits >> form.exponent + form.fraction)
    exponent = (bits >> form.fraction) & top
    fraction = bits & ((1 << form.fraction) - 1)
    significand = fraction | np.where(exponent > 0, 1 << form.fraction, 0)
    return _Terms(
        sign * significand,
        np.where(significand == 0, _NO_EXPONENT, np.maximum(exponent, 1) - (top >> 1)),
        form.fraction,
        np.where((exponent == top) & (fraction == 0), sign, 0),
        (exponent == top) & (fraction != 0),
    )


def _products(left: _Terms, right: _Terms) -> _Terms:
    is_zero = (left.significand == 0) | (right.significand == 0)
    is_infinite = (left.infinite != 0) | (right.infinite != 0)
    return _Terms(
        left.significand * right.significand,
        left.exponent + right.exponent,
        left.scale + right.scale,
        np.where(is_infinite, np.sign(left.significand) * np.sign(right.significand), 0),
        left.nan | right.nan | (is_infinite & is_zero),
    )


def _sum(products: _Terms, added: _Terms) -> NDArray[np.uint32]:
    largest = np.maximum(products.exponent.max(-1), added.exponent)
    unit = largest - _GUARD_BITS
    total = _in_units(products, unit[..., None]).sum(-1) + _in_units(added, unit)
    bits = _single(total, unit)
    is_plus = (products.infinite > 0).any(-1) | (added.infinite > 0)
    is_minus = (products.infinite < 0).any(-1) | (added.infinite < 0)
    bits[is_plus] = 0x7F800000
    bits[is_minus] = 0xFF800000
    bits[products.nan.any(-1) | added.nan | (is_plus & is_minus)] = _NAN
    return bits


def _in_units(terms: _Terms, unit: Integers) -> Integers:
    """Return how many times 2**unit each term is, truncated toward zero."""
    return np.sign(terms.significand) * _shifted(np.abs(terms.significand), terms.exponent - terms.scale - unit)


def _shifted(numbers: Integers, by: Integers) -> Integers:
    """Return numbers that are not negative times 2**by, without the bits that fall off."""
    return np.where(by >= 0, numbers << np.clip(by, 0, 40), numbers >> np.clip(-by, 0, 63))


def _single(total: Integers, unit: Integers) -> NDArray[np.uint32]:
    """Return the bits of total * 2**unit as float32, truncated toward zero; a zero is positive."""
    size = np.abs(total)
    # A float64 holds these integers exactly; its exponent says how many bits they have.
    length = (size.astype(np.float64).view(np.int64) >> 52) - 1022
    exponent = np.maximum(unit + length - 1, -126)  # -126: subnormal
    significand = _shifted(size, unit - (exponent - _SINGLE.fraction))
    biased = np.where(significand >> _SINGLE.fraction, exponent + 127, 0)
    bits = (biased << _SINGLE.fraction) | (significand & ((1 << _SINGLE.fraction) - 1))
    bits = np.where(biased > 254, 0xFF << _SINGLE.fraction, bits)
    return np.where((total < 0) & (bits != 0), bits | 1 << 31, bits).astype(np.uint32)
