"""Buckets: consecutive all-reduces of one communicator as fewer larger ones, or a large one in parts.

All-reduces are consecutive if they have the same type, reduction, stream and task on each rank, and nothing between
them needs what an earlier one does: a wait of the host, other work in the stream, or somebody who waits for an event
that was recorded there. They become one, where the last of them was: then all gradients are ready. Records between them
move behind it. Ranges that do not lie one behind the other are copied into a bucket, and back.

One that is larger than the limit is divided where other work has written its bytes, and each part begins behind the
last work on its bytes. The other ranks divide theirs in the same places, so the ranks still agree.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from acl_py.calls.acts import (
    Asked,
    Began,
    CaptureBegan,
    Completed,
    Destroyed,
    Ended,
    Joined,
    Made,
    Queued,
    Recorded,
    Synchronised,
    Waited,
)  # fmt: skip
from acl_py.calls.steps import Name
from acl_py.explain.cases import Case, EditError, made_like, names_in, queues, with_fields
from acl_py.explain.relisting import Bytes, conflict, touches
from acl_py.programs.format import Program, Step
from device_model.collectives.calls import POINT_TO_POINT, CollectiveKind

_EVENT = {"timing": False, "blocking": False}
_OF_PAIRS = {kind.value for kind in POINT_TO_POINT}
_LEGACY = "legacy"
_COPIED = "gradients that do not lie one behind the other are copied into a bucket and back; its memory is not included"
_DIVIDED = (
    "the host calls each part behind the last work on its bytes; which work that is, follows from the bytes that it "
    "declares"
)

Call = Mapping[str, Any]
Span = tuple[int, int]  # the bytes from the first to the second, counted from the first of an all-reduce


class Sum(NamedTuple):
    """A collective that a rank calls: the *place*-th *call* of *step*."""

    step: Step
    place: int
    call: Call

    @property
    def nbytes(self) -> int:
        """How many bytes it combines."""
        [(_, start, stop)] = self.call["reads"]
        return int(stop - start)

    @property
    def facts(self) -> tuple[object, ...]:
        """What those in one bucket have in common."""
        call = self.call
        return call["kind"], call.get("type"), call.get("reduction"), call["stream"], self.step.task, self.step.thread

    def part(self, span: Span) -> Call:
        """Return the call of the part *span*."""
        begin, end = span
        ranges = {
            name: [[buffer, start + begin, start + end] for buffer, start, _ in self.call[name]]
            for name in ("reads", "writes")
        }
        return {**self.call, "count": self.call["count"] * (end - begin) // self.nbytes, **ranges}


Row = tuple[Sum, ...]  # the same collective of all ranks


def bucket(case: Case, limit: int) -> Case:
    """Return *case* with its all-reduces in buckets of at most *limit* bytes.

    Raises:
        EditError: there is none to merge or to divide, or the program captures graphs.
    """
    capture = next((step for step in case.program.steps if isinstance(step.act, CaptureBegan)), None)
    if capture is not None:
        raise EditError(
            f"step {capture.index} ({capture.op}): the program captures graphs, and their nodes have an order of their "
            "own; change the capture instead"
        )
    bucketing = _Bucketing(case, limit)
    for rows in _rows(case.program):
        bucketing.look_at(rows)
    return bucketing.case()


def _rows(program: Program) -> Iterator[list[Row]]:
    """Yield for each communicator its collectives, in their order."""
    together = _communicators(program)
    made: dict[str, list[Sum]] = {comm: [] for comms in together for comm in comms}
    for step in program.steps:
        for place, call in enumerate(step.fields["calls"] if isinstance(step.act, Joined) else ()):
            if call["kind"] not in _OF_PAIRS:
                made[call["comm"]].append(Sum(step, place, call))
    for comms in together:
        yield [*zip(*(made[comm] for comm in comms), strict=False)]  # a run that failed may lack some at the end


def _communicators(program: Program) -> list[list[str]]:
    """Return the names that the ranks of each communicator have for it."""
    found: dict[str, list[str]] = {}
    for step in program.steps:
        if "comms" in step.fields:
            found[step.fields["comms"][0]] = step.fields["comms"]
        elif "together" in step.fields:
            found.setdefault(step.fields["together"], []).append(step.fields["comm"])
    return [*found.values()]


class _Bucketing:
    """What becomes of the steps of a case."""

    def __init__(self, case: Case, limit: int) -> None:
        self.before = case
        self.limit = limit
        self.steps = case.program.steps
        self.devices = _devices(case.program)
        self.calls: dict[tuple[int, int], Call | None] = {}  # by step and place: what is called there now
        self.gone: set[int] = set()  # steps that move
        self.ahead: dict[int, list[Step]] = {}  # steps to come in front of one, and behind it
        self.behind: dict[int, list[Step]] = {}
        self.ids: dict[str, str] = {}  # of operations that have become part of another
        self.buffers: dict[str, Mapping[str, Any]] = {}
        self.events: dict[str, Mapping[str, Any]] = {}
        self.copied = self.divided = False
        self._uses: dict[str, list[Step]] = {}  # of each event
        for step in self.steps:
            for name in _events_of(step):
                self._uses.setdefault(name, []).append(step)
        taken = [
            *case.program.events,
            *case.program.buffers,
            *(str(name) for step in self.steps for name in _made_by(step)),
        ]
        self._prefix = "bucket"
        while any(name.startswith(self._prefix) for name in taken):
            self._prefix += "_"

    def case(self) -> Case:
        """Return the changed case."""
        if not self.calls:
            raise EditError(
                f"no AllReduce has more than {self.limit:,} bytes, and no two follow each other that fit there together"
            )
        program = self.before.program
        case = self.before.with_program(
            buffers={**program.buffers, **self.buffers}, events={**program.events, **self.events}
        )
        notes = [*([_COPIED] * self.copied), *([_DIVIDED] * self.divided)]
        return case.with_steps(self._changed).noting(*notes)

    def _changed(self, step: Step) -> list[Step]:
        pieces = [] if step.index in self.gone else self._itself(step)
        return [*self.ahead.get(step.index, ()), *pieces, *self.behind.get(step.index, ())]

    def _itself(self, step: Step) -> list[Step]:
        match step.act:
            case Synchronised(Name("operation", of)) if of in self.ids:
                return [with_fields(step, of=self.ids[of])]
            case Joined():
                calls = [self.calls.get((step.index, place), call) for place, call in enumerate(step.fields["calls"])]
                kept = [call for call in calls if call is not None]
                return [with_fields(step, calls=kept)] if kept else []
        return [step]

    # --- which ones go together

    def look_at(self, rows: Sequence[Row]) -> None:
        """Put the collectives *rows* of one communicator into buckets."""
        run: list[Row] = []
        tracks: list[_Track] = []
        for row in rows:
            if not (run and self._has_room(run, row) and _follows(tracks, run[-1], row)):
                self._merge(run, tracks)
                run, tracks = [], [_Track(self.steps) for _ in row]
            if _is_sum(row):
                if row[0].nbytes > self.limit:
                    self._divide(row)
                else:
                    run.append(row)
        self._merge(run, tracks)

    def _has_room(self, run: Sequence[Row], row: Row) -> bool:
        return _is_sum(row) and sum(each[0].nbytes for each in (*run, row)) <= self.limit

    def _merge(self, run: Sequence[Row], tracks: Sequence["_Track"]) -> None:
        """Make one of *run*."""
        if len(run) > 1:
            for members, track in zip(zip(*run, strict=True), tracks, strict=True):
                self._merge_of_rank(members, track.records)

    def _merge_of_rank(self, members: Row, records: Sequence[Step]) -> None:
        *others, last = members
        for member in others:
            self.calls[member.step.index, member.place] = None
            if member.step.id is not None and last.step.id is not None:
                self.ids[member.step.id] = last.step.id
        ranges = {name: _whole([member.call[name] for member in members]) for name in ("reads", "writes")}
        if None in ranges.values():
            ranges = self._gathered(members)
        count = sum(member.call["count"] for member in members)
        self.calls[last.step.index, last.place] = {**last.call, "count": count, **ranges}
        moved = [step for step in records if step.index < last.step.index]
        self.gone |= {step.index for step in moved}
        self.behind.setdefault(last.step.index, []).extend(moved)
        self._forget_waits(members)

    def _forget_waits(self, members: Row) -> None:
        """Leave out the waits in front of *members* that another one of them includes, with what only they need."""
        latest: dict[str, tuple[int, Step]] = {}  # for each stream that is waited for: the last record, and its wait
        for wait in self._waits(members):
            records = [use for use in self._uses[wait.fields["event"]] if isinstance(use.act, Recorded)]
            record = next((use for use in reversed(records) if use.index < wait.index), None)
            if record is None:
                continue
            new = record.index, wait
            old = latest.get(record.fields["stream"], new)
            latest[record.fields["stream"]] = max(old, new, key=itemgetter(0))
            if old is not new:
                self._forget(min(old, new, key=itemgetter(0))[1])

    def _waits(self, members: Row) -> list[Step]:
        """Return the waits for events in the stream of *members*, from the work in front of them to the last one."""
        first, last = members[0].step.index, members[-1].step.index
        waits, stream = [], members[0].call["stream"]
        for step in reversed(self.steps[:last]):
            if isinstance(step.act, Waited) and step.fields["stream"] == stream:
                waits.append(step)
            elif step.index < first and ("stream", stream) in names_in(step):
                break
        return waits[::-1]

    def _forget(self, wait: Step) -> None:
        """Leave out *wait*, and its event if nothing else uses it."""
        self.gone.add(wait.index)
        others = [use for use in self._uses[wait.fields["event"]] if use is not wait]
        if all(isinstance(use.act, Made | Recorded | Destroyed) for use in others):
            self.gone |= {use.index for use in others}

    def _gathered(self, members: Row) -> dict[str, Any]:
        """Copy what *members* combine into a bucket, and back; return the ranges of the bucket."""
        last, name = members[-1], f"{self._prefix} {len(self.buffers) + 1}"
        size = sum(member.nbytes for member in members)
        self.buffers[name] = {"space": "device", "bytes": size, "device": self.devices[last.call["comm"]]}
        act = Queued(Name("copy"), Name("stream", last.call["stream"]))
        offset = 0
        for member in members:
            [(source, start, _)], [(target, into, _)] = member.call["reads"], member.call["writes"]
            sizes = {"bytes": member.nbytes, "kind": "d2d"}
            in_ = {"dst": name, "dst_off": offset, "src": source, "src_off": start}
            out = {"dst": target, "dst_off": into, "src": name, "src_off": offset}
            self.ahead.setdefault(last.step.index, []).append(made_like(last.step, act, **sizes, **in_))
            self.behind.setdefault(last.step.index, []).append(made_like(last.step, act, **sizes, **out))
            offset += member.nbytes
        self.copied = True
        return {ends: [[name, 0, size]] for ends in ("reads", "writes")}

    # --- one that is too large

    def _divide(self, row: Row) -> None:
        """Make parts of a collective that is larger than the limit."""
        works = [_Work(self.steps, each) for each in row]
        parts = self._parts(row[0], works[0])
        for each, work in zip(row, works, strict=True):
            self.calls[each.step.index, each.place] = None
            place = work.earliest
            for part in parts:
                place = max(place, work.last(part))  # the parts keep their order on all ranks
                self._wait(each, place, work.waits(part))
                id_ = each.step.id if part is parts[-1] else None
                call = replace(with_fields(each.step, calls=[each.part(part)]), id=id_)
                self.behind.setdefault(place, []).append(call)
        self.divided = True

    def _wait(self, one: Sum, place: int, waits: Mapping[str, int]) -> None:
        """Let the stream of *one* wait, behind the step at *place*, for other streams up to the steps *waits*."""
        stream = one.call["stream"]
        for other, index in waits.items():
            if other == stream:
                continue
            name = f"{self._prefix} event of step {index}"
            event, from_ = Name("event", name), Name("stream", other)
            if name not in self.events:
                self.events[name] = {**_EVENT, "device": self.devices[one.call["comm"]]}
                self.behind.setdefault(index, []).insert(0, made_like(one.step, Recorded(event, from_)))
            self.behind.setdefault(place, []).append(made_like(one.step, Waited(event, Name("stream", stream))))

    def _parts(self, one: Sum, work: "_Work") -> list[Span]:
        """Return the parts of *one*, in the order in which their bytes are ready."""
        width = one.nbytes // one.call["count"]
        most = self.limit // width * width
        if not most:
            raise EditError(f"{self.limit:,} bytes are less than one {one.call['type']}")
        edges = sorted(edge for edge in work.edges if edge % width == 0)
        pieces = [(work.last(piece), piece) for piece in pairwise(edges)]
        ready: list[Span] = []
        for _, (begin, end) in sorted(pieces):
            cuts = [*range(begin, end, most), end]
            for piece in pairwise(cuts):
                joined = (min(ready[-1][0], piece[0]), max(ready[-1][1], piece[1])) if ready else piece
                size = piece[1] - piece[0] + (ready[-1][1] - ready[-1][0] if ready else 0)
                if ready and size == joined[1] - joined[0] and size <= most:
                    ready[-1] = joined
                else:
                    ready.append(piece)
        return ready


class _Track:
    """How one rank comes from one all-reduce of a bucket to the next: the *records* in their stream so far."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self.records: list[Step] = []

    def reaches(self, one: Sum, other: Sum) -> bool:
        """Whether nothing between the two needs the first one."""
        if one.facts != other.facts or (one.step.id is not None and other.step.id is None):
            return False
        if any(each.step.id is not None and len(each.step.fields["calls"]) > 1 for each in (one, other)):
            return False  # it is not known whose id that is
        return not any(self._needs(step, one) for step in self._steps[one.step.index + 1 : other.step.index])

    def _needs(self, step: Step, one: Sum) -> bool:
        stream = one.call["stream"]
        names, events = names_in(step), {each.fields["event"] for each in self.records}
        if any(("event", event) in names for event in events) or ("operation", one.step.id) in names:
            return True
        match step.act:
            case Recorded(Name(), Name("stream", name)) if name == stream:
                self.records.append(step)
                return False
            case Waited(Name(), Name("stream", name)) if name == stream:
                return False
            case Destroyed(Name("event")):
                return False
            case Synchronised(Name("stream", name)):
                return bool(name == stream)
            case Completed() | Ended() | Synchronised() | Asked() | Destroyed():
                return (step.task, step.thread) == (one.step.task, one.step.thread)
        if ("stream", stream) in names:
            return True
        return queues(step) and (stream == _LEGACY or ("stream", _LEGACY) in names)


class _Work:
    """The work on the bytes of *one* before it, back to where its parts may not begin earlier: *earliest*.

    If there is work whose bytes are not known, or on its bytes of another task, no part begins earlier than *one*.
    """

    def __init__(self, steps: Sequence[Step], one: Sum) -> None:
        self.earliest = one.step.index
        self._steps = steps
        self._touched: list[tuple[int, Sequence[Bytes]]] = []  # the last ones first
        [(self._source, self._read, _)], [(self._target, self._written, _)] = one.call["reads"], one.call["writes"]
        self.edges = {0, one.nbytes}
        host, whole = (one.step.task, one.step.thread), (0, one.nbytes)
        for step in reversed(steps[: one.step.index]):
            if _bounds(step, one):
                self.earliest = step.index
                break
            bytes_ = _bytes_of(step)
            if bytes_ is None:
                break
            hit = [each for each in bytes_ if self._is_on(whole, [each])]
            if hit and (step.task, step.thread) != host:
                break
            if hit:
                self._touched.append((step.index, hit))
                self.edges |= {edge for each in hit for edge in self._edges(each) if 0 < edge < one.nbytes}
        else:
            self.earliest = 0

    def last(self, span: Span) -> int:
        """Return the place of the last step that works on *span*."""
        return next((index for index, bytes_ in self._touched if self._is_on(span, bytes_)), self.earliest)

    def waits(self, span: Span) -> dict[str, int]:
        """Return the streams with work on *span*, each with the place of the last."""
        found: dict[str, int] = {}
        for index, bytes_ in self._touched:
            if self._is_on(span, bytes_):
                for stream in _streams_of(self._steps[index]):
                    found.setdefault(stream, index)
        return found

    def _is_on(self, span: Span, bytes_: Sequence[Bytes]) -> bool:
        return any(conflict(bytes_, each) for each in (self._of_reads(span), self._of_writes(span)))

    def _of_reads(self, span: Span) -> Bytes:
        return self._source, self._read + span[0], self._read + span[1], False

    def _of_writes(self, span: Span) -> Bytes:
        return self._target, self._written + span[0], self._written + span[1], True

    def _edges(self, bytes_: Bytes) -> Iterator[int]:
        buffer, start, stop, _ = bytes_
        for own, begin in ((self._source, self._read), (self._target, self._written)):
            if buffer == own:
                yield from (start - begin, stop - begin)


def _follows(tracks: Sequence[_Track], one: Row, other: Row) -> bool:
    return all(track.reaches(*each) for track, *each in zip(tracks, one, other, strict=True))


def _is_sum(row: Row) -> bool:
    return all(each.call["kind"] == CollectiveKind.ALL_REDUCE.value for each in row)


def _bounds(step: Step, one: Sum) -> bool:
    """Whether no part of *one* may begin before *step*: it makes memory, or is an earlier collective."""
    match step.act:
        case Joined():
            return any(one.call[name] == call[name] for call in step.fields["calls"] for name in ("comm", "stream"))
        case Began() | Ended() | Made() | Destroyed():
            own = {one.call["reads"][0][0], one.call["writes"][0][0], one.call["stream"], one.call["comm"]}
            return any(name in own for _, name in names_in(step)) or any(name in own for name in _made_by(step))
    return False


def _made_by(step: Step) -> Iterator[str]:
    for name in ("name", "comm"):
        if isinstance(step.fields.get(name), str):
            yield step.fields[name]
    yield from step.fields.get("comms", ())


def _events_of(step: Step) -> set[str]:
    """Return the events that *step* uses or makes."""
    made = {step.fields["event"]} if isinstance(step.act, Made) and "event" in step.fields else set()
    return made | {name for kind, name in names_in(step) if kind == "event"}


def _streams_of(step: Step) -> Iterator[str]:
    """Yield the streams in which *step* queues work; none for what the host waits for."""
    if isinstance(step.act, Joined):
        yield from (call["stream"] for call in step.fields["calls"])
    elif isinstance(step.fields.get("stream"), str):
        yield step.fields["stream"]


def _bytes_of(step: Step) -> Sequence[Bytes] | None:
    """Return the bytes that *step* touches: () if it does no work, None if that is not known."""
    if isinstance(step.act, Joined):
        return [
            (name, start, stop, kind == "writes")
            for call in step.fields["calls"]
            for kind in ("reads", "writes")
            for name, start, stop in call.get(kind, ())
        ]
    return touches(step) if step.work else ()


def _whole(ranges: Sequence[Sequence[Sequence[Any]]]) -> list[list[Any]] | None:
    """Return the range that *ranges*, one each, are together; None if they do not lie one behind the other."""
    own = sorted((buffer, start, stop) for [(buffer, start, stop)] in ranges)
    if any(one[0] != other[0] or one[2] != other[1] for one, other in pairwise(own)):
        return None
    return [[own[0][0], own[0][1], own[-1][2]]]


def _devices(program: Program) -> dict[str, int]:
    """Return the device of the rank that each communicator is for, by its name."""
    found: dict[str, int] = {}
    for step, device in zip(program.steps, program.devices(), strict=True):
        if "comms" in step.fields:
            found.update(zip(step.fields["comms"], step.fields["devices"], strict=True))
        elif "together" in step.fields:
            found[step.fields["comm"]] = device
    return found
