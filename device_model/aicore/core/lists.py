"""Lists of tensors: an argument of a kernel that is a list of arrays, and what the kernel asks about each of them."""

from collections.abc import Sequence
from operator import index as integer
from typing import Any

import numpy.typing as npt

from device_model.aicore.core.machine import running
from device_model.aicore.core.tensors import GlobalBuffer, GlobalTensor, dtype_of
from device_model.kernel.findings import KernelError


class TensorDesc:
    """What `ListTensorDesc.GetDesc` tells about one tensor (Ascend C: TensorDesc).

    Args:
        dtype: The type of its elements; by default that of the array.
    """

    def __init__(self, dtype: npt.DTypeLike | None = None) -> None:
        self._dtype = None if dtype is None else dtype_of(dtype)
        self._room: Any = None
        self._buffer: GlobalBuffer | None = None
        self._index = -1

    def __repr__(self) -> str:
        return f"<TensorDesc of {self._buffer!r}>" if self._buffer else "<TensorDesc, not filled>"

    def SetShapeAddr(self, room: Any) -> None:
        """Give room for the shape (Ascend C: SetShapeAddr): a list, or another object with a length.

        GetDesc writes how many dimensions there are and their sizes to it.
        """
        self._room = room

    def fill(self, index: int, buffer: GlobalBuffer) -> None:
        """Take tensor *index*, for `ListTensorDesc.GetDesc`.

        Raises:
            KernelError: It has no room for the shape, or too little.
        """
        words = len(buffer.shape)
        if self._room is None or len(self._room) < words:
            raise KernelError(
                f"GetDesc of a tensor of {words} dimensions to a TensorDesc with room for "
                f"{0 if self._room is None else len(self._room)} numbers",
                "call SetShapeAddr() with a list that is long enough first",
            )
        self._room[:words] = buffer.shape
        self._index, self._buffer = index, buffer
        core = running()
        core.scalar += (words + 2) * core.spec.get_value

    @property
    def _filled(self) -> GlobalBuffer:
        if self._buffer is None:
            raise KernelError(f"{self!r}", "call ListTensorDesc.GetDesc(desc, index) first")
        return self._buffer

    def GetDim(self) -> int:
        """Return the number of dimensions (Ascend C: GetDim)."""
        return len(self._filled.shape)

    def GetIndex(self) -> int:
        """Return the index of the tensor in its list (Ascend C: GetIndex)."""
        assert self._filled
        return self._index

    def GetShape(self, offset: int) -> int:
        """Return the size of a dimension (Ascend C: GetShape).

        Args:
            offset: The dimension, from 0 on.

        Raises:
            KernelError: The tensor has no such dimension.
        """
        shape = self._filled.shape
        if not 0 <= integer(offset) < len(shape):
            raise KernelError(f"GetShape({offset})", f"the tensor has dimensions 0 to {len(shape) - 1}")
        return shape[integer(offset)]

    def GetDataPtr(self) -> GlobalBuffer:
        """Return the tensor's bytes, for SetGlobalBuffer (Ascend C: GetDataPtr)."""
        return self._filled if self._dtype is None else self._filled.of_type(self._dtype)

    def GetDataObj(self) -> GlobalTensor:
        """Return the tensor as a GlobalTensor (Ascend C: GetDataObj)."""
        return GlobalTensor().SetGlobalBuffer(self.GetDataPtr())


class ListTensorDesc:
    """An argument of a kernel that is a list of arrays (Ascend C: ListTensorDesc).

    Args:
        data: The argument; without it, call Init().
        shape_size: The number of tensors, if it is to be checked.

    Raises:
        TypeError: The argument is no list of arrays in device memory.
        KernelError: The list has another number of tensors.
    """

    def __init__(self, data: Sequence[GlobalBuffer] | None = None, shape_size: int | None = None) -> None:
        self._buffers: tuple[GlobalBuffer, ...] = ()
        if data is not None:
            self.Init(data, shape_size)

    def __repr__(self) -> str:
        return f"<ListTensorDesc of {len(self._buffers)} tensors>"

    def Init(self, data: Sequence[GlobalBuffer], shape_size: int | None = None) -> None:
        """Take a list (Ascend C: Init); see the class."""
        if not isinstance(data, list | tuple) or not all(isinstance(each, GlobalBuffer) for each in data):
            raise TypeError(f"ListTensorDesc takes an argument that is a list of arrays, not {data!r}")
        if shape_size is not None and shape_size != len(data):
            raise KernelError(f"ListTensorDesc with shape_size {shape_size}", f"the list has {len(data)} tensors")
        self._buffers = tuple(data)

    def GetSize(self) -> int:
        """Return the number of tensors (Ascend C: GetSize)."""
        return len(self._buffers)

    def GetDesc(self, desc: TensorDesc, index: int) -> None:
        """Fill *desc*, which has room for the shape, with what is known of tensor *index* (Ascend C: GetDesc).

        The scalar pipe reads the dimensions from GM.

        Raises:
            KernelError: There is no such tensor, or *desc* has too little room.
        """
        desc.fill(integer(index), self._at(index))

    def GetDataPtr(self, dtype: npt.DTypeLike, index: int) -> GlobalBuffer:
        """Return the bytes of tensor *index*, for SetGlobalBuffer (Ascend C: GetDataPtr).

        The scalar pipe reads its address from GM.

        Args:
            dtype: The type of its elements.
            index: Its place in the list.

        Raises:
            KernelError: There is no such tensor.
        """
        buffer = self._at(index).of_type(dtype_of(dtype))
        core = running()
        core.scalar += core.spec.get_value
        return buffer

    def _at(self, index: int) -> GlobalBuffer:
        place = integer(index)
        if not 0 <= place < len(self._buffers):
            raise KernelError(f"tensor {place} of {self!r}", f"its tensors are 0 to {len(self._buffers) - 1}")
        return self._buffers[place]
