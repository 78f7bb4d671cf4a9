"""Host memory of others: arrays, buffers and bare addresses, read as bytes without a risk to the process.

A script may pass any address, and a wrong one must become an error code, not a crash. So before bytes at a bare address
are touched, the system is asked whether the range is mapped with the permissions needed.
"""

import ctypes
import errno
import mmap
import os
import sys
from bisect import bisect_right
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

_MS_ASYNC = 1  # the same on Linux, macOS and the BSDs
_FAR = 1 << 64
_WRITABLE = 0x200  # PyBUF_WRITE


def address_of(array: npt.NDArray[Any]) -> int:
    """Return the real address of a contiguous array's first byte."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))  # a fifth of the cost of the line below
    except (TypeError, ValueError):  # read-only, empty, or of a dtype without a letter in the buffer protocol
        return int(array.__array_interface__["data"][0])


def bytes_of(array: npt.NDArray[Any]) -> memoryview:
    """Return the bytes of a contiguous array; read-only if the array is."""
    try:
        return array.data.cast("B")  # a quarter of the cost of the line below
    except (TypeError, ValueError):  # empty, or of a dtype that memoryview cannot cast: float16, complex, records
        return array.reshape(-1).view(np.uint8).data


def as_array(thing: object) -> npt.NDArray[Any] | None:
    """Return *thing* as an array over the same bytes, or None if it is neither an array nor a buffer.

    Raises:
        BufferError: The buffer is not contiguous.
    """
    if isinstance(thing, np.ndarray):
        return plain(thing)
    try:
        view = memoryview(thing)  # type: ignore[arg-type]
    except TypeError:
        return None
    if not view.c_contiguous:
        raise BufferError("not contiguous")
    return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)


def plain(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return *array* without its subclass, over the same bytes."""
    return array if type(array) is np.ndarray else np.ndarray.view(array, np.ndarray)


def as_address(thing: object) -> int | None:
    """Return *thing* as an address, or None if it is not one."""
    if isinstance(thing, int | np.integer):
        return int(thing)
    if isinstance(thing, ctypes.c_void_p):
        return thing.value or 0
    return None


class _Range:
    """Bytes at an address, in the form that NumPy turns into an array over them."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}


def array_at(address: int, nbytes: int) -> npt.NDArray[np.uint8]:
    """Return an array over bare memory; the caller has made sure that the range exists and keeps it mapped."""
    return np.asarray(_Range(address, nbytes))


def view_at(address: int, nbytes: int) -> memoryview:
    """Return bare memory as bytes, at a third of the cost of `array_at`, and on the same conditions."""
    view: memoryview = _memory_view()(address, nbytes, _WRITABLE)
    return view


@cache
def _memory_view() -> Any:
    function = ctypes.pythonapi.PyMemoryView_FromMemory
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int), ctypes.py_object
    return function


def is_writable(address: int, nbytes: int) -> bool:
    """Whether this process may write all of a range; asks the system and touches no memory."""
    return _is_there(address, nbytes, "rw")


def is_readable(address: int, nbytes: int) -> bool:
    """Whether this process may read all of a range; asks the system and touches no memory."""
    return _is_there(address, nbytes, "r")


def _is_there(address: int, nbytes: int, permissions: str) -> bool:
    end = address + nbytes
    if address <= 0 or nbytes <= 0 or end >= 1 << 63:
        return False
    if sys.platform == "emscripten":  # the memory of WebAssembly is one range without permissions
        return end <= int(ctypes.CDLL(None).emscripten_get_heap_size())
    if sys.platform != "linux":
        return hasattr(os, "fork") and is_mapped(address, nbytes)
    known = _is_in(_spans[permissions], address, end) and is_mapped(address, nbytes)
    return known or _is_in(_look_again(permissions), address, end)


# The ranges [first, end) that had these permissions when the system's list was last read. Reading it takes 200 us, so
# it is read only for a range that is new. A known range only has to be mapped still, which one system call tells.
# Memory that the program has made read-only since then is taken for writable.
_spans: dict[str, list[tuple[int, int]]] = {"r": [], "rw": []}


def _look_again(permissions: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:
            span, given = line.split(maxsplit=2)[:2]
            if given.startswith(permissions):
                first, end = (int(bound, 16) for bound in span.split("-"))
                if spans and spans[-1][1] == first:
                    first = spans.pop()[0]
                spans.append((first, end))
    _spans[permissions] = spans
    return spans


def _is_in(spans: list[tuple[int, int]], address: int, end: int) -> bool:
    place = bisect_right(spans, (address, _FAR)) - 1
    return place >= 0 and end <= spans[place][1]


def is_mapped(address: int, nbytes: int) -> bool:
    """Whether all of a range is mapped, according to POSIX `msync`."""
    first = address - address % mmap.PAGESIZE
    msync = _msync()
    if msync(first, address + nbytes - first, _MS_ASYNC) == 0:
        return True
    code = ctypes.get_errno()
    assert code == errno.ENOMEM, f"msync failed with {errno.errorcode.get(code, code)}"
    return False


@cache
def _msync() -> Any:
    msync = ctypes.CDLL(None, use_errno=True).msync
    msync.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return msync
