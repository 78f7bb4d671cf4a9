"""Device memory that is NumPy arrays, for kernels that run outside of a simulation."""

import numpy as np

from device_model.ptx.lanes.group import Array
from device_model.ptx.lanes.launch import Region

_BASE, _GAP = 1 << 60, 1 << 32


class ArrayRegion:
    """An array at an address."""

    __slots__ = ("_bytes", "start", "stop")

    def __init__(self, array: Array, start: int) -> None:
        self._bytes = array.reshape(-1).view(np.uint8)
        self.start = start
        self.stop = start + len(self._bytes)

    def read(self, dtype: "np.dtype[np.generic]") -> Array:
        """Return its values."""
        return self._bytes[: len(self._bytes) // dtype.itemsize * dtype.itemsize].view(dtype)

    write = read


class ArrayMemory:
    """Arrays, each at an address of its own."""

    def __init__(self) -> None:
        self._regions: list[ArrayRegion] = []

    def add(self, array: Array) -> int:
        """Add *array*, which is in one piece and is changed in place; return its address."""
        start = _BASE + _GAP * len(self._regions)
        self._regions.append(ArrayRegion(array, start))
        return start

    def find(self, address: int) -> Region | None:
        """Return the array that holds *address*."""
        number = (address - _BASE) // _GAP
        if not 0 <= number < len(self._regions):
            return None
        region = self._regions[number]
        return region if address < region.stop else None

    def describe(self, address: int, nbytes: int) -> str:
        """Say where *address* is."""
        return f"{nbytes} bytes at {address:#x} are in no array"
