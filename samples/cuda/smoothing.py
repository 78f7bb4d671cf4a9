"""A small library for numba, which test_smoothing.py tests: it goes on with less memory if the card has too little."""

import numpy as np
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError


@cuda.jit
def _smooth(source, result):
    i = cuda.grid(1)
    if 0 < i < source.size - 1:
        result[i] = (source[i - 1] + source[i] + source[i + 1]) / 3


def smooth(values):
    """Return *values*, each as the mean of itself and its neighbours; in halves if the card has no room for all."""
    try:
        return _on_card(values)
    except (CudaAPIError, MemoryError):
        middle = len(values) // 2
        return np.concatenate([_on_card(values[: middle + 1])[:-1], _on_card(values[middle - 1 :])[1:]])


def _on_card(values):
    source = cuda.to_device(np.ascontiguousarray(values))
    result = cuda.to_device(np.ascontiguousarray(values))
    _smooth[(len(values) + 127) // 128, 128](source, result)
    return result.copy_to_host()
