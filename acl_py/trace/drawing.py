"""Lanes of spans, drawn as text for a terminal: the common part of the charts.

A column is a slice of time. In each lane a column belongs to the span that filled most of it. A run of columns with one
owner is a bar, with its name if it fits. Neighbours that are too short for their names become one bar that says how
many they are, so the same chart shows four spans or four thousand. Colours may be added, but the chart does not need
them.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

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


class Lane(NamedTuple):
    """Spans that are drawn in one row."""

    label: str
    spans: Sequence[Span]


class _Window(NamedTuple):
    """The time that the chart shows: *columns* from *start* to *end*."""

    start: int
    end: int
    columns: int

    def column(self, at: int) -> int:
        return (at - self.start) * self.columns // (self.end - self.start)

    def begin_of(self, column: int) -> int:
        return self.start + column * (self.end - self.start) // self.columns


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
    lines += [_line(lane, window, margin) for lane in lanes]
    lines += _legend(lanes, looks, window, margin)
    text = Text("\n").join(lines)
    text.no_wrap = True
    return text


# --- columns and bars


class _Column:
    """One column: nanoseconds by owner, which is the index of a span."""

    __slots__ = ("busy_ns", "owner", "owner_ns", "waiting_ns")

    def __init__(self) -> None:
        self.owner = -1
        self.owner_ns = 0
        self.busy_ns = 0
        self.waiting_ns = 0


def _columns(spans: Sequence[Span], window: _Window) -> list[_Column]:
    columns = [_Column() for _ in range(window.columns)]
    # Waits come last: if tasks share the host and one waits while another makes a call, the host makes a call.
    for index in sorted(range(len(spans)), key=lambda index: (spans[index].look.behind, spans[index].start)):
        span = spans[index]
        if span.start >= window.end or span.end < window.start:
            continue
        first, last = window.column(max(span.start, window.start)), window.column(max(span.end - 1, span.start))
        for number in range(first, min(last, window.columns - 1) + 1):
            column = columns[number]
            begin, end = window.begin_of(number), window.begin_of(number + 1)
            share = min(span.end, end) - max(span.start, begin)
            if span.look.behind:
                if column.busy_ns * 2 >= end - begin:
                    continue
                column.waiting_ns += share
            else:
                column.busy_ns += share
            if share > column.owner_ns or column.owner < 0:
                column.owner, column.owner_ns = index, share
    return columns


def _bars(spans: Sequence[Span], columns: Sequence[_Column], window: _Window) -> list[_Bar]:
    bars: list[_Bar] = []
    numbers = [number for number, column in enumerate(columns) if column.owner >= 0]
    for owner, group in groupby(numbers, key=lambda number: columns[number].owner):
        run = list(group)
        bars.append(_Bar(run[0], run[-1], spans[owner].look, spans[owner].name))
    return list(_merged(bars, spans, window))


def _merged(bars: Sequence[_Bar], spans: Sequence[Span], window: _Window) -> Iterator[_Bar]:
    """Join neighbours of one look that are too short for their names to one bar that says how many they are."""
    middles = [(window.column((span.start + span.end) // 2), span) for span in spans]
    run: list[_Bar] = []
    for bar in bars:
        fits = cell_len(bar.name) + 2 <= bar.last - bar.first + 1
        if run and (fits or bar.look != run[-1].look or bar.first > run[-1].last + 1):
            yield _one(run, middles)
            run = []
        if fits:
            yield bar
        else:
            run.append(bar)
    if run:
        yield _one(run, middles)


def _one(run: Sequence[_Bar], middles: Sequence[tuple[int, Span]]) -> _Bar:
    first, last, look = run[0].first, run[-1].last, run[0].look
    if len(run) == 1:
        return run[0]
    meant = [span for middle, span in middles if span.look == look and first <= middle <= last]
    what = f"× {meant[0].name}" if len({span.name for span in meant}) == 1 else look.many
    return _Bar(first, last, look, f"{sum(span.stands_for for span in meant)} {what}")


# --- text


def _line(lane: Lane, window: _Window, margin: int) -> Text:
    columns = _columns(lane.spans, window)
    line = Text(set_cell_size(_fitting(lane.label), margin))
    at = 0
    previous: Look | None = None
    for bar in _bars(lane.spans, columns, window):
        line.append(" " * (bar.first - at))
        touches = bar.first == at and previous is bar.look
        line.append(_bar(bar, columns, window, touches), style=bar.look.style)
        at, previous = bar.last + 1, bar.look
    line.append(" " * (window.columns - at))
    busy = _busy_ns([span for span in lane.spans if not span.look.behind], window)
    line.append(f"{_percent(busy, window.end - window.start):>{_SHARE_COLUMNS}}", style="bold")
    return line


def _fitting(label: str) -> str:
    """Return *label*, cut if it is too long; letters of some alphabets take two columns."""
    return label if cell_len(label) <= _LABEL_COLUMNS else f"{set_cell_size(label, _LABEL_COLUMNS - 1).rstrip()}…"


def _bar(bar: _Bar, columns: Sequence[_Column], window: _Window, touches: bool) -> str:
    look = bar.look
    glyphs: list[str] = []
    for number in range(bar.first, bar.last + 1):
        column = columns[number]
        if (column.busy_ns + column.waiting_ns) * 2 >= window.begin_of(number + 1) - window.begin_of(number):
            glyphs.append(look.full)
        else:
            glyphs.append(look.begins if number == bar.first < bar.last else look.thin)
    length = len(glyphs)
    if touches and length > 2:
        glyphs[0] = "│"
    label = f" {bar.name} " if cell_len(bar.name) + 6 <= length else bar.name
    columns_of_label = cell_len(label)
    if columns_of_label + 2 <= length:
        begin = (length - columns_of_label + 1) // 2
        glyphs[begin : begin + columns_of_label] = label
    return "".join(glyphs)


def _busy_ns(spans: Sequence[Span], window: _Window) -> int:
    """Return for how many nanoseconds of the window at least one of *spans* lasts."""
    busy, reached = 0, window.start
    for span in sorted(spans):
        begin, end = max(span.start, reached), min(span.end, window.end)
        if begin < end:
            busy += end - begin
            reached = end
    return busy


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


def _legend(lanes: Sequence[Lane], looks: Sequence[Look], window: _Window, margin: int) -> list[Text]:
    used = {span.look for lane in lanes for span in lane.spans if span.start < window.end and span.end > window.start}
    items = [Text.assemble((look.full * 2, look.style), (f" {look.legend}", "dim")) for look in looks if look in used]
    if window.start:
        items.append(Text(f"0 = {_us(window.start)} us", style="dim"))
    lines: list[Text] = []
    for item in items:
        if not lines or len(lines[-1]) + 3 + len(item) > margin + window.columns + _SHARE_COLUMNS:
            lines.append(Text(" " * margin) + item)
        else:
            lines[-1] += Text("   ") + item
    return lines
