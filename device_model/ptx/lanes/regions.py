"""Pieces of global memory as lanes see them, which know what was read and what was written.

A launch must not change memory before its end, or before it waits. So a region is copied when it is first written.
Marks say which bytes were written, and which were read before that: these are the bytes that the order of streams is
checked for.
"""

from typing import Any

import numpy as np

from device_model.ptx.lanes.group import Array, Ints

_FEW = 64  # elements, for which it is not worth while to look whether they lie one behind the other


class Region:
    """Memory at the addresses from *start* to *stop*, which begins with the bytes of *contents*.

    With *in_place* they are changed themselves.
    """

    __slots__ = ("_bytes", "_is_own", "_read", "_shown", "_written", "start", "stop")

    def __init__(self, contents: Array, start: int, *, in_place: bool = False) -> None:
        self.start = start
        self.stop = start + len(contents)
        self._bytes = contents
        self._is_own = in_place
        self._read: Array | None = None  # a byte each: not 0 if it was read before it was written
        self._written: Array | None = None
        self._shown: Array | None = None  # what was written before it was last shown to others

    @property
    def bytes(self) -> Array:
        """The bytes as they are now."""
        return self._bytes

    def load(self, dtype: np.dtype[Any], places: Ints, count: int) -> Any:
        """Return the elements of *dtype* at *places*, in its own size; with a *count* the parts of vectors."""
        run = _run_of(places)
        size = dtype.itemsize * count
        self._mark_read(places if run is None else run, size)
        if count == 1:
            values = _as(self._bytes, dtype)
            return values.take(places) if run is None else values[run].reshape(places.shape).copy()
        rows = _as(self._bytes, dtype)[: self._whole(size, count)].reshape(-1, count)
        taken = rows.take(places, 0) if run is None else rows[run].reshape(*places.shape, count)
        return tuple(np.ascontiguousarray(taken[..., number]) for number in range(count))

    def store(self, places: Ints, parts: tuple[Array, ...]) -> None:
        """Store *parts*, the parts of vectors, at *places*; where two lanes have one place, the later one counts."""
        count, dtype = len(parts), parts[0].dtype
        self._own()
        run = _run_of(places)
        size = dtype.itemsize * count
        self._mark_written(places if run is None else run, size)
        rows = _as(self._bytes, dtype)[: self._whole(size, count)].reshape(-1, count)
        for number, part in enumerate(parts):
            target = rows[:, number]
            shape = np.broadcast_shapes(places.shape, part.shape)
            if shape != places.shape:  # blocks store their own values in the same places
                target[np.broadcast_to(places, shape)] = part
            elif run is not None:
                target[run] = np.broadcast_to(part, shape).reshape(-1)
            else:
                target[places] = part

    def cells(self, dtype: np.dtype[Any], places: Ints) -> Array:
        """Return the elements of *dtype*, of which those at *places* are read and changed."""
        self._mark_read(places, dtype.itemsize)
        self._own()
        self._mark_written(places, dtype.itemsize)
        return _as(self._bytes, dtype)

    def read(self) -> Ints:
        """Return the ranges of bytes, from the start of the region, that were read before they were written.

        They are an array of two columns: where they start, and where they stop.
        """
        return _ranges(self._read)

    def written(self) -> Ints:
        """Return the ranges of bytes that were written, in the same form."""
        if self._shown is None or self._written is None:
            return _ranges(self._shown if self._written is None else self._written)
        return _ranges(self._shown | self._written)

    def show(self, contents: Array) -> None:
        """Copy what was written since the last time to *contents*, where others see it; go on with what is there."""
        if self._written is not None:
            np.copyto(contents, self._bytes, where=self._written != 0)
            self._shown = self._written if self._shown is None else self._shown | self._written
        self._bytes, self._is_own, self._written = contents, False, None

    def _whole(self, size: int, count: int) -> int:
        return len(self._bytes) // size * count

    def _own(self) -> None:
        if not self._is_own:
            self._bytes = self._bytes.copy()
            self._is_own = True

    def _mark_read(self, places: Any, size: int) -> None:
        if self._read is None:
            self._read = np.zeros(len(self._bytes), np.uint8)
        marks = _marks(self._read, size)
        if self._written is None:
            marks[places] = -1
            return
        written = _marks(self._written, size)[places]
        marks[places] |= ~written

    def _mark_written(self, places: Any, size: int) -> None:
        if self._written is None:
            self._written = np.zeros(len(self._bytes), np.uint8)
        _marks(self._written, size)[places] = -1


def _as(bytes_: Array, dtype: np.dtype[Any]) -> Array:
    """Return the whole elements of *dtype* in *bytes_*."""
    rest = len(bytes_) % dtype.itemsize
    return (bytes_[:-rest] if rest else bytes_).view(dtype)


def _marks(marks: Array, size: int) -> Array:
    """Return *marks* with one element for each *size* bytes; one of several words has a row of them."""
    if size <= 8:
        return _as(marks, np.dtype(f"i{size}"))
    return marks[: len(marks) // size * size].view(np.int64).reshape(-1, size // 8)


def _run_of(places: Ints) -> slice | None:
    """Return *places* as a slice, if they lie one behind the other."""
    count = places.size
    if count < _FEW:
        return None
    flat = places.reshape(-1)
    first = int(flat[0])
    if int(flat[-1]) - first != count - 1 or not (flat[1:] - flat[:-1] == 1).all():
        return None
    return slice(first, first + count)


def _ranges(marks: Array | None) -> Ints:
    if marks is None:
        return np.empty((0, 2), np.intp)
    return np.flatnonzero(np.diff(marks != 0, prepend=False, append=False)).reshape(-1, 2)
