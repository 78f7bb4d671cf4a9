"""Grids: all combinations of some values for each of some names, and the table of what came of them."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any


def combinations(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return all combinations of *values*, the last name varying fastest.

    Raises:
        ValueError: A name has no values.
    """
    empty = [name for name, each in values.items() if not len(each)]
    if empty:
        raise ValueError(f"nothing to try for {', '.join(empty)}")
    return [dict(zip(values, each, strict=True)) for each in product(*values.values())]


def table(lines: Sequence[Sequence[str]]) -> str:
    """Return *lines* of cells as a table. Columns are aligned to the right, the last one to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    widths[-1] = 0
    aligned = [[cell.rjust(width) for cell, width in zip(cells, widths, strict=True)] for cells in lines]
    return "\n".join("  ".join(line).rstrip() for line in aligned)
