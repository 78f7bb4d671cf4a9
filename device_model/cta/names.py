"""Numbers and types that all of the language uses."""

import numpy as np
import numpy.typing as npt

WARP = 32  # threads that issue together
Dim3 = tuple[int, int, int]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
# What shared memory holds before its first write: NaN as half, float and bfloat16, large numbers as integers.
POISON = np.frombuffer(b"\xfb\x7f", np.uint16)[0]
