"""The data of the page: the tables of a timeline as columns of integers, and the columns as short text.

A column is stored as the differences of its numbers, each in as few bytes as it needs (zigzag and base 128, as in
protocol buffers), and all bytes as base64. Texts are numbers of a list that all tables of a run share. So an operation
takes about 25 characters, whatever its names.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress
from operator import attrgetter, sub
from typing import Any, NamedTuple

import numpy as np

from acl_py.trace.rows.columns import (
    CallColumns,
    Columns,
    Ints,
    OpColumns,
    SleepColumns,
    StepColumns,
    call_columns,
    op_columns,
    step_columns,
)  # fmt: skip
from acl_py.trace.rows.reading import ENGINE_ORDER, host_rows, launching, queuing, short_site, stream_order
from acl_py.trace.rows.timeline import PIPE_ORDER, CoreInstruction, CoreRun, Timeline
from acl_py.trace.rows.windows import worked
from acl_py.trace.views.shown import shown, shown_for_all
from device_model.completions import Why

Table = dict[str, Any]  # the number of rows, and a column by each name
# The fields of rows that have other names in tables.
_SPELLED = {"queued": ("queued_ns",), "start": ("start_ns", "begin_ns"), "end": ("end_ns",)}

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
    *waits* has the begin and the end of each time that *held_ns* adds up, if they are known.
    """

    text: str
    site: str = ""
    begin_ns: int = 0
    end_ns: int = 0
    ops: Sequence[int] = ()
    calls: Sequence[int] = ()
    held_ns: int | None = None
    worth_ns: int | None = None
    waits: Sequence[tuple[int, int]] = ()


class PathPart(NamedTuple):
    """A part of the critical path: what the run waited for from *begin_ns* to *end_ns*.

    *cause* is "work" while the operation with index *op* ran, "call", "program" or "asleep" while the host was in the
    call with index *call*, between two calls or asleep in one, and otherwise the name of a `Why` in small letters.
    """

    begin_ns: int
    end_ns: int
    cause: str
    op: int | None = None
    call: int | None = None


class Run(NamedTuple):
    """One timeline of the page.

    It is shown from *since_ns*, which is time 0 of the axis, to *until_ns*. By default that is from the first call that
    queued an operation to the last wait, or to the end of a run that failed (windows.py). *critical* is its critical
    path. *notes* say what prices and edited runs of its program do not contain; None before prices were asked for.
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


def document(runs: Sequence[Run], title: str, mistakes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the data of *runs* and *mistakes* for JSON."""
    cards = [(run.timeline.device, run.timeline.rules) for run in runs]
    return {
        "title": title,
        "causes": {why.name.lower(): shown_for_all(CAUSES[why], cards) for why in Why},
        "pipes": PIPE_ORDER,
        "mistakes": list(mistakes),
        "runs": [_run(run) for run in runs],
    }


def _run(run: Run) -> dict[str, Any]:
    timeline = run.timeline
    ops, calls, steps = op_columns(timeline.ops), call_columns(timeline.calls), step_columns(timeline.steps)
    ((begin, end),) = worked(timeline).spans
    texts = _Texts()
    engines = {engine: shown(engine, timeline.device, timeline.rules) for engine in ENGINE_ORDER}
    tables = {
        "ops": _ops(ops, queuing(ops, calls), engines, texts),
        "calls": _calls(calls, texts),
        "steps": _steps(steps, texts),
        "marks": _table(timeline.marks, "name caller site start lasts", texts),
        "launches": _launches(timeline, ops, calls, texts),
        "path": _table(run.critical, "cause start lasts op call", texts),
        "sleeps": _sleeps(calls.sleeps),
        "instructions": _instructions(timeline.instructions, texts),
    }
    return {
        "title": run.title,
        "device": timeline.device,
        "rules": timeline.rules,
        "error": timeline.error,
        "since": begin if run.since_ns is None else run.since_ns,
        "until": end if run.until_ns is None else run.until_ns,
        "streams": _streams(ops, steps, texts),
        "engines": [texts[engine] for engine in engines.values()],
        "hosts": [row.label for row in host_rows(calls)],
        "findings": [_finding(each) for each in (*run.findings, *_own_findings(timeline, ops))],
        "notes": list(run.notes or ()),
        "cores": {index: _core_run(cores) for index, cores in sorted(ops.cores.items())},
        **tables,
        "source": dict(timeline.source),
        "texts": list(texts),
    }


# --- tables


def _ops(ops: OpColumns, queued_by: Ints, engines: Mapping[str, str], texts: _Texts) -> Table:
    return _columns(
        ops,
        "name kind stream engine site device queued start lasts bytes why back call",
        texts,
        engine=[engines[kind.engine] for kind in ops.kinds],
        start=ops.start_ns,
        lasts=ops.end_ns - ops.start_ns,
        # The number of rows back to the operation that it waited for; 0 if it was none.
        back=np.where(ops.after < 0, 0, np.arange(len(ops)) - ops.after),
        call=queued_by,
    )


def _calls(calls: CallColumns, texts: _Texts) -> Table:
    row_of = {caller: number for number, row in enumerate(host_rows(calls)) for caller in row.callers}
    after = np.full(len(calls), -1)
    after[calls.sleeps.call] = calls.sleeps.after  # the last one of each call stays
    return _columns(
        calls,
        "name caller site host start lasts after",
        texts,
        name=[kind.called for kind in calls.kinds],
        site=[short_site(kind.file, kind.line) for kind in calls.kinds],
        host=np.array([row_of.get(caller, 0) for caller in calls.callers], np.int64)[calls.caller],
        start=calls.enter_ns,
        lasts=calls.exit_ns - calls.enter_ns,
        after=after,
    )


def _steps(steps: StepColumns, texts: _Texts) -> Table:
    names = "kind name stream device site caller queued start record after"
    return _columns(steps, names, texts, start=steps.end_ns)  # -1 if it never was over


def _sleeps(sleeps: SleepColumns) -> Table:
    """Return the sleeps of all calls, by the number of their call."""
    columns = {"call": sleeps.call, "start": sleeps.begin_ns, "lasts": sleeps.end_ns - sleeps.begin_ns}
    return {"rows": len(sleeps.call)} | {name: packed(column) for name, column in columns.items()}


def _launches(timeline: Timeline, ops: OpColumns, calls_of: CallColumns, texts: _Texts) -> Table:
    """Return the launches of graphs that have ended."""
    queued_by = launching(ops, calls_of).tolist()
    calls = [*queued_by, *[-1] * (len(timeline.launches) - len(queued_by))]
    ended = [each.end_ns >= 0 for each in timeline.launches]
    launches = [*compress(timeline.launches, ended)]
    return _table(
        launches,
        "name stream device site queued start lasts call bodies",
        texts,
        name=(each.label for each in launches),
        call=compress(calls, ended),
        bodies=(sum(each.taken) for each in launches),
    )


def _instructions(rows: Sequence[CoreInstruction], texts: _Texts) -> Table:
    """Return the instructions; times are in picoseconds, because cycles are no whole nanoseconds."""
    return _table(
        rows,
        "operation core block pipe kind name site start lasts bytes back",
        texts,
        start=(round(row.start_ns * 1000) for row in rows),
        lasts=(round(row.end_ns * 1000) - round(row.start_ns * 1000) for row in rows),
        back=(0 if row.waited_for is None else index - row.waited_for for index, row in enumerate(rows)),
    )


def _columns(columns: Columns[Any], names: str, texts: _Texts, **others: Ints | list[Any]) -> Table:
    """Return the columns with these *names*: fields of *columns*, or *others*, for each row or for each kind."""
    table: Table = {"rows": len(columns)}
    values: Ints | list[Any]
    for name in names.split():
        if name == "caller":
            values = _numbered(columns.caller, columns.callers, texts)
        elif name in others:
            values = others[name]
        elif columns.kinds and hasattr(columns.kinds[0], name):
            values = [*map(attrgetter(name), columns.kinds)]
        else:
            values = getattr(columns, "queued_ns" if name == "queued" else name, columns.kind)  # without rows no kinds
        table[name] = packed(values if isinstance(values, np.ndarray) else _numbered(columns.kind, values, texts))
    return table


def _numbered(places: Ints, values: Sequence[str | int], texts: _Texts) -> Ints:
    """Return of *values* that at the place of each row. Texts are numbered in the order in which rows have them."""
    numbers = np.zeros(len(values), np.int64)
    used, first = np.unique(places, return_index=True)
    for place in used[np.argsort(first)].tolist():
        value = values[place]
        numbers[place] = texts[value] if isinstance(value, str) else value
    return numbers[places]


def _table(rows: Sequence[Any], names: str, texts: _Texts, **others: Iterable[Any]) -> Table:
    """Return the columns with these *names*: fields of *rows*, or *others*. A text is its number, None is -1."""
    table: Table = {"rows": len(rows)}
    for name in names.split():
        values = [*(others[name] if name in others else _field(rows, name))]
        if values and isinstance(values[0], str):
            table[name] = packed(map(texts.__getitem__, values))
        else:
            table[name] = packed([-1 if value is None else value for value in values] if None in values else values)
    return table


def _field(rows: Sequence[Any], name: str) -> Iterable[Any]:
    if name == "lasts":
        return map(sub, _field(rows, "end"), _field(rows, "start"))
    spelled = (each for each in _SPELLED.get(name, ()) if rows and hasattr(rows[0], each))
    return map(attrgetter(next(spelled, name)), rows)


def packed(numbers: Ints | Iterable[int]) -> str:
    """Return *numbers* as the text of a column."""
    if isinstance(numbers, np.ndarray):
        steps = np.diff(numbers.astype(np.int64), prepend=0).tolist()
    else:
        numbers = [*numbers]
        steps = map(sub, numbers, chain((0,), numbers))
    return b64encode(b"".join(map(_Codes().__getitem__, steps))).decode("ascii")


class _Codes(dict[int, bytes]):
    """The bytes of a difference. Most columns have few different ones, and each is encoded once."""

    def __missing__(self, step: int) -> bytes:
        left = step << 1 if step >= 0 else (-step << 1) - 1
        coded = bytearray()
        while left > 127:
            coded.append(left & 127 | 128)
            left >>= 7
        coded.append(left)
        self[step] = code = bytes(coded)
        return code


# --- what is not a table


def _streams(ops: OpColumns, steps: StepColumns, texts: _Texts) -> list[tuple[int, int]]:
    """Return the device and the text of each stream, in the order of their lanes."""
    order = stream_order(ops, steps)
    streams = {(kind.device, kind.stream) for columns in (ops, steps) for kind in columns.kinds}
    return [(device, texts[name]) for device, name in sorted(streams, key=lambda each: (each[0], order[each[1]]))]


def _core_run(cores: CoreRun) -> dict[str, Any]:
    return {"blocks": cores.blocks, "busy": dict(cores.busy_us), "left_out": cores.left_out}


def _finding(finding: Finding) -> dict[str, Any]:
    begins, ends = [begin for begin, _ in finding.waits], [end for _, end in finding.waits]
    waits = {"rows": len(begins), "start": packed(begins), "lasts": packed(map(sub, ends, begins))}
    return finding._asdict() | {"waits": waits}


def _own_findings(timeline: Timeline, ops: OpColumns) -> Iterator[Finding]:
    """Yield what the recording itself has to report: mistakes in core kernels, and strikes of fault rules."""
    for index, cores in sorted(ops.cores.items()):
        site = ops.kinds[ops.kind[index]].site
        for text in cores.findings:
            yield Finding(text, site, int(ops.start_ns[index]), int(ops.end_ns[index]), (index,))
    for strike in timeline.strikes:
        yield Finding(f"{strike.rule} struck {strike.name}", strike.site, strike.at_ns, strike.at_ns)
