"""Hardware queues: first in, first out, each shared by several streams.

The streams of a device take its hardware queues in turn: with 8 queues for kernels, streams 0 and 8 share one. A stream
that has nothing in its queue, where others have, takes an empty one (`Stream.queue_for`). Only if there is none, an
operation at the head of a queue that still has to wait also holds back those of other streams behind it. Such false
dependencies are seen on the card (docs/semantics.md, "hardware queues").

A queue has limited depth. A host that finds it full waits for a place before it queues, so a program that queues faster
than the device works is slowed down, as on the card.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from sys import maxsize

from device_model.completions import Nanoseconds, Need
from device_model.ops import Op
from device_model.scheduler import Engine


class Place(Need):
    """A place in a full hardware queue, which a host waits for. *made_by* is the operation that made room: it has left
    the queue, because all is over that it had to wait for. None: nothing was over, as when work is aborted.
    """

    __slots__ = ("made_by",)

    def __init__(self, queue: "HardwareQueue") -> None:
        what = f"there is room in hardware queue {queue.index}"
        super().__init__(what, lambda: queue.fifo[0] if queue.fifo else None)
        self.made_by: Op | None = None


class HardwareQueue:
    """One in-order queue of an engine, of limited depth; no operation passes its head.

    It takes an operation while `len(fifo) + reserved < depth`. A host that finds it full asks for a place with
    `request_place` and waits. A place that becomes free is reserved for the host that has waited longest, so that no
    other host can take it before that one runs again.

    `after_same` and `after_other` are the nanoseconds that it takes to start an operation of this queue behind a
    completion of each lane, in its own stream and in another.
    """

    __slots__ = (
        "after_other", "after_same", "depth", "engine", "fifo", "index", "is_of_graph", "requests", "reserved",
        "shared",
    )  # fmt: skip

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
        self.depth = depth  # the most operations that it holds
        self.reserved = 0  # places promised to hosts that have not queued yet
        self.after_same = after_same
        self.after_other = after_other
        self.fifo: deque[Op] = deque()
        self.requests: list[Place] = []  # of hosts that wait for a place, the oldest first
        self.shared: Sequence[HardwareQueue] = ()  # all that the same streams share, by their index
        self.is_of_graph = depth == maxsize  # of a chain of nodes, which no host has to wait for

    def __repr__(self) -> str:
        return f"<HardwareQueue {self.index} of {self.engine!r} holding {len(self.fifo)} of {self.depth}>"

    def others(self) -> Iterator["HardwareQueue"]:
        """Yield the others that the same streams share, in turn."""
        return chain(islice(self.shared, self.index + 1, None), islice(self.shared, self.index))

    def request_place(self) -> Place:
        """Ask for a place. The request is done when one is reserved; then the host must `take_place` and queue its
        operation at once. A host that gives up, before or after, must `withdraw`.
        """
        request = Place(self)
        self.requests.append(request)
        return request

    def take_place(self, request: Place) -> None:
        """End the reservation of *request*, which is done: the caller queues its operation now."""
        assert request.done, f"hardware queue {self.index} has not reserved a place yet"
        self.reserved -= 1

    def withdraw(self, request: Place) -> None:
        """Forget *request*. If a place was reserved for it, the next host gets the place."""
        if request.done:
            self.reserved -= 1
            self.pass_on(request.made_by)
        else:
            self.requests.remove(request)

    def pass_on(self, made_by: Op | None = None) -> None:
        """Reserve a free place, if there is one, for the host that has waited longest. *made_by* is what made room."""
        if self.requests and len(self.fifo) + self.reserved < self.depth:
            self.reserved += 1
            request = self.requests.pop(0)
            request.made_by = made_by
            request.complete(self.engine.scheduler.now)

    def drop(self, op: Op) -> None:
        """Take out *op*, which never starts. The operations behind it move up."""
        fifo = self.fifo
        was_head = fifo[0] is op
        fifo.remove(op)
        self.pass_on()
        if was_head and fifo and not fifo[0].blockers:
            fifo[0].pass_behind(op, self.engine.scheduler.now)
            self.engine.offer(self)
