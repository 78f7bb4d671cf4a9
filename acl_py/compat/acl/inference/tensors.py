"""Tensors of `aclruntime`: arrays in the memory of the host, or of a device."""

from collections.abc import Sequence
from enum import IntEnum
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from acl_py.compat.acl.face.dtypes import DATA_TYPES, dtype_of
from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.functions.rt import copies, memory
from acl_py.compat.acl.inference.answers import done, made, ms_since, now_ns
from acl_py.compat.acl.inference.opened import enter
from device_model.dtypes import as_dtype

_HUGE_FIRST = 0
_HOST_TO_DEVICE, _DEVICE_TO_HOST = 1, 2


class _Named(IntEnum):
    """Numbers whose text is their name, as in "dtype.float32"."""

    def __str__(self) -> str:
        return f"{type(self).__name__.rstrip('_')}.{self.name}"


class dtype(_Named):  # noqa: N801 - the vendor's name
    """The types of elements, with their aclDataType."""

    float32 = 0
    float16 = 1
    int8 = 2
    int32 = 3
    uint8 = 4
    int16 = 6
    uint16 = 7
    uint32 = 8
    int64 = 9
    uint64 = 10
    double = 11
    bool = 12


class type_(_Named):  # noqa: N801 - the vendor's name
    """The kinds of memory of tensors."""

    memory_host = 0
    memory_device = 1
    memory_dvpp = 2


def dtype_named(number: int) -> Any:
    """Return the `dtype` of an aclDataType; the plain number if it has none."""
    try:
        return dtype(number)
    except ValueError:
        return number


class _Times:
    """How long the copies of a runtime took, in milliseconds."""

    def __init__(self) -> None:
        self.to_device: list[float] = []
        self.to_host: list[float] = []


def _times() -> _Times:
    return session().runtime.state(_Times)


class MemorySummary:
    """How long the copies of tensors took: H2D_time_list and D2H_time_list, in milliseconds of simulated time."""

    @property
    def H2D_time_list(self) -> list[float]:
        """The copies to devices."""
        return list(_times().to_device)

    @property
    def D2H_time_list(self) -> list[float]:
        """The copies to the host."""
        return list(_times().to_host)

    def reset(self) -> None:
        """Forget them."""
        _times().to_device.clear()
        _times().to_host.clear()


class BaseTensor:
    """An address of memory of the host, and a number of bytes."""

    def __init__(self, buf: int, size: int) -> None:
        self.buf = buf
        self.size = size


def to_new_memory(address: int, nbytes: int) -> int:
    """Copy *nbytes* of the host at *address* to new memory of the current device, and return its address."""
    target: int = made(memory.malloc(nbytes, _HUGE_FIRST), f"the allocation of {nbytes} bytes on the device")
    begin = now_ns()
    ret = copies.memcpy(target, nbytes, address, nbytes, _HOST_TO_DEVICE)
    _times().to_device.append(ms_since(begin))
    if ret:
        memory.free(target)
    done(ret, f"the copy of {nbytes} bytes to the device")
    return target


class Tensor:
    """An array in memory of the host, which `to_device` and `to_host` move; np.array() reads one of the host."""

    def __init__(self, array: npt.ArrayLike) -> None:
        values = np.array(array, order="C")
        if values.dtype.name not in DATA_TYPES:
            values = values.view(np.uint8)
        self._begin(tuple(values.shape), values.dtype)
        self._array: npt.NDArray[Any] | None = values

    def _begin(self, shape: Sequence[int], kind: np.dtype[Any]) -> None:
        self._shape = tuple(shape)
        self._kind = kind
        self._array = None
        self._runtime = session().runtime
        self._address = 0
        self._device = -1

    @classmethod
    def on_device(cls, address: int, shape: Sequence[int], number: int, device: int) -> "Tensor":
        """Return the tensor at *address* of *device*, which it frees at its end; *number* is its aclDataType."""
        tensor = cls.__new__(cls)
        tensor._begin(shape, dtype_of(number) or np.dtype(np.uint8))
        tensor._address, tensor._device = address, device
        return tensor

    @property
    def shape(self) -> list[int]:
        """Its dims."""
        return list(self._shape)

    @property
    def dtype(self) -> Any:
        """The type of its elements."""
        return dtype_named(DATA_TYPES[str(self._kind)])

    @property
    def device(self) -> int:
        """The device that it is on; -1 is the host."""
        return self._device

    @property
    def type(self) -> Any:
        """The memory that it is in."""
        return type_.memory_host if self._device < 0 else type_.memory_device

    @property
    def kind(self) -> np.dtype[Any]:
        """The NumPy type of its elements."""
        return self._kind

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return prod(self._shape) * self._kind.itemsize

    @property
    def address(self) -> int:
        """Where it begins."""
        if self._array is None:
            return self._address
        return int(self._array.ctypes.data)

    def to_device(self, device: int) -> None:
        """Move it to *device*; RuntimeError if that fails."""
        if self._array is None:
            if self._device != device:
                raise RuntimeError(f"the tensor is on device {self._device} already: move it to the host first")
            return
        enter(device)
        self._address, self._array, self._device = to_new_memory(self.address, self.nbytes), None, device

    def to_host(self) -> None:
        """Move it to the host; RuntimeError if that fails."""
        if self._array is not None:
            return
        array = np.empty(self._shape, self._kind)
        enter(self._device)
        begin = now_ns()
        done(copies.memcpy(array.ctypes.data, self.nbytes, self._address, self.nbytes, _DEVICE_TO_HOST), "to_host()")
        _times().to_host.append(ms_since(begin))
        self.free()
        self._array = array

    def free(self) -> None:
        """Free the memory of the device, if it has some."""
        address, self._address, self._device = self._address, 0, -1
        if address:
            memory.free(address)

    def __del__(self) -> None:
        if getattr(self, "_address", 0) and self._runtime.closed is None:
            self.free()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return a copy of the values.

        Raises:
            RuntimeError: They are on a device.
        """
        return self._values().astype(self._kind if dtype is None else as_dtype(dtype))

    def __buffer__(self, flags: int) -> memoryview:
        """Return the values as bytes in memory."""
        return self._values().data

    def _values(self) -> npt.NDArray[Any]:
        if self._array is None:
            raise RuntimeError("tensor is in npu. can't convert to numpy array")
        return self._array

    def __repr__(self) -> str:
        where = "host" if self._device < 0 else f"device {self._device}"
        return f"<Tensor>\nshape:\t{tuple(self._shape)}\ndtype:\t{self.dtype}\ndevice:\t{where}"
