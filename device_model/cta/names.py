"""Numbers and texts that all rooms of thread-block kernels use."""

import numpy as np

from device_model.sm.names import Ints

# What shared memory holds before its first write: NaN as half, float and bfloat16, large numbers as integers.
POISON = np.frombuffer(b"\xfb\x7f", np.uint16)[0]


def threads_text(threads: Ints) -> str:
    """Return *threads* for a message: "thread 3", "threads 0 to 31" or "7 threads (0, 2, 5, ...)"."""
    numbers = threads.tolist()
    if len(numbers) == 1:
        return f"thread {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"threads {numbers[0]} to {numbers[-1]}"
    return f"{len(numbers)} threads ({', '.join(map(str, numbers[:3]))}, ...)"
