"""A pool of buffers, or of anything of which there are few, that lets each rest before it is handed out again.

In-order pipes make one flag per turn enough: a loop that waits, at turn t, for the store of turn t - 1 - gap knows that
all stores before it are done, too. What they read may be filled again, what later ones read may not. A pool with that
gap hands out the former only, in whichever order buffers come back, and without a flag for each of them.
"""

from collections.abc import Iterable
from itertools import takewhile
from typing import Generic, TypeVar

from device_model.aicore.findings import KernelError

T = TypeVar("T")


class ResourcePool(Generic[T]):
    """Hands out *items*; one that was released comes back after *gap* other hand-outs at the earliest.

    With a gap of 0 it may come back at once. Of those that have rested, the one that was released first comes first;
    before all, those that never were out, in their order. To have n items out at a time, it needs n + gap of them.
    """

    def __init__(self, items: Iterable[T], gap: int = 0) -> None:
        if gap < 0:
            raise ValueError(f"a gap of {gap} hand-outs: it must be 0 or more")
        self.gap = gap
        self._count = 0  # hand-outs so far
        # In the order of their release; with the hand-out from which on each may go out.
        self._idle: list[tuple[int, T]] = [(0, item) for item in items]
        self._out: list[T] = []
        if len(self._idle) <= gap:
            raise ValueError(f"{len(self._idle)} items with a gap of {gap}: at least {gap + 1} are needed")

    def __repr__(self) -> str:
        return f"<ResourcePool {len(self._out)} out, {len(self._idle) - self.ready} resting, {self.ready} ready>"

    @property
    def ready(self) -> int:
        """How many items could be handed out now, one after the other."""
        return sum(1 for _ in takewhile(lambda each: each[1][0] <= self._count + each[0], enumerate(self._idle)))

    def Acquire(self) -> T:
        """The item that has rested longest; a KernelError if none has rested enough."""
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
        """Take *item* back; its rest begins."""
        for place, out in enumerate(self._out):
            if out is item:
                del self._out[place]
                self._idle.append((self._count + self.gap, item))
                return
        raise KernelError(f"{item!r} is not out", f"release what {self!r} has handed out, once")
