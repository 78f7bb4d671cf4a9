"""Flows that share what they cross, max-min fair.

A *flow* is a transfer in progress: a number of bytes, with a rate that it cannot exceed (its cap). Max-min fair means:
a flow whose cap is below the equal share gets its cap, and the bandwidth it leaves is divided among the others in the
same way. What flows share is decided by the two kinds of `Flows`: copies of AI cores share memories
(aicore.timing.bandwidth), transfers between devices share links (links.fabric).

Flows that cross the same memory or links and have the same cap have the same rate at any time, so they form one class.
A class counts the bytes that each of its flows has received since the class was last empty. A flow that starts at
reading r of that counter and moves n bytes ends at reading r + n. So when a flow starts or ends, only the rates of a
few classes change; nothing is updated for each flow. A launch has thousands of flows and a handful of classes.
"""

from collections.abc import Hashable
from heapq import heappop, heappush
from math import inf
from typing import Any

What = Any  # what a flow is for
Ask = Any  # what it asks for: a tuple
EPSILON = 1e-6  # bytes


class Class:
    """Flows that cross the same memory or links and have the same cap."""

    __slots__ = ("cap", "ends", "given", "loads", "rate", "together")

    def __init__(self, cap: float, together: float = inf, loads: tuple[tuple[Any, float], ...] = ()) -> None:
        self.cap = cap  # the largest rate of one flow
        self.together = together  # the largest rate of all its flows in sum
        self.loads = loads  # what each flow crosses, with the bytes there for each byte of the flow
        self.rate = 0.0  # of one flow, now
        self.given = 0.0  # bytes that each flow has received since the class was last empty
        self.ends: list[tuple[float, int, What]] = []  # a heap: the reading of `given` at which each flow ends


class Flows:
    """The flows in progress, in lists of classes; a subclass says how classes share. Times are in any unit."""

    def __init__(self, lists: int) -> None:
        self.now = 0.0
        self._next_end = inf
        self._is_stale = False  # True if rates, and `_next_end`, must be computed again
        self._classes: dict[Hashable, Class] = {}
        self._active: list[list[Class]] = [[] for _ in range(lists)]
        self._starts: list[tuple[float, int, What, Ask]] = []  # a heap: flows that have not begun
        self._sequence = 0

    def add(self, at: float, what: What, ask: Ask) -> None:
        """Start a flow for *ask* at time *at*, or now if that is past; *what* is returned when it ends."""
        self._sequence += 1
        heappush(self._starts, (at, self._sequence, what, ask))

    def next_at(self) -> float:
        """Return when the next flow begins or ends; inf if no flow is left."""
        if self._is_stale:
            self._share()
        return min(self._starts[0][0], self._next_end) if self._starts else self._next_end

    def next_ended(self, until: float = inf) -> list[What]:
        """Advance until a flow ends; return those that end then, or an empty list if none does up to *until*.

        In that case the time is *until*, unless it is infinite.
        """
        starts = self._starts
        ended: list[What] = []
        while not ended:
            if self._is_stale and not (starts and starts[0][0] <= self.now):
                self._share()
            if starts and (self._is_stale or starts[0][0] <= self._next_end):
                if starts[0][0] > until:
                    self._advance(until)
                    break
                at, _, what, ask = heappop(starts)
                self._advance(at)
                self._begin(what, ask)
            elif self._next_end == inf or self._next_end > until:
                if until != inf:
                    self._advance(until)
                break
            else:
                self._advance(self._next_end)
                self._end(ended)
        return ended

    def _end(self, ended: list[What]) -> None:
        """Move the flows that end now to *ended*."""
        for active in self._active:
            before = len(ended)
            for each in active:
                # Floats have 53 bits: late in a launch, a flow ends once its rest is below what the clock resolves.
                ends, reached = each.ends, each.given + EPSILON + each.rate * self.now * 1e-15
                while ends and ends[0][0] <= reached:
                    ended.append(heappop(ends)[2])
            if len(ended) > before:
                active[:] = [each for each in active if each.ends]
        self._is_stale = True

    def _begin(self, what: What, ask: Ask) -> None:
        """Put a flow into its class."""
        raise NotImplementedError  # pragma: no cover - a subclass has it

    def _advance(self, now: float) -> None:
        """Count what each flow has received up to *now*."""
        raise NotImplementedError  # pragma: no cover - a subclass has it

    def _share(self) -> None:
        """Compute the rate of each class, and when the next flow ends."""
        raise NotImplementedError  # pragma: no cover - a subclass has it
