"""Strategies: which schedules are tried, and in which order.

* *random*: each run has its own kinds of deviations and its own chance of one. Cheap, and good at most mistakes.
* *pct*: after "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs" (Burckhardt and others, 2010).
  Each stream and each caller gets a random priority. Where there is an order to choose, the highest goes first; where
  there is a time to choose, low priorities are late and slow. At d - 1 random points of the run, the stream or caller
  whose turn it is falls below all others.
* *exhaustive*: every schedule with one deviation, then every schedule with two, up to a bound. If none of them fails,
  it takes more deviations to make the program fail.
"""

import random
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from acl_py.explore.outcomes import Outcome
from acl_py.schedules import Decide, Deviation, Point, Replay
from device_model.choices import Choice

_RATES = (0.03, 0.1, 0.3, 0.6)
_ORDERS = (Choice.TASK, Choice.ENGINE, Choice.TIE)


class Strategy(Protocol):
    """Gives the schedules of the runs, one after the other."""

    def next(self) -> Decide | None:
        """Return the decisions of the next run; None if there is no schedule left."""

    def saw(self, outcome: Outcome) -> None:
        """Learn what the last run did; the first outcome is that of the default schedule."""


class Randomly:
    """Random deviations; the n-th run is the same for the same *seed*."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._runs = 0

    def next(self) -> Decide:
        """Return the decisions of the next run."""
        self._runs += 1
        return RandomDecisions(f"{self._seed}/{self._runs}")

    def saw(self, outcome: Outcome) -> None:
        """Do nothing: the runs do not depend on one another."""


class RandomDecisions:
    """Decides at random, with a rate and for kinds that are drawn first."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self._rate = self._random.choice(_RATES)
        self._kinds = [kind for kind in Choice if self._random.random() < 0.5] or list(Choice)

    def __call__(self, point: Point, actors: Sequence[object]) -> int:  # noqa: ARG002 - it decides by chance alone
        """Return an option."""
        if point.kind not in self._kinds or self._random.random() >= self._rate:
            return 0
        return self._random.randrange(1, point.options)


class Pct:
    """Priorities, with *depth* - 1 points where one of them falls."""

    def __init__(self, seed: int, depth: int) -> None:
        self._seed = seed
        self._depth = depth
        self._runs = 0
        self._points = 1  # of the default run

    def next(self) -> Decide:
        """Return the decisions of the next run."""
        self._runs += 1
        return PctDecisions(f"{self._seed}/{self._runs}", self._depth, self._points)

    def saw(self, outcome: Outcome) -> None:
        """Learn from the first run how many choice points there are: later ones may be under way at the same time."""
        if not self._runs:
            self._points = max(1, len(outcome.points))


class PctDecisions:
    """Decides by the priorities of streams and callers."""

    def __init__(self, seed: str, depth: int, points: int) -> None:
        self._random = random.Random(seed)
        self._falls = [self._random.randrange(points) for _ in range(depth - 1)]
        self._priorities: dict[int, tuple[float, object]] = {}  # by identity; the actor is kept alive
        self._fallen = 0
        self._passed = 0

    def __call__(self, point: Point, actors: Sequence[object]) -> int:
        """Return the option of the actor with the highest priority, or the one that suits its priority."""
        priorities = [self._priority(actor) for actor in actors]
        highest = priorities.index(max(priorities))
        for _ in range(self._falls.count(self._passed)):
            self._fallen += 1
            self._priorities[id(actors[highest])] = float(-self._fallen), actors[highest]
        self._passed += 1
        return highest if point.kind in _ORDERS else self._by_speed(point.kind, self._priority(actors[0]))

    def _priority(self, actor: object) -> float:
        return self._priorities.setdefault(id(actor), (self._random.random(), actor))[0]

    def _by_speed(self, kind: Choice, priority: float) -> int:
        """Return an option for an actor alone: the higher its priority, the earlier and faster it is."""
        is_fast, is_slow = priority > 2 / 3, priority < 1 / 3
        if kind in (Choice.HOST, Choice.DELAY):
            return 2 if priority < 0 else int(is_slow)
        if kind is Choice.DURATION:
            return 1 if is_slow else 2 if is_fast else 0
        return int(is_fast)


class Exhaustively:
    """All schedules of up to *bound* deviations, those with fewer first."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._waiting: deque[tuple[Deviation, ...]] = deque()

    def next(self) -> Decide | None:
        """Return the decisions of the next run; None after the last."""
        return Replay(self._waiting.popleft()) if self._waiting else None

    def saw(self, outcome: Outcome) -> None:
        """Queue the schedules that have one more deviation, behind those of the last run."""
        if len(outcome.deviations) >= self._bound:
            return
        taken = {deviation[:2] for deviation in outcome.deviations}
        behind = max((place for place, point in enumerate(outcome.points) if point[:2] in taken), default=-1) + 1
        for point in outcome.points[behind:]:
            for option in range(1, point.options):
                self._waiting.append((*outcome.deviations, Deviation(*point[:2], option)))


def strategy(name: str, *, seed: int = 0, depth: int = 3, bound: int = 2) -> Strategy:
    """Return the strategy called *name*.

    Raises:
        ValueError: There is no such strategy, or an option is too small.
    """
    if depth < 1 or bound < 1:
        raise ValueError(f"depth and bound must be 1 or more, not {depth} and {bound}")
    match name:
        case "random":
            return Randomly(seed)
        case "pct":
            return Pct(seed, depth)
        case "exhaustive":
            return Exhaustively(bound)
    raise ValueError(f"there is no strategy {name!r}; there are random, pct and exhaustive")
