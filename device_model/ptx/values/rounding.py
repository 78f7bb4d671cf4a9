"""Roundings that NumPy does not have: to zero, down and up, with one rounding each, and to narrow formats.

NumPy rounds to nearest. The other directions start from that result and the sign of what it lost, and take a step of
one unit where the step is due. Where two roundings follow one another, the first is to odd. An inexact value takes the
neighbour whose last bit is 1, so that the second rounding sees that something was lost.
"""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, ParamSpec

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Bits = NDArray[Any]  # the bits of floats, in unsigned integers
Doubles = NDArray[np.float64]
Rounding = Literal["rn", "rz", "rm", "rp"]
P = ParamSpec("P")


class Layout(NamedTuple):
    """A format of IEEE 754: the *fraction* bits, the *bias* of its exponent, and the dtype of its *bits*."""

    fraction: int
    bias: int
    bits: type[np.unsignedinteger[Any]]

    @property
    def infinity(self) -> int:
        """The bits of infinity, above which all are NaN."""
        return (2 * self.bias + 1) << self.fraction


F16 = Layout(10, 15, np.uint16)
BF16 = Layout(7, 127, np.uint16)
F32 = Layout(23, 127, np.uint32)
F64 = Layout(52, 1023, np.uint64)
NAN16 = 0x7FFF  # of f16 and of bf16
SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
LEAST_OF_F32 = np.float32(2.0**-126)  # that is normal
LARGER = np.float32(2.0**64)  # so many times larger, no number is subnormal
LOW_HALF = 0x7FFFFFF  # of the 53 bits of a double


def in_pieces(lanes: int) -> Callable[[Callable[P, Array]], Callable[P, Array]]:
    """Decorate a function of arrays so that it computes at most that many lanes at a time, with the same results.

    What it has in between then stays in the cache, and in memory that the process has already. Its operands, which are
    arrays, come before other arguments.
    """

    def decorate(function: Callable[P, Array]) -> Callable[P, Array]:
        @functools.wraps(function)
        def pieces(*arguments: P.args, **options: P.kwargs) -> Array:
            operands: list[Any] = [each for each in arguments if isinstance(each, np.ndarray | np.generic)]
            if max([operand.size for operand in operands]) <= lanes:
                return function(*arguments, **options)
            whole = np.broadcast(*operands)
            shape = whole.shape
            depth = len(shape) if whole.size // shape[0] <= lanes else 1  # by rows, unless one is too much already
            count = max(1, lanes * shape[-depth] // whole.size)
            partial: Callable[..., Array] = function
            found = []
            for start in range(0, shape[-depth], count):
                place: Any = (..., slice(start, start + count), *(slice(None),) * (depth - 1))
                own = [each[place] if each.ndim >= depth and each.shape[-depth] > 1 else each for each in operands]
                found.append(partial(*own, *arguments[len(operands) :], **options))
            return np.concatenate(found, -depth)

        return pieces

    return decorate


def layout_of(a: Array) -> Layout:
    """Return the format of an array of f32 or f64."""
    return F64 if a.dtype == np.float64 else F32


def stepped(nearest: Array, error: Array, rounding: Rounding) -> Array:
    """Return *nearest* rounded in another direction.

    Args:
        nearest: Values rounded to nearest, as floats or as the bits of 16.
        error: The exact values less *nearest*; only its sign counts. NaN counts as 0.
        rounding: The direction.
    """
    if rounding == "rn":
        return nearest
    bits = nearest.view(SIGNED[nearest.dtype.itemsize])
    is_negative = bits < 0
    if rounding == "rz":
        step = -np.where(is_negative, error > 0, error < 0).astype(bits.dtype)
    else:
        is_due = error > 0 if rounding == "rp" else error < 0
        step = np.where(is_negative == (rounding == "rm"), is_due, -is_due.astype(bits.dtype))
    return np.asarray((bits + step).view(nearest.dtype))


def to_odd(nearest: Array, error: Array) -> Array:
    """Return *nearest* rounded to odd; the arguments are those of `stepped`."""
    dtype = SIGNED[nearest.dtype.itemsize]
    bits = nearest.view(dtype)
    odd = np.asarray(error.view(dtype) ^ bits)
    odd >>= 8 * nearest.dtype.itemsize - 1  # -1 where the signs differ, so that the exact value is below in magnitude
    odd += bits
    odd |= 1
    np.copyto(odd, bits, where=~(np.abs(error) > 0))
    return odd.view(nearest.dtype)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return `a + b` and what its rounding lost, exactly, unless it overflows (then the second is NaN)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Return `a * b` and what its rounding lost: exactly, if that is neither subnormal nor close to overflow."""
    product = a * b
    a_high, b_high = _high(a), _high(b)
    a_low, b_low = a - a_high, b - b_high
    error = a_high * b_high
    error -= product
    error += a_high * b_low
    error += a_low * b_high
    error += a_low * b_low
    return product, error


def to_f32(x: Array, rounding: Rounding = "rn") -> NDArray[np.float32]:
    """Return doubles as f32, with one rounding."""
    nearest = np.asarray(x, np.float64).astype(np.float32)
    return nearest if rounding == "rn" else stepped(nearest, x - nearest.astype(np.float64), rounding)


def to_f16(x: Array, rounding: Rounding = "rn") -> NDArray[np.float16]:
    """Return f32 or f64 as f16, with one rounding; NaN becomes 0x7fff."""
    return _to_16(x, F16, rounding).view(np.float16)


def to_bf16(x: Array, rounding: Rounding = "rn") -> NDArray[np.uint16]:
    """Return f32 or f64 as the bits of bf16, with one rounding; NaN becomes 0x7fff."""
    return _to_16(x, BF16, rounding)


def from_f16(h: NDArray[np.float16]) -> NDArray[np.float32]:
    """Return f16 as f32."""
    wide = h.view(np.uint16).astype(np.uint32)
    magnitude = (wide & 0x7FFF) << 13
    value = magnitude.view(np.float32) * np.float32(1 << 112)
    is_special = magnitude >= F16.infinity << 13
    if is_special.any():
        value = np.where(is_special, (magnitude | F32.infinity).view(np.float32), value)
    return np.asarray((value.view(np.uint32) | (wide & 0x8000) << 16).view(np.float32))


def from_bf16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return the bits of bf16 as f32."""
    return np.asarray((bits.astype(np.uint32) << 16).view(np.float32))


def flushed(x: Array) -> Array:
    """Return f32 or f64 with each subnormal as the zero of its sign (.ftz)."""
    layout = layout_of(x)
    bits = x.view(layout.bits)
    is_small = bits & layout.bits(layout.infinity) == 0
    return np.where(is_small, np.copysign(x.dtype.type(0), x), x) if is_small.any() else x


def flushed_once(result: NDArray[np.float32], is_tiny: Callable[[], Array]) -> Array:
    """Return results of .ftz: those that are subnormal as zeros, and so the least normal number where *is_tiny* says
    that it is subnormal when it is rounded as if exponents had no end (measured).
    """
    result = flushed(result)
    is_least = np.abs(result) == LEAST_OF_F32
    if is_least.any():
        result = np.where(is_least & is_tiny(), np.copysign(np.float32(0), result), result)
    return result


def is_below_least(exact: Doubles, rounding: Rounding) -> Array:
    """Return where doubles are subnormal f32 when they are rounded as if exponents had no end."""
    return np.asarray(np.abs(to_f32(exact * LARGER, rounding)) < LEAST_OF_F32 * LARGER)


def saturated(x: Array) -> Array:
    """Return f32 or f64 clamped to [0, 1] (.sat); NaN and -0 become +0."""
    kind = x.dtype.type
    clamped = np.minimum(np.maximum(x, kind(0)), kind(1)) + kind(0)
    is_nan = np.isnan(clamped)
    return np.where(is_nan, kind(0), clamped) if is_nan.any() else np.asarray(clamped)


def _high(x: Doubles) -> Doubles:
    """Return x to 26 bits, rounded so that the rest has 26 as well."""
    bits = x.view(np.uint64) + (LOW_HALF + 1 >> 1)
    bits &= np.uint64(~LOW_HALF & (1 << 64) - 1)
    return np.asarray(bits.view(np.float64))


def _to_16(x: Array, to: Layout, rounding: Rounding) -> Bits:
    source = layout_of(x)
    lost = source.fraction - to.fraction
    rebias = (source.bias - to.bias) << source.fraction
    bits = x.view(source.bits)
    magnitude = bits & source.bits((1 << 8 * x.dtype.itemsize - 1) - 1)
    # A carry out of the significand counts the exponent up, as it should. Subnormals wrap here and come next.
    near = magnitude >> lost
    near &= 1
    near += magnitude
    near += source.bits(((1 << lost - 1) - 1 - rebias) % (1 << 8 * x.dtype.itemsize))
    near >>= lost
    if rebias:
        is_small = magnitude < source.bits(rebias + (1 << source.fraction))
        if is_small.any():
            # The unit of this number is the smallest subnormal of the narrow format.
            unit = np.ldexp(x.dtype.type(1), 1 - to.bias - to.fraction + source.fraction)
            near = np.where(is_small, (np.abs(x) + unit).view(source.bits) - unit.view(source.bits), near)
    near = np.minimum(near, source.bits(to.infinity))
    near |= (bits >> (8 * x.dtype.itemsize - 16)) & 0x8000
    nearest = near.astype(np.uint16)
    if rounding != "rn":
        back = from_f16(nearest.view(np.float16)) if to is F16 else from_bf16(nearest)
        nearest = stepped(nearest, x - back.astype(x.dtype), rounding)
    is_nan = magnitude > source.bits(source.infinity)
    return np.where(is_nan, np.uint16(NAN16), nearest) if is_nan.any() else np.asarray(nearest)
