"""The lane chart: a trace as text for a terminal, a row per stream and per engine, and one for the host.

A column is a slice of time. In each lane it belongs to whatever filled most of it, and a run of columns with one owner
is a bar, with its name where there is room. Neighbours too short for their names become one bar that says how many they
are, so the same chart shows four operations or four thousand. Colour may be added and is never needed.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from rich.text import Text

from acl_py.trace.reading import ENGINE_ORDER, queuing_calls, stream_order
from acl_py.trace.recorder import Call, Operation, Trace

_MAX_STREAMS = 12  # lanes per device; more streams share lanes
_MAX_NAMES = 4  # of streams whose kernels run side by side
_TICK_COLUMNS = 12  # at least so far apart
_SHARE_COLUMNS = 6


class _Look(NamedTuple):
    """How one kind of thing is drawn, in columns at least half full and in others, and what it is called."""

    full: str
    begins: str  # a thin column at the left end of a bar
    thin: str  # elsewhere
    style: str
    legend: str
    many: str


_LOOKS = {
    "h2d": _Look("»", "›", "›", "bright_blue", "to device", "copies"),
    "kernel": _Look("█", "▐", "▌", "green", "kernel", "kernels"),
    "d2h": _Look("«", "‹", "‹", "magenta", "to host", "copies"),
    "d2d": _Look("═", "─", "─", "cyan", "in device", "copies"),
    "fill": _Look("▚", "▗", "▖", "cyan", "fill", "fills"),
    "host_function": _Look("▓", "▒", "▒", "yellow", "function", "functions"),
    "call": _Look("▓", "▒", "▒", "yellow", "host calls", "calls"),
    "wait": _Look("░", "·", "·", "bright_black", "host held", "calls"),
}


class _Span(NamedTuple):
    """Something that lasts: what it looks like and is called, and how many operations or calls it stands for."""

    start: int
    end: int
    look: str
    name: str
    stands_for: int = 1


class _Lane(NamedTuple):
    label: str
    spans: list[_Span]


class _Window(NamedTuple):
    """The time that is shown: *columns* from *start* to *end*."""

    start: int
    end: int
    columns: int

    def column(self, at: int) -> int:
        return (at - self.start) * self.columns // (self.end - self.start)

    def begin_of(self, column: int) -> int:
        return self.start + column * (self.end - self.start) // self.columns


class _Bar(NamedTuple):
    """Columns *first* to *last* of one look, and what to write on them."""

    first: int
    last: int
    look: str
    name: str


def lanes(trace: Trace, width: int = 100, *, since_ns: int | None = None, until_ns: int | None = None) -> str:
    """*trace* as plain text of at most *width* columns.

    It shows the time from *since_ns* to *until_ns*: by default from the first call that queued something to the end of
    the last operation and of the calls that waited for it, so that preparations take no room.
    """
    return styled_lanes(trace, width, since_ns=since_ns, until_ns=until_ns).plain


def styled_lanes(trace: Trace, width: int = 100, *, since_ns: int | None = None, until_ns: int | None = None) -> Text:
    """The same with colours, for rich."""
    ops, calls = trace.ops, trace.calls
    if not ops and not calls:
        return Text("nothing happened")
    queued_by = queuing_calls(ops, calls)
    start, end = _interesting(ops, calls, queued_by)
    start, end = start if since_ns is None else since_ns, end if until_ns is None else until_ns
    end = max(end, start + 1)
    shown = [op for op in ops if op.end_ns > start and op.start_ns < end]
    rows = [_Lane("host", _host_spans(ops, calls, queued_by)), *_device_lanes(shown)]
    margin = max(len(row.label) for row in rows) + 2
    window = _Window(start, end, max(width - margin - _SHARE_COLUMNS, 20))
    lines = [_axis(window, margin)]
    lines += [_line(row, window, margin) for row in rows]
    lines += _legend(rows, window, margin)
    text = Text("\n").join(lines)
    text.no_wrap = True
    return text


# --- what is shown


def _interesting(ops: Sequence[Operation], calls: Sequence[Call], queued_by: Sequence[int | None]) -> tuple[int, int]:
    if not ops:
        return min(call.enter_ns for call in calls), max(call.exit_ns for call in calls)
    start = min(
        op.queued_ns if index is None else calls[index].enter_ns for op, index in zip(ops, queued_by, strict=True)
    )
    end = max(op.end_ns for op in ops)
    return start, max([end, *(call.exit_ns for call in calls if call.enter_ns < end)])


def _host_spans(ops: Sequence[Operation], calls: Sequence[Call], queued_by: Sequence[int | None]) -> list[_Span]:
    """Each call, in up to two parts: what the host did, and how long it was then held until something was done."""
    waits_from: dict[int, int] = {}
    for op, index in zip(ops, queued_by, strict=True):
        if index is not None:
            waits_from[index] = min(op.queued_ns, waits_from.get(index, op.queued_ns))
    spans: list[_Span] = []
    for index, call in enumerate(calls):
        waits = call.enter_ns if call.name.startswith(("Sync", "Sleep")) else waits_from.get(index, call.exit_ns)
        if call.enter_ns < waits:
            spans.append(_Span(call.enter_ns, waits, "call", call.name))
        if waits < call.exit_ns:
            spans.append(_Span(waits, call.exit_ns, "wait", call.name))
    return spans


def _device_lanes(ops: Sequence[Operation]) -> Iterator[_Lane]:
    devices = sorted({op.device for op in ops})
    for device in devices:
        of_device = [op for op in ops if op.device == device]
        prefix = f"{device}: " if len(devices) > 1 else ""
        streams = sorted({op.stream for op in of_device}, key=stream_order)
        if len(streams) > 1:
            yield from _stream_lanes(of_device, streams, prefix)
        for engine in ENGINE_ORDER:
            of_engine = [op for op in of_device if op.engine == engine]
            if of_engine:
                label = "host thread" if engine == "host" else engine
                yield _Lane(prefix + label, _engine_spans(of_engine, by_stream=len(streams) > 1))


def _engine_spans(ops: Sequence[Operation], *, by_stream: bool) -> list[_Span]:
    """What an engine did, called by names, or by streams where streams have lanes of their own."""
    if not by_stream:
        return [_Span(op.start_ns, op.end_ns, op.kind, op.name) for op in ops]
    spans: list[_Span] = []
    for _, of_look in groupby(sorted(ops, key=lambda op: (op.kind, op.start_ns)), key=lambda op: op.kind):
        together: list[Operation] = []
        end = 0
        for op in of_look:
            if together and op.start_ns >= end:
                spans.append(_side_by_side(together, end))
                together = []
            together.append(op)
            end = max(end, op.end_ns) if together[1:] else op.end_ns
        spans.append(_side_by_side(together, end))
    return spans


def _side_by_side(ops: Sequence[Operation], end: int) -> _Span:
    """Operations that overlap on one engine, as kernels do."""
    streams = list(dict.fromkeys(op.stream.removeprefix("stream ") for op in ops))
    look = ops[0].kind
    name = "+".join(streams) if len(streams) <= _MAX_NAMES else f"{len(ops)} {_LOOKS[look].many}"
    return _Span(ops[0].start_ns, end, look, name, len(ops))


def _stream_lanes(ops: Sequence[Operation], streams: Sequence[str], prefix: str) -> Iterator[_Lane]:
    per_lane = -(-len(streams) // _MAX_STREAMS)
    lane_of = {stream: number // per_lane for number, stream in enumerate(streams)}
    spans: list[list[_Span]] = [[] for _ in range(0, len(streams), per_lane)]
    for op in ops:
        spans[lane_of[op.stream]].append(_Span(op.start_ns, op.end_ns, op.kind, op.name))
    for number, of_lane in enumerate(spans):
        first, *others = streams[number * per_lane : (number + 1) * per_lane]
        yield _Lane(prefix + (f"{first} to {others[-1].removeprefix('stream ')}" if others else first), of_lane)


# --- columns and bars


class _Column:
    """What happens in one column: nanoseconds by owner, an index of a span."""

    __slots__ = ("busy_ns", "owner", "owner_ns", "waiting_ns")

    def __init__(self) -> None:
        self.owner = -1
        self.owner_ns = 0
        self.busy_ns = 0
        self.waiting_ns = 0


def _columns(spans: Sequence[_Span], window: _Window) -> list[_Column]:
    columns = [_Column() for _ in range(window.columns)]
    # Waits last: where tasks share the host, a wait of one is not what the host does while another calls.
    for index in sorted(range(len(spans)), key=lambda index: (spans[index].look == "wait", spans[index].start)):
        span = spans[index]
        if span.start >= window.end or span.end < window.start:
            continue
        first, last = window.column(max(span.start, window.start)), window.column(max(span.end - 1, span.start))
        for number in range(first, min(last, window.columns - 1) + 1):
            column = columns[number]
            begin, end = window.begin_of(number), window.begin_of(number + 1)
            share = min(span.end, end) - max(span.start, begin)
            if span.look == "wait":
                if column.busy_ns * 2 >= end - begin:
                    continue
                column.waiting_ns += share
            else:
                column.busy_ns += share
            if share > column.owner_ns or column.owner < 0:
                column.owner, column.owner_ns = index, share
    return columns


def _bars(spans: Sequence[_Span], columns: Sequence[_Column], window: _Window) -> list[_Bar]:
    bars: list[_Bar] = []
    numbers = [number for number, column in enumerate(columns) if column.owner >= 0]
    for owner, group in groupby(numbers, key=lambda number: columns[number].owner):
        run = list(group)
        bars.append(_Bar(run[0], run[-1], spans[owner].look, spans[owner].name))
    return list(_merged(bars, spans, window))


def _merged(bars: Sequence[_Bar], spans: Sequence[_Span], window: _Window) -> Iterator[_Bar]:
    """Neighbours of one look that are too short for their names, made one bar that says how many they are."""
    middles = [(window.column((span.start + span.end) // 2), span) for span in spans]
    run: list[_Bar] = []
    for bar in bars:
        fits = len(bar.name) + 2 <= bar.last - bar.first + 1
        if run and (fits or bar.look != run[-1].look or bar.first > run[-1].last + 1):
            yield _one(run, middles)
            run = []
        if fits:
            yield bar
        else:
            run.append(bar)
    if run:
        yield _one(run, middles)


def _one(run: Sequence[_Bar], middles: Sequence[tuple[int, _Span]]) -> _Bar:
    first, last, look = run[0].first, run[-1].last, run[0].look
    if len(run) == 1:
        return run[0]
    meant = [span for middle, span in middles if span.look == look and first <= middle <= last]
    what = f"× {meant[0].name}" if len({span.name for span in meant}) == 1 else _LOOKS[look].many
    return _Bar(first, last, look, f"{sum(span.stands_for for span in meant)} {what}")


# --- text


def _line(row: _Lane, window: _Window, margin: int) -> Text:
    columns = _columns(row.spans, window)
    line = Text(row.label.ljust(margin))
    at = 0
    previous = ""
    for bar in _bars(row.spans, columns, window):
        line.append(" " * (bar.first - at))
        touches = bar.first == at and previous == bar.look
        line.append(_bar(bar, columns, window, touches), style=_LOOKS[bar.look].style)
        at, previous = bar.last + 1, bar.look
    line.append(" " * (window.columns - at))
    busy = _busy_ns([span for span in row.spans if span.look != "wait"], window)
    line.append(f"{_percent(busy, window.end - window.start):>{_SHARE_COLUMNS}}", style="bold")
    return line


def _bar(bar: _Bar, columns: Sequence[_Column], window: _Window, touches: bool) -> str:
    look = _LOOKS[bar.look]
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
    label = f" {bar.name} " if len(bar.name) + 6 <= length else bar.name
    if len(label) + 2 <= length:
        begin = (length - len(label) + 1) // 2
        glyphs[begin : begin + len(label)] = label
    return "".join(glyphs)


def _busy_ns(spans: Sequence[_Span], window: _Window) -> int:
    """How long at least one of *spans* lasted, inside the window."""
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
    """Nanoseconds between two ticks: 1, 2 or 5 times a power of ten."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if factor * step * window.columns >= _TICK_COLUMNS * (window.end - window.start):
                return factor * step
        step *= 10


def _us(ns: int) -> str:
    return f"{ns / 1000:,.3f}".rstrip("0").rstrip(".")


def _legend(rows: Sequence[_Lane], window: _Window, margin: int) -> list[Text]:
    used = {span.look for row in rows for span in row.spans if span.start < window.end and span.end > window.start}
    items = [
        Text.assemble((look.full * 2, look.style), (f" {look.legend}", "dim"))
        for kind, look in _LOOKS.items()
        if kind in used
    ]
    if window.start:
        items.append(Text(f"0 = {_us(window.start)} us", style="dim"))
    lines: list[Text] = []
    for item in items:
        if not lines or len(lines[-1]) + 3 + len(item) > margin + window.columns + _SHARE_COLUMNS:
            lines.append(Text(" " * margin) + item)
        else:
            lines[-1] += Text("   ") + item
    return lines
