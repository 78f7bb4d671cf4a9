"""The data types of `acl` (aclDataType), as NumPy has them."""

from typing import Any

import ml_dtypes
import numpy as np

# aclDataType by number: the NumPy dtype of one element.
DTYPES: dict[int, np.dtype[Any]] = {
    number: np.dtype(name)
    for number, name in {
        0: "f4", 1: "f2", 2: "i1", 3: "i4", 4: "u1", 6: "i2", 7: "u2", 8: "u4", 9: "i8", 10: "u8", 11: "f8", 12: "?",
        16: "c8", 17: "c16", 27: ml_dtypes.bfloat16, 35: ml_dtypes.float8_e5m2, 36: ml_dtypes.float8_e4m3fn,
    }.items()
}  # fmt: skip
