"""Exploring: a program runs under the schedules of a strategy until one fails, and that one is shrunk."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from acl_py.explore.limits import limited
from acl_py.explore.outcomes import Outcome, Run
from acl_py.explore.shrinking import shrink
from acl_py.explore.strategies import Strategy
from acl_py.many.crew import Crew
from acl_py.schedules import Decide, Replay


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


class _Schedules:
    """The schedules of *strategy*, at most *runs*. The strategy may have further ones once it has seen an outcome."""

    def __init__(self, strategy: Strategy, runs: int) -> None:
        self._strategy = strategy
        self._left = runs

    def __iter__(self) -> Iterator[Decide]:
        return self

    def __next__(self) -> Decide:
        decide = self._strategy.next() if self._left else None
        if decide is None:
            raise StopIteration
        self._left -= 1
        return decide


def explore(
    run: Run,
    strategy: Strategy,
    runs: int,
    tell: Callable[[str], object] = lambda _: None,
    *,
    crew: Crew | None = None,
    saw: Callable[[Outcome], object] = lambda _: None,
    over_ns: float | None = None,
) -> Exploration:
    """Run a program under at most *runs* schedules of *strategy*; *tell* is called with what is found on the way.

    The runs are on *crew*, or else one after the other in this process; what is found does not depend on it. *saw* is
    called with each outcome, in the order of the schedules. A run that takes more than *over_ns*
    longer than the one under the default schedule fails.

    Raises:
        DefaultFailsError: The program fails under the default schedule; the text is its failure.
        UntimedError: There is *over_ns*, and outcomes have no times.
    """
    crew = crew or Crew(workers=1)
    default = run(Replay(()))
    saw(default)
    if default.failure:
        raise DefaultFailsError(default.failure)
    if over_ns is not None:
        run = limited(run, default, over_ns)
    strategy.saw(default)
    points = len(default.points)
    number = 0
    with closing(crew.in_order(run, _Schedules(strategy, runs))) as outcomes:
        for number, outcome in enumerate(outcomes, 1):
            saw(outcome)
            if outcome.failure:
                tell(f"schedule {number} fails, with {counted(len(outcome.deviations), 'deviation')}")
                break
            strategy.saw(outcome)
        else:
            return Exploration(None, number, number < runs, points)
    least = shrink(
        run, outcome, lambda better: tell(f"it fails with {counted(len(better.deviations), 'deviation')}, too"),
        crew=crew, saw=saw,
    )  # fmt: skip
    return Exploration(least, number, False, points)


def counted(number: int, noun: str) -> str:
    """Say how many there are of what a *noun* names."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
