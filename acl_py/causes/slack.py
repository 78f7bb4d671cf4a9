"""Slack: how much longer an operation could take before the run takes longer.

It follows from the relations in the recording. These are stream order, events, synchronising calls, the order in which
an engine ran its operations, the order of the host's calls, and that ranks wait for one another in collectives. Some
relations show in a recording only where they held an operation back: the default-stream rule, full cores, a shared
hardware queue. So a slack is an upper bound, and the slack of an operation on the critical path is 0.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from operator import itemgetter

import numpy as np

from acl_py.calls.acts import Act, Synchronised
from acl_py.causes.host import BusyTimes, busy_times, hosts_of
from acl_py.causes.partners import Partners
from acl_py.causes.path import Cause, Part, makespan_ns
from acl_py.trace.rows.columns import (
    CallColumns,
    Ints,
    OpColumns,
    StepColumns,
    call_columns,
    op_columns,
    places,
    step_columns,
)  # fmt: skip
from acl_py.trace.rows.reading import as_timeline
from acl_py.trace.rows.timeline import Handle, Ref, Thing, Timeline
from device_model.completions import Why

_ONE_AT_A_TIME = ("H2D", "D2H", "P2P")  # engines that run one operation after the other
_LATE = (Why.HOST, Why.FAULT, Why.STAGING)  # reasons of an operation that waited for the host


def slacks(timeline: Timeline, path: Iterable[Part]) -> list[int]:
    """Return the slack of each operation in nanoseconds, in their order; *path* is the critical path."""
    timeline = as_timeline(timeline)
    ops, calls = op_columns(timeline.ops), call_columns(timeline.calls)
    busy = busy_times(calls)
    # A node is an operation, or a busy time of the host behind them. Both are visited from the last one backwards.
    begin_ns, end_ns = np.append(ops.start_ns, busy.begin_ns), np.append(ops.end_ns, busy.end_ns)
    end = makespan_ns(timeline)
    slack = (end - end_ns).tolist()
    if len(calls):
        slack[-1] = end - timeline.end_ns  # what the host does behind its last call takes as long as before
    ranks = _Ranks(Partners(timeline, ops), ops)
    for part in path:
        if part.cause is Cause.WORK and part.op is not None:
            slack[part.op] = 0
    for op, node in ranks.nodes.items():
        slack[node] = min(slack[node], slack[op])
    nodes, earlier, spare = ranks.edges(_edges(ops, calls, step_columns(timeline.steps), busy, timeline), begin_ns)
    visit = np.empty(len(end_ns), np.int64)
    visit[np.lexsort((end_ns, begin_ns))[::-1]] = np.arange(len(end_ns))
    order = np.argsort(visit[nodes])
    edges = nodes[order].tolist(), earlier[order].tolist(), np.maximum(spare[order], 0).tolist()
    for node, before, spare_ns in zip(*edges, strict=True):
        least = slack[node] + spare_ns
        if least < slack[before]:
            slack[before] = least
    return ranks.shared(slack[: len(ops)])


_Edges = tuple[Ints, Ints, Ints]  # a node, what comes before it, and by how much that could be later


class _Ranks:
    """What ranks wait for one another changes. The parts of one collective of all ranks are one node, the part that
    starts last; *nodes* has this node for each part.
    """

    def __init__(self, partners: Partners, ops: OpColumns) -> None:
        self._partners = partners
        self._start, self._end = ops.start_ns, ops.end_ns
        self.nodes = {op: partners.last[op] for meeting in partners.meetings for op in meeting.ops.values()}

    def shared(self, slack: list[int]) -> list[int]:
        """Return *slack* of all operations: parts that move the same bytes end together."""
        for op, node in self.nodes.items():
            slack[op] = slack[node]
        for op, others in self._partners.of.items():
            slack[op] = min([slack[op], *(slack[each] for each in others if self._end[each] == self._end[op])])
        return slack

    def edges(self, edges: "_Edges", begin_ns: Ints) -> "_Edges":
        """Return *edges* with the waits of ranks for one another. A part counts from when the last of its partners had
        its turn: *begin_ns* has that then.

        A part that waits for others could start later by as much. What comes before a part comes before its partners.
        """
        if not self._partners.last:
            return edges
        nodes, earlier, spare = edges
        start = self._start
        waits = np.zeros(len(begin_ns), np.int64)  # for the last of its partners
        more: list[tuple[int, int, int]] = []  # an edge of a part that another part has, too, and the time to spare
        of_parts = _grouped(nodes, self._partners.of)
        for op, others in self._partners.of.items():
            begin_ns[op] = max(start[each] for each in (op, *others))
            waits[op] = begin_ns[op] - start[op]
        for op, others in self._partners.of.items():
            own = of_parts.get(op, ())
            more += [(other, edge, begin_ns[other] - start[op]) for other in others for edge in own]
        for op, node in self.nodes.items():
            waits[op] = start[node] - start[op]
        shared = np.array(more, np.int64).reshape(-1, 3).T
        early = [each for each in self._partners.deliveries if self._partners.is_early(each)]
        recv, send = (np.array([getattr(each, side) for each in early], np.int64) for side in ("recv", "send"))
        columns = [
            (nodes, earlier, spare + waits[nodes]),
            (shared[0], earlier[shared[1]], spare[shared[1]] + shared[2]),
            (recv, send, start[recv] - self._end[send] + waits[recv]),
        ]
        nodes, earlier, spare = (np.concatenate(each) for each in zip(*columns, strict=True))
        node_of = np.arange(len(begin_ns))
        for op, node in self.nodes.items():
            node_of[op] = node
        return node_of[nodes], node_of[earlier], spare


def _grouped(nodes: Ints, wanted: Container[int]) -> dict[int, list[int]]:
    """Return the places in *nodes* of each node that is *wanted*."""
    found: dict[int, list[int]] = {}
    for place, node in enumerate(nodes.tolist()):
        if node in wanted:
            found.setdefault(node, []).append(place)
    return found


def _edges(ops: OpColumns, calls: CallColumns, steps: StepColumns, busy: BusyTimes, timeline: Timeline) -> _Edges:
    """Return the relations of a recording: what comes before each operation and each busy time, and the time to spare,
    by which that could be later without changing it.
    """
    queued = _Queued(ops, timeline.handles)
    host_of_op, host_of_call = hosts_of(timeline, ops, calls)
    host = host_of_call[busy.call]
    of_ops = [*_neighbours(ops), _waits(steps, queued)]
    of_host, last = _synchronised(ops, calls, busy, queued)
    held = np.flatnonzero(ops.after >= 0)
    woken, woke = _woken(calls, busy)
    edges = [(node, before, ops.start_ns[node] - ops.end_ns[before]) for node, before in of_ops]
    edges += [
        (held, ops.after[held], np.zeros(len(held), np.int64)),
        (len(ops) + of_host, last, busy.begin_ns[of_host] - ops.end_ns[last]),
        (len(ops) + woken, woke, np.zeros(len(woken), np.int64)),
        _behind_the_host(ops, busy, host_of_op, host),
        _host_in_order(len(ops), busy, woken, host),
    ]
    nodes, earlier, spare = (np.concatenate(columns) for columns in zip(*edges, strict=True))
    return nodes, earlier, spare


def _neighbours(ops: OpColumns) -> Iterator[tuple[Ints, Ints]]:
    """Yield operations and those that came before them in their streams, and the same for engines."""
    order = np.lexsort((ops.end_ns, ops.start_ns))
    streams = np.array([kind.in_stream for kind in ops.kinds], np.int64)
    behind, before = successive(order, streams[ops.kind])
    is_apart = (ops.launch[behind] < 0) | (ops.launch[behind] != ops.launch[before])
    yield behind[is_apart], before[is_apart]  # nodes of a launch may run side by side
    yield from _around_launches(ops, streams[ops.kind])
    engine, _ = places(((kind.device, kind.engine) for kind in ops.kinds), len(ops.kinds))
    is_serial = np.array([kind.engine in _ONE_AT_A_TIME for kind in ops.kinds], bool)
    yield successive(order[is_serial[ops.kind[order]]], engine[ops.kind])


def _around_launches(ops: OpColumns, stream: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield the nodes of launches and what came before them in their streams, and what came behind them and all nodes.

    Of a launch behind another one, all nodes wait for the node that ends last, and the node that starts first for all.
    """
    nodes = np.flatnonzero(ops.launch >= 0)
    if not len(nodes):
        return
    unit = np.where(ops.launch < 0, len(ops) + np.arange(len(ops)), ops.launch)
    by_start, by_end = (np.lexsort((times, unit)) for times in (ops.start_ns, ops.end_ns))
    _, begin, size = np.unique(unit[by_start], return_index=True, return_counts=True)
    first, last = by_start[begin], by_end[begin + size - 1]
    order = np.lexsort((ops.end_ns[last], ops.start_ns[first]))
    behind, before = successive(order, stream[first])
    members = np.split(by_start, begin[1:])
    for later, earlier in zip(behind.tolist(), before.tolist(), strict=True):
        if size[later] > 1 or size[earlier] > 1:
            yield members[later], np.full(size[later], last[earlier])
            yield np.full(size[earlier], first[later]), members[earlier]


def successive(order: Ints, line: Ints) -> tuple[Ints, Ints]:
    """Return operations and those before them on their *line*, if they ran in this *order*."""
    order = order[np.argsort(line[order], kind="stable")]
    is_same = line[order[1:]] == line[order[:-1]]
    return order[1:][is_same], order[:-1][is_same]


def _waits(steps: StepColumns, queued: "_Queued") -> tuple[Ints, Ints]:
    """Return operations and those that events made them wait for, by waits that are queued before them."""
    is_wait = np.array([kind.kind == "wait" for kind in steps.kinds], bool)
    waits = np.flatnonzero(is_wait[steps.kind] & (steps.after >= 0))
    columns = steps.kind[waits].tolist(), steps.queued_ns[waits].tolist()
    held = [queued.next_op(steps.kinds[kind].in_stream, at_ns) for kind, at_ns in zip(*columns, strict=True)]
    node = np.array(held, np.int64)
    return node[node >= 0], steps.after[waits][node >= 0]


def _behind_the_host(ops: OpColumns, busy: BusyTimes, host_of_op: Ints, host: Ints) -> _Edges:
    """Return operations and the busy times of their hosts in which they were queued."""
    place = np.full(len(ops), -1)
    for number in np.unique(host_of_op).tolist():
        own, queued = np.flatnonzero(host == number), np.flatnonzero(host_of_op == number)
        found = np.searchsorted(busy.end_ns[own], ops.queued_ns[queued], side="right") - 1
        place[queued[found >= 0]] = own[found[found >= 0]]
    is_late = (ops.after < 0) & np.isin(ops.why, _LATE)
    spare = np.where(is_late, 0, ops.start_ns - ops.queued_ns)
    node = np.flatnonzero(place >= 0)
    return node, len(ops) + place[node], spare[node]


def _host_in_order(count: int, busy: BusyTimes, woken: Ints, host: Ints) -> _Edges:
    """Return busy times, whose nodes follow *count* others, and those before them on their *host*; an operation has
    *woken* some.
    """
    later, earlier = successive(np.arange(len(busy.call)), host)
    spare = np.where(np.isin(later, woken), busy.begin_ns[later] - busy.end_ns[earlier], 0)
    return count + later, count + earlier, spare


def _woken(calls: CallColumns, busy: BusyTimes) -> tuple[Ints, Ints]:
    """Return the busy times that began when an operation ended, and this operation."""
    after = np.append(calls.sleeps.after, -1)[busy.sleep]
    place = np.flatnonzero(after >= 0)
    return place, after[place]


def _synchronised(ops: OpColumns, calls: CallColumns, busy: BusyTimes, queued: "_Queued") -> tuple[Ints, Ints]:
    """Return the busy times that end with calls which synchronise, and the last operations that these waited for."""
    subjects = np.array([_subject(kind.act) for kind in calls.kinds], np.int64)[calls.kind[busy.call]]
    is_last = (subjects >= 0) & (busy.end_ns == calls.exit_ns[busy.call])
    found = [
        (place, tail)
        for place in np.flatnonzero(is_last).tolist()
        for tail in queued.waited_for(int(subjects[place]), int(calls.enter_ns[busy.call[place]]))
        if ops.end_ns[tail] <= busy.end_ns[place]
    ]
    place, tail = np.array(found, np.int64).reshape(-1, 2).T
    return place, tail


def _subject(act: Act[Thing]) -> int:
    """Return the handle of what a call synchronised with, or -1 if it did not."""
    match act:
        case Synchronised(Ref(handle)):
            return handle
    return -1


class _Queued:
    """The operations of each stream in the order in which they were queued."""

    def __init__(self, ops: OpColumns, handles: Sequence[Handle]) -> None:
        self._handles = handles
        self.streams: dict[int, list[tuple[int, int]]] = {}  # when, and the index of the operation
        for index, (kind, queued_ns) in enumerate(zip(ops.kind.tolist(), ops.queued_ns.tolist(), strict=True)):
            self.streams.setdefault(ops.kinds[kind].in_stream, []).append((queued_ns, index))
        for of_stream in self.streams.values():
            of_stream.sort()

    def next_op(self, stream: int, at_ns: int) -> int:
        """Return the first operation that was queued in *stream* from *at_ns* on, or -1."""
        of_stream = self.streams.get(stream, [])
        place = bisect_left(of_stream, (at_ns, -1))
        return of_stream[place][1] if place < len(of_stream) else -1

    def waited_for(self, subject: int, at_ns: int) -> Iterator[int]:
        """Yield the last operation of *subject*, a stream, or of each stream if it is a context or a device."""
        is_all = self._handles[subject].kind in ("context", "device")
        for of_stream in self.streams.values() if is_all else [self.streams.get(subject, [])]:
            place = bisect_right(of_stream, at_ns, key=itemgetter(0)) - 1
            if place >= 0:
                yield of_stream[place][1]
