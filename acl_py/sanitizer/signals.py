"""Signals: level flags of events, notifies, and words of memory that streams set and wait for.

A wait for a signal passes on any set that it may see: one that nothing has surely cleared before, whether it was queued
before the wait or after it. Only a set that comes after the wait cannot be the one. So a wait is behind what all these
sets have in common. A notify is cleared by the wait that it lets pass: a wait behind n others needs n + 1 sets.

What a wait is behind may depend on what other waits are behind, and a set that is queued later may change it. So the
past of a wait is computed again, from nothing, when it gets one more set that it may see. A wait without any set is
*open*: what is queued behind it looks unordered until the set comes.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from acl_py.sanitizer.order import NOTHING, Clock, Line, Order, Point, Wait

_KEPT = 16  # sets, clears and waits of one signal; the oldest are forgotten


class _Set(NamedTuple):
    point: Point
    value: int


class SignalWait(Wait):
    """A wait of a stream for *signal*, whose value must fit. What its stream has done before is *before*, and the epoch
    of the stream is *turn* of *actor*.
    """

    __slots__ = ("actor", "before", "fits", "is_open", "signal", "turn")

    def __init__(self, signal: "Signal", fits: Callable[[int], bool], line: Line, number: int, epoch: int) -> None:
        super().__init__(number, epoch, NOTHING, promised=True)
        self.signal = signal
        self.fits = fits
        self.before = line.clock
        self.actor = line.number
        self.turn = line.count + 1
        self.is_open = True


class Signal:
    """The sets of one signal, what clears it, and the waits for it, each in the order of the calls."""

    __slots__ = ("clears", "is_consumed", "sets", "waits")

    def __init__(self, *, is_consumed: bool) -> None:
        self.is_consumed = is_consumed
        self.sets: list[_Set] = []
        self.clears: list[Point] = []
        self.waits: list[SignalWait] = []


class Signals:
    """All signals of one program, by what they belong to: an event, a notify, an address."""

    __slots__ = ("_order", "_signals")

    def __init__(self, order: Order) -> None:
        self._order = order
        self._signals: dict[object, Signal] = {}

    def set(self, key: object, point: Point, value: int = 1, *, is_consumed: bool = False) -> bool:
        """Set a signal at *point*, an epoch of its own; return whether a wait may see it that was queued before."""
        signal = self._signal(key, is_consumed=is_consumed)
        made = _Set(point, value)
        signal.sets.append(made)
        del signal.sets[:-_KEPT]
        if all(self._is_after(made, wait) for wait in signal.waits):
            return False
        self._solve()
        return True

    def clear(self, key: object, point: Point) -> None:
        """Clear a signal at *point*, an epoch of its own."""
        signal = self._signal(key, is_consumed=False)
        signal.clears.append(point)
        del signal.clears[:-_KEPT]

    def wait(self, key: object, line: Line, fits: Callable[[int], bool] = bool, *, is_consumed: bool = False) -> None:
        """Let *line* wait for a signal whose value *fits*."""
        signal = self._signal(key, is_consumed=is_consumed)
        wait = self._order.pause(line, partial(SignalWait, signal, fits, line))
        assert isinstance(wait, SignalWait)
        signal.waits.append(wait)
        del signal.waits[:-_KEPT]
        while self._advance(wait):
            pass

    def is_open(self, clock: Clock) -> bool:
        """Whether something with *clock* is behind a wait that no set ends yet."""
        waits = [wait for signal in self._signals.values() for wait in signal.waits if wait.is_open]
        if not waits:
            return False
        closed = self._order.closure(clock)
        return any(closed.get(wait.number, 0) >= wait.epoch for wait in waits)

    def forget(self, key: object) -> None:
        """Drop a signal that was destroyed. Its waits stay behind what they are behind."""
        self._signals.pop(key, None)

    def _signal(self, key: object, *, is_consumed: bool) -> Signal:
        signal = self._signals.get(key)
        if signal is None:
            signal = self._signals[key] = Signal(is_consumed=is_consumed)
        return signal

    # --- what waits are behind

    def _solve(self) -> None:
        """Compute anew what all waits are behind, beginning from nothing: what grows from there is certain."""
        waits = [wait for signal in self._signals.values() for wait in signal.waits]
        for wait in waits:
            wait.past, wait.is_open = NOTHING, True
        while [wait for wait in waits if self._advance(wait)]:
            pass

    def _advance(self, wait: SignalWait) -> bool:
        """Compute what *wait* is behind, by what is known of the others; return whether that is news."""
        signal = wait.signal
        sets = [each for each in signal.sets if not self._is_after(each, wait)]
        over = self._over(wait)
        passed = [other for other in signal.waits if other is not wait and over.get(other.number, 0) >= other.epoch]
        taken = [self._over(other) for other in passed] if signal.is_consumed else []
        enough = [each for each in sets if wait.fits(each.value) and not self._is_undone(each, wait, over, taken)]
        past = _common(self._pasts(enough), 0)
        if signal.is_consumed:
            past = _raised(past, _common(self._pasts(sets), len(passed)))
        wait.is_open = not enough
        if wait.epoch > 1:  # its stream has passed those before
            past = _raised(self._order.wait_at(wait.number, wait.epoch - 1).past, past)
        if past == wait.past:
            return False
        wait.past = past
        return True

    def _over(self, wait: SignalWait) -> Clock:
        """Return what is over when *wait* passes, without itself."""
        return self._order.closure(_raised({**wait.before, wait.actor: wait.turn - 1}, wait.past))

    def _pasts(self, sets: Sequence[_Set]) -> list[Clock]:
        return [{**self._order.closure(point.clock), point.actor: point.epoch} for point, _ in sets]

    def _is_after(self, each: _Set, wait: SignalWait) -> bool:
        """Whether the set *each* comes after *wait*, which so cannot pass on it."""
        point = each.point
        if point.actor == wait.actor and point.epoch > wait.turn:
            return True
        return self._order.closure(point.clock).get(wait.number, 0) >= wait.epoch

    def _is_undone(self, each: _Set, wait: SignalWait, over: Clock, taken: Sequence[Clock]) -> bool:
        """Whether the set *each* is surely cleared, taken or replaced by another value, before *wait* passes."""
        point, signal = each.point, wait.signal
        clears = [*signal.clears, *(other.point for other in signal.sets if not wait.fits(other.value))]
        if any(over.get(clear.actor, 0) >= clear.epoch and self._is_behind(clear, point) for clear in clears):
            return True
        return any(clock.get(point.actor, 0) >= point.epoch for clock in taken)

    def _is_behind(self, point: Point, earlier: Point) -> bool:
        if point.actor == earlier.actor:
            return point.epoch > earlier.epoch
        return self._order.closure(point.clock).get(earlier.actor, 0) >= earlier.epoch


def _raised(one: Clock, other: Clock) -> Clock:
    """Return the later of two clocks."""
    return {**one, **{actor: reached for actor, reached in other.items() if one.get(actor, 0) < reached}}


def _common(clocks: Iterable[Clock], spared: int) -> Clock:
    """Return what is in all of *clocks* but at most *spared*: more than that many of them are over."""
    clocks = list(clocks)
    if len(clocks) <= spared:
        return NOTHING
    actors = {actor: None for clock in clocks for actor in clock}
    reached = {actor: sorted(clock.get(actor, 0) for clock in clocks)[spared] for actor in actors}
    return {actor: there for actor, there in reached.items() if there}
