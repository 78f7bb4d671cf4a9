"""The threads of BLAS while blocks run: one.

A cube core multiplies small tiles, tens of thousands of them. A BLAS with several threads spins at the end of each
product until its threads have met, which takes a hundred times as long as the product.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController

_limited = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit the BLAS libraries of this process to one thread, and put back what there was, however the block ends.

    The limit is the process's, and only the thread that has set it can end it (OpenBLAS without OpenMP). So of launches
    side by side in several threads the first has it, and a launch that outlives it goes on without.
    """
    if not _limited.acquire(blocking=False):
        yield
        return
    try:
        with _libraries().limit(limits=1):
            yield
    finally:
        _limited.release()


@cache
def _libraries() -> ThreadpoolController:
    """The BLAS libraries in this process that can be controlled, perhaps none; looking for them takes milliseconds."""
    return ThreadpoolController().select(user_api="blas")
