"""NumPy's dtypes, and those that it has from the package ml_dtypes only: bfloat16, the 8-bit floats, and int4.

Few programs need these, and Python in a browser has no ml_dtypes. So the package is imported when one of them is asked
for.
"""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

SMALL_FLOATS = ("bfloat16", "float8_e5m2", "float8_e4m3fn")


def as_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return *dtype* as a NumPy dtype; a name may also be one of SMALL_FLOATS.

    Raises:
        TypeError: There is no such dtype.
        ImportError: It is one of ml_dtypes, which is not installed.
    """
    return small_dtype(dtype) if isinstance(dtype, str) and dtype in SMALL_FLOATS else np.dtype(dtype)


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
