"""A calibration: trials on a card, in rounds, and then the values that they tell, one after another."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles

from acl_py.calibrate.calls import StepError
from acl_py.calibrate.card_trials import of_bus, of_card, of_submission
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
ROUNDS = 3
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
    """The values found so far, and why others were not. *tell* is called with the name of each trial, and none counts
    more than *most_runs* times.
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
    _measured: dict[str, list[Run]] = field(default_factory=dict)  # by the name of the trial
    _refused: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.base = self.profile

    def run_host(self) -> None:
        """Measure what is the host's, and the bus between it and the card."""
        self.run([*of_bus(self.profile), *of_waits(), *of_submission(), *self._of_host()])

    def run_all(self) -> None:
        """Measure what is the host's and what is the card's."""
        trials = (*of_bus(self.profile), *of_card(self.profile), *of_waits(), *of_submission(), *self._of_host())
        self.run(trials)

    def run(self, trials: Sequence[Trial], *, mixtures: int = MIXTURES, checked: int = CHECKED) -> None:
        """Measure the costs of the common calls, and what the *trials* tell; then predict other mixtures of calls.

        All run in rounds, because what a host is slow at changes from second to second.
        """
        self.trim()
        mixed, others = _mixtures(range(mixtures)), _mixtures(range(_OTHERS, _OTHERS + checked))
        rounds = min(ROUNDS, self.most_runs)
        for number in range(rounds):
            for trial in (*mixed, *trials, *others):
                self.tell(f"{trial.what} (round {number + 1} of {rounds})")
                self._measure(trial, -(-min(trial.runs, self.most_runs) // rounds))
        self._mix(mixed)
        for trial in trials:
            self.solve(trial)
        self.leave_out_contradictions()
        self.errors += map(self._error, others)

    def _error(self, trial: Trial) -> float:
        """Return by how many percent the model is off for the makespan of *trial*."""
        there = median(run.end_ns for run in self._measured[trial.what])
        return 100 * (played(with_gap(trial.program, self.gap_ns), self.profile).end_ns / there - 1)

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
        return median(last(run) for run in runs(self.machine, parse(trial.program), trial.runs))

    def _ours(self, trial: Trial) -> float:
        return until(len(trial.program["steps"]) - 1)(played(with_gap(trial.program, 0), self.profile))

    def _measure(self, trial: Trial, count: int) -> None:
        """Run a trial *count* times, if the driver has not refused it."""
        if trial.what in self._refused:
            return
        try:
            self._measured.setdefault(trial.what, []).extend(runs(self.machine, parse(trial.program), count))
        except (AclError, RunError, StepError) as error:
            self._refused[trial.what] = str(error)

    def _mix(self, mixed: Sequence[Trial]) -> None:
        """Read the costs of the common calls off mixtures of them."""
        readings = Readings(self.profile)
        for trial in mixed:
            seen = observed(self._measured[trial.what])
            readings.read_calls({**trial.program, "observed": seen})
            readings.costs["sync"].append(seen["host"][-1]["cost_us"])  # behind another synchronisation
        self._put(
            {
                value(f"host.{name}"): Found(int(ns), _of_mixture(name, readings, len(mixed)))
                for name, ns in readings.values().items()
            }
        )
        self.gap_ns = self.profile.host.gap

    def solve(self, trial: Trial) -> None:
        """Find the values that a trial tells, which was measured."""
        if trial.what in self._refused:
            why = f"{trial.what}: {self._refused[trial.what]}"
            self.missing.update({str(each): why for each, _ in trial.tells})
            return
        found = self._measured[trial.what]
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


def _mixtures(numbers: Iterable[int]) -> list[Trial]:
    return [Trial(f"mixture {number} of calls", mixture(number), ()) for number in numbers]


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
