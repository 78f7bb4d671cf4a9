"""Shows: the price of pageable memory in numba: the same pipeline with ordinary arrays, and with pinned ones.

Scenario: four pieces go to the card, through a kernel and back, each in a stream of its own. A copy from an ordinary
NumPy array makes the host wait, so no piece overlaps another. With pinned arrays the host runs ahead, and copies and
kernels overlap. The clock is that of events, so it is the card's. Run it with `acl-py run pageable.py`.
"""

import numpy as np
from numba import cuda

SIZE, PIECES = 1 << 20, 4


@cuda.jit
def square(x):
    """Square each number."""
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= x[i]


def milliseconds(make):
    """Return the time of the pipeline, with arrays of the host that *make* makes."""
    sources = [make(SIZE, np.float32) for _ in range(PIECES)]
    results = [make(SIZE, np.float32) for _ in range(PIECES)]
    for source in sources:
        source[:] = 3
    streams = [cuda.stream() for _ in range(PIECES)]
    buffers = [cuda.device_array(SIZE, np.float32) for _ in range(PIECES)]
    begin, end = cuda.event(), cuda.event()
    cuda.synchronize()
    begin.record()
    for stream, buffer, source, result in zip(streams, buffers, sources, results, strict=True):
        buffer.copy_to_device(source, stream=stream)
        square[SIZE // 256, 256, stream](buffer)
        buffer.copy_to_host(result, stream=stream)
    end.record()
    end.synchronize()
    cuda.synchronize()
    assert all((result == 9).all() for result in results)
    return begin.elapsed_time(end)


square[1, 256](cuda.device_array(256, np.float32))  # compile it first
pageable, pinned = milliseconds(np.empty), milliseconds(cuda.pinned_array)
print(f"pageable: {pageable:.3f} ms")
print(f"pinned:   {pinned:.3f} ms, {pageable / pinned:.1f} times as fast")
