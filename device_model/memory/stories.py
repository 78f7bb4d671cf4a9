"""Stories: the messages about memory that a caller named wrongly.

Each message names the allocation that was probably meant, where it was made and where it ended, and says what to do:

    src is <Buffer device 4.0 KiB allocation 3 made at app.py:12, freed at app.py:20>, which is no longer alive; free it
    after its last use
"""

from collections.abc import Coroutine
from typing import Any

import numpy.typing as npt

from device_model.errors import DeviceError, Fail, Kind, coroutine_text
from device_model.memory.addresses import AddressMap, Graveyard, whole
from device_model.memory.allocation import DEVICE_BASE, Allocation, Buffer


class Stories:
    """Makes the exceptions for memory that is refused.

    It looks for the address among the living allocations and among those that were freed last.
    """

    def __init__(self, fail: Fail, device: AddressMap, host: AddressMap, graveyard: Graveyard) -> None:
        self._fail = fail
        self._device = device
        self._host = host
        self._graveyard = graveyard

    def of_buffer(self, buffer: Buffer, nbytes: int, role: str) -> DeviceError:
        """Return the error for a buffer that is no longer alive, or has fewer than *nbytes*."""
        if buffer.allocation.freed is None:
            return self.of_size(f"{role} is {buffer!r}, which has", buffer.nbytes, nbytes)
        successor = self._holder(buffer.allocation.address + buffer.offset)
        since = f" (its address belongs to {whole(successor)!r} now)" if successor is not None else ""
        return self.of_dead(buffer.allocation, f"{role} is {buffer!r}", since)

    def of_dead(self, dead: Allocation, subject: str, since: str = "") -> DeviceError:
        """Return the error for memory that is no longer alive."""
        what = f"{subject}, which is no longer alive{since}"
        return self._fail(Kind.INVALID_ADDRESS, what, "free it after its last use", dead=dead)

    def of_address(self, address: int, nbytes: int, role: str) -> DeviceError:
        """Return the error for an address in no living allocation, or too near the end of one for *nbytes*."""
        holder = self._holder(address)
        if holder is not None:
            offset = address - holder.address
            part = Buffer(holder, offset, holder.nbytes - offset)
            return self.of_size(f"{role} is {part!r}, which has", part.nbytes, nbytes)
        remedy = "pass a buffer, or an address inside one that is alive"
        if address < DEVICE_BASE:
            remedy += "; for pageable memory pass the array itself"
        kind = Kind.INVALID_ADDRESS if address else Kind.NULL_POINTER
        what = f"{role} is {address_text(address)}, {self.whereabouts(address)}"
        return self._fail(kind, what, remedy, dead=self._graveyard.find(address))

    def of_size(self, subject: str, has: int, nbytes: int) -> DeviceError:
        """Return the error for a size that is negative or larger than the memory."""
        remedy = "give 0 bytes or more" if nbytes < 0 else "ask for less, or make it larger"
        return self._fail(Kind.INVALID_VALUE, f"{subject} {has} bytes, not {nbytes}", remedy)

    def of_strided(self, text: str, role: str) -> DeviceError:
        """Return the error for memory whose bytes are not contiguous."""
        what = f"{role} is {text}, which is not contiguous"
        return self._fail(Kind.INVALID_VALUE, what, "use numpy.ascontiguousarray, or copy row by row")

    def of_type(self, thing: object, role: str) -> DeviceError:
        """Return the error for an object that is not memory."""
        remedy = "pass a buffer, an array or an address"
        if isinstance(thing, Coroutine):
            text, remedy = coroutine_text(thing), "await that call"
        else:
            kind = type(thing).__name__
            text = "None" if thing is None else f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}"
        return self._fail(Kind.INVALID_VALUE, f"{role} is {text}, which is not memory", remedy)

    def whereabouts(self, address: int) -> str:
        """Say where an address is that no living allocation holds."""
        dead = self._graveyard.find(address)
        if dead is not None:
            return f"inside {whole(dead)!r}"
        return self._space(address).whereabouts(address) or "which is neither in an allocation nor near one"

    def _space(self, address: int) -> AddressMap:
        return self._device if address >= DEVICE_BASE else self._host

    def _holder(self, address: int) -> Allocation | None:
        allocation = self._space(address).floor(address)
        return allocation if allocation is not None and address < allocation.address + allocation.nbytes else None


def address_text(address: int) -> str:
    """Name an address. Host addresses are not shown, because they differ from run to run."""
    if not address:
        return "NULL"
    return f"0x{address:x}" if address >= DEVICE_BASE else "a host address"


def array_text(array: npt.NDArray[Any]) -> str:
    """Name an array by its dtype and shape."""
    return f"an ndarray of {array.dtype} and shape {array.shape}"
