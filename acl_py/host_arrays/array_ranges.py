"""Array ranges: which bytes of an allocation an array, or a part of it, covers."""

from collections.abc import Iterator
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from acl_py.ranges import Range, Ranges, union

_Array: TypeAlias = npt.NDArray[Any]

_BASIC = (int, np.integer, slice, type(None), EllipsisType)


def address_of(array: _Array) -> int:
    """Return the address of the first item of *array*, contiguous or not."""
    return int(array.__array_interface__["data"][0])


def ranges_of(array: _Array, base: int) -> Ranges:
    """Return the bytes of *array*, counted from the address *base*."""
    if not array.size:
        return []
    start = address_of(array) - base
    pieces = list(_pieces(array.dtype))
    if pieces == [(0, array.itemsize)] and (array.flags.c_contiguous or array.flags.f_contiguous):
        return [(start, start + array.nbytes)]
    start += sum((length - 1) * stride for length, stride in zip(array.shape, array.strides, strict=True) if stride < 0)
    axes = sorted((abs(stride), length) for length, stride in zip(array.shape, array.strides, strict=True))
    runs = [run for first, nbytes in pieces for run in _strided(start + first, nbytes, axes)]
    return runs if len(pieces) == 1 else union(runs)


def _strided(start: int, nbytes: int, axes: list[tuple[int, int]]) -> Ranges:
    """Return the ranges of items of *nbytes* that begin at *start* and repeat along *axes*, (stride, length) each."""
    starts = np.array([start])
    for stride, length in axes:
        if len(starts) == 1 and stride <= nbytes:  # the run grows
            nbytes += stride * (length - 1)
        elif stride:
            starts = (starts[:, None] + np.arange(length) * stride).reshape(-1)
    return joined(starts, nbytes)


def joined(starts: npt.NDArray[np.int64], nbytes: int) -> Ranges:
    """Return the ranges of *nbytes* from each of *starts*; those that touch or overlap become one."""
    starts = np.unique(starts)
    ends = starts + nbytes
    gaps = starts[1:] > ends[:-1]
    return list(zip(starts[np.r_[True, gaps]].tolist(), ends[np.r_[gaps, True]].tolist(), strict=True))


def is_basic(index: object) -> bool:
    """Whether *index* is of ints, slices, None and an ellipsis only, so that it selects a view."""
    items = index if isinstance(index, tuple) else (index,)
    return all(isinstance(item, _BASIC) and not isinstance(item, bool) for item in items)


def part_of(array: _Array, index: Any) -> _Array:
    """Return what the basic *index* selects of *array* as a view, also if it is a single item."""
    items = index if isinstance(index, tuple) else (index,)
    return array[items if any(item is ... for item in items) else (*items, ...)]


def selected(array: _Array, index: Any, base: int) -> Ranges:
    """Return the bytes of the items that an *index* with arrays or masks selects, counted from the address *base*."""
    if not array.size:
        return []
    zeros = np.broadcast_to(np.zeros((), np.int64), array.shape)
    offsets: Any = zeros[index] + (address_of(array) - base)
    for axis, (length, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        along = np.arange(length).reshape((length, *(1,) * (array.ndim - axis - 1)))
        offsets = offsets + np.broadcast_to(along, array.shape)[index] * stride
    starts = np.asarray(offsets).reshape(-1)
    if not starts.size:
        return []
    return union([run for first, nbytes in _pieces(array.dtype) for run in joined(starts + first, nbytes)])


def _pieces(dtype: np.dtype[Any], offset: int = 0) -> Iterator[Range]:
    """Yield (offset, size) of each part of an item that holds values: records may have gaps between their fields."""
    if dtype.fields is None:
        yield offset, dtype.itemsize
        return
    fields = [piece for field, at, *_ in dtype.fields.values() for piece in _pieces(field, offset + at)]
    for start, stop in union([(at, at + size) for at, size in fields]):
        yield start, stop - start
