"""The bytes that a launch has read or written, as ranges that are kept in arrays.

A kernel that uses one word of each line touches as many ranges as it has threads. Tuples for all of them would take
longer than the kernel, so they are made for those who look at each.
"""

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from device_model.memory import Allocation
from device_model.work import Extent

Ints = npt.NDArray[np.intp]


class Touches(Sequence[Extent]):
    """Ranges of bytes, in order and apart in each allocation.

    Args:
        parts: The ranges of each allocation: an array of two columns, where they start and stop.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[tuple[Allocation, Ints]]) -> None:
        self._parts = [(allocation, ranges) for allocation, ranges in parts if len(ranges)]

    def __len__(self) -> int:
        return sum(len(ranges) for _, ranges in self._parts)

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __iter__(self) -> Iterator[Extent]:
        for allocation, ranges in self._parts:
            for start, stop in ranges.tolist():
                yield allocation, start, stop

    @overload
    def __getitem__(self, at: int) -> Extent: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Extent]: ...

    def __getitem__(self, at: int | slice) -> Extent | Sequence[Extent]:
        return list(self)[at]

    @property
    def allocations(self) -> list[Allocation]:
        """The allocations that they are in."""
        return [allocation for allocation, _ in self._parts]

    @property
    def nbytes(self) -> int:
        """How many bytes they have."""
        return sum(int((ranges[:, 1] - ranges[:, 0]).sum()) for _, ranges in self._parts)

    def sectors(self, nbytes: int) -> int:
        """Return how many sectors of *nbytes* bytes they touch."""
        return sum(_sectors(ranges, nbytes) for _, ranges in self._parts)

    def beside(self, other: "Touches") -> "Touches":
        """Return these ranges and those of *other*, as one where they overlap or touch."""
        if not self._parts or not other._parts:
            return self if self._parts else other
        parts: dict[Allocation, list[Ints]] = {}
        for allocation, ranges in (*self._parts, *other._parts):
            parts.setdefault(allocation, []).append(ranges)
        return Touches([(allocation, _merged(np.concatenate(each))) for allocation, each in parts.items()])

    def at_most(self, count: int) -> "Touches":
        """Return ranges that cover these, at most *count* of each allocation: the smallest gaps are closed."""
        return Touches([(allocation, _covered(ranges, count)) for allocation, ranges in self._parts])


NOTHING = Touches(())


def allocations_of(extents: Sequence[Extent]) -> list[Allocation]:
    """Return the allocations of *extents*, each once."""
    if not extents:
        return []
    if isinstance(extents, Touches):
        return extents.allocations
    return list(dict.fromkeys(allocation for allocation, _, _ in extents))


def _sectors(ranges: Ints, nbytes: int) -> int:
    first, last = ranges[:, 0] // nbytes, (ranges[:, 1] - 1) // nbytes
    return int((last - first + 1).sum() - (first[1:] == last[:-1]).sum())


def _merged(ranges: Ints) -> Ints:
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    stops = np.maximum.accumulate(ranges[:, 1])
    begins = np.flatnonzero(np.concatenate([[True], ranges[1:, 0] > stops[:-1]]))
    return np.stack([ranges[begins, 0], stops[np.append(begins[1:] - 1, len(stops) - 1)]], 1)


def _covered(ranges: Ints, count: int) -> Ints:
    if len(ranges) <= count:
        return ranges
    gaps = ranges[1:, 0] - ranges[:-1, 1]
    kept = np.sort(np.argsort(-gaps, kind="stable")[: count - 1])
    starts = np.concatenate([ranges[:1, 0], ranges[kept + 1, 0]])
    stops = np.concatenate([ranges[kept, 1], ranges[-1:, 1]])
    return np.stack([starts, stops], 1)
