"""Shrinking: the fewest deviations with which a program still fails.

Delta debugging, after "Simplifying and Isolating Failure-Inducing Input" (Zeller and Hildebrandt, 2002): parts of the
list are tried alone, then the list without each part, with parts that become smaller. In the end no deviation can be
left out.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import pairwise

from acl_py.explore.outcomes import Outcome, Run
from acl_py.many.crew import Crew
from acl_py.schedules import Deviation, Replay

Deviations = tuple[Deviation, ...]


def shrink(
    run: Run,
    failing: Outcome,
    tell: Callable[[Outcome], object] = lambda _: None,
    *,
    crew: Crew | None = None,
    saw: Callable[[Outcome], object] = lambda _: None,
) -> Outcome:
    """Return a failing run of the same program with as few deviations as possible; *tell* is called with each better.

    Another failure than that of *failing* counts as well. The runs are on *crew*, or else in this process; *saw* is
    called with the outcome of each.
    """
    crew = crew or Crew(workers=1)
    best, parts = failing, 2
    tried: set[Deviations] = set()
    while len(best.deviations) > 1:
        better = _first_failing(run, _shorter(best.deviations, parts), tried, crew, saw)
        if better is not None:
            best, parts = better, 2
            tell(best)
        elif parts < len(best.deviations):
            parts = min(2 * parts, len(best.deviations))
        else:
            break
    return best


def _shorter(whole: Deviations, parts: int) -> Iterator[Deviations]:
    """Yield each of so many *parts* of *whole*, and then *whole* without each of them."""
    cuts = [len(whole) * part // parts for part in range(parts + 1)]
    spans = list(pairwise(cuts))
    yield from (whole[start:stop] for start, stop in spans)
    yield from (whole[:start] + whole[stop:] for start, stop in spans)


def _first_failing(
    run: Run,
    candidates: Iterable[Deviations],
    tried: set[Deviations],
    crew: Crew,
    saw: Callable[[Outcome], object],
) -> Outcome | None:
    """Return the first failing outcome of those that are not *tried* yet. Behind it, nothing counts as tried."""
    new = [each for each in dict.fromkeys(candidates) if each not in tried]
    with closing(crew.in_order(run, map(Replay, new))) as outcomes:
        for candidate, outcome in zip(new, outcomes, strict=True):
            tried.add(candidate)
            saw(outcome)
            if outcome.failure:
                return outcome
    return None
