"""NVRTC, interposed: a program that asks it for machine code gets the PTX of the same source, in a wrapper.

The library that is written here has NVRTC's soname, so the loader gives it to programs. Its functions go to the user's
own NVRTC, which the compilers' wheel has brought, except for the two that give out machine code.
"""

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

from acl_py.compat.cuda.face.images import wrapped
from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.library.behind import raising_behind
from acl_py.compat.cuda.library.loading import Library

_WHEELS = ("nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")  # where they have the library
_FUNCTIONS = (
    "GetErrorString", "Version", "GetNumSupportedArchs", "GetSupportedArchs", "CreateProgram", "DestroyProgram",
    "CompileProgram", "GetPTXSize", "GetPTX", "GetCUBINSize", "GetCUBIN", "GetLTOIRSize", "GetLTOIR", "GetNVVMSize",
    "GetNVVM", "GetOptiXIRSize", "GetOptiXIR", "GetProgramLogSize", "GetProgramLog", "AddNameExpression",
    "GetLoweredName", "GetPCHHeapSize", "SetPCHHeapSize", "GetPCHCreateStatus", "GetPCHHeapSizeRequired",
    "SetFlowCallback",
)  # fmt: skip
_SUCCESS, _INVALID_INPUT, _INTERNAL_ERROR = 0, 3, 11
_Getter = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64)  # of a program, and a place for the result


class _Interposed:
    """NVRTC from the file *path* behind a library of ours."""

    def __init__(self, path: Path) -> None:
        # Ours comes first: of two libraries with one soname the loader gives out that which it has loaded first.
        library = Library((path.name,), [f"nvrtc{name}" for name in _FUNCTIONS], _INTERNAL_ERROR)
        # NVRTC opens its functions for kernels by their name alone, which the loader finds if they are loaded already.
        self._builtins = [ctypes.CDLL(str(file)) for file in path.parent.glob("libnvrtc-builtins.so.*")]
        self._real = ctypes.CDLL(str(path))
        for name in _FUNCTIONS:
            if hasattr(self._real, f"nvrtc{name}"):
                library.put(f"nvrtc{name}", _address_of(self._real[f"nvrtc{name}"]))
        self._callbacks = {"nvrtcGetCUBINSize": _Getter(self._size), "nvrtcGetCUBIN": _Getter(self._image)}
        for name, callback in self._callbacks.items():
            library.put(name, _address_of(callback))

    def _size(self, program: int, place: int) -> int:
        return self._give(program, place, lambda image: len(image).to_bytes(8, "little"))

    def _image(self, program: int, place: int) -> int:
        return self._give(program, place, lambda image: image)

    def _give(self, program: int, place: int, what: Any) -> int:
        try:
            code, image = self._compiled(program)
            if code == _SUCCESS:
                own_memory.write(place, what(image))
            return code
        except own_memory.FaultError:
            return _INVALID_INPUT
        except BaseException as error:
            kept = error
        for _ in raising_behind(kept):
            return _INTERNAL_ERROR
        raise AssertionError("the iterator has one step")

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


def _address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@cache
def interpose() -> _Interposed | None:
    """Put NVRTC behind a library of ours, once; None if no wheel has brought it."""
    paths = (Path(folder, wheel) for folder in sys.path for wheel in _WHEELS)
    found = next((path for path in paths if path.is_file()), None)
    return None if found is None else _Interposed(found)
