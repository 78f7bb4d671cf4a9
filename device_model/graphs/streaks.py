"""Streaks: kernels of a graph, one behind the other, that run without an operation for each.

A node of a launch is an operation like any other, and to queue, start and end it takes microseconds of real time. Most
of this decides nothing while the cores are free for one chain of kernels. Each of them starts a fixed time behind the
one before, and lasts as long as it takes alone. So a row of kernels, each of which waits for the one before and for
nothing else, is a *streak*. Only one of its nodes has an operation, the next one:

    k1 k2 k3 k4 k5    k1 is queued at the launch, as all nodes would be without streaks
                      k1 asks for the cores: they are free, and nothing else is due before the end of k3
                      k1, k2 and k3 run at once, at their times, and the operation is that of k4 now
                      k4 starts as any operation does; at its end, k5 is queued

Several streaks of a launch may run at the same time. Kernels without exclusive blocks leave room for each other, so
each of these streaks goes on as if it were alone, and their nodes end in the order of time.

`Streaks` decides this when an operation of a streak asks for the cores. If it cannot run at once, the dispatcher takes
the operation in the same instant, and other work finds the dispatcher as it would be without streaks. Nodes are queued
at the launch, all of them, if an observer wants each of them (observe.py), if a fault rule or a schedule may change
them, or if they have priorities of their own. An observer that does not, such as a trace, is told which nodes ran.
"""

from heapq import heapify, heappush
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from device_model.completions import Completion, Nanoseconds
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.scheduler import END_NS, Chain, Engine, Place
from device_model.work import Kernel, Work

if TYPE_CHECKING:
    from device_model.device import Device
    from device_model.graphs.executable import Run
    from device_model.graphs.plan import Entry, Row
    from device_model.scheduler import Action


# A node that ran, and when: the operation that stands for it, its entry, its start and its end.
Ran: TypeAlias = "tuple[NodeOp, Entry, Nanoseconds, Nanoseconds]"
_LONG = 64  # a heap of so many entries is not searched for streaks: that would take longer than it saves


class NodeOp(Op):
    """The work of the node of *entry* in one *run*, perhaps as the next one of a *streak*.

    *capture* is the number of its capture in a trace. *own_priority* is that of the stream from which the node was
    captured, if the executable keeps the priorities of nodes.
    """

    __slots__ = ("capture", "entry", "own_priority", "run", "streak")

    capture: int
    own_priority: int | None  # type: ignore[misc]
    entry: "Entry"
    run: "Run"
    streak: "Streak | None"


class Streak(Completion):
    """The kernels of *row* in one *run*, queued in *queue*. What waits for the last of them waits for this."""

    __slots__ = ("_queue", "_run", "index", "op", "row")

    def __init__(self, row: "Row", run: "Run", queue: HardwareQueue) -> None:
        super().__init__()
        self.row = row
        self._run = run
        self._queue = queue
        self.index = 0  # in the row: of the node that has an operation
        self.op = run.operation(row.entries[0], queue)  # that of its next node
        self._link(self.op)

    def __repr__(self) -> str:
        return f"<streak at node {self.index} of {len(self.row.entries)} in {self._run!r}>"

    def release(self, by: Completion) -> None:
        """Queue the next node: *by*, the one before, is over."""
        op = self._queue_next()
        self._queue.fifo.appendleft(op)  # what is queued there already comes behind it
        op.release(by)

    def run_alone(self, device: "Device") -> None:
        """Run nodes, from that of `op` on, which is listed, until something else happens; `op` is then the next one."""
        op, first, scheduler = self.op, self.index, device.scheduler
        steps, gap, start = self.row.steps, self._queue.after_same[op.lane], max(op.ready_ns, scheduler.now)
        over, error = scheduler.pass_through(islice(steps, first, None), start, gap)
        if over:
            if device.hooks.nodes_ran is not None:
                _tell(device, self._ran(start, over))
            device.cores.freed = self.move_on(over, scheduler.now, error)
        elif error is not None:  # an interrupt that came before the first step
            scheduler.raise_later(error)

    def move_on(self, over: int, end: Nanoseconds, error: BaseException | None) -> NodeOp:
        """Let `op` be that of the node behind those that are *over*, at least one, of which the last ended at *end*,
        perhaps with an *error*. Return the operation of the last one.
        """
        op, run, gap = self.op, self._run, self.gap
        self.index += over
        last = run.operation(self.row.entries[self.index - 1], self._queue)
        last.end_ns = end
        last.start_ns = last.ready_ns = end - self.row.steps[self.index - 1][1]
        if error is not None:
            run.stream.context.mark_failed(last, last.work.failure(error))
        last.done = True
        entry = op.entry = self.row.entries[self.index]
        node = entry.node
        assert node.work is not None, f"{node!r} has no work"
        op.work, op.nbytes, op.site, op.capture = node.work, node.work.nbytes, node.site, node.row
        op.row = run.row_of(entry)
        op.ready_ns = end + gap
        op.by = last if op.ready_ns > run.ready_ns else None  # as in Op.release
        self._link(op)
        return last

    @property
    def gap(self) -> Nanoseconds:
        """From the end of a node to the start of the next."""
        return self._queue.after_same[self.op.lane]

    def expand(self) -> None:
        """Queue all of its nodes, for somebody who looks at the operations of the launch."""
        op, fifo = self.op, self._queue.fifo
        place = fifo.index(op) + 1 if op in fifo else 0
        while op.streak is not None:
            behind = self._queue_next()
            fifo.insert(place, behind)
            place += 1
            op.streak, op.waiters = None, [behind]
            op = behind

    def _ran(self, start: Nanoseconds, over: int) -> list["Ran"]:
        """Return the next nodes, of which the first began at *start*, and so many are *over*."""
        ran, gap, op, first = [], self.gap, self.op, self.index
        steps, entries = self.row.steps[first : first + over], self.row.entries[first : first + over]
        for (_, lasts), entry in zip(steps, entries, strict=True):
            end = start + lasts
            ran.append((op, entry, start, end))
            start = end + gap
        return ran

    def _queue_next(self) -> NodeOp:
        """Return the operation of the next node, which waits for the one before."""
        self.index += 1
        op = self.op = self._run.operation(self.row.entries[self.index], self._queue)
        self._link(op)
        op.blockers = 1
        device = self._run.device
        device.call_hook(device.hooks.node_queued, op)
        return op

    def _link(self, op: NodeOp) -> None:
        """Let *op*, the next node, release the one behind it, or what waits for the last one."""
        if self.index < len(self.row.steps):
            op.streak, op.waiters = self, [self]
        else:
            op.streak, op.waiters, self.waiters = None, self.waiters, None


class StreakChain(Chain):
    """The nodes of *streak* from that of its operation on, which runs. It goes on as long as the next node starts
    whatever else runs: one with exclusive blocks does not.
    """

    __slots__ = ("_device", "_first", "_gap", "_index", "_ran", "_row", "_start_ns", "streak")

    def __init__(
        self,
        streak: Streak,
        device: "Device",
        due: "tuple[Nanoseconds, int, Action, Any]",
        ran: "list[Ran] | None",
    ) -> None:
        super().__init__(due)
        self._ran = ran  # nodes that are over are added here
        self.streak = streak
        self._device = device
        self._row = streak.row
        self._first = self._index = streak.index
        self._gap = streak.gap
        self._start_ns = streak.op.start_ns
        self._look()

    def _look(self) -> None:
        index, row = self._index, self._row
        if index < len(row.steps) and _is_shared(row.entries[index + 1].node.work):
            self.act = row.steps[index][0]
        else:
            self.goes_on = False

    def go_on(self, now: Nanoseconds) -> Nanoseconds:
        """Start the next node, and return when it ends."""
        if self._ran is not None:
            self._ran.append((self.streak.op, self._row.entries[self._index], self._start_ns, now))
        self._index = index = self._index + 1
        self._start_ns = start = now + self._gap
        row = self._row
        self._look()
        if index < len(row.steps):
            return start + row.steps[index][1]
        work = row.entries[index].node.work
        lasts = None if work is None else self._device.cores.time_alone(work)
        assert lasts is not None, f"{work!r} is the last of a streak, and takes an unknown time"
        return start + lasts

    def leave(self, error: BaseException | None) -> tuple[Nanoseconds, NodeOp] | None:
        """Let the operation of the streak be that of the node that runs now. Return when the one before ended, perhaps
        with an *error*, and its operation; None if none has ended.
        """
        over = self._index - self._first
        if not over:
            return None
        op, cores, end = self.streak.op, self._device.cores, self._start_ns - self._gap
        before = op.work
        last = self.streak.move_on(over, end, error)
        cores.exchange(before, op.work)
        op.start_ns = self._start_ns
        return end, last


def _tell(device: "Device", ran: "list[Ran]") -> None:
    """Tell the observers which nodes ran."""
    first: dict[NodeOp, Nanoseconds] = {}
    for op, _, start, end in ran:
        if op not in first:
            first[op] = op.start_ns
            op.start_ns, op.end_ns = start, end
    device.call_hook(device.hooks.nodes_ran, ran)
    for op, start in first.items():
        op.start_ns, op.end_ns = start, -1


def _by_place(each: Place) -> tuple[Nanoseconds, int]:
    return each[:2]


def _is_shared(work: "Work | None") -> bool:
    """Whether *work* is a kernel that leaves room for all others that are so."""
    return type(work) is Kernel and not work.exclusive


class Streaks(Engine):
    """Stands before the dispatcher, and lets streaks run: one that has the cores for itself, or several of one launch
    whose kernels leave room for each other.
    """

    __slots__ = ("_device", "_head")

    def __init__(self, device: "Device") -> None:
        super().__init__(device.scheduler, "streaks")
        self._device = device
        self._head: NodeOp | None = None  # what was offered last

    def offer(self, queue: HardwareQueue, now: bool = False) -> None:
        """List what is ready in *queue*; if it is of a streak, look at it when all completions of this instant are in.

        The grant of this engine has to come before that of the dispatcher. In a call of a host no time can pass.
        """
        head, cores = queue.fifo[0], self._device.cores
        if (
            self.scheduler.until >= 0
            and isinstance(head, NodeOp)
            and head.streak is not None
            and (not cores.resident or _is_shared(head.work))
        ):
            self._head = head
            self.request_grant()
        cores.offer(queue, now)

    def grant(self) -> None:
        """Let streaks run if nothing else can start here or at another engine, and if observers let them."""
        self.is_dirty = False
        op, self._head = self._head, None
        device = self._device
        if (
            op is not None
            and op.streak is not None
            and self.scheduler.dirty[-2:] == [self, device.cores]
            and not device.hooks.each_node
            and op.stream.context.error is None
            and not device.workers.flying
        ):
            if device.cores.has_only(op):
                op.streak.run_alone(device)
            elif self.scheduler.can_pass:
                device.cores.grant()  # it would be the next to be granted
                if device.cores.is_open:
                    self._run_beside(op.run)

    def _run_beside(self, run: "Run") -> None:
        """Let the streaks of *run* whose kernels run now go on, until something else is due."""
        heap, cores = self.scheduler.heap, self._device.cores
        if len(heap) > _LONG:
            return
        others, chains = [], []
        ran: list[Ran] | None = None if self._device.hooks.nodes_ran is None else []
        for due in heap:
            op = due[3]
            if isinstance(op, NodeOp) and op.run is run and op.streak is not None and _is_shared(op.work):
                chain = StreakChain(op.streak, self._device, due, ran)
                if chain.goes_on:
                    chains.append(chain)
                    continue
            others.append(due)
        if not chains or min(others, default=(END_NS,))[0] <= min(chain.due[0] for chain in chains):
            return
        heap[:] = others
        heapify(heap)
        ends, failure = self.scheduler.pass_beside(chains)
        if ran:
            _tell(self._device, ran)
        last: tuple[Nanoseconds, int, NodeOp] | None = None
        for end, sequence, each in sorted(ends, key=_by_place):
            assert isinstance(each, StreakChain), f"{each!r} is no streak"
            over = each.leave(failure[1] if failure is not None and failure[0] is each else None)
            if over is not None and (last is None or (over[0], sequence) > last[:2]):
                last = over[0], sequence, over[1]
            heappush(heap, (end, sequence, *each.due[2:]))
        if last is not None:
            cores.freed = last[2]

    def drop(self, op: Op) -> None:
        """Take *op* out of its queue, or off the list."""
        self._device.cores.drop(op)
