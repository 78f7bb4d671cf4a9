"""Assigns units of unequal size to cores so that all cores end at about the same time.

Longest first: each unit, from the longest to the shortest, goes to the core with the smallest load so far. The busiest
core then has at most 4/3 - 1/(3 * cores) times its load in the best of all assignments (R. L. Graham, Bounds on
multiprocessing timing anomalies, 1969).

A `Balancer` begins with that, and learns from launches. A launch tells the time of each core, not of each unit. If a
core took longer than expected, all of its units become longer by one factor. That is done for the last launches in
turn, several times, so the times of units that have moved come apart. After a launch each core moves or exchanges one
unit at most, with one other core: larger changes trust times that are not known yet.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import fsum, isfinite
from typing import NamedTuple

from device_model.aicore.runner import Result

_SHOWN = 8  # moved units in a text
_NOTHING = 1e-9  # of a load: a smaller gain is none
_REMEMBERED = 8  # launches from which a balancer learns
_SWEEPS = 10  # times that it goes through them


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


@dataclass(frozen=True)
class Moves:
    """The times that a `Balancer` learned from a launch, and the units that it moved; str() is the text for users.

    Attributes:
        launch: The number of the launch, from 1 on.
        busiest: The time of its slowest core.
        mean: The mean time of its cores.
        moved: What is elsewhere in the next launch: (unit, from core, to core).
        planned: The imbalance that the new assignment has by the times learned so far.
        bounded: The cores whose times differed from what was expected by more than the bound.
    """

    launch: int
    busiest: float
    mean: float
    moved: tuple[tuple[int, int, int], ...]
    planned: float
    bounded: tuple[int, ...]

    def __str__(self) -> str:
        text = [f"launch {self.launch}: the slowest core took {self.busiest:.4g}, the mean {self.mean:.4g}"]
        if self.mean:
            text[0] += f", {100 * self.imbalance:.1f} % more"
        places = ", ".join(f"{unit} from core {source} to {target}" for unit, source, target in self.moved[:_SHOWN])
        others = f" and {len(self.moved) - _SHOWN} others" if len(self.moved) > _SHOWN else ""
        units = "unit" if len(self.moved) == 1 else "units"
        text.append(f"moved {len(self.moved)} {units}: {places}{others}" if self.moved else "moved nothing")
        text.append(f"planned imbalance {100 * self.planned:.1f} %")
        if self.bounded:
            text.append(f"beyond the bound: core {', '.join(map(str, self.bounded))}")
        return "; ".join(text)

    @property
    def imbalance(self) -> float:
        """How much longer the slowest core of the launch took than the mean, as a fraction."""
        return self.busiest / self.mean - 1 if self.mean else 0.0


class Balancer:
    """Assigns units to cores again after each launch, by the times that the cores took.

        balancer = asc.Balancer(lengths, cores=8)
        for _ in range(10):
            launch = await rows[8](x, y, balancer.assignment.units)
            await acl_py.SynchronizeDevice()
            print(balancer.learn(asc.block_us(launch.work.result)))

    What follows from a launch depends on the arguments and on the last eight launches, and on nothing else. Of these
    the best balanced one is the place from which units move. So a move that was a mistake is taken back. Of launches
    with the same assignment only the last one counts there, because units may take another time than before.

    Attributes:
        assignment: The assignment for the next launch.
        times: The time of each unit, as learned so far; from the first launch on in the unit of the measured times.

    Args:
        times: An estimate of the time of each unit, in any unit: its length, or 1 for each. The better it is, the
            fewer launches it takes.
        cores: The number of cores.
        weight: How much a launch counts, over 0 and up to 1. The time of a unit is an exponential mean: older launches
            count less and less.
        bound: By which factor a launch may lengthen or shorten a time at once, over 1. So an outlier does little harm.
        margin: Nothing moves once the slowest core takes longer than the mean by this fraction or less.

    Raises:
        ValueError: An argument is outside its range; see also `balance`.
    """

    def __init__(
        self, times: Sequence[float], cores: int, *, weight: float = 0.5, bound: float = 2.0, margin: float = 0.02
    ) -> None:
        if not 0 < weight <= 1:
            raise ValueError(f"weight={weight}: it must be over 0 and at most 1")
        if not (bound > 1 and isfinite(bound)):
            raise ValueError(f"bound={bound}: it must be a factor over 1")
        if not (margin >= 0 and isfinite(margin)):
            raise ValueError(f"margin={margin}: it must be 0 or more")
        self.assignment = balance(times, cores)
        self.times = list(map(float, times))
        self._weight, self._bound, self._margin = weight, bound, margin
        self._launches = 0
        self._last: deque[_Launch] = deque(maxlen=_REMEMBERED)

    def __repr__(self) -> str:
        return f"<Balancer after {self._launches} launches: {self.assignment}>"

    def learn(self, measured: Sequence[float]) -> Moves:
        """Learn from a launch with the present assignment; return what moves for the next one.

        Args:
            measured: The time of each core, in its order: `block_us` of the launch.

        Raises:
            ValueError: There is not one time for each core, or a time is negative or not finite.
        """
        launched = self.assignment
        if len(measured) != len(launched.units):
            raise ValueError(
                f"{len(measured)} times: the assignment is for {len(launched.units)} cores, so launch as many blocks, "
                "and give the time of each"
            )
        for core, time in enumerate(measured):
            if not (isfinite(time) and time >= 0):
                raise ValueError(f"core {core} took {time}: a time is a number from 0 on")
        self._launches += 1
        mean = fsum(measured) / len(measured)
        launch = _Launch(launched.units, tuple(measured), max(measured) / mean - 1 if mean else 0.0)
        if not self._last:  # until now the times were in a unit of their own
            whole = fsum(self.times)
            self.times = [time * fsum(measured) / whole if whole else time for time in self.times]
        self._last.append(launch)
        bounded = self._update()
        best = self._best()
        units = best.units if best.imbalance <= self._margin else self._moved(best.units)
        self.assignment = Assignment(units, tuple(fsum(self.times[unit] for unit in each) for each in units))
        was = {unit: core for core, each in enumerate(launched.units) for unit in each}
        moved = tuple(
            sorted((unit, was[unit], core) for core, each in enumerate(units) for unit in each if was[unit] != core)
        )
        return Moves(self._launches, max(measured), mean, moved, self.assignment.imbalance, bounded)

    def _best(self) -> "_Launch":
        """Return the best balanced of the last launches, of which each assignment has its newest one."""
        newest: dict[tuple[tuple[int, ...], ...], _Launch] = {}
        for launch in reversed(self._last):
            newest.setdefault(launch.units, launch)
        return min(newest.values(), key=lambda each: each.imbalance)

    def _update(self) -> tuple[int, ...]:
        """Take the last launches into the times; return the cores of the newest that were beyond the bound."""
        bounded: tuple[int, ...] = ()
        for sweep in range(_SWEEPS):
            for launch in self._last:
                beyond = self._take(launch)
                if sweep == 0 and launch is self._last[-1]:
                    bounded = beyond
        return bounded

    def _take(self, launch: "_Launch") -> tuple[int, ...]:
        """Move the times of units towards those that *launch* measured; return the cores that were beyond the bound."""
        beyond = []
        for core, (units, time) in enumerate(zip(launch.units, launch.measured, strict=True)):
            expected = fsum(self.times[unit] for unit in units)
            if not expected:  # nothing is known of these units but their number
                for unit in units:
                    self.times[unit] = self._weight * time / len(units)
                continue
            factor = min(max(time / expected, 1 / self._bound), self._bound)
            if factor != time / expected:
                beyond.append(core)
            for unit in units:
                self.times[unit] *= 1 + self._weight * (factor - 1)
        return tuple(beyond)

    def _moved(self, units: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
        """Return *units* after the busiest core has moved or exchanged a unit with the least busy one, the next busy
        one with the next, and so on.
        """
        cores = [list(each) for each in units]
        loads = [fsum(self.times[unit] for unit in each) for each in cores]
        order = sorted(range(len(cores)), key=lambda core: -loads[core])
        for source, target in zip(order[: len(order) // 2], reversed(order), strict=False):
            best, least = None, loads[source] * (1 - _NOTHING)
            for unit in cores[source]:
                for other in (None, *cores[target]):
                    change = self.times[unit] - (0.0 if other is None else self.times[other])
                    most = max(loads[source] - change, loads[target] + change)
                    if most < least:
                        best, least = (unit, other), most
            if best is not None:
                unit, other = best
                cores[source].remove(unit)
                cores[target].append(unit)
                if other is not None:
                    cores[target].remove(other)
                    cores[source].append(other)
        return tuple(tuple(sorted(each)) for each in cores)


class _Launch(NamedTuple):
    """A launch that a `Balancer` remembers."""

    units: tuple[tuple[int, ...], ...]
    measured: tuple[float, ...]
    imbalance: float


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
