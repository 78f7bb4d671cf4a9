"""The engine for parts of collectives: a part has its turn in its stream, waits for the other ranks, and ends.

From its turn to its end a part holds its stream. It waits until it has the cores that its collective runs on, and holds
them to its end, too. Each stream has a hardware queue of its own for parts, so no part waits for one of another stream,
except that parts of one rank run in the order in which they were queued.
"""

from heapq import heappush
from typing import TYPE_CHECKING

from device_model.collectives.parts import Part
from device_model.engines.serial import Finish
from device_model.errors import DeviceError
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.scheduler import Engine, Scheduler

if TYPE_CHECKING:
    from device_model.collectives.cliques import Communicator
    from device_model.engines.dispatcher import Dispatcher


class Parts(Engine):
    """Runs the parts of the ranks of one device."""

    __slots__ = ("_begin", "_cores", "_finish", "ranks", "waiting")

    def __init__(self, scheduler: Scheduler, cores: "Dispatcher", finish: Finish) -> None:
        super().__init__(scheduler, "collectives")
        self._cores = cores
        self._finish = finish
        self.ranks: dict[Communicator, None] = {}  # of communicators that are not destroyed
        self.waiting: dict[Op, None] = {}  # parts that have had their turn and have not ended, in order
        self._begin = self._begun  # bound once

    def __repr__(self) -> str:
        return f"<Parts ranks={len(self.ranks)} waiting={len(self.waiting)}>"

    def offer(self, queue: HardwareQueue, now: bool = False) -> None:  # noqa: ARG002 - no part competes with another
        """Let the parts at the head of *queue* have their turn as soon as they are ready."""
        fifo, scheduler = queue.fifo, self.scheduler
        while True:
            op = fifo.popleft()
            if queue.requests:
                queue.pass_on(op)
            start = op.start_ns = op.ready_ns if op.ready_ns > scheduler.now else scheduler.now
            if scheduler.choices is not None:
                scheduler.choices.started(op, 0)
            scheduler.sequence += 1
            heappush(scheduler.heap, (start, scheduler.sequence, self._begin, op))
            if not fifo or fifo[0].blockers:
                break

    def grant(self) -> None:
        """Do nothing: parts begin when they are ready."""

    def drop(self, op: Op) -> None:
        """Take *op* out of its queue."""
        op.queue.drop(op)

    def _begun(self, op: Op) -> None:
        if op.done:  # aborted meanwhile
            return
        self.waiting[op] = None
        op.cores_held = 0
        cores = self._cores
        if cores.cores_of_part and not cores.hold_at_once(op):
            cores.ask(op)
        else:
            for exchange, seat in op.work.seats:  # type: ignore[attr-defined]  # begin(), written out
                exchange.arrive(seat, op)

    def leave(self, part: Part, error: DeviceError | None) -> None:
        """Count one of the exchanges of *part* as over. It ends with the last one; with an *error* now, and fails."""
        part.left -= 1
        op = part.op
        if op is None or op.done or op.start_ns < 0:
            return
        if error is not None:
            part.error = part.error or error
        elif part.left:
            return
        if self.waiting.pop(op, self) is not self:
            if op.cores_held:
                self._cores.give_back(op)
            self._finish(op, self.scheduler.now)
            part.op = None  # which has it as its work

    def lose(self, why: str) -> None:
        """Let all cliques know that the ranks on this device take part in nothing any more, and *why*."""
        for rank in list(self.ranks):
            rank.clique.lose(rank, why)

    def abort(self, op: Op) -> None:
        """Let go of *op*, which was aborted."""
        if self.waiting.pop(op, self) is self:
            return
        if op.cores_held:
            self._cores.give_back(op)
        elif self._cores.cores_of_part:
            self._cores.drop(op)


def begin(op: Op) -> None:
    """Let the part *op* take part, now that it has its turn and its cores."""
    if op.done:  # aborted meanwhile
        return
    assert isinstance(op.work, Part), f"{op!r} is no part of a collective"
    for exchange, seat in op.work.seats:
        exchange.arrive(seat, op)
