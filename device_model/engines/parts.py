"""The engine for parts of collectives: a part has its turn in its stream, waits for the other ranks, and ends.

From its turn to its end a part holds its stream. It waits until it has the cores that its collective runs on, and holds
them to its end, too. Each stream has a hardware queue of its own for parts, so no part waits for one of another stream,
except that parts of one rank run in the order in which they were queued.
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING, cast

from device_model.collectives.parts import Part
from device_model.errors import DeviceError
from device_model.memory import LARGE
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.scheduler import Engine, Scheduler

if TYPE_CHECKING:
    from device_model.collectives.cliques import Communicator
    from device_model.device import Device
    from device_model.engines.dispatcher import Dispatcher


class Parts(Engine):
    """Runs the parts of the ranks of one device."""

    __slots__ = ("_device", "_flying", "_hooks", "_small", "cores", "ranks", "waiting")

    def __init__(self, scheduler: Scheduler, cores: "Dispatcher", device: "Device") -> None:
        super().__init__(scheduler, "collectives")
        self.cores = cores
        cores.parts = self.waiting = {}  # that have had their turn and have not ended, in order
        self._device = device
        self._hooks = device.hooks
        self._flying = device.workers.flying  # bodies in threads
        self._small = min(device.workers.inline_bytes, LARGE)  # fewer bytes are written at once
        self.ranks: dict[Communicator, None] = {}  # of communicators that are not destroyed

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

    def leave(self, op: Op, error: DeviceError | None) -> None:
        """Count one of the exchanges of *op* as over. It ends with the last one; with an *error* now, and fails."""
        if op not in self.waiting:  # it was aborted, or has failed
            return
        part: Part = op.work  # type: ignore[assignment]
        if error is not None:
            part.error = error
        elif part.left > 1:
            part.left -= 1
            return
        del self.waiting[op]
        if self.cores.cores_of_part:
            self.cores.give_back(op)
        self._device.finish(op, self.scheduler.now)

    def end_at_once(self, op: Op, received: memoryview) -> bool:
        """End *op*, whose only exchange is over and fills one range with *received*, if that is small.

        This is `leave`, `Device.finish` and `Part.perform`, written out: it is the hot path.

        Returns whether it has ended.
        """
        part, waiting = op.work, self.waiting
        if (
            type(part) is not Part
            or op.nbytes >= self._small
            or op not in waiting
            or self._flying
            or op.stream.context.error is not None
        ):
            return False
        [(allocation, start, stop)] = part.calls[0].receives
        if allocation.cold is not None:
            return False
        del waiting[op]
        cores = self.cores
        if cores.cores_of_part:
            cores.give_back(op)
        op.end_ns = self.scheduler.now
        allocation.view[start:stop] = received
        op.done = True
        waiters = op.waiters
        if waiters is not None:
            op.waiters = None
            for waiter in waiters:
                waiter.release(op)
        ended = self._hooks.op_ended
        if ended is not None:
            self._device.call_hook(ended, op)
        op.by = op.reasons = None
        return True

    def lose(self, why: str) -> None:
        """Let all cliques know that the ranks on this device take part in nothing any more, and *why*."""
        for rank in list(self.ranks):
            rank.clique.lose(rank, why)

    def abort(self, op: Op) -> None:
        """Let go of *op*, which was aborted."""
        if self.waiting.pop(op, self) is self:
            return
        if not self.cores.cores_of_part:
            return
        if op.cores_held:
            self.cores.give_back(op)
        else:
            self.cores.drop(op)


def have_turn(op: Op) -> None:
    """Let the part *op* have its turn; it begins as soon as it has its cores."""
    if op.done:  # aborted meanwhile
        return
    engine: Parts = op.queue.engine  # type: ignore[assignment]
    scheduler, cores = engine.scheduler, engine.cores
    if scheduler.heap and scheduler.heap[0][0] == scheduler.now:
        _have_turns(op, scheduler)
        return
    engine.waiting[op] = None
    if cores.cores_of_part and not cores.hold_at_once(op):
        cores.ask(op)
        return
    for exchange, seat in op.work.seats:  # type: ignore[attr-defined]  # begin(), written out
        exchange.arrive(seat, op)


def _have_turns(first: Op, scheduler: Scheduler) -> None:
    """Let *first*, and the other parts that are due at this instant, have their turn before anything follows from it.

    Those that are alone on their device take their cores at once if nothing but parts is due, as a grant would do.
    """
    ops, heap = [first], scheduler.heap
    while heap and heap[0][2] is have_turn and heap[0][0] == scheduler.now:
        ops.append(heappop(heap)[3])
    ops = [op for op in ops if not op.done]
    engines = [cast("Parts", op.queue.engine) for op in ops]
    at_once = len(set(engines)) == len(ops) and not (heap and heap[0][0] == scheduler.now)
    begun = []
    for op, engine in zip(ops, engines, strict=True):
        engine.waiting[op] = None
        cores = engine.cores
        if not cores.cores_of_part or (at_once and cores.hold_at_once(op)):
            begun.append(op)
        else:
            cores.ask(op)
    for op in begun:
        begin(op)


def begin(op: Op) -> None:
    """Let the part *op* take part, now that it has its turn and its cores."""
    if op.done:  # aborted meanwhile
        return
    assert isinstance(op.work, Part), f"{op!r} is no part of a collective"
    for exchange, seat in op.work.seats:
        exchange.arrive(seat, op)
