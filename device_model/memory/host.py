"""Host memory that others made: arrays, buffers and bare addresses, seen as bytes without a risk to the process."""

import ctypes
import errno
import mmap
import os
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

_MS_ASYNC = 1  # the same on Linux, macOS and the BSDs


def address_of(array: npt.NDArray[Any]) -> int:
    """Return the real address of a contiguous array's first byte."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))  # a fifth of the cost of what follows
    except (TypeError, ValueError):  # read-only, empty, or of a dtype that the buffer protocol has no letter for
        return int(array.__array_interface__["data"][0])


def bytes_of(array: npt.NDArray[Any]) -> memoryview:
    """Return the bytes of a contiguous array; read-only if the array is."""
    try:
        return array.data.cast("B")  # a quarter of the cost of what follows
    except (TypeError, ValueError):  # empty, or of a dtype that memoryview cannot cast: float16, complex, records
        return array.reshape(-1).view(np.uint8).data


def as_array(thing: object) -> npt.NDArray[Any] | None:
    """Return *thing* as an array over the same bytes, or None if it is neither array nor buffer.

    Raises:
        BufferError: it is a buffer, but not a contiguous one.
    """
    if isinstance(thing, np.ndarray):
        return thing
    try:
        view = memoryview(thing)  # type: ignore[arg-type]
    except TypeError:
        return None
    if not view.c_contiguous:
        raise BufferError("not contiguous")
    return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)


def as_address(thing: object) -> int | None:
    """Return the address that *thing* stands for, or None if it is something else."""
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
    """Return an array over bare memory; whoever asks has made sure that it is there and stays there."""
    return np.asarray(_Range(address, nbytes))


def is_writable(address: int, nbytes: int) -> bool:
    """Whether all of a range is memory that this process may write; asks the system, touches nothing."""
    if address <= 0 or nbytes <= 0 or address + nbytes >= 1 << 63:
        return False
    if sys.platform == "linux":
        return _is_in_maps(address, address + nbytes)
    return hasattr(os, "fork") and is_mapped(address, nbytes)


def _is_in_maps(address: int, end: int) -> bool:
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:
            span, permissions = line.split(maxsplit=2)[:2]
            first, last = (int(bound, 16) for bound in span.split("-"))
            if first <= address < last:
                if not permissions.startswith("rw"):
                    return False
                address = last
            if address >= end:
                return True
    return False


def is_mapped(address: int, nbytes: int) -> bool:
    """Whether all of a range is mapped, as POSIX `msync` tells: what is left where there is no /proc."""
    first = address - address % mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    length = ctypes.c_size_t(address + nbytes - first)
    if libc.msync(ctypes.c_void_p(first), length, _MS_ASYNC) == 0:
        return True
    code = ctypes.get_errno()
    assert code == errno.ENOMEM, f"msync failed with {errno.errorcode.get(code, code)}"
    return False
