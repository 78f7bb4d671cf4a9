"""Device memory that is NumPy arrays, for kernels that run outside of a simulation."""

import numpy as np

from device_model.ptx.lanes.group import Array
from device_model.ptx.lanes.regions import Region

_BASE, _GAP = 1 << 60, 1 << 32


class ArrayMemory:
    """Arrays, each at an address of its own: *regions* in the order in which they were added."""

    def __init__(self) -> None:
        self.regions: list[Region] = []

    def add(self, array: Array) -> int:
        """Add *array*, which is in one piece and is changed in place; return its address."""
        start = _BASE + _GAP * len(self.regions)
        self.regions.append(Region(array.reshape(-1).view(np.uint8), start, in_place=True))
        return start

    def find(self, address: int) -> Region | None:
        """Return the array that holds *address*."""
        number = (address - _BASE) // _GAP
        if not 0 <= number < len(self.regions):
            return None
        region = self.regions[number]
        return region if address < region.stop else None

    def describe(self, address: int, nbytes: int) -> str:
        """Say where *address* is."""
        return f"{nbytes} bytes at {address:#x} are in no array"
