"""acl.util: addresses of host memory, and host memory at an address."""

import ctypes
import warnings
from math import prod
from sys import _getframe, getrefcount
from typing import Any

import numpy as np

from acl_py.compat.acl.face.binding import WrongContainerError, takes
from acl_py.compat.acl.face.host_objects import objects
from acl_py.compat.acl.face.session import session
from acl_py.sites import site_of
from device_model.memory import DEVICE_BASE
from device_model.memory.host import address_of, array_at, is_readable, plain

# NumPy's type numbers, which scripts write down as such.
_TYPES: dict[int, np.dtype[Any]] = {np.dtype(char).num: np.dtype(char) for char in "?bBhHiIlLqQefdgFDG"}


def _alone() -> int:
    """How many references an argument has that only the call itself keeps."""

    @takes("O")
    def references(data: Any) -> int:
        return getrefcount(data)

    return references(bytes(2))


_ALONE = _alone()


def _note(references: int, name: str, data: Any) -> None:
    """Note that the address of *data* was taken. If only the call itself has *references* to it, it is a temporary, and
    that is a finding.
    """
    site, is_temporary = site_of(_getframe(1)), references <= _ALONE
    objects.add(data, f"acl.util.{name}", site, is_temporary=is_temporary)
    if is_temporary:
        what = "takes the address of a temporary, whose memory is free again at once: keep the temporary in a variable"
        session().warn_once(f"acl.util.{name}() at {site} {what}")


@takes("y")
def bytes_to_ptr(data: bytes) -> int:
    """The address inside *data*; scripts write there, although bytes are immutable, and read it back. Keep *data* in a
    variable: it is kept alive here for a few calls only.
    """
    address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
    if not objects.is_known(address, data):
        _note(getrefcount(data), "bytes_to_ptr", data)
    return address


def _check_host(name: str, address: int, nbytes: int) -> None:
    """Refuse addresses that would crash the process; the vendor's binding does not check them."""
    if address >= DEVICE_BASE:
        what = f"acl.util.{name}: {address:#x} is device memory; copy it to the host with acl.rt.memcpy() first"
        raise ValueError(what)
    session().check_extent(address, nbytes)
    if nbytes and not (address and is_readable(address, nbytes)):
        raise ValueError(f"acl.util.{name}: the host has no {nbytes} bytes at {address:#x}")


@takes("kk")
def ptr_to_bytes(address: int, size: int) -> bytes:
    """A copy of *size* bytes of host memory; ValueError if there are none."""
    _check_host("ptr_to_bytes", address, size)
    return _bytes_at(address, size).tobytes() if size else b""


def _check_array(name: str, array: object) -> None:
    if not isinstance(array, np.ndarray):
        raise WrongContainerError(f"acl.util.{name} needs an ndarray as argument, not {type(array).__name__}")


@takes("O")
def numpy_to_ptr(array: Any) -> int:
    """The address of the array's first value; keep the array yourself. Deprecated by the vendor."""
    _check_array("numpy_to_ptr", array)
    what = "acl.util.numpy_to_ptr will be deprecated; use acl.util.bytes_to_ptr"
    warnings.warn(what, DeprecationWarning, stacklevel=3)
    if not array.flags.forc:
        what = "acl.util.numpy_to_ptr of an array that is not contiguous: its values do not follow each other there"
        warnings.warn(what, stacklevel=3)
    # A view may well be a temporary: it keeps nothing that its array would not.
    _note(getrefcount(array) if array.base is None else _ALONE + 1, "numpy_to_ptr", array)
    return address_of(plain(array))


@takes("O")
def numpy_contiguous_to_ptr(array: Any) -> tuple[int, Any]:
    """The address of a contiguous array with the same values, and that array: the same one if it is contiguous."""
    _check_array("numpy_contiguous_to_ptr", array)
    contiguous = np.ascontiguousarray(array)
    _note(_ALONE + 1, "numpy_contiguous_to_ptr", contiguous)  # the caller gets it
    return address_of(plain(contiguous)), contiguous


@takes("kOi")
def ptr_to_numpy(address: int, shape: Any, type_number: int) -> Any:
    """An array over host memory: a view, which keeps alive what malloc_host gave, and nothing else. *type_number* is
    NumPy's; ValueError if there is no such memory.
    """
    if not isinstance(shape, tuple) or not all(isinstance(length, int) for length in shape):
        raise WrongContainerError("acl.util.ptr_to_numpy args parse failed: the second argument is not a tuple of ints")
    dtype = _TYPES.get(type_number)
    if dtype is None or any(length < 0 for length in shape):
        raise ValueError(f"acl.util.ptr_to_numpy: there is no array of shape {shape} and type number {type_number}")
    nbytes = prod(shape) * dtype.itemsize
    _check_host("ptr_to_numpy", address, nbytes)
    if not nbytes:
        return np.empty(shape, dtype)
    return _bytes_at(address, nbytes).view(dtype).reshape(shape)


def _bytes_at(address: int, nbytes: int) -> np.ndarray[Any, Any]:
    """Those of pinned memory keep it mapped for as long as they live: scripts look at them after free_host()."""
    here = session()
    with here.turn_here():
        allocation = here.runtime.memory.holder(address)
    offset = 0 if allocation is None else address - allocation.address
    if allocation is None or offset + nbytes > allocation.nbytes:
        return array_at(address, nbytes)
    array = np.frombuffer(allocation.view[offset : offset + nbytes], np.uint8)
    watch = here.runtime.memory.watch_view
    return array if watch is None else watch(allocation, array)
