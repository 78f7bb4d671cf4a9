"""Floats of 16, 32 and 64 bits, as integers that hold their bits, with exact arithmetic by fractions.

Nothing here is fast. A value that is neither infinite nor NaN is a `Fraction`; a result is computed exactly and then
rounded once. Square roots are computed to many more bits than any format has.
"""

from fractions import Fraction
from math import isqrt
from typing import NamedTuple


class Format(NamedTuple):
    """A format of IEEE 754: how many *bits* a value has, and how many of them are its *fraction*."""

    bits: int
    fraction: int

    @property
    def sign(self):
        """The bit of the sign."""
        return 1 << self.bits - 1

    @property
    def infinity(self):
        """The bits of positive infinity."""
        return self.sign - (1 << self.fraction)

    @property
    def least(self):
        """The exponent of the least number that is not subnormal."""
        return 2 - (1 << self.bits - self.fraction - 2)

    @property
    def one(self):
        """The bits of 1."""
        return (1 - self.least) << self.fraction


F16, F32, F64 = Format(16, 10), Format(32, 23), Format(64, 52)
FORMATS = {"f16": F16, "f32": F32, "f64": F64}


def is_nan(a, kind):
    return a & ~kind.sign > kind.infinity


def is_infinite(a, kind):
    return a & ~kind.sign == kind.infinity


def is_zero(a, kind):
    return not a & ~kind.sign


def is_subnormal(a, kind):
    return 0 < a & ~kind.sign < 1 << kind.fraction


def is_finite(a, kind):
    return a & ~kind.sign < kind.infinity


def value(a, kind):
    """Return a finite number."""
    exponent = (a & ~kind.sign) >> kind.fraction
    whole = a & (1 << kind.fraction) - 1
    if exponent:
        whole += 1 << kind.fraction
        exponent -= 1
    power = exponent + kind.least - kind.fraction
    whole = -whole if a & kind.sign else whole
    return Fraction(whole << power) if power >= 0 else Fraction(whole, 1 << -power)


def up(rounding, is_negative, is_odd, rest):
    """Whether a magnitude goes up to the next one; *rest* compares what is lost with a half (None: nothing is)."""
    if rest is None:
        return False
    if rounding == "rn":
        return rest > 0 or (rest == 0 and is_odd)
    return {"rz": False, "rm": is_negative, "rp": not is_negative}[rounding]


def split(numerator, denominator):
    """Return the whole part of a quotient, and how what is left compares with a half."""
    whole, left = divmod(numerator, denominator)
    return whole, None if not left else (2 * left > denominator) - (2 * left < denominator)


def rounded(number, kind, rounding="rn", *, zero=0):
    """Return *number* in a format; 0 has the bits *zero*."""
    if not number:
        return zero
    is_negative = number < 0
    top, bottom = abs(number.numerator), number.denominator
    exponent = top.bit_length() - bottom.bit_length()
    if top << max(0, -exponent) < bottom << max(0, exponent):
        exponent -= 1
    exponent = max(exponent, kind.least)
    unit = exponent - kind.fraction
    whole, rest = split(top << max(0, -unit), bottom << max(0, unit))
    bits = ((exponent - kind.least) << kind.fraction) + whole + up(rounding, is_negative, whole & 1, rest)
    if bits >= kind.infinity:
        is_away = {"rn": True, "rz": False, "rm": is_negative, "rp": not is_negative}[rounding]
        bits = kind.infinity - (not is_away)
    return bits | kind.sign * is_negative


def whole_number(number, rounding):
    """Return the integer that *number* is rounded to."""
    whole, rest = split(abs(number.numerator), number.denominator)
    whole += up(rounding[:2], number < 0, whole & 1, rest)
    return -whole if number < 0 else whole


def nan(kind, *operands):
    """Return the NaN that the card gives: in 64 bits the first one of the operands, made quiet.

    An H200 prefers the second operand of add, sub, mul, min and max, and of fma the second, then the third.
    """
    if kind is F64:
        for each in operands:
            if is_nan(each, kind):
                return each | 1 << 51
        return 0xFFF8000000000000
    return 0x7FFF if kind is F16 else 0x7FFFFFFF


def flushed(a, kind):
    """Return *a*, or the zero of its sign if it is subnormal."""
    return a & kind.sign if is_subnormal(a, kind) else a


def is_tiny(found, function, given, kind, rounding):
    """Whether the least normal number was *found* for want of bits: with more exponents the result is below it."""
    if found & ~kind.sign != 1 << kind.fraction:
        return False
    wide = Format(kind.bits + 3, kind.fraction)
    longer = function(*(converted(each, kind, wide) for each in given), wide, rounding)
    return abs(value(longer, wide)) < abs(value(found, kind))


def saturated(a, kind):
    """Return *a* clamped to [0, 1]; NaN becomes 0."""
    if is_nan(a, kind) or a & kind.sign:
        return 0
    return min(a, kind.one)


def fma(a, b, c, kind, rounding="rn"):
    """Return a * b + c, rounded once."""
    if any(is_nan(each, kind) for each in (a, b, c)):
        return nan(kind, b, c, a)
    sign = (a ^ b) & kind.sign
    if is_infinite(a, kind) or is_infinite(b, kind):
        if is_zero(a, kind) or is_zero(b, kind) or (is_infinite(c, kind) and c & kind.sign != sign):
            return nan(kind)
        return kind.infinity | sign
    if is_infinite(c, kind):
        return c
    product = value(a, kind) * value(b, kind)
    zero = kind.sign if rounding == "rm" else 0
    if not product and is_zero(c, kind) and sign == c & kind.sign:
        zero = sign
    return rounded(product + value(c, kind), kind, rounding, zero=zero)


def add(a, b, kind, rounding="rn"):
    """Return a + b."""
    if is_nan(a, kind) or is_nan(b, kind):
        return nan(kind, b, a)
    if is_infinite(a, kind) or is_infinite(b, kind):
        if is_infinite(a, kind) and is_infinite(b, kind) and a != b:
            return nan(kind)
        return a if is_infinite(a, kind) else b
    zero = a if a == b else kind.sign if rounding == "rm" else 0
    return rounded(value(a, kind) + value(b, kind), kind, rounding, zero=zero)


def sub(a, b, kind, rounding="rn"):
    """Return a - b."""
    if is_nan(a, kind) or is_nan(b, kind):
        return nan(kind, b, a)
    return add(a, b ^ kind.sign, kind, rounding)


def mul(a, b, kind, rounding="rn"):
    """Return a * b."""
    if is_nan(a, kind) or is_nan(b, kind):
        return nan(kind, b, a)
    sign = (a ^ b) & kind.sign
    if is_infinite(a, kind) or is_infinite(b, kind):
        return nan(kind) if is_zero(a, kind) or is_zero(b, kind) else kind.infinity | sign
    return rounded(value(a, kind) * value(b, kind), kind, rounding, zero=sign)


def div(a, b, kind, rounding="rn"):
    """Return a / b."""
    if is_nan(a, kind) or is_nan(b, kind):
        return nan(kind, a, b)
    sign = (a ^ b) & kind.sign
    if is_infinite(a, kind) or is_zero(b, kind):
        if (is_infinite(a, kind) and is_infinite(b, kind)) or (is_zero(a, kind) and is_zero(b, kind)):
            return nan(kind)
        return kind.infinity | sign
    if is_infinite(b, kind):
        return sign
    return rounded(value(a, kind) / value(b, kind), kind, rounding, zero=sign)


def sqrt(a, kind, rounding="rn"):
    """Return the square root."""
    if is_nan(a, kind):
        return nan(kind, a)
    if is_zero(a, kind) or a == kind.infinity:
        return a
    if a & kind.sign:
        return nan(kind)
    number = value(a, kind)
    product = number.numerator * number.denominator << 2400  # its root is that of the number, times the denominator
    root = isqrt(product)
    root = 2 * root + (root * root != product)  # a last bit that says that there is more
    return rounded(Fraction(root, number.denominator << 1201), kind, rounding)


def order(a, kind):
    """Return an integer that orders numbers as min and max do: -0 is below +0."""
    return -1 - (a ^ kind.sign) if a & kind.sign else a


def extreme(name, a, b, kind, *, with_nan=False):
    """Return the lesser or the greater of both."""
    if is_nan(a, kind) or is_nan(b, kind):
        if with_nan or (is_nan(a, kind) and is_nan(b, kind)):
            return nan(kind, b, a)
        return b if is_nan(a, kind) else a
    return (min if name == "min" else max)(a, b, key=lambda each: order(each, kind))


def compare(a, b, operator, kind):
    """Return a comparison, such as "lt"; one of the names that end in "u" is true for NaN too."""
    unordered = is_nan(a, kind) or is_nan(b, kind)
    if operator in ("num", "nan"):
        return unordered == (operator == "nan")
    if unordered:
        return len(operator) == 3
    x, y = (0 if is_zero(each, kind) else order(each, kind) for each in (a, b))
    return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[operator[:2]]


def converted(a, source, to, rounding="rn"):
    """Return a float in another format."""
    if is_nan(a, source):
        return converted_nan(a, source, to)
    sign = to.sign if a & source.sign else 0
    if is_infinite(a, source):
        return to.infinity | sign
    return rounded(value(a, source), to, rounding, zero=sign)


def converted_nan(a, source, to):
    """Return a NaN in another format: from or to 64 bits with its sign and the highest bits of its fraction."""
    if source is to or F64 not in (source, to):
        return nan(to, a)
    fraction = (a & (1 << source.fraction) - 1) << 52 >> source.fraction >> 52 - to.fraction
    return (to.sign if a & source.sign else 0) | to.infinity | 1 << to.fraction - 1 | fraction


def integral(a, kind, rounding):
    """Return a float rounded to an integer, as a float."""
    if is_nan(a, kind):
        return nan(kind, a)
    if is_infinite(a, kind):
        return a
    return rounded(Fraction(whole_number(value(a, kind), rounding)), kind, zero=a & kind.sign)
