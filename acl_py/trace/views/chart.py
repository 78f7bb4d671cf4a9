"""The lane chart: a trace as text for a terminal, with a row for the host, for each stream and for each engine.

If several tasks or threads make calls, each of them has a row instead of the host.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from rich.text import Text

from acl_py.trace.rows.columns import CallColumns, Ints, OpColumns, call_columns, op_columns, places
from acl_py.trace.rows.reading import ENGINE_ORDER, HostRow, as_timeline, queuing, share_rows, stream_order
from acl_py.trace.rows.recorder import Trace
from acl_py.trace.rows.timeline import GraphLaunch, Timeline
from acl_py.trace.views.drawing import Lane, Look, Span, Spans, draw
from acl_py.trace.views.shown import shown

_MAX_STREAMS = 12  # lanes per device; more streams share lanes
_MAX_NAMES = 4  # of streams whose kernels run side by side
_NEVER = 1 << 62
_MAX_TASKS = 8  # rows of tasks and threads; more of them share rows

_LOOKS = {
    "h2d": Look("»", "›", "›", "bright_blue", "to device", "copies"),
    "kernel": Look("█", "▐", "▌", "green", "kernel", "kernels"),
    "d2h": Look("«", "‹", "‹", "magenta", "to host", "copies"),
    "prefetch_h2d": Look("»", "›", "›", "blue", "prefetch", "prefetches"),
    "prefetch_d2h": Look("«", "‹", "‹", "blue", "prefetch back", "prefetches"),
    "d2d": Look("═", "─", "─", "cyan", "in device", "copies"),
    "h2h": Look("═", "─", "─", "yellow", "on the host", "copies"),
    "p2p": Look("═", "─", "─", "bright_cyan", "to device", "copies"),
    "collective": Look("▞", "▗", "▖", "bright_red", "collective", "collectives"),
    "fill": Look("▚", "▗", "▖", "cyan", "fill", "fills"),
    "host_function": Look("▓", "▒", "▒", "yellow", "function", "functions"),
    "graph": Look("▒", "░", "░", "bright_green", "graph", "launches"),
    "call": Look("▓", "▒", "▒", "yellow", "host calls", "calls"),
    "wait": Look("░", "·", "·", "bright_black", "host held", "calls", behind=True),
}
_ALL = list(_LOOKS.values())
_PLACES = {kind: place for place, kind in enumerate(_LOOKS)}


def lanes(
    trace: Trace | Timeline, width: int = 100, *, since_ns: int | None = None, until_ns: int | None = None
) -> str:
    """Draw *trace* as plain text of at most *width* columns.

    The chart shows the time from *since_ns* to *until_ns*. By default it begins with the first call that queued an
    operation, so preparations take no columns, and ends with the last operation and the calls that waited for it.
    """
    return styled_lanes(trace, width, since_ns=since_ns, until_ns=until_ns).plain


def styled_lanes(
    trace: Trace | Timeline, width: int = 100, *, since_ns: int | None = None, until_ns: int | None = None
) -> Text:
    """Draw the chart of `lanes` with colours, for rich."""
    timeline = as_timeline(trace)
    ops, calls = op_columns(timeline.ops), call_columns(timeline.calls)
    if not len(ops) and not len(calls):
        return Text("nothing happened")
    work, host = _Work(ops), _Host(ops, calls)
    start, end = _interesting(work, host)
    start, end = start if since_ns is None else since_ns, end if until_ns is None else until_ns
    end = max(end, start + 1)
    launches = [launch for launch in timeline.launches if launch.end_ns > start and launch.start_ns < end]
    labels = {engine: shown(engine, timeline.device, timeline.rules) for engine in ENGINE_ORDER}
    labels["host"] = "host thread"
    rows = [*_host_lanes(host, start, end), *_device_lanes(work, launches, stream_order(ops), labels, start, end)]
    return draw(rows, _ALL, start, end, width) if rows else Text("nothing happened")


# --- rows as arrays


class _Work:
    """The operations of a trace."""

    def __init__(self, ops: OpColumns) -> None:
        self.start, self.end = ops.start_ns, ops.end_ns
        self.device = np.array([kind.device for kind in ops.kinds], np.int32)[ops.kind]
        self.kind, self.kinds = _places([kind.kind for kind in ops.kinds], ops.kind)
        self.name, self.names = _places([kind.name for kind in ops.kinds], ops.kind)
        self.stream, self.streams = _places([kind.stream for kind in ops.kinds], ops.kind)
        self.engine, self.engines = _places([kind.engine for kind in ops.kinds], ops.kind)
        self.look = np.array([_PLACES[kind] for kind in self.kinds], np.int32)[self.kind]

    def spans(self, which: Ints) -> Spans:
        """Return some operations, by their places, with their names."""
        ones = np.ones(len(which), np.int32)
        return Spans(_ALL, self.names, self.start[which], self.end[which], self.look[which], self.name[which], ones)


class _Host:
    """The calls of a trace. The host works from *enter* on, and waits for a completion from *waits* on, until *exit*.

    *first* is the time of the first call that queued an operation.
    """

    def __init__(self, ops: OpColumns, calls: CallColumns) -> None:
        self.enter, self.exit = calls.enter_ns, calls.exit_ns
        self.name, self.names = _places([kind.called for kind in calls.kinds], calls.kind)
        self.caller, self.callers = _places(calls.callers, calls.caller)
        self.waits = self.exit.copy()
        self.first = int(ops.called_ns[ops.called_ns >= 0].min(initial=_NEVER))
        # A call that only queued one operation is over with that. What larger calls queued has to be looked up.
        others = np.flatnonzero(ops.called_ns < 0)
        if len(others):
            queued, call = ops.queued_ns[others], queuing(ops, calls)[others]
            self.first = min(self.first, int(np.where(call < 0, queued, self.enter[call]).min()))
            np.minimum.at(self.waits, call[call >= 0], queued[call >= 0])
        waits_only = np.array([kind.name.startswith(("Sync", "Sleep")) for kind in calls.kinds], bool)[calls.kind]
        self.waits[waits_only] = self.enter[waits_only]


def _places(values: Sequence[str], kind: Ints) -> tuple[Ints, list[str]]:
    """Return for each row the place of the value of its kind among the different values, and these."""
    place, different = places(values, len(values))
    return place.astype(np.int32)[kind], different


# --- lanes and their spans


def _interesting(work: _Work, host: _Host) -> tuple[int, int]:
    if not len(work.end):
        return int(host.enter.min()), int(host.exit.max())
    end = work.end.max()
    return host.first, int(max([end, *host.exit[host.enter < end]]))


def _host_lanes(host: _Host, start: int, end: int) -> Iterator[Lane]:
    shown = np.flatnonzero((host.exit > start) & (host.enter < end)).astype(np.int32)
    rows = _host_rows(host, shown)
    per_lane = -(-len(rows) // _MAX_TASKS) or 1
    place_of = {caller: place for place, caller in enumerate(host.callers)}
    for first in range(0, len(rows), per_lane):
        together = HostRow([caller for row in rows[first : first + per_lane] for caller in row.callers])
        of_lane = np.isin(host.caller[shown], [place_of[caller] for caller in together.callers])
        yield Lane(together.label if len(rows) > 1 else "host", partial(_host_spans, host, shown[of_lane]))


def _host_rows(host: _Host, shown: Ints) -> list[HostRow]:
    """Return the rows of the calls that are *shown*."""
    order = shown[np.argsort(host.enter[shown], kind="stable")]
    callers, earliest = np.unique(host.caller[order], return_index=True)
    last = np.zeros(len(host.callers), np.int64)
    np.maximum.at(last, host.caller[shown], host.exit[shown])
    return share_rows(
        {
            host.callers[caller]: (int(host.enter[index]), index)
            for caller, index in zip(callers.tolist(), order[earliest].tolist(), strict=True)
        },
        {caller: int(end) for caller, end in zip(host.callers, last, strict=True)},
    )


def _host_spans(host: _Host, which: Ints) -> Spans:
    """Return each call as up to two spans: the host works, and then waits for a completion."""
    enter, waits, exit_, name = host.enter[which], host.waits[which], host.exit[which], host.name[which]
    start, end = np.concatenate((enter, waits)), np.concatenate((waits, exit_))
    look = np.repeat(np.array([_PLACES["call"], _PLACES["wait"]], np.int32), len(which))
    spans = Spans(_ALL, host.names, start, end, look, np.tile(name, 2), np.ones(2 * len(which), np.int32))
    return spans.select(start < end)


def _device_lanes(
    work: _Work,
    launches: Sequence[GraphLaunch],
    order: Mapping[str, int],
    labels: Mapping[str, str],
    start: int,
    end: int,
) -> Iterator[Lane]:
    shown = np.flatnonzero((work.end > start) & (work.start < end)).astype(np.int32)
    devices = np.unique(work.device[shown]).tolist()
    for device in devices:
        own = shown[work.device[shown] == device]
        prefix = f"{device}: " if len(devices) > 1 else ""
        graphs = [
            Span(each.start_ns, each.end_ns, _LOOKS["graph"], each.label) for each in launches if each.device == device
        ]
        if graphs:
            yield Lane(f"{prefix}graphs", partial(Spans.of, graphs))
        streams = sorted(np.unique(work.stream[own]).tolist(), key=lambda place: order[work.streams[place]])
        if len(streams) > 1:
            yield from _stream_lanes(work, own, streams, prefix)
        for engine, label in labels.items():
            if engine in work.engines:
                of_engine = own[work.engine[own] == work.engines.index(engine)]
                if len(of_engine):
                    yield Lane(prefix + label, partial(_engine_spans, work, of_engine, by_stream=len(streams) > 1))


def _engine_spans(work: _Work, which: Ints, *, by_stream: bool) -> Spans:
    """Return the operations of an engine, labelled by name, or by stream if streams have lanes of their own."""
    if not by_stream:
        return work.spans(which)
    parts = []
    names = [stream.removeprefix("stream ") for stream in work.streams]
    for kind in sorted(work.kinds):
        of_kind = which[work.kind[which] == work.kinds.index(kind)]
        if len(of_kind):
            parts.append(_side_by_side(work, of_kind[np.argsort(work.start[of_kind], kind="stable")], kind, names))
    return Spans(_ALL, names, *map(np.concatenate, zip(*parts, strict=True)))


def _side_by_side(work: _Work, which: Ints, kind: str, names: list[str]) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return one span for operations of a *kind* that overlap on one engine, as kernels do: the columns of `Spans`.

    The operations come in the order of their starts. New names are appended to *names*, which begins with the streams.
    """
    start, end = work.start[which], np.maximum.accumulate(work.end[which])
    first = np.flatnonzero(np.append(True, start[1:] >= end[:-1]))
    last = np.append(first[1:], len(which))
    name = work.stream[which][first]
    places: dict[tuple[int, ...], int] = {}
    for group in np.flatnonzero(last - first > 1).tolist():
        streams = tuple(dict.fromkeys(work.stream[which[first[group] : last[group]]].tolist()))
        if len(streams) > _MAX_NAMES:
            name[group] = len(names)
            names.append(f"{last[group] - first[group]} {_LOOKS[kind].many}")
        elif streams not in places:
            name[group] = places[streams] = len(names)
            names.append("+".join(names[each] for each in streams))
        else:
            name[group] = places[streams]
    return start[first], end[last - 1], np.full(len(first), _PLACES[kind]), name, last - first


def _stream_lanes(work: _Work, which: Ints, streams: Sequence[int], prefix: str) -> Iterator[Lane]:
    per_lane = -(-len(streams) // _MAX_STREAMS)
    for first in range(0, len(streams), per_lane):
        together = streams[first : first + per_lane]
        name, *others = (work.streams[place] for place in together)
        label = f"{name} to {others[-1].removeprefix('stream ')}" if others else name
        yield Lane(prefix + label, partial(work.spans, which[np.isin(work.stream[which], together)]))
