"""Comparisons, minimum and maximum of floats, and the tests of testp and set, for f32, f64 and what is widened to them.

Compare f16 and bf16 as f32 (`rounding.from_f16`, `from_bf16`), and integers with the first six operators or `lo`,
`ls`, `hi` and `hs`.
"""

from typing import Any

import numpy as np

from device_model.ptx.values.rounding import Array, flushed, layout_of

ORDERED = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
# Each is the opposite of an ordered comparison, so NaN makes it true.
UNORDERED = {"equ": "ne", "neu": "eq", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}
COMBINED = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def compare(a: Array, b: Array, operator: str, *, ftz: bool = False) -> Array:
    """Return where two values of the same type compare so, as a predicate.

    Args:
        a: Integers or floats.
        b: The same.
        operator: A comparison of setp: with NaN, eq ne lt le gt ge and num are false, equ neu ltu leu gtu geu and nan
            true.
        ftz: Whether subnormal operands count as 0.
    """
    if ftz:
        a, b = flushed(a), flushed(b)
    if operator == "num":
        return np.asarray((a == a) & (b == b))
    if operator == "nan":
        return np.asarray((a != a) | (b != b))
    if operator == "ne" and a.dtype.kind == "f":
        return np.asarray((a < b) | (a > b))
    if operator in UNORDERED:
        return ~compare(a, b, UNORDERED[operator])
    return np.asarray(ORDERED[operator](a, b))


def combine(comparison: Array, predicate: Array, operation: str) -> Array:
    """Return a comparison of setp or set combined with a predicate by `and`, `or` or `xor`."""
    return np.asarray(COMBINED[operation](comparison, predicate))


def as_value(comparison: Array, dtype: Any) -> Array:
    """Return a comparison as set gives it: all bits or none in an integer, 1 or 0 in a float."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return comparison.astype(dtype)
    return np.asarray(-comparison.astype(f"i{dtype.itemsize}")).view(dtype)


def test(a: Array, kind: str) -> Array:
    """Return where f32 or f64 are `finite`, `infinite`, `number`, `notanumber`, `normal` or `subnormal` (testp)."""
    layout = layout_of(a)
    magnitude = a.view(layout.bits) & layout.bits((1 << 8 * a.dtype.itemsize - 1) - 1)
    smallest, infinity = layout.bits(1 << layout.fraction), layout.bits(layout.infinity)
    if kind == "finite":
        result = magnitude < infinity
    elif kind == "infinite":
        result = magnitude == infinity
    elif kind == "number":
        result = magnitude <= infinity
    elif kind == "notanumber":
        result = magnitude > infinity
    elif kind == "normal":
        result = (magnitude - smallest < infinity - smallest) | (magnitude == 0)
    elif kind == "subnormal":
        result = magnitude - layout.bits(1) < smallest - layout.bits(1)
    else:
        msg = f"testp has no {kind!r}"
        raise ValueError(msg)
    return np.asarray(result)


def minimum(
    a: Array, b: Array, c: Array | None = None, *, ftz: bool = False, nan: bool = False, xorsign: bool = False,
    absolute: bool = False,
) -> Array:  # fmt: skip
    """Return the least of two or three floats, where -0 is less than +0.

    Args:
        a: f32 or f64.
        b: The same.
        c: The same, for the instruction with three operands.
        ftz: Whether subnormal operands count as 0.
        nan: Whether a NaN among the operands makes the result NaN; otherwise only NaNs alone do.
        xorsign: Whether the result has the exclusive or of the signs of a and b; PTX has it with *absolute* only.
        absolute: Whether the magnitudes of the operands are compared (.abs).
    """
    return _extreme((a, b) if c is None else (a, b, c), False, ftz, nan, xorsign, absolute)


def maximum(
    a: Array, b: Array, c: Array | None = None, *, ftz: bool = False, nan: bool = False, xorsign: bool = False,
    absolute: bool = False,
) -> Array:  # fmt: skip
    """Return the greatest of two or three floats; the arguments are those of `minimum`."""
    return _extreme((a, b) if c is None else (a, b, c), True, ftz, nan, xorsign, absolute)


def _extreme(operands: tuple[Array, ...], is_max: bool, ftz: bool, nan: bool, xorsign: bool, absolute: bool) -> Array:
    sign = _product_of_signs(*operands[:2]) if xorsign else None
    if ftz:
        operands = tuple(flushed(operand) for operand in operands)
    if absolute or xorsign:
        operands = tuple(np.abs(operand) for operand in operands)
    result = operands[0]
    for operand in operands[1:]:
        result = _extreme_of_two(result, operand, is_max, nan)
    return np.asarray(result if sign is None else np.copysign(result, sign))


def _extreme_of_two(a: Array, b: Array, is_max: bool, nan: bool) -> Array:
    result = np.asarray(np.maximum(a, b) if is_max else np.minimum(a, b))
    if not result.all():  # which zero NumPy takes depends on the processor
        bits = layout_of(a).bits
        both = a.view(bits) & b.view(bits) if is_max else a.view(bits) | b.view(bits)
        result = np.where(a == b, both.view(a.dtype), result)
    if not nan and np.isnan(result).any():
        result = np.where(np.isnan(a), b, np.where(np.isnan(b), a, result))
    return result


def _product_of_signs(a: Array, b: Array) -> Array:
    bits = layout_of(a).bits
    return np.asarray((a.view(bits) ^ b.view(bits)).view(a.dtype))
