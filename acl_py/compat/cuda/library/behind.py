"""Exceptions around a callback: those that it raises, and those with which C calls it.

What a callback raises is raised behind it, in the Python code that has called C.

C may call while an exception is on its way through the thread: a destructor in C++ ends an object of the driver then.
Functions of the interpreter must not run so. The exception is taken first, and is set again when the callback has
ended: not earlier, because the way back to C would lose it. There an object ends last that holds a capsule, and a
capsule calls a function in C.
"""

import ctypes
import threading
from collections.abc import Iterator
from dis import opmap
from functools import cache
from types import CodeType
from typing import Any

from acl_py.compat.cuda.library.loading import Library

_set = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set.argtypes = ctypes.c_ulong, ctypes.py_object
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes, _new_capsule.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object
_NAME = "acl_py_set_exception"

# A callback first computes `ZERO % MINUS_ONE`: that raises the exception that is on its way, if there is one, because
# -1 may stand for a number whose conversion has failed. No other is raised there, as those of `raising_behind` are
# behind a call.
ZERO, MINUS_ONE = 0.0, -1

_BEHIND_YIELD_FROM = 2  # where a function goes on; the interpreter begins with nothing else there


def undisturbed(code: CodeType) -> CodeType:
    """Return *code* that begins at once: the interpreter first collects garbage otherwise, which loses an exception."""
    data = bytearray(code.co_code)
    begin = next(at for at in range(0, len(data), 2) if data[at] == opmap["RESUME"])
    data[begin + 1] = _BEHIND_YIELD_FROM
    return code.replace(co_code=bytes(data))


def raising_behind(error: BaseException) -> Iterator[int]:
    """Return an iterator whose first step lets *error* be raised in the calling thread.

    The callback takes this step with `for`, and returns inside of it. The interpreter looks for such an exception when
    a function has been called and when a loop jumps back. In between it does not, so the callback ends first.
    """
    # The interpreter takes a class, and makes the exception of it: here one that it has already.
    kept = type("Kept", (BaseException,), {"__new__": lambda *_: error})
    return map(_set, (threading.get_ident(),), (kept,))


class SettingAgain(int):
    """What a callback returns to set an exception again: a number for C, at whose end that happens."""

    capsule: Any
    error: BaseException

    @classmethod
    def of(cls, number: int, error: BaseException) -> "SettingAgain":
        """Return *number*, at whose end *error* is set."""
        result = cls(number)
        result.capsule = _new_capsule(id(error), None, _setter())
        result.error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)  # without the callback
        return result  # attributes end in their order: the capsule ends before the exception that it points to


@cache
def _setter() -> int:
    """Return the address of the function that a capsule calls."""
    library = Library((f"lib{_NAME}.so",), (_NAME,), 0, takes_capsules=True)
    library.put(_NAME, ctypes.cast(ctypes.pythonapi.PyErr_SetObject, ctypes.c_void_p).value or 0)
    return library.address(_NAME)
