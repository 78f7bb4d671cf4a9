"""A pool of buffers, or of other items, that hands a released item out again only after a gap.

A pipe finishes in order, so one flag per round of a loop is enough. A loop that waits, in round t, for the store of
round t - 1 - gap knows that all earlier stores have finished too. Buffers that those stores read may be filled again;
buffers of later stores may not. A pool with that gap hands out only the former, in whatever order they are released,
and without a flag for each buffer.
"""

from collections.abc import Iterable
from itertools import takewhile
from typing import Generic, TypeVar

from device_model.kernel.findings import KernelError

T = TypeVar("T")


class ResourcePool(Generic[T]):
    """Hands out *items*; a released item is handed out again only after *gap* others.

    With a gap of 0 it may be handed out again at once. Items that were never out come first, in their order, and then
    the ones released first. To have n items out at a time, the pool needs n + *gap* items.

    Raises:
        ValueError: *gap* is below 0, or there are not more items than *gap*.
    """

    def __init__(self, items: Iterable[T], gap: int = 0) -> None:
        if gap < 0:
            raise ValueError(f"a gap of {gap} hand-outs: it must be 0 or more")
        self.gap = gap
        self._count = 0  # hand-outs so far
        # In the order of their release, each with the number of the first hand-out at which it may go out.
        self._idle: list[tuple[int, T]] = [(0, item) for item in items]
        self._out: list[T] = []
        if len(self._idle) <= gap:
            raise ValueError(f"{len(self._idle)} items with a gap of {gap}: at least {gap + 1} are needed")

    def __repr__(self) -> str:
        return f"<ResourcePool {len(self._out)} out, {len(self._idle) - self.ready} resting, {self.ready} ready>"

    @property
    def ready(self) -> int:
        """The number of items that could be handed out now, one after the other."""
        return sum(1 for _ in takewhile(lambda each: each[1][0] <= self._count + each[0], enumerate(self._idle)))

    def Acquire(self) -> T:
        """Hand out the item that was released first; raise KernelError if none is ready."""
        if not self._idle or self._idle[0][0] > self._count:
            resting = f", {len(self._idle)} rest for {self._idle[0][0] - self._count} more" if self._idle else ""
            raise KernelError(
                f"{self!r} has nothing to hand out: {len(self._out)} items are out{resting}",
                f"Release() one earlier, or give the pool more items: as many as are out at a time, and {self.gap}",
            )
        _, item = self._idle.pop(0)
        self._count += 1
        self._out.append(item)
        return item

    def Release(self, item: T) -> None:
        """Take *item* back; raise KernelError if it is not out."""
        for place, out in enumerate(self._out):
            if out is item:
                del self._out[place]
                self._idle.append((self._count + self.gap, item))
                return
        raise KernelError(f"{item!r} is not out", f"release what {self!r} has handed out, once")
