"""Enlarge pictures of two sizes, and pictures of any size: dynamic heights and widths, and dynamic shapes."""

import sys

import numpy as np
from ais_bench.infer.interface import InferSession

sizes = InferSession(0, sys.argv[1])
free = InferSession(0, sys.argv[2])
for height, width in ((4, 6), (8, 8)):
    picture = np.linspace(0, 1, 3 * height * width, dtype=np.float32).reshape(1, 3, height, width)
    by_gear = sizes.infer([picture], "dymhw")[0]
    by_shape = free.infer([picture], mode="dymshape", custom_sizes=1000000)[0]
    print(by_gear.shape, np.array_equal(by_gear, by_shape))
big = free.infer([np.ones((2, 3, 5, 7), np.float32)], "dymshape", [100000], out_array=False)
free.convert_tensors_to_host(big)
print([each.shape for each in free.convert_tensors_to_arrays(big)])
try:
    sizes.infer([np.ones((1, 3, 5, 5), np.float32)], "dymhw")
except RuntimeError as error:
    print("refused:", "[5, 5]" in str(error))
