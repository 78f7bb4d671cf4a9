"""Shows: a missing synchronisation in numba: the bytes that it reads, the finding with its lines, and a fix tried.

Scenario: a kernel counts in one stream, and the program copies the result to the host in another,
which does not wait for the first one. Run it with `acl-py run --sanitize=device --fix stale_numba.py`.
"""

import numpy as np
from numba import cuda

SIZE, STEPS = 1 << 14, 1000


@cuda.jit
def count(x, steps):
    """Add one to each number, again and again."""
    i = cuda.grid(1)
    for _ in range(steps):
        x[i] += 1
        cuda.threadfence()  # each sum goes to memory


compute = cuda.stream()
download = cuda.stream()
answer = cuda.pinned_array(SIZE, np.float32)
answer[:] = 0
numbers = cuda.to_device(np.zeros(SIZE, np.float32))
cuda.synchronize()

count[SIZE // 256, 256, compute](numbers, STEPS)
# missing: event = cuda.event(); event.record(compute); event.wait(download)
numbers.copy_to_host(answer, stream=download)
download.synchronize()
print(f"wanted {STEPS} in {SIZE:,} places, and {int((answer != STEPS).sum()):,} have something else: {answer[-1]}")
cuda.synchronize()
