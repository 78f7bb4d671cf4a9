"""Slack: how much longer an operation could take before the run takes longer.

It follows from the relations in the recording: stream order, events, synchronising calls, the order in which an engine
ran its operations, and the order of the host's calls. Some relations show in a recording only where they held an
operation back: the default-stream rule, full cores, a shared hardware queue. So a slack is an upper bound, and the
slack of an operation on the critical path is 0.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from acl_py.explain.host import Busy, busy_times
from acl_py.explain.path import Cause, Part, makespan_ns
from acl_py.trace.rows import Call, Operation, Ref, Timeline
from device_model.completions import Why

_ONE_AT_A_TIME = ("H2D", "D2H", "P2P")  # engines that run one operation after the other


def slacks(timeline: Timeline, path: Iterable[Part]) -> list[int]:
    """Return the slack of each operation in nanoseconds, in their order; *path* is the critical path."""
    ops, busy = timeline.ops, busy_times(timeline)
    end = makespan_ns(timeline)
    slack = [end - op.end_ns for op in ops] + [end - each.end_ns for each in busy]
    if busy:
        slack[-1] = end - timeline.end_ns  # what the host does behind its last call takes as long as before
    for part in path:
        if part.cause is Cause.WORK and part.op is not None:
            slack[part.op] = 0
    # A node is an operation, or a busy time of the host behind them. Both are visited from the last one backwards.
    nodes = [(op.start_ns, op.end_ns, node) for node, op in enumerate(ops)]
    nodes += [(each.begin_ns, each.end_ns, node) for node, each in enumerate(busy, start=len(ops))]
    nodes.sort(reverse=True)
    edges = _Edges(timeline, busy)
    for _, _, node in nodes:
        own = slack[node]
        for earlier, spare in edges.into(node):
            least = own + spare if spare > 0 else own
            if least < slack[earlier]:
                slack[earlier] = least
    return slack[: len(ops)]


class _Edges:
    """The relations of a recording: what comes before each operation and each busy time, and the time to spare."""

    def __init__(self, timeline: Timeline, busy: list[Busy]) -> None:
        self.ops = timeline.ops
        self.timeline = timeline
        self.busy = busy
        self.busy_ends = [each.end_ns for each in busy]
        self.before = _neighbours(self.ops)
        self.queued = _Queued(self.ops)
        self.waits = _waits(timeline, self.queued)

    def into(self, node: int) -> Iterator[tuple[int, int]]:
        """Yield what comes before *node*, and by how much that could be later without changing *node*."""
        count = len(self.ops)
        return self._into_op(node) if node < count else self._into_host(node - count)

    def _into_op(self, index: int) -> Iterator[tuple[int, int]]:
        op = self.ops[index]
        if op.after is not None:
            yield op.after, 0
        for earlier in (*self.before[index], *self.waits.get(index, ())):
            if earlier != op.after:
                yield earlier, op.start_ns - self.ops[earlier].end_ns
        place = bisect_right(self.busy_ends, op.queued_ns) - 1
        if place >= 0:
            is_late = op.after is None and op.why in (Why.HOST, Why.FAULT, Why.STAGING)
            yield len(self.ops) + place, 0 if is_late else op.start_ns - op.queued_ns

    def _into_host(self, place: int) -> Iterator[tuple[int, int]]:
        busy = self.busy[place]
        after = None if busy.sleep is None else busy.sleep.after
        if place:
            spare = 0 if after is None else busy.begin_ns - self.busy[place - 1].end_ns
            yield len(self.ops) + place - 1, spare
        if after is not None:
            yield after, 0
        call = self.timeline.calls[busy.call]
        if call.name.startswith("Synchronize") and busy.end_ns == call.exit_ns:
            for tail in self.queued.waited_for(call):
                if tail != after and self.ops[tail].end_ns <= busy.end_ns:
                    yield tail, busy.begin_ns - self.ops[tail].end_ns


def _neighbours(ops: Sequence[Operation]) -> list[list[int]]:
    """Return for each operation those that came before it in its stream and on its engine."""
    before: list[list[int]] = [[] for _ in ops]
    last: dict[int | tuple[int, str], int] = {}
    for _, _, index in sorted((op.start_ns, op.end_ns, index) for index, op in enumerate(ops)):
        op = ops[index]
        for line in (op.in_stream, (op.device, op.engine)) if op.engine in _ONE_AT_A_TIME else (op.in_stream,):
            earlier = last.get(line)
            if earlier is not None:
                before[index].append(earlier)
            last[line] = index
    return before


def _waits(timeline: Timeline, queued: "_Queued") -> dict[int, list[int]]:
    """Return for each operation those that events made it wait for: waits of its stream that are queued before it."""
    waits: dict[int, list[int]] = {}
    for step in timeline.steps:
        if step.kind == "wait" and step.after is not None:
            held = queued.next_op(step.in_stream, step.queued_ns)
            if held is not None:
                waits.setdefault(held, []).append(step.after)
    return waits


class _Queued:
    """The operations of each stream in the order in which they were queued."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.streams: dict[int, list[tuple[int, int]]] = {}  # when, and the index of the operation
        for index, op in enumerate(ops):
            self.streams.setdefault(op.in_stream, []).append((op.queued_ns, index))
        for of_stream in self.streams.values():
            of_stream.sort()

    def next_op(self, stream: int, at_ns: int) -> int | None:
        """Return the first operation that was queued in *stream* from *at_ns* on."""
        of_stream = self.streams.get(stream, [])
        place = bisect_left(of_stream, (at_ns, -1))
        return of_stream[place][1] if place < len(of_stream) else None

    def waited_for(self, call: Call) -> Iterator[int]:
        """Yield the last operations that a call which synchronises waits for: of its streams, or of all of them."""
        if call.name.startswith("SynchronizeDevice"):
            streams: Iterable[int] = self.streams
        else:
            streams = [each.handle for each in call.about if isinstance(each, Ref) and each.handle in self.streams]
        for stream in streams:
            of_stream = self.streams[stream]
            place = bisect_right(of_stream, call.enter_ns, key=itemgetter(0)) - 1
            if place >= 0:
                yield of_stream[place][1]
