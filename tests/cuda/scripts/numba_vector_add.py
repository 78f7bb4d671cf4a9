"""A kernel in Python, compiled and launched by Numba, on arrays of the host and of the device."""

import numpy as np
from numba import cuda


@cuda.jit
def add(x, y, out):
    """out = x + y."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


n = 5000
x, y, out = np.arange(n, dtype=np.float32), np.ones(n, dtype=np.float32), np.zeros(n, dtype=np.float32)
add[(n + 255) // 256, 256](x, y, out)

stream = cuda.stream()
on_device = cuda.to_device(x, stream=stream)
twice = cuda.device_array_like(x, stream=stream)
add[(n + 255) // 256, 256, stream](on_device, on_device, twice)
result = twice.copy_to_host(stream=stream)
stream.synchronize()
print("right" if np.array_equal(out, x + 1) and np.array_equal(result, 2 * x) else "wrong")
