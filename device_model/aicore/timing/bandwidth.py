"""Bandwidth that flows share: each memory divides its bandwidth among its flows, max-min fair.

A *flow* is a copy in progress: a number of bytes from or to one memory, with a rate that it cannot exceed (its cap).
Max-min fair means: a flow whose cap is below the equal share gets its cap, and the bandwidth it leaves is divided
among the others in the same way.

All flows with the same cap have the same rate at any time, so they form one class. A class counts the bytes that each
of its flows has received since the class was last empty. A flow that starts at reading r of that counter and moves n
bytes ends at reading r + n. So when a flow starts or ends, only the rates of a few classes change; nothing is updated
for each flow. A launch has thousands of flows and a handful of classes.
"""

from collections.abc import Hashable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any, Generic, NamedTuple, TypeVar

What = TypeVar("What")
_EPSILON = 1e-6  # bytes
_WINDOW = 2000  # cycles over which the load of a memory is averaged


class Demand(NamedTuple):
    """A flow's request: *nbytes* of *memory* (its index), at most *cap* bytes per cycle, after *latency_ns*.

    All flows of one *group* and cap get at most *together* bytes per cycle in sum.
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
        self.cap = cap  # most bytes per cycle of one flow
        self.together = together  # most bytes per cycle of all its flows in sum
        self.rate = 0.0  # bytes per cycle of one flow, now
        self.given = 0.0  # bytes that each flow has received since the class was last empty
        self.ends: list[tuple[float, int, What]] = []  # a heap: the reading of `given` at which each flow ends


class Bandwidth(Generic[What]):
    """Memories that flows share, each with a total rate in bytes per cycle; times are cycles.

    The bytes that a memory moves also use the bandwidth of the next one: all traffic of HBM passes the L2.
    """

    def __init__(self, totals: Sequence[float]) -> None:
        self.now = 0.0
        self.mean_load = 0.0  # share of the first memory's bandwidth in use, averaged over _WINDOW
        self.owed = 0.0  # bytes that the first memory still has to write, in time that no flow uses
        self._load = 0.0  # share of the first memory's bandwidth in use now
        self._next_end = inf
        self._is_stale = False  # True if rates, and `_next_end`, must be computed anew
        self._classes: dict[tuple[int, float, object], _Class[What]] = {}
        self._active: list[list[_Class[What]]] = [[] for _ in totals]  # by memory
        self._memories = list(zip(totals, self._active, strict=True))
        self._starts: list[tuple[float, int, What, Demand]] = []  # a heap: flows that have not begun
        self._sequence = 0

    def add(self, at: float, what: What, demand: Demand) -> None:
        """Start a flow for *demand* at cycle *at*, or now if that is past; *what* is returned when it ends."""
        self._sequence += 1
        heappush(self._starts, (at, self._sequence, what, demand))

    def next_ended(self) -> list[What]:
        """Advance until a flow ends; return those that end then, or an empty list if no flow is left."""
        starts = self._starts
        ended: list[What] = []
        while not ended:
            if self._is_stale and not (starts and starts[0][0] <= self.now):
                self._share()
            if starts and (self._is_stale or starts[0][0] <= self._next_end):
                at, _, what, demand = heappop(starts)
                self._advance(at)
                self._begin(what, demand)
            elif self._next_end is inf:
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
                ends, reached = each.ends, each.given + _EPSILON + each.rate * self.now * 1e-15
                while ends and ends[0][0] <= reached:
                    ended.append(heappop(ends)[2])
            if len(ended) > before:
                active[:] = [each for each in active if each.ends]
        self._is_stale = True

    def _begin(self, what: What, demand: Demand) -> None:
        memory, nbytes, cap, _, group, together = demand
        key = memory, cap, group
        class_ = self._classes.get(key)
        if class_ is None:
            class_ = self._classes[key] = _Class(cap, together)
        if not class_.ends:
            class_.given = 0.0
            self._active[memory].append(class_)
        self._sequence += 1
        heappush(class_.ends, (class_.given + nbytes, self._sequence, what))
        self._is_stale = True

    def _advance(self, now: float) -> None:
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
        """Compute the rate of each class: its cap if that is below the fair share, otherwise the fair share."""
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
