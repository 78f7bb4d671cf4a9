"""The search: shrinking and strategies, on programs that are only a list of choice points."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from acl_py.explore.explorer import DefaultFailsError, explore
from acl_py.explore.limits import UntimedError
from acl_py.explore.outcomes import Outcome
from acl_py.explore.shrinking import shrink
from acl_py.explore.strategies import strategy
from acl_py.many.crew import Crew
from acl_py.schedules import Deviation, Point
from device_model.choices import Choice

POINTS = tuple(Point(Choice.DELAY, number, 3) for number in range(1, 31))


class Program:
    """Fails if a run takes at least the given option at each of some points."""

    def __init__(self, *culprits):
        self.culprits = culprits
        self.runs = []

    def __call__(self, decide):
        taken = [(point, decide(point, ("a stream",))) for point in POINTS]
        deviations = tuple(Deviation(*point[:2], option) for point, option in taken if option)
        self.runs.append(deviations)
        options = {point.number: option for point, option in taken}
        fails = all(options[number] >= least for number, least in self.culprits)
        return Outcome("it fails" if fails else "", deviations, ("as text",) * len(deviations), POINTS)


@pytest.mark.parametrize("culprits", [((3, 1),), ((3, 1), (29, 2)), ((1, 1), (2, 2), (30, 1))])
def test_only_the_culprits_are_left(culprits):
    program = Program(*culprits)
    everything = tuple(Deviation(Choice.DELAY, number, 2) for number in range(1, 31))
    told = []
    least = shrink(program, Outcome("it fails", everything), told.append)
    assert [deviation.number for deviation in least.deviations] == [number for number, _ in culprits]
    assert told[-1] is least
    assert len(program.runs) == len(set(program.runs)), "no schedule is tried twice"


@pytest.mark.parametrize("name", ["random", "pct", "exhaustive"])
def test_each_strategy_finds_one_culprit(name):
    found = explore(Program((17, 2)), strategy(name), 200)
    assert [deviation.number for deviation in found.failing.deviations] == [17]


def test_exhaustive_tries_fewer_deviations_first_and_ends():
    program = Program((1, 3))  # there is no such option
    found = explore(program, strategy("exhaustive", bound=2), 10_000)
    assert (found.failing, found.is_complete, found.points) == (None, True, 30)
    assert found.runs == 30 * 2 + 30 * 29 // 2 * 4
    assert len(program.runs) == len(set(program.runs)) == found.runs + 1
    assert [len(run) for run in program.runs] == sorted(len(run) for run in program.runs)


def test_a_search_ends_after_its_runs():
    found = explore(Program((1, 3)), strategy("random"), 20)
    assert (found.failing, found.is_complete, found.runs) == (None, False, 20)


def test_a_program_that_fails_anyway():
    with pytest.raises(DefaultFailsError, match="it fails"):
        explore(Program(), strategy("random"), 20)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("clever", {}, "there is no strategy 'clever'; there are random, pct and exhaustive"),
        ("pct", {"depth": 0}, "depth and bound must be 1 or more, not 0 and 2"),
        ("exhaustive", {"bound": 0}, "depth and bound must be 1 or more, not 3 and 0"),
    ],
)
def test_no_such_strategy(name, options, message):
    with pytest.raises(ValueError, match=message):
        strategy(name, **options)


@pytest.mark.parametrize("culprits", [((17, 2),), ((3, 1), (29, 2)), ((1, 3),)], ids=str)
@pytest.mark.parametrize("name", ["random", "pct", "exhaustive"])
def test_any_number_of_runs_at_the_same_time_finds_the_same_in_the_same_order(name, culprits):
    def searched(crew):
        told, seen = [], []
        found = explore(
            Program(*culprits), strategy(name, bound=2), 300, told.append, crew=crew,
            saw=lambda outcome: seen.append(outcome.deviations),
        )  # fmt: skip
        return found, told, seen

    with ThreadPoolExecutor(3) as executor:
        assert searched(Crew(executor, ahead=7)) == searched(None)


def test_a_run_that_takes_much_longer_fails():
    """Each delay adds 20 or 1000 us: two short ones are allowed, and a long one is not."""

    def run(decide):
        taken = [decide(point, ("a stream",)) for point in POINTS[:3]]
        deviations = tuple(
            Deviation(*point[:2], option) for point, option in zip(POINTS, taken, strict=False) if option
        )
        ns = 100_000 + sum((0, 20_000, 1_000_000)[option] for option in taken)
        return Outcome("", deviations, ("as text",) * len(deviations), POINTS[:3], ns=ns)

    assert explore(run, strategy("exhaustive", bound=2), 100, over_ns=2_000_000).is_complete
    found = explore(run, strategy("exhaustive", bound=2), 100, over_ns=500_000)
    assert [str(each) for each in found.failing.deviations] == ["delay@1=2"]
    assert found.failing.failure == "it takes 1,100.0 us, 1,000.0 us more than under the default schedule"
    with pytest.raises(UntimedError, match="the script ran no simulation that keeps a trace"):
        explore(Program((1, 3)), strategy("exhaustive"), 100, over_ns=1)
