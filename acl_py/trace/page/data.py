"""The data of the page: the tables of a timeline as columns of integers, and the columns as short text.

A column is stored as the differences of its numbers, each in as few bytes as it needs (zigzag and base 128, as in
protocol buffers), and all bytes as base64. Texts are numbers of a list that all tables of a run share. So an operation
takes about 25 characters, whatever its names.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from acl_py.trace.rows.columns import call_columns, op_columns, step_columns
from acl_py.trace.rows.reading import ENGINE_ORDER, host_rows, launching, queuing_calls, site_of_call, stream_order
from acl_py.trace.rows.timeline import PIPE_ORDER, Call, CoreInstruction, CoreRun, Mark, Operation, StreamStep, Timeline
from acl_py.trace.views.shown import shown, shown_for_all
from device_model.completions import Why

Table = dict[str, Any]  # the number of rows, and a column by each name

CAUSES = {
    Why.HOST: "a late host",
    Why.ORDER: "work ahead in the stream",
    Why.EVENT: "an event or notify",
    Why.LEGACY: "the default-stream rule",
    Why.ENGINE: "a busy engine",
    Why.GAP: "the engine's pause",
    Why.CORES: "full cores",
    Why.QUEUE: "the shared hardware queue",
    Why.STAGING: "staging of pageable memory",
    Why.FAULT: "a fault rule",
}


class Finding(NamedTuple):
    """Something to look at, from *begin_ns* to *end_ns*, made in the line *site* ("file.py:12").

    The first line of *text* is the headline. *ops* and *calls* are the indices of what to point out. *held_ns* is for
    how long they were held, and *worth_ns* how much shorter the run would be without it; None if that is not known.
    """

    text: str
    site: str = ""
    begin_ns: int = 0
    end_ns: int = 0
    ops: Sequence[int] = ()
    calls: Sequence[int] = ()
    held_ns: int | None = None
    worth_ns: int | None = None


class PathPart(NamedTuple):
    """A part of the critical path: what the run waited for from *begin_ns* to *end_ns*.

    *cause* is "work" while the operation with index *op* ran, "call", "program" or "asleep" while the host was in the
    call with index *call*, between two calls or asleep in one, and else the name of a `Why` in small letters.
    """

    begin_ns: int
    end_ns: int
    cause: str
    op: int | None = None
    call: int | None = None


class Run(NamedTuple):
    """One timeline of the page.

    It is shown from *since_ns*, which is time 0 of the axis, to *until_ns*: by default from the first call that queued
    an operation to the last operation and the calls that waited for it, or to the end of a run that failed. *critical*
    is its critical path. *notes* say what prices and edited runs of its program do not contain; None if nobody has
    looked.
    """

    title: str
    timeline: Timeline
    findings: Sequence[Finding] = ()
    critical: Sequence[PathPart] = ()
    since_ns: int | None = None
    until_ns: int | None = None
    notes: Sequence[str] | None = None

    @classmethod
    def whole(cls, title: str, timeline: Timeline) -> "Run":
        """Return a run that is shown from the begin of the simulation to the end of its host."""
        return cls(title, timeline, since_ns=0, until_ns=timeline.end_ns)


class _Texts(dict[str, int]):
    """Numbers for texts, in the order in which they first appear."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


def document(runs: Sequence[Run], title: str) -> dict[str, Any]:
    """Return the data of *runs* for JSON."""
    cards = [(run.timeline.device, run.timeline.rules) for run in runs]
    return {
        "title": title,
        "causes": {why.name.lower(): shown_for_all(CAUSES[why], cards) for why in Why},
        "pipes": PIPE_ORDER,
        "runs": [_run(run) for run in runs],
    }


def _run(run: Run) -> dict[str, Any]:
    timeline = run.timeline
    ops, calls = timeline.ops, timeline.calls
    queued_by = queuing_calls(ops, calls)
    begin, end = _extent(ops, calls, queued_by, timeline.end_ns)
    if timeline.error:  # what was queued last has not run
        end = max(end, timeline.end_ns)
    texts = _Texts()
    engines = {engine: shown(engine, timeline.device, timeline.rules) for engine in ENGINE_ORDER}
    tables = {
        "ops": _ops(ops, queued_by, engines, texts),
        "calls": _calls(calls, texts),
        "steps": _steps(timeline.steps, texts),
        "marks": _marks(timeline.marks, texts),
        "launches": _launches(timeline, texts),
        "path": _path(run.critical, texts),
        "sleeps": _sleeps(calls),
        "instructions": _instructions(timeline.instructions, texts),
    }
    return {
        "title": run.title,
        "device": timeline.device,
        "rules": timeline.rules,
        "error": timeline.error,
        "since": begin if run.since_ns is None else run.since_ns,
        "until": end if run.until_ns is None else run.until_ns,
        "streams": _streams(ops, timeline.steps, texts),
        "engines": [texts[engine] for engine in engines.values()],
        "hosts": [row.label for row in host_rows(call_columns(calls))],
        "findings": [finding._asdict() for finding in (*run.findings, *_own_findings(timeline))],
        "notes": list(run.notes or ()),
        "cores": {index: _core_run(op.cores) for index, op in enumerate(ops) if op.cores is not None},
        **tables,
        "texts": list(texts),
    }


def _extent(
    ops: Sequence[Operation], calls: Sequence[Call], queued_by: Sequence[int | None], end_ns: int
) -> tuple[int, int]:
    """Return the time from the first call that queued an operation to the last work and the calls that wait for it."""
    if not ops:
        return min((call.enter_ns for call in calls), default=0), end_ns
    pairs = zip(ops, queued_by, strict=True)
    begin = min(op.queued_ns if index is None else calls[index].enter_ns for op, index in pairs)
    end = max(op.end_ns for op in ops)
    return begin, max([end, *(call.exit_ns for call in calls if call.enter_ns < end)])


# --- tables


def _ops(ops: Sequence[Operation], queued_by: Sequence[int | None], engines: Mapping[str, str], texts: _Texts) -> Table:
    return _table(
        len(ops),
        name=(texts[op.name] for op in ops),
        kind=(texts[op.kind] for op in ops),
        stream=(texts[op.stream] for op in ops),
        engine=(texts[engines[op.engine]] for op in ops),
        site=(texts[op.site] for op in ops),
        device=(op.device for op in ops),
        queued=(op.queued_ns for op in ops),
        start=(op.start_ns for op in ops),
        lasts=(op.end_ns - op.start_ns for op in ops),
        bytes=(op.bytes for op in ops),
        why=(op.why for op in ops),
        # The number of rows back to the operation that it waited for; 0 if it was none.
        back=(0 if op.after is None else index - op.after for index, op in enumerate(ops)),
        call=_indices(queued_by),
    )


def _calls(calls: Sequence[Call], texts: _Texts) -> Table:
    row_of = {caller: number for number, row in enumerate(host_rows(call_columns(calls))) for caller in row.callers}
    return _table(
        len(calls),
        name=(texts[call.called] for call in calls),
        caller=(texts[call.caller] for call in calls),
        site=(texts[site_of_call(call)] for call in calls),
        host=(row_of[call.caller] for call in calls),
        start=(call.enter_ns for call in calls),
        lasts=(call.exit_ns - call.enter_ns for call in calls),
        after=_indices(call.after for call in calls),
    )


def _sleeps(calls: Sequence[Call]) -> Table:
    """Return the sleeps of all calls, by the number of their call."""
    sleeps = [(index, sleep) for index, call in enumerate(calls) for sleep in call.sleeps]
    return _table(
        len(sleeps),
        call=(index for index, _ in sleeps),
        start=(sleep.begin_ns for _, sleep in sleeps),
        lasts=(sleep.end_ns - sleep.begin_ns for _, sleep in sleeps),
    )


def _path(parts: Sequence[PathPart], texts: _Texts) -> Table:
    return _table(
        len(parts),
        cause=(texts[part.cause] for part in parts),
        start=(part.begin_ns for part in parts),
        lasts=(part.end_ns - part.begin_ns for part in parts),
        op=_indices(part.op for part in parts),
        call=_indices(part.call for part in parts),
    )


def _steps(steps: Sequence[StreamStep], texts: _Texts) -> Table:
    return _table(
        len(steps),
        kind=(texts[step.kind] for step in steps),
        name=(texts[step.name] for step in steps),
        stream=(texts[step.stream] for step in steps),
        device=(step.device for step in steps),
        site=(texts[step.site] for step in steps),
        caller=(texts[step.caller] for step in steps),
        queued=(step.queued_ns for step in steps),
        start=(step.end_ns for step in steps),  # -1 if it never was over
        record=_indices(step.record for step in steps),
        after=_indices(step.after for step in steps),
    )


def _marks(marks: Sequence[Mark], texts: _Texts) -> Table:
    return _table(
        len(marks),
        name=(texts[mark.name] for mark in marks),
        caller=(texts[mark.caller] for mark in marks),
        site=(texts[mark.site] for mark in marks),
        start=(mark.begin_ns for mark in marks),
        lasts=(mark.end_ns - mark.begin_ns for mark in marks),
    )


def _launches(timeline: Timeline, texts: _Texts) -> Table:
    """Return the launches of graphs that have ended."""
    queued_by = launching(op_columns(timeline.ops), call_columns(timeline.calls)).tolist()
    calls = [*queued_by, *[-1] * (len(timeline.launches) - len(queued_by))]
    ended = [(each, call) for each, call in zip(timeline.launches, calls, strict=True) if each.end_ns >= 0]
    return _table(
        len(ended),
        name=(texts[each.label] for each, _ in ended),
        stream=(texts[each.stream] for each, _ in ended),
        device=(each.device for each, _ in ended),
        site=(texts[each.site] for each, _ in ended),
        queued=(each.queued_ns for each, _ in ended),
        start=(each.start_ns for each, _ in ended),
        lasts=(each.end_ns - each.start_ns for each, _ in ended),
        call=(call for _, call in ended),
        bodies=(sum(each.taken) for each, _ in ended),
    )


def _instructions(rows: Sequence[CoreInstruction], texts: _Texts) -> Table:
    """Return the instructions; times are in picoseconds, because cycles are no whole nanoseconds."""
    return _table(
        len(rows),
        operation=(row.operation for row in rows),
        core=(texts[row.core] for row in rows),
        block=(row.block for row in rows),
        pipe=(texts[row.pipe] for row in rows),
        kind=(texts[row.kind] for row in rows),
        name=(texts[row.name] for row in rows),
        site=(texts[row.site] for row in rows),
        start=(round(row.start_ns * 1000) for row in rows),
        lasts=(round(row.end_ns * 1000) - round(row.start_ns * 1000) for row in rows),
        bytes=(row.bytes for row in rows),
        back=(0 if row.waited_for is None else index - row.waited_for for index, row in enumerate(rows)),
    )


def _indices(indices: Iterable[int | None]) -> Iterator[int]:
    """Yield *indices* with -1 for none."""
    return (-1 if index is None else index for index in indices)


def _table(rows: int, **columns: Iterable[int]) -> Table:
    return {"rows": rows} | {name: packed(column) for name, column in columns.items()}


def packed(numbers: Iterable[int]) -> str:
    """Return *numbers* as the text of a column."""
    coded = bytearray()
    before = 0
    for number in numbers:
        step = number - before
        before = number
        step = step << 1 if step >= 0 else (-step << 1) - 1
        while step > 127:
            coded.append(step & 127 | 128)
            step >>= 7
        coded.append(step)
    return b64encode(coded).decode("ascii")


# --- what is not a table


def _streams(ops: Sequence[Operation], steps: Sequence[StreamStep], texts: _Texts) -> list[tuple[int, int]]:
    """Return the device and the text of each stream, in the order of their lanes."""
    queued = op_columns(ops), step_columns(steps)
    order = stream_order(*queued)
    streams = {(kind.device, kind.stream) for columns in queued for kind in columns.kinds}
    return [(device, texts[name]) for device, name in sorted(streams, key=lambda each: (each[0], order[each[1]]))]


def _core_run(cores: CoreRun) -> dict[str, Any]:
    return {"blocks": cores.blocks, "busy": dict(cores.busy_us), "left_out": cores.left_out}


def _own_findings(timeline: Timeline) -> Iterator[Finding]:
    """Yield what the recording itself has to report: mistakes in core kernels, and strikes of fault rules."""
    for index, op in enumerate(timeline.ops):
        for text in () if op.cores is None else op.cores.findings:
            yield Finding(text, op.site, op.start_ns, op.end_ns, (index,))
    for strike in timeline.strikes:
        yield Finding(f"{strike.rule} struck {strike.name}", strike.site, strike.at_ns, strike.at_ns)
