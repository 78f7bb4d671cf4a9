"""Limits BLAS to one thread while blocks run.

A cube core multiplies tens of thousands of small tiles. A BLAS library with several threads spins at the end of each
product until its threads have met, which takes a hundred times as long as the product itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController

_limited = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit the BLAS libraries of this process to one thread, and restore the former limits at the end.

    The limit holds for the whole process, and only the thread that set it can lift it (OpenBLAS without OpenMP). So
    when several threads launch kernels at the same time, the first launch sets the limit. A launch that runs longer
    than the first continues without it.
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
    """Return the BLAS libraries of this process that can be controlled; the search takes milliseconds."""
    return ThreadpoolController().select(user_api="blas")
