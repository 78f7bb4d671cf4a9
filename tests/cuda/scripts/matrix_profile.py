"""stumpy's gpu_stump: its result beside that of stump, and the processor time of a second call.

Arguments: how many points the series has, and the length of its windows.
"""

import sys
import time
import warnings

import numpy as np
import stumpy

COUNT, WINDOW = map(int, sys.argv[1:])
warnings.filterwarnings("ignore", message="Grid size")

series = np.random.default_rng(1).standard_normal(COUNT).cumsum()
expected = stumpy.stump(series, WINDOW)
stumpy.gpu_stump(series, WINDOW)  # compiles the kernel
begin = time.process_time()
found = stumpy.gpu_stump(series, WINDOW)
spent = time.process_time() - begin
np.testing.assert_almost_equal(found[:, 0].astype(float), expected[:, 0].astype(float), decimal=6)
assert (found[:, 1:] == expected[:, 1:]).all()
print(f"{spent:.2f}")
