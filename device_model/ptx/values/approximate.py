"""The approximate functions of PTX: ex2, lg2, sin, cos, tanh, rcp, rsqrt and sqrt.

Each is computed in f64, with polynomials, to at least 2**-30, and then rounded to f32: much closer than the PTX ISA
promises, and closer than a card is. So results differ from those of a card in their last bits.

With *ftz* subnormal operands count as 0 and subnormal results become 0, with their signs. NaN gives NaN, whose bits
`floats.canonical` sets.
"""

from collections.abc import Sequence

import numpy as np

from device_model.ptx.values.rounding import Array, Doubles, flushed, in_pieces

TAU = 6.283185307179586
LN2 = 0.6931471805599453
LOG2_E = 1.4426950408889634
NAN_OF_UPPER_HALF = np.uint64(0x7FFFFFFF00000000)
UPPER_HALF = np.uint64(0xFFFFFFFF00000000)


def _series(scale: float, count: int, *, odd: bool = False) -> tuple[float, ...]:
    """Return the coefficients of exp(scale * x), or of its odd powers with alternating signs: sin(scale * x)."""
    terms = [1.0]
    for power in range(1, 2 * count + 1):
        terms.append(terms[-1] * scale / power)
    if not odd:
        return tuple(terms[:count])
    return tuple(-term if place % 2 else term for place, term in enumerate(terms[1 : 2 * count : 2]))


EX2 = _series(LN2, 10)
SINE = _series(TAU, 8, odd=True)
LG2 = tuple(2 / LN2 / odd for odd in range(1, 14, 2))
TANH = (1.0, -1 / 3, 2 / 15, -17 / 315, 62 / 2835)


@in_pieces(8192)
def ex2(a: Array, *, ftz: bool = False) -> Array:
    """Return 2**a of f32. The PTX ISA bounds the relative error by 2**-22.

    2**-Inf is +0, 2**0 is 1, 2**Inf is Inf. Without *ftz* there are subnormal results.
    """
    return _rounded(ex2_wide(_wide(a, ftz)), ftz)


@in_pieces(8192)
def lg2(a: Array, *, ftz: bool = False) -> Array:
    """Return the logarithm to base 2 of f32.

    The PTX ISA bounds the absolute error by 2**-22 for operands from 0.5 to 2, and elsewhere the relative error by
    2**-22. Of both zeros it is -Inf, of Inf it is Inf, of negative numbers NaN.
    """
    x = _wide(a, ftz)
    bits = x.view(np.int64)
    # The exponent of x / sqrt(0.5), so that what is left is from sqrt(0.5) to sqrt(2).
    exponent = (bits - 0x3FE6A09E667F3BCD) >> 52
    rest = (bits - (exponent << 52)).view(np.float64)
    ratio = (rest - 1) / (rest + 1)
    result = _polynomial(ratio * ratio, LG2) * ratio + exponent.astype(np.float64)
    is_special = ~((x > 0) & (x < np.inf))
    if is_special.any():
        result = np.where(is_special, np.where(x == 0, -np.inf, np.where(x > 0, x, np.nan)), result)
    return _rounded(result, ftz)


@in_pieces(8192)
def sin(a: Array, *, ftz: bool = False) -> Array:
    """Return the sine of f32.

    The PTX ISA bounds the absolute error by 2**-20.5 from -2 pi to 2 pi and by 2**-14.7 from -100 pi to 100 pi.
    Beyond, it promises nothing; here the angle is reduced with a product of f64. That of -0 is -0, of infinity NaN.
    """
    turns = _turns(_wide(a, ftz))
    half = np.copysign(0.5, turns)
    quarter = np.minimum(np.abs(turns), np.abs(half - turns))
    return _rounded(np.copysign(_sine_of_turns(quarter), turns), ftz)


@in_pieces(8192)
def cos(a: Array, *, ftz: bool = False) -> Array:
    """Return the cosine of f32, with the bounds of `sin`. That of both zeros is 1, of infinity NaN."""
    return _rounded(_sine_of_turns(0.25 - np.abs(_turns(_wide(a, ftz)))), ftz)


@in_pieces(8192)
def tanh(a: Array) -> Array:
    """Return the hyperbolic tangent of f32. The PTX ISA bounds the relative error by 2**-11.

    Of zeros it is the zero of the same sign, of infinities 1 with their sign. Subnormal numbers give themselves.
    """
    return _rounded(tanh_wide(_wide(a, False)), False)


@in_pieces(8192)
def rcp(a: Array, *, ftz: bool = False) -> Array:
    """Return 1 / a of f32: within 1 unit in the last place, by the PTX ISA; here rounded to nearest.

    Of zeros and infinities it is the infinity or the zero of the same sign.
    """
    return _rounded(1 / _wide(a, ftz), ftz)


def sqrt(a: Array, *, ftz: bool = False) -> Array:
    """Return the square root of f32. The PTX ISA bounds the relative error by 2**-23; here it is rounded to nearest.

    That of -0 is -0, of negative numbers NaN.
    """
    return _rounded(np.sqrt(_wide(a, ftz)), ftz)


@in_pieces(8192)
def rsqrt(a: Array, *, ftz: bool = False) -> Array:
    """Return 1 / sqrt(a) of f32. The PTX ISA bounds the relative error by 2**-22.9.

    Of zeros it is the infinity of the same sign, of Inf +0, of negative numbers NaN.
    """
    return _rounded(1 / np.sqrt(_wide(a, ftz)), ftz)


def rcp_f64(a: Doubles) -> Doubles:
    """Return a gross approximation of 1 / a: rcp.approx.ftz.f64.

    Only the upper 32 bits of a count, and only those of the result are not 0: it is cut off. So the relative error is
    below 2**-19. Subnormal operands count as 0 and subnormal results become 0. A NaN whose upper 32 bits are those of
    an infinity counts as that, and each NaN that comes out is 0x7fffffff00000000 (measured).
    """
    return _nan_of_f64(_cut(1 / _cut(a)))


def rsqrt_f64(a: Doubles) -> Doubles:
    """Return a gross approximation of 1 / sqrt(a): rsqrt.approx.ftz.f64, with the limits of `rcp_f64`."""
    return _nan_of_f64(_cut(1 / np.sqrt(_cut(a))))


def ex2_wide(x: Doubles) -> Doubles:
    """Return 2**x in f64, to 2**-36; 0 and infinity come early, beyond 2**-200 and 2**200."""
    x = np.minimum(np.maximum(x, -400.0), 400.0)
    whole = np.rint(x)
    scale = (whole.astype(np.int64) + 1023) << 52
    return np.asarray(_polynomial(x - whole, EX2) * scale.view(np.float64))


def tanh_wide(x: Doubles) -> Doubles:
    """Return the hyperbolic tangent in f64, to 2**-30."""
    power = ex2_wide(np.minimum(np.abs(x), 40.0) * (2 * LOG2_E))
    result = np.copysign((power - 1) / (power + 1), x)
    is_small = np.abs(x) < 0.125
    return np.where(is_small, _polynomial(x * x, TANH) * x, result) if is_small.any() else result


def _wide(a: Array, ftz: bool) -> Doubles:
    return np.asarray((flushed(a) if ftz else a).astype(np.float64))


def _rounded(x: Doubles, ftz: bool) -> Array:
    result = np.asarray(x.astype(np.float32))
    return flushed(result) if ftz else result


def _turns(x: Doubles) -> Doubles:
    """Return the angle in turns, from -1/2 to 1/2."""
    turns = x * (1 / TAU)
    return np.asarray(turns - (np.rint(turns) + 0.0))  # -0 less +0 is -0


def _sine_of_turns(turns: Doubles) -> Doubles:
    """Return the sine of an angle from -1/4 to 1/4 of a turn."""
    return _polynomial(turns * turns, SINE) * turns


def _polynomial(x: Doubles, coefficients: Sequence[float]) -> Doubles:
    """Return the polynomial with these coefficients, the constant one first."""
    total = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        total += coefficient
        total *= x
    total += coefficients[0]
    return np.asarray(total)


def _cut(x: Doubles) -> Doubles:
    """Return x with its lower 32 bits 0, as a zero if it is subnormal."""
    return flushed((np.asarray(x).view(np.uint64) & UPPER_HALF).view(np.float64))


def _nan_of_f64(x: Doubles) -> Doubles:
    """Return x with the NaN of a card."""
    return np.where(np.isnan(x), NAN_OF_UPPER_HALF.view(np.float64), x)
