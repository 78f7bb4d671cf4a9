"""Powers, hyperbolic and trigonometric functions, the error function, and Xor.

Polynomials are of Abramowitz and Stegun (7.1.26 for erf), and of Taylor for sine, cosine and arc tangent. Each may work
in place, because dst is written only when the sources have been read.
"""

from itertools import pairwise
from math import factorial, pi, tan

import numpy as np

from device_model.aicore.core.names import CMPMODE, SELMODE, RoundMode
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.functions.makers import binary, unary
from device_model.aicore.functions.scratch import Compute, apply
from device_model.aicore.vector.elementwise import (
    BITS,
    Abs,
    Add,
    Adds,
    And,
    Cast,
    Div,
    Exp,
    Ln,
    Min,
    Mins,
    Mul,
    Muls,
    Not,
    Or,
    Reciprocal,
    Sqrt,
    Sub,
)
from device_model.aicore.vector.fill import Duplicate
from device_model.aicore.vector.select import Select, compare_first

TENSOR, SCALAR = SELMODE.VSEL_TENSOR_TENSOR_MODE, SELMODE.VSEL_TENSOR_SCALAR_MODE


def _power(
    dst: LocalTensor,
    x: LocalTensor,
    y: LocalTensor,
    count: int,
    size: LocalTensor,
    half: LocalTensor,
    sign: LocalTensor,
    bits: LocalTensor,
) -> None:
    Abs(size, x, count)
    Ln(size, size, count)
    Mul(size, size, y, count)
    Exp(size, size, count)
    # The sign for a negative base: 1 or -1 for even and odd exponents, and NaN for all that are not whole.
    Muls(half, y, 0.5, count)
    Cast(sign, half, RoundMode.CAST_FLOOR, count)
    Sub(sign, half, sign, count)
    Muls(sign, sign, -4, count)
    Adds(sign, sign, 1, count)
    Cast(half, y, RoundMode.CAST_RINT, count)
    Sub(half, half, y, count)
    compare_first(bits, half, 0, CMPMODE.EQ, count)
    Select(sign, bits, sign, float("nan"), SCALAR, count)
    compare_first(bits, x, 0, CMPMODE.LT, count)
    Select(sign, bits, sign, 1.0, SCALAR, count)
    Mul(size, size, sign, count)
    # Every number to the power of 0 is 1, and so is 1 to every power.
    compare_first(bits, x, 1, CMPMODE.NE, count)
    Select(size, bits, size, 1.0, SCALAR, count)
    compare_first(bits, y, 0, CMPMODE.NE, count)
    Select(dst, bits, size, 1.0, SCALAR, count)


def Power(
    dst: LocalTensor,
    src0: LocalTensor | float,
    src1: LocalTensor | float,
    tmp: LocalTensor | int | None = None,
    count: int | None = None,
) -> None:
    """Dst = src0 to the power of src1 (Ascend C: Power).

    Made of vector instructions, which it issues piece by piece. Half is computed in float.

    Args:
        dst: The tensor to write, in UB: half or float.
        src0: The base: a tensor of the same type, or a number.
        src1: The exponent: a tensor of the same type, or a number; not both are numbers.
        tmp: The temporary buffer, in UB; by default the bytes of UB that no buffer of the TPipe has. The count may
            stand in its place.
        count: The number of elements; by default those of the tensor.

    Raises:
        TypeError: Neither the base nor the exponent is a tensor.
        KernelError: A type or count is impossible, a tensor is too small, or the temporary buffer is too small or
            overlaps a tensor.
    """
    base, exponent = isinstance(src0, LocalTensor), isinstance(src1, LocalTensor)
    if base and exponent:
        apply("Power", dst, (src0, src1), tmp, count, _power, 3, bits=1)  # type: ignore[arg-type]
        return
    if not base and not exponent:
        raise TypeError(f"Power: src0 {src0!r} or src1 {src1!r} must be a LocalTensor")

    def compute(out: LocalTensor, x: LocalTensor, count: int, other: LocalTensor, *temporaries: LocalTensor) -> None:
        Duplicate(other, src1 if base else src0, count)  # type: ignore[arg-type]
        _power(out, *((x, other) if base else (other, x)), count, *temporaries)

    apply("Power", dst, (src0 if base else src1,), tmp, count, compute, 4, bits=1)  # type: ignore[arg-type]


# Hyperbolic functions


def _sinh(dst: LocalTensor, src: LocalTensor, count: int, tmp: LocalTensor) -> None:
    _exponentials(dst, src, count, tmp)
    Sub(dst, tmp, dst, count)


def _cosh(dst: LocalTensor, src: LocalTensor, count: int, tmp: LocalTensor) -> None:
    _exponentials(dst, src, count, tmp)
    Add(dst, tmp, dst, count)


def _exponentials(dst: LocalTensor, src: LocalTensor, count: int, tmp: LocalTensor) -> None:
    """Issue tmp = e to the power of src, dst = e to the power of -src, both halved."""
    halved = float(np.log(0.5))  # in the exponent, so that the largest results do not overflow on the way
    Adds(tmp, src, halved, count)
    Exp(tmp, tmp, count)
    Muls(dst, src, -1, count)
    Adds(dst, dst, halved, count)
    Exp(dst, dst, count)


Sinh = unary("Sinh", _sinh, "dst = hyperbolic sine of src.", temporaries=1)
Cosh = unary("Cosh", _cosh, "dst = hyperbolic cosine of src.", temporaries=1)


def _atanh(dst: LocalTensor, src: LocalTensor, count: int, tmp: LocalTensor) -> None:
    Adds(tmp, src, 1, count)
    Muls(dst, src, -1, count)
    Adds(dst, dst, 1, count)
    Div(tmp, tmp, dst, count)
    Ln(tmp, tmp, count)
    Muls(dst, tmp, 0.5, count)


def _acosh(dst: LocalTensor, src: LocalTensor, count: int, tmp: LocalTensor) -> None:
    Mul(tmp, src, src, count)
    Adds(tmp, tmp, -1, count)
    Sqrt(tmp, tmp, count)
    Add(dst, src, tmp, count)
    Ln(dst, dst, count)


Atanh = unary("Atanh", _atanh, "dst = inverse hyperbolic tangent of src.", temporaries=1)
Acosh = unary("Acosh", _acosh, "dst = inverse hyperbolic cosine of src.", temporaries=1)


# Sine and cosine

# pi as a sum of numbers of few bits, so that their products with whole numbers are exact.
_PI = (3.140625, 0.0009670257568359375, 6.277114152908325e-07, 1.2154201256553420e-10)
_SINE = [(-1) ** each / factorial(2 * each + 1) for each in range(6)]


def _sine_of(shift: float) -> Compute:
    """Make sin(src + shift * pi), where shift is 0 or 1/2."""

    def compute(
        dst: LocalTensor, src: LocalTensor, count: int, turns: LocalTensor, rest: LocalTensor, square: LocalTensor
    ) -> None:
        # src + shift * pi = turns * pi + rest, and rest is at most pi / 2.
        Muls(turns, src, 1 / pi, count)
        if shift:
            Adds(turns, turns, shift, count)
        Cast(turns, turns, RoundMode.CAST_RINT, count)
        Muls(square, turns, -_PI[0], count)
        Add(rest, src, square, count)
        for place, part in enumerate(_PI[1:]):
            if shift and place == 0:
                Adds(rest, rest, shift * pi, count)
            Muls(square, turns, -part, count)
            Add(rest, rest, square, count)
        Mul(square, rest, rest, count)
        _polynomial(dst, square, _SINE, count)
        Mul(dst, dst, rest, count)
        # An odd number of half turns changes the sign: 1 - 2 * (turns - 2 * floor(turns / 2)).
        Muls(rest, turns, 0.5, count)
        Cast(rest, rest, RoundMode.CAST_FLOOR, count)
        Muls(rest, rest, 4, count)
        Muls(turns, turns, -2, count)
        Add(rest, rest, turns, count)
        Adds(rest, rest, 1, count)
        Mul(dst, dst, rest, count)

    return compute


def _polynomial(dst: LocalTensor, x: LocalTensor, factors: list[float], count: int) -> None:
    """Issue dst = the sum of *factors*[i] * x to the power of i."""
    Muls(dst, x, factors[-1], count)
    for higher, factor in pairwise(reversed(factors)):
        if higher is not factors[-1]:
            Mul(dst, dst, x, count)
        Adds(dst, dst, factor, count)


Sin = unary("Sin", _sine_of(0), "dst = sine of src, which is in radians.", temporaries=3)
Cos = unary("Cos", _sine_of(0.5), "dst = cosine of src, which is in radians.", temporaries=3)


def _tan(
    dst: LocalTensor, src: LocalTensor, count: int, sine: LocalTensor, cosine: LocalTensor, *tmp: LocalTensor
) -> None:
    _sine_of(0)(sine, src, count, *tmp)
    _sine_of(0.5)(cosine, src, count, *tmp)
    Div(dst, sine, cosine, count)


Tan = unary("Tan", _tan, "dst = tangent of src, which is in radians.", temporaries=5)


# Arc functions

_EIGHTH = tan(pi / 8)
_ARC = [(-1) ** each / (2 * each + 1) for each in range(8)]


def _atan(
    dst: LocalTensor,
    src: LocalTensor,
    count: int,
    size: LocalTensor,
    ratio: LocalTensor,
    turned: LocalTensor,
    square: LocalTensor,
    bits: LocalTensor,
) -> None:
    # The arc of 1 / x is pi / 2 - the arc of x, so that the ratio is at most 1.
    Abs(size, src, count)
    Reciprocal(ratio, size, count)
    Min(ratio, ratio, size, count)
    # That of a ratio above tan(pi / 8) is pi / 8 more than that of (ratio - tan) / (1 + ratio * tan).
    Muls(square, ratio, _EIGHTH, count)
    Adds(square, square, 1, count)
    Adds(turned, ratio, -_EIGHTH, count)
    Div(turned, turned, square, count)
    compare_first(bits, ratio, _EIGHTH, CMPMODE.GT, count)
    Select(ratio, bits, turned, ratio, TENSOR, count)
    Mul(square, ratio, ratio, count)
    _polynomial(turned, square, _ARC, count)
    Mul(turned, turned, ratio, count)
    Adds(ratio, turned, pi / 8, count)
    Select(turned, bits, ratio, turned, TENSOR, count)
    compare_first(bits, size, 1, CMPMODE.GT, count)
    Muls(ratio, turned, -1, count)
    Adds(ratio, ratio, pi / 2, count)
    Select(turned, bits, ratio, turned, TENSOR, count)
    compare_first(bits, src, 0, CMPMODE.LT, count)
    Muls(ratio, turned, -1, count)
    Select(dst, bits, ratio, turned, TENSOR, count)


def _asin(dst: LocalTensor, src: LocalTensor, count: int, side: LocalTensor, *tmp: LocalTensor) -> None:
    Muls(side, src, -1, count)
    Adds(side, side, 1, count)
    Adds(tmp[0], src, 1, count)
    Mul(side, side, tmp[0], count)
    Sqrt(side, side, count)
    Div(side, src, side, count)
    _atan(dst, side, count, *tmp)


def _acos(dst: LocalTensor, src: LocalTensor, count: int, side: LocalTensor, *tmp: LocalTensor) -> None:
    _asin(dst, src, count, side, *tmp)
    Muls(dst, dst, -1, count)
    Adds(dst, dst, pi / 2, count)


Atan = unary("Atan", _atan, "dst = arc tangent of src, in radians.", temporaries=4, bits=1)
Asin = unary("Asin", _asin, "dst = arc sine of src, in radians.", temporaries=5, bits=1)
Acos = unary("Acos", _acos, "dst = arc cosine of src, in radians.", temporaries=5, bits=1)


def _asinh(
    dst: LocalTensor, src: LocalTensor, count: int, size: LocalTensor, root: LocalTensor, bits: LocalTensor
) -> None:
    compare_first(bits, src, 0, CMPMODE.LT, count)
    Abs(size, src, count)
    Mul(root, size, size, count)
    Adds(root, root, 1, count)
    Sqrt(root, root, count)
    Add(size, size, root, count)
    Ln(size, size, count)
    Muls(root, size, -1, count)
    Select(dst, bits, root, size, TENSOR, count)


Asinh = unary("Asinh", _asinh, "dst = inverse hyperbolic sine of src, within 2e-7.", temporaries=2, bits=1)


# Error functions

_ERF = [0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429]
_ERF_SCALE = 0.3275911
_LARGEST_ERF = 6.0


def _complement(
    dst: LocalTensor,
    src: LocalTensor,
    largest: float,
    count: int,
    size: LocalTensor,
    tmp: LocalTensor,
    bits: LocalTensor,
) -> None:
    """Issue dst = 1 - erf(x) of the size x of src, at most *largest*, and bits = whether src is negative.

    *size* becomes e to the power of -x * x.
    """
    compare_first(bits, src, 0, CMPMODE.LT, count)
    Abs(size, src, count)
    Mins(size, size, largest, count)
    Muls(tmp, size, _ERF_SCALE, count)
    Adds(tmp, tmp, 1, count)
    Duplicate(dst, 1, count)
    Div(tmp, dst, tmp, count)
    _polynomial(dst, tmp, _ERF, count)
    Mul(dst, dst, tmp, count)
    Mul(size, size, size, count)
    Muls(size, size, -1, count)
    Exp(size, size, count)
    Mul(dst, dst, size, count)


def _erf(
    dst: LocalTensor,
    src: LocalTensor,
    count: int,
    rest: LocalTensor,
    size: LocalTensor,
    tmp: LocalTensor,
    bits: LocalTensor,
) -> None:
    _complement(rest, src, _LARGEST_ERF, count, size, tmp, bits)
    Muls(tmp, rest, -1, count)
    Adds(tmp, tmp, 1, count)
    Muls(rest, tmp, -1, count)
    Select(dst, bits, rest, tmp, TENSOR, count)


def _erfc(
    dst: LocalTensor,
    src: LocalTensor,
    count: int,
    rest: LocalTensor,
    size: LocalTensor,
    tmp: LocalTensor,
    bits: LocalTensor,
) -> None:
    _complement(rest, src, 9.5, count, size, tmp, bits)
    Muls(tmp, rest, -1, count)
    Adds(tmp, tmp, 2, count)
    Select(dst, bits, tmp, rest, TENSOR, count)


Erf = unary("Erf", _erf, "dst = error function of src, within 2e-7.", temporaries=3, bits=1)
Erfc = unary("Erfc", _erfc, "dst = 1 - error function of src, within 2e-7.", temporaries=3, bits=1)


def _xor(dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, count: int, tmp: LocalTensor) -> None:
    And(tmp, src0, src1, count)
    Not(tmp, tmp, count)
    Or(dst, src0, src1, count)
    And(dst, dst, tmp, count)


Xor = binary(
    "Xor", _xor, "dst = the bits that are set in one of src0 and src1.", temporaries=1, widens=False, types=BITS
)
