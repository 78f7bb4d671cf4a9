"""Bandwidth that flows share: max-min fair over all that draw on one memory.

Flows that may take the same rate at most all have the same rate at any time: they are one class. Each class keeps one
clock of bytes that a flow of it has had; a flow ends when that clock has gone on by its size. So whatever joins or
leaves changes a few rates, and no flow.
"""

from collections.abc import Hashable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any, Generic, NamedTuple, TypeVar

What = TypeVar("What")
_EPSILON = 1e-6  # bytes
_WINDOW = 2000  # cycles over which the load of a memory is averaged


class Demand(NamedTuple):
    """What a flow asks for: *nbytes* of *memory*, *cap* bytes per cycle at most, after *latency_ns*.

    Flows of one *group* that may take the same get *together* bytes per cycle at most, all of them.
    """

    memory: int
    nbytes: float
    cap: float
    latency_ns: int
    group: Hashable = None
    together: float = inf


class _Class(Generic[What]):
    __slots__ = ("cap", "ends", "given", "rate", "together")

    def __init__(self, cap: float, together: float) -> None:
        self.cap = cap  # bytes per cycle of one flow at most
        self.together = together  # of all its flows at most
        self.rate = 0.0
        self.given = 0.0  # bytes that each of its flows has had since it had none
        self.ends: list[tuple[float, int, What]] = []  # a heap: at which reading of `given` each flow ends


class Bandwidth(Generic[What]):
    """Memories with so many bytes per cycle in all, and what flows from and to them; times are cycles.

    What one memory moves passes the next one too (HBM behind the L2).
    """

    def __init__(self, totals: Sequence[float]) -> None:
        self.now = 0.0
        self.mean_load = 0.0  # of the first memory, of late: what share of its bandwidth was in use
        self.owed = 0.0  # bytes that the first memory is still to take, when nobody else wants it
        self._load = 0.0  # of the first memory, now
        self._next_end = inf
        self._is_stale = False  # do rates, and what follows from them, still have to be found?
        self._classes: dict[tuple[int, float, object], _Class[What]] = {}
        self._active: list[list[_Class[What]]] = [[] for _ in totals]  # by memory
        self._memories = list(zip(totals, self._active, strict=True))
        self._starts: list[tuple[float, int, What, Demand]] = []  # a heap: flows that have not begun
        self._sequence = 0

    def add(self, at: float, what: What, demand: Demand) -> None:
        """*what* moves what *demand* says, from *at* on, or from now if that is over."""
        self._sequence += 1
        heappush(self._starts, (at, self._sequence, what, demand))

    def next_ended(self) -> list[What]:
        """Go on until flows end: what ended then; nothing if there are no more flows."""
        starts = self._starts
        ended: list[What] = []
        while not ended:
            if self._is_stale and not (starts and starts[0][0] <= self.now):
                self._share()
            if starts and (self._is_stale or starts[0][0] <= self._next_end):
                at, _, what, demand = heappop(starts)
                self._go_on(at)
                self._begin(what, demand)
            elif self._next_end is inf:
                break
            else:
                self._go_on(self._next_end)
                self._end(ended)
        return ended

    def _end(self, ended: list[What]) -> None:
        """Take out what ends now, into *ended*."""
        for active in self._active:
            before = len(ended)
            for each in active:
                # A late clock is coarse: what it cannot tell from its end has ended.
                ends, reached = each.ends, each.given + _EPSILON + each.rate * self.now * 1e-15
                while ends and ends[0][0] <= reached:
                    ended.append(heappop(ends)[2])
            if len(ended) > before:
                active[:] = [each for each in active if each.ends]
        self._is_stale = True

    def _begin(self, what: What, demand: Demand) -> None:
        memory, nbytes, cap, _, group, together = demand
        key = memory, cap, group
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = _Class(cap, together)
        if not found.ends:
            found.given = 0.0
            self._active[memory].append(found)
        self._sequence += 1
        heappush(found.ends, (found.given + nbytes, self._sequence, what))
        self._is_stale = True

    def _go_on(self, now: float) -> None:
        passed = now - self.now
        if passed > 0.0:
            load = self._load
            self.mean_load += (load - self.mean_load) * (passed / _WINDOW if passed < _WINDOW else 1.0)
            if self.owed:
                self.owed = max(0.0, self.owed - passed * self._memories[0][0] * (1.0 - load))
            for active in self._active:
                for each in active:
                    each.given += passed * each.rate
            self.now = now

    def _share(self) -> None:
        """New rates: nobody gets more than it can take, the rest is shared evenly."""
        now, next_end, used = self.now, inf, 0.0
        for total, active in self._memories:
            flows, wanted = 0, 0.0
            for each in active:
                count = len(each.ends)
                rate, together = each.cap, each.together
                if together < rate * count:
                    rate = together / count
                each.rate = rate
                flows += count
                wanted += rate * count
            left = total - used
            if wanted > left:
                if len(active) > 1:
                    active.sort(key=_rate)
                for each in active:
                    count = len(each.ends)
                    fair = left / flows
                    if fair < each.rate:
                        each.rate = fair
                    left -= each.rate * count
                    flows -= count
                wanted = total - used
            if active is self._active[0]:
                self._load = wanted / total
            used += wanted
            for each in active:
                remaining = each.ends[0][0] - each.given
                end = now + remaining / each.rate if remaining > 0.0 else now
                if end < next_end:
                    next_end = end
        self._next_end, self._is_stale = next_end, False


def _rate(each: "_Class[Any]") -> float:
    return each.rate
