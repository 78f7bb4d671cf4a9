"""Memory of a card of NVIDIA: what every card has, and DLPack, managed memory and pools."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from acl_py.card.cuda.dlpack import capsule, check_request, consumer
from acl_py.card.cuda.driver import CudaDriver
from acl_py.card.cuda.pages import CardPages
from acl_py.card.driver import give_back
from acl_py.card.memory import CardAllocation, CardMemory, bytes_at
from device_model.errors import Fail
from device_model.integers import Integer
from device_model.memory import Allocation, Buffer, Origin, Pool, Space
from device_model.memory.pool import Arena, Block

if TYPE_CHECKING:
    import numpy as np

_GLOBAL = 1  # a flag of cuMemAllocManaged: any stream may use it


class CudaAllocation(CardAllocation):
    """Memory of a card, which other libraries may use, too."""

    __slots__ = ()
    is_on_card = True
    memory: "CudaMemory"

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


class CudaMemory(CardMemory):
    """The memory of the cards of one run. *hold_back* lets a stream, by its handle, wait for the work of a card, by its
    number.
    """

    driver: CudaDriver
    allocation_type = CudaAllocation

    def __init__(
        self,
        capacities: Sequence[int],
        alignment: int,
        fail: Fail,
        driver: CudaDriver,
        hold_back: Callable[[int, int], None],
    ) -> None:
        super().__init__(capacities, alignment, fail, driver)
        self.hold_back = hold_back
        self.pools = [CudaPool(self, self.arena(device)) for device in range(len(capacities))]
        self.default_pools = self.pools.copy()
        self.pools_on = [[pool] for pool in self.pools]

    def malloc_managed(self, device: int, nbytes: Integer, made: object) -> Buffer:
        """Allocate *nbytes* that the host and all devices share."""
        nbytes = self.check_size(nbytes, Origin.MANAGED)
        address = int(self.driver(self.driver.cu.cuMemAllocManaged, nbytes, _GLOBAL))
        self._serial += 1
        allocation = Allocation(
            address, nbytes, Space.MANAGED, Origin.MANAGED, memoryview(bytes_at(address, nbytes)).cast("B"), self.fail,
            device=device, made=made, serial=self._serial,
        )  # fmt: skip
        allocation.pages = CardPages(self.driver, address, nbytes)
        return self.enter(allocation)

    def close(self, *, is_lost: bool) -> None:
        """Let pools keep what they kept, and free what the program has not; nothing of this if the card is lost."""
        for pool in () if is_lost else self.pools:
            assert isinstance(pool, CudaPool), f"{pool!r} is not of a card"
            give_back(pool.restore)
        super().close(is_lost=is_lost)


class CudaPool(Pool):
    """The stream-ordered pool of a card, which all users of the process share."""

    def __init__(self, memory: CudaMemory, arena: Arena) -> None:
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
    def _driver(self) -> CudaDriver:
        memory = self._memory
        assert isinstance(memory, CudaMemory), f"{memory!r} is not of a card"
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
        assert isinstance(memory, CudaMemory), f"{memory!r} is not of a card"
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
        assert isinstance(memory, CudaMemory), f"{memory!r} is not of a card"
        allocation = memory.root(thing, Origin.POOL.ender, Origin.POOL, Origin.MALLOC)
        memory.end_life(allocation, site, drop=free_op is None)
        if stream is None:
            memory.driver(memory.driver.cu.cuMemFree, allocation.address)
        else:
            memory.driver(memory.driver.cu.cuMemFreeAsync, allocation.address, stream.handle)
