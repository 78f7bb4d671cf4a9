"""Hardware queues: first in, first out, and shared by several streams.

An operation that waits at the head of its queue holds back those of other streams behind it. These false dependencies
are seen on the card (docs/semantics.md, "hardware queues").
"""

from collections import deque

from device_model.completions import Completion, Nanoseconds, Need
from device_model.ops import Op
from device_model.scheduler import Engine


class HardwareQueue:
    """One in-order queue of an engine, of limited depth; nobody passes its head.

    `after_same` and `after_other` are the nanoseconds that it takes to start an operation of this queue behind a
    completion of each lane, in its own stream and in another.
    """

    __slots__ = ("after_other", "after_same", "depth", "engine", "fifo", "index", "waiting")

    def __init__(
        self,
        engine: Engine,
        index: int,
        depth: int,
        after_same: tuple[Nanoseconds, ...],
        after_other: tuple[Nanoseconds, ...],
    ) -> None:
        self.engine = engine
        self.index = index
        self.depth = depth  # less the places that are kept for hosts on their way
        self.after_same = after_same
        self.after_other = after_other
        self.fifo: deque[Op] = deque()
        self.waiting: list[Completion] = []  # hosts that wait for room, the longest waiting first

    def __repr__(self) -> str:
        return f"<HardwareQueue {self.index} of {self.engine!r} holding {len(self.fifo)} of {self.depth}>"

    def left(self) -> None:
        """A place is free: the host that has waited longest gets it. It is kept for it, so that nobody is faster."""
        if len(self.fifo) < self.depth:
            self.depth -= 1
            self.waiting.pop(0).complete(self.engine.scheduler.now)

    def room(self) -> Completion:
        """Line up for room; done when there is a place. Then, or when it gives up, the host has to call `arrive`."""
        room = Need(f"there is room in hardware queue {self.index}", lambda: self.fifo[0] if self.fifo else None)
        self.waiting.append(room)
        return room

    def drop(self, op: Op) -> None:
        """*op* never starts: who stands behind it moves up."""
        fifo = self.fifo
        was_head = fifo[0] is op
        fifo.remove(op)
        if self.waiting:
            self.left()
        if was_head and fifo and not fifo[0].blockers:
            self.engine.offer(self)

    def arrive(self, room: Completion) -> None:
        """The host for which *room* was no longer waits; it must take its place at once, or `give_up`."""
        if room.done:
            self.depth += 1
        else:
            self.waiting.remove(room)

    def give_up(self) -> None:
        """A place is not taken: it goes to the next."""
        if self.waiting:
            self.left()
