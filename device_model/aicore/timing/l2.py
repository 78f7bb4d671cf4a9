"""The L2 cache: which bytes of GM it holds, and which of them are dirty, that is, not yet written to HBM.

It holds sectors of 128 bytes, the unit that the card's profiler counts. It evicts chunks of 2 KB, four lines, least
recently used first. (With chunks of 16 KB, a row of a matrix that is read by parts and one that is written by parts had
different ages, and the wrong one went: docs/accuracy.md, ND to NZ.) Sectors of a chunk are the bits of one integer, so
a large copy is looked up chunk by chunk, not sector by sector.
"""

from collections import OrderedDict
from collections.abc import Hashable

from device_model.aicore.core.program import Direction, Flow

SECTOR = 128  # bytes
_SHIFT = 7  # log2 of SECTOR
_CHUNK = 4  # log2 of the sectors of a chunk
_LAST = (1 << _CHUNK) - 1
_FULL = (1 << (1 << _CHUNK)) - 1
_KEY_BITS = 44  # bits of a sector's number within its allocation; the bits above are the number of the allocation


class Cache:
    """The sectors of GM in a cache of *nbytes*, and which of them are dirty."""

    __slots__ = ("_bases", "_dirty", "_held", "_present", "_room", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._room = nbytes // SECTOR
        self._held = 0
        self._bases: dict[Hashable, int] = {}
        # The number of a chunk -> a bit for each of its sectors. The most recently used chunk is at the end.
        self._present: OrderedDict[int, int] = OrderedDict()
        self._dirty: dict[int, int] = {}

    def touch(self, flow: Flow) -> tuple[int, int]:
        """Read or write the bytes of *flow*; return how many were missing, and how many dirty bytes were evicted."""
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
