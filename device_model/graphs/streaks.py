"""Streaks: kernels of a graph, one behind the other, that run without an operation for each.

A node of a launch is an operation like any other, and to queue, start and end it takes microseconds of real time. Most
of this decides nothing while the cores are free for one chain of kernels: each of them starts a fixed time behind the
one before, and lasts as long as it takes alone. So a row of kernels, each of which waits for the one before and for
nothing else, is a *streak*. Only one of its nodes has an operation, the next one:

    k1 k2 k3 k4 k5    k1 is queued at the launch, as all nodes would be without streaks
                      k1 asks for the cores: they are free, and nothing else is due before the end of k3
                      k1, k2 and k3 run at once, at their times, and the operation is that of k4 now
                      k4 starts as any operation does; at its end, k5 is queued

`Streaks` decides this when an operation of a streak asks for the cores. If it cannot run at once, the dispatcher takes
the operation in the same instant, and other work finds the dispatcher as it would be without streaks. Nodes are queued
at the launch, all of them, if an observer wants each of them (observe.py), if a fault rule or a schedule may change
them, or if they have priorities of their own. An observer that does not, such as a trace, is told which nodes ran.
"""

from itertools import islice
from typing import TYPE_CHECKING

from device_model.completions import Completion, Nanoseconds
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.scheduler import Engine

if TYPE_CHECKING:
    from device_model.device import Device
    from device_model.graphs.executable import Run
    from device_model.graphs.plan import Entry, Row


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

    __slots__ = ("_index", "_queue", "_row", "_run", "op")

    def __init__(self, row: "Row", run: "Run", queue: HardwareQueue) -> None:
        super().__init__()
        self._row = row
        self._run = run
        self._queue = queue
        self._index = 0  # in the row: of the node that has an operation
        self.op = run.operation(row.entries[0], queue)  # that of its next node
        self._link(self.op)

    def __repr__(self) -> str:
        return f"<streak at node {self._index} of {len(self._row.entries)} in {self._run!r}>"

    def release(self, by: Completion) -> None:
        """Queue the next node: *by*, the one before, is over."""
        op = self._queue_next()
        self._queue.fifo.appendleft(op)  # what is queued there already comes behind it
        op.release(by)

    def run_alone(self, device: "Device") -> None:
        """Run nodes, from that of `op` on, which is listed, until something else happens; `op` is then the next one."""
        op, run, first, scheduler = self.op, self._run, self._index, device.scheduler
        steps, gap, start = self._row.steps, self._queue.after_same[op.lane], max(op.ready_ns, scheduler.now)
        over, error = scheduler.pass_through(islice(steps, first, None), start, gap)
        if not over:
            if error is not None:  # an interrupt that came before the first step
                scheduler.raise_later(error)
            return
        if device.hooks.nodes_ran is not None:
            self._tell(device, start, gap, over)
        self._index += over
        last = run.operation(self._row.entries[self._index - 1], self._queue)
        last.end_ns = scheduler.now
        last.start_ns = last.ready_ns = scheduler.now - steps[self._index - 1][1]
        if error is not None:
            run.stream.context.mark_failed(last, last.work.failure(error))
        last.done = True
        device.cores.freed = last
        entry = op.entry = self._row.entries[self._index]
        node = entry.node
        assert node.work is not None, f"{node!r} has no work"
        op.work, op.nbytes, op.site, op.capture = node.work, node.work.nbytes, node.site, node.row
        op.row = run.row_of(entry)
        op.ready_ns = scheduler.now + gap
        op.by = last if op.ready_ns > run.ready_ns else None  # as in Op.release
        self._link(op)

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

    def _tell(self, device: "Device", start: Nanoseconds, gap: Nanoseconds, over: int) -> None:
        """Tell the observers that `op` started at *start*, and that so many nodes are *over*, a *gap* between them."""
        op, behind = self.op, []
        end = start + self._row.steps[self._index][1]
        op.start_ns, op.end_ns = start, end
        for index in range(self._index + 1, self._index + over):
            start = end + gap
            end = start + self._row.steps[index][1]
            behind.append((self._row.entries[index], start, end))
        device.call_hook(device.hooks.nodes_ran, op, behind)
        op.start_ns = op.end_ns = -1

    def _queue_next(self) -> NodeOp:
        """Return the operation of the next node, which waits for the one before."""
        self._index += 1
        op = self.op = self._run.operation(self._row.entries[self._index], self._queue)
        self._link(op)
        op.blockers = 1
        device = self._run.device
        device.call_hook(device.hooks.node_queued, op)
        return op

    def _link(self, op: NodeOp) -> None:
        """Let *op*, the next node, release the one behind it, or what waits for the last one."""
        if self._index < len(self._row.steps):
            op.streak, op.waiters = self, [self]
        else:
            op.streak, op.waiters, self.waiters = None, self.waiters, None


class Streaks(Engine):
    """Stands before the dispatcher, and lets a streak run that has the cores for itself."""

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
        if self.scheduler.until >= 0 and not cores.resident and isinstance(head, NodeOp) and head.streak is not None:
            self._head = head
            self.request_grant()
        cores.offer(queue, now)

    def grant(self) -> None:
        """Let the streak run if its operation is all that can start here or at another engine, if observers let it."""
        self.is_dirty = False
        op, self._head = self._head, None
        device = self._device
        if (
            op is not None
            and op.streak is not None
            and self.scheduler.dirty[-2:] == [self, device.cores]
            and device.cores.has_only(op)
            and not device.hooks.each_node
            and op.stream.context.error is None
            and not device.workers.flying
        ):
            op.streak.run_alone(device)

    def drop(self, op: Op) -> None:
        """Take *op* out of its queue, or off the list."""
        self._device.cores.drop(op)
