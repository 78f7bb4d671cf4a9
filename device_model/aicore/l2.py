"""The L2 cache, as far as it decides where a copy's bytes come from: what was touched last is there."""

from collections import OrderedDict
from collections.abc import Hashable

from device_model.aicore.program import Direction, Flow

CHUNK = 1 << 14  # bytes that are dropped together: coarser than a line of 512, so that large copies are cheap


class Cache:
    """Least recently used, in chunks; of each it knows the range that was touched."""

    __slots__ = ("_chunks", "_room")

    def __init__(self, nbytes: int) -> None:
        self._room = nbytes // CHUNK
        self._chunks: OrderedDict[tuple[Hashable, int], tuple[int, int]] = OrderedDict()

    def touch(self, flow: Flow) -> bool:
        """*flow* reads or writes: does it hit? So it does if all that it reads is there."""
        chunks, hit = self._chunks, True
        for number in range(flow.start // CHUNK, (flow.stop - 1) // CHUNK + 1):
            base = number * CHUNK
            first, last = max(0, flow.start - base), min(CHUNK, flow.stop - base)
            known = chunks.get((flow.key, number))
            if known is None or first < known[0] or last > known[1]:
                hit = False
            if not flow.bypass:
                chunks[flow.key, number] = (
                    (first, last) if known is None else (min(first, known[0]), max(last, known[1]))
                )
                chunks.move_to_end((flow.key, number))
        while len(chunks) > self._room:
            chunks.popitem(last=False)
        return hit and flow.direction is Direction.READ
