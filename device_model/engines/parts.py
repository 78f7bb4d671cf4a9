"""The engine for parts of collectives: a part has its turn in its stream, waits for the other ranks, and ends.

From its turn to its end a part holds its stream. It waits until it has the cores that its collective runs on, and holds
them to its end, too. Each stream has a hardware queue of its own for parts, so no part waits for one of another stream,
except that parts of one rank run in the order in which they were queued.
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING, cast

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

    __slots__ = ("_finish", "cores", "ranks", "waiting")

    def __init__(self, scheduler: Scheduler, cores: "Dispatcher", finish: Finish) -> None:
        super().__init__(scheduler, "collectives")
        self.cores = cores
        self._finish = finish
        self.ranks: dict[Communicator, None] = {}  # of communicators that are not destroyed
        self.waiting: dict[Op, None] = {}  # parts that have had their turn and have not ended, in order

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
            heappush(scheduler.heap, (start, scheduler.sequence, have_turn, op))
            if not fifo or fifo[0].blockers:
                break

    def grant(self) -> None:
        """Do nothing: parts begin when they are ready."""

    def drop(self, op: Op) -> None:
        """Take *op* out of its queue."""
        op.queue.drop(op)

    def take_up(self, op: Op, *, alone: bool = True) -> bool:
        """Let *op*, which has its turn, wait for its cores, *alone* of the parts here; return whether it has them."""
        self.waiting[op] = None
        op.cores_held = 0
        cores = self.cores
        if not cores.cores_of_part or (alone and cores.hold_at_once(op)):
            return True
        cores.ask(op)
        return False

    def leave(self, op: Op, error: DeviceError | None) -> None:
        """Count one of the exchanges of *op* as over. It ends with the last one; with an *error* now, and fails."""
        waiting = self.waiting
        if op not in waiting:  # it was aborted, or has failed
            return
        part: Part = op.work  # type: ignore[assignment]
        part.left -= 1
        if error is not None:
            part.error = error
        elif part.left:
            return
        del waiting[op]
        if op.cores_held:
            self.cores.give_back(op)
        self._finish(op, self.scheduler.now)

    def lose(self, why: str) -> None:
        """Let all cliques know that the ranks on this device take part in nothing any more, and *why*."""
        for rank in list(self.ranks):
            rank.clique.lose(rank, why)

    def abort(self, op: Op) -> None:
        """Let go of *op*, which was aborted."""
        if self.waiting.pop(op, self) is self:
            return
        if op.cores_held:
            self.cores.give_back(op)
        elif self.cores.cores_of_part:
            self.cores.drop(op)


def have_turn(op: Op) -> None:
    """Let the part *op* have its turn, and all other parts that are due at this instant, before anything follows."""
    if op.done:  # aborted meanwhile
        return
    engine: Parts = op.queue.engine  # type: ignore[assignment]
    heap = engine.scheduler.heap
    if heap and heap[0][2] is have_turn and heap[0][0] == engine.scheduler.now:
        _have_turns(op, engine.scheduler)
    elif engine.take_up(op):
        for exchange, seat in op.work.seats:  # type: ignore[attr-defined]  # begin(), written out
            exchange.arrive(seat, op)


def _have_turns(first: Op, scheduler: Scheduler) -> None:
    """Let *first* and the others that are due have their turn together.

    Those that are alone on their device take their cores at once if nothing but parts is due, as a grant would do.
    """
    ops, heap = [first], scheduler.heap
    while heap and heap[0][2] is have_turn and heap[0][0] == scheduler.now:
        op = heappop(heap)[3]
        if not op.done:
            ops.append(op)
    engines = [cast(Parts, op.queue.engine) for op in ops]
    alone = len(set(engines)) == len(ops)
    for op in [op for op, engine in zip(ops, engines, strict=True) if engine.take_up(op, alone=alone)]:
        begin(op)


def begin(op: Op) -> None:
    """Let the part *op* take part, now that it has its turn and its cores."""
    if op.done:  # aborted meanwhile
        return
    assert isinstance(op.work, Part), f"{op!r} is no part of a collective"
    for exchange, seat in op.work.seats:
        exchange.arrive(seat, op)
