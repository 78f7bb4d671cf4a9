"""The calls of a run as steps of its tasks, in the order in which they began."""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from acl_py.calls.acts import (
    Asked,
    Batched,
    Destroyed,
    GraphLaunched,
    Made,
    Plain,
    Queued,
    Slept,
    Synchronised,
)  # fmt: skip
from acl_py.calls.table import all_verbs
from acl_py.recorded.names import Fields
from acl_py.recorded.translations import AWAIT, Translator, asleep, asleep_since, at_work, in_us, site_of
from acl_py.trace.rows.columns import CallKind, Columns, Ints, call_columns, op_columns
from acl_py.trace.rows.timeline import Access, Call, Timeline


@dataclass(slots=True)
class Act:
    """One call of the run as a step: the caller, from when to when, and when it fell asleep in it (-1: it did not)."""

    caller: int
    enter: int
    exit: int
    since: int
    site: str
    fields: Fields
    row: int  # for the order of calls at one time
    staged: int = -1  # the number of the staged copy in which it fell asleep for the first time
    naps: tuple[tuple[int, int], ...] = ()  # when it fell asleep again, and the number of that staged copy
    yields: bool = False  # it did not sleep, and other tasks ran meanwhile
    op: int | None = None  # the operation that it has queued, as an index
    after: int | None = None  # the operation that it has waited for
    done: bool | None = None  # the answer of a query
    launch: int | None = None  # the launch of a graph that it has queued, as an index
    pauses: bool = False  # other tasks may run in it, even if there is nothing to wait for
    is_pause: bool = False  # the program has slept or worked

    @property
    def begun(self) -> int:
        """When the host could do something else for the first time."""
        return self.exit if self.since < 0 else self.since


def acts_of(timeline: Timeline, translator: Translator) -> list[Act]:
    """Return the calls of the run in *timeline* in the order in which they began.

    A loop of queries that ended with the answer "done" is one of them.
    """
    acts: list[Act] = []
    queued: Counter[tuple[int, int, int]] = Counter()
    for index, op in enumerate(timeline.ops):
        if op.called_ns >= 0:
            queued[op.by, op.called_ns, op.queued_ns] += 1
            fields = translator.queue(op)
            acts.append(Act(op.by, op.called_ns, op.queued_ns, -1, op.site, fields, -1, op=index))
    by_time = {(act.caller, act.enter, act.exit): act for act in acts}
    for row, call in enumerate(timeline.calls):
        key = call.by, call.enter_ns, call.exit_ns
        if isinstance(call.act, Queued) and call.act.work is None and queued[key]:  # its operation has the facts
            queued[key] -= 1
            by_time[key].row, by_time[key].since = row, asleep_since(call)
            continue
        acts += _steps_of(row, call, translator)
    acts += (_access(access, translator) for access in timeline.accesses if access.extents or access.after is not None)
    acts.sort(key=lambda act: (act.enter, act.begun, act.staged, act.row))
    _name_waits(acts, timeline, translator)
    return _collapsed(acts, translator)


def note_acts(timeline: Timeline, translator: Translator) -> None:
    """Add the notes that `acts_of` adds, without a step for each call where notes are about single calls."""
    kinds = call_columns(timeline.calls).kinds
    if any(map(_looks_around, kinds)) or any(access.after is not None for access in timeline.accesses):
        acts_of(timeline, translator)
        return
    for row in _unlike(timeline):
        deque(_steps_of(row, timeline.calls[row], translator), maxlen=0)


def _looks_around(kind: CallKind) -> bool:
    """Whether notes about calls of this *kind* depend on other calls: on what has queued an operation, or on loops."""
    return kind.name == "await" or (isinstance(kind.act, Asked) and kind.act.answer is not None and not kind.act.answer)


def _unlike(timeline: Timeline) -> list[int]:
    """Return the rows of calls that notes may say something of: of calls of one kind that have not slept the first.

    A call whose operation has the facts is left out, as `acts_of` takes the operation.
    """
    calls, ops = call_columns(timeline.calls), op_columns(timeline.ops)
    chosen = set(calls.sleeps.call.tolist())
    by_ops = np.array([isinstance(kind.act, Queued) and kind.act.work is None for kind in calls.kinds], bool)
    _, firsts = np.unique(calls.kind, return_index=True)
    chosen.update(row for row in firsts.tolist() if not by_ops[calls.kind[row]])
    if by_ops.any():
        own = np.flatnonzero(ops.called_ns >= 0)
        queued = Counter(zip(_by(ops, own), ops.called_ns[own].tolist(), ops.queued_ns[own].tolist(), strict=True))
        rows = np.flatnonzero(by_ops[calls.kind])
        keys = zip(_by(calls, rows), calls.enter_ns[rows].tolist(), calls.exit_ns[rows].tolist(), strict=True)
        for row, key in zip(rows.tolist(), keys, strict=True):
            if queued[key]:
                queued[key] -= 1
                chosen.discard(row)
            else:
                chosen.add(row)
    return sorted(chosen)


def _by(columns: Columns[Any], rows: Ints) -> list[int]:
    """Return the numbers of the callers of these *rows*."""
    return [columns.by[caller] for caller in columns.caller[rows].tolist()]


def _access(access: Access, translator: Translator) -> Act:
    """Return the step of an access of the host, or of an await that found its operation done."""
    fields = translator.accessed(access) if access.extents else dict(AWAIT)
    now, row = access.at_ns, -1 if access.behind is None else access.behind
    return Act(access.by, now, now, -1, site_of(access), fields, row, after=access.after, pauses=not access.extents)


def _steps_of(row: int, call: Call, translator: Translator) -> Iterator[Act]:
    """Return the step, or the steps, of one call."""
    site = site_of(call)
    fields = translator.translated(call)
    awake = Act(call.by, call.enter_ns, call.exit_ns, asleep_since(call), site, {}, row, after=call.after)
    awake.staged = call.sleeps[0].number if call.sleeps else -1
    awake.naps = tuple((sleep.begin_ns, sleep.number) for sleep in call.sleeps[1:])
    if fields is not None and not _was_cut_short(call):
        awake.fields = fields
        awake.pauses = translator.pauses(call)
        match call.act:
            case Asked(_, answer) if answer is not None:
                awake.done = bool(answer)
            case GraphLaunched():
                awake.launch = translator.graphs.launch_of(call)
            case Slept():
                awake.is_pause = True
        yield awake
        return
    if isinstance(call.act, Queued) and call.act.work is None:
        translator.note(
            f"{site}: what {call.called} queued has not ended in this run, so a replay keeps the time of the call only"
        )
    elif _has_effect(call):
        translator.note(
            f"{site}: a stream program has no step for {call.called}: a replay keeps its time and leaves out its effect"
        )
    if asleep_since(call) < 0:
        awake.fields = at_work(call.exit_ns - call.enter_ns, call.name)
        yield awake
        return
    if fields is None:
        translator.note(f"{site}: {call.called} has waited, and the program has a fixed time in its place")
    else:
        translator.note(
            f"{site}: the wait in {call.called} was ended by a time-out or a cancellation, at a fixed time here"
        )
    begin, end = asleep_since(call), asleep_since(call) + call.waited_ns
    yield Act(call.by, call.enter_ns, begin, -1, site, at_work(begin - call.enter_ns, call.name), row)
    yield Act(call.by, begin, end, begin, site, asleep(call.waited_ns), row, pauses=True, is_pause=True)
    if call.exit_ns > end:
        yield Act(call.by, end, call.exit_ns, -1, site, at_work(call.exit_ns - end, call.name), row)


def _has_effect(call: Call) -> bool:
    """Whether *call* changes what later calls do."""
    match call.act:
        case Made() | Destroyed() | Queued() | Batched():
            return True
        case Plain(about) if about:
            return True
    verb = all_verbs().get(call.name)
    return verb is not None and verb.is_setting


def _was_cut_short(call: Call) -> bool:
    """Whether the wait of *call* ended without its wake-up: it was cancelled."""
    return (
        isinstance(call.act, Synchronised)
        and asleep_since(call) >= 0
        and call.exit_ns == asleep_since(call) + call.waited_ns
    )


def _name_waits(acts: list[Act], timeline: Timeline, translator: Translator) -> None:
    """Give each wait for one operation the id of the step that has queued it."""
    queuers = _queuers(acts, timeline)
    for act in acts:
        if act.fields != AWAIT:
            continue
        queuer = None if act.after is None else queuers.get(act.after)
        if queuer is None:
            if act.exit > act.enter:
                translator.note(f"{act.site}: an await of something that is no operation has a fixed time here")
            act.fields, act.is_pause = asleep(act.exit - act.enter), True
            continue
        act.fields["of"] = queuer.fields.setdefault("id", f"op {act.after}")


def _queuers(acts: list[Act], timeline: Timeline) -> dict[int, Act]:
    """Return the call that queued each operation, by its index; parts of staged copies have none."""
    queuers = {act.op: act for act in acts if act.op is not None}
    launches = {act.launch: act for act in acts if act.launch is not None}
    queuers |= {
        index: launches[op.launch]
        for index, op in enumerate(timeline.ops)
        if op.launch is not None and op.launch in launches
    }
    by_end = {(act.caller, act.exit): act for act in acts if act.op is None and act.since < 0 and act.exit > act.enter}
    for index, op in enumerate(timeline.ops):
        if op.called_ns < 0 and (op.by, op.queued_ns) in by_end:
            queuers[index] = by_end[op.by, op.queued_ns]
    return queuers


def _collapsed(acts: list[Act], translator: Translator) -> list[Act]:
    """Return *acts* with one step in place of each loop of queries that ended with the answer "done"."""
    kept: list[Act] = []
    place = 0
    while place < len(acts):
        loop = _loop_at(acts, place)
        if loop is None:
            act = acts[place]
            if act.done is False:
                translator.note(f'{act.site}: a query was answered "not yet"; what the host did then is fixed here')
            kept.append(act)
            place += 1
            continue
        kept.append(loop[0])
        place += loop[1]
    return kept


def _loop_at(acts: list[Act], place: int) -> tuple[Act, int] | None:
    """Return the loop of queries that begins at *place* as one step, and the number of its acts; None if there is none.

    Between two queries there is the same host work, the same sleep, or nothing.
    """
    first = acts[place]
    if first.done is not False:
        return None
    pauses: set[tuple[str, float]] = set()
    at = place
    while acts[at].done is False:
        pause = ("", 0.0)
        at += 1
        if at < len(acts) and acts[at].is_pause:
            pause = "sleep_us" if acts[at].pauses else "work_us", acts[at].fields["us"]
            at += 1
        if at == len(acts) or acts[at].caller != first.caller or acts[at].fields != first.fields:
            return None
        if pause == ("", 0.0) and acts[at].enter > acts[at - 1].exit:
            pause = "sleep_us", in_us(acts[at].enter - acts[at - 1].exit)
        pauses.add(pause)
        if len(pauses) > 1:
            return None
    if any(act.caller != first.caller for act in acts[place:at]):
        return None
    [(name, us)] = pauses
    end = acts[at]
    fields = {**first.fields, "until": True, **({name: us} if name else {})}
    return Act(first.caller, first.enter, end.exit, first.exit, first.site, fields, end.row), at + 1 - place
