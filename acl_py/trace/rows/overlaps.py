"""How copies and computation share the time of a run, and which copies computation hides.

The copies are those between host and devices, and between devices. The computation is what the cores do: kernels,
fills, and copies inside a device. All times are nanoseconds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from acl_py.trace.rows.timeline import Mark, Operation

_COPY = ("H2D", "D2H", "P2P")  # engines
_COMPUTE = ("cores",)
Span = tuple[int, int]  # begin and end, in ns


@dataclass(frozen=True, slots=True)
class Overlap:
    """How copies between host and devices, and computation on the cores, share their time. Times in nanoseconds.

    *copy_ns* and *compute_ns* add up the durations of all operations. *both_ns* is how long both ran, *either_ns* how
    long at least one did, and *computing_ns* how long the computation did. *span_ns* is the time from the start of the
    first operation to the end of the last.
    """

    copy_ns: int
    compute_ns: int
    both_ns: int
    either_ns: int
    computing_ns: int
    span_ns: int

    @property
    def overlap(self) -> float:
        """The share of the time with copies or computation in which both ran, 0 to 1."""
        return share(self.both_ns, self.either_ns)

    @property
    def pipeline_efficiency(self) -> float:
        """Computation as a share of computation and copies, by their added durations, 0 to 1."""
        return share(self.compute_ns, self.compute_ns + self.copy_ns)

    @property
    def overlapped_efficiency(self) -> float:
        """The share of the time from the first operation to the last in which the cores computed, 0 to 1."""
        return share(self.computing_ns, self.span_ns)

    @property
    def together_ns(self) -> int:
        """By how much the durations of all operations exceed the time in which at least one ran."""
        return self.copy_ns + self.compute_ns - self.either_ns

    @property
    def idle_ns(self) -> int:
        """How long no operation ran, between the first and the last."""
        return self.span_ns - self.either_ns


@dataclass(frozen=True, slots=True)
class HiddenCopies:
    """How much of some copies of a device ran while its cores computed. Times in nanoseconds.

    *stream* is "" for all streams, and *stage* for all operations or, in a run with stages, for those in none. Copies
    that one engine makes at the same time count once, those of different engines each for itself.

    Attributes:
        device: The device of the copies.
        stream: Their stream.
        stage: The name of the mark in which their task queued them.
        copy_ns: How long the copies took.
        hidden_ns: How much of that the cores computed, whatever the stream of the kernel.
        possible_ns: How much could be hidden at most. While the cores compute, an engine can be hidden for as long; so
            this is the shorter of both times, for each engine. It is reached by pieces that are small enough.
        before_ns: How much was not hidden because the cores had not begun their first work.
        between_ns: How much was not hidden because the cores waited between two operations.
        behind_ns: How much was not hidden because the cores had ended their last work.
    """

    device: int
    stream: str
    stage: str
    copy_ns: int
    hidden_ns: int
    possible_ns: int
    before_ns: int
    between_ns: int
    behind_ns: int

    @property
    def hidden(self) -> float:
        """The share of the copies that is hidden, 0 to 1."""
        return share(self.hidden_ns, self.copy_ns)


def overlap(ops: Sequence[Operation]) -> Overlap:
    """Return how the copies and the computation of *ops* overlap. Host functions are neither."""
    copies = [_span(op) for op in ops if op.engine in _COPY]
    computation = [_span(op) for op in ops if op.engine in _COMPUTE]
    copying, computing, either = merged(copies), merged(computation), merged([*copies, *computation])
    total = length(either)
    both = length(copying) + length(computing) - total
    span = either[-1][1] - either[0][0] if either else 0
    return Overlap(length(copies), length(computation), both, total, length(computing), span)


def hidden_copies(ops: Sequence[Operation], marks: Iterable[Mark] = ()) -> list[HiddenCopies]:
    """Return how much of the copies is hidden, for each device that has copies and computation.

    A device has a row for all of its copies, then one for each stream and stage with copies, in the order of the first
    copy to end. A copy is in each of the *marks* within which its task or thread queued it.
    """
    copies = [op for op in ops if op.engine in _COPY]
    computing: dict[int, list[Span]] = {}
    for op in ops:
        if op.engine in _COMPUTE:
            computing.setdefault(op.device, []).append(_span(op))
    groups: dict[tuple[int, str, str], list[Operation]] = {}
    for op, stages in zip(copies, _stages(copies, marks), strict=True):
        groups.setdefault((op.device, "", ""), []).append(op)
        for stage in stages or ("",):
            groups.setdefault((op.device, op.stream, stage), []).append(op)
    busy = {device: merged(spans) for device, spans in computing.items()}
    rows = sorted(groups, key=lambda key: (key[0], key[1] != ""))  # it keeps the order of what is equal
    return [_hidden(key, groups[key], busy[key[0]]) for key in rows if key[0] in busy]


def _hidden(key: tuple[int, str, str], copies: Iterable[Operation], busy: Sequence[Span]) -> HiddenCopies:
    """Return the row *key* of *copies*; the cores compute in *busy*, which are spans apart and in order."""
    by_engine: dict[str, list[Span]] = {}
    for op in copies:
        by_engine.setdefault(op.engine, []).append(_span(op))
    whole = length(busy)
    first, last = busy[0][0], busy[-1][1]
    copied = hidden = possible = before = behind = 0
    for spans in map(merged, by_engine.values()):
        total = length(spans)
        copied += total
        hidden += total + whole - length(merged([*spans, *busy]))
        possible += min(total, whole)
        before += sum(min(end, first) - begin for begin, end in spans if begin < first)
        behind += sum(end - max(begin, last) for begin, end in spans if end > last)
    return HiddenCopies(*key, copied, hidden, possible, before, copied - hidden - before - behind, behind)


def _stages(ops: Sequence[Operation], marks: Iterable[Mark]) -> list[tuple[str, ...]]:
    """Return for each of *ops* the names of the marks within which it was queued, those that began first to the front.

    A call that queues an operation ends when this is queued.
    """
    by_caller: dict[str, list[Mark]] = {}
    for mark in sorted(marks, key=lambda mark: (mark.begin_ns, -mark.end_ns)):
        by_caller.setdefault(mark.caller, []).append(mark)
    stages: list[tuple[str, ...]] = [()] * len(ops)
    begun: dict[str, int] = {}  # of the marks of a caller
    lasting: dict[str, list[tuple[int, int]]] = {}  # of those: the end and the place, the next one to end first
    for index in sorted(range(len(ops)), key=lambda index: ops[index].queued_ns):
        at, caller = ops[index].queued_ns, ops[index].caller
        own, place, heap = by_caller.get(caller, ()), begun.get(caller, 0), lasting.setdefault(caller, [])
        while place < len(own) and own[place].begin_ns < at:
            heappush(heap, (own[place].end_ns, place))
            place += 1
        while heap and heap[0][0] < at:
            heappop(heap)
        begun[caller] = place
        stages[index] = tuple(dict.fromkeys(own[place].name for place in sorted(place for _, place in heap)))
    return stages


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the times that *spans* cover, as spans that do not touch one another, in order."""
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def length(spans: Iterable[Span]) -> int:
    """Return how long *spans* are together, each for itself."""
    return sum(end - begin for begin, end in spans)


def share(part: int, whole: int) -> float:
    """Return *part* as a share of *whole*, 0 if that is nothing."""
    return part / whole if whole else 0.0


def _span(op: Operation) -> Span:
    return op.start_ns, op.end_ns
