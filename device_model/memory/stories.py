"""Stories: what is said of memory that a caller named wrongly.

Each names the allocation that was meant, who made it and where, and where it ended; and closes with what to do.
"""

from typing import Any

import numpy.typing as npt

from device_model.errors import DeviceError, Fail, Kind
from device_model.memory.addresses import AddressMap, Graveyard, whole
from device_model.memory.allocation import Allocation, Buffer
from device_model.memory.pool import DEVICE_BASE


class Stories:
    """Makes the exceptions for refused memory, from what lives and what is remembered."""

    def __init__(self, fail: Fail, device: AddressMap, host: AddressMap, graveyard: Graveyard) -> None:
        self._fail = fail
        self._device = device
        self._host = host
        self._graveyard = graveyard

    def of_buffer(self, buffer: Buffer, nbytes: int, role: str) -> DeviceError:
        """Refuse a buffer that is no longer alive, or does not have *nbytes*."""
        if buffer.allocation.freed is None:
            return self.of_size(f"{role} is {buffer!r}, which has", buffer.nbytes, nbytes)
        heir = self._holder(buffer.allocation.address + buffer.offset)
        since = f" (its address belongs to {whole(heir)!r} now)" if heir is not None else ""
        return self.of_dead(f"{role} is {buffer!r}", since)

    def of_dead(self, subject: str, since: str = "") -> DeviceError:
        """Refuse memory that is no longer alive."""
        return self._fail(
            Kind.INVALID_ADDRESS, f"{subject}, which is no longer alive{since}", "free it after its last use"
        )

    def of_address(self, address: int, nbytes: int, role: str) -> DeviceError:
        """Refuse an address in no living allocation, or in one that ends before *nbytes* do."""
        found = self._holder(address)
        if found is not None:
            offset = address - found.address
            part = Buffer(found, offset, found.nbytes - offset)
            return self.of_size(f"{role} is {part!r}, which has", part.nbytes, nbytes)
        remedy = "pass a buffer, or an address inside one that is alive"
        if address < DEVICE_BASE:
            remedy += "; for pageable memory pass the array itself"
        kind = Kind.INVALID_ADDRESS if address else Kind.NULL_POINTER
        return self._fail(kind, f"{role} is {address_text(address)}, {self.whereabouts(address)}", remedy)

    def of_size(self, subject: str, has: int, nbytes: int) -> DeviceError:
        """Refuse a size that is negative or more than there is."""
        remedy = "give 0 bytes or more" if nbytes < 0 else "ask for less, or make it larger"
        return self._fail(Kind.INVALID_VALUE, f"{subject} {has} bytes, not {nbytes}", remedy)

    def of_strided(self, text: str, role: str) -> DeviceError:
        """Refuse bytes that do not lie side by side."""
        what = f"{role} is {text}, which is not contiguous"
        return self._fail(Kind.INVALID_VALUE, what, "use numpy.ascontiguousarray, or copy row by row")

    def of_type(self, thing: object, role: str) -> DeviceError:
        """Refuse what is no memory at all."""
        text = "None" if thing is None else f"a {type(thing).__name__}"
        return self._fail(
            Kind.INVALID_VALUE, f"{role} is {text}, which is no memory", "pass a buffer, an array or an address"
        )

    def whereabouts(self, address: int) -> str:
        """Say where an address lies that belongs to nothing alive."""
        dead = self._graveyard.find(address)
        if dead is not None:
            return f"inside {whole(dead)!r}"
        return self._space(address).whereabouts(address) or "which lies in no allocation and near none"

    def _space(self, address: int) -> AddressMap:
        return self._device if address >= DEVICE_BASE else self._host

    def _holder(self, address: int) -> Allocation | None:
        found = self._space(address).floor(address)
        return found if found is not None and address < found.address + found.nbytes else None


def address_text(address: int) -> str:
    """Name an address: device addresses as they are, host addresses not at all, for they differ from run to run."""
    if not address:
        return "NULL"
    return f"0x{address:x}" if address >= DEVICE_BASE else "a host address"


def array_text(array: npt.NDArray[Any]) -> str:
    """Name an array."""
    return f"an ndarray of {array.dtype} and shape {array.shape}"
