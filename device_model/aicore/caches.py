"""The L2 of each device: what earlier work of a simulation left there, for the next core kernel."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from device_model.aicore.core.program import Direction, Flow
from device_model.aicore.launch import Launch
from device_model.aicore.timing.l2 import Cache
from device_model.observe import Observer
from device_model.work import Extent, Work

if TYPE_CHECKING:
    from device_model.completions import Nanoseconds
    from device_model.device import Device
    from device_model.graphs.plan import Entry
    from device_model.graphs.streaks import NodeOp
    from device_model.memory import Allocation
    from device_model.ops import Op


class Caches(Observer):
    """The L2 of each device, by its number.

    An L2 is empty when the first core kernel of its device starts: no source says what the start of a program
    leaves there. From then on it keeps what core kernels leave, instruction by instruction, and what all other work of
    the simulation reads or writes in the memory of the device, at its end. Dirty bytes that such work evicts go to HBM
    at no cost to core kernels, and memory that is freed leaves its bytes there until others push them out.
    """

    def __init__(self) -> None:
        self._of: dict[int, Cache] = {}

    def of(self, device: int, nbytes: int) -> Cache:
        """Return the L2 of *device*, which has *nbytes*; it is empty if no core kernel has run there."""
        cache = self._of.get(device)
        if cache is None:
            cache = self._of[device] = Cache(nbytes)
        return cache

    def clear(self, device: int) -> None:
        """Empty the L2 of *device*."""
        self._of.pop(device, None)

    def op_ended(self, op: "Op") -> None:
        """Keep what the operation has read and written, unless it had no effect."""
        if op.error is None:
            self._touch(op.work)

    def nodes_ran(self, ran: "Sequence[tuple[NodeOp, Entry, Nanoseconds, Nanoseconds]]") -> None:
        """Keep what the nodes of a graph have read and written."""
        for _, entry, _, _ in ran:
            if entry.node.work is not None:
                self._touch(entry.node.work)

    def filled(self, allocation: "Allocation", start: int, stop: int) -> None:
        """Keep what the runtime itself has written."""
        self._keep((allocation, start, stop), Direction.WRITE)

    def reset(self, device: "Device", site: object) -> None:  # noqa: ARG002 - the place does not matter
        """Empty the L2 of *device*, as its memory is gone."""
        self.clear(device.ordinal)

    def _touch(self, work: Work) -> None:
        if not self._of or isinstance(work, Launch):  # a launch has done so, instruction by instruction
            return
        for extent in work.read_rows():
            self._keep(extent, Direction.READ)
        for extent in work.written_rows():
            self._keep(extent, Direction.WRITE)

    def _keep(self, extent: Extent, direction: Direction) -> None:
        allocation, start, stop = extent
        cache = self._of.get(allocation.device)
        if cache is not None and start < stop:
            # Of more bytes than the L2 has, the last ones push out the others.
            start = max(start, stop - cache.nbytes)
            cache.touch(Flow(direction, "ub", (allocation.device, allocation.serial), start, stop - start))
