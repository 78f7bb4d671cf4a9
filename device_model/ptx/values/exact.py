"""Doubles with exact intermediate results, one lane after the other, in Python integers.

For the few lanes whose exponents are so extreme that the error of a product has no double.
"""

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from device_model.ptx.values.rounding import Array, Doubles, Rounding

MOST = (1 << 53) - 1
UNIT = -1074  # the exponent of the smallest subnormal


def by_lane(function: Callable[..., float], rounding: Rounding, *operands: Doubles) -> Doubles:
    """Return what one of the functions below gives for each lane of the operands, which have one dimension."""
    columns: list[list[Any]] = [operand.tolist() for operand in operands]
    return np.array([function(*lane, rounding) for lane in zip(*columns, strict=True)], np.float64)


def replaced(
    result: Array, lanes: Array, function: Callable[..., float], rounding: Rounding, *operands: Array
) -> Array:
    """Return *result* with the values of *function* in these lanes."""
    result = np.array(np.broadcast_to(result, lanes.shape))
    result[lanes] = by_lane(function, rounding, *(np.broadcast_to(operand, lanes.shape)[lanes] for operand in operands))
    return result


def fma(a: float, b: float, c: float, rounding: Rounding) -> float:
    """Return a * b + c of finite doubles."""
    (a_whole, a_exponent), (b_whole, b_exponent), (c_whole, c_exponent) = _parts(a), _parts(b), _parts(c)
    product, exponent = a_whole * b_whole, a_exponent + b_exponent
    low = min(exponent, c_exponent)
    total = (product << exponent - low) + (c_whole << c_exponent - low)
    if total == 0 and product:
        return -0.0 if rounding == "rm" else 0.0
    if total == 0:
        return a * b + c
    return _rounded(total, low, rounding)


def add(a: float, b: float, rounding: Rounding) -> float:
    """Return a + b of finite doubles."""
    return fma(a, 1.0, b, rounding)


def mul(a: float, b: float, rounding: Rounding) -> float:
    """Return a * b of finite doubles that are not 0."""
    (a_whole, a_exponent), (b_whole, b_exponent) = _parts(a), _parts(b)
    return _rounded(a_whole * b_whole, a_exponent + b_exponent, rounding)


def div(a: float, b: float, rounding: Rounding) -> float:
    """Return a / b of finite doubles that are not 0."""
    (a_whole, a_exponent), (b_whole, b_exponent) = _parts(a), _parts(b)
    quotient, rest = divmod(abs(a_whole) << 120, abs(b_whole))
    whole = quotient << 1 | (rest != 0)
    return _rounded(whole if (a < 0) == (b < 0) else -whole, a_exponent - b_exponent - 121, rounding)


def sqrt(a: float, rounding: Rounding) -> float:
    """Return the square root of a positive finite double."""
    whole, exponent = _parts(a)
    shift = 140 + exponent % 2
    whole <<= shift
    root = math.isqrt(whole)
    return _rounded(root << 1 | (root * root != whole), (exponent - shift) // 2 - 1, rounding)


def _parts(x: float) -> tuple[int, int]:
    """Return integers w and e with x = w * 2**e."""
    (bits,) = struct.unpack("<q", struct.pack("<d", x))
    exponent = bits >> 52 & 0x7FF
    whole = bits & (1 << 52) - 1 | (exponent > 0) << 52
    return (-whole if bits < 0 else whole), max(exponent, 1) - 1075


def _rounded(whole: int, exponent: int, rounding: Rounding) -> float:
    """Return whole * 2**exponent, which is not 0, as a double."""
    sign, whole = (-1.0, -whole) if whole < 0 else (1.0, whole)
    drop = max(whole.bit_length() - 53, UNIT - exponent)
    if drop > 0:
        kept, lost, half = whole >> drop, whole & (1 << drop) - 1, 1 << drop - 1
        away = (rounding == "rp" and sign > 0) or (rounding == "rm" and sign < 0)
        kept += (lost > half or (lost == half and kept & 1 == 1)) if rounding == "rn" else (away and lost != 0)
        whole, exponent = kept, exponent + drop
    else:
        away = (rounding == "rp" and sign > 0) or (rounding == "rm" and sign < 0)
    if whole.bit_length() + exponent > 1024:
        return sign * (math.inf if away or rounding == "rn" else math.ldexp(MOST, 971))
    return sign * math.ldexp(whole, exponent)
