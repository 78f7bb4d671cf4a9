"""The L2 cache: which bytes of GM it holds, and which of them are dirty, that is, not yet written to HBM.

It holds sectors of 128 bytes, the unit that the card's profiler counts. It evicts chunks of 2 KB, four lines, least
recently used first. (With chunks of 16 KB, a row of a matrix that is read by parts and one that is written by parts had
different ages, and the wrong one went: docs/accuracy.md, ND to NZ.) Sectors of a chunk are the bits of one integer, so
a large copy is looked up chunk by chunk, not sector by sector. The 16 bits above them say which are dirty.

The cores of a product read the same tiles, one soon after the other. A tile that was touched a moment ago is not looked
up again: all of it is there as long as the chunks touched since do not fill the cache. And which chunk was used last
matters only when one is evicted, so chunks are put into that order only then.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

from device_model.aicore.core.program import Direction, Flow

SECTOR = 128  # bytes
_SHIFT = 7  # log2 of SECTOR
_SECTORS = 16  # of a chunk
_CHUNK_SHIFT = 11  # log2 of the bytes of a chunk
_CHUNK_BYTES = 1 << _CHUNK_SHIFT
_LAST = _SECTORS - 1
_FULL = (1 << _SECTORS) - 1
_WRITTEN = 1 + (1 << _SECTORS)  # times the bits of sectors: these, and the same once more as dirty
_KEY_BITS = 36  # bits of a chunk's number within its allocation; the bits above are the number of the allocation
_TILES = 4096  # that are remembered
_SHORT = 16384  # bytes; a row that is not longer costs more to remember than to look up

_WRITE = Direction.WRITE  # a member that is read through its enum takes ten times as long

Tile = tuple[Hashable, int, int, int, int, bool]  # a flow's allocation, start, length, rows and stride; True: written


class Cache:
    """The sectors of GM in a cache of *nbytes*, and which of them are dirty."""

    __slots__ = ("_bases", "_held", "_present", "_room", "_tiles", "_touched", "_used", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._room = nbytes // SECTOR
        self._held = 0
        self._bases: dict[Hashable, int] = {}
        # The number of a chunk -> a bit for each of its sectors, and above these a bit for each that is dirty. After
        # `_settle`, the one that was used last is at the end.
        self._present: OrderedDict[int, int] = OrderedDict()
        self._touched = 0  # sectors of all chunks that were ever touched, each time counted
        # A tile -> `_touched` before it was touched last, and its chunks in the order of its rows.
        self._tiles: dict[Tile, tuple[int, Sequence[int]]] = {}
        # The chunks that were used since `_settle`, by tile, in the order of their last use.
        self._used: dict[Tile, Sequence[int]] = {}

    def touch(self, flow: Flow) -> tuple[int, int]:
        """Read or write the bytes of *flow*; return how many were missing, and how many dirty bytes were evicted."""
        if flow.bypass:
            return self._look_up(flow, *self._parts(flow)) << _SHIFT, 0
        if flow.rows == 1 and flow.length <= _SHORT:
            return self._touch_row(flow)
        tile = flow.key, flow.start, flow.length, flow.rows, flow.stride, flow.direction is _WRITE
        before, chunks = self._tiles.get(tile, (0, ()))
        if chunks and self._touched - before <= self._room:
            missing = 0
        else:
            if len(self._tiles) >= _TILES:
                self._settle()
                self._tiles.clear()
            chunks, parts = self._parts(flow)
            missing = self._look_up(flow, chunks, parts)
            self._held += missing
        self._tiles[tile] = self._touched, chunks
        self._used.pop(tile, None)  # what is used again comes last
        self._used[tile] = chunks
        self._touched += len(chunks) * _SECTORS
        return missing << _SHIFT, self._evict() << _SHIFT if self._held > self._room else 0

    def _touch_row(self, flow: Flow) -> tuple[int, int]:
        """As `touch`, for a single row, without remembering it."""
        if self._used:
            self._settle()
        start, present = flow.start, self._present
        end = start + flow.length - 1
        first, last = start >> _SHIFT & _LAST, end >> _SHIFT & _LAST  # sectors, within their chunks
        left = (end >> _CHUNK_SHIFT) - (start >> _CHUNK_SHIFT)  # chunks after this one
        chunk = self._base(flow.key) + (start >> _CHUNK_SHIFT)
        self._touched += _SECTORS * (left + 1)
        mark = _WRITTEN if flow.direction is _WRITE else 1
        part, missing = _FULL >> first << first, 0
        while left >= 0:
            if not left:
                part &= (2 << last) - 1
            held = present.get(chunk, 0)
            if held:
                present.move_to_end(chunk)
            kept = held | part * mark
            if kept != held:
                present[chunk] = kept
                absent = part & ~held
                if absent == _FULL:
                    missing += _SECTORS
                else:
                    missing += absent.bit_count()
            part = _FULL
            chunk += 1
            left -= 1
        self._held += missing
        return missing << _SHIFT, self._evict() << _SHIFT if self._held > self._room else 0

    def _base(self, key: Hashable) -> int:
        """Return the number of the first chunk of an allocation."""
        return self._bases.setdefault(key, len(self._bases) << _KEY_BITS)

    def _parts(self, flow: Flow) -> tuple[Sequence[int], list[int]]:
        """Return the chunks that the rows of *flow* touch, in their order, and the sectors of each, as bits."""
        base = self._base(flow.key)
        start, length, rows, stride = flow.start, flow.length, flow.rows, flow.stride
        chunks: list[int] = []
        parts: list[int] = []
        for _ in range(rows):
            end = start + length - 1
            first, last = start >> _SHIFT & _LAST, end >> _SHIFT & _LAST
            chunk, final = base + (start >> _CHUNK_SHIFT), base + (end >> _CHUNK_SHIFT)
            head, tail = _FULL >> first << first, (2 << last) - 1
            if chunk < final:
                chunks += range(chunk, final + 1)
                parts += [head, *[_FULL] * (final - chunk - 1), tail]
            elif stride and not stride % _CHUNK_BYTES:  # all rows are as this one
                step = stride // _CHUNK_BYTES
                return range(chunk, chunk + rows * step, step), [head & tail] * rows
            else:
                chunks.append(chunk)
                parts.append(head & tail)
            start += stride
        return range(chunks[0], chunks[-1] + 1) if rows == 1 else chunks, parts

    def _look_up(self, flow: Flow, chunks: Sequence[int], parts: list[int]) -> int:
        """Return how many sectors of the *parts* of *chunks* are missing; unless *flow* bypasses the L2, keep them."""
        present, keeps = self._present, not flow.bypass
        mark = _WRITTEN if flow.direction is _WRITE else 1
        get, missing = present.get, 0
        for chunk, part in zip(chunks, parts, strict=True):
            held = get(chunk, 0)
            kept = held | part * mark
            if kept != held:
                absent = part & ~held
                if absent == _FULL:
                    missing += _SECTORS
                else:
                    missing += absent.bit_count()
                if keeps:
                    present[chunk] = kept
        return missing

    def _settle(self) -> None:
        """Put the chunks in the order of their last use."""
        move = self._present.move_to_end
        for chunks in self._used.values():
            for chunk in chunks:
                move(chunk)
        self._used.clear()

    def _evict(self) -> int:
        """Evict chunks until what is held fits; return how many of their sectors were dirty."""
        if self._used:
            self._settle()
        evicted = 0
        while self._held > self._room:
            _, held = self._present.popitem(last=False)
            self._held -= (held & _FULL).bit_count()
            if held > _FULL:
                evicted += (held >> _SECTORS).bit_count()
        return evicted
