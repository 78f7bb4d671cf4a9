"""The library of the driver in this process: it is loaded once, and its functions come here while the driver lives."""

import ctypes
import os
from collections.abc import Iterable
from functools import cache
from typing import Any

from acl_py.compat.cuda.face.calls import callback
from acl_py.compat.cuda.face.codes import NOT_INITIALIZED
from acl_py.compat.cuda.library.loading import Library
from acl_py.compat.cuda.library.signatures import exported

SONAMES = ("libcuda.so.1", "libcuda.so")
_callbacks: dict[str, Any] = {}  # they live as long as the process: C may hold them anywhere


@cache
def library() -> Library:
    """Return the library, which the first call loads.

    Raises:
        RuntimeError: It cannot be loaded.
    """
    loaded = Library(SONAMES, [name for name, *_ in exported()], NOT_INITIALIZED)
    os.register_at_fork(after_in_child=lambda: loaded.clear(NOT_INITIALIZED))  # as in CUDA
    return loaded


def is_loaded() -> bool:
    """Whether the library is in this process."""
    return bool(library.cache_info().currsize)


def put(names: Iterable[str]) -> None:
    """Let calls of the functions *names* come here from now on."""
    wanted = set(names)
    for name, signature, is_twin in exported():
        if name in wanted:
            if name not in _callbacks:
                _callbacks[name] = callback(signature, is_twin=is_twin)
            library().put(name, ctypes.cast(_callbacks[name], ctypes.c_void_p).value or 0)


def has(name: str) -> bool:
    """Whether calls of the function *name* come here."""
    return library().has(name)


def clear(answer: int) -> None:
    """Let all functions answer *answer* from now on; no Python runs then."""
    library().clear(answer)


def address(name: str) -> int:
    """Return the address of the exported function *name*."""
    return library().address(name)
