"""Memory of a card as DLPack has it, the protocol in which torch, CuPy and JAX hand arrays to one another.

A capsule holds a DLManagedTensor in one block of memory, which a function of C frees: the last owner may be in any
thread. The hundred bytes of a capsule that nothing takes over stay, because a destructor in Python may not run while an
exception is on its way. A capsule does not keep the memory of the card, which is the program's until it frees it.
"""

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_CUDA = 2  # a DLDeviceType
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # DLDataTypeCode, by the kinds of NumPy
_BFLOAT = 4
_NAME = b"dltensor"
_LEGACY = 1
_NO_ORDER = -1  # the consumer orders the work itself


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


def _of_python(name: str, *types: Any) -> Any:
    """Return a function of Python's own library, with the *types* of its result and its arguments."""
    return ctypes.PYFUNCTYPE(*types)((name, ctypes.pythonapi))


_P, _S = ctypes.c_void_p, ctypes.c_char_p
_malloc = _of_python("PyMem_RawMalloc", _P, ctypes.c_size_t)
_free = _of_python("PyMem_RawFree", None, _P)
_new_capsule = _of_python("PyCapsule_New", ctypes.py_object, _P, _S, _P)


def consumer(stream: Any) -> int | None:
    """Return the driver's stream in which the consumer will work; None if it orders the work itself.

    Raises:
        ValueError: *stream* is none that the protocol has for CUDA.
    """
    if stream is None:
        return _LEGACY
    if isinstance(stream, bool) or not isinstance(stream, int) or stream < _NO_ORDER or stream == 0:
        raise ValueError(f"stream={stream!r} of __dlpack__(): give the driver's handle of a stream, 1, 2, -1 or None")
    return None if stream == _NO_ORDER else stream


def check_request(device: int, dl_device: Any, copy: bool | None) -> None:
    """Refuse what only a copy could give.

    Raises:
        BufferError: The consumer wants a copy, or the array on another device.
    """
    if copy:
        raise BufferError("copy=True of __dlpack__(): memory of acl_py is handed over as it is; use MemcpyAsync()")
    if dl_device is not None and tuple(map(int, dl_device)) != (_CUDA, device):
        raise BufferError(f"dl_device={dl_device} of __dlpack__(): the memory is on {(_CUDA, device)}")


def capsule(address: int, device: int, dtype: "np.dtype[Any]", shape: Sequence[int]) -> object:
    """Return values of *dtype* at *address* of card number *device* as a capsule.

    Raises:
        BufferError: DLPack has no such type.
    """
    code = _BFLOAT if dtype.name == "bfloat16" else _CODES.get(dtype.kind)
    if code is None or dtype.fields or not dtype.isnative:
        raise BufferError(f"DLPack has no type for {dtype}")
    ndim, size = len(shape), ctypes.sizeof(_Tensor)
    block = _malloc(size + 16 * ndim)
    if not block:
        raise MemoryError
    lengths = (ctypes.c_int64 * (2 * ndim)).from_address(block + size)
    lengths[:] = [*shape, *_strides(shape)]
    free = ctypes.cast(_free, ctypes.c_void_p).value
    held = _Tensor(
        address, _CUDA, device, ndim, code, 8 * dtype.itemsize, 1, block + size, block + size + 8 * ndim, 0, None, free
    )
    ctypes.memmove(block, ctypes.byref(held), size)
    made: object = _new_capsule(block, _NAME, None)
    return made


def _strides(shape: Sequence[int]) -> list[int]:
    """Return the distances of neighbours along each dimension, in elements."""
    strides, distance = [], 1
    for length in reversed(shape):
        strides.append(distance)
        distance *= length
    return strides[::-1]
