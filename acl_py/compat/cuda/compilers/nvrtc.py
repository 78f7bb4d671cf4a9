"""NVRTC, interposed: a program that asks it for machine code gets the PTX of the same source, in a wrapper.

The library that is written here has NVRTC's soname, so the loader gives it to programs. Its functions go to the user's
own NVRTC, which the compilers' wheel has brought, except for the two that give out machine code. It is loaded with the
first call.
"""

import ctypes
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from acl_py.compat.cuda.compilers.guarded import address_of, guarded
from acl_py.compat.cuda.compilers.wheels import library
from acl_py.compat.cuda.face.wrappers import wrapped
from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.library.loading import Library

_PLACES = ("nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
_FUNCTIONS = (
    "GetErrorString", "Version", "GetNumSupportedArchs", "GetSupportedArchs", "CreateProgram", "DestroyProgram",
    "CompileProgram", "GetPTXSize", "GetPTX", "GetCUBINSize", "GetCUBIN", "GetLTOIRSize", "GetLTOIR", "GetNVVMSize",
    "GetNVVM", "GetOptiXIRSize", "GetOptiXIR", "GetProgramLogSize", "GetProgramLog", "AddNameExpression",
    "GetLoweredName", "GetPCHHeapSize", "SetPCHHeapSize", "GetPCHCreateStatus", "GetPCHHeapSizeRequired",
    "SetFlowCallback",
)  # fmt: skip
_SUCCESS, _INVALID_INPUT, _INTERNAL_ERROR = 0, 3, 11
_OURS = "nvrtcGetCUBINSize", "nvrtcGetCUBIN"
# Of all functions: none has more arguments, one gives a pointer, and what is more than that is not looked at.
_Any = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * 6)
_Getter = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64)  # of a program, and a place for the result


class _Interposed:
    """NVRTC from the file *path* behind a library of ours."""

    def __init__(self, path: Path) -> None:
        # Ours comes first: of two libraries with one soname the loader gives out the one that it has loaded first.
        self._library = Library((path.name,), [f"nvrtc{name}" for name in _FUNCTIONS], _INTERNAL_ERROR)
        self._path = path
        self._callbacks = {
            f"nvrtc{name}": guarded(
                _Any, partial(self._first, f"nvrtc{name}"), fault=_INVALID_INPUT, broken=_INTERNAL_ERROR
            )
            for name in _FUNCTIONS
        } | {
            name: guarded(_Getter, function, fault=_INVALID_INPUT, broken=_INTERNAL_ERROR)
            for name, function in zip(_OURS, (self._size, self._image), strict=True)
        }
        for name, callback in self._callbacks.items():
            self._library.put(name, address_of(callback))

    @cached_property
    def _real(self) -> ctypes.CDLL:
        """The user's NVRTC, whose functions take the places of those for which there is none of ours."""
        # NVRTC opens its functions for kernels by their name alone, which the loader finds if they are loaded already.
        self._builtins = [ctypes.CDLL(str(file)) for file in self._path.parent.glob("libnvrtc-builtins.so.*")]
        real = ctypes.CDLL(str(self._path))
        for name in self._callbacks.keys() - _OURS:
            if hasattr(real, name):
                self._library.put(name, address_of(real[name]))
        return real

    def _first(self, name: str, *raw: int) -> int:
        """Answer the first call, and those that have begun before it was over."""
        if not hasattr(self._real, name):
            return _INTERNAL_ERROR
        return int(_Any(address_of(self._real[name]))(*raw))

    def _size(self, program: int, place: int) -> int:
        return self._give(program, place, lambda image: len(image).to_bytes(8, "little"))

    def _image(self, program: int, place: int) -> int:
        return self._give(program, place, lambda image: image)

    def _give(self, program: int, place: int, what: Any) -> int:
        code, image = self._compiled(program)
        if code == _SUCCESS:
            own_memory.write(place, what(image))
        return code

    def _compiled(self, program: int) -> tuple[int, bytes]:
        """Return a code of NVRTC, and what stands for the machine code of *program*: nothing, if it has none."""
        size = ctypes.c_size_t()
        handle = ctypes.c_void_p(program)
        code = self._real.nvrtcGetCUBINSize(handle, ctypes.byref(size))
        if code or not size.value:
            return code, b""
        code = self._real.nvrtcGetPTXSize(handle, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        return code or self._real.nvrtcGetPTX(handle, text), wrapped(text.value)


@cache
def interpose() -> _Interposed | None:
    """Put NVRTC behind a library of ours, once; None if no wheel has brought it."""
    path = library(*_PLACES)
    return None if path is None else _Interposed(path)
