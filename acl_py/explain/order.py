"""Which operation is certain to be over before which other one, whatever their times are.

Stream order, events, notifies, the default-stream rule and calls that synchronise put operations in order. Each
operation has a clock: how many operations of each stream are over before it starts. A task or thread has one too, for
what it knows to be over. A call that adds nothing to a clock orders nothing new. Two operations that no clock puts in
order, and of which one writes bytes that the other one touches, are a conflict.

A recording does not show what tasks tell one another. So for conflicts all of them count as one host, which knows what
any of them knows. A call orders something new if its own task did not know it, or only from a call that waited without
being asked to, such as a free: such a wait is a reason to change the program, and not one to rely on.
"""

from collections.abc import Iterator
from typing import NamedTuple

from acl_py.trace.rows import Call, Operation, Ref, Timeline

Clock = dict[int, int]  # how many operations of a stream, by the index of the stream

WAITS = ("StreamWaitEvent", "WaitAndResetNotify")
SYNCHRONISATIONS = ("SynchronizeStream", "SynchronizeDevice", "SynchronizeEvent")
_SYNC_COPIES = ("Memcpy", "Memcpy2d", "Memset")
_RECORDS = ("RecordEvent", "RecordNotify")
_WAIT_FOR_DEVICE = ("Free", "FreeHost", "HostUnregister")  # under CUDA's rules


class Conflict(NamedTuple):
    """Two operations without order, by their indices; both touch the bytes *start* to *stop* of a buffer, and one of
    them writes.
    """

    one: int
    other: int
    buffer: int
    start: int
    stop: int


class Order:
    """The order of a recording, for conflicts.

    With *asked_for* it is for calls that order nothing new: each task has its own knowledge, and only from waits that
    the program has asked for.
    """

    def __init__(self, timeline: Timeline, *, asked_for: bool = False) -> None:
        self.timeline = timeline
        self.clocks: list[Clock] = [{} for _ in timeline.ops]
        self.places = [0] * len(timeline.ops)  # of each operation in its stream, from 1
        self.nothing_new: list[int] = []  # the waits and synchronisations that order nothing new, as indices of calls
        _Walk(self, asked_for=asked_for).run()

    def is_before(self, one: int, other: int) -> bool:
        """Whether operation *one* is certain to be over when *other* starts."""
        return self.clocks[other].get(self.stream(one), 0) >= self.places[one]

    def stream(self, index: int) -> int:
        """Return the stream of an operation; one that is in no stream has a number of its own, below zero."""
        stream = self.timeline.ops[index].in_stream
        handles = self.timeline.handles
        outside = 0 <= stream < len(handles) and handles[stream].name.startswith("no stream")
        return -2 - index if outside else stream

    def conflicts(self) -> list[Conflict]:
        """Return the pairs of operations that are in no order and touch the same bytes; one of them writes."""
        touched: dict[int, list[tuple[int, int, int, bool]]] = {}  # by buffer: operation, first and last byte, writes
        found: list[Conflict] = []
        for index in sorted(range(len(self.timeline.ops)), key=lambda index: self.timeline.ops[index].queued_ns):
            for buffer, start, stop, writes in _touches(self.timeline.ops[index]):
                kept = []
                for earlier in touched.setdefault(buffer, []):
                    other, first, last, wrote = earlier
                    overlaps = other != index and start < last and first < stop and (writes or wrote)
                    ordered = overlaps and (self.is_before(other, index) or self.is_before(index, other))
                    if overlaps and not ordered:
                        found.append(Conflict(other, index, buffer, max(start, first), min(stop, last)))
                    if not (ordered and writes and start <= first and last <= stop):
                        kept.append(earlier)
                touched[buffer] = [*kept, (index, start, stop, writes)]
        return found


def _touches(op: Operation) -> Iterator[tuple[int, int, int, bool]]:
    for extents, writes in ((op.writes, True), (op.reads, False)):
        for buffer, start, stop in extents:
            if buffer >= 0:  # arrays of the program have no number
                yield buffer, start, stop, writes


class _Walk:
    """One walk through the calls and operations of a recording, in the order in which the host made them."""

    def __init__(self, order: Order, *, asked_for: bool) -> None:
        self.order = order
        self.timeline = order.timeline
        self.asked_for = asked_for
        self.tails: dict[int, Clock] = {}  # what is over when the next operation of a stream starts
        self.known: dict[str, Clock] = {}  # what a caller knows to be over
        self.recorded: dict[int, Clock] = {}  # by event or notify
        self.barrier: Clock = {}  # the last work of the legacy stream
        self.queued: dict[int, int] = {}
        handles = self.timeline.handles
        has_legacy = self.timeline.rules.startswith("cuda")
        streams = [index for index, handle in enumerate(handles) if handle.kind == "stream"]
        self.legacy = {index for index in streams if has_legacy and handles[index].name.startswith("legacy")}
        self.blocking = {index for index in streams if has_legacy and not handles[index].options.get("nonblocking")}
        self.blocking -= self.legacy

    def run(self) -> None:
        ops, calls = self.timeline.ops, self.timeline.calls
        events = [(op.queued_ns, 0, index) for index, op in enumerate(ops)]
        events += [(call.exit_ns, 1, index) for index, call in enumerate(calls)]
        for _, is_call, index in sorted(events):
            if is_call:
                self._call(index, calls[index])
            else:
                self._op(index, ops[index])

    def _host(self, caller: str) -> Clock:
        return self.known.setdefault(caller if self.asked_for else "", {})

    def _turn(self, stream: int) -> Clock:
        """Return what is over when an operation, a record or a wait that is given to *stream* now has its turn."""
        tail = self.tails.setdefault(stream, {})
        if stream in self.legacy:
            for other in self.blocking:
                _join(tail, self.tails.get(other, {}))
            self.barrier = tail
        elif stream in self.blocking:
            _join(tail, self.barrier)
        return tail

    def _op(self, index: int, op: Operation) -> None:
        stream = self.order.stream(index)
        tail = self._turn(stream)
        _join(tail, self._host(op.caller))
        self.order.clocks[index] = dict(tail)
        self.queued[stream] = self.order.places[index] = self.queued.get(stream, 0) + 1
        tail[stream] = self.order.places[index]

    def _call(self, index: int, call: Call) -> None:
        handles = [each.handle for each in call.about if isinstance(each, Ref)]
        if call.name in _RECORDS and len(handles) == 2:
            event, stream = handles
            self.recorded[event] = _joined(self._turn(stream), self._host(call.caller))
        elif call.name in WAITS and len(handles) == 2:
            event, stream = handles
            is_notify = call.name == "WaitAndResetNotify"
            is_later = is_notify and event not in self.recorded  # it waits for a record that is still to come
            recorded = self.recorded.get(event, {})
            if is_notify:
                self.recorded.pop(event, None)  # the next wait needs a record of its own
            tail = self._turn(stream)
            known = _joined(tail, self._host(call.caller))
            if stream not in self.legacy and not is_later and _covers(known, recorded):
                self.order.nothing_new.append(index)
            _join(tail, recorded)
        else:
            self._learn(index, call, handles)

    def _learn(self, index: int, call: Call, handles: list[int]) -> None:
        """Let the caller know what *call* has waited for."""
        if self.asked_for and call.name.endswith("Async") and handles:
            # A copy of pageable memory that the host waits for would be in this stream if the memory were pinned.
            stream = handles[-1]
            self._turn(stream)[stream] = self.queued[stream] = self.queued.get(stream, 0) + 1
        known = self._host(call.caller)
        over = self._waited_for(call, handles)
        if call.name.startswith(SYNCHRONISATIONS) and _covers(known, over):
            self.order.nothing_new.append(index)
        _join(known, over)
        if self.asked_for and not call.name.startswith(SYNCHRONISATIONS) and call.name not in _SYNC_COPIES:
            return
        for sleep in call.sleeps:
            if sleep.after is not None:
                _join(known, self.order.clocks[sleep.after])
                stream = self.order.stream(sleep.after)
                known[stream] = max(known.get(stream, 0), self.order.places[sleep.after])

    def _waited_for(self, call: Call, handles: list[int]) -> Clock:
        if call.sleeps and call.sleeps[-1].after is None and call.name.startswith(SYNCHRONISATIONS):
            return {}  # its time was over, or it failed
        over: Clock = {}
        frees = call.name in _WAIT_FOR_DEVICE and self.timeline.rules.startswith("cuda") and not self.asked_for
        if frees or call.name.startswith("SynchronizeDevice"):
            for tail in self.tails.values():
                _join(over, tail)
        elif call.name.startswith("SynchronizeStream") and handles:
            over |= self._turn_of_host(handles[0])
        elif call.name.startswith("SynchronizeEvent") and handles:
            over |= self.recorded.get(handles[0], {})
        return over

    def _turn_of_host(self, stream: int) -> Clock:
        """Return what a host that synchronises with *stream* waits for; unlike `_turn` it holds no stream back."""
        over = dict(self.tails.get(stream, {}))
        if stream in self.legacy:
            for other in self.blocking:
                _join(over, self.tails.get(other, {}))
        return over


def _join(clock: Clock, other: Clock) -> None:
    """Raise *clock* to *other* where that is later."""
    for stream, count in other.items():
        if clock.get(stream, 0) < count:
            clock[stream] = count


def _joined(clock: Clock, other: Clock) -> Clock:
    """Return the later of two clocks."""
    joined = dict(clock)
    _join(joined, other)
    return joined


def _covers(clock: Clock, other: Clock) -> bool:
    return all(clock.get(stream, 0) >= count for stream, count in other.items())
