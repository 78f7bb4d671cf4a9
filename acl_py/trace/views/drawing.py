"""Lanes of spans, drawn as text for a terminal: the common part of the charts.

A column is a slice of time. In each lane a column belongs to the span that filled most of it. A run of columns with one
owner is a bar, with its name if it fits. Neighbours that are too short for their names become one bar that says how
many they are, so the same chart shows four spans or four million. Colours may be added, but the chart does not need
them.

The spans of a lane are arrays, and all work on single spans is NumPy's: a trace has many more spans than the chart has
columns.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from acl_py.trace.rows.columns import Ints

_TICK_COLUMNS = 12  # the least distance of two ticks
_SHARE_COLUMNS = 6
_LEAST_COLUMNS = 20
_LABEL_COLUMNS = 28  # the most that the label of a lane takes


class Look(NamedTuple):
    """How one kind of span is drawn, in columns that it fills at least half and in others, and its name in the legend.

    A look that is *behind* shows only in columns that nothing else fills, and does not count as busy.
    """

    full: str
    begins: str  # a column that is filled less than half, at the left end of a bar
    thin: str  # such a column elsewhere
    style: str
    legend: str
    many: str
    behind: bool = False


class Span(NamedTuple):
    """Something that lasts: its look, its name, and the number of things that it stands for."""

    start: int
    end: int
    look: Look
    name: str
    stands_for: int = 1


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans as arrays: *look* and *name* are places in *looks* and *names*."""

    looks: Sequence[Look]
    names: Sequence[str]
    start: Ints
    end: Ints
    look: Ints
    name: Ints
    stands_for: Ints

    @classmethod
    def of(cls, spans: Sequence[Span]) -> "Spans":
        """Return *spans* as arrays."""
        looks, names = list(dict.fromkeys(s.look for s in spans)), list(dict.fromkeys(s.name for s in spans))
        rows = [(s.start, s.end, looks.index(s.look), names.index(s.name), s.stands_for) for s in spans]
        return cls(looks, names, *np.array(rows, np.int64).reshape(-1, 5).T)

    def __len__(self) -> int:
        return len(self.start)

    def select(self, which: Ints | npt.NDArray[np.bool_]) -> "Spans":
        """Return some of the spans, by their places or as a mask."""
        columns = (column[which] for column in (self.start, self.end, self.look, self.name, self.stands_for))
        return Spans(self.looks, self.names, *columns)

    @property
    def behind(self) -> npt.NDArray[np.bool_]:
        """Whether each span is behind all others."""
        return np.array([look.behind for look in self.looks], bool)[self.look]


class Lane(NamedTuple):
    """Spans that are drawn in one row, and made when it is drawn: a long trace has the spans of one row at a time."""

    label: str
    spans: Callable[[], Spans]


@dataclass(frozen=True)
class _Window:
    """The time that the chart shows: *columns* from *start* to *end*."""

    start: int
    end: int
    columns: int

    @cached_property
    def begins(self) -> Ints:
        """The beginnings of all columns, and the end of the last one."""
        width = self.end - self.start
        return np.array([self.start + column * width // self.columns for column in range(self.columns + 1)], np.int64)

    @cached_property
    def _borders(self) -> Ints:
        """The first nanosecond that is in each column, and the first behind them all."""
        width = self.end - self.start
        return np.array([self.start - -column * width // self.columns for column in range(self.columns + 1)], np.int64)

    def of(self, times: Ints) -> Ints:
        """Return the column of each time: -1 for times before the window, the number of columns for those after it."""
        return np.searchsorted(self._borders, times, side="right") - 1

    def column(self, at: int) -> int:
        return (at - self.start) * self.columns // (self.end - self.start)


class _Bar(NamedTuple):
    """Columns *first* to *last* of one look, and their label."""

    first: int
    last: int
    look: Look
    name: str


def draw(lanes: Sequence[Lane], looks: Sequence[Look], start: int, end: int, width: int) -> Text:
    """Draw *lanes* from *start* to *end* nanoseconds in at most *width* columns, with an axis and a legend."""
    margin = min(max(cell_len(lane.label) for lane in lanes), _LABEL_COLUMNS) + 2
    window = _Window(start, max(end, start + 1), max(width - margin - _SHARE_COLUMNS, _LEAST_COLUMNS))
    lines = [_axis(window, margin)]
    used: set[Look] = set()
    for lane in lanes:
        spans = lane.spans()
        lines.append(_line(lane.label, spans, window, margin))
        used.update(_shown(spans, window))
    lines += _legend([look for look in looks if look in used], window, margin)
    text = Text("\n").join(lines)
    text.no_wrap = True
    return text


# --- columns and bars


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a lane: the span that owns each, or -1, and for how many nanoseconds spans fill it."""

    owner: Ints
    filled_ns: Ints


def _columns(spans: Spans, window: _Window) -> _Columns:
    # Waits come last: if tasks share the host and one waits while another makes a call, the host makes a call.
    order = np.lexsort((spans.start, spans.behind))
    order = order[(spans.start[order] < window.end) & (spans.end[order] >= window.start)]
    first = window.of(np.maximum(spans.start[order], window.start))
    last = np.minimum(window.of(np.maximum(spans.end[order] - 1, spans.start[order])), window.columns - 1)
    lengths = np.maximum(last - first + 1, 0)
    span = np.repeat(order, lengths)  # here and below: an element for each column of each span
    column = np.arange(len(span)) - np.repeat(lengths.cumsum() - lengths - first, lengths)
    share = np.minimum(spans.end[span], window.begins[column + 1])
    share -= np.maximum(spans.start[span], window.begins[column])
    behind = spans.behind[span]

    filled, owner, most = (np.full(window.columns, value, np.int64) for value in (0, -1, -1))
    np.add.at(filled, column[~behind], share[~behind])
    shown = ~behind | (filled[column] * 2 < np.diff(window.begins)[column])
    span, column, share, behind = span[shown], column[shown], share[shown], behind[shown]
    np.add.at(filled, column[behind], share[behind])
    np.maximum.at(most, column, share)
    owns = share == most[column]
    owner[column[owns][::-1]] = span[owns][::-1]  # of equal shares the first
    return _Columns(owner, filled)


def _bars(spans: Spans, columns: _Columns, window: _Window) -> list[_Bar]:
    bars: list[_Bar] = []
    owners = columns.owner.tolist()
    counted_in = window.of(spans.start + (spans.end - spans.start) // 2)  # the column whose bar counts each span
    longest: dict[int, int] = {}
    for owner, group in groupby((number for number, owner in enumerate(owners) if owner >= 0), key=owners.__getitem__):
        run = list(group)
        bars.append(_Bar(run[0], run[-1], spans.looks[int(spans.look[owner])], spans.names[int(spans.name[owner])]))
        if len(run) > longest.get(owner, 0):  # spans overlap: the middle of one may belong to another
            longest[owner], counted_in[owner] = len(run), run[0]
    return list(_merged(bars, spans, counted_in))


def _merged(bars: Sequence[_Bar], spans: Spans, counted_in: Ints) -> Iterator[_Bar]:
    """Join neighbours of one look that are too short for their names to one bar that says how many they are."""
    order = np.argsort(counted_in, kind="stable")
    spans, counted_in = spans.select(order), counted_in[order]
    run: list[_Bar] = []
    for bar in bars:
        fits = cell_len(bar.name) + 2 <= bar.last - bar.first + 1
        if run and (fits or bar.look != run[-1].look or bar.first > run[-1].last + 1):
            yield _one(run, spans, counted_in)
            run = []
        if fits:
            yield bar
        else:
            run.append(bar)
    if run:
        yield _one(run, spans, counted_in)


def _one(run: Sequence[_Bar], spans: Spans, counted_in: Ints) -> _Bar:
    """Return one bar for a *run* of them; *spans* are in the order of the columns that they are *counted_in*.

    It has no name if other bars count all spans that it shows parts of.
    """
    first, last, look = run[0].first, run[-1].last, run[0].look
    if len(run) == 1:
        return run[0]
    begin, end = np.searchsorted(counted_in, (first, last + 1))
    meant = spans.select(np.arange(begin, end)[spans.look[begin:end] == spans.looks.index(look)])
    names = np.unique(meant.name).tolist()
    what = f"× {spans.names[names[0]]}" if len(names) == 1 else look.many
    return _Bar(first, last, look, f"{meant.stands_for.sum()} {what}" if names else "")


# --- text


def _line(label: str, spans: Spans, window: _Window, margin: int) -> Text:
    columns = _columns(spans, window)
    line = Text(set_cell_size(_fitting(label), margin))
    at = 0
    previous: Look | None = None
    for bar in _bars(spans, columns, window):
        line.append(" " * (bar.first - at))
        touches = bar.first == at and previous is bar.look
        line.append(_bar(bar, columns, window, touches), style=bar.look.style)
        at, previous = bar.last + 1, bar.look
    line.append(" " * (window.columns - at))
    busy = _busy_ns(spans.select(~spans.behind), window)
    line.append(f"{_percent(busy, window.end - window.start):>{_SHARE_COLUMNS}}", style="bold")
    return line


def _fitting(label: str) -> str:
    """Return *label*, cut if it is too long; letters of some alphabets take two columns."""
    return label if cell_len(label) <= _LABEL_COLUMNS else f"{set_cell_size(label, _LABEL_COLUMNS - 1).rstrip()}…"


def _bar(bar: _Bar, columns: _Columns, window: _Window, touches: bool) -> str:
    look = bar.look
    bar_columns = slice(bar.first, bar.last + 1)
    is_full = columns.filled_ns[bar_columns] * 2 >= np.diff(window.begins)[bar_columns]
    glyphs = [look.full if full else look.thin for full in is_full]
    if not is_full[0] and bar.first < bar.last:
        glyphs[0] = look.begins
    length = len(glyphs)
    if touches and length > 2:
        glyphs[0] = "│"
    label = f" {bar.name} " if cell_len(bar.name) + 6 <= length else bar.name
    columns_of_label = cell_len(label)
    if columns_of_label + 2 <= length:
        begin = (length - columns_of_label + 1) // 2
        glyphs[begin : begin + columns_of_label] = label
    return "".join(glyphs)


def _busy_ns(spans: Spans, window: _Window) -> int:
    """Return for how many nanoseconds of the window at least one of *spans* lasts."""
    order = np.argsort(spans.start, kind="stable")
    begin, end = spans.start[order], np.minimum(spans.end[order], window.end)
    reached = np.maximum.accumulate(np.concatenate(([window.start], end)))[:-1]
    return int(np.maximum(end - np.maximum(begin, reached), 0).sum())


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"


def _axis(window: _Window, margin: int) -> Text:
    step = _step(window)
    cells = [" "] * (margin + window.columns)
    at = 0
    while at < window.end - window.start:
        label = f"╷{_us(at)}" + ("" if at else " us")
        begin = margin + window.column(window.start + at)
        if begin + len(label) <= len(cells):
            cells[begin : begin + len(label)] = label
        at += step
    return Text("".join(cells) + "busy".rjust(_SHARE_COLUMNS), style="dim")


def _step(window: _Window) -> int:
    """Return the nanoseconds between two ticks: 1, 2 or 5 times a power of ten."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if factor * step * window.columns >= _TICK_COLUMNS * (window.end - window.start):
                return factor * step
        step *= 10


def _us(ns: int) -> str:
    return f"{ns / 1000:,.3f}".rstrip("0").rstrip(".")


def _shown(spans: Spans, window: _Window) -> list[Look]:
    """Return the looks of the spans in the window."""
    shown = (spans.start < window.end) & (spans.end > window.start)
    return [spans.looks[look] for look in np.unique(spans.look[shown]).tolist()]


def _legend(looks: Sequence[Look], window: _Window, margin: int) -> list[Text]:
    items = [Text.assemble((look.full * 2, look.style), (f" {look.legend}", "dim")) for look in looks]
    if window.start:
        items.append(Text(f"0 = {_us(window.start)} us", style="dim"))
    lines: list[Text] = []
    for item in items:
        if not lines or len(lines[-1]) + 3 + len(item) > margin + window.columns + _SHARE_COLUMNS:
            lines.append(Text(" " * margin) + item)
        else:
            lines[-1] += Text("   ") + item
    return lines
