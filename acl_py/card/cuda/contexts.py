"""The context of a card of NVIDIA, and the card as verbs see it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from acl_py.card.contexts import CardContext, CardDevice, Times
from acl_py.card.cuda.activities import RecordTimes, activities
from acl_py.card.cuda.driver import LEGACY, PER_THREAD, CudaDriver
from acl_py.card.cuda.graphs import CardExecutable, GraphLaunch, Takers
from acl_py.card.cuda.work import CudaWorks
from acl_py.card.driver import give_back
from acl_py.card.events import CardEvent
from acl_py.card.streams import CardStream
from acl_py.card.times import EventTimes
from device_model.contexts import Context
from device_model.device import Device
from device_model.graphs.graph import Graph
from device_model.ops import Op

if TYPE_CHECKING:
    from acl_py.card.cuda.runtime import CudaRuntime

_ENABLED = 704  # access of this device is enabled already


class CudaContext(CardContext):
    """The primary context of a card, with the streams, events and graphs that the run makes in it."""

    __slots__ = ("executables", "takers")
    device: "CudaDevice"
    driver: CudaDriver
    works: CudaWorks
    event_type = CardEvent

    def __init__(self, device: "CudaDevice", made: object) -> None:
        super().__init__(device, 0, primary=True, made=made, handle=device.context_handle)
        self.executables: dict[CardExecutable, None] = {}  # that are not destroyed
        self.takers = Takers(self)
        queues = device.queues(-1)
        is_legacy = self.default is self.legacy
        self.legacy = legacy = CardStream(self, 0, "legacy", queues, None, 0, made, LEGACY)
        legacy.is_legacy = True
        self.per_thread = CardStream(self, 0, "per_thread", queues, self.order, 0, made, PER_THREAD)
        self.default = self.legacy if is_legacy else self.per_thread

    def make_works(self) -> CudaWorks:
        """Return the makers of each kind of work."""
        return CudaWorks(self.device)

    def make_times(self) -> Times:
        """Return what times operations: the vendor's records, if there are any, or else events."""
        events, records = EventTimes(self), activities()
        return events if records is None else RecordTimes(self, records, events)

    def parts_of(self, op: Op) -> Iterable[Op]:
        """Return the operations that *op* consists of: those of the nodes of a launch of a graph."""
        return op.work.executable.ops if isinstance(op.work, GraphLaunch) else (op,)

    def give_back(self) -> None:
        """Destroy the streams, events and executables, and unload the modules."""
        for executable in self.executables:
            give_back(self.driver, self.driver.cu.cuGraphExecDestroy, executable.handle)
        self.takers.close()
        super().give_back()


class CudaDevice(CardDevice):
    """A card, by its number among those of the driver."""

    primary: CudaContext
    runtime: "CudaRuntime"
    driver: CudaDriver

    def __init__(self, runtime: "CudaRuntime", ordinal: int) -> None:
        self.driver = runtime.driver
        cu = self.driver.cu
        self.handle = self.driver(cu.cuDeviceGet, ordinal)
        self.context_handle = self.driver(cu.cuDevicePrimaryCtxRetain, self.handle)
        self.make_current()
        self._own_peers: dict[CudaDevice, None] = {}  # the access that this run has enabled
        super().__init__(runtime, ordinal)

    def _context(self, *, primary: bool, made: object) -> Context:
        assert primary, "a card has its primary context only"
        self._contexts += 1
        return CudaContext(self, made)

    def instantiate(self, graph: Graph, made: object, *, keeps_priorities: bool) -> CardExecutable:
        """Make *graph* ready for launches here."""
        return CardExecutable(graph, self, made, keeps_priorities=keeps_priorities)

    def can_reach(self, peer: Device) -> bool:
        """Return what the driver says."""
        assert isinstance(peer, CudaDevice), f"{peer!r} is no card"
        return self is not peer and bool(self.driver(self.driver.cu.cuDeviceCanAccessPeer, self.handle, peer.handle))

    def reach(self, peer: Device) -> None:
        """Give this card access; it keeps what another library of the process has enabled."""
        assert isinstance(peer, CudaDevice), f"{peer!r} is no card"
        cu = self.driver.cu
        code = int(cu.cuCtxEnablePeerAccess(peer.context_handle, 0)[0])
        if code not in (0, _ENABLED):
            raise self.driver.error(code, "cuCtxEnablePeerAccess")
        super().reach(peer)
        self._own_peers.update({} if code else {peer: None})

    def leave(self, peer: Device) -> None:
        """Take the access back."""
        assert isinstance(peer, CudaDevice), f"{peer!r} is no card"
        self.driver(self.driver.cu.cuCtxDisablePeerAccess, peer.context_handle)
        super().leave(peer)
        self._own_peers.pop(peer, None)

    def give_back(self, *, is_lost: bool) -> None:
        """Give back what the driver has made; nothing of a card that is lost, but the context."""
        if not is_lost:
            self.make_current()
            for peer in self._own_peers:
                give_back(self.driver, self.driver.cu.cuCtxDisablePeerAccess, peer.context_handle)
        super().give_back(is_lost=is_lost)
        give_back(self.driver, self.driver.cu.cuDevicePrimaryCtxRelease, self.handle)
