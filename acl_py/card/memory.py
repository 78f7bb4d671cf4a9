"""Memory of a card and pinned memory of its driver, whatever the vendor.

The directory of allocations is the model's, so what a call names is found and checked in the same way. Device memory
has the card's addresses and no bytes that the host can see. Pinned memory is the driver's, and lives as long as there
are arrays over it.
"""

import ctypes
import weakref
from collections.abc import Sequence
from contextvars import Context
from typing import Any

from acl_py.card.driver import Driver, give_back
from device_model.errors import Fail
from device_model.integers import Integer
from device_model.memory import Allocation, Buffer, Memory, Origin, Space
from device_model.memory.backing import GONE, NOTHING


class CardAllocation(Allocation):
    """Memory of a card. Its bytes are on the card alone. Bodies of array kernels compute in a mirror of them."""

    __slots__ = ("memory",)
    memory: "CardMemory"

    @property
    def is_host_visible(self) -> bool:
        """False: the host cannot read it at its address."""
        return False


class CardMemory(Memory):
    """The memory of the cards of one run, which *driver* allocates; *capacities* are their bytes."""

    driver: Driver
    allocation_type: type[CardAllocation] = CardAllocation

    def __init__(self, capacities: Sequence[int], alignment: int, fail: Fail, driver: Driver) -> None:
        super().__init__(capacities, alignment, fail)
        self.driver = driver
        self._mirrors: dict[int, int] = {}  # the addresses of mirrors, by that of their allocation

    @property
    def has_real_addresses(self) -> bool:
        """True: the card's addresses are of the same kind as the host's."""
        return True

    def malloc(self, device: int, nbytes: Integer, made: object, origin: Origin = Origin.MALLOC) -> Buffer:
        """Allocate *nbytes* on *device*, which is current."""
        nbytes = self.check_size(nbytes, origin)
        return self.begin_on_card(self.driver.allocate(nbytes), nbytes, device, origin, made)

    def begin_on_card(self, address: int, nbytes: int, device: int, origin: Origin, made: object) -> Buffer:
        """Begin the life of memory of *device* that the driver has given out."""
        self._serial += 1
        allocation = self.allocation_type(
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
            self.driver.free(allocation.address)

    def malloc_host(self, nbytes: Integer, made: object) -> Buffer:
        """Allocate *nbytes* of pinned memory. The driver gets it back when it is freed and no array is over it."""
        nbytes = self.check_size(nbytes, Origin.MALLOC_HOST)
        address, owner = self.pinned(nbytes)
        view = memoryview(owner).cast("B")
        return self.begin_life(address, nbytes, -1, Origin.MALLOC_HOST, view, None, made, owner)

    def pinned(self, nbytes: int) -> tuple[int, Any]:
        """Return the address of *nbytes* of pinned memory, and what keeps them."""
        address, free = self.driver.allocate_host(nbytes)
        owner = bytes_at(address, nbytes)
        # Arrays may outlive the run, and end in the middle of another one, which has no part in it.
        weakref.finalize(owner, Context().run, free)
        return address, owner

    def host_register(self, thing: object, nbytes: Integer | None, made: object) -> Buffer:
        """Pin memory that the host has."""
        buffer = super().host_register(thing, nbytes, made)
        try:
            self.driver.register_host(buffer.address, buffer.nbytes)
        except BaseException:
            self.end_life(buffer.allocation, made, drop=False)
            raise
        return buffer

    def host_unregister(self, thing: object, site: object) -> None:
        """Unpin memory that was registered."""
        address = self.root(thing, Origin.REGISTERED.ender, Origin.REGISTERED).address
        super().host_unregister(thing, site)
        self.driver.unregister_host(address)

    def has_room(self, device: int, nbytes: int) -> bool:  # noqa: ARG002 - the card says so when it is asked for them
        """Return True: the card is asked, and refuses the call if it has no room."""
        return True

    def free_bytes(self, device: int) -> int:  # noqa: ARG002 - the current one
        """Return how many bytes of the card are free."""
        return self.driver.memory_info()[0]

    def total_bytes(self, device: int) -> int:  # noqa: ARG002 - the current one
        """Return how many bytes the card has."""
        return self.driver.memory_info()[1]

    def mirror(self, allocation: Allocation) -> int:
        """Return the address of the bytes on the host in which bodies of kernels compute with *allocation*."""
        if allocation.is_dropped:
            address, owner = self.pinned(allocation.nbytes)
            allocation.view, allocation.owner, allocation.cold = memoryview(owner).cast("B"), owner, None
            self._mirrors[allocation.address] = address
        return self._mirrors[allocation.address] if isinstance(allocation, CardAllocation) else allocation.address

    def close(self, *, is_lost: bool) -> None:
        """Free what the program has not; nothing of this if the card is lost."""
        for allocation in () if is_lost else self.leaks():
            if allocation.origin is Origin.REGISTERED:
                give_back(self.driver.unregister_host, allocation.address)
            elif allocation.origin is not Origin.MALLOC_HOST:
                give_back(self.driver.free, allocation.address)
            self.end_life(allocation, None, drop=True)


def bytes_at(address: int, nbytes: int) -> Any:
    """Return an object over memory of the driver."""
    return (ctypes.c_ubyte * nbytes).from_address(address)
