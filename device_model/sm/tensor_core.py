"""The tensor core: products of matrices of narrow floats, bit for bit.

`mma` multiplies half-precision matrices and has float32 accumulators; `multiply` takes the bits of all formats. Both
follow the rule that an H200 was measured to follow for mma.m16n8k16 (docs/accuracy.md), and for tf32 and fewer
products, too. One element of the result is the sum of 16 products, or 8, or 4, and the accumulator:

1. Each product is exact. Its exponent is the sum of the exponents of its factors; it is not normalised, so its
   significand may be as large as 4. A subnormal number has the lowest exponent of its type, and zeros have none.
2. Each term is truncated toward zero to a multiple of 2**(largest exponent - 25).
3. The sum of these multiples is exact. It is truncated toward zero to float32; beyond the range it is infinite.
4. Infinities and NaN follow IEEE 754, but every NaN is 0x7fffffff.

Numbers are float64 here, and no operation on them has to round: products, scaling by powers of two, truncation to whole
numbers and sums of these are exact. So the rounding mode of the processor has no part in it, and neither has its
handling of subnormal numbers, because none of these numbers is subnormal as float64.
"""

from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from device_model.sm.names import Ints

Array: TypeAlias = NDArray[Any]

DEPTH = 16  # products in a sum
_GUARD_BITS = 25  # of the largest exponent, that a term keeps
_NO_EXPONENT = -10_000  # of a zero: below that of any number, and twice it still fits into 16 bits
_LOWEST = -300  # below the exponent of every product: what counts as the largest one of nothing but zeros
_NAN = 0x7FFFFFFF
_INFINITY = 0x7F800000


class _Format(NamedTuple):
    """A binary format of IEEE 754: how many bits exponent and fraction have."""

    word: type[np.unsignedinteger[Any]]
    exponent: int
    fraction: int


_FORMATS = {"float16": _Format(np.uint16, 5, 10), "bfloat16": _Format(np.uint16, 8, 7)}  # by the name of the dtype
_SINGLE = _Format(np.uint32, 8, 23)
_ALL_FORMATS = {**_FORMATS, "tfloat32": _Format(np.uint32, 8, 10)}
_LOST_BITS = 13  # at the end of a word that holds a tfloat32, which nobody looks at
_NAN_OF_HALF = 0x7FFF


class _Terms(NamedTuple):
    """Numbers and their exponents."""

    value: NDArray[np.float64]
    exponent: NDArray[np.int16]


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
    left, right = (_looked_up(side) for side in (a, np.swapaxes(b, -1, -2)))
    added = _terms(np.ascontiguousarray(c).view(np.uint32), _SINGLE)
    return _single(*_sums(left, right, added)).view(np.float32)


def multiply(a: Array, b: Array, c: Array, kind: str) -> Array:
    """Return `a @ b + c` as one mma instruction computes it from the bits of its operands.

    With accumulators of float16 each sum is rounded to nearest, once. An H200 gave these bits for tfloat32 (m16n8k8,
    m16n8k4) and for float16 (m16n8k8, and m16n8k16 with accumulators of float16).

    Args:
        a: The bits of matrices of *kind*, of shape (..., rows, depth).
        b: The bits of matrices of *kind*, of shape (..., depth, columns).
        c: Accumulators of float32 or float16, of shape (..., rows, columns).
        kind: "float16" or "bfloat16" in uint16, or "tfloat32" in uint32, of which the lowest 13 bits do not count.

    Returns:
        Matrices in shape and type of `c`.
    """
    if kind == "tfloat32":
        a, b = a >> _LOST_BITS, b >> _LOST_BITS
    table = _table(kind)
    left, right = (_picked(table, side) for side in (a, np.swapaxes(b, -1, -2)))
    if c.dtype == np.float32:
        total, unit = _sums(left, right, _terms(np.ascontiguousarray(c).view(np.uint32), _SINGLE))
        return _single(total, unit).view(np.float32)
    total, unit = _sums(left, right, _terms(np.ascontiguousarray(c).view(np.uint16), _FORMATS["float16"]))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        bits = np.ldexp(total, unit).astype(np.float16).view(np.uint16)
    return np.where(np.isnan(total), _NAN_OF_HALF, np.where(total == 0, 0, bits)).astype(np.uint16).view(np.float16)


def _sums(left: _Terms, right: _Terms, added: _Terms) -> tuple[NDArray[np.float64], Ints]:
    """Return the sums of products as whole numbers, and the exponents of their units."""
    with np.errstate(invalid="ignore"):  # infinity times zero, and less infinity
        products = left.value[..., :, None, :] * right.value[..., None, :, :]
        exponents = left.exponent[..., :, None, :] + right.exponent[..., None, :, :]
        largest = np.maximum(np.maximum(exponents.max(-1), added.exponent), _LOWEST).astype(np.int64)
        units = np.ldexp(1.0, _GUARD_BITS - largest)  # how many there are in 1
        products *= units[..., None]
        total = np.trunc(products, out=products).sum(-1) + np.trunc(added.value * units)
    return total, largest - _GUARD_BITS


def check_types(a: Array, b: Array, c: Array) -> None:
    """Raise TypeError unless the tensor core multiplies *a* by *b* and adds *c*."""
    if a.dtype.name not in _FORMATS or b.dtype != a.dtype or c.dtype != np.float32:
        raise TypeError(
            f"mma multiplies float16 by float16 or bfloat16 by bfloat16 and adds float32; these are {a.dtype}, "
            f"{b.dtype} and {c.dtype}"
        )


def _looked_up(numbers: Array) -> _Terms:
    return _picked(_table(numbers.dtype.name), np.ascontiguousarray(numbers).view(np.uint16))


def _picked(table: _Terms, bits: Array) -> _Terms:
    places = bits.astype(np.intp)
    return _Terms(table.value.take(places), table.exponent.take(places))


@cache
def _table(kind: str) -> _Terms:
    """Return all numbers of a format, in the order of their bits."""
    form = _ALL_FORMATS[kind]
    return _terms(np.arange(1 << 1 + form.exponent + form.fraction, dtype=np.uint32), form)


def _terms(words: Array, form: _Format) -> _Terms:
    bits = words.astype(np.int64)
    top = (1 << form.exponent) - 1
    sign = 1 - 2 * (bits >> form.exponent + form.fraction)
    stored = (bits >> form.fraction) & top
    fraction = bits & ((1 << form.fraction) - 1)
    exponent = np.maximum(stored, 1) - (top >> 1)
    significand = fraction | np.where(stored > 0, 1 << form.fraction, 0)
    value = sign * np.ldexp(significand.astype(np.float64), exponent - form.fraction)
    value = np.where(stored == top, np.where(fraction == 0, sign * np.inf, np.nan), value)
    return _Terms(value, np.where(significand == 0, _NO_EXPONENT, exponent).astype(np.int16))


def _single(total: NDArray[np.float64], unit: Ints) -> NDArray[np.uint32]:
    """Return the bits of total * 2**unit as float32, truncated toward zero; a zero is positive."""
    is_finite = np.isfinite(total)
    size = np.abs(np.where(is_finite, total, 0)).astype(np.int64)
    length = (size.astype(np.float64).view(np.int64) >> 52) - 1022  # in bits: the exponent of a float64 tells
    exponent = np.maximum(unit + length - 1, -126)  # -126: subnormal
    significand = _shifted(size, unit - (exponent - _SINGLE.fraction))
    biased = np.where(significand >> _SINGLE.fraction, exponent + 127, 0)
    bits = (biased << _SINGLE.fraction) | (significand & ((1 << _SINGLE.fraction) - 1))
    bits = np.where((biased > 254) | ~is_finite, _INFINITY, bits)
    bits = np.where((total < 0) & (bits != 0), bits | 1 << 31, bits)
    return np.where(np.isnan(total), _NAN, bits).astype(np.uint32)


def _shifted(numbers: Ints, by: Ints) -> Ints:
    """Return numbers that are not negative times 2**by, without the bits that fall off."""
    return np.where(by >= 0, numbers << np.clip(by, 0, 40), numbers >> np.clip(-by, 0, 63))
