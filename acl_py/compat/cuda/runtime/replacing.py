"""The package's functions, replaced.

cuda.bindings.runtime takes its functions in C from the module cuda.bindings.cyruntime, which has a capsule with the
address of each. When that module has been imported, these addresses become those of a library that is written here.
Its functions come here while the driver lives.
"""

import ctypes
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from acl_py.compat.cuda.face import codes, exports
from acl_py.compat.cuda.library.callbacks import Answer, Late, address_of, callback_of
from acl_py.compat.cuda.library.loading import Library
from acl_py.compat.cuda.library.signatures import Signature, signature
from acl_py.compat.cuda.runtime.table import function_of
from acl_py.late_imports import import_late

MODULE = "cuda.bindings.cyruntime"
_SONAME = "libacl_py_runtime.so"
_OWN = ("cudaRuntimeGetVersion", "getLocalRuntimeVersion")  # these need no driver, and stay the package's
_PER_THREAD = "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM"  # the variable with which the package names stream 0
_get_name = ctypes.pythonapi.PyCapsule_GetName
_get_name.argtypes, _get_name.restype = (ctypes.py_object,), ctypes.c_char_p
_set_pointer = ctypes.pythonapi.PyCapsule_SetPointer
_set_pointer.argtypes, _set_pointer.restype = (ctypes.py_object, ctypes.c_void_p), ctypes.c_int


_made: list["Functions"] = []


class Functions:
    """Functions of the runtime in this process; *counts* says how many arguments a program passes to each."""

    def __init__(self, counts: Mapping[str, int], *, is_per_thread: bool) -> None:
        self._counts = counts
        self._is_per_thread = is_per_thread
        self._callbacks = {name: self._late(name) for name in counts}
        self._kept = list(self._callbacks.values())  # C may hold them anywhere
        # Private: other libraries look for the vendor's names.
        self._library = Library((_SONAME,), list(counts), codes.NOT_INITIALIZED, is_private=True)
        os.register_at_fork(after_in_child=self._end_in_child)
        _made.append(self)

    def _late(self, name: str) -> Any:
        return callback_of(self._signature(name), Late(partial(self._answer_of, name), codes.UNKNOWN).answer)

    def _signature(self, name: str) -> Signature:
        function = function_of(name, self._counts[name])
        return signature(name, ()) if function is None else function.signature

    def _answer_of(self, name: str) -> Answer:
        """Return what answers the first call of the function *name*, and let it answer all later ones."""
        entries = import_late(f"{__package__}.entries")
        answer: Answer = entries.answer_of(name, self._counts[name], is_per_thread=self._is_per_thread)
        self._callbacks[name] = callback_of(self._signature(name), answer)
        self._kept.append(self._callbacks[name])
        if self._library.has(name):
            self._put(name)
        return answer

    def _put(self, name: str) -> None:
        self._library.put(name, address_of(self._callbacks[name]))

    def put(self) -> None:
        """Let calls come here from now on, unless this process can have no driver."""
        if exports.is_ended():
            return
        for name in self._callbacks:
            self._put(name)

    def _end_in_child(self) -> None:
        if exports.is_ended():
            self.clear(codes.NOT_INITIALIZED)

    def clear(self, answer: int) -> None:
        """Let all functions answer *answer* from now on; no Python runs then."""
        self._library.clear(answer)

    def address(self, name: str) -> int:
        """Return the address of the function *name*."""
        return self._library.address(name)


def functions(counts: Mapping[str, int]) -> Functions:
    """Return functions of the runtime by name, in place; *counts* says how many arguments a program passes to each."""
    is_per_thread = os.environ.get(_PER_THREAD, "0") not in ("", "0")
    made = Functions(counts, is_per_thread=is_per_thread)
    made.put()
    return made


def replace(capsules: Mapping[str, Any]) -> None:
    """Put our functions in the place of those in *capsules*, by name."""
    signatures = {name: (_get_name(capsule) or b"").decode() for name, capsule in capsules.items()}
    codes_of = {name: each for name, each in signatures.items() if each.startswith("cudaError_t") and name not in _OWN}
    made = functions({name: _count(each) for name, each in codes_of.items()})
    for name in codes_of:
        _set_pointer(capsules[name], made.address(name))


def _count(signature: str) -> int:
    """Return how many arguments a function in C has."""
    arguments = signature.partition("(")[2].removesuffix(")")
    return 0 if arguments == "void" else arguments.count(",") + 1


def put() -> None:
    """Let calls of all functions that were replaced come here from now on."""
    for each in _made:
        each.put()


def clear(answer: int) -> None:
    """Let all functions that were replaced answer *answer* from now on."""
    for each in _made:
        each.clear(answer)
