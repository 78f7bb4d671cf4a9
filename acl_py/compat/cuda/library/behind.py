"""Exceptions in a callback: they are raised behind it, in the Python code that has called C."""

import ctypes
import threading
from collections.abc import Iterator

_set = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set.argtypes = ctypes.c_ulong, ctypes.py_object


def raising_behind(error: BaseException) -> Iterator[int]:
    """Return an iterator whose first step lets *error* be raised in the calling thread.

    The callback takes this step with `for`, and returns inside of it. The interpreter looks for such an exception when
    a function has been called and when a loop jumps back. In between it does not, so the callback ends first.
    """
    # The interpreter takes a class, and makes the exception of it: here one that it has already.
    kept = type("Kept", (BaseException,), {"__new__": lambda *_: error})
    return map(_set, (threading.get_ident(),), (kept,))
