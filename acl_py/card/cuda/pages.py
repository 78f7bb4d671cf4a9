"""Managed memory of a card: the driver takes advice about its pages, and knows where they should be."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from acl_py.card.cuda.driver import CudaDriver
from acl_py.card.streams import CardStream
from device_model.completions import Completion
from device_model.memory import HOST, Advice, Pages

if TYPE_CHECKING:
    from device_model.handles import Stream

_MOST_DEVICES = 64


def place_of(cu: Any, number: int) -> Any:
    """Return the structure of the driver for a location: a device, or HOST."""
    place, kinds = cu.CUmemLocation(), cu.CUmemLocationType
    is_host = number == HOST
    place.type = kinds.CU_MEM_LOCATION_TYPE_HOST if is_host else kinds.CU_MEM_LOCATION_TYPE_DEVICE
    place.id = 0 if is_host else number
    return place


class CardPages(Pages):
    """The pages of one allocation at *address*."""

    __slots__ = ("_address", "_driver", "_nbytes")

    def __init__(self, driver: CudaDriver, address: int, nbytes: int) -> None:
        self._driver = driver
        self._address = address
        self._nbytes = nbytes

    def __repr__(self) -> str:
        return f"<pages of {self._nbytes} bytes on a card>"

    def blocks(self, start: int, stop: int) -> int:  # noqa: ARG002 - the driver pays for them
        """Return 0: how many it touches costs the caller nothing more."""
        return 0

    def missing(self, start: int, stop: int, location: int) -> int:  # noqa: ARG002 - the driver knows
        """Return 0: the caller has nothing to do with pages that move."""
        return 0

    def advise(self, start: int, stop: int, advice: Advice, location: int) -> None:
        """Tell the driver."""
        cu = self._driver.cu
        kind, where = cu.CUmem_advise(int(advice)), place_of(cu, location)
        self._driver(cu.cuMemAdvise, self._address + start, stop - start, kind, where)

    def attach(self, stream: "Stream", flags: int) -> Completion:
        """Queue the attachment in *stream*."""
        assert isinstance(stream, CardStream), f"{stream!r} is not of a card"
        attach = self._driver.cu.cuStreamAttachMemAsync
        return stream.take(lambda: self._driver(attach, stream.handle, self._address, self._nbytes, flags))

    def is_read_mostly(self, start: int, stop: int) -> bool:
        """Ask the driver."""
        return bool(self._fact("READ_MOSTLY", start, stop))

    def devices_with_access(self, start: int, stop: int) -> tuple[int, ...]:
        """Ask the driver."""
        facts = self._facts("ACCESSED_BY", start, stop, _MOST_DEVICES)
        devices = tuple(sorted(each for each in facts if each >= 0))
        return (*devices, HOST) if HOST in facts else devices

    def preferred_location(self, start: int, stop: int) -> int:
        """Ask the driver."""
        return self._fact("PREFERRED_LOCATION", start, stop)

    def last_prefetch(self, start: int, stop: int) -> int:
        """Ask the driver."""
        return self._fact("LAST_PREFETCH_LOCATION", start, stop)

    def _fact(self, name: str, start: int, stop: int) -> int:
        return self._facts(name, start, stop, 1)[0]

    def _facts(self, name: str, start: int, stop: int, count: int) -> list[int]:
        cu = self._driver.cu
        kind = getattr(cu.CUmem_range_attribute, f"CU_MEM_RANGE_ATTRIBUTE_{name}")
        told = self._driver(cu.cuMemRangeGetAttribute, 4 * count, kind, self._address + start, stop - start)
        return [int(each) for each in told] if isinstance(told, Sequence) else [int(told)]
