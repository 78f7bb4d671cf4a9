"""Pieces of global memory as lanes see them, which know what was read and what was written.

A launch must not change memory before its end, or before it waits. So what it writes goes to a copy, of which only the
chunks that it uses are filled: a launch may use a little of a large allocation. Marks say which bytes were written, and
which were read before that: these are the bytes that the order of streams is checked for.
"""

from typing import Any

import numpy as np

from device_model.ptx.lanes.group import Array, Ints

_CHUNK = 14  # bits of the bytes of a chunk
_FEW = 64  # elements, for which it is not worth while to look whether they lie one behind the other


class Region:
    """Memory at the addresses from *start* to *stop*, which begins with the bytes of *contents*.

    With *in_place* they are changed themselves.
    """

    __slots__ = ("_bytes", "_contents", "_copied", "_is_own", "_read", "_shown", "_used", "_written", "start", "stop")

    def __init__(self, contents: Array, start: int, *, in_place: bool = False) -> None:
        self.start = start
        self.stop = start + len(contents)
        self._bytes = self._contents = contents
        self._is_own = in_place
        self._used = np.zeros((len(contents) >> _CHUNK) + 1, np.bool_)  # chunks
        self._copied: Array | None = None  # those of the contents that the copy has; None: there is no copy
        self._read: Array | None = None  # a byte each: not 0 if it was read before it was written
        self._written: Array | None = None
        self._shown: Array | None = None  # what was written before it was last shown to others

    def peek(self, dtype: np.dtype[Any], places: Ints) -> Array:
        """Return the elements of *dtype* at *places* as they are now; for the launch that is no access."""
        if places.size:
            self._use(places, dtype.itemsize)
        return _as(self._bytes, dtype).take(places.astype(np.intp, copy=False))

    def load(self, dtype: np.dtype[Any], places: Ints, count: int) -> Any:
        """Return the elements of *dtype* at *places*, in its own size; with a *count* the parts of vectors."""
        run = _run_of(places)
        places = places.astype(np.intp, copy=False)
        size = dtype.itemsize * count
        self._use(places if run is None else run, size)
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
        places = places.astype(np.intp, copy=False)
        size = dtype.itemsize * count
        self._use(places if run is None else run, size)
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
        self._own()
        self._use(places, dtype.itemsize)
        self._mark_read(places, dtype.itemsize)
        self._mark_written(places, dtype.itemsize)
        return _as(self._bytes, dtype)

    def read(self) -> Ints:
        """Return the ranges of bytes, from the start of the region, that were read before they were written.

        They are an array of two columns: where they start, and where they stop.
        """
        return self._ranges(self._read)

    def written(self) -> Ints:
        """Return the ranges of bytes that were written, in the same form."""
        return self._ranges(self._written, self._shown)

    def show(self, contents: Array) -> None:
        """Copy what was written since the last time to *contents*, where others see it; go on with what is there."""
        written, shown = self._written, self._shown
        if written is not None:
            for start, stop in self._parts():
                own = slice(start, stop)
                np.copyto(contents[own], self._bytes[own], where=written[own] != 0)
                if shown is not None:
                    shown[own] |= written[own]
            self._shown = written if shown is None else shown
        self._bytes, self._is_own, self._written, self._copied = contents, False, None, None

    def _parts(self) -> list[tuple[int, int]]:
        """Return the bytes that accesses can have touched."""
        return [(start << _CHUNK, stop << _CHUNK) for start, stop in _runs(self._used).tolist()]

    def _ranges(self, *marks: Array | None) -> Ints:
        """Return the ranges of bytes that have one of the marks."""
        known = [each for each in marks if each is not None]
        if not known:
            return np.empty((0, 2), np.intp)
        found = [_runs(np.bitwise_or.reduce([each[start:stop] for each in known]) != 0) + start
                 for start, stop in self._parts()]  # fmt: skip
        return np.concatenate(found)

    def _use(self, places: Any, size: int) -> None:
        """Note the chunks of an access, and fill those of the copy that are not filled."""
        is_run = isinstance(places, slice)
        low, high = (places.start, places.stop - 1) if is_run else (int(places.min()), int(places.max()))
        first, stop = low * size >> _CHUNK, ((high * size + size - 1) >> _CHUNK) + 1
        self._used[first:stop] = True
        copied = self._copied
        if copied is not None and not copied[first:stop].all():
            for begin, end in ((_runs(~copied[first:stop]) + first) << _CHUNK).tolist():
                self._bytes[begin:end] = self._contents[begin:end]
            copied[first:stop] = True

    def _whole(self, size: int, count: int) -> int:
        return len(self._bytes) // size * count

    def _own(self) -> None:
        if not self._is_own:
            self._contents, self._bytes = self._bytes, np.empty_like(self._bytes)
            self._copied = np.zeros_like(self._used)
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


def _runs(is_on: Array) -> Ints:
    """Return where the runs of true values begin and end, in two columns."""
    edges = [np.flatnonzero(is_on[1:] != is_on[:-1]) + 1]
    if is_on[0]:
        edges.insert(0, np.zeros(1, np.intp))
    if is_on[-1]:
        edges.append(np.full(1, len(is_on)))
    return np.concatenate(edges).reshape(-1, 2)
