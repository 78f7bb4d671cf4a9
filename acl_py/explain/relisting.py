"""Relisting: the operations of a program over another number of streams.

An operation waits for the earlier ones that touch the same bytes, if one of them writes. A kernel whose bytes are not
known keeps its place in its old stream: it waits for the operation before it there, and the operation behind it waits
for it. What the program has ordered with events stays in order. An operation goes to the stream whose latest operation
is the last one that it waits for. If there is none, it goes to the stream with the least work that may still run. Other
waits become events.

What the host waited for, it waits for again: a synchronisation with a stream becomes one with each of the new streams
that has operations of it. A synchronous copy or fill becomes an asynchronous one, and a wait for it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from acl_py.calls.acts import (
    Began,
    Completed,
    Destroyed,
    Ended,
    Joined,
    Made,
    Plain,
    Queued,
    Recorded,
    Synchronised,
    Waited,
)  # fmt: skip
from acl_py.calls.fields import device_of_primary, primary_of
from acl_py.calls.steps import GRAPH_OPS, Name
from acl_py.explain.cases import Case, EditError, in_stream, made_like, with_fields
from acl_py.order.clocks import Clock, Point
from acl_py.order.order import Order
from acl_py.order.things import RecordedContext, RecordedStream
from acl_py.programs.format import Step
from device_model.errors import printable
from device_model.rules import Destroy, Release

Bytes = tuple[str, int, int, bool]  # buffer, first and last byte, and whether they are written
_NEW_STREAM = {"flags": "nonblocking", "priority": 0}
_NO_STREAM = ""  # the old stream of synchronous copies and fills
_EVENT = {"timing": False, "blocking": False}


def relist(case: Case, count: int) -> Case:
    """Return *case* with its operations over *count* streams.

    Raises:
        EditError: the program uses its streams for more than order, or uses several devices or contexts.
    """
    steps = case.program.steps
    graph = next((step for step in steps if step.op in GRAPH_OPS), None)
    if graph is not None:
        raise EditError(
            f"streams={count}: step {graph.index} ({graph.op}): the program uses graphs, and their nodes have an order "
            "of their own; change the capture instead"
        )
    odd = next(
        (step for step in steps if _is_bound(step) or isinstance(step.act, Joined) or step.thread is not None), None
    )
    if odd is not None:
        raise EditError(f"streams={count}: step {odd.index} ({odd.op}) needs its own stream")
    homes = _homes(case)
    if len({home.device for home in homes}) > 1:
        raise EditError(f"streams={count}: the program uses several devices")
    if len(homes) > 1:
        names = " and ".join(repr(printable(home.context)) for home in homes)
        raise EditError(
            f"streams={count}: the program has work in several contexts, {names}, and a stream belongs to one: let all "
            "of its work use one context, such as the primary one, which packages share"
        )
    return _Relisting(case, count, homes[0] if homes else _Home(primary_of(0), 0)).case()


class _Home(NamedTuple):
    """A context in which a program has work, and its device."""

    context: str
    device: int


def _homes(case: Case) -> list[_Home]:
    """Return the contexts in which the program queues work, or waits for all of it, in the order of their use."""
    current: dict[str | None, _Home] = {}
    contexts: dict[str, _Home] = {}
    streams = {name: _primary(options["device"]) for name, options in case.program.streams.items()}
    homes: dict[_Home, None] = {}
    for step in case.program.steps:
        here = current.get(step.task, _primary(0))
        match step.act:
            case Made(_, Name("context", context)):
                contexts[context] = current[step.task] = _Home(context, step.fields["device"])
            case Plain((Name("context", context),)):
                current[step.task] = contexts.get(context) or _primary(device_of_primary(context) or 0)
            case Destroyed(Name("context", context)) if context == here.context:
                current[step.task] = _primary(here.device)
            case Made(_, Name("stream", stream)):
                streams[stream] = here
            case Plain() if "device" in step.fields:
                current[step.task] = _primary(step.fields["device"])
            case Synchronised(Name("event" | "operation")):
                pass
            case Completed() | Synchronised():
                homes[streams.get(str(step.fields.get("stream")), here)] = None
            case _ if "stream" in step.fields:
                homes[streams.get(str(step.fields["stream"]), here)] = None
    return [*homes]


def _primary(device: int) -> _Home:
    return _Home(primary_of(device), device)


def _is_bound(step: Step) -> bool:
    """Whether *step* is bound to its stream for more than its order."""
    match step.act:
        case Queued() | Completed() | Recorded() | Waited() | Synchronised() | Began() | Ended():
            return False
    return "stream" in step.fields


@dataclass(slots=True)
class _Place:
    """Where an operation went: which of the new streams, and all that this stream had been given then."""

    stream: int
    point: Point


@dataclass(slots=True)
class _Old:
    """What is known of a stream of the program: the steps of its operations, and what the next one waits for."""

    ops: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    unknown: int | None = None  # the last operation whose bytes are not known


class _Relisting:
    """The new list: for each step of the program, the steps in its place."""

    def __init__(self, case: Case, count: int, home: _Home) -> None:
        self.before = case
        self.home = home
        self.count = count
        taken = {*case.program.streams, *case.program.events}
        taken |= {str(step.fields.get("name") or step.fields.get("event")) for step in case.program.steps}
        prefix = "new"
        while any(name.startswith(prefix) for name in taken):
            prefix += "_"
        self.names = [f"{prefix} stream {number + 1}" for number in range(count)]
        self.order = Order()  # of what the new streams are given
        self.host = self.order.host()
        self.context = RecordedContext(0)
        self.streams = [RecordedStream(self.context) for _ in range(count)]
        self.event = f"{prefix} event of step "
        self.pieces: dict[int, list[Step]] = {}
        self.places: dict[int, _Place] = {}  # by step
        self.by_id: dict[str, int] = {}  # the step of an operation that has an id
        self.tails: list[list[int]] = [[] for _ in range(count)]  # the operations of each new stream
        self.old: dict[str, _Old] = {}
        self.recorded: dict[str, list[int]] = {}  # the operations that a record of an event stands for
        self.touched: list[tuple[int, Bytes]] = []
        self.recorded_ops: set[int] = set()
        self.free_waits = case.rules.release is Release.WAITS_FOR_DEVICE

    def case(self) -> Case:
        """Return the relisted case."""
        for step in self.before.program.steps:
            self.pieces[step.index] = [*self._relisted(step)]
        own_context = device_of_primary(self.home.context) is None
        device = {"device": self.home.device}
        streams = {} if own_context else dict.fromkeys(self.names, _NEW_STREAM | device)
        new_events = {self._event_of(op).name: _EVENT | device for op in sorted(self.recorded_ops)}
        events = {**self.before.program.events, **new_events}
        case = self.before.with_program(streams={**self.before.program.streams, **streams}, events=events)
        return case.with_steps(lambda step: self._with_record(step)).noting(
            "the host must use other streams and events, and those that it made before are still made"
            if own_context
            else "the host must use other streams and events, whose creation is not included"
        )

    def _with_record(self, step: Step) -> list[Step]:
        piece = self.pieces[step.index]
        if step.index not in self.recorded_ops:
            return piece
        stream = self.names[self.places[step.index].stream]
        return [*piece, made_like(step, Recorded(self._event_of(step.index), Name("stream", stream)))]

    def _relisted(self, step: Step) -> Iterator[Step]:
        match step.act:
            case Completed():
                yield from self._operation(in_stream(step, _NO_STREAM))
                yield from self._synchronised(step, [step.index])
                return
            case Queued() | Began(_, Name()) | Ended(_, Name()):
                yield from self._operation(step)
                return
            case Recorded(Name(_, event), Name(_, stream)):
                ops = self.recorded[event] = self._work_of(stream)
                yield with_fields(step, stream=self.names[self.places[ops[-1]].stream if ops else 0])
                return
            case Waited(Name(_, event), Name(_, stream)):
                self._old(stream).waits += self.recorded.get(event, [])
                return
            case Synchronised(Name("stream", stream)):
                yield from self._synchronised(step, self._work_of(stream))
                return
        yield step
        match step.act:
            case Made(_, Name("context", self.home.context)):
                yield from (made_like(step, Made(None, Name("stream", name))) for name in self.names)
            case Destroyed(Name("stream", stream)):
                if self.before.rules.destroy is Destroy.WAITS:
                    yield from self._synchronised(step, self._work_of(stream))
                self.old.pop(stream, None)
            case Synchronised(Name("event", event)):  # it waits for the last of them already
                ops = self.recorded.get(event, [])
                self._learn(ops[-1:])
                yield from self._synchronised(step, ops)
            case Synchronised(Name("operation", of)):
                self._learn([self.by_id[of]] if of in self.by_id else [])
            case Synchronised():
                self.order.learn(self.host, self.order.work_of_context(self.context))
            case Ended() if self.free_waits:
                self.order.learn(self.host, self.order.work_of_context(self.context))

    def _operation(self, step: Step) -> Iterator[Step]:
        old = self._old(step.fields["stream"])
        bytes_ = touches(step)
        waits = {*old.waits, *(() if old.unknown is None else (old.unknown,))}
        waits |= {*old.ops} if bytes_ is None else {op for op, other in self.touched if conflict(bytes_, other)}
        number = self._stream_for(waits)
        stream = self.streams[number]
        line = self.order.line(stream)
        for op in sorted(waits, reverse=True):
            point = self.places[op].point
            if point.actor != line.number and not self._is_over(op) and not _has(line.past.clock, point):
                self.recorded_ops.add(op)
                yield made_like(step, Waited(self._event_of(op), Name("stream", self.names[number])))
                self.order.wait(stream, self.host, [point])
        self.places[step.index] = _Place(number, self.order.queue(stream, self.host).point())
        self.tails[number].append(step.index)
        if step.id is not None:
            self.by_id[step.id] = step.index
        old.ops.append(step.index)
        old.waits = []
        if bytes_ is None:
            old.unknown = step.index
        self.touched += [(step.index, each) for each in bytes_ or ()]
        yield with_fields(step, stream=self.names[number])

    def _stream_for(self, waits: Iterable[int]) -> int:
        """Return the stream of the last of *waits* if that is the latest one there, else that with the least work.

        What the host knows to be over counts neither as a wait nor as work.
        """
        last = max((op for op in waits if not self._is_over(op)), default=None)
        if last is not None and self.tails[self.places[last].stream][-1] == last:
            return self.places[last].stream
        return min(range(self.count), key=lambda stream: (self._open(stream), stream))

    def _open(self, stream: int) -> int:
        """Return how many operations of a new stream the host has not waited for."""
        return len(self.tails[stream]) - bisect_right(self.tails[stream], False, key=lambda op: not self._is_over(op))

    def _is_over(self, op: int) -> bool:
        """Whether the host has waited for the operation of this step."""
        return _has(self.host.past.clock, self.places[op].point)

    def _learn(self, ops: Iterable[int]) -> None:
        self.order.learn(self.host, [self.places[op].point for op in ops])

    def _synchronised(self, step: Step, ops: Sequence[int]) -> Sequence[Step]:
        """Return what makes the host wait for *ops*: for the earlier ones first, while the later ones still run."""
        waits = []
        for op in sorted(ops, reverse=True):
            if self._is_over(op):
                continue
            stream = self.places[op].stream
            subject = Name("stream", self.names[stream])
            if self.tails[stream][-1] != op:
                self.recorded_ops.add(op)
                subject = self._event_of(op)
            waits.append(made_like(step, Synchronised(subject)))
            self._learn([op])
        return waits[::-1]

    def _work_of(self, stream: str) -> list[int]:
        """Return the operations that a record or a synchronisation of an old stream stands for."""
        old = self._old(stream)
        return [*old.ops, *old.waits]

    def _old(self, stream: str) -> _Old:
        return self.old.setdefault(stream, _Old())

    def _event_of(self, op: int) -> Name:
        return Name("event", f"{self.event}{op}")


def touches(step: Step) -> list[Bytes] | None:
    """Return the bytes that the operation of *step* touches; None if they are not known."""
    fields = step.fields
    match step.work:
        case "copy" | "fill":
            sizes = dict.fromkeys(("dst", "src"), fields["bytes"]) if "bytes" in fields else {
                end: (fields["height"] - 1) * fields[pitch] + fields["width"]
                for end, pitch in (("dst", "dpitch"), ("src", "spitch"))
            }  # fmt: skip
            return [
                (fields[end], fields[f"{end}_off"], fields[f"{end}_off"] + size, end == "dst")
                for end, size in sizes.items()
                if end in fields
            ]
        case "prefetch":  # the pages move, so it keeps its order with all that touches them
            return [(fields["buf"], fields["off"], fields["off"] + fields["bytes"], True)]
        case "kernel" if step.is_kernel and (fields["reads"] or fields["writes"]):
            reads = [(name, start, stop, False) for name, start, stop in fields["reads"]]
            return reads + [(name, start, stop, True) for name, start, stop in fields["writes"]]
        case "kernel" if "buf" in fields:  # of a measured program: it counts in the first int, or touches bytes
            return [(fields["buf"], 0, fields.get("bytes", 4), fields.get("write", True))]
    return None


def conflict(bytes_: Iterable[Bytes], other: Bytes) -> bool:
    """Whether operations that touch *bytes_* and *other* must keep their order."""
    buffer, first, last, wrote = other
    return any(
        name == buffer and start < last and first < stop and (writes or wrote) for name, start, stop, writes in bytes_
    )


def _has(clock: Clock, point: Point) -> bool:
    return clock.get(point.actor, 0) >= point.epoch
