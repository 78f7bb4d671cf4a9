"""A calibration: trials on a card, one after another, and the values that they tell."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from acl_py.calibrate.calls import StepError
from acl_py.calibrate.card_trials import of_card, of_submission
from acl_py.calibrate.graph_trials import of_graphs
from acl_py.calibrate.machine import Machine
from acl_py.calibrate.mixtures import mixture
from acl_py.calibrate.readings import SLOW, Readings
from acl_py.calibrate.runs import Run, RunError, observed, runs
from acl_py.calibrate.solving import Goal, played, solved, with_gap
from acl_py.calibrate.trials import RUNS, Trial, chain, of_host, of_staging, of_waits, until
from acl_py.calibrate.values import Value, value, with_values
from acl_py.errors import AclError
from acl_py.programs.format import parse
from device_model.completions import Nanoseconds
from device_model.profile import DeviceProfile

MIXTURES, CHECKED = 40, 20
_OTHERS = 1000  # the number of the first mixture that is predicted
_LONG, _SHORT = 24, 4  # kernels in a row
_FALL = 0.9  # of the time at a smaller size: what is less contradicts it
_DEVIATIONS = 5  # times the median distance from the median: an outlier


@dataclass(frozen=True, slots=True)
class Found:
    """What a value is, and how it was measured."""

    number: int
    source: str


@dataclass
class Calibration:
    """The values found so far, and why others were not. *tell* is called with the name of each trial, and no program
    runs more often than *most_runs*.
    """

    machine: Machine
    profile: DeviceProfile
    tell: Callable[[str], None] = lambda _: None
    most_runs: int = 25
    found: dict[Value, Found] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    errors: list[float] = field(default_factory=list)
    gap_ns: Nanoseconds = 0
    base: DeviceProfile = field(init=False)

    def __post_init__(self) -> None:
        self.base = self.profile

    def run_host(self) -> None:
        """Measure what is the host's."""
        self.run([*of_waits(), *self._of_host()])

    def run_all(self) -> None:
        """Measure what is the host's and what is the card's."""
        self.run([*of_card(self.profile), *of_waits(), *of_submission(), *self._of_host()])

    def run(self, trials: Iterable[Trial], *, mixtures: int = MIXTURES) -> None:
        """Measure the costs of the common calls, and what the *trials* tell."""
        self.trim()
        self.mix(mixtures)
        for trial in trials:
            self.try_(trial)
        self.leave_out_contradictions()

    def check(self, count: int = CHECKED) -> None:
        """Predict other mixtures than those that were read, and note by how many percent each makespan is off."""
        for number in range(_OTHERS, _OTHERS + count):
            self.tell(f"other mixtures, {number - _OTHERS + 1} of {count}")
            document = mixture(number)
            there = median(run.end_ns for run in self._runs(document, RUNS))
            here = played(with_gap(document, self.gap_ns), self.profile).end_ns
            self.errors.append(100 * (here / there - 1))

    def _of_host(self) -> Iterable[Trial]:
        free_bytes, _ = self.machine.driver(self.machine.driver.cu.cuMemGetInfo)
        return [*of_host(self.profile, free_bytes), *of_graphs(self.profile), *of_staging(self.profile)]

    def trim(self) -> None:
        """Find out how much longer the measuring kernel lasts than the model's."""
        self.tell("kernels in a row")
        more = self._longer(self._median) - self._longer(self._ours)
        self.machine.trim_ns = round(more / (_LONG - _SHORT))

    def _longer(self, takes: Callable[[Trial], float]) -> float:
        return takes(chain(_LONG)) - takes(chain(_SHORT))

    def _median(self, trial: Trial) -> float:
        last = until(len(trial.program["steps"]) - 1)
        return median(last(run) for run in self._runs(trial.program, trial.runs))

    def _ours(self, trial: Trial) -> float:
        return until(len(trial.program["steps"]) - 1)(played(with_gap(trial.program, 0), self.profile))

    def mix(self, count: int) -> None:
        """Read the costs of the common calls off mixtures of them."""
        readings = Readings(self.profile)
        for number in range(count):
            self.tell(f"mixtures of calls, {number + 1} of {count}")
            document = mixture(number)
            found = observed(self._runs(document, RUNS))
            readings.read_calls({**document, "observed": found})
            readings.costs["sync"].append(found["host"][-1]["cost_us"])  # behind another synchronisation
        self._put(
            {
                value(f"host.{name}"): Found(int(ns), _of_mixture(name, readings, count))
                for name, ns in readings.values().items()
            }
        )
        self.gap_ns = self.profile.host.gap

    def try_(self, trial: Trial) -> None:
        """Run one trial, and find the values that it tells."""
        self.tell(trial.what)
        try:
            found = self._runs(trial.program, trial.runs)
        except (AclError, RunError, StepError) as error:
            self.missing.update({str(each): f"{trial.what}: {error}" for each, _ in trial.tells})
            return
        numbers = {each: [reading(run) for run in found] for each, reading in trial.tells}
        kept = {each: without_outliers(each_numbers) for each, each_numbers in numbers.items()}
        goals = {each: Goal(reading, median(kept[each])) for each, reading in trial.tells}
        solution, problems = solved(with_gap(trial.program, self.gap_ns), goals, self.profile)
        self.missing.update({str(each): f"{trial.what}: {problem}" for each, problem in problems.items()})
        self._put(
            {each: Found(number, _source(trial.what, numbers[each], kept[each])) for each, number in solution.items()}
        )

    def leave_out_contradictions(self) -> None:
        """Leave out points of curves at which more bytes, or more nodes, take clearly less time than fewer."""
        last: dict[str, tuple[Value, int]] = {}
        for each in sorted((each for each in self.found if each.sizes), key=lambda each: (str(each.name), each.sizes)):
            number, curve = self.found[each].number, f"{each.table}.{each.name}"
            before, most = last.get(curve, (each, 0))
            if number < _FALL * most:
                self.missing[str(each)] = f"{number} ns contradicts {before}, for which the card takes {most} ns"
                del self.found[each]
            else:
                last[curve] = each, number
        self._put({})

    def _put(self, found: Mapping[Value, Found]) -> None:
        self.found.update(found)
        self.profile = with_values(self.base, {each: of.number for each, of in self.found.items()})

    def _runs(self, document: dict[str, Any], count: int) -> list[Run]:
        return runs(self.machine, parse(document), min(count, self.most_runs))


def without_outliers(numbers: Sequence[float]) -> list[float]:
    """Return *numbers* without those that are far from their median, as they spread."""
    middle = median(numbers)
    spread = median(abs(number - middle) for number in numbers)
    most = max(_DEVIATIONS * spread, 0.02 * middle)
    return [number for number in numbers if abs(number - middle) <= most]


def _source(what: str, numbers: Sequence[float], kept: Sequence[float]) -> str:
    low, _, high = quantiles(kept, n=4) if len(kept) > 1 else [kept[0]] * 3
    text = f"measured: {what}, {len(kept)} runs, the middle half {low / 1000:.2f} to {high / 1000:.2f} us"
    outliers = [number for number in numbers if number not in kept]
    return f"{text}; {len(outliers)} outliers, up to {max(outliers) / 1000:.1f} us" if outliers else text


def _of_mixture(name: str, readings: Readings, count: int) -> str:
    costs = readings.costs.get(name)
    if not costs:
        return f"measured: {count} mixtures of calls, medians of {RUNS} runs"
    slow = [cost for cost in costs if cost > SLOW * median(costs)]
    low, _, high = quantiles(costs, n=4)
    text = f"measured: {len(costs)} calls in {count} mixtures, medians of {RUNS} runs, half {low:.2f} to {high:.2f} us"
    return f"{text}; {len(slow)} outliers, up to {max(slow):.1f} us" if slow else text
