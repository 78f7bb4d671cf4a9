"""Shadows: the last accesses of the bytes of a memory.

A memory has one entry for each *granule*: as many bytes as its narrowest access so far has, and 16 at most. The entry
has the last write, and the lowest and the highest lane that have read it since a barrier. Each is one number, a *word*:
the stamp of the access, whether it was strong, and its lane. 0 is no access. The other readers lie between these two.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from device_model.ptx.lanes.group import Array, Ints

STAMP, STRONG, LANE = 32, 1 << 31, (1 << 31) - 1
_WIDEST = 16  # bytes of a granule
_FEW = 64


class Shadow:
    """The last accesses to *nbytes* bytes, in *rows* copies of them."""

    __slots__ = ("_high", "_is_new", "_low", "_nbytes", "granule", "rows", "writes")

    def __init__(self, nbytes: int, rows: int = 1) -> None:
        self._nbytes = -(-nbytes // _WIDEST) * _WIDEST
        self.rows = rows
        self.granule = _WIDEST
        self.writes: Array = np.zeros(rows * self._nbytes // _WIDEST, np.int64)
        self._is_new = True  # it has had no access
        self._low: Array | None = None
        self._high: Array | None = None

    def spread(self, rows: int) -> None:
        """Let each of *rows* rows be what the only one is."""
        self.rows = rows
        self._map(lambda words: np.tile(words, rows))

    def places(self, row: Ints | int, address: Ints, width: int) -> tuple[Any, int]:
        """Return the granules of accesses of *width* bytes, and how many each has; a slice if they are one run."""
        if width < self.granule:
            self._divide(width)
        self._is_new = False
        first = (address >> self.granule.bit_length() - 1) + row * (self._nbytes // self.granule)
        count = width // self.granule
        if count > 1:
            first = (first[:, None] + np.arange(count)).reshape(-1)
        if len(first) > _FEW and int(first[-1]) - int(first[0]) == len(first) - 1 and (np.diff(first) == 1).all():
            return slice(int(first[0]), int(first[-1]) + 1), count
        return first, count

    def _divide(self, width: int) -> None:
        """Make granules of *width* bytes, which have had the same accesses so far."""
        parts = self.granule // width
        self.granule = width
        # A host keeps no zeros that nothing has touched: a shadow is large, and a launch may use little of it.
        self._map(lambda words: np.zeros(len(words) * parts, np.int64) if self._is_new else np.repeat(words, parts))

    def _map(self, change: Callable[[Array], Array]) -> None:
        self.writes = change(self.writes)
        if self._low is not None and self._high is not None:
            self._low, self._high = change(self._low), change(self._high)

    def readers(self, places: Any) -> tuple[Array, Array] | None:
        """Return the lowest and the highest reader of each of *places*; None if nobody has read anything."""
        if self._low is None or self._high is None:
            return None
        return self._low[places], self._high[places]

    def read(self, places: Any, mine: Array, is_over: Any, oldest: int = 1) -> None:
        """Note the readers *mine*; *is_over* says of a reader whether it does not matter any more, and none below
        *oldest* does.
        """
        if self._low is None or self._high is None:
            self._low, self._high = (np.zeros(len(self.writes), np.int64) for _ in range(2))
        low, high = self._low[places], self._high[places]
        own_low = own_high = mine
        if np.maximum.reduce(high) >= oldest:
            lane = mine & LANE
            own_high = np.where(is_over(high) | (high & LANE <= lane), mine, high)
            own_low = np.where(is_over(low) | (low & LANE >= lane), mine, low)
        self._high[places] = own_high
        if isinstance(places, slice):
            self._low[places] = own_low
        else:
            self._low[places[::-1]] = own_low[::-1]  # of several lanes the first one counts

    def write(self, places: Any, mine: Array) -> Array | None:
        """Note the writers *mine*; return who counts in each place, if a place has several of them."""
        self.writes[places] = mine
        if isinstance(places, slice):
            return None
        last = self.writes[places]
        return None if np.array_equal(last, mine) else last


class LocalShadow:
    """Which bytes of local memory each of *lanes* lanes has written."""

    __slots__ = ("_lanes", "_nbytes", "_written")

    def __init__(self, lanes: int, nbytes: int) -> None:
        self._lanes = lanes
        self._nbytes = nbytes
        self._written: Array = np.zeros(nbytes, np.uint8)  # one row stands for all lanes, as long as they do the same

    def _place(self, lanes: Ints | None, address: Array, width: int) -> tuple[Array, Array]:
        """Return the marks of elements of *width* bytes, and the places in them; *lanes* None is all of them."""
        address = address.view(np.int64)
        if len(self._written) == self._nbytes != self._lanes * self._nbytes:
            if lanes is None and address.size == 1:
                return self._written.view(f"u{width}"), address.reshape(-1) // width
            self._written = np.tile(self._written, self._lanes)
        owner = np.arange(self._lanes) if lanes is None else lanes
        return self._written.view(f"u{width}"), (address.reshape(-1) + owner * self._nbytes) // width

    def write(self, lanes: Ints | None, address: Array, width: int) -> None:
        """Note a write of *width* bytes, 8 at most."""
        marks, places = self._place(lanes, address, width)
        marks[places] = np.iinfo(marks.dtype).max

    def unwritten(self, lanes: Ints | None, address: Array, width: int) -> Array:
        """Return for each lane whether no byte of what it reads was written; one answer may stand for all lanes."""
        marks, places = self._place(lanes, address, width)
        return np.asarray(marks[places] == 0)
