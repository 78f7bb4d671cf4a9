"""The rows of a sweep, one for each point, and the table of them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from acl_py.late_imports import import_late

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True)
class Row:
    """What the program did at one point.

    Attributes:
        point: The options and parameters.
        us: The simulated time at its end, in microseconds; None if it failed.
        returned: What it returned.
        numbers: Of its report: how many operations and calls there were, how many findings, how long the host waited,
            and for each engine how long it was busy, in microseconds.
        error: With what it failed; empty if it did not.
        wall_s: How long the run took, in seconds of real time. Equal rows may differ in this.
        trace: The path of its trace; empty if none was asked for.
    """

    point: Mapping[str, Any]
    us: float | None = None
    returned: Any = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    wall_s: float = field(default=0.0, compare=False)
    trace: str = ""

    def value(self, name: str) -> Any:
        """Return the value *name*: "us", one of the point, of the numbers, or of a mapping that was returned.

        Raises:
            KeyError: There is none of that name.
        """
        if name in ("us", "returned", "error", "wall_s"):
            return getattr(self, name)
        for values in (self.point, self.numbers, self.returned):
            if isinstance(values, Mapping) and name in values:
                return values[name]
        known = [*self.point, *self.numbers, *(self.returned if isinstance(self.returned, Mapping) else ())]
        raise KeyError(f"there is no {name!r} in a row; there are us, {', '.join(known)}")

    def plain(self) -> dict[str, Any]:
        """Return it as a mapping, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Sweep:
    """The result of `sweep`: *rows* in the order of the points. str() is a table."""

    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def counting(self) -> list[Row]:
        """Return the rows that have not failed. Raises ValueError if all have failed."""
        rows = [row for row in self.rows if not row.error]
        if not rows:
            errors = "\n".join(f"  {dict(row.point)}: {row.error}" for row in self.rows[:10])
            raise ValueError(f"no point of the sweep has ended well:\n{errors}")
        return rows

    def best(self, by: str | Callable[[Row], float] = "us") -> Row:
        """Return the row with the smallest value, the first of equal ones. Raises ValueError if all have failed."""
        return min(self.counting(), key=_by(by))

    def pareto(self, *names: str) -> list[Row]:
        """Return the rows that no other row beats in one of the values *names* and equals in the others.

        Less is better.

        Raises ValueError if all have failed, KeyError if a row has no such value.
        """
        rows = [(row, tuple(row.value(name) for name in names)) for row in self.counting()]

        def is_beaten(values: Sequence[float]) -> bool:
            return any(all(a <= b for a, b in zip(other, values, strict=True)) and other != values for _, other in rows)

        return [row for row, values in rows if not is_beaten(values)]

    def records(self) -> list[dict[str, Any]]:
        """Return a flat mapping for each row: the point, us, numbers, what was returned, error, wall_s."""
        found = []
        for row in self.rows:
            given = row.returned if isinstance(row.returned, Mapping) else {"returned": row.returned}
            found.append({**row.point, "us": row.us, **row.numbers, **given, "error": row.error, "wall_s": row.wall_s})
        return found

    def pandas(self) -> Any:
        """Return a DataFrame of `records`. Raises ImportError without pandas."""
        return _library("pandas").DataFrame(self.records())

    def xarray(self, *names: str) -> Any:
        """Return a Dataset of the values *names* ("us" by default) over what differs between the points.

        Raises ImportError without xarray, ValueError if the points are no whole grid.
        """
        axes = self.axes()
        frame = self.pandas().set_index(axes)[list(names or ("us",))]
        if not frame.index.is_unique:
            raise ValueError(f"several points have the same {', '.join(axes)}")
        _library("xarray")
        return frame.to_xarray()

    def table(self, by: str = "us") -> "Table":
        """Return a table for rich; the best by the value *by* is marked. What mappings returned has columns of its own.

        Raises KeyError if a row has no such value.
        """
        from rich.table import Table  # imported here: a sweep in a script shows none

        names, given = self.axes(), self._returned()
        shown = Table(box=None)
        for name in names:
            shown.add_column(name)
        for name in ("us", "host waits", *given):
            shown.add_column(name, justify="right")
        shown.add_column("returned" if not given and any(row.returned is not None for row in self.rows) else "")
        ended = [row for row in self.rows if not row.error]
        best = min((float(row.value(by)) for row in ended), default=None)
        for row in self.rows:
            cells = [str(row.point.get(name, "")) for name in names]
            if row.us is None:
                shown.add_row(*cells, *["-"] * (2 + len(given)), row.error.splitlines()[0])
                continue
            values = {
                "us": row.us,
                "host waits": row.numbers.get("host_waits_us", 0.0),
                **{n: row.value(n) for n in given},
            }
            for name, value in values.items():
                cells.append(_text(value) if name in given else f"{value:,.1f}")
                cells[-1] += " best" if name == by and value == best else ""
            shown.add_row(*cells, "" if given or row.returned is None else str(row.returned))
        return shown

    def _returned(self) -> list[str]:
        """Return the names of numbers that all rows returned; none if one returned something else."""
        found: list[str] | None = None
        for row in self.rows:
            if row.error:
                continue
            if not isinstance(row.returned, Mapping) or not all(
                isinstance(each, int | float) for each in row.returned.values()
            ):
                return []
            if found is not None and found != list(row.returned):
                return []
            found = list(row.returned)
        return found or []

    def plot(self, value: str = "us", x: str | None = None, y: str | None = None) -> "Figure":
        """Return a figure of matplotlib: a heat map of *value* over *x* and *y*, a panel for each point of the rest.

        By default *x* and *y* are the two names that differ between the points and have the most values. Without a
        second one, each panel has a curve.

        Raises:
            ImportError: matplotlib is missing.
            KeyError: There is no such value.
            ValueError: All points have failed, or they do not differ.
        """
        from acl_py.sweeps.plots import plot  # late: few programs draw

        return plot(self, value, x, y)

    def axes(self) -> list[str]:
        """Return the names that differ between the points."""
        return [name for name in self.rows[0].point if len({str(row.point.get(name)) for row in self.rows}) > 1]

    def __str__(self) -> str:
        from rich.console import Console  # imported here: as above

        console = Console(width=120, no_color=True)
        with console.capture() as text:
            console.print(self.table())
        return "\n".join(line.rstrip() for line in text.get().splitlines())


def _by(by: str | Callable[[Row], float]) -> Callable[[Row], float]:
    return by if callable(by) else lambda row: float(row.value(by))


def _text(value: float) -> str:
    """Return what a run has given, for the table: four digits at least."""
    if isinstance(value, bool):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if abs(value) < 1000 else f"{value:,.1f}"


def _library(name: str) -> Any:
    try:
        return import_late(name)
    except ImportError as error:
        raise ImportError(f"this needs the package {name}: pip install {name}") from error


def plain_json(value: Any, **options: Any) -> str:
    """Return *value* as JSON, with numbers and arrays of NumPy.

    Raises:
        TypeError: It has no form in JSON.
        ValueError: It contains itself.
    """
    return json.dumps(value, default=_plain, **options)


def plain_of(value: Any) -> Any:
    """Return *value* as it comes back from JSON; raise what `plain_json` raises."""
    return json.loads(plain_json(value))


def _plain(value: Any) -> Any:
    """Return a number of NumPy as one of Python, and an array as a list."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
