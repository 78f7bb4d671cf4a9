"""NumPy's dtypes, and those that it has from the package ml_dtypes only: bfloat16, the 8-bit floats, and int4.

Few programs need these, and Python in a browser has no ml_dtypes. So the package is imported when one of them is asked
for.
"""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

SMALL_FLOATS = ("bfloat16", "float8_e5m2", "float8_e4m3fn")
_NAMES = (
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    "complex64", "complex128", *SMALL_FLOATS,
)  # fmt: skip


def as_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return *dtype* as a NumPy dtype; a name may also be one of SMALL_FLOATS.

    Raises:
        TypeError: There is no such dtype.
        ImportError: It is one of ml_dtypes, which is not installed.
    """
    if isinstance(dtype, str) and dtype in SMALL_FLOATS:
        return small_dtype(dtype)
    try:
        return np.dtype(dtype)
    except TypeError:
        if not isinstance(dtype, str):
            raise
        raise TypeError(_unknown(dtype)) from None


def _unknown(name: str) -> str:
    from difflib import get_close_matches  # only a mistake needs it

    near = get_close_matches(name.lower(), _NAMES, 1)
    meant = f"did you mean {near[0]}? There" if near else "there"
    return f"there is no data type {name!r}; {meant} are {', '.join(_NAMES)}, and NumPy's other names"


@cache
def small_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype *name* of ml_dtypes; raise ImportError if that is not installed."""
    try:
        import ml_dtypes  # imported here: see the head of this file
    except ImportError as error:
        raise ImportError(
            f"{name} needs the package ml_dtypes, which cannot be imported: install it with `pip install ml_dtypes`; "
            "Python in a browser does not have it"
        ) from error
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype
