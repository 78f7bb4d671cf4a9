"""The lane chart: a trace as text for a terminal, with a row for the host, for each stream and for each engine.

If several tasks or threads make calls, each of them has a row instead of the host.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from acl_py.trace.drawing import Lane, Look, Span, draw
from acl_py.trace.reading import ENGINE_ORDER, HostRow, host_rows, queuing_calls, stream_order
from acl_py.trace.recorder import Call, Operation, Trace

_MAX_STREAMS = 12  # lanes per device; more streams share lanes
_MAX_NAMES = 4  # of streams whose kernels run side by side
_MAX_TASKS = 8  # rows of tasks and threads; more of them share rows

_LOOKS = {
    "h2d": Look("»", "›", "›", "bright_blue", "to device", "copies"),
    "kernel": Look("█", "▐", "▌", "green", "kernel", "kernels"),
    "d2h": Look("«", "‹", "‹", "magenta", "to host", "copies"),
    "d2d": Look("═", "─", "─", "cyan", "in device", "copies"),
    "p2p": Look("═", "─", "─", "bright_cyan", "to device", "copies"),
    "fill": Look("▚", "▗", "▖", "cyan", "fill", "fills"),
    "host_function": Look("▓", "▒", "▒", "yellow", "function", "functions"),
    "call": Look("▓", "▒", "▒", "yellow", "host calls", "calls"),
    "wait": Look("░", "·", "·", "bright_black", "host held", "calls", behind=True),
}


def lanes(trace: Trace, width: int = 100, *, since_ns: int | None = None, until_ns: int | None = None) -> str:
    """Draw *trace* as plain text of at most *width* columns.

    The chart shows the time from *since_ns* to *until_ns*. By default it begins with the first call that queued an
    operation, so preparations take no columns, and ends with the last operation and the calls that waited for it.
    """
    return styled_lanes(trace, width, since_ns=since_ns, until_ns=until_ns).plain


def styled_lanes(trace: Trace, width: int = 100, *, since_ns: int | None = None, until_ns: int | None = None) -> Text:
    """Draw the chart of `lanes` with colours, for rich."""
    ops, calls = trace.ops, trace.calls
    if not ops and not calls:
        return Text("nothing happened")
    queued_by = queuing_calls(ops, calls)
    start, end = _interesting(ops, calls, queued_by)
    start, end = start if since_ns is None else since_ns, end if until_ns is None else until_ns
    end = max(end, start + 1)
    shown = [op for op in ops if op.end_ns > start and op.start_ns < end]
    rows = [*_host_lanes(ops, calls, queued_by, start, end), *_device_lanes(shown)]
    return draw(rows, list(_LOOKS.values()), start, end, width)


# --- lanes and their spans


def _interesting(ops: Sequence[Operation], calls: Sequence[Call], queued_by: Sequence[int | None]) -> tuple[int, int]:
    if not ops:
        return min(call.enter_ns for call in calls), max(call.exit_ns for call in calls)
    start = min(
        op.queued_ns if index is None else calls[index].enter_ns for op, index in zip(ops, queued_by, strict=True)
    )
    end = max(op.end_ns for op in ops)
    return start, max([end, *(call.exit_ns for call in calls if call.enter_ns < end)])


def _host_lanes(
    ops: Sequence[Operation], calls: Sequence[Call], queued_by: Sequence[int | None], start: int, end: int
) -> Iterator[Lane]:
    shown = [index for index, call in enumerate(calls) if call.exit_ns > start and call.enter_ns < end]
    rows = host_rows([calls[index] for index in shown])
    spans = _host_spans(ops, calls, queued_by)
    per_lane = -(-len(rows) // _MAX_TASKS) or 1
    for first in range(0, len(rows), per_lane):
        together = rows[first : first + per_lane]
        callers = HostRow([caller for row in together for caller in row.callers])
        mine = set(callers.callers)
        of_lane = [span for index in shown if calls[index].caller in mine for span in spans[index]]
        yield Lane(callers.label if len(rows) > 1 else "host", of_lane)


def _host_spans(ops: Sequence[Operation], calls: Sequence[Call], queued_by: Sequence[int | None]) -> list[list[Span]]:
    """Return each call as up to two spans: the host works, and then waits for a completion."""
    waits_from: dict[int, int] = {}
    for op, index in zip(ops, queued_by, strict=True):
        if index is not None:
            waits_from[index] = min(op.queued_ns, waits_from.get(index, op.queued_ns))
    spans: list[list[Span]] = []
    for index, call in enumerate(calls):
        spans.append([])
        waits = call.enter_ns if call.name.startswith(("Sync", "Sleep")) else waits_from.get(index, call.exit_ns)
        if call.enter_ns < waits:
            spans[-1].append(Span(call.enter_ns, waits, _LOOKS["call"], call.name))
        if waits < call.exit_ns:
            spans[-1].append(Span(waits, call.exit_ns, _LOOKS["wait"], call.name))
    return spans


def _device_lanes(ops: Sequence[Operation]) -> Iterator[Lane]:
    devices = sorted({op.device for op in ops})
    for device in devices:
        of_device = [op for op in ops if op.device == device]
        prefix = f"{device}: " if len(devices) > 1 else ""
        streams = list(stream_order(of_device))
        if len(streams) > 1:
            yield from _stream_lanes(of_device, streams, prefix)
        for engine in ENGINE_ORDER:
            of_engine = [op for op in of_device if op.engine == engine]
            if of_engine:
                label = "host thread" if engine == "host" else engine
                yield Lane(prefix + label, _engine_spans(of_engine, by_stream=len(streams) > 1))


def _engine_spans(ops: Sequence[Operation], *, by_stream: bool) -> list[Span]:
    """Return the operations of an engine, labelled by name, or by stream if streams have lanes of their own."""
    if not by_stream:
        return [Span(op.start_ns, op.end_ns, _LOOKS[op.kind], op.name) for op in ops]
    spans: list[Span] = []
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


def _side_by_side(ops: Sequence[Operation], end: int) -> Span:
    """Return one span for operations that overlap on one engine, as kernels do."""
    streams = list(dict.fromkeys(op.stream.removeprefix("stream ") for op in ops))
    look = _LOOKS[ops[0].kind]
    name = "+".join(streams) if len(streams) <= _MAX_NAMES else f"{len(ops)} {look.many}"
    return Span(ops[0].start_ns, end, look, name, len(ops))


def _stream_lanes(ops: Sequence[Operation], streams: Sequence[str], prefix: str) -> Iterator[Lane]:
    per_lane = -(-len(streams) // _MAX_STREAMS)
    lane_of = {stream: number // per_lane for number, stream in enumerate(streams)}
    spans: list[list[Span]] = [[] for _ in range(0, len(streams), per_lane)]
    for op in ops:
        spans[lane_of[op.stream]].append(Span(op.start_ns, op.end_ns, _LOOKS[op.kind], op.name))
    for number, of_lane in enumerate(spans):
        first, *others = streams[number * per_lane : (number + 1) * per_lane]
        yield Lane(prefix + (f"{first} to {others[-1].removeprefix('stream ')}" if others else first), of_lane)
