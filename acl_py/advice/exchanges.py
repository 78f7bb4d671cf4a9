"""Better choices than those that a choice of the dearest comes to, found by exchanging one piece of advice.

A wait hides what another one is worth, and a choice can stand in the way of one that is worth more. And a run can be
longer without a wait. So each line that went another way is put first, and each piece of advice is left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from acl_py.advice.lines import WaitLine
from acl_py.advice.needs import Edit
from acl_py.advice.pieces import Form, SoFar, Way, edit_of

if TYPE_CHECKING:
    from acl_py.advice.choosing import Choice

MOST_STEPS = 24_000  # of all programs that are run again to find out whether an exchange is better


class Exchanges:
    """Finds better choices than those of *choice*."""

    def __init__(self, choice: "Choice") -> None:
        self._choice = choice
        self._runs_left = MOST_STEPS // max(len(choice.steps.steps), 1)

    def best(self, lines: Sequence[WaitLine], so_far: SoFar) -> SoFar:
        """Return a choice among *lines* that no exchange makes better, found from the one *so_far*."""
        better: SoFar | None = so_far
        while better is not None:
            so_far = better
            begins = (self._begin(ways) for ways in self._exchanges(lines, so_far))
            others = (self._choice.greedy(lines, begin) for begin in begins if begin is not None)
            better = next((other for other in others if other.gain_ns > so_far.gain_ns), None)
        return so_far

    def _exchanges(self, lines: Sequence[WaitLine], so_far: SoFar) -> Iterator[Sequence[Way]]:
        """Yield what is better than what is chosen *so_far*."""
        for way in self._other_ways(lines, so_far):
            yield from (ways for ways in self._with(way, so_far) if self._is_better(ways, so_far))
        for piece in so_far.advice if len(so_far.advice) > 1 else ():
            others = [each.way for each in so_far.advice if each is not piece]
            if self._is_better(others, so_far):
                yield others

    def _other_ways(self, lines: Iterable[WaitLine], so_far: SoFar) -> Iterator[Way]:
        """Yield what could be done with a line of *lines* before anything was chosen, and is not done *so_far*."""
        done = {each.way.line.key: each.way.form for each in so_far.advice}
        for line in lines:
            is_needless = line.key in self._choice.needless
            alone = self._choice.way(line, Edit(), one=True) if is_needless else self._gainful(line)
            if isinstance(alone, Way) and done.get(line.key) is not alone.form:
                yield alone

    def _gainful(self, line: WaitLine) -> Way | None:
        """Return what makes the run shorter alone, if there is a way to do without *line* or with less."""
        tried = self._choice.alone.get(line.key)
        return None if tried is None else tried[0]

    def _with(self, first: Way, so_far: SoFar) -> Iterator[Sequence[Way]]:
        """Yield *first* with those pieces of what is chosen *so_far* that it leaves possible, the strongest first; and
        without weaker waits, for which it may stand.
        """
        pieces = [each.way for each in so_far.advice if each.way.line.key != first.line.key]
        pieces.sort(key=lambda piece: piece.line.strength)
        yield self._possible(first, [piece for piece in pieces if piece.form is not Form.WEAKER])
        if any(piece.form is Form.WEAKER for piece in pieces):
            yield self._possible(first, pieces)

    def _possible(self, first: Way, pieces: Iterable[Way]) -> Sequence[Way]:
        """Return *first* and those of *pieces* that are possible beside it and one another."""
        ways, edit = [first], first.edit
        for piece in pieces:
            way = self._choice.way(piece.line, edit, one=piece.form is Form.REMOVE)
            if isinstance(way, Way) and way.form is piece.form and self._choice.is_enough(way, edit):
                ways.append(way)
                edit += way.edit
        return ways

    def _is_better(self, ways: Sequence[Way], so_far: SoFar) -> bool:
        """Whether the run with *ways* is shorter than that with what is chosen *so_far*; not if it is not tried."""
        if self._runs_left <= 0:
            return False
        self._runs_left -= 1
        return self._choice.gain_ns(self._choice.beside(ways[-1], edit_of(ways[:-1])), so_far.gain_ns + 1) is not None

    def _begin(self, ways: Iterable[Way]) -> SoFar | None:
        """Return the choice of *ways*, each with what it adds to those before it. Those that add nothing alone come
        last and together. None if they are no advice.
        """
        so_far, later = SoFar(), []
        for each in ways:
            way = self._choice.beside(each, so_far.edit)
            answer = self._choice.run(way, so_far.gain_ns + 1)
            if answer is None:
                later.append(each)
            else:
                so_far = so_far.with_(way, answer, self._choice.alone_ns(way))
        return self._choice.with_all(later, so_far) if later else so_far
