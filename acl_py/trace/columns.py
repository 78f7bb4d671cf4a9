"""Lines of text from columns: many lines at once, which NumPy makes.

A line has the same parts in each row: constant text, texts, whole numbers and times. Each part is a matrix of bytes
with a row for each line, and shorter texts are filled with zeros. `lines` puts the parts side by side and removes the
zeros, which no JSON text contains. This takes a quarter of the time of a format string for each line.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from acl_py.trace.packing import Numbers

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_T = TypeVar("_T")
Part = npt.NDArray[np.uint8]  # a row for each line

_ROWS = 1000  # that are formatted at once: their bytes stay in the cache


def blocks(count: int) -> Iterator[slice]:
    """Yield slices that divide *count* rows into blocks, so that a long trace needs no more memory than a short one."""
    for first in range(0, count, _ROWS):
        yield slice(first, min(first + _ROWS, count))


def numbers(rows: Sequence[Any], field: str) -> Ints:
    """Return a field of all *rows* as an array."""
    return np.fromiter(map(attrgetter(field), rows), np.int64, len(rows))


def places(values: Iterable[_T], count: int) -> tuple[Ints, list[_T]]:
    """Return for each of *count* values its place among the different ones, and these."""
    place_of: Numbers[_T] = Numbers()
    return np.fromiter(map(place_of.__getitem__, values), np.int64, count), list(place_of)


def texts(values: Sequence[str], which: Ints | None = None) -> Part:
    """Return a part with a text for each line: *values*, or those at the places *which*. They are ASCII."""
    table = np.array(values, np.bytes_)
    part = table.view(np.uint8).reshape(len(values), table.itemsize)
    return part if which is None else part[which]


# Four bytes for three digits: with zeros in front, from 0 on; without them, from 1000 on; and nothing, at the end. Then
# the same for three decimals.
_DIGITS = np.array([*(f"{number:03d}" for number in range(1000)), *map(str, range(1000)), ""], "S4").view(np.uint32)
_DECIMALS = np.array([f".{number:03d}" for number in range(1000)], "S4").view(np.uint32)
_NOTHING = 2000


def whole(values: Ints) -> Part:
    """Return a part with a number for each line; none is negative."""
    return _side_by_side(_groups(values))


def us(times_ns: Ints) -> Part:
    """Return a part with microseconds, with three decimals, for each line."""
    whole_us = times_ns // 1000
    return _side_by_side([*_groups(whole_us), _DECIMALS[times_ns - 1000 * whole_us]])


def _groups(values: Ints) -> list[npt.NDArray[np.uint32]]:
    """Return three digits of all *values* after three digits."""
    rest = values // 1000
    groups = [_DIGITS[values - 1000 * rest + 1000 * (rest == 0)]]
    while rest.any():
        values, rest = rest, rest // 1000
        groups.insert(0, _DIGITS[np.where(values == 0, _NOTHING, values - 1000 * rest + 1000 * (rest == 0))])
    return groups


def _side_by_side(groups: list[npt.NDArray[np.uint32]]) -> Part:
    return np.stack(groups, axis=1).view(np.uint8)


def line(*parts: str | Part) -> Part:
    """Return *parts* side by side. A string is the same in all lines; at least one part is none."""
    count = next(len(part) for part in parts if not isinstance(part, str))
    columns = [texts([part]) if isinstance(part, str) else part for part in parts]
    whole_line = np.empty((count, sum(column.shape[1] for column in columns)), np.uint8)
    at = 0
    for column in columns:
        whole_line[:, at : at + column.shape[1]] = column
        at += column.shape[1]
    return whole_line


def only(where: Bools, part: Part) -> Part:
    """Return *part* with empty text in the lines that are not *where*."""
    return part * where[:, None]


def merged(first: Part, second: Part, behind: Ints) -> Part:
    """Return the lines of two parts: those of *second* stand behind those of *first* at the places *behind*."""
    width = max(first.shape[1], second.shape[1])
    both = np.zeros((len(first) + len(second), width), np.uint8)
    both[: len(first), : first.shape[1]], both[len(first) :, : second.shape[1]] = first, second
    return both[np.argsort(np.append(np.arange(len(first)), behind), kind="stable")]


def joined(lines: Part, separator: str) -> str:
    """Return all *lines* as one text."""
    filled = line(lines, separator)
    text: bytes = filled[filled != 0].tobytes()
    return text.decode("ascii").removesuffix(separator)
