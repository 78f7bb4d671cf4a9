"""Memory of a card and pinned memory of its driver.

The directory of allocations is the model's, so what a call names is found and checked in the same way. Device memory
has the card's addresses and no bytes that the host can see. Pinned memory is the driver's, and lives as long as there
are arrays over it.
"""

import ctypes
import weakref
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from acl_py.card.dlpack import capsule, check_request, consumer
from acl_py.card.driver import Driver
from acl_py.card.pages import CardPages
from device_model.errors import Fail
from device_model.integers import Integer
from device_model.memory import Allocation, Buffer, Memory, Origin, Pool, Space
from device_model.memory.backing import GONE, NOTHING
from device_model.memory.pool import Arena, Block

if TYPE_CHECKING:
    import numpy as np

_GLOBAL = 1  # a flag of cuMemAllocManaged: any stream may use it


class CardAllocation(Allocation):
    """Memory of a card. Its bytes are on the card alone, but for a mirror that bodies of array kernels compute in."""

    __slots__ = ("memory",)
    is_on_card = True
    memory: "CardMemory"

    @property
    def is_host_visible(self) -> bool:
        """False: the host cannot read it at its address."""
        return False

    def dlpack(
        self,
        offset: int,
        dtype: "np.dtype[Any]",
        shape: tuple[int, ...],
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,  # noqa: ARG002 - a consumer takes the first version, too
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Return values at *offset* as a capsule; *stream*, of the driver, waits for all work of the run first.

        Raises:
            BufferError: DLPack has no such type, or only a copy could be what is asked for.
            ValueError: *stream* is no handle that the protocol has.
        """
        check_request(self.device, dl_device, copy)
        handle, made = consumer(stream), capsule(self.address + offset, self.device, dtype, shape)
        if handle is not None:
            self.memory.hold_back(self.device, handle)
        return made


class CardMemory(Memory):
    """The memory of the cards of one run, which *driver* allocates; *capacities* are their bytes."""

    def __init__(
        self,
        capacities: Sequence[int],
        alignment: int,
        fail: Fail,
        driver: Driver,
        hold_back: Callable[[int, int], None],
    ) -> None:
        super().__init__(capacities, alignment, fail)
        self.driver = driver
        self.hold_back = hold_back  # lets a stream, by its handle, wait for the work of a card, by its number
        self._mirrors: dict[int, int] = {}  # the addresses of mirrors, by that of their allocation
        self.pools = [CardPool(self, self.arena(device)) for device in range(len(capacities))]
        self.default_pools = self.pools.copy()
        self.pools_on = [[pool] for pool in self.pools]

    @property
    def has_real_addresses(self) -> bool:
        """True: the card's addresses are of the same kind as the host's."""
        return True

    def malloc(self, device: int, nbytes: Integer, made: object, origin: Origin = Origin.MALLOC) -> Buffer:
        """Allocate *nbytes* on *device*, which is current."""
        nbytes = self.check_size(nbytes, origin)
        address = int(self.driver(self.driver.cu.cuMemAlloc, nbytes))
        return self.begin_on_card(address, nbytes, device, origin, made)

    def begin_on_card(self, address: int, nbytes: int, device: int, origin: Origin, made: object) -> Buffer:
        """Begin the life of memory of *device* that the driver has given out."""
        self._serial += 1
        allocation = CardAllocation(
            address, nbytes, Space.DEVICE, origin, NOTHING, self.fail, device=device, cold=GONE, made=made,
            serial=self._serial,
        )  # fmt: skip
        allocation.memory = self
        return self.enter(allocation)

    def free(self, thing: object, site: object) -> None:
        """Free device or managed memory: a whole buffer, or its address."""
        allocation = self.root(thing, Origin.MALLOC.ender, Origin.MALLOC, Origin.POOL, Origin.MANAGED, Origin.MODULE)
        self.end_life(allocation, site, drop=True)
        if allocation.origin is not Origin.MODULE:
            self.driver(self.driver.cu.cuMemFree, allocation.address)

    def malloc_managed(self, device: int, nbytes: Integer, made: object) -> Buffer:
        """Allocate *nbytes* that the host and all devices share."""
        nbytes = self.check_size(nbytes, Origin.MANAGED)
        address = int(self.driver(self.driver.cu.cuMemAllocManaged, nbytes, _GLOBAL))
        self._serial += 1
        allocation = Allocation(
            address, nbytes, Space.MANAGED, Origin.MANAGED, memoryview(_bytes_at(address, nbytes)).cast("B"), self.fail,
            device=device, made=made, serial=self._serial,
        )  # fmt: skip
        allocation.pages = CardPages(self.driver, address, nbytes)
        return self.enter(allocation)

    def malloc_host(self, nbytes: Integer, made: object) -> Buffer:
        """Allocate *nbytes* of pinned memory. The driver gets it back when it is freed and no array is over it."""
        nbytes = self.check_size(nbytes, Origin.MALLOC_HOST)
        address, owner = self.pinned(nbytes)
        view = memoryview(owner).cast("B")
        return self.begin_life(address, nbytes, -1, Origin.MALLOC_HOST, view, None, made, owner)

    def pinned(self, nbytes: int) -> tuple[int, Any]:
        """Return the address of *nbytes* of pinned memory, and what keeps them."""
        driver, cu = self.driver, self.driver.cu
        address = int(driver(cu.cuMemAllocHost, nbytes))
        owner = _bytes_at(address, nbytes)
        # Arrays may outlive the run, and the driver unmaps the memory with the context: so it keeps the context.
        device = driver(cu.cuCtxGetDevice)
        weakref.finalize(owner, _free_pinned, cu, device, driver(cu.cuDevicePrimaryCtxRetain, device), address)
        return address, owner

    def host_register(self, thing: object, nbytes: Integer | None, made: object) -> Buffer:
        """Pin memory that the host has."""
        buffer = super().host_register(thing, nbytes, made)
        try:
            self.driver(self.driver.cu.cuMemHostRegister, buffer.address, buffer.nbytes, 0)
        except BaseException:
            self.end_life(buffer.allocation, made, drop=False)
            raise
        return buffer

    def host_unregister(self, thing: object, site: object) -> None:
        """Unpin memory that was registered."""
        address = self.root(thing, Origin.REGISTERED.ender, Origin.REGISTERED).address
        super().host_unregister(thing, site)
        self.driver(self.driver.cu.cuMemHostUnregister, address)

    def has_room(self, device: int, nbytes: int) -> bool:  # noqa: ARG002 - the card says so when it is asked for them
        """Return True: the card is asked, and refuses the call if it has no room."""
        return True

    def free_bytes(self, device: int) -> int:  # noqa: ARG002 - the current one
        """Return how many bytes of the card are free."""
        return int(self.driver(self.driver.cu.cuMemGetInfo)[0])

    def total_bytes(self, device: int) -> int:  # noqa: ARG002 - the current one
        """Return how many bytes the card has."""
        return int(self.driver(self.driver.cu.cuMemGetInfo)[1])

    def mirror(self, allocation: Allocation) -> int:
        """Return the address of the bytes on the host in which bodies of kernels compute with *allocation*."""
        if allocation.is_dropped:
            address, owner = self.pinned(allocation.nbytes)
            allocation.view, allocation.owner, allocation.cold = memoryview(owner).cast("B"), owner, None
            self._mirrors[allocation.address] = address
        return self._mirrors[allocation.address] if isinstance(allocation, CardAllocation) else allocation.address

    def close(self, *, is_lost: bool) -> None:
        """Free what the program has not, and let pools keep what they kept; nothing of this if the card is lost."""
        for pool in () if is_lost else self.pools:
            assert isinstance(pool, CardPool), f"{pool!r} is not of a card"
            pool.restore()
        for allocation in () if is_lost else self.leaks():
            if allocation.origin is Origin.REGISTERED:
                self.driver.cu.cuMemHostUnregister(allocation.address)
            elif allocation.origin is not Origin.MALLOC_HOST:
                self.driver.cu.cuMemFree(allocation.address)
            self.end_life(allocation, None, drop=True)


class CardPool(Pool):
    """The stream-ordered pool of a card, which all users of the process share."""

    def __init__(self, memory: CardMemory, arena: Arena) -> None:
        self._before: int | None = None  # the threshold that it had before the run changed it
        self._cu = memory.driver.cu
        self._has_begun = False  # so that the model's own first threshold does not reach the driver
        super().__init__(memory, arena)
        self._has_begun = True

    @property
    def release_threshold(self) -> int:
        """How many bytes it keeps when a host synchronises."""
        return int(self._driver(self._cu.cuMemPoolGetAttribute, *self._threshold))

    @release_threshold.setter
    def release_threshold(self, nbytes: int) -> None:
        if not self._has_begun:
            return
        if self._before is None:
            self._before = self.release_threshold
        self._driver(self._cu.cuMemPoolSetAttribute, *self._threshold, self._cu.cuuint64_t(nbytes))

    @property
    def _driver(self) -> Driver:
        memory = self._memory
        assert isinstance(memory, CardMemory), f"{memory!r} is not of a card"
        return memory.driver

    @property
    def _threshold(self) -> tuple[Any, Any]:
        """The pool of the driver, and the attribute."""
        pool = self._driver(self._cu.cuDeviceGetDefaultMemPool, self._driver(self._cu.cuDeviceGet, self.device))
        return pool, self._cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD

    def restore(self) -> None:
        """Let it keep as much as before the run."""
        if self._before is not None:
            self.release_threshold = self._before

    def has_room(self, nbytes: int, order: Callable[[Block], int | None]) -> bool:  # noqa: ARG002 - as Memory.has_room
        """Return True: the card is asked, and refuses the call if it has no room."""
        return True

    def take(
        self,
        nbytes: int,
        order: Callable[[Block], int | None],  # noqa: ARG002 - the card chooses
        made: object = None,
        stream: Any = None,
    ) -> tuple[Buffer, object | None]:
        """Allocate *nbytes* in the order of *stream*."""
        memory = self._memory
        assert isinstance(memory, CardMemory), f"{memory!r} is not of a card"
        driver, cu = memory.driver, memory.driver.cu
        if stream.branch is not None:  # memory of a graph
            address = int(driver(cu.cuMemAlloc, nbytes))
        else:
            address = int(driver(cu.cuMemAllocAsync, nbytes, stream.handle))
        buffer = memory.begin_on_card(address, nbytes, self.device, Origin.POOL, made)
        buffer.allocation.pool = self
        return buffer, None

    def give(self, thing: object, stream: Any, free_op: object, site: object) -> None:
        """Free memory in the order of *stream*; None is a call of Free(). Bodies may use its mirror until *free_op*."""
        memory = self._memory
        assert isinstance(memory, CardMemory), f"{memory!r} is not of a card"
        allocation = memory.root(thing, Origin.POOL.ender, Origin.POOL, Origin.MALLOC)
        memory.end_life(allocation, site, drop=free_op is None)
        if stream is None:
            memory.driver(memory.driver.cu.cuMemFree, allocation.address)
        else:
            memory.driver(memory.driver.cu.cuMemFreeAsync, allocation.address, stream.handle)


def _free_pinned(cu: ModuleType, device: Any, context: Any, address: int) -> None:
    """Free pinned memory and let go of its *context*, in whichever thread; not beside work that does not end."""
    if Driver.lost is not None:
        return
    if cu.cuCtxPushCurrent(context)[0]:
        return  # the context is gone, and the memory with it
    cu.cuMemFreeHost(address)
    cu.cuCtxPopCurrent()
    cu.cuDevicePrimaryCtxRelease(device)


def _bytes_at(address: int, nbytes: int) -> Any:
    """Return an object over memory of the driver."""
    return (ctypes.c_ubyte * nbytes).from_address(address)
