"""Buckets: consecutive all-reduces of one communicator as fewer larger ones, or a large one in parts.

All-reduces are consecutive if they have the same type, reduction, stream and task on each rank, and nothing between
them needs what an earlier one does: a wait of the host, other work in the stream, or somebody who waits for an event
that was recorded there. They become one, where the last of them was: then all gradients are ready. Records between them
move behind it. Ranges that do not lie one behind the other are copied into a bucket, and back.

One that is larger than the limit is divided where other work has written its bytes, and each part begins behind the
last work on its bytes. The other ranks divide theirs in the same places, so the ranks still agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from typing import Any

from acl_py.calls.acts import CaptureBegan, Destroyed, Joined, Made, Queued, Recorded, Synchronised, Waited
from acl_py.calls.steps import Name
from acl_py.explain.cases import Case, EditError, made_like, names_in, with_fields
from acl_py.explain.sums import Call, Row, Span, Sum, Track, Work, devices_of_ranks, events_of, is_sum, made_by, rows_of
from acl_py.programs.format import Step

_EVENT = {"timing": False, "blocking": False}
_COPIED = "gradients that do not lie one behind the other are copied into a bucket and back; its memory is not included"
_DIVIDED = (
    "the host calls each part behind the last work on its bytes; which work that is, follows from the bytes that it "
    "declares"
)


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
    for rows in rows_of(case.program):
        bucketing.look_at(rows)
    return bucketing.case()


class _Bucketing:
    """What becomes of the steps of a case."""

    def __init__(self, case: Case, limit: int) -> None:
        self.before = case
        self.limit = limit
        self.steps = case.program.steps
        self.devices = devices_of_ranks(case.program)
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
            for name in events_of(step):
                self._uses.setdefault(name, []).append(step)
        taken = [
            *case.program.events,
            *case.program.buffers,
            *(str(name) for step in self.steps for name in made_by(step)),
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
        tracks: list[Track] = []
        for row in rows:
            if not (run and self._has_room(run, row) and _follows(tracks, run[-1], row)):
                self._merge(run, tracks)
                run, tracks = [], [Track(self.steps) for _ in row]
            if is_sum(row):
                if row[0].nbytes > self.limit:
                    self._divide(row)
                else:
                    run.append(row)
        self._merge(run, tracks)

    def _has_room(self, run: Sequence[Row], row: Row) -> bool:
        return is_sum(row) and sum(each[0].nbytes for each in (*run, row)) <= self.limit

    def _merge(self, run: Sequence[Row], tracks: Sequence[Track]) -> None:
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
        works = [Work(self.steps, each) for each in row]
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

    def _parts(self, one: Sum, work: Work) -> list[Span]:
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


def _follows(tracks: Sequence[Track], one: Row, other: Row) -> bool:
    return all(track.reaches(*each) for track, *each in zip(tracks, one, other, strict=True))


def _whole(ranges: Sequence[Sequence[Sequence[Any]]]) -> list[list[Any]] | None:
    """Return the range that *ranges*, one each, are together; None if they do not lie one behind the other."""
    own = sorted((buffer, start, stop) for [(buffer, start, stop)] in ranges)
    if any(one[0] != other[0] or one[2] != other[1] for one, other in pairwise(own)):
        return None
    return [[own[0][0], own[0][1], own[-1][2]]]
