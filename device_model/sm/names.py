"""Numbers and types that all kernels of thread blocks use."""

import numpy as np
import numpy.typing as npt

WARP = 32  # threads that issue together
MATRIX_ROW = 16  # bytes in a row of the 8 x 8 matrices that ldmatrix loads
Dim3 = tuple[int, int, int]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
