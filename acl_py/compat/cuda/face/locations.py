"""Locations, CUmemLocation: a device, or the host, which has one NUMA node."""

from struct import Struct
from typing import NamedTuple

from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory

LOCATION = Struct("<Ii")
_NOWHERE, _DEVICE, _HOST, _HOST_NUMA, _HOST_NUMA_CURRENT = range(5)  # CUmemLocationType
ON_HOST = -1  # the number that verbs have for the host


class Location(NamedTuple):
    """Where memory is: the *kind* of place, and its number."""

    kind: int
    number: int

    @property
    def is_given(self) -> bool:
        """Whether there is a place at all."""
        return self.kind != _NOWHERE

    @property
    def is_host(self) -> bool:
        """Whether it is the host."""
        return self.kind in (_HOST, _HOST_NUMA, _HOST_NUMA_CURRENT)

    def device(self, driver: Driver) -> int:
        """Return the number of the device, or that for the host; `RefusedError` if there is no such place."""
        if self.is_host:
            if self.kind == _HOST_NUMA and self.number:
                raise RefusedError(INVALID_VALUE, f"there is no NUMA node {self.number}: the host has node 0")
            return ON_HOST
        if self.kind != _DEVICE:
            raise RefusedError(INVALID_VALUE, f"there are no locations of kind {self.kind}")
        return driver.runtime.device(self.number).ordinal


HOST = Location(_HOST, 0)
NOWHERE = Location(_NOWHERE, 0)


def passed(value: int) -> Location:
    """Return a location that was passed by value, in 8 bytes."""
    return Location(*LOCATION.unpack(value.to_bytes(8, "little")))


def at(address: int) -> Location:
    """Return the location at *address*."""
    return Location(*LOCATION.unpack(own_memory.read(address, LOCATION.size)))


def several(address: int, count: int) -> list[Location]:
    """Return *count* locations from *address* on."""
    data = own_memory.read(address, LOCATION.size * count)
    return [Location(*fields) for fields in LOCATION.iter_unpack(data)]


def on_device(ordinal: int) -> Location:
    """Return the location of a device; of the host for its number."""
    return HOST if ordinal == ON_HOST else Location(_DEVICE, ordinal)
