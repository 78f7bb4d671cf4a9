"""Addresses and memory apart: ranges of addresses that are reserved, memory without an address, and mappings of the
one on the other. What is mapped is an allocation like any other; unmapped, the memory keeps its bytes.
"""

from typing import TYPE_CHECKING

from device_model.errors import DeviceError, Kind
from device_model.memory.allocation import Allocation, Buffer, Origin, size_text
from device_model.memory.pool import DEVICE_BASE, DEVICE_SPAN

if TYPE_CHECKING:
    from device_model.memory.registry import Memory

GRANULARITY = 2 << 20  # of sizes and addresses: a huge page
_BASE = DEVICE_BASE + 1024 * DEVICE_SPAN  # beyond the arenas of all devices


class Physical:
    """*nbytes* of a device's memory, without an address until they are *mapped*; *made* is the place that asked."""

    def __init__(self, memory: "Memory", device: int, nbytes: int, made: object) -> None:
        self.device = device
        self.nbytes = nbytes
        self.made = made
        self.view, self.cold = memory.create_backing(nbytes, Origin.MAPPED)
        self.mapped: Allocation | None = None
        self.is_freed = False

    def __repr__(self) -> str:
        return f"<Physical {size_text(self.nbytes)} of device {self.device} made at {self.made}>"


class Virtual:
    """The reserved addresses of one simulation, the same for all its devices. None is handed out twice."""

    def __init__(self, memory: "Memory") -> None:
        self._memory = memory
        self._next = _BASE
        self._reserved: dict[int, int] = {}  # bytes by address
        self._mapped: dict[int, Physical] = {}

    def reserve(self, nbytes: int) -> int:
        """Reserve *nbytes* of addresses; they cost no memory."""
        self._check_size(nbytes)
        address = self._next
        self._next += nbytes + GRANULARITY  # one step past a range is not the start of the next one
        self._reserved[address] = nbytes
        return address

    def release(self, address: int) -> None:
        """End a reservation in which nothing is mapped."""
        nbytes = self._reserved.get(address)
        if nbytes is None:
            raise self._refuse(f"at {address:#x} no range of addresses begins that is reserved")
        if any(address <= each < address + nbytes for each in self._mapped):
            raise self._refuse(f"memory is mapped in the range at {address:#x}", "unmap it first")
        del self._reserved[address]

    def create(self, device: int, nbytes: int, made: object) -> Physical:
        """Take *nbytes* of a device's memory."""
        self._check_size(nbytes)
        arena = self._memory.arena(device)
        self._memory.check_room(arena, nbytes, nbytes, Origin.MAPPED)
        physical = Physical(self._memory, device, nbytes, made)
        arena.used += nbytes
        return physical

    def free(self, physical: Physical) -> None:
        """Give the memory back, which must not be mapped."""
        if physical.is_freed:
            raise self._refuse(f"{physical!r} has been freed already")
        if physical.mapped is not None:
            raise self._refuse(f"{physical!r} is mapped", "unmap it first")
        physical.is_freed = True
        self._memory.arena(physical.device).used -= physical.nbytes

    def map(self, address: int, nbytes: int, physical: Physical, made: object) -> Buffer:
        """Give *physical*, all of it, the address *address*, which must be reserved and free."""
        if physical.is_freed or physical.mapped is not None:
            raise self._refuse(f"{physical!r} is {'freed' if physical.is_freed else 'mapped already'}")
        if nbytes != physical.nbytes or address % GRANULARITY:
            raise self._refuse(f"{size_text(nbytes)} of {physical!r} at {address:#x}", "map all of it, at a huge page")
        if not any(start <= address and address + nbytes <= start + size for start, size in self._reserved.items()):
            raise self._refuse(f"{size_text(nbytes)} at {address:#x} are not reserved")
        if any(start < address + nbytes and address < start + each.nbytes for start, each in self._mapped.items()):
            raise self._refuse(f"something is mapped in the {size_text(nbytes)} at {address:#x} already")
        buffer = self._memory.begin_life(
            address, nbytes, physical.device, Origin.MAPPED, physical.view, physical.cold, made
        )
        physical.mapped = buffer.allocation
        self._mapped[address] = physical
        return buffer

    def unmap(self, address: int, site: object) -> None:
        """Take the address away again: work that still uses it fails. The memory keeps its bytes."""
        physical = self._mapped.pop(address, None)
        if physical is None or physical.mapped is None:
            raise self._refuse(f"nothing is mapped at {address:#x}")
        self._memory.end_life(physical.mapped, site, drop=True)
        physical.mapped = None

    def forget(self, device: int) -> None:
        """*device* was reset: its memory is free, and no longer mapped."""
        for address, physical in [(each, it) for each, it in self._mapped.items() if it.device == device]:
            del self._mapped[address]
            physical.mapped, physical.is_freed = None, True

    def _check_size(self, nbytes: int) -> None:
        if nbytes <= 0 or nbytes % GRANULARITY or nbytes > DEVICE_SPAN:
            raise self._refuse(f"{nbytes} bytes", f"ask for a multiple of {GRANULARITY}")

    def _refuse(self, what: str, remedy: str = "see what reserves, maps and frees it") -> DeviceError:
        return self._memory.fail(Kind.INVALID_VALUE, what, remedy)
