"""Arrays: device memory with a dtype and a shape, and what a kernel does with it."""

import operator
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from math import prod
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from device_model import memory as model
from device_model.dtypes import as_dtype
from device_model.errors import shown
from device_model.handles import Handle
from device_model.integers import Integer, lengths
from device_model.memory import Buffer


class Access(Enum):
    """What a kernel does with an argument."""

    IN = "read"
    OUT = "fully overwritten"
    IN_OUT = "read and written"


# The kernel gets a NumPy array where the launch was given an Array or a buffer. To a type checker `| Any` says so: the
# kernel's own code is checked as code over arrays, and the launch may pass what becomes one.
In = Annotated[npt.NDArray[Any] | Any, Access.IN]
Out = Annotated[npt.NDArray[Any] | Any, Access.OUT]
InOut = Annotated[npt.NDArray[Any] | Any, Access.IN_OUT]


def document(annotations: Iterable[Any], text: str) -> None:
    """Give *annotations* a docstring for `help`: how the kernel uses the memory, then *text*."""
    for annotation in annotations:
        (access,) = annotation.__metadata__
        annotation.__doc__ = (
            f"Annotates a parameter of a kernel: memory that is {access.value}.\n\n"
            "In is read, Out is fully overwritten, InOut is both. The launch passes an Array, a buffer or an address.\n"
            + text
        )


document(
    (In, Out, InOut),
    "The kernel gets a NumPy array over that memory. In arrives read-only; what the kernel leaves out of Out holds "
    "poison.\n\n"
    "    @kernel(cost=Cost(us=5))\n"
    "    def add(x: In, y: InOut) -> None:\n"
    "        y += x\n\n"
    "    await add[8, stream](Array(x, np.float32), Array(y, np.float32))",
)


class Array(Handle):
    """Device memory as a kernel sees it: *buffer* with a *dtype* and a *shape* (by default one-dimensional, all of it).

    Make it once and launch with it often. `a[i]` and `a[i:j]` are parts of it; copies and fills take it for its buffer.
    Raises ValueError where it does not fit.
    """

    __slots__ = ("_readable", "_writable", "buffer", "dtype", "nbytes", "shape")

    def __init__(
        self, buffer: Buffer, dtype: npt.DTypeLike = np.uint8, shape: Integer | Sequence[Integer] | None = None
    ) -> None:
        if not isinstance(buffer, Buffer):
            raise TypeError(f"an Array is made of a buffer, as Malloc gives it, not of {shown(buffer)}")
        self.buffer = buffer
        self.dtype = as_dtype(dtype)
        if self.dtype.hasobject or not self.dtype.itemsize:
            raise ValueError(f"an Array of {self.dtype} is not possible: its items must be plain bytes of a fixed size")
        if shape is None:
            if buffer.nbytes % self.dtype.itemsize:
                raise ValueError(
                    f"{buffer!r} has {buffer.nbytes:,} bytes, which is no whole number of {self.dtype}, of "
                    f"{self.dtype.itemsize} bytes each: give the shape, or another dtype"
                )
            shape = buffer.nbytes // self.dtype.itemsize
        self.shape = lengths(shape)
        self.nbytes = prod(self.shape) * self.dtype.itemsize
        if any(length < 0 for length in self.shape) or self.nbytes > buffer.nbytes:
            raise ValueError(
                f"{self.dtype} of shape {self.shape} takes {self.nbytes:,} bytes, and {buffer!r} has {buffer.nbytes:,}"
            )
        self._readable: npt.NDArray[Any] | None = None
        self._writable: npt.NDArray[Any] | None = None

    def __repr__(self) -> str:
        return f"Array({self.buffer!r}, {self.dtype}, {self.shape})"

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __getitem__(self, index: Integer | slice) -> "Array":
        """A part along the first dimension: `a[2]` without that dimension, `a[2:5]` with it."""
        if not self.shape:
            raise IndexError(f"{self!r} has no dimension to take a part of")
        length, inner = self.shape[0], self.shape[1:]
        row = prod(inner) * self.dtype.itemsize
        if isinstance(index, slice):
            start, stop, step = index.indices(length)
            if step != 1:
                raise IndexError(f"a part of {self!r} must be in one piece, not every {step}th")
            stop = max(start, stop)
            return Array(self.buffer[start * row : stop * row], self.dtype, (stop - start, *inner))
        start = operator.index(index)
        start += length if start < 0 else 0
        if not 0 <= start < length:
            raise IndexError(f"{index} lies outside {self!r}")
        return Array(self.buffer[start * row : (start + 1) * row], self.dtype, inner)

    __iter__ = None  # a kernel's argument is one thing; go through it with indices

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an Array without dimensions has no length")
        return self.shape[0]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the values in host memory for `np.asarray`; device memory is refused, as by Buffer.numpy()."""
        return np.array(self.buffer.numpy(self.dtype, self.shape), dtype, copy=copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The values for torch, CuPy and numba, which compute on the card that they are on.

        Raises:
            AttributeError: The memory is simulated or on the host, so no other library can use it.
        """
        return model.cuda_array(self.buffer, self.dtype, self.shape)

    @property
    def __dlpack__(self) -> Callable[..., object]:
        """The values for `from_dlpack` of torch, CuPy and JAX.

        Raises:
            AttributeError: As `__cuda_array_interface__`.
        """
        return model.dlpack(self.buffer, self.dtype, self.shape)

    @property
    def __dlpack_device__(self) -> Callable[[], tuple[int, int]]:
        """The kind of device, 2 for CUDA, and the number of the card.

        Raises:
            AttributeError: As `__cuda_array_interface__`.
        """
        return model.dlpack_device(self.buffer)

    def view(self, access: Access) -> npt.NDArray[Any]:
        """The array that a kernel gets."""
        view = self._readable if access is Access.IN else self._writable
        if view is None:
            view = model.array(self.buffer.allocation, self.buffer.offset, self.dtype, self.shape)
            if access is Access.IN:
                view.flags.writeable = False
                self._readable = view
            else:
                self._writable = view
        return view
