"""Ranges of bytes: each is (start, stop), in bytes from the begin of one memory, without *stop*.

A list of ranges is sorted; none is empty, and none touches the next one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
Ranges: TypeAlias = Sequence[Range]


class ByteRanges:
    """A set of bytes of one memory, as ranges in their order."""

    __slots__ = ("_starts", "_stops")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self.add(ranges)

    def __iter__(self) -> Iterator[Range]:
        return zip(self._starts, self._stops, strict=True)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __repr__(self) -> str:
        return f"<ByteRanges {list(self)}>"

    def add(self, ranges: Iterable[Range]) -> None:
        """Add the bytes of *ranges*, of any order."""
        for start, stop in ranges:
            first, last = bisect_left(self._stops, start), bisect_right(self._starts, stop)
            if first < last:
                start, stop = min(start, self._starts[first]), max(stop, self._stops[last - 1])
            if start < stop:
                self._starts[first:last] = [start]
                self._stops[first:last] = [stop]

    def remove(self, start: int, stop: int) -> None:
        """Take out the bytes from *start* to *stop*."""
        first, last = self._touching(start, stop)
        if first >= last:
            return
        left = [(self._starts[first], start)] if self._starts[first] < start else []
        right = [(stop, self._stops[last - 1])] if self._stops[last - 1] > stop else []
        self._starts[first:last] = [begin for begin, _ in (*left, *right)]
        self._stops[first:last] = [end for _, end in (*left, *right)]

    def split(self, ranges: Iterable[Range]) -> tuple[list[Range], list[Range]]:
        """Return the bytes of *ranges* that are here, and the others."""
        here, others = [], []
        for start, stop in ranges:
            for place in range(*self._touching(start, stop)):
                begin, end = max(start, self._starts[place]), min(stop, self._stops[place])
                if start < begin:
                    others.append((start, begin))
                here.append((begin, end))
                start = end
            if start < stop:
                others.append((start, stop))
        return here, others

    def _touching(self, start: int, stop: int) -> Range:
        """Return the places of the first range that has bytes from *start* to *stop*, and of the first one behind."""
        return (bisect_right(self._stops, start), bisect_left(self._starts, stop)) if start < stop else (0, 0)


def union(ranges: Iterable[Range]) -> list[Range]:
    """Return *ranges*, of any order, as a list of ranges."""
    return list(ByteRanges(ranges))
