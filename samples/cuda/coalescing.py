"""Shows: a numba kernel whose lanes read far apart, the advice on it, and its time before and after.

Scenario: a kernel doubles a matrix. The lanes of a warp have the numbers next to each other in their first index, which
is that of the row, so they read addresses that are a row apart. The advice names the lines and what that costs. In the
second kernel the first index is that of the column. Run it with `acl-py run coalescing.py`.
"""

import numpy as np
from numba import cuda

import acl_py.compat.cuda

SIZE = 512


@cuda.jit
def by_rows(matrix, result):
    """Double each number: lanes are in different rows."""
    row, column = cuda.grid(2)
    result[row, column] = 2 * matrix[row, column]


@cuda.jit
def by_columns(matrix, result):
    """Double each number: lanes are side by side."""
    column, row = cuda.grid(2)
    result[row, column] = 2 * matrix[row, column]


values = np.arange(SIZE * SIZE, dtype=np.float32).reshape(SIZE, SIZE)
matrix, result = cuda.to_device(values), cuda.device_array_like(values)
for kernel in (by_rows, by_columns):
    with acl_py.compat.cuda.advising() as advice:
        kernel[(SIZE // 32, SIZE // 8), (32, 8)](matrix, result)
        cuda.synchronize()
    print(f"{kernel.__name__}: right: {np.array_equal(result.copy_to_host(), 2 * values)}")
    print(advice)
