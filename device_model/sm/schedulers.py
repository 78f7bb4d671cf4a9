"""The schedulers and units of one SM, which its warps use in the order of time.

Warp w of the SM uses scheduler w % 4, which issues one instruction a cycle. Each scheduler has its own units of
arithmetic; the LSU and the path to memory are there once. Of warps that can go on at the same time the oldest is first.
The players of both kinds of kernels are built on this: they differ in what they play, rows or runs.

Times are cycles from the start of the blocks.
"""

from abc import abstractmethod
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar

from device_model.sm.instructions import Unit
from device_model.sm.memory import SmMemory
from device_model.sm.spec import SmSpec

SCHEDULERS = 4


class _Warp(Protocol):
    number: int
    scheduler: int


W = TypeVar("W", bound=_Warp)


class Barrier(Generic[W]):
    """A barrier, or a phase of an mbarrier: who has arrived. Those who wait go on *latency* cycles after the last."""

    __slots__ = ("arrived", "latency", "time", "waiting")

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.arrived = 0
        self.time = 0.0
        self.waiting: list[W] = []

    @property
    def end(self) -> float:
        """When those who wait go on, once all have arrived."""
        return self.time + self.latency


class Schedulers(Generic[W]):
    """An SM that shares its units out, while *sharers* SMs of the card do the same."""

    def __init__(self, spec: SmSpec, sharers: int) -> None:
        self.memory = SmMemory(spec, sharers)
        self.arrival = spec.barrier_arrival
        self.warps: Sequence[W] = ()  # by number
        self.issue = [0.0] * SCHEDULERS  # when each scheduler is free
        self.pipes = [[0.0] * len(Unit) for _ in range(SCHEDULERS)]  # when its units are
        self.lsu = 0.0  # when the LSU is free
        self.to_run: list[tuple[float, int]] = []  # when which warp goes on

    def take_turns(self) -> None:
        """Let the warps go on until none can."""
        to_run, issue, warps = self.to_run, self.issue, self.warps
        while to_run:
            now, number = heappop(to_run)
            warp = warps[number]
            free = issue[warp.scheduler]
            if free > now:
                heappush(to_run, (free, number))
            else:
                self.step(warp, now)

    def arrive(self, barrier: Barrier[W], time: float, count: int = 1) -> None:
        """Note *count* arrivals at *barrier*."""
        barrier.time = max(barrier.time, time) + self.arrival
        barrier.arrived += count

    @abstractmethod
    def step(self, warp: W, now: float) -> None:
        """Do what *warp* does next, at *now*."""
