"""Relisting: the operations of a program over another number of streams.

An operation waits for the earlier ones that touch the same bytes, if one of them writes. A kernel whose bytes are not
known keeps its place in its old stream: it waits for the operation before it there, and the operation behind it waits
for it. What the program has ordered with events stays in order. An operation goes to the stream whose latest operation
is the last one that it waits for; if there is none, to the stream with the least work that may still run. Other waits
become events.

What the host waited for, it waits for again: a synchronisation with a stream becomes one with each of the new streams
that has operations of it. A synchronous copy or fill becomes an asynchronous one, and a wait for it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from acl_py.explain.cases import ASYNCHRONOUS, Case, EditError, in_stream, made_like, with_fields
from acl_py.programs.format import GRAPH_OPS, Step
from device_model.rules import Destroy, Release

_COPIES = ("memcpy_async", "memcpy_peer_async")
IN_STREAM = ("launch", "launch_cores", *_COPIES, "memcpy2d_async", "memset_async", "inc", "touch", "host_func",
              "add_callback", "malloc_async", "free_async", "poke", "prefetch")  # fmt: skip
# Steps that are bound to a stream for more than their order.
NOT_MOVED = ("value_write", "value_wait", "record_notify", "wait_notify", "reset", "launch_callback",
              "subscribe", "unsubscribe", "query_stream", "memcpy_async_bad", "get_priority", "attach")  # fmt: skip

Bytes = tuple[str, int, int, bool]  # buffer, first and last byte, and whether they are written
_NEW_STREAM = {"flags": "nonblocking", "priority": 0, "device": 0}
_NO_STREAM = ""  # the old stream of synchronous copies and fills
_EVENT = {"timing": False, "blocking": False, "device": 0}


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
    odd = next((step for step in steps if step.op in NOT_MOVED or step.thread is not None), None)
    if odd is not None:
        raise EditError(f"streams={count}: step {odd.index} ({odd.op}) needs its own stream")
    if any(options["device"] for options in case.program.streams.values()):
        raise EditError(f"streams={count}: the program uses several devices")
    contexts = [step.op for step in steps if step.op in ("create_context", "set_context")]
    if contexts not in ([], ["create_context"]):
        raise EditError(f"streams={count}: the program uses several contexts")
    return _Relisting(case, count).case()


@dataclass(slots=True)
class _Place:
    """Where an operation went: which stream, and which place there, from 1; *ordered* is what it comes behind."""

    stream: int
    place: int
    ordered: dict[int, int]


@dataclass(slots=True)
class _Old:
    """What is known of a stream of the program: the steps of its operations, and what the next one waits for."""

    ops: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    unknown: int | None = None  # the last operation whose bytes are not known


class _Relisting:
    """The new list: for each step of the program, the steps in its place."""

    def __init__(self, case: Case, count: int) -> None:
        self.before = case
        self.count = count
        taken = {*case.program.streams, *case.program.events}
        taken |= {str(step.fields.get("name") or step.fields.get("event")) for step in case.program.steps}
        prefix = "new"
        while any(name.startswith(prefix) for name in taken):
            prefix += "_"
        self.names = [f"{prefix} stream {number + 1}" for number in range(count)]
        self.event = f"{prefix} event of step "
        self.pieces: dict[int, list[Step]] = {}
        self.places: dict[int, _Place] = {}  # by step
        self.by_id: dict[str, int] = {}  # the step of an operation that has an id
        self.tails: list[list[int]] = [[] for _ in range(count)]  # the operations of each new stream
        self.known: dict[int, int] = {}  # what the host knows to be over: places, by new stream
        self.old: dict[str, _Old] = {}
        self.recorded: dict[str, list[int]] = {}  # the operations that a record of an event stands for
        self.touched: list[tuple[int, Bytes]] = []
        self.recorded_ops: set[int] = set()
        frees = case.rules.release is Release.WAITS_FOR_DEVICE
        self.wait_for_all = ("sync_device", *(("free", "free_host", "host_unregister") if frees else ()))

    def case(self) -> Case:
        """Return the relisted case."""
        for step in self.before.program.steps:
            self.pieces[step.index] = [*self._relisted(step)]
        own_context = any(step.op == "create_context" for step in self.before.program.steps)
        streams = {} if own_context else dict.fromkeys(self.names, _NEW_STREAM)
        events = {**self.before.program.events, **{self._event_of(op): _EVENT for op in sorted(self.recorded_ops)}}
        case = replace(
            self.before,
            program=replace(self.before.program, streams={**self.before.program.streams, **streams}, events=events),
        )
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
        record = made_like(step, "record", event=self._event_of(step.index), stream=stream)
        return [*piece, record]

    def _relisted(self, step: Step) -> Iterator[Step]:
        fields = step.fields
        if step.op in IN_STREAM:
            yield from self._operation(step)
        elif step.op == "record":
            self.recorded[fields["event"]] = self._work_of(fields["stream"])
            yield with_fields(step, stream=self._stream_of_last(self.recorded[fields["event"]]))
        elif step.op == "wait":
            self._old(fields["stream"]).waits += self.recorded.get(fields["event"], [])
        elif step.op == "sync_stream":
            yield from self._synchronised(step, self._work_of(fields["stream"]))
        elif step.op == "create_context":
            yield step
            yield from (made_like(step, "create_stream", name=name) for name in self.names)
        elif step.op == "destroy_stream":
            yield step
            if self.before.rules.destroy is Destroy.WAITS:
                yield from self._synchronised(step, self._work_of(fields["name"]))
            self.old.pop(fields["name"], None)
        elif step.op == "sync_event":
            yield step
            yield from self._synchronised(step, self.recorded.get(fields["event"], []), known=True)
        elif step.op == "sync_op":
            yield step
            if fields["of"] in self.by_id:
                _join(self.known, self.places[self.by_id[fields["of"]]].ordered)
        elif step.op in ASYNCHRONOUS:
            yield from self._operation(in_stream(step, _NO_STREAM))
            yield from self._synchronised(step, [step.index])
        else:
            if step.op in self.wait_for_all:
                self.known = {stream: len(ops) for stream, ops in enumerate(self.tails)}
            yield step

    def _operation(self, step: Step) -> Iterator[Step]:
        old = self._old(step.fields["stream"])
        bytes_ = touches(step)
        waits = {*old.waits, *(() if old.unknown is None else (old.unknown,))}
        waits |= {*old.ops} if bytes_ is None else {op for op, other in self.touched if conflict(bytes_, other)}
        ordered = dict(self.known)
        stream = self._stream_for(waits)
        if self.tails[stream]:
            _join(ordered, self.places[self.tails[stream][-1]].ordered)
        for op in sorted(waits, reverse=True):
            place = self.places[op]
            if ordered.get(place.stream, 0) < place.place and place.stream != stream:
                self.recorded_ops.add(op)
                yield made_like(step, "wait", event=self._event_of(op), stream=self.names[stream])
                _join(ordered, place.ordered)
        self.tails[stream].append(step.index)
        ordered[stream] = len(self.tails[stream])
        self.places[step.index] = _Place(stream, ordered[stream], ordered)
        if step.id is not None:
            self.by_id[step.id] = step.index
        old.ops.append(step.index)
        old.waits = []
        if bytes_ is None:
            old.unknown = step.index
        self.touched += [(step.index, each) for each in bytes_ or ()]
        yield with_fields(step, stream=self.names[stream])

    def _stream_for(self, waits: Iterable[int]) -> int:
        """Return the stream of the last of *waits* if that is the latest one there, else that with the least work.

        What the host knows to be over counts neither as a wait nor as work.
        """
        last = max((op for op in waits if not self._is_over(op)), default=None)
        if last is not None and self.tails[self.places[last].stream][-1] == last:
            return self.places[last].stream
        return min(range(self.count), key=lambda stream: (len(self.tails[stream]) - self.known.get(stream, 0), stream))

    def _is_over(self, op: int) -> bool:
        """Whether the host has waited for the operation of this step."""
        place = self.places[op]
        return self.known.get(place.stream, 0) >= place.place

    def _synchronised(self, step: Step, ops: Sequence[int], *, known: bool = False) -> Sequence[Step]:
        """Return what makes the host wait for *ops*; if it *known* waits for the last of them already, not for that.

        The host waits for the earlier ones first, while the later ones still run.
        """
        if known and ops:
            _join(self.known, self.places[ops[-1]].ordered)
        waits = []
        for op in sorted(ops, reverse=True):
            place = self.places[op]
            if self._is_over(op):
                continue
            if self.tails[place.stream][-1] == op:
                waits.append(made_like(step, "sync_stream", stream=self.names[place.stream]))
            else:
                self.recorded_ops.add(op)
                waits.append(made_like(step, "sync_event", event=self._event_of(op)))
            _join(self.known, place.ordered)
        return waits[::-1]

    def _work_of(self, stream: str) -> list[int]:
        """Return the operations that a record or a synchronisation of an old stream stands for."""
        old = self._old(stream)
        return [*old.ops, *old.waits]

    def _stream_of_last(self, ops: Sequence[int]) -> str:
        return self.names[self.places[ops[-1]].stream if ops else 0]

    def _old(self, stream: str) -> _Old:
        return self.old.setdefault(stream, _Old())

    def _event_of(self, op: int) -> str:
        return f"{self.event}{op}"


def touches(step: Step) -> list[Bytes] | None:
    """Return the bytes that the operation of *step* touches; None if they are not known."""
    fields = step.fields
    match step.op:
        case "memcpy_async" | "memcpy_peer_async":
            size = fields["bytes"]
            to, source = fields["dst_off"], fields["src_off"]
            return [(fields["dst"], to, to + size, True), (fields["src"], source, source + size, False)]
        case "memcpy2d_async":
            to, source, rows = fields["dst_off"], fields["src_off"], fields["height"] - 1
            return [
                (fields["dst"], to, to + rows * fields["dpitch"] + fields["width"], True),
                (fields["src"], source, source + rows * fields["spitch"] + fields["width"], False),
            ]
        case "memset_async":
            return [(fields["dst"], fields["dst_off"], fields["dst_off"] + fields["bytes"], True)]
        case "prefetch":  # the pages move, so it keeps its order with all that touches them
            return [(fields["buf"], fields["off"], fields["off"] + fields["bytes"], True)]
        case "launch" | "launch_cores" if fields["reads"] or fields["writes"]:
            reads = [(name, start, stop, False) for name, start, stop in fields["reads"]]
            return reads + [(name, start, stop, True) for name, start, stop in fields["writes"]]
        case "inc":
            return [(fields["buf"], 0, 4, True)]
        case "touch":
            return [(fields["buf"], 0, fields["bytes"], fields["write"])]
    return None


def conflict(bytes_: Iterable[Bytes], other: Bytes) -> bool:
    """Whether operations that touch *bytes_* and *other* must keep their order."""
    buffer, first, last, wrote = other
    return any(
        name == buffer and start < last and first < stop and (writes or wrote) for name, start, stop, writes in bytes_
    )


def _join(clock: dict[int, int], other: dict[int, int]) -> None:
    for stream, count in other.items():
        clock[stream] = max(clock.get(stream, 0), count)
