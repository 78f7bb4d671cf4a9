"""The data types of `acl` (aclDataType), as NumPy has them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from device_model.dtypes import as_dtype

# aclDataType by the name of the NumPy dtype of one element.
DATA_TYPES: Mapping[str, int] = {
    "float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "uint16": 7, "uint32": 8, "int64": 9,
    "uint64": 10, "float64": 11, "bool": 12, "complex64": 16, "complex128": 17, "bfloat16": 27, "float8_e5m2": 35,
    "float8_e4m3fn": 36,
}  # fmt: skip
NAMES: Mapping[int, str] = {number: name for name, number in DATA_TYPES.items()}


def dtype_of(number: int) -> np.dtype[Any] | None:
    """Return the NumPy dtype of one element of the aclDataType *number*; None if there is none."""
    name = NAMES.get(number)
    return None if name is None else as_dtype(name)
