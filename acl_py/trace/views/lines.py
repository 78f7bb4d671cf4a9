"""Lines of text from columns: many lines at once, which NumPy makes.

A line has the same parts in each row: constant text, texts, whole numbers and times. Each part is a matrix of bytes
with a row for each line, and shorter texts are filled with zeros. `lines` puts the parts side by side and removes the
zeros, which no JSON text contains. This takes a quarter of the time of a format string for each line.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from acl_py.trace.rows.columns import Bools, Ints, merged_order, places

Part = npt.NDArray[np.uint8]  # a row for each line


def texts(values: Sequence[str]) -> Part:
    """Return a part with a text for each line.

    A part of lines with the texts at some places is `texts(values)[places]`.
    """
    # Half of a surrogate pair is written as its escape sequence.
    table = np.array([value.encode(errors="backslashreplace") for value in values], np.bytes_)
    return table.view(np.uint8).reshape(len(values), table.itemsize)


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


def signed(values: Ints) -> Part:
    """Return a part with a number for each line."""
    return line(texts(["", "-"])[(values < 0).astype(np.int64)], whole(np.abs(values)))


def rates(amounts: Ints, times: Ints) -> Part:
    """Return a part with each amount for one unit of time, with three decimals; 0 if the time is 0."""
    which, pairs = places(zip(amounts.tolist(), times.tolist(), strict=True), len(amounts))
    return texts([f"{amount / time if time else 0:.3f}" for amount, time in pairs])[which]


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
    return both[merged_order(len(first), behind)]


def joined(lines: Part, separator: str) -> str:
    """Return all *lines* as one text."""
    filled = line(lines, separator)
    text: bytes = filled[filled != 0].tobytes()
    return text.decode().removesuffix(separator)
