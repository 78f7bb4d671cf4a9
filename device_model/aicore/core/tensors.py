"""Tensors: places in the memories of a core or in GM.

A tensor is a memory, a byte address in it, a type and a number of elements. A slice of a tensor is a tensor over the
same bytes. Instructions compute on `view`, a NumPy array over these bytes. Offsets and sizes may be NumPy integers, as
those of a tiling are. They are converted to Python integers at once, because addresses computed in 32 bits would wrap.
"""

from enum import Enum
from math import prod
from operator import index as integer
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.each import offset_of
from device_model.aicore.core.machine import running
from device_model.aicore.core.memories import GlobalMemory, LocalMemory, Range
from device_model.aicore.core.names import CacheMode, TPosition
from device_model.aicore.core.packed import bytes_of, elements_in, int4b_t
from device_model.aicore.core.traits import TensorTrait
from device_model.dtypes import small_dtype
from device_model.kernel.findings import KernelError


class DataFormat(Enum):
    """How the elements of a tensor lie (Ascend C: DataFormat)."""

    ND = 0
    NZ = 1
    NCHW = 2
    NC1HWC0 = 3
    NHWC = 4
    NCDHW = 5
    NDC1HWC0 = 6
    FRACTAL_Z_3D = 7


class ShapeInfo(NamedTuple):
    """The shape of a tensor, which it carries for the kernel and for SoftMax (Ascend C: ShapeInfo).

    Attributes:
        shape: The sizes of its dimensions.
        original_shape: The same before they were padded; by default *shape*.
        data_format: How the elements lie.
    """

    shape: tuple[int, ...] = ()
    original_shape: tuple[int, ...] = ()
    data_format: DataFormat = DataFormat.ND


def GetShapeSize(shape_info: ShapeInfo) -> int:
    """Return the product of the sizes of a shape (Ascend C: GetShapeSize)."""
    return prod(shape_info.shape)


half = float16 = np.dtype(np.float16)
float32 = np.dtype(np.float32)
bfloat16 = small_dtype("bfloat16")

int8, int16, int32, int64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
LARGEST = MappingProxyType({"float16": 65504.0, "bfloat16": (2 - 2**-7) * 2.0**127})  # finite numbers, by type
DTYPES = (half, float32, bfloat16, np.dtype(bool), int8, int16, int32, int64, uint8, uint16, uint32, uint64)
_ALL = (*DTYPES, int4b_t)  # of which int4b_t is no type of an array
_BY_TYPE: dict[object, np.dtype[Any]] = {}  # a type as users write it -> dtype; np.dtype() is slow on a hot path


def dtype_of(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return *dtype* as a NumPy dtype; raise TypeError if no tensor can hold it."""
    resolved = _BY_TYPE.get(dtype)
    if resolved is None:
        if isinstance(dtype, TensorTrait):
            return dtype_of(dtype.dtype)
        resolved = np.dtype(dtype)
        if resolved not in _ALL:
            raise TypeError(f"tensors hold {', '.join(map(str, _ALL))}, not {resolved}")
        resolved = _BY_TYPE[dtype] = _ALL[_ALL.index(resolved)]
    return resolved


def whole(what: str, number: Any) -> int:
    """Return *number* as a Python integer.

    Raises:
        TypeError: It is of another type, as after a division with /. *what* is its name in the message.
    """
    try:
        return integer(number)
    except TypeError:
        hint = ": divide with //" if isinstance(number, float) else ""
        raise TypeError(f"{what} must be an int, not {number!r}{hint}") from None


def _bytes_before(tensor: "_Tensor | GlobalBuffer", start: int) -> int:
    """Return the bytes before element *start*."""
    if start % 2 and tensor.dtype is int4b_t:
        raise KernelError(
            f"element {start} of {tensor!r} begins within a byte", "a byte holds two elements: begin at an even one"
        )
    return bytes_of(tensor.dtype, start)


NOWHERE = GlobalMemory(np.empty(0, np.uint8), "nowhere")  # the memory of a GlobalTensor without a buffer


class _Tensor:
    """The base of local and global tensors."""

    __slots__ = ("_shape_info", "_trait", "_view", "address", "dtype", "memory", "nbytes", "size")

    memory: Any
    address: int
    dtype: np.dtype[Any]
    size: int
    nbytes: int
    _view: npt.NDArray[Any] | None
    _shape_info: ShapeInfo
    _trait: TensorTrait

    @property
    def view(self) -> npt.NDArray[Any]:
        """The elements as a flat NumPy array over the memory's bytes; of int4b_t, these bytes."""
        view = self._view
        if view is None:
            address = self.address
            view = self.memory.bytes[address : address + self.nbytes]
            if self.dtype is not int4b_t:
                view = view.view(self.dtype)
            self._view = view
        return view

    @property
    def span(self) -> Range:
        """The bytes: `(memory, start, stop)`."""
        return (self.memory, self.address, self.address + self.nbytes)

    def SetShapeInfo(self, shape_info: ShapeInfo) -> None:
        """Let the tensor carry its shape (Ascend C: SetShapeInfo), for SoftMax without a shape; no pipe is used."""
        self._shape_info = shape_info

    def GetShapeInfo(self) -> ShapeInfo:
        """Return what SetShapeInfo has set (Ascend C: GetShapeInfo).

        Raises:
            KernelError: It was not called for this tensor.
        """
        try:
            return self._shape_info
        except AttributeError:
            raise KernelError(f"GetShapeInfo of {self!r}", "call SetShapeInfo() first") from None

    def SetTensorTrait(self, trait: TensorTrait) -> None:
        """Let the tensor carry a trait of its type (Ascend C: SetTensorTrait); no pipe is used.

        Raises:
            KernelError: *trait* is of another type.
        """
        if not isinstance(trait, TensorTrait) or dtype_of(trait) != self.dtype:
            raise KernelError(f"SetTensorTrait({trait!r}) of {self!r}", f"give it a TensorTrait of {self.dtype}")
        self._trait = trait

    def GetTensorTrait(self) -> TensorTrait:
        """Return the trait that the tensor was made with, or that of SetTensorTrait (Ascend C: GetTensorTrait).

        Raises:
            KernelError: It has none.
        """
        try:
            return self._trait
        except AttributeError:
            raise KernelError(f"GetTensorTrait of {self!r}", "make it with a TensorTrait, or set one") from None

    def GetSize(self) -> int:
        """Return the number of elements (Ascend C: GetSize)."""
        return self.size

    def __len__(self) -> int:
        return self.size

    def _part(self, index: int | slice) -> tuple[int, int]:
        """Return the first element and the number of elements of `t[n]`, which goes to the end, or of `t[a:b]`."""
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise KernelError(f"{self!r}[{index}]: a slice of a tensor has no step", "give the instruction strides")
            start = 0 if index.start is None else offset_of(index.start)
            stop = self.size if index.stop is None else offset_of(index.stop)
        else:
            start, stop = offset_of(index), self.size
        if not 0 <= start <= stop <= self.size:
            raise KernelError(f"{self!r}[{index}] is outside of it", f"it has {self.size} elements")
        return start, stop - start

    def _element(self, index: int) -> int:
        """Return the byte address of element *index*."""
        index = integer(index)
        if not 0 <= index < self.size:
            raise KernelError(f"element {index} of {self!r}", f"it has {self.size} elements")
        if self.dtype is int4b_t:
            raise KernelError(
                f"element {index} of {self!r} alone",
                "the scalar pipe has no int4b_t: ReinterpretCast() it to int8",
            )
        return self.address + index * self.dtype.itemsize


class LocalTensor(_Tensor):
    """A tensor in a memory of the core (Ascend C: LocalTensor).

    Usually a queue or TBuf makes it. `LocalTensor(dtype, position, address, size)` places one without a TPipe, with
    *address* in bytes from the start of the position's memory and *size* in elements.
    """

    __slots__ = ("_parts", "kept_in", "position")

    bypass_l2 = False
    kept_in: tuple[dict[Any, "LocalTensor"], object] | None  # a dict, and its key, from which it is handed out again

    def __init__(self, dtype: npt.DTypeLike, position: TPosition, address: int, size: int) -> None:
        memory = running().memory(position.space)
        address, size = integer(address), integer(size)
        self.position = position
        self.memory: LocalMemory = memory
        self.address = address
        self.dtype = dtype_of(dtype)
        self.size = size
        self.nbytes = bytes_of(self.dtype, size)
        self._view = None
        self.kept_in = None
        self._parts: dict[tuple[int, int], LocalTensor] | None = None
        if isinstance(dtype, TensorTrait):
            self._trait = dtype
        if address < 0 or size < 0 or address + self.nbytes > memory.size:
            raise KernelError(
                f"a tensor at bytes {address}:{address + self.nbytes} is outside {memory.name}",
                f"{memory.name} has {memory.size} bytes",
            )

    def __repr__(self) -> str:
        return f"<LocalTensor {self.position} {self.memory.name}[{self.address}] {self.dtype} x {self.size}>"

    def __getitem__(self, index: int | slice) -> "LocalTensor":
        """Return a part: `t[n]` goes from element n to the end, as in Ascend C; `t[a:b]` ends before b."""
        parts = self._parts
        if parts is None:
            parts = self._parts = {}
        key = self._part(index)
        part = parts.get(key)
        if part is None:
            start, size = key
            part = parts[key] = self._at(self.address + _bytes_before(self, start), self.dtype, size)
            part.kept_in = parts, key
        return part

    def _at(self, address: int, dtype: np.dtype[Any], size: int) -> "LocalTensor":
        part = LocalTensor.__new__(LocalTensor)
        part.position = self.position
        part.memory = self.memory
        part.address = address
        part.dtype = dtype
        part.size = size
        part.nbytes = bytes_of(dtype, size)
        part._view = None
        part._parts = None
        part.kept_in = None
        return part

    def ReinterpretCast(self, dtype: npt.DTypeLike) -> "LocalTensor":
        """Return a tensor of another type over the same bytes (Ascend C: ReinterpretCast); no pipe is used."""
        resolved = dtype_of(dtype)
        return self._at(self.address, resolved, elements_in(resolved, self.nbytes))

    def SetSize(self, size: int) -> None:
        """Set the number of elements (Ascend C: SetSize); no pipe is used.

        The next tensor that is made of the same buffer spans all of it again.

        Args:
            size: The number of elements.

        Raises:
            KernelError: So many elements do not fit in the memory from the tensor's address on.
        """
        size = integer(size)
        most = elements_in(self.dtype, self.memory.size - self.address)
        if not 0 <= size <= most:
            raise KernelError(
                f"SetSize({size}) of {self!r}", f"{most} elements fit in {self.memory.name} from its address on"
            )
        if self.kept_in is not None:
            tensors, key = self.kept_in
            tensors.pop(key, None)
            self.kept_in = None
        self.size = size
        self.nbytes = bytes_of(self.dtype, size)
        self._view = self._parts = None
        unit = running().unit
        if unit is not None:
            unit.plans.clear()  # they were made for the old size

    def GetPosition(self) -> TPosition:
        """Return the position of the tensor (Ascend C: GetPosition); no pipe is used."""
        return self.position

    def GetPhyAddr(self, offset: int = 0) -> int:
        """Return the address of element *offset*, in bytes from the start of the memory (Ascend C: GetPhyAddr)."""
        return self.address + _bytes_before(self, integer(offset))

    def GetValue(self, index: int) -> Any:
        """Read element *index* with the scalar pipe (Ascend C: GetValue); order it with flags after other pipes."""
        core = running()
        at = self._element(index)
        return core.scalar_read(self, index, at)

    def SetValue(self, index: int, value: Any) -> None:
        """Write element *index* with the scalar pipe (Ascend C: SetValue); order other pipes after it with flags."""
        core = running()
        at = self._element(index)
        core.scalar_write(self, index, at, value)


class GlobalBuffer:
    """An argument of a kernel in GM: *nbytes* bytes from byte *address* of an allocation on, elements of *dtype*.

    `x[n]`, `x[n:]` and `x + n` are the buffer from element n on, like pointer arithmetic. Give it to
    `GlobalTensor.SetGlobalBuffer`.
    """

    __slots__ = ("address", "dtype", "memory", "nbytes", "shape")

    def __init__(
        self,
        memory: GlobalMemory,
        address: int,
        nbytes: int,
        dtype: npt.DTypeLike = np.uint8,
        shape: tuple[int, ...] = (),
    ) -> None:
        self.memory = memory
        self.address = address
        self.nbytes = nbytes
        self.dtype = dtype_of(dtype)
        self.shape = shape  # of the whole array; () for a part

    def __repr__(self) -> str:
        return f"<GlobalBuffer {self.memory.name}[{self.address}] {self.dtype}, {self.nbytes} bytes>"

    def __getitem__(self, index: int | slice) -> "GlobalBuffer":
        first = index.start if isinstance(index, slice) else index
        start = 0 if first is None else offset_of(first)
        if isinstance(index, slice) and (index.stop is not None or index.step is not None):
            raise KernelError(f"{self!r}[{index}]", "a buffer takes x[n:]; give SetGlobalBuffer() the size")
        offset = _bytes_before(self, start)
        if not 0 <= offset <= self.nbytes:
            raise KernelError(f"element {start} is outside {self!r}", "check the offset")
        return GlobalBuffer(self.memory, self.address + offset, self.nbytes - offset, self.dtype)

    __add__ = __getitem__  # x + n

    def of_type(self, dtype: np.dtype[Any]) -> "GlobalBuffer":
        """Return the same bytes as elements of *dtype*."""
        return GlobalBuffer(self.memory, self.address, self.nbytes, dtype, self.shape)


class GlobalTensor(_Tensor):
    """A tensor in GM (Ascend C: GlobalTensor).

    Make it with `GlobalTensor(dtype)`, or `GlobalTensor()` for the type of its buffer, and then call SetGlobalBuffer().
    """

    __slots__ = ("bypass_l2",)

    def __init__(self, dtype: npt.DTypeLike | None = None) -> None:
        self.dtype = dtype_of(dtype) if dtype is not None else np.dtype(np.uint8)
        self.memory: GlobalMemory = NOWHERE
        self.address = 0
        if isinstance(dtype, TensorTrait):
            self._trait = dtype
        self.size = -1 if dtype is None else 0  # -1: takes the type of its buffer
        self.nbytes = 0
        self.bypass_l2 = False
        self._view = None

    def __repr__(self) -> str:
        if self.memory is NOWHERE:
            return f"<GlobalTensor {self.dtype} without a buffer>"
        return f"<GlobalTensor {self.memory.name}[{self.address}] {self.dtype} x {self.size}>"

    def SetGlobalBuffer(self, buffer: GlobalBuffer, size: int | None = None) -> Self:
        """Place the tensor at the start of a buffer (Ascend C: SetGlobalBuffer); no pipe is used.

        Args:
            buffer: An argument of the kernel in GM, or a part of one.
            size: The number of elements; by default all that fit in the buffer.

        Returns:
            The tensor itself.

        Raises:
            TypeError: *buffer* is not a buffer in GM.
            KernelError: The buffer is too small, or its address is not a multiple of the element size.
        """
        if not isinstance(buffer, GlobalBuffer):
            raise TypeError(f"SetGlobalBuffer takes an argument of the kernel that lies in GM, not {buffer!r}")
        if self.size == -1:
            self.dtype = buffer.dtype
        itemsize = self.dtype.itemsize
        if buffer.address % itemsize:
            raise KernelError(
                f"{buffer!r} is not aligned to {self.dtype}", f"GM addresses must be multiples of {itemsize}"
            )
        capacity = elements_in(self.dtype, buffer.nbytes)
        size = capacity if size is None else offset_of(size)
        if not 0 <= size <= capacity:
            raise KernelError(f"{size} elements of {self.dtype} do not fit in {buffer!r}", f"{capacity} of them fit")
        self.memory = buffer.memory
        self.address = buffer.address
        self.size = size
        self.nbytes = bytes_of(self.dtype, size)
        self._view = None
        return self

    def GetPhyAddr(self, offset: int = 0) -> GlobalBuffer:
        """Return the bytes from element *offset* on, for another tensor's SetGlobalBuffer (Ascend C: GetPhyAddr).

        Raises:
            KernelError: The tensor has no buffer, or fewer elements.
        """
        start = offset_of(offset)
        if self.memory is NOWHERE or not 0 <= start <= self.size:
            raise KernelError(
                f"GetPhyAddr({start}) of {self!r}",
                "call SetGlobalBuffer() first" if self.memory is NOWHERE else f"it has {self.size} elements",
            )
        offset = _bytes_before(self, start)
        return GlobalBuffer(self.memory, self.address + offset, self.nbytes - offset, self.dtype)

    def SetL2CacheHint(self, mode: CacheMode = CacheMode.CACHE_MODE_NORMAL) -> None:
        """Let later copies of this tensor bypass the L2 (CACHE_MODE_DISABLE) or not (Ascend C: SetL2CacheHint)."""
        self.bypass_l2 = mode is CacheMode.CACHE_MODE_DISABLE

    def __getitem__(self, index: int | slice) -> "GlobalTensor":
        """Return a part: `t[n]` goes from element n to the end, as in Ascend C; `t[a:b]` ends before b."""
        if type(index) is int and 0 <= index <= self.size:
            start, size = index, self.size - index
        else:
            start, size = self._part(index)
        part = GlobalTensor.__new__(GlobalTensor)
        dtype = self.dtype
        # Written out, because kernels make many of these.
        if dtype is int4b_t:
            offset, nbytes = _bytes_before(self, start), bytes_of(dtype, size)
        else:
            offset, nbytes = start * dtype.itemsize, size * dtype.itemsize
        part.memory = self.memory
        part.address = self.address + offset
        part.dtype = dtype
        part.size = size
        part.nbytes = nbytes
        part.bypass_l2 = self.bypass_l2
        part._view = None
        return part

    def GetValue(self, index: int) -> Any:
        """Read element *index* with the scalar pipe, through its data cache (Ascend C: GetValue)."""
        core = running()
        return core.scalar_read(self, index, self._element(index))

    def SetValue(self, index: int, value: Any) -> None:
        """Write element *index* with the scalar pipe (Ascend C: SetValue); flush it with DataCacheCleanAndInvalid()."""
        core = running()
        core.scalar_write(self, index, self._element(index), value)


def place(position: TPosition, memory: LocalMemory, address: int, dtype: np.dtype[Any], nbytes: int) -> LocalTensor:
    """Return a tensor of *nbytes* bytes at *address* of *memory*, which the caller has checked; for queues."""
    tensor = LocalTensor.__new__(LocalTensor)
    tensor.position = position
    tensor.memory = memory
    tensor.address = address
    tensor.dtype = dtype
    tensor.size = elements_in(dtype, nbytes)
    tensor.nbytes = bytes_of(dtype, tensor.size)
    tensor._view = None
    tensor._parts = None
    tensor.kept_in = None
    return tensor
