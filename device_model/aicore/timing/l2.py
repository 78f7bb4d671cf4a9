"""The L2 cache, as far as it decides what goes to and from HBM: what was touched last is there, what is new is dirty.

It keeps sectors of 128 bytes, as the profiler counts them. Chunks of 16 KB are evicted together, the one that was not
touched for longest first: so a large copy costs little to look up.
"""

from collections import OrderedDict
from collections.abc import Hashable

from device_model.aicore.core.program import Direction, Flow

SECTOR = 128  # bytes
_SHIFT = 7  # SECTOR as a power of two
_CHUNK = 7  # sectors of a chunk, as a power of two
_LAST = (1 << _CHUNK) - 1
_FULL = (1 << (1 << _CHUNK)) - 1
_KEY_BITS = 44  # of the number of a sector: what is above says whose it is


class Cache:
    """Which sectors of GM are in *nbytes* of cache, and which of them HBM does not have yet."""

    __slots__ = ("_bases", "_dirty", "_held", "_present", "_room")

    def __init__(self, nbytes: int) -> None:
        self._room = nbytes // SECTOR
        self._held = 0
        self._bases: dict[Hashable, int] = {}
        # By number of the chunk: a bit for each of its sectors. The chunk touched last is at the end.
        self._present: OrderedDict[int, int] = OrderedDict()
        self._dirty: dict[int, int] = {}

    def touch(self, flow: Flow) -> tuple[int, int]:
        """*flow* reads or writes: how many bytes it asks for that are not there, and how many dirty ones it evicts."""
        base = self._bases.get(flow.key)
        if base is None:
            base = self._bases[flow.key] = len(self._bases) << _KEY_BITS
        present, dirty = self._present, self._dirty
        writes, keeps = flow.direction is Direction.WRITE, not flow.bypass
        start, length, stride = flow.start, flow.length, flow.stride
        missing = 0
        for _ in range(flow.rows):
            sector = base + (start >> _SHIFT)
            last = base + (start + length - 1 >> _SHIFT)
            while sector <= last:
                chunk = sector >> _CHUNK
                following = chunk + 1 << _CHUNK
                mask = _FULL if following <= last else (2 << (last & _LAST)) - 1
                if sector & _LAST:
                    mask &= -1 << (sector & _LAST)
                held = present.get(chunk, 0)
                absent = mask & ~held if held else mask
                if absent:
                    count = absent.bit_count()
                    missing += count
                    if keeps:
                        present[chunk] = held | mask
                        self._held += count
                if keeps:
                    if held:
                        present.move_to_end(chunk)
                    if writes:
                        dirty[chunk] = dirty.get(chunk, 0) | mask
                sector = following
            start += stride
        evicted = 0
        while self._held > self._room:
            chunk, held = present.popitem(last=False)
            self._held -= held.bit_count()
            evicted += dirty.pop(chunk, 0).bit_count()
        return missing * SECTOR, evicted * SECTOR
