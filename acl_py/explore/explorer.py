"""Exploring: a program runs under the schedules of a strategy until one fails, and that one is shrunk."""

from collections.abc import Callable
from dataclasses import dataclass

from acl_py.explore.outcomes import Outcome, Run
from acl_py.explore.shrinking import shrink
from acl_py.explore.strategies import Strategy
from acl_py.schedules import Replay


class DefaultFailsError(Exception):
    """The program fails under the default schedule, so there is nothing to look for."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """What was found.

    Attributes:
        failing: The failing run, with as few deviations as possible; None if no run failed.
        runs: How many schedules were tried, without the default one and without those of the shrinking.
        is_complete: Whether the strategy has no schedule left.
        points: How many choice points the default run has.
    """

    failing: Outcome | None
    runs: int
    is_complete: bool
    points: int


def explore(run: Run, strategy: Strategy, runs: int, tell: Callable[[str], object] = lambda _: None) -> Exploration:
    """Run a program under at most *runs* schedules of *strategy*; *tell* is called with what is found on the way.

    Raises:
        DefaultFailsError: The program fails under the default schedule; the text is its failure.
    """
    default = run(Replay(()))
    if default.failure:
        raise DefaultFailsError(default.failure)
    strategy.saw(default)
    points = len(default.points)
    for number in range(1, runs + 1):
        decide = strategy.next()
        if decide is None:
            return Exploration(None, number - 1, True, points)
        outcome = run(decide)
        if outcome.failure:
            tell(f"schedule {number} fails, with {counted(len(outcome.deviations), 'deviation')}")
            least = shrink(
                run, outcome, lambda better: tell(f"it fails with {counted(len(better.deviations), 'deviation')}, too")
            )
            return Exploration(least, number, False, points)
        strategy.saw(outcome)
    return Exploration(None, runs, False, points)


def counted(number: int, noun: str) -> str:
    """Say how many there are of what a *noun* names."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
