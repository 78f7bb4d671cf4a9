"""Floats of 8 bits, two in a half word: conversions to and from e4m3x2 and e5m2x2."""

from functools import cache

import numpy as np

from device_model.ptx.values.packed import split, word_of
from device_model.ptx.values.rounding import NAN16, Array, from_f16, to_f16

KINDS = {"e4m3x2": (3, 7, 448.0), "e5m2x2": (2, 15, 57344.0)}  # bits of the fraction, bias, largest number
_NAN = 0x7F
_SIGN = 0x80


def to_eighths(a: Array, b: Array, kind: str, *, relu: bool = False) -> Array:
    """Return two f32 as half words: a in the upper half and b in the lower, rounded to nearest.

    Numbers beyond the largest one, and infinities, become that number. With *relu* negative results become +0.
    """
    upper, lower = (_narrowed(each.astype(np.float64), kind, relu) for each in np.broadcast_arrays(a, b))
    return np.asarray(upper.astype(np.uint16) << np.uint16(8) | lower)


def halves_to_eighths(a: Array, kind: str, *, relu: bool = False) -> Array:
    """Return f16x2 as half words, as `to_eighths` does."""
    both = from_f16(split(a, np.uint16).view(np.float16))
    return to_eighths(both[..., 1], both[..., 0], kind, relu=relu)


def to_halves(a: Array, kind: str, *, relu: bool = False) -> Array:
    """Return half words as f16x2, which has all these numbers."""
    codes = np.stack([a & np.uint16(0xFF), a >> np.uint16(8)], -1)
    bits = _halves(kind)[codes]
    if relu:
        bits = np.where((bits >> 15 != 0) & (bits & 0x7FFF <= 0x7C00), 0, bits).astype(np.uint16)
    return word_of(bits)


def _narrowed(x: Array, kind: str, relu: bool) -> Array:
    """Return doubles as codes of 8 bits."""
    fraction, bias, largest = KINDS[kind]
    size = np.minimum(np.abs(np.where(np.isnan(x), 0, x)), 2 * largest)
    exponent = np.maximum(np.frexp(size)[1] - 1, 1 - bias)
    unit = np.ldexp(1.0, exponent - fraction)
    near = np.minimum(np.rint(size / unit) * unit, largest)
    code = np.searchsorted(_numbers(kind), near).astype(np.uint8)
    sign = np.signbit(x)
    code = np.where(sign, 0 if relu else code | np.uint8(_SIGN), code)
    return np.where(np.isnan(x), np.uint8(_NAN), code).astype(np.uint8)


@cache
def _numbers(kind: str) -> Array:
    """Return the numbers from 0 to the largest one, in the order of their codes."""
    fraction, bias, largest = KINDS[kind]
    code = np.arange(_NAN)
    exponent, rest = code >> fraction, code & (1 << fraction) - 1
    significand = np.where(exponent > 0, rest + (1 << fraction), rest)
    numbers = np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - bias - fraction)
    return np.asarray(numbers[numbers <= largest])


@cache
def _halves(kind: str) -> Array:
    """Return the bits of f16 for each code."""
    positive = np.full(_NAN + 1, NAN16, np.uint16)
    numbers = to_f16(_numbers(kind)).view(np.uint16)
    positive[: len(numbers)] = numbers
    if kind == "e5m2x2":
        positive[len(numbers)] = 0x7C00  # infinity
    negative = np.where(positive == NAN16, np.uint16(NAN16), positive | np.uint16(0x8000))
    return np.concatenate([positive, negative])
