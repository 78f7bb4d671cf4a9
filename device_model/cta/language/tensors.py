"""Tensors: arguments in global memory, and arrays in shared memory.

    x[2]          a part, while the index has integers and slices only; nothing is read
    x[t]          a load: t is an array of indices, one or several for each thread
    x[2, t]       a load from a part; the dimensions that are left make a vector: a float32 tensor of shape (n, 4)
                  gives each thread 16 bytes with one instruction
    x[t] = v      a store
    x.at[t]       the places, for asynchronous copies, atomics and ldmatrix

Each index is checked for each active thread.
"""

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.cta.block import Block, running
from device_model.cta.checks.shadows import SharedShadow
from device_model.cta.language.memories import GlobalMemory, Shared
from device_model.cta.language.places import WIDEST, Places, strides_of
from device_model.cta.language.registers import Register, check_known, check_set
from device_model.cta.names import threads_text
from device_model.dtypes import as_dtype
from device_model.kernel.findings import KernelError
from device_model.kernel.sites import site


class Tensor:
    """A tensor of *dtype* and *shape* from byte *address* of a memory on.

    Attributes:
        memory: A `Shared` array or a `GlobalMemory`.
        name: Its name, for messages.
        at: The places of elements: `x.at[t]`.
    """

    __slots__ = ("address", "dtype", "is_readable", "is_writable", "memory", "name", "shape", "strides")

    def __init__(
        self,
        memory: Shared | GlobalMemory,
        name: str,
        address: int,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        *,
        is_readable: bool = True,
        is_writable: bool = True,
    ) -> None:
        self.memory = memory
        self.name = name
        self.address = address
        self.dtype = dtype
        self.shape = shape
        self.strides = strides_of(shape, dtype.itemsize) if strides is None else strides
        self.is_readable = is_readable
        self.is_writable = is_writable

    def __repr__(self) -> str:
        where = "shared" if isinstance(self.memory, Shared) else "global"
        return f"<{where} {self.name}: {self.dtype} {self.shape}>"

    @property
    def is_shared(self) -> bool:
        """Whether it lies in shared memory."""
        return isinstance(self.memory, Shared)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return self.size * self.dtype.itemsize

    @property
    def end(self) -> int:
        """The byte behind its last element."""
        last = sum((length - 1) * stride for length, stride in zip(self.shape, self.strides, strict=True))
        return self.address + last + self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements follow one another without gaps."""
        return self.strides == strides_of(self.shape, self.dtype.itemsize)

    @property
    def at(self) -> "_At":
        """The places of elements: `x.at[t]`."""
        return _At(self)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> "Iterator[Tensor]":
        raise TypeError(f"{self!r} is indexed with the threads, and has no iterator")

    def __getitem__(self, index: Any) -> Any:
        items = self._items(index)
        if any(isinstance(item, np.ndarray) for item in items) or (len(items) == self.ndim and _are_all(items, int)):
            return self._places(items).load()
        return self._part(items)

    def __setitem__(self, index: Any, value: Any) -> None:
        items = self._items(index)
        if not any(isinstance(item, np.ndarray) for item in items) and not _are_all(items, int):
            raise KernelError(
                f"a store to {self!r} at {site()} does not say which thread stores what",
                "index it with an array over the threads, such as cta.tid",
            )
        self._places(items).store(value)

    def reshape(self, *shape: int) -> "Tensor":
        """Return the same elements in another shape, in which one length may be -1; they must be contiguous."""
        if -1 in shape:
            others = -prod(shape)
            shape = tuple(self.size // max(others, 1) if length == -1 else length for length in shape)
        if not self.is_contiguous or prod(shape) != self.size:
            raise KernelError(f"{self!r} with strides {self.strides} cannot have shape {shape}, at {site()}")
        return self._same(self.address, shape, strides_of(shape, self.dtype.itemsize))

    def _same(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> "Tensor":
        return Tensor(self.memory, self.name, address, self.dtype, shape, strides,
                      is_readable=self.is_readable, is_writable=self.is_writable)  # fmt: skip

    # Indices

    def _items(self, index: Any) -> list[Any]:
        """Return the index as a list of ints, slices and integer arrays, one for each of its dimensions."""
        items = list(index) if isinstance(index, tuple) else [index]
        places = [place for place, item in enumerate(items) if item is Ellipsis]
        if places:
            fill = [slice(None)] * (self.ndim - len(items) + 1)
            items[places[0] : places[0] + 1] = fill
        if len(items) > self.ndim:
            raise KernelError(f"{len(items)} indices for {self!r} at {site()}, which has {self.ndim} dimensions")
        return [self._item(item) for item in items]

    def _item(self, item: Any) -> Any:
        if isinstance(item, slice):
            if any(isinstance(each, Register) for each in (item.start, item.stop, item.step)):
                raise KernelError(
                    f"a slice of {self!r} at {site()} begins or ends at a register, so threads may differ",
                    "for a vector of each thread index a tensor with one more dimension: x.reshape(-1, 4)[t]",
                )
            return item
        if isinstance(item, np.ndarray):
            if item.dtype.kind not in "iu":
                raise KernelError(
                    f"{self!r} is indexed with {item.dtype} at {site()}", "use integers; for a mask use where()"
                )
            check_set(item)
            check_known(item, f"an index of {self!r}")
            return item.view(np.ndarray).astype(np.int64, copy=False)
        return int(item.__index__())

    def _part(self, items: list[Any]) -> "Tensor":
        address = self.address
        shape: list[int] = []
        strides: list[int] = []
        for axis, item in enumerate(items):
            length, stride = self.shape[axis], self.strides[axis]
            if isinstance(item, slice):
                start, stop, step = item.indices(length)
                address += start * stride
                shape.append(len(range(start, stop, step)))
                strides.append(stride * step)
            else:
                if not 0 <= item < length:
                    raise KernelError(f"{self.name}[{item}] at {site()} is outside of {self!r}", _range(axis, length))
                address += item * stride
        done = len(items)
        return self._same(address, (*shape, *self.shape[done:]), (*strides, *self.strides[done:]))

    def _places(self, items: list[Any]) -> "Places":
        """Return the bytes that the threads reach with *items*."""
        block = running()
        ndim = max((item.ndim for item in items if isinstance(item, np.ndarray)), default=1)
        offsets: Any = np.int64(self.address)
        kept_shape: list[int] = []
        kept_strides: list[int] = []
        for axis, item in enumerate(items):
            length, stride = self.shape[axis], self.strides[axis]
            if isinstance(item, slice):
                part = self._same(0, (length,), (stride,))._part([item])
                offsets = offsets + part.address
                kept_shape.append(part.shape[0])
                kept_strides.append(part.strides[0])
                continue
            if isinstance(item, np.ndarray) and item.shape[:1] not in ((block.threads,), (1,)):
                raise KernelError(
                    f"{self.name} is indexed with an array of shape {item.shape} at {site()}",
                    f"its first axis must be the {block.threads} threads",
                )
            self._check_index(block, item, axis, length)
            if isinstance(item, np.ndarray) and item.ndim < ndim:
                item = item.reshape(item.shape[0], *[1] * (ndim - item.ndim), *item.shape[1:])
            offsets = offsets + item * stride
        if offsets.shape[:1] != (block.threads,):
            offsets = np.broadcast_to(offsets, (block.threads, *offsets.shape[1:]))
        done = len(items)
        tail_shape = (*kept_shape, *self.shape[done:])
        tail_strides = (*kept_strides, *self.strides[done:])
        return Places(self, offsets, tail_shape, tail_strides)

    def _check_index(self, block: Block, item: Any, axis: int, length: int) -> None:
        if isinstance(item, int):
            wrong = not 0 <= item < length
            if wrong and len(block.active):
                raise KernelError(f"{self.name}[{item}] at {site()} is outside of {self!r}", _range(axis, length))
            return
        # As unsigned numbers, those below 0 are the largest.
        if np.maximum.reduce(item.view(np.uint64), axis=None, initial=0) < length:
            return
        reached = np.broadcast_to(item, (block.threads, *item.shape[1:]))[block.active]
        outside = (reached < 0) | (reached >= length)
        if outside.any():
            by_thread = outside.reshape(len(reached), -1)
            rows = by_thread.any(axis=1)
            first = int(rows.argmax())
            value = int(reached.reshape(len(reached), -1)[first][by_thread[first]][0])
            raise KernelError(
                f"{threads_text(block.active[rows])} of {block} at {site()}: index {value} is outside of {self!r}",
                f"{_range(axis, length)}; mask the threads beyond the end with where()",
            )


class _At:
    """Makes `Places` of an index."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __getitem__(self, index: Any) -> "Places":
        return self._tensor._places(self._tensor._items(index))


def shared(dtype: npt.DTypeLike, shape: tuple[int, ...] | int, name: str = "") -> Tensor:
    """Return a new array in the shared memory of the block, which holds no values yet (`__shared__`).

    Args:
        dtype: The type of its elements.
        shape: Its shape.
        name: Its name in messages; by default its line.

    Raises:
        KernelError: The block has no room for it.
    """
    block = running()
    resolved = dtype_of(dtype)
    lengths = (shape,) if isinstance(shape, int) else tuple(int(length) for length in shape)
    nbytes = prod(lengths) * resolved.itemsize
    start = -(-block.shared_used // WIDEST) * WIDEST
    if start + nbytes > block.capacity:
        if block.is_dynamic:
            limit = f"and the kernel was made with shared={block.capacity}"
            remedy = "raise shared= in @cta.kernel"
        else:
            limit = f"and static arrays have {block.capacity} bytes in all"
            remedy = "give @cta.kernel shared=bytes, and more than that to allow_shared() of the kernel"
        raise KernelError(
            f"a shared array of {nbytes} bytes at {site()} ends at byte {start + nbytes} of shared memory, {limit}",
            remedy,
        )
    block.shared_used = start + nbytes
    name = name or f"shared[{site()}]"
    shadow = SharedShadow(block, start, nbytes, name)
    return Tensor(Shared(block.shared, name, shadow), name, start, resolved, lengths)


def dtype_of(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return *dtype* as a NumPy dtype; raise TypeError if no register can hold it."""
    resolved = as_dtype(dtype)
    if resolved.itemsize not in (1, 2, 4, 8) or not (resolved.kind in "biuf" or resolved.name == "bfloat16"):
        raise TypeError(f"threads compute with numbers of 1, 2, 4 or 8 bytes, not with {resolved}")
    return resolved


def _are_all(items: list[Any], kind: type) -> bool:
    return all(isinstance(item, kind) for item in items)


def _range(axis: int, length: int) -> str:
    return f"axis {axis} has the indices 0 to {length - 1}"
