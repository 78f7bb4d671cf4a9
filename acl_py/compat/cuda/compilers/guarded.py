"""Callbacks of interposed libraries: a wrong address is a code, and an exception is raised behind the callback."""

import ctypes
from collections.abc import Callable
from typing import Any

from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.library.behind import raising_behind


def guarded(prototype: Any, function: Callable[..., int], *, fault: int, broken: int) -> Any:
    """Return what C calls for *function*. Its code is *fault* at a wrong address, and *broken* after an exception."""

    def call(*raw: Any) -> int:
        try:
            return function(*raw)
        except own_memory.FaultError:
            return fault
        except BaseException as error:
            kept = error
        for _ in raising_behind(kept):
            return broken
        raise AssertionError("the iterator has one step")

    return prototype(call)


def address_of(function: Any) -> int:
    """Return the address of a function of ctypes."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0
