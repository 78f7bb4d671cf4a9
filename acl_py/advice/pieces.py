"""What advice is made of: a way to edit a line, a piece of advice, and what was chosen so far."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from acl_py.advice.lines import WaitLine
from acl_py.advice.needs import Edit
from acl_py.advice.pairs import Doubt, Pair
from acl_py.advice.steps import Edited
from acl_py.explain.whatif import Answer


class Form(Enum):
    """What a person does with a line that waits."""

    REMOVE = "remove it"
    LAST = "keep only its last wait"
    WEAKER = "wait for less"


@dataclass(frozen=True, slots=True)
class Way:
    """A way to edit a *line*, which the *edit* makes; *edited* is the program with it and with what was chosen
    before. *pairs* need a part of what the line waits for.
    """

    line: WaitLine
    form: Form
    edit: Edit
    edited: Edited
    pairs: tuple[Pair, ...] = ()


Tried = tuple[Way, int]  # with how much shorter the run is


@dataclass(slots=True)
class Advice:
    """One piece of advice: the *way*, how much shorter the run is with this *alone*, if this alone is advice, and what
    it adds to the gain of the advice before it. Of pieces that were tried together, the first has what all add, and how
    many are *below* it. *hidden* are lines that can go only if this one stays.
    """

    way: Way
    alone_ns: int | None
    added_ns: int
    hidden: list[WaitLine] = field(default_factory=list)
    below: int | None = None


@dataclass(frozen=True, slots=True)
class SoFar:
    """What was chosen so far: the *advice*, its *edit*, and the *answer* of a replay with all of it."""

    advice: list[Advice] = field(default_factory=list)
    edit: Edit = field(default_factory=Edit)
    answer: Answer | None = None

    @property
    def gain_ns(self) -> int:
        """How much shorter the run is."""
        return 0 if self.answer is None else self.answer.gain_ns

    @property
    def keys(self) -> set[tuple[str, str]]:
        """The lines that were chosen."""
        return {each.way.line.key for each in self.advice}

    def with_(self, way: Way, answer: Answer, alone_ns: int | None) -> "SoFar":
        """Return what is chosen with *way*, too; *alone_ns* is its own gain, if it has one."""
        advice = Advice(way, alone_ns, answer.gain_ns - self.gain_ns)
        return SoFar([*self.advice, advice], self.edit + way.edit, answer)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a *line* that stays: it is needed for a *pair*, or there is a *doubt*. The last waits of tasks
    have neither.
    """

    line: WaitLine
    pair: Pair | None = None
    doubt: Doubt | None = None


def edit_of(ways: Iterable[Way]) -> Edit:
    """Return the edit that makes all *ways*."""
    return sum((way.edit for way in ways), Edit())
