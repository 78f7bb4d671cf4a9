"""Assigns units of unequal size to cores so that all cores end at about the same time.

Longest first: each unit, from the longest to the shortest, goes to the core with the smallest load so far. The busiest
core then has at most 4/3 - 1/(3 * cores) times its load in the best of all assignments (R. L. Graham, Bounds on
multiprocessing timing anomalies, 1969).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import fsum, isfinite

from device_model.aicore.runner import Result


@dataclass(frozen=True)
class Assignment:
    """An assignment of units to cores; str() gives the imbalance.

    Pass `units` to the kernel as an argument; a block goes through `units[GetBlockIdx()]`.

    Attributes:
        units: The indices of the units of each core.
        loads: The sum of the times of each core's units.
    """

    units: tuple[tuple[int, ...], ...]
    loads: tuple[float, ...]

    def __str__(self) -> str:
        return (
            f"{sum(map(len, self.units))} units on {len(self.units)} cores: the busiest has {self.busiest:.4g}, "
            f"the mean is {fsum(self.loads) / len(self.loads):.4g}, imbalance {100 * self.imbalance:.1f} %"
        )

    @property
    def busiest(self) -> float:
        """The time of the core with the largest load."""
        return max(self.loads)

    @property
    def imbalance(self) -> float:
        """How much longer the busiest core works than the mean, as a fraction; 0 if all work equally long."""
        whole = fsum(self.loads)
        return self.busiest * len(self.loads) / whole - 1 if whole else 0.0


def balance(times: Sequence[float], cores: int) -> Assignment:
    """Assign units of work to cores, longest first.

    The result depends on nothing but the arguments: equal units are assigned in their order, and of equally loaded
    cores the one with the lowest number comes first.

    Args:
        times: The time of each unit, measured (`block_us`) or estimated, in any unit of time.
        cores: The number of cores.

    Returns:
        The assignment; each core has its units in ascending order.

    Raises:
        ValueError: *cores* is below 1, or a time is negative or not finite.
    """
    if cores < 1:
        raise ValueError(f"{cores} cores: it must be 1 or more")
    for unit, time in enumerate(times):
        if not (isfinite(time) and time >= 0):
            raise ValueError(f"unit {unit} takes {time}: a time is a number from 0 on")
    heap = [(0.0, core) for core in range(cores)]
    heapify(heap)
    units: list[list[int]] = [[] for _ in range(cores)]
    for unit in sorted(range(len(times)), key=lambda unit: -times[unit]):
        load, core = heap[0]
        units[core].append(unit)
        heapreplace(heap, (load + times[unit], core))
    return Assignment(
        tuple(tuple(sorted(each)) for each in units),
        tuple(fsum(times[unit] for unit in each) for each in units),
    )


def block_us(result: Result) -> list[float]:
    """Return the time of each block of a launch in us, from its first instruction to its last, for `balance`.

    To measure units, launch the kernel with one unit for each block.

    Args:
        result: The result of a launch: `completion.work.result`.

    Raises:
        ValueError: The launch was stopped, or ran without timing.
    """
    if result.timeline is None:
        raise ValueError("the launch has no times: it was stopped, or run without timing")
    spans: dict[int, tuple[float, float]] = {}
    for program in result.programs:
        start, end = spans.get(program.block, (float("inf"), 0.0))
        for each in program.instructions:
            start, end = min(start, each.start), max(end, each.end)
        spans[program.block] = start, end
    scale = result.timeline.ns_per_cycle / 1000
    return [max(0.0, end - start) * scale for _, (start, end) in sorted(spans.items())]
