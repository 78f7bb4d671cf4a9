"""Addresses: from an address to the allocation that holds it, alive or freed not long ago."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator

from device_model.memory.allocation import Allocation, Buffer

_REMEMBERED = 4096  # freed allocations, and addresses that were searched for
_NEAR = 1 << 20  # an address this many bytes from an allocation is not near it any more


class AddressMap:
    """The living allocations of an address space, sorted by address; none overlaps another.

    `by_base` is for the hot path of `locate`: most addresses are the start of an allocation, and a dict finds one of
    100,000 allocations faster than a search does.
    """

    __slots__ = ("_bases", "_recent", "by_base")

    def __init__(self) -> None:
        self.by_base: dict[int, Allocation] = {}
        self._bases: list[int] = []
        # Host programs use a few addresses inside allocations again and again. Cleared at each change.
        self._recent: dict[int, Allocation] = {}

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Iterator[Allocation]:
        return iter(self.by_base.values())

    def add(self, allocation: Allocation) -> None:
        """Add an allocation."""
        self._recent.clear()
        address = allocation.address
        bases = self._bases
        if not bases or address > bases[-1]:
            bases.append(address)
        else:
            bases.insert(bisect_left(bases, address), address)
        self.by_base[address] = allocation

    def remove(self, allocation: Allocation) -> None:
        """Remove an allocation."""
        self._recent.clear()
        del self.by_base[allocation.address]
        del self._bases[bisect_left(self._bases, allocation.address)]

    def floor(self, address: int) -> Allocation | None:
        """Return the last allocation that starts at or before *address*; it may also end before it."""
        allocation = self._recent.get(address)
        if allocation is None and (index := bisect_right(self._bases, address)):
            allocation = self.by_base[self._bases[index - 1]]
            if len(self._recent) >= _REMEMBERED:
                self._recent.clear()
            self._recent[address] = allocation
        return allocation

    def ceiling(self, address: int) -> Allocation | None:
        """Return the first allocation that starts after *address*."""
        index = bisect_right(self._bases, address)
        return self.by_base[self._bases[index]] if index < len(self._bases) else None

    def overlapping(self, address: int, nbytes: int) -> Allocation | None:
        """Return an allocation that shares a byte with the range, if there is one."""
        before = self.floor(address)
        if before is not None and address < before.address + before.nbytes:
            return before
        after = self.ceiling(address)
        return after if after is not None and after.address < address + nbytes else None

    def whereabouts(self, address: int) -> str | None:
        """Say where *address* is relative to the nearest allocation: "64 bytes past the end of <Buffer ...>".

        Returns None if no allocation is near.
        """
        near: list[tuple[int, str]] = []
        if (before := self.floor(address)) is not None:
            past = address - before.address - before.nbytes
            place = f"{past} bytes past the end" if past else "right at the end"
            near.append((past, f"{place} of {whole(before)!r}"))
        if (after := self.ceiling(address)) is not None:
            near.append((after.address - address, f"{after.address - address} bytes before {whole(after)!r}"))
        distance, text = min(near, default=(_NEAR, ""))
        return text if distance < _NEAR else None


class Graveyard:
    """The last allocations that were freed, for messages about their addresses."""

    __slots__ = ("_stones",)

    def __init__(self) -> None:
        self._stones: deque[Allocation] = deque(maxlen=_REMEMBERED)

    def bury(self, allocation: Allocation) -> None:
        """Remember a freed allocation, without its bytes."""
        self._stones.append(allocation if allocation.is_dropped else allocation.tombstone())

    def find(self, address: int) -> Allocation | None:
        """Return the freed allocation that last held *address*, or None."""
        return next((s for s in reversed(self._stones) if s.address <= address < s.address + s.nbytes), None)


def whole(allocation: Allocation) -> Buffer:
    """Return the buffer over all of an allocation."""
    return Buffer(allocation, 0, allocation.nbytes)
