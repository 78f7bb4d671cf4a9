"""The arithmetic of vector instructions, as functions of flat arrays that write to *out*.

Each result is rounded once, to the type of *out*. A card's Exp, Ln, Rsqrt and Reciprocal are approximations within a
few units of the last place; here they are as exact as NumPy's. Overflow gives infinity (the card's INF_NAN mode), and
integers wrap around.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.kernel.findings import KernelError

Array = npt.NDArray[Any]

_WIDE = np.float64


# These two exist because NumPy deprecates np.maximum and np.minimum with `out` as a positional argument.


def larger(x: Array, y: Array, out: Array) -> None:
    """Compute the larger of x and y; NaN if either is NaN."""
    np.maximum(x, y, out=out)


def smaller(x: Array, y: Array, out: Array) -> None:
    """Compute the smaller of x and y; NaN if either is NaN."""
    np.minimum(x, y, out=out)


def rsqrt(x: Array, out: Array) -> None:
    """Compute 1 / sqrt(x)."""
    out[...] = 1 / np.sqrt(x.astype(_WIDE))


def reciprocal(x: Array, out: Array) -> None:
    """Compute 1 / x."""
    np.divide(x.dtype.type(1), x, out)


def relu(x: Array, out: Array) -> None:
    """Compute max(x, 0)."""
    np.maximum(x, x.dtype.type(0), out=out)


def add_relu(x: Array, y: Array, out: Array) -> None:
    """Compute max(x + y, 0)."""
    np.maximum(np.add(x, y), zero(out.dtype), out=out)


def subtract_relu(x: Array, y: Array, out: Array) -> None:
    """Compute max(x - y, 0)."""
    np.maximum(np.subtract(x, y), zero(out.dtype), out=out)


def copy(x: Array, out: Array) -> None:
    """Copy x."""
    out[...] = x


def shift_left(bits: Any, x: Array, out: Array) -> None:
    """Shift x left by *bits*."""
    _check_shift(bits, x)
    np.left_shift(x, bits, out=out)


def shift_right(bits: Any, x: Array, out: Array) -> None:
    """Shift x right by *bits*; signed integers keep their sign."""
    _check_shift(bits, x)
    np.right_shift(x, bits, out=out)


def _check_shift(bits: Any, x: Array) -> None:
    if not 0 <= bits <= 8 * x.itemsize:
        raise KernelError(f"a shift of {x.dtype} by {bits} bits", f"give 0 to {8 * x.itemsize}")


def leaky_relu(slope: Any, x: Array, out: Array) -> None:
    """Compute x where it is not negative, and slope * x elsewhere."""
    np.copyto(out, np.where(x >= 0, x, x * slope))


def axpy(factor: Any, x: Array, y: Array, out: Array) -> None:
    """Compute factor * x + y."""
    out[...] = x.astype(_WIDE) * _WIDE(factor) + y


def multiply_add(x: Array, y: Array, z: Array, out: Array) -> None:
    """Compute x * y + z."""
    out[...] = x.astype(_WIDE) * y.astype(_WIDE) + z


def multiply_add_relu(x: Array, y: Array, z: Array, out: Array) -> None:
    """Compute max(x * y + z, 0)."""
    out[...] = np.maximum(x.astype(_WIDE) * y.astype(_WIDE) + z, 0)


# Reductions


def tree(x: Array, combine: np.ufunc) -> Array:
    """Reduce the last axis, whose length is a power of two: combine pairs of neighbours, then pairs of the results.

    The card's adder tree has this order; in half it rounds each sum to half.
    """
    while x.shape[-1] > 1:
        x = combine(x[..., 0::2], x[..., 1::2])
    result: Array = x[..., 0]
    return result


def padded(x: Array, lanes: int, neutral: Any) -> Array:
    """Return *x* as rows of *lanes* elements; *neutral* fills the last row."""
    rows = -(-len(x) // lanes)
    if rows * lanes == len(x):
        return x.reshape(rows, lanes)
    full = np.full(rows * lanes, neutral, x.dtype)
    full[: len(x)] = x
    return full.reshape(rows, lanes)


def power_of_two(x: Array, neutral: Any) -> Array:
    """Return the flat array *x*, extended with *neutral* to a power of two."""
    row: Array = padded(x, 1 << max(len(x) - 1, 0).bit_length(), neutral)[0]
    return row


def zero(dtype: np.dtype[Any]) -> Any:
    """Return 0 as a *dtype*."""
    return dtype.type(0)


def lowest(dtype: np.dtype[Any]) -> Any:
    """Return the smallest value of *dtype*; minus infinity for floats."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


def highest(dtype: np.dtype[Any]) -> Any:
    """Return the largest value of *dtype*; infinity for floats."""
    return np.iinfo(dtype).max if dtype.kind in "iu" else dtype.type(np.inf)
