"""Memory: all memory of one simulation, that of its devices and the pinned memory of its host.

Device memory is real memory of this process with simulated addresses. An `Arena` of each device counts its bytes and
gives out addresses; its `Pool` serves MallocAsync. Pinned memory has real addresses, so NumPy and `ctypes` can use it.
Both are reserved rather than taken: they need memory of the host only where they are written (backing.py).

On a board without a host, programs run on the device itself. Its memory has real addresses, and MallocHost allocates it
too (documented: aclrtMallocHost).
"""

import mmap
import weakref
from collections.abc import Callable, Sequence
from heapq import nlargest
from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.errors import DeviceError, Fail, Kind
from device_model.integers import Integer, integer
from device_model.memory import backing, host
from device_model.memory.addresses import whole
from device_model.memory.allocation import DEVICE_BASE, Allocation, Buffer, Origin, Space, size_text
from device_model.memory.backing import Cold
from device_model.memory.directory import Directory
from device_model.memory.pages import Pages, Residence
from device_model.memory.pool import AddressedPool, Arena, Limit, Pool
from device_model.memory.stories import array_text
from device_model.memory.virtual import Virtual


class Memory(Directory):
    """All memory of one simulation.

    A call that fails changes nothing.

    Args:
        capacities: The bytes of each device.
        alignment: The alignment of device memory, in bytes.
        fail: Makes the exception for a failure, from its kind, what was wrong, and what to do.
        is_board: Programs run on the device itself, as on a board without a host: its memory is theirs.
        values: Whether memory holds values; without them it has sizes and addresses only.
    """

    def __init__(
        self, capacities: Sequence[int], alignment: int, fail: Fail, *, is_board: bool = False, values: bool = True
    ) -> None:
        super().__init__(fail, values=values)
        self._is_board = is_board
        self._arenas = [Arena(device, capacity, alignment) for device, capacity in enumerate(capacities)]
        self.default_pools = [Pool(self, arena) for arena in self._arenas]
        self.pools = list(self.default_pools)  # of each device the one that it uses
        self.pools_on = [[pool] for pool in self.pools]  # all that have memory of a device
        self.virtual = Virtual(self)
        self.residence = Residence()
        self.left_to_reset: list[Allocation] = []  # freed by the reset of its device, not by the program

    # Device memory.

    @property
    def has_real_addresses(self) -> bool:
        """Whether device memory has addresses among those of the host."""
        return self._is_board

    def malloc(self, device: int, nbytes: Integer, made: object, origin: Origin = Origin.MALLOC) -> Buffer:
        """Allocate *nbytes* on *device*; *made* is the line that asked for them."""
        arena = self.arena(device)
        nbytes = self.check_size(nbytes, origin)
        self.check_room(arena, nbytes, nbytes, origin)
        return self._allocate(arena, nbytes, origin, made)

    def _allocate(self, arena: Arena, nbytes: int, origin: Origin, made: object) -> Buffer:
        view, cold = self.create_backing(nbytes, origin)
        return self.begin_on_device(arena.take(nbytes), nbytes, arena.device, origin, view, cold, made)

    def begin_on_device(
        self,
        address: int,
        nbytes: int,
        device: int,
        origin: Origin,
        view: memoryview,
        cold: Cold | None,
        made: object,
    ) -> Buffer:
        """Begin an allocation of device memory at *address*; on a board it begins where its bytes really are."""
        if not self._is_board:
            return self.begin_life(address, nbytes, device, origin, view, cold, made)
        return self.begin_life(_address_of(view), nbytes, device, origin, view, cold, made, view.obj)

    def free(self, thing: object, site: object) -> None:
        """Free device or managed memory, or that of a module, at once: a whole buffer, or its address. Memory of
        MallocAsync goes back to its pool.
        """
        allocation = self.root(thing, "Free", Origin.MALLOC, Origin.POOL, Origin.MANAGED, Origin.MODULE)
        if allocation.origin is Origin.POOL:
            self.pool_of(allocation).give(whole(allocation), None, None, site)
            return
        self._end(allocation, site)
        if allocation.pages is None:
            self._arenas[allocation.device].give(allocation.nbytes)

    def malloc_managed(self, device: int, nbytes: Integer, made: object) -> Buffer:
        """Allocate *nbytes* that the host and all devices share; the reset of *device* frees them.

        They take no room of a device until their pages move there, and more than it has may be allocated.
        """
        self.arena(device)
        nbytes = self.check_size(nbytes, Origin.MANAGED)
        return self.create_addressed(device, nbytes, Origin.MANAGED, made, is_managed=True)

    def create_addressed(self, device: int, nbytes: int, origin: Origin, made: object, *, is_managed: bool) -> Buffer:
        """Begin an allocation that has an address of the host: pinned, or managed."""
        view, cold = self._create_addressed(nbytes, origin)
        pages = Pages(nbytes) if is_managed else None
        if pages is not None:
            self.residence.pages[pages] = None
        return self.begin_life(_address_of(view), nbytes, device, origin, view, cold, made, view.obj, pages)

    def free_all(self, device: int, site: object, *, is_lost: bool) -> None:
        """Free all memory of *device*, its pool included, because the device is reset.

        What MallocHost allocated stays, on a board too. If the device *is_lost*, the program could free nothing before.
        """
        arena = self.arena(device)
        arena.used = 0
        for allocation in self._living():
            if allocation.device == device and allocation.origin is Origin.MALLOC_HOST:
                arena.used += arena.size(allocation.nbytes)
            elif allocation.device == device:
                self._end(allocation, site)
                if allocation.origin is not Origin.MODULE and not is_lost:
                    self.left_to_reset.append(allocation)
        self.virtual.forget(device)
        for pool in self.pools_on[device]:
            pool.is_destroyed = True
        self.default_pools[device] = self.pools[device] = Pool(self, arena)
        self.pools_on[device] = [self.pools[device]]

    # Pools.

    def pool(self, device: int) -> Pool:
        """Return the stream-ordered pool that *device* uses."""
        self.arena(device)
        return self.pools[device]

    def pool_of(self, allocation: Allocation) -> Pool:
        """Return the pool to which FreeAsync gives *allocation*."""
        return self.pool(allocation.device) if allocation.pool is None else allocation.pool

    def create_pool(self, device: int, max_bytes: int = 0) -> Pool:
        """Make another pool of *device*."""
        pool = Pool(self, self.arena(device), max_bytes)
        self.pools_on[device].append(pool)
        return pool

    def create_addressed_pool(self, device: int, max_bytes: int = 0, *, is_managed: bool) -> AddressedPool:
        """Make a pool of memory that the host reaches: managed, which the reset of *device* frees, or pinned."""
        return AddressedPool(self, self.arena(device), max_bytes, is_managed=is_managed)

    def use_pool(self, device: int, pool: Pool) -> None:
        """Let *device* take stream-ordered memory from *pool*, one of its own."""
        assert pool in self.pools_on[device], f"{pool!r} has no memory of device {device}"
        self.pools[device] = pool

    def destroy_pool(self, pool: Pool) -> None:
        """End *pool*, which is no default one; a device that uses it goes back to its default pool."""
        assert pool not in self.default_pools, f"{pool!r} lives as long as its device"
        pool.destroy()
        if isinstance(pool, AddressedPool):
            return
        self.pools_on[pool.device].remove(pool)
        if self.pools[pool.device] is pool:
            self.pools[pool.device] = self.default_pools[pool.device]

    def has_room(self, device: int, nbytes: int) -> bool:
        """Whether *nbytes* are free on *device*."""
        return self.arena(device).has_room(nbytes)

    def free_bytes(self, device: int) -> int:
        """Return how many bytes of *device* are free."""
        return self.arena(device).free

    def total_bytes(self, device: int) -> int:
        """Return how many bytes *device* has."""
        return self.arena(device).capacity

    def limit(self, limit: Limit) -> Callable[[], None]:
        """Put *limit* on all devices. Returns the function that takes it away again."""
        for arena in self._arenas:
            arena.limits.append(limit)

        def end() -> None:
            for arena in self._arenas:
                arena.limits.remove(limit)

        return end

    # Host memory.

    def malloc_host(self, nbytes: Integer, made: object) -> Buffer:
        """Allocate *nbytes* of pinned host memory; like device memory, it takes no room until it is written.

        On a board this is memory of its device 0.
        """
        nbytes = self.check_size(nbytes, Origin.MALLOC_HOST)
        if self._is_board:
            arena = self.arena(0)
            self.check_room(arena, nbytes, nbytes, Origin.MALLOC_HOST)
            return self._allocate(arena, nbytes, Origin.MALLOC_HOST, made)
        view, cold = self._create_addressed(nbytes, Origin.MALLOC_HOST)
        return self.begin_life(_address_of(view), nbytes, -1, Origin.MALLOC_HOST, view, cold, made, view.obj)

    def _create_addressed(self, nbytes: int, origin: Origin) -> tuple[memoryview, Cold | None]:
        """Make bytes that have a real address."""
        if nbytes > backing.RESERVABLE:
            raise self._refuse_host(nbytes, origin)
        view = memoryview(self._map(nbytes, origin))
        if (stale := self._host.overlapping(_address_of(view), nbytes)) is not None:
            # The system gave out this range, so the memory that was pinned there is no longer mapped.
            what = f"the memory of {whole(stale)!r} was unmapped while it was pinned"
            raise self.fail(Kind.INVALID_ADDRESS, what, f"call {stale.origin.ender}() before giving memory back")
        if nbytes > backing.CHUNK or not self.has_values:
            return view, Cold(nbytes)
        backing.write_poison(view, 0, nbytes)
        return view, None

    def free_host(self, thing: object, site: object) -> None:
        """Free pinned host memory. Arrays over it stay valid, but calls refuse them."""
        allocation = self.root(thing, "FreeHost", Origin.MALLOC_HOST)
        self._end(allocation, site)
        if self._is_board:
            self._arenas[allocation.device].give(allocation.nbytes)

    def _end(self, allocation: Allocation, site: object) -> None:
        """End an allocation and drop its bytes. Arrays over bytes that the host sees stay valid; calls refuse them."""
        self.end_addressed(allocation, site, drop=True)

    def end_addressed(self, allocation: Allocation, site: object, *, drop: bool) -> None:
        """End an allocation that may have an address of the host; with *drop* its bytes are dropped at once."""
        if allocation.pages is not None:
            del self.residence.pages[allocation.pages]
        mapping = None if allocation.owner is None else weakref.ref(allocation.owner)
        self.end_life(allocation, site, drop=drop)
        if mapping is None or mapping() is None:
            return
        while (stale := self._outlived.overlapping(allocation.address, allocation.nbytes)) is not None:
            self._outlived.remove(stale)
        allocation.owner = mapping
        self._outlived.add(allocation)

    def host_register(self, thing: object, nbytes: Integer | None, made: object) -> Buffer:
        """Pin memory that the host has: an array or a buffer, or *nbytes* at an address.

        An array or buffer is kept alive while it is registered; without *nbytes* all of it is pinned. A bare address
        must stay mapped, which is up to the caller.
        """
        array = self._registrable(thing, nbytes)
        address = host.address_of(array)
        if (other := self._host.overlapping(address, array.nbytes)) is not None:
            raise self.fail(
                Kind.ALREADY_REGISTERED,
                f"HostRegister of {size_text(array.nbytes)} overlaps {whole(other)!r}, which is pinned already",
                f"use it as it is, or release it with {other.origin.ender}() first",
            )
        view = host.bytes_of(array)
        return self.begin_life(address, array.nbytes, -1, Origin.REGISTERED, view, None, made, (thing, array))

    def host_unregister(self, thing: object, site: object) -> None:
        """Unpin memory that was registered. The memory itself stays."""
        allocation = self.root(thing, "HostUnregister", Origin.REGISTERED)
        # Not dropped: it is ordinary host memory now, and copies that were queued before may still use it.
        self.end_life(allocation, site, drop=False)

    def pageable(self, address: int, nbytes: int, role: str, *, write: bool = False) -> Allocation:
        """Return an allocation over *nbytes* of any host memory, for faces that take bare addresses.

        If *role* is "dst", or to *write*, the memory must be writable. The system is asked whether the range exists, so
        a wrong address cannot crash the process.
        """
        is_written = write or role == "dst"
        is_there = host.is_writable if is_written else host.is_readable
        if self._outlived:
            self._check_outlived(address, f"{role} is an address")
        if address >= DEVICE_BASE or not is_there(address, nbytes):
            if self._graveyard.find(address) is not None:
                raise self._stories.of_address(address, nbytes, role)
            kind = "writable memory" if is_written else "memory"
            raise self.fail(
                Kind.INVALID_ADDRESS,
                f"{role} is an address at which the host has no {size_text(nbytes)} of {kind}",
                "pass an array, or the address of memory that is still there",
            )
        view = host.view_at(address, nbytes)  # the caller keeps the memory alive
        return self.backed(Allocation(address, nbytes, Space.PAGEABLE, Origin.PAGEABLE, view, self.fail))

    def at(self, address: int, nbytes: int, role: str) -> Buffer:
        """Return the *nbytes* at *address* as a buffer, for faces that know memory by its address alone.

        It is a part of an allocation, or otherwise pageable host memory. Raises the errors of `locate` and `pageable`.
        """
        space = self._space(address)
        holder = space.by_base.get(address) or space.floor(address)
        if holder is not None and 0 <= nbytes <= holder.nbytes - (offset := address - holder.address):
            return Buffer(holder, offset, nbytes)
        if address >= DEVICE_BASE or (holder is not None and offset < holder.nbytes):
            raise self._stories.of_address(address, nbytes, role)
        return Buffer(self.pageable(address, nbytes, role), 0, nbytes)

    def holder(self, address: int) -> Allocation | None:
        """Return the living allocation that holds *address*, or None."""
        holder = self._space(address).floor(address)
        return holder if holder is not None and address < holder.address + holder.nbytes else None

    def leaks(self) -> list[Allocation]:
        """Return the living allocations of device, pinned and registered memory, in the order of their making.

        What a module has for its variables is not among them: the program does not free it.
        """
        return [each for each in self._living() if each.origin is not Origin.MODULE]

    def _living(self) -> list[Allocation]:
        return sorted((*self._device, *self._host), key=lambda allocation: allocation.serial)

    def _registrable(self, thing: object, nbytes: Integer | None) -> npt.NDArray[Any]:
        """Return an array over the memory to register, after all checks except the one for overlaps."""
        role = "the memory to register"
        if nbytes is not None:
            nbytes = integer("nbytes of HostRegister()", nbytes)
        if isinstance(thing, Buffer):
            wanted = thing.nbytes if nbytes is None else nbytes
            allocation, offset = self.locate(thing, wanted, role)
            if allocation.space is Space.DEVICE:
                raise self.fail(Kind.INVALID_ADDRESS, f"{role} is {thing!r}", "register host memory")
            if not self.has_values:
                return host.array_at(allocation.address + offset, wanted)
            return np.ndarray(wanted, np.uint8, allocation.view, offset)
        if (address := host.as_address(thing)) is not None:
            return self._registrable_range(address, nbytes)
        array = self._array(thing, role)
        if array is None:
            raise self._stories.of_type(thing, role)
        self._check_array(array, role, write=True)
        wanted = array.nbytes if nbytes is None else nbytes
        if not 0 < wanted <= array.nbytes:
            raise self._stories.of_size(f"{role} is {array_text(array)}, which has", array.nbytes, wanted)
        return array.reshape(-1).view(np.uint8)[:wanted]

    def _registrable_range(self, address: int, nbytes: int | None) -> npt.NDArray[Any]:
        if nbytes is not None and address < DEVICE_BASE and host.is_writable(address, nbytes):
            return host.array_at(address, nbytes)
        size = "an unknown number of bytes" if nbytes is None else size_text(nbytes)
        raise self.fail(
            Kind.INVALID_VALUE,
            f"HostRegister of {size} at an address where the host has no such writable memory",
            "register an array, or an address with the size that is mapped there",
        )

    # Also for `Pool` and `Virtual`.

    def check_size(self, nbytes: Integer, origin: Origin) -> int:
        """Return *nbytes* as an int, or raise an error for a size that no allocation can have."""
        nbytes = integer(f"nbytes of {origin.maker}()", nbytes)
        if nbytes <= 0:
            size = size_text(nbytes) if nbytes < -(2**64) else f"{nbytes} bytes"
            raise self.fail(Kind.INVALID_VALUE, f"{origin.maker} of {size}", "ask for 1 byte or more")
        return nbytes

    def check_room(self, arena: Arena, size: int, nbytes: int, origin: Origin) -> None:
        """Raise an error if the device does not have the *size* bytes that *nbytes* take.

        The message names the largest allocations, because a leak is usually one of them.
        """
        if arena.has_room(size):
            return
        device = arena.device
        mine = [allocation for allocation in (*self._device, *self._host) if allocation.device == device]
        holders = nlargest(3, mine, key=lambda allocation: (allocation.nbytes, -allocation.serial))
        pool = self.pools[device]
        idle = pool.reserved_current - pool.used_current
        limit = arena.limit_for(size)
        raise self.fail(
            Kind.OUT_OF_MEMORY,
            f"{origin.maker} of {size_text(nbytes)} on device {device} does not fit: "
            f"{size_text(arena.free)} of {size_text(arena.capacity)} are free"
            + (f", {size_text(idle)} lie unused in its pool" if idle else "")
            + (f"; the largest holders are {', '.join(repr(whole(h)) for h in holders)}" if holders else "")
            + (f"; {limit.refused(origin.maker)}" if limit is not None else ""),
            "free memory that is no longer used, or ask for less",
        )

    def create_backing(self, nbytes: int, origin: Origin) -> tuple[memoryview, Cold | None]:
        """Make the bytes of device memory, or raise an error if this host has no room for them."""
        if self._is_board:
            return self._create_addressed(nbytes, origin)
        if not self.has_values:
            return backing.NOTHING, backing.VALUELESS
        try:
            return backing.create_backing(nbytes)
        except (OSError, MemoryError) as error:
            raise self._refuse_host(nbytes, origin) from error

    def _refuse_host(self, nbytes: int, origin: Origin) -> DeviceError:
        return self.fail(
            Kind.OUT_OF_MEMORY,
            f"{origin.maker} of {size_text(nbytes)}: this host has no address space or memory left for it",
            "ask for less, or raise the limits of this process",
        )

    def _map(self, nbytes: int, origin: Origin) -> mmap.mmap:
        try:
            return backing.create_mapping(nbytes)
        except (OSError, MemoryError, OverflowError) as error:
            raise self._refuse_host(nbytes, origin) from error

    def arena(self, device: int) -> Arena:
        """Return the arena of *device*."""
        if not 0 <= device < len(self._arenas):
            raise self.fail(
                Kind.INVALID_DEVICE, f"there is no device {device}", f"choose one from 0 to {len(self._arenas) - 1}"
            )
        return self._arenas[device]


def _address_of(view: memoryview) -> int:
    return host.address_of(np.frombuffer(view, np.uint8))
