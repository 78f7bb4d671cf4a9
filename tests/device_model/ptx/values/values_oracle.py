"""Floats in fractions, one value after the other: what the functions under test are compared with.

A value is a Fraction, or one of the strings "nan", "inf" and "-inf"; zeros have their sign beside them.
"""

import math
from fractions import Fraction

import numpy as np

LAYOUTS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "tf32": (8, 10), "f64": (11, 52), "wide": (11, 23)}
WIDER = {"f16": "tf32", "f32": "wide"}  # with more exponents, and the same fraction
NANS = {
    "wide": 0x3FFFFFFFF,
    "tf32": 0x3FFFF,
    "f16": 0x7FFF,
    "bf16": 0x7FFF,
    "f32": 0x7FFFFFFF,
    "f64": 0xFFF8000000000000,
}


def decoded(bits, kind):
    """The sign and the value of these bits."""
    exponent_bits, fraction_bits = LAYOUTS[kind]
    sign = bits >> exponent_bits + fraction_bits & 1
    exponent = bits >> fraction_bits & (1 << exponent_bits) - 1
    fraction = bits & (1 << fraction_bits) - 1
    if exponent == (1 << exponent_bits) - 1:
        return sign, "nan" if fraction else ("-inf" if sign else "inf")
    bias = (1 << exponent_bits - 1) - 1
    whole = fraction | (1 << fraction_bits if exponent else 0)
    exponent = max(exponent, 1) - bias - fraction_bits
    value = Fraction(whole << exponent) if exponent > 0 else Fraction(whole, 1 << -exponent)
    return sign, -value if sign else value


def encoded(value, kind, rounding="rn", sign=0):
    """The bits of a value, rounded; *sign* is that of a zero."""
    exponent_bits, fraction_bits = LAYOUTS[kind]
    if value == "nan":
        return NANS[kind]
    top = (1 << exponent_bits) - 1 << fraction_bits
    sign_bit = exponent_bits + fraction_bits
    if isinstance(value, str):
        return top | (value == "-inf") << sign_bit
    if value == 0:
        return sign << sign_bit
    sign, upper, lower = int(value < 0), abs(value.numerator), value.denominator
    exponent = upper.bit_length() - lower.bit_length()
    if upper << max(-exponent, 0) < lower << max(exponent, 0):
        exponent -= 1
    bias = (1 << exponent_bits - 1) - 1
    exponent = max(exponent, 1 - bias)
    places = fraction_bits - exponent
    lower <<= max(-places, 0)
    whole, rest = divmod(upper << max(places, 0), lower)
    whole += {
        "rn": 2 * rest > lower or (2 * rest == lower and whole % 2 == 1),
        "rna": 2 * rest >= lower,
        "rz": False,
        "rp": not sign and rest > 0,
        "rm": sign and rest > 0,
    }[rounding]
    bits = (exponent + bias - 1 << fraction_bits) + whole
    if bits >= top:
        is_finite = rounding == "rz" or (rounding == "rm" and not sign) or (rounding == "rp" and sign)
        bits = top - 1 if is_finite else top
    return bits | sign << sign_bit


def flush(bits, kind):
    """Bits of a number, without what makes it subnormal."""
    exponent_bits, fraction_bits = LAYOUTS[kind]
    exponent = (1 << exponent_bits) - 1 << fraction_bits
    return bits if bits & exponent else bits & 1 << exponent_bits + fraction_bits


def flushing(function, *lane, kind, rounding="rn"):
    """What *function* gives with .ftz: 0 for what is subnormal if it is rounded with more exponents (measured)."""
    lane = [flush(bits, kind) for bits in lane]
    wide = WIDER[kind]
    numbers = [decoded(bits, kind) for bits in lane]
    sign, number = decoded(function(*(encoded(x, wide, sign=sign) for sign, x in numbers), wide, rounding), wide)
    least = decoded(1 << LAYOUTS[kind][1], kind)[1]
    if not isinstance(number, str) and abs(number) < least:
        return encoded(Fraction(0), kind, sign=sign)
    return function(*lane, kind, rounding)


def add(a, b, kind, rounding="rn"):
    return fma(a, encoded(Fraction(1), kind), b, kind, rounding)


def sub(a, b, kind, rounding="rn"):
    return add(a, b ^ 1 << sum(LAYOUTS[kind]), kind, rounding)


def mul(a, b, kind, rounding="rn"):
    (a_sign, x), (b_sign, y) = decoded(a, kind), decoded(b, kind)
    return encoded(_product(x, y, a_sign ^ b_sign), kind, rounding, a_sign ^ b_sign)


def div(a, b, kind, rounding="rn"):
    (a_sign, x), (b_sign, y) = decoded(a, kind), decoded(b, kind)
    sign = a_sign ^ b_sign
    if "nan" in (x, y) or (isinstance(x, str) and isinstance(y, str)) or (x == 0 and y == 0):
        return encoded("nan", kind)
    if isinstance(y, str):
        return encoded(Fraction(0), kind, sign=sign)
    if isinstance(x, str) or y == 0:
        return encoded("-inf" if sign else "inf", kind)
    return encoded(x / y, kind, rounding, sign)


def fma(a, b, c, kind, rounding="rn"):
    (a_sign, x), (b_sign, y), (c_sign, z) = decoded(a, kind), decoded(b, kind), decoded(c, kind)
    sign = a_sign ^ b_sign
    product = _product(x, y, sign)
    if "nan" in (product, z) or {product, z} == {"inf", "-inf"}:
        return encoded("nan", kind)
    if isinstance(product, str) or isinstance(z, str):
        return encoded(product if isinstance(product, str) else z, kind)
    sum_of_zeros = sign | c_sign if rounding == "rm" else sign & c_sign
    zero = sum_of_zeros if product == z == 0 else int(rounding == "rm")
    return encoded(product + z, kind, rounding, zero)


def sqrt(a, kind, rounding="rn"):
    sign, x = decoded(a, kind)
    if x == "inf" or x == 0:
        return a
    if isinstance(x, str) or sign:
        return encoded("nan", kind)
    scale = 1 << 2400
    root = math.isqrt(x.numerator * scale // x.denominator)
    exact = root * root * x.denominator == x.numerator * scale
    return encoded(Fraction(2 * root + (not exact), 2 << 1200), kind, rounding)


def saturate(bits, kind):
    _, x = decoded(bits, kind)
    if x in ("nan", "-inf") or (not isinstance(x, str) and x <= 0):
        return 0
    return encoded(Fraction(1), kind) if x == "inf" or x > 1 else bits


def relu(bits, kind):
    sign, x = decoded(bits, kind)
    return bits if x == "nan" or not sign else 0


def extreme(a, b, kind, is_max, nan=False, xorsign=False):
    sign = (a ^ b) & 1 << sum(LAYOUTS[kind])
    if xorsign:
        a, b = (bits & ~(1 << sum(LAYOUTS[kind])) for bits in (a, b))
    keyed = [(decoded(bits, kind)[1], not decoded(bits, kind)[0], bits) for bits in (a, b)]
    numbers = [(float("inf") * (1 if x == "inf" else -1) if isinstance(x, str) else x, s, bits)
               for x, s, bits in keyed if x != "nan"]  # fmt: skip
    if not numbers or (nan and len(numbers) < 2):
        return NANS[kind]
    return (max if is_max else min)(numbers)[2] | (sign if xorsign else 0)


def _product(x, y, sign):
    if "nan" in (x, y) or (isinstance(x, str) and y == 0) or (isinstance(y, str) and x == 0):
        return "nan"
    if isinstance(x, str) or isinstance(y, str):
        return "-inf" if sign else "inf"
    return x * y


def special(kind):
    """Bits of some forty values: zeros, subnormals, numbers next to powers of two, infinities, NaNs."""
    exponent_bits, fraction_bits = LAYOUTS[kind]
    bias = (1 << exponent_bits - 1) - 1
    infinity = (1 << exponent_bits) - 1 << fraction_bits
    one = bias << fraction_bits
    half = 1 << fraction_bits // 2
    positive = [
        0, 1, 2, (1 << fraction_bits) - 1, 1 << fraction_bits, (1 << fraction_bits) + 1, one - 1, one, one + 1,
        one + half, one + (1 << fraction_bits - 1), one + (1 << fraction_bits) + 3,
        one + (fraction_bits << fraction_bits),
        one + (fraction_bits + 1 << fraction_bits), one - (fraction_bits + 1 << fraction_bits), (one >> 1) + 5,
        infinity - 1, infinity - (1 << fraction_bits), infinity, infinity + 1, infinity + (1 << fraction_bits - 1) + 3,
    ]  # fmt: skip
    return positive + [bits | 1 << exponent_bits + fraction_bits for bits in positive]


def random_bits(kind, count, seed):
    """Random bits; three in four have exponents near that of 1, so that operands meet."""
    exponent_bits, fraction_bits = LAYOUTS[kind]
    random = np.random.default_rng(seed)
    bits = [int(x) for x in random.integers(0, 1 << 1 + exponent_bits + fraction_bits, count, np.uint64)]
    bias = (1 << exponent_bits - 1) - 1
    near = random.integers(bias - 4, bias + 5, count)
    sparse = random.integers(0, 2, count)
    for place in range(count):
        if place % 4:
            fraction = bits[place] & (1 << fraction_bits) - 1
            if sparse[place]:  # few bits, so that there are ties
                fraction &= -1 << fraction_bits * 2 // 3
            sign = bits[place] >> exponent_bits + fraction_bits
            bits[place] = (sign << exponent_bits | int(near[place])) << fraction_bits | fraction
    return bits


UNSIGNED = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "tf32": np.uint32, "f64": np.uint64}
FLOATS = {"f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64}


def array(bits, kind):
    return np.array(bits, UNSIGNED[kind]).view(FLOATS[kind])


def same(result, expected, kind):
    """Whether a result has these bits, once its NaNs are one."""
    bits = np.asarray(result).view(UNSIGNED[kind])
    if kind in ("f32", "f64"):
        is_nan = np.isnan(np.asarray(result))
        bits = np.where(is_nan, UNSIGNED[kind](NANS[kind]), bits)
    np.testing.assert_array_equal(bits, np.array(expected, UNSIGNED[kind]))
