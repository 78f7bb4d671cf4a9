"""The collectives of a recorded program, by rank: which there are, and what the program does before and between them.

A row has the same collective of all ranks. A `Track` looks for what lies between two of one rank and needs the first
one, a `Work` for what lies before one and touches its bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from acl_py.calls.acts import (
    Asked,
    Began,
    Completed,
    Destroyed,
    Ended,
    Joined,
    Made,
    Recorded,
    Synchronised,
    Waited,
)  # fmt: skip
from acl_py.calls.steps import Name
from acl_py.explain.cases import names_in, queues
from acl_py.explain.relisting import Bytes, conflict, touches
from acl_py.programs.format import Program, Step
from device_model.collectives.calls import POINT_TO_POINT, CollectiveKind

_OF_PAIRS = {kind.value for kind in POINT_TO_POINT}
_LEGACY = "legacy"

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


def rows_of(program: Program) -> Iterator[list[Row]]:
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


class Track:
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


class Work:
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


def is_sum(row: Row) -> bool:
    """Whether *row* is an all-reduce on all ranks."""
    return all(each.call["kind"] == CollectiveKind.ALL_REDUCE.value for each in row)


def _bounds(step: Step, one: Sum) -> bool:
    """Whether no part of *one* may begin before *step*: it makes memory, or is an earlier collective."""
    match step.act:
        case Joined():
            return any(one.call[name] == call[name] for call in step.fields["calls"] for name in ("comm", "stream"))
        case Began() | Ended() | Made() | Destroyed():
            own = {one.call["reads"][0][0], one.call["writes"][0][0], one.call["stream"], one.call["comm"]}
            return any(name in own for _, name in names_in(step)) or any(name in own for name in made_by(step))
    return False


def made_by(step: Step) -> Iterator[str]:
    """Yield the names that *step* gives to what it makes."""
    for name in ("name", "comm"):
        if isinstance(step.fields.get(name), str):
            yield step.fields[name]
    yield from step.fields.get("comms", ())


def events_of(step: Step) -> set[str]:
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


def devices_of_ranks(program: Program) -> dict[str, int]:
    """Return the device of the rank that each communicator is for, by its name."""
    found: dict[str, int] = {}
    for step, device in zip(program.steps, program.devices(), strict=True):
        if "comms" in step.fields:
            found.update(zip(step.fields["comms"], step.fields["devices"], strict=True))
        elif "together" in step.fields:
            found[step.fields["comm"]] = device
    return found
