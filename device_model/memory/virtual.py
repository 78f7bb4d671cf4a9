"""Addresses and memory apart: reserved ranges of addresses, memory without an address, and mappings between them.

A program reserves a range of addresses, creates physical memory, and maps the memory to an address in the range. Mapped
memory is an allocation like any other. When it is unmapped, the allocation ends, and the memory keeps its bytes: it can
be mapped again elsewhere.
"""

from typing import TYPE_CHECKING

from device_model.errors import DeviceError, Kind
from device_model.memory.allocation import DEVICE_BASE, Allocation, Buffer, Origin, size_text
from device_model.memory.pool import DEVICE_SPAN

if TYPE_CHECKING:
    from device_model.memory.registry import Memory

GRANULARITY = 2 << 20  # of sizes and addresses: a huge page
_BASE = DEVICE_BASE + 1024 * DEVICE_SPAN  # beyond the arenas of all devices


class Physical:
    """*nbytes* of a device's memory, which have no address until they are mapped.

    *made* is the line that created it; `mapped` is the allocation while it is mapped.
    """

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
    """The reserved addresses of one simulation, which all its devices share. No address is given out twice."""

    def __init__(self, memory: "Memory") -> None:
        self._memory = memory
        self._next = _BASE
        self._reserved: dict[int, int] = {}  # bytes by address
        self._mapped: dict[int, Physical] = {}

    def reserve(self, nbytes: int, alignment: int = 0) -> int:
        """Reserve *nbytes* of addresses from a multiple of *alignment* on; they cost no memory."""
        self._check_size(nbytes)
        if alignment > DEVICE_SPAN:
            raise self._refuse(f"no addresses are multiples of {alignment}", "ask for a smaller alignment")
        step = max(alignment, GRANULARITY)
        address = -(-self._next // step) * step
        self._next = address + nbytes + GRANULARITY  # one step past a range is not the start of the next one
        self._reserved[address] = nbytes
        return address

    def release(self, address: int, size: int | None = None) -> None:
        """End a reservation, of *size* bytes if that is given, in which nothing is mapped."""
        nbytes = self._reserved.get(address)
        if nbytes is None or size not in (None, nbytes):
            raise self._refuse(f"no reserved range of addresses begins at {address:#x}")
        if any(address <= each < address + nbytes for each in self._mapped):
            raise self._refuse(f"memory is mapped in the range at {address:#x}", "unmap it first")
        del self._reserved[address]

    def create(self, device: int, nbytes: int, made: object) -> Physical:
        """Create *nbytes* of memory of a device, without an address."""
        self._check_size(nbytes)
        arena = self._memory.arena(device)
        self._memory.check_room(arena, nbytes, nbytes, Origin.MAPPED)
        physical = Physical(self._memory, device, nbytes, made)
        arena.used += nbytes
        return physical

    def free(self, physical: Physical) -> None:
        """Give memory back to its device; it must not be mapped."""
        if physical.is_freed:
            raise self._refuse(f"{physical!r} has been freed already")
        if physical.mapped is not None:
            raise self._refuse(f"{physical!r} is mapped", "unmap it first")
        physical.is_freed = True
        self._memory.arena(physical.device).used -= physical.nbytes

    def map(self, address: int, nbytes: int, physical: Physical, made: object) -> Buffer:
        """Map all of *physical* at *address*, which must be reserved and have nothing mapped yet."""
        if physical.is_freed or physical.mapped is not None:
            raise self._refuse(f"{physical!r} is {'freed' if physical.is_freed else 'mapped already'}")
        if nbytes != physical.nbytes or address % GRANULARITY:
            what = f"{size_text(nbytes)} of {physical!r} cannot be mapped at {address:#x}"
            raise self._refuse(what, f"map all of it, at a multiple of {GRANULARITY}")
        if not any(start <= address and address + nbytes <= start + size for start, size in self._reserved.items()):
            raise self._refuse(
                f"the {size_text(nbytes)} at {address:#x} are not reserved", "reserve the addresses first"
            )
        if any(start < address + nbytes and address < start + each.nbytes for start, each in self._mapped.items()):
            raise self._refuse(f"memory is mapped already in the {size_text(nbytes)} at {address:#x}", "unmap it first")
        buffer = self._memory.begin_life(
            address, nbytes, physical.device, Origin.MAPPED, physical.view, physical.cold, made
        )
        physical.mapped = buffer.allocation
        self._mapped[address] = physical
        return buffer

    def unmap(self, address: int, site: object) -> None:
        """End the mapping at *address*: work that still uses it fails, and the memory keeps its bytes."""
        physical = self._mapped.pop(address, None)
        if physical is None or physical.mapped is None:
            raise self._refuse(f"nothing is mapped at {address:#x}")
        self._memory.end_life(physical.mapped, site, drop=True)
        physical.mapped = None

    def mapped_in(self, address: int, nbytes: int) -> dict[int, Physical]:
        """Return what is mapped in a range, by address; the range must be that of whole mappings, without gaps."""
        found = {each: it for each, it in sorted(self._mapped.items()) if address <= each < address + nbytes}
        if not found or min(found) != address or sum(each.nbytes for each in found.values()) != nbytes:
            raise self._refuse(
                f"the {size_text(nbytes)} at {address:#x} are no whole mappings", "name all of a mapping"
            )
        return found

    def forget(self, device: int) -> None:
        """Unmap and free all memory of *device*, which was reset."""
        for address, physical in [(each, it) for each, it in self._mapped.items() if it.device == device]:
            del self._mapped[address]
            physical.mapped, physical.is_freed = None, True

    def _check_size(self, nbytes: int) -> None:
        if nbytes <= 0 or nbytes % GRANULARITY or nbytes > DEVICE_SPAN:
            raise self._refuse(f"{nbytes} bytes are no size for a mapping", f"ask for a multiple of {GRANULARITY}")

    def _refuse(self, what: str, remedy: str = "check the calls that reserve, map and free it") -> DeviceError:
        return self._memory.fail(Kind.INVALID_VALUE, what, remedy)
