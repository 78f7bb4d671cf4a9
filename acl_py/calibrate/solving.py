"""Values from readings: a value is what lets the model take as long for a trial as the card did."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from acl_py.calibrate.runs import Run, Timed
from acl_py.calibrate.trials import Reading
from acl_py.calibrate.values import Value, with_values
from acl_py.programs.format import Program, parse
from acl_py.programs.replay import replay
from device_model.completions import Nanoseconds
from device_model.profile import DeviceProfile

_STEPS = 10  # of the search, which needs two where the model is linear and its values do not depend on each other
_NEAR = (4, 2e-6)  # ns, or a part of a reading
_FAR = (200, 0.01)  # a value whose reading is as far off has not been found
_PROBE = 20
_SLOPES = (0.02, 1e6)  # of a reading by its value


@dataclass(frozen=True, slots=True)
class Goal:
    """What a reading was on the card, in nanoseconds."""

    reading: Reading
    ns: float

    def is_within(self, missing_ns: float, most: tuple[float, float]) -> bool:
        """Whether a difference from the goal is small."""
        return abs(missing_ns) <= max(most[0], most[1] * self.ns)


def played(program: Program, profile: DeviceProfile) -> Run:
    """Return the run of a program on the model."""
    run = replay(program, device=profile)
    calls = [Timed(_ns(call.enter_us), _ns(call.exit_us), call.ret, call.extra) for call in run.host]
    return Run(calls, _ns(run.makespan_us))


def with_gap(document: Mapping[str, Any], gap_ns: Nanoseconds) -> Program:
    """Return the program in *document*, with so much time between two calls."""
    return parse({**document, "gap_us": gap_ns / 1000})


def _ns(us: float) -> Nanoseconds:
    return round(1000 * us)


def solved(
    program: Program, goals: Mapping[Value, Goal], profile: DeviceProfile
) -> tuple[dict[Value, int], dict[Value, str]]:
    """Return the numbers with which the model reaches the *goals*, and why others were not found.

    All are sought together: each moves by what its own reading misses. So each reading has to move about as much as its
    value does. Of a value that is sought alone, it may move otherwise. The other values are those of *profile*.
    """
    search = _Search(program, goals, profile)
    if len(goals) == 1 and not search.tries_its_slope():
        return {}, dict.fromkeys(goals, "what the model takes does not depend on it")
    try:
        search.run()
    except ValueError as error:
        listed = ", ".join(f"{each} = {number}" for each, number in search.numbers.items())
        return {}, dict.fromkeys(goals, f"{listed} contradict each other: {error}")
    problems = search.problems()
    return {each: number for each, number in search.numbers.items() if each not in problems}, problems


class _Search:
    """A search for the numbers with which the model reaches *goals*."""

    def __init__(self, program: Program, goals: Mapping[Value, Goal], profile: DeviceProfile) -> None:
        self._program, self._goals, self._profile = program, goals, profile
        self.numbers = {each: each.of(profile) for each in goals}
        self._slopes = dict.fromkeys(goals, 1.0)
        self._readings: dict[Value, float] = {}

    def run(self) -> None:
        """Move the numbers until all goals are near, or nothing moves any more."""
        self._readings = self._read(self.numbers)
        for _ in range(_STEPS):
            missing = {each: goal.ns - self._readings[each] for each, goal in self._goals.items()}
            numbers = {each: max(0, round(self.numbers[each] + missing[each] / self._slopes[each])) for each in missing}
            if numbers == self.numbers or all(self._goals[each].is_within(ns, _NEAR) for each, ns in missing.items()):
                return
            readings = self._read(numbers)
            if len(numbers) == 1:
                self._note_slope(numbers, readings)
            self.numbers, self._readings = numbers, readings

    def tries_its_slope(self) -> bool:
        """Try by how much the reading of the only value moves with it; return whether it does."""
        [(each, number)] = self.numbers.items()
        self._readings = self._read(self.numbers)
        higher = {each: number + max(_PROBE, number // 10)}
        readings = self._read(higher)
        self._note_slope(higher, readings)
        return readings != self._readings

    def problems(self) -> dict[Value, str]:
        """Say of each value that was not found how far the model is."""
        return {
            each: f"the card took {goal.ns / 1000:.2f} us, and the model {self._readings[each] / 1000:.2f} us with the "
            f"nearest value, {self.numbers[each]}"
            for each, goal in self._goals.items()
            if not goal.is_within(goal.ns - self._readings[each], _FAR)
        }

    def _read(self, numbers: Mapping[Value, int]) -> dict[Value, float]:
        run = played(self._program, with_values(self._profile, numbers))
        return {each: goal.reading(run) for each, goal in self._goals.items()}

    def _note_slope(self, numbers: Mapping[Value, int], readings: Mapping[Value, float]) -> None:
        """Note how the reading of the only value moves, between the numbers so far and *numbers*."""
        [(each, number)] = numbers.items()
        slope = (readings[each] - self._readings[each]) / (number - self.numbers[each])
        self._slopes[each] = min(max(slope, _SLOPES[0]), _SLOPES[1])
