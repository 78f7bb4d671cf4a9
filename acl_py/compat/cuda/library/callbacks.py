"""Callbacks: what C calls for a function of a library, in Python.

A program that loads the library may call few of its functions, or none. So a function may be a `Late` one, whose first
call imports what its calls need, and makes the callback that answers from then on.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from types import FunctionType, MethodType
from typing import Any

from acl_py.compat.cuda.library.behind import MINUS_ONE, ZERO, SettingAgain, raising_behind, undisturbed
from acl_py.compat.cuda.library.signatures import Parameter, Signature

Answer = Callable[..., int]  # of what C has passed


class Extent(ctypes.Structure):
    """cudaExtent."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("width", "height", "depth"))


class PitchedPointer(ctypes.Structure):
    """cudaPitchedPtr."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("address", "pitch", "width", "height"))


STRUCTURES: dict[str, Any] = {"b64": ctypes.c_ubyte * 64, "extent": Extent, "pitched": PitchedPointer}
_C_TYPES: dict[str, Any] = STRUCTURES | {
    "u1": ctypes.c_uint8, "u2": ctypes.c_uint16, "u4": ctypes.c_uint32, "i4": ctypes.c_int32, "f4": ctypes.c_float,
}  # fmt: skip


def callback_of(signature: Signature, answer: Answer) -> Any:
    """Return what C calls for the function of *signature*, which *answer* answers, a function with its own code or a
    method: it must be kept alive.
    """
    function: Any = getattr(answer, "__func__", answer)
    # The name of the file tells reports which function was called: see sites.py.
    file = f"{function.__globals__['__file__']}: {signature.name}"
    code = _undisturbed(function.__code__).replace(co_filename=file)
    own: Any = FunctionType(code, function.__globals__, signature.name)
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, *map(_c_type, signature.parameters))
    return prototype(MethodType(own, answer.__self__) if isinstance(answer, MethodType) else own)


_undisturbed = cache(undisturbed)


def address_of(callback: Any) -> int:
    """Return the address at which C finds a *callback*."""
    return ctypes.cast(callback, ctypes.c_void_p).value or 0


def _c_type(parameter: Parameter) -> Any:
    return ctypes.c_uint64 if parameter.is_out else _C_TYPES.get(parameter.kind, ctypes.c_uint64)


class Late:
    """A function whose answer *make* makes when it is first called; a call that an exception ends returns *failed*."""

    def __init__(self, make: Callable[[], Answer], failed: int) -> None:
        self._make = make
        self._failed = failed

    def answer(self, *raw: Any) -> int:
        """Make the answer, and let it answer this call; later ones come here only if they have begun already."""
        try:
            ZERO % MINUS_ONE
        except BaseException as error:
            return SettingAgain.of(self.answer(*raw), error)
        try:
            return self._make()(*raw)
        except BaseException as error:
            kept = error
        for _ in raising_behind(kept):
            return self._failed
        raise AssertionError("the iterator has one step")
