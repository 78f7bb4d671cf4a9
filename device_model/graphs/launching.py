"""The engines of launches: what passes their operations on, and the host, which makes some of their copies.

The host itself makes copies of pageable memory, chunk by chunk through one buffer, and those from host to host. It
stays in the call of the launch until they are made (measured: graph-pageable-32m-busy, graph-memset-copies).
"""

from typing import TYPE_CHECKING

from device_model.completions import Nanoseconds
from device_model.graphs.graph import Node
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.scheduler import Engine
from device_model.work import H2D, H2H, Copy, Lane

if TYPE_CHECKING:
    from device_model.device import Device


class Forwarder(Engine):
    """Takes the queues of chains, and moves each operation that can start to the hardware queue of its stream."""

    __slots__ = ()

    def offer(self, queue: HardwareQueue, now: bool = False) -> None:
        """Move the head of *queue*, and what can start behind it, to the hardware queues of their streams."""
        while queue.fifo and not queue.fifo[0].blockers:
            op = queue.fifo.popleft()
            target = op.queue = op.stream.queues[op.lane]
            waiting = (place for place, each in enumerate(target.fifo) if each.blockers)
            target.fifo.insert(next(waiting, len(target.fifo)), op)
            if target.fifo[0] is op:
                target.engine.offer(target, now)

    def drop(self, op: Op) -> None:
        """Take *op* out of its queue."""
        op.queue.drop(op)


class HostCopies(Engine):
    """Makes the copies of a launch in which the host takes part."""

    __slots__ = ("device",)

    def __init__(self, device: "Device") -> None:
        super().__init__(device.scheduler, "host")
        self.device = device

    def makes(self, node: Node) -> bool:
        """Whether the host makes the copy that *node* is: one from host to host, or a larger one of pageable memory."""
        work = node.work
        if not isinstance(work, Copy):
            return False
        small = self.device.profile.copies.pageable_small_bytes
        return work.label is H2H or (work.is_pageable and work.nbytes > small)

    def queue(self) -> HardwareQueue:
        """Return a queue for one copy."""
        none = (0,) * (len(Lane) + 1)  # with an entry for the turn of a launch
        return HardwareQueue(self, -1, 1, none, none)

    def offer(self, queue: HardwareQueue, now: bool = False) -> None:  # noqa: ARG002 - each copy has its own queue
        """Begin the copy in *queue*."""
        op = queue.fifo.popleft()
        assert isinstance(op.work, Copy), f"{op!r} is no copy"
        op.start_ns = max(op.ready_ns, self.scheduler.now)
        self.scheduler.at(op.start_ns + self._time(op.work), self._ended, op)

    def drop(self, op: Op) -> None:
        """Take *op* out of its queue."""
        op.queue.drop(op)

    def _ended(self, op: Op) -> None:
        self.device.finish(op, self.scheduler.now)

    def _time(self, copy: Copy) -> Nanoseconds:
        copies = self.device.profile.copies
        if copy.label is H2H:
            return copies.host_to_host[copy.nbytes]
        bus, through = (copies.h2d, copies.stage) if copy.label is H2D else (copies.d2h, copies.unstage)
        fixed = copies.stage_fixed if copy.label is H2D else copies.unstage_fixed
        whole, rest = divmod(copy.nbytes, copies.stage_chunk)
        chunks = [copies.stage_chunk] * whole + [rest] * (rest > 0)
        return sum(fixed + through[chunk] + bus[chunk] for chunk in chunks)
