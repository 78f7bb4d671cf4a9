"""Registered memory: which of it is the same bytes of the same object as before."""

import weakref

import numpy as np

from device_model.memory import Allocation
from device_model.memory.allocation import Origin

_Bytes = tuple[int, int]  # the first address, and how many there are


class Registered:
    """The memory that was registered so far, as long as its objects live: an address alone may be another object's."""

    def __init__(self) -> None:
        self._first: dict[_Bytes, tuple[weakref.ref[object], int]] = {}

    def first(self, allocation: Allocation) -> int:
        """Return the serial number with which the bytes of *allocation* were registered first, and keep that; -1 if
        they were not registered before, or if it is no registered memory.
        """
        if allocation.origin is not Origin.REGISTERED:
            return -1
        try:
            thing = weakref.ref(_whole(allocation.owner))
        except TypeError:  # of a type without weak references
            return -1
        key = allocation.address, allocation.nbytes
        known = self._first.get(key)
        if known is not None and known[0]() is thing():
            return known[1]
        self._first[key] = thing, allocation.serial
        return -1


def _whole(owner: object) -> object:
    """Return the object whose bytes the registered array is over: its own, or those of another array."""
    assert isinstance(owner, tuple), "it keeps what was registered, and the array over it"
    thing: object = owner[1]
    while isinstance(thing, np.ndarray) and thing.base is not None:
        thing = thing.base
    return thing.obj if isinstance(thing, memoryview) else thing
