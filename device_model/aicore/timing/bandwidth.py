"""Bandwidth that the cores of a launch share: each memory divides its bandwidth among its flows (flows.py).

A flow is a copy from or to one memory.
"""

from collections.abc import Hashable, Sequence
from heapq import heappush
from math import inf
from typing import Any, NamedTuple

from device_model.flows import Class, Flows

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


class Bandwidth(Flows):
    """Memories that flows share, each with a total rate in bytes per cycle; times are cycles.

    The bytes that a memory moves also use the bandwidth of the next one: all traffic of HBM passes the L2.
    """

    def __init__(self, totals: Sequence[float]) -> None:
        super().__init__(len(totals))
        self.mean_load = 0.0  # share of the first memory's bandwidth in use, averaged over _WINDOW
        self.owed = 0.0  # bytes that the first memory still has to write, in time that no flow uses
        self._load = 0.0  # share of the first memory's bandwidth in use now
        self._memories = list(zip(totals, self._active, strict=True))

    def _begin(self, what: Any, ask: Demand) -> None:
        memory, nbytes, cap, _, group, together = ask
        key = memory, cap, group
        class_ = self._classes.get(key)
        if class_ is None:
            class_ = self._classes[key] = Class(cap, together)
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
        self._load = 0.0
        for total, active in self._memories:
            if not active:
                continue
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


def _rate(each: Class) -> float:
    return each.rate
