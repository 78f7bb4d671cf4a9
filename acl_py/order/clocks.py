"""Clocks, and the pasts that they are computed from.

An *actor* is what does one thing after the other: a stream, or a host (a task, a thread). Each thing that it does is an
*epoch*: the number of the actor, and a count. A *clock* says how far each actor has come: epoch (a, n) is over for
everybody whose clock has at least n for a. Clocks are never changed, so anybody can keep one.

Most operations are never compared with another one. So a wait makes no clock: it makes a `Past`, which has what the
wait adds, and computes its clock when somebody asks for it. An actor that knows an epoch knows all that came before
that epoch. So one comparison tells whether a part of a past adds anything.
"""

from collections.abc import Iterable
from typing import NamedTuple

Clock = dict[int, int]  # the count of each actor, by its number

NOTHING: Clock = {}
_DEPTH = 64  # waits that a past is computed from at most


class Past:
    """All that is over before an epoch: what is in *base*, and an epoch of another *actor* with the past of that one.

    It refers to earlier pasts until its clock is computed. That is when somebody asks for it, or when it stands on
    `_DEPTH` others: so what a long program keeps does not grow.
    """

    __slots__ = ("_actor", "_base", "_before", "_clock", "_depth", "_epoch")

    _clock: Clock | None
    _base: "Past"
    _actor: int
    _epoch: int
    _before: "Past"
    _depth: int

    def after(self, actor: int, epoch: int, before: "Past") -> "Past":
        """Return this past with *epoch* of *actor*, whose past is *before*; itself if one look tells that it has it."""
        base = self
        if self._clock is not None:
            if self._clock.get(actor, 0) >= epoch:
                return self
        elif self._actor == actor:
            if self._epoch >= epoch:
                return self
            base = self._base  # the later epoch says all that the earlier one does
        past = _new_past(Past)
        past._clock = None
        past._base = base
        past._actor = actor
        past._epoch = epoch
        past._before = before
        past._depth = depth = (base._depth if base._depth > before._depth else before._depth) + 1
        if depth > _DEPTH:
            past._compute()
        return past

    @staticmethod
    def of(clock: Clock) -> "Past":
        """Return the past that *clock* has."""
        past = _new_past(Past)
        past._keep(clock)
        return past

    @property
    def clock(self) -> Clock:
        """How far each actor has come in it."""
        return self._compute() if self._clock is None else self._clock

    def raise_clock(self, clock: Clock) -> None:
        """Raise *clock*, which is the caller's own, to this past. A part that *clock* has is not looked into."""
        todo = [self]
        while todo:
            past = todo.pop()
            while past._clock is None:
                if clock.get(past._actor, 0) < past._epoch:
                    clock[past._actor] = past._epoch
                    todo.append(past._before)
                past = past._base
            for actor, reached in past._clock.items():
                if clock.get(actor, 0) < reached:
                    clock[actor] = reached

    def _compute(self) -> Clock:
        clock: Clock = {}
        self.raise_clock(clock)
        self._keep(clock)
        return clock

    def _keep(self, clock: Clock) -> None:
        self._clock = clock
        self._actor = self._epoch = self._depth = 0
        self._base = self._before = self


_new_past = Past.__new__
BEGINNING = Past.of(NOTHING)


class Point(NamedTuple):
    """An epoch, and its past. The hot path has plain tuples of the same fields, which take a tenth of the time to
    make.
    """

    actor: int
    epoch: int
    past: Past

    @property
    def clock(self) -> Clock:
        """The clock of its past."""
        return self.past.clock


PlainPoint = tuple[int, int, Past]  # the fields of a Point


def raised_to(clock: Clock, own: int, points: Iterable[PlainPoint]) -> Clock:
    """Return *clock*, of the actor with the number *own*, raised to *points*; the same object if they add nothing."""
    raised: Clock | None = None
    for actor, reached, before in points:
        known = clock if raised is None else raised
        if actor == own or known.get(actor, 0) >= reached:
            continue
        if raised is None:
            raised = dict(clock)
        raised[actor] = reached
        before.raise_clock(raised)
    if raised is None:
        return clock
    raised.pop(own, None)
    return raised


def joined(one: Clock, other: Clock) -> Clock:
    """Return the later of two clocks."""
    return {actor: max(one.get(actor, 0), other.get(actor, 0)) for actor in (*one, *other)}
