"""What vector instructions compute, as functions of flat arrays: each result is rounded once, to the type of *out*.

On a card Exp, Ln, Rsqrt, Reciprocal and their like are approximations within a few units of the last place; here they
are rounded right. Overflow gives infinity (the card's INF_NAN mode), integers wrap.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.findings import KernelError

Array = npt.NDArray[Any]

_WIDE = np.float64


# These two, for NumPy deprecates calling its own with an output as the third argument.


def larger(x: Array, y: Array, out: Array) -> None:
    """The larger of both; NaN if one is."""
    np.maximum(x, y, out=out)


def smaller(x: Array, y: Array, out: Array) -> None:
    """The smaller of both; NaN if one is."""
    np.minimum(x, y, out=out)


def rsqrt(x: Array, out: Array) -> None:
    """1 / sqrt(x)."""
    out[...] = 1 / np.sqrt(x.astype(_WIDE))


def reciprocal(x: Array, out: Array) -> None:
    """1 / x."""
    np.divide(x.dtype.type(1), x, out)


def relu(x: Array, out: Array) -> None:
    """max(x, 0)."""
    np.maximum(x, x.dtype.type(0), out=out)


def add_relu(x: Array, y: Array, out: Array) -> None:
    """max(x + y, 0)."""
    np.maximum(np.add(x, y), zero(out.dtype), out=out)


def subtract_relu(x: Array, y: Array, out: Array) -> None:
    """max(x - y, 0)."""
    np.maximum(np.subtract(x, y), zero(out.dtype), out=out)


def copy(x: Array, out: Array) -> None:
    """The same."""
    out[...] = x


def shift_left(bits: Any, x: Array, out: Array) -> None:
    """x, moved up by *bits*."""
    _check_shift(bits, x)
    np.left_shift(x, bits, out=out)


def shift_right(bits: Any, x: Array, out: Array) -> None:
    """x, moved down by *bits*."""
    _check_shift(bits, x)
    np.right_shift(x, bits, out=out)


def _check_shift(bits: Any, x: Array) -> None:
    if not 0 <= bits <= 8 * x.itemsize:
        raise KernelError(f"a shift of {x.dtype} by {bits} bits", f"give 0 to {8 * x.itemsize}")


def leaky_relu(slope: Any, x: Array, out: Array) -> None:
    """X where it is not negative, else slope * x."""
    np.copyto(out, np.where(x >= 0, x, x * slope))


def axpy(factor: Any, x: Array, y: Array, out: Array) -> None:
    """Factor * x + y."""
    out[...] = x.astype(_WIDE) * _WIDE(factor) + y


def multiply_add(x: Array, y: Array, z: Array, out: Array) -> None:
    """X * y + z."""
    out[...] = x.astype(_WIDE) * y.astype(_WIDE) + z


def multiply_add_relu(x: Array, y: Array, z: Array, out: Array) -> None:
    """max(x * y + z, 0)."""
    out[...] = np.maximum(x.astype(_WIDE) * y.astype(_WIDE) + z, 0)


# Reductions


def tree(x: Array, combine: np.ufunc) -> Array:
    """The last axis, a power of two long, brought together in pairs of neighbours, and their results again in pairs.

    This is the order of the card's adder tree; in half each sum is rounded to half.
    """
    while x.shape[-1] > 1:
        x = combine(x[..., 0::2], x[..., 1::2])
    result: Array = x[..., 0]
    return result


def padded(x: Array, lanes: int, neutral: Any) -> Array:
    """*x*, with *neutral* behind it up to whole rows of *lanes*, as rows."""
    rows = -(-len(x) // lanes)
    if rows * lanes == len(x):
        return x.reshape(rows, lanes)
    full = np.full(rows * lanes, neutral, x.dtype)
    full[: len(x)] = x
    return full.reshape(rows, lanes)


def power_of_two(x: Array, neutral: Any) -> Array:
    """A flat array made a power of two long with *neutral*."""
    row: Array = padded(x, 1 << max(len(x) - 1, 0).bit_length(), neutral)[0]
    return row


def zero(dtype: np.dtype[Any]) -> Any:
    """0."""
    return dtype.type(0)


def lowest(dtype: np.dtype[Any]) -> Any:
    """What no value of *dtype* is below."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


def highest(dtype: np.dtype[Any]) -> Any:
    """What no value of *dtype* is above."""
    return np.iinfo(dtype).max if dtype.kind in "iu" else dtype.type(np.inf)
