"""What a wait can be worth: nothing, if the critical path does not lead through it; and what a run takes besides.

The path is a chain. A wait is a *link* of the path if an operation, or the host, went on at the instant at which the
wait was over. An edit that keeps all links of a line does not make the path shorter.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from acl_py.advice.lines import WaitLine
from acl_py.calls import acts
from acl_py.causes.path import critical_path
from acl_py.causes.relation import At, Node, Relation
from acl_py.trace.rows.reading import short_site
from acl_py.trace.rows.timeline import Operation, Ref, Timeline
from device_model.completions import Why

Key = tuple[str, int]  # of an operation or a call: its line, and how many of this line come before it


class Link(NamedTuple):
    """The operation *one* ended, and then the *other* one began, or the host went on behind a *call*. *one* is None if
    the wait was for no operation.
    """

    one: Key | None
    other: Key | None = None
    call: Key | None = None


class OnPath:
    """The critical path of *timeline*: its *lines*, which are those of calls on it and of waits for events by
    operations on it; and the *links* of each line.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.links: defaultdict[str, list[Link]] = defaultdict(list)
        self.lines: set[str] = set()
        calls, ops, waits = timeline.calls, timeline.ops, _Waits(timeline)
        keys, keys_of_calls = keys_of(timeline)
        ended: int | None = None  # the operation that was over when the next part began
        for part in critical_path(timeline):
            if part.call is not None:
                site = keys_of_calls[part.call][0]
                self.lines.add(site)
                if ended is not None and part.begin_ns > calls[part.call].enter_ns:
                    self.links[site].append(Link(keys[ended], call=keys_of_calls[part.call]))
            if part.op is not None and ops[part.op].why is Why.EVENT:
                for site in waits.of(ops[part.op], None if part.by is None else ops[part.by]):
                    self.lines.add(site)
                    self.links[site].append(Link(None if part.by is None else keys[part.by], keys[part.op]))
            ended = part.op if part.op is not None and part.by is None else None


class Bound:
    """Says which edits of the run of *relation* can make it shorter. *least_ns* is what counts."""

    def __init__(self, relation: Relation, least_ns: int) -> None:
        self._relation, self._least_ns = relation, least_ns
        self._timeline = timeline = relation.timeline
        ops, calls = keys_of(timeline)
        self._ops = {key: index for index, key in enumerate(ops)}
        self._calls = {key: index for index, key in enumerate(calls)}
        # Tasks may take turns in another order in another run, so that keys are those of other calls.
        self._is_one_task = len({(call.caller, call.by) for call in timeline.calls}) == 1

    def is_open(self, line: WaitLine, edges: Sequence[tuple[Node, Node]] | None, path: OnPath) -> bool:
        """Whether it can make the run with this *path* shorter to put *edges* in the place of all waits of *line*; with
        None, any edges.
        """
        if not self._is_one_task:
            return True
        links = path.links[line.site]
        if not all(edges and any(self._is_kept(link, *edge) for edge in edges) for link in links):
            return True
        fewer = 1 - len(edges or ()) / line.count
        return awake_ns(self._timeline, line.calls) * fewer >= self._least_ns

    def _is_kept(self, link: Link, one: Node, other: Node) -> bool:
        """Whether what went on in *link* waits for the same with the edge from *one* to *other*."""
        before = self._ops.get(link.one) if link.one is not None else None
        if before is None or not self._is_behind(one, Node(At.OP, before)):
            return False
        if link.other is not None:
            behind = self._ops.get(link.other)
            return behind is not None and other.at is At.OP and self._is_behind(Node(At.OP, behind), other)
        call = None if link.call is None else self._calls.get(link.call)
        if call is None:
            return False
        is_next = other.at is At.ENTRY and other.place == call + 1
        return is_next or (other.at is At.ACCESS and self._timeline.accesses[other.place].behind == call)

    def _is_behind(self, one: Node, other: Node) -> bool:
        """Whether *one* is *other*, or comes later in the same stream."""
        later, point = self._relation.point(one), self._relation.point(other)
        return later.actor == point.actor and later.epoch >= point.epoch


class _Waits:
    """The waits for events in the streams of *timeline*."""

    def __init__(self, timeline: Timeline) -> None:
        # By stream: when it was put behind something, which streams have recorded that, and at which line.
        self._waits: defaultdict[int, list[tuple[int, int, str]]] = defaultdict(list)
        recorded: dict[int, int] = {}
        for call in timeline.calls:
            match call.act:
                case acts.Recorded(Ref(event), Ref(stream)):
                    recorded[event] = stream
                case acts.Waited(Ref(event), Ref(stream)):
                    site = short_site(call.file, call.line)
                    self._waits[stream].append((call.exit_ns, recorded.get(event, -1), site))
        self._queued: defaultdict[int, list[int]] = defaultdict(list)  # by stream: when it was given operations
        for op in timeline.ops:
            self._queued[op.in_stream].append(op.queued_ns)
        for times in self._queued.values():
            times.sort()
        for waits in self._waits.values():
            waits.sort()

    def of(self, op: Operation, by: Operation | None) -> list[str]:
        """Return the lines that put the stream of *op* behind something since the operation before it: if some have put
        it behind the stream of the operation *by*, only these.
        """
        times, waits = self._queued[op.in_stream], self._waits[op.in_stream]
        place = bisect_left(times, op.queued_ns)
        since_ns = times[place - 1] if place else -1
        first, last = (bisect_right(waits, at_ns, key=itemgetter(0)) for at_ns in (since_ns, op.queued_ns))
        own = waits[first:last]
        exact = [site for _, stream, site in own if by is not None and stream == by.in_stream]
        return exact or [site for *_, site in own]


def keys_of(timeline: Timeline) -> tuple[list[Key], list[Key]]:
    """Return the keys of all operations of *timeline*, and of all calls."""
    ops, calls = timeline.ops, timeline.calls
    return (
        _numbered([op.site for op in ops], sorted(range(len(ops)), key=lambda index: ops[index].queued_ns)),
        _numbered([short_site(call.file, call.line) for call in calls], range(len(calls))),
    )


def _numbered(sites: Sequence[str], order: Iterable[int]) -> list[Key]:
    counts: Counter[str] = Counter()
    keys: list[Key] = [("", 0)] * len(sites)
    for index in order:
        keys[index] = sites[index], counts[sites[index]]
        counts[sites[index]] += 1
    return keys


def awake_ns(timeline: Timeline, calls: Iterable[int]) -> int:
    """Return for how long the host was busy in *calls*, without their sleeps."""
    rows = (timeline.calls[index] for index in calls)
    return sum(call.exit_ns - call.enter_ns - sum(each.end_ns - each.begin_ns for each in call.sleeps) for call in rows)


def peak_bytes(timeline: Timeline) -> int:
    """Return how much memory of devices was in use at once, at most."""
    changes: list[tuple[int, int]] = []
    for memory in timeline.buffers:
        if memory.space == "device" and memory.begin_ns >= 0:
            changes.append((memory.begin_ns, memory.bytes))
            if memory.end_ns >= 0:
                changes.append((memory.end_ns, -memory.bytes))
    return max(accumulate(change for _, change in sorted(changes)), default=0)
