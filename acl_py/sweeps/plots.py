"""Figures of a sweep, as matplotlib draws them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acl_py.late_imports import import_late

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from acl_py.sweeps.rows import Row, Sweep

_PANEL = 3.4, 3.0  # inches
_FORMS = (".svg", ".png", ".pdf")
_SAME = {"svg.hashsalt": "acl_py", "svg.fonttype": "none"}  # equal sweeps give equal files
_UNITS = {"us": "us of simulated time"}


def check_plot(path: Path) -> None:
    """Refuse a figure that cannot be drawn.

    Raises:
        ValueError: The name of the file says no format.
        ImportError: matplotlib is missing.
    """
    if path.suffix not in _FORMS:
        raise ValueError(f"--plot {path}: end its name with one of {', '.join(_FORMS)}")
    _matplotlib()


def plot(sweep: "Sweep", value: str, x: str | None, y: str | None) -> "Figure":
    """Return the figure; see `Sweep.plot`."""
    matplotlib = _matplotlib()
    rows = sweep.counting()
    axes = [name for name in sweep.axes() if name not in (x, y)]
    most = sorted(axes, key=lambda name: -len(_values(rows, name)) - 1000 * _are_numbers(_values(rows, name)))
    x = x or (most.pop(0) if most else None)
    if x is None:
        raise ValueError("there is nothing to draw: the points do not differ")
    y = y or (most.pop(0) if most else None)
    panels: dict[str, list[Row]] = {}
    for row in rows:
        panels.setdefault(", ".join(f"{name} {row.point.get(name)}" for name in axes if name not in (x, y)), []).append(
            row
        )
    figure: Figure = matplotlib.figure.Figure(figsize=(_PANEL[0] * len(panels) + 0.6, _PANEL[1]), layout="constrained")
    made = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axis, (title, own) in zip(made, panels.items(), strict=True):
        axis.set_title(title, fontsize="medium")
        if y is None:
            _curve(axis, own, value, x)
        else:
            _heat_map(axis, own, value, x, y)
    made[0].set_ylabel(_UNITS.get(value, value) if y is None else y)
    if y is not None:
        figure.suptitle(f"{_UNITS.get(value, value)}; the best of each panel is framed", fontsize="medium")
    return figure


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure to a file; that of an equal sweep is the same file.

    Raises:
        OSError: It cannot be written.
    """
    with _matplotlib().rc_context(_SAME):
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)


def _curve(axis: "Axes", rows: Sequence["Row"], value: str, x: str) -> None:
    places = _values(rows, x)
    axis.plot([places.index(row.point.get(x)) for row in rows], [row.value(value) for row in rows], marker="o")
    axis.set_xticks(range(len(places)), [_label(each) for each in places])
    axis.set_xlabel(x)
    axis.set_ylim(bottom=0)


def _heat_map(axis: "Axes", rows: Sequence["Row"], value: str, x: str, y: str) -> None:
    """Draw a cell for each pair of values; of several rows in a cell the best. Panels have colours of their own."""
    columns, lines = _values(rows, x), _values(rows, y)
    cells: dict[tuple[int, int], float] = {}
    for row in rows:
        place = lines.index(row.point.get(y)), columns.index(row.point.get(x))
        cells[place] = min(float(row.value(value)), cells.get(place, float("inf")))
    grid = [[cells.get((line, column), float("nan")) for column in range(len(columns))] for line in range(len(lines))]
    axis.imshow(grid, cmap="viridis_r", aspect="auto", origin="lower")
    best, middle = min(cells, key=cells.__getitem__), (min(cells.values()) + max(cells.values())) / 2
    for (line, column), each in cells.items():
        colour = "black" if each < middle else "white"
        axis.text(column, line, f"{each:,.0f}", ha="center", va="center", color=colour, fontsize="small")
    frame: Mapping[str, Any] = {"fill": False, "edgecolor": "red", "linewidth": 2}
    axis.add_patch(_matplotlib().patches.Rectangle((best[1] - 0.5, best[0] - 0.5), 1, 1, **frame))
    axis.set_xticks(range(len(columns)), [_label(each) for each in columns])
    axis.set_yticks(range(len(lines)), [_label(each) for each in lines])
    axis.set_xlabel(x)


def _values(rows: Sequence["Row"], name: str) -> list[Any]:
    return list(dict.fromkeys(row.point.get(name) for row in rows))


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(each, int | float) for each in values)


def _label(value: Any) -> str:
    """Return a value as text; sizes in KiB and MiB."""
    for unit, name in ((1 << 20, "Mi"), (1 << 10, "Ki")):
        if isinstance(value, int) and value >= unit and value % unit == 0:
            return f"{value // unit} {name}"
    return str(value)


def _matplotlib() -> Any:
    try:
        import_late("matplotlib.figure")
        import_late("matplotlib.patches")
        return import_late("matplotlib")
    except ImportError as error:
        raise ImportError("a figure needs matplotlib: pip install 'acl_py[notebooks]'") from error
