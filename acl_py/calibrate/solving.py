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
    numbers = {each: each.of(profile) for each in goals}
    slopes, last = dict.fromkeys(goals, 1.0), dict[Value, tuple[int, float]]()
    if len(goals) == 1:
        [(each, goal)] = goals.items()
        slopes[each] = _slope(program, each, goal.reading, profile)
        if slopes[each] < _SLOPES[0]:
            return {}, {each: "what the model takes does not depend on it"}
    readings: dict[Value, float] = {}
    for _ in range(_STEPS):
        try:
            run = played(program, with_values(profile, numbers))
        except ValueError as error:
            return {}, dict.fromkeys(goals, f"{_listed(numbers)} contradict each other: {error}")
        readings = {each: goal.reading(run) for each, goal in goals.items()}
        for each, (number, reading) in last.items():
            if numbers[each] != number and len(goals) == 1:
                slope = (readings[each] - reading) / (numbers[each] - number)
                slopes[each] = min(max(slope, _SLOPES[0]), _SLOPES[1])
        missing = {each: goal.ns - readings[each] for each, goal in goals.items()}
        if all(goals[each].is_within(missing[each], _NEAR) for each in goals):
            break
        last = {each: (numbers[each], readings[each]) for each in goals}
        numbers = {each: max(0, round(numbers[each] + missing[each] / slopes[each])) for each in goals}
        if numbers == {each: number for each, (number, _) in last.items()}:
            break
    far = [each for each in goals if not goals[each].is_within(goals[each].ns - readings[each], _FAR)]
    problems = {
        each: f"the card took {goals[each].ns / 1000:.2f} us, and the model {readings[each] / 1000:.2f} us with the "
        f"nearest value, {numbers[each]}"
        for each in far
    }
    return {each: number for each, number in numbers.items() if each not in problems}, problems


def _slope(program: Program, each: Value, reading: Reading, profile: DeviceProfile) -> float:
    """Return by how much a reading moves with a value, of the model, a tenth or more above the value of *profile*."""
    number = each.of(profile)
    higher = number + max(_PROBE, number // 10)
    first, second = (reading(played(program, with_values(profile, {each: at}))) for at in (number, higher))
    return (second - first) / (higher - number)


def _listed(numbers: Mapping[Value, int]) -> str:
    return ", ".join(f"{each} = {number}" for each, number in numbers.items())
