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
from typing import Any, NamedTuple, TypeAlias

from acl_py.order.actors import Line, Wait
from acl_py.order.clocks import NOTHING, Clock, Point, joined
from acl_py.order.order import Order
from device_model.events import Event
from device_model.signals import Notify

# Called with what is wrong, a text with {0} for the signal and {1} ... for the calls, with the signal, and the calls.
_Tell: TypeAlias = Callable[[str, object, Sequence[Any]], None]

_KEPT = 16  # sets, clears and waits of one signal; the oldest are forgotten


class _Set(NamedTuple):
    point: Point
    value: int
    access: object


class _Clear(NamedTuple):
    point: Point
    access: object


class SignalWait(Wait):
    """A wait of a stream for *signal*, whose value must fit. What its stream has done before is *before*, and the epoch
    of the stream is *line_epoch* of *actor*. The sets that it may pass on are *enough*.
    """

    __slots__ = ("access", "actor", "before", "enough", "fits", "is_open", "line_epoch", "signal", "told")

    def __init__(
        self, signal: "Signal", fits: Callable[[int], bool], access: object, line: Line, number: int, epoch: int
    ) -> None:
        super().__init__(number, epoch, NOTHING, promised=True)
        self.signal = signal
        self.fits = fits
        self.access = access
        self.enough: list[_Set] = []
        self.told: set[str] = set()  # what is wrong with it
        self.before = line.past.clock
        self.actor = line.number
        self.line_epoch = line.count + 1
        self.is_open = True


class Signal:
    """The sets of one signal, what clears it, and the waits for it, each in the order of the calls."""

    __slots__ = ("clears", "is_consumed", "key", "sets", "waits")

    def __init__(self, key: object, *, is_consumed: bool) -> None:
        self.key = key
        self.is_consumed = is_consumed
        self.sets: list[_Set] = []
        self.clears: list[_Clear] = []
        self.waits: list[SignalWait] = []


class Signals:
    """All signals of one program, by what they belong to: an event, a notify, an address.

    *tell* is called with what is wrong with a wait or a clear, in words, the signal, and the calls that it is about.
    Then each call must say what it is, as *access*.
    """

    __slots__ = ("_order", "_signals", "_tell")

    def __init__(self, order: Order, tell: _Tell | None = None) -> None:
        self._order = order
        self._tell = tell
        self._signals: dict[object, Signal] = {}

    def set(
        self, key: object, point: Point, value: int = 1, *, is_consumed: bool = False, access: object = None
    ) -> bool:
        """Set a signal at *point*, an epoch of its own; return whether a wait may see it that was queued before."""
        signal = self._signal(key, is_consumed=is_consumed)
        made = _Set(point, value, access)
        signal.sets.append(made)
        del signal.sets[:-_KEPT]
        if all(self._is_after(made, wait) for wait in signal.waits):
            return False
        self.solve()
        for wait in signal.waits:
            self._check(wait)
        return True

    def clear(self, key: object, point: Point, known: Clock, access: object = None) -> None:
        """Clear a signal at *point*, an epoch of its own; *known* is what the host knows that does it."""
        signal = self._signal(key, is_consumed=False)
        clear = _Clear(point, access)
        self._check_unseen(signal, clear, self._order.closure(known))
        signal.clears.append(clear)
        del signal.clears[:-_KEPT]
        for wait in signal.waits:
            self._check(wait)

    def wait(
        self,
        key: object,
        line: Line,
        fits: Callable[[int], bool] = bool,
        *,
        is_consumed: bool = False,
        access: object = None,
    ) -> None:
        """Let *line* wait for a signal whose value *fits*."""
        signal = self._signal(key, is_consumed=is_consumed)
        wait = self._order.wait_for_signal(line, partial(SignalWait, signal, fits, access, line))
        assert isinstance(wait, SignalWait)
        signal.waits.append(wait)
        del signal.waits[:-_KEPT]
        while self._advance(wait):
            pass
        self._check_stale(wait)
        self._check(wait)

    def close(self) -> None:
        """Tell which waits for events and notifies nothing has ended; values of words may come by other ways."""
        for signal in self._signals.values():
            self._tell_open(signal)

    def is_open(self, clock: Clock) -> bool:
        """Whether something with *clock* is behind a wait that no set ends yet."""
        waits = [wait for signal in self._signals.values() for wait in signal.waits if wait.is_open]
        if not waits:
            return False
        closed = self._order.closure(clock)
        return any(closed.get(wait.number, 0) >= wait.epoch for wait in waits)

    def forget(self, key: object) -> None:
        """Drop a signal that was destroyed. Its waits stay behind what they are behind."""
        signal = self._signals.pop(key, None)
        if signal is not None:
            self._tell_open(signal)

    def _signal(self, key: object, *, is_consumed: bool) -> Signal:
        signal = self._signals.get(key)
        if signal is None:
            signal = self._signals[key] = Signal(key, is_consumed=is_consumed)
        return signal

    # --- what is wrong with them

    def _tell_open(self, signal: Signal) -> None:
        if self._tell is None or not isinstance(signal.key, Event | Notify):
            return
        for wait in signal.waits:
            if wait.is_open and "open" not in wait.told and wait.access is not None:
                wait.told.add("open")
                self._tell("nothing ends the wait for {0} by {1}", signal.key, (wait.access,))

    def _tell_of(self, text: str, signal: Signal, *accesses: object) -> None:
        """Tell what is wrong with a flag; *text* names it and the calls by their places."""
        if self._tell is not None:
            self._tell(text, signal.key, [access for access in accesses if access is not None])

    def _is_checked(self, signal: Signal) -> bool:
        """Whether the signal is a flag, which stays set until it is reset, and somebody wants to know."""
        return self._tell is not None and isinstance(signal.key, Event)

    def _check_stale(self, wait: SignalWait) -> None:
        """Tell whether *wait*, which is new, may pass on a set that surely comes before another one."""
        if self._is_checked(wait.signal):
            pairs = ((old, new) for new in reversed(wait.enough) for old in wait.enough if old is not new)
            stale = next(((old, new) for old, new in pairs if self._is_behind(new.point, old.point)), None)
            if stale is not None:
                text = (
                    "{3} may pass on the set of {0} by {1}, which nothing has cleared, and not wait for the one by {2}"
                )
                self._tell_of(text, wait.signal, stale[0].access, stale[1].access, wait.access)

    def _check_unseen(self, signal: Signal, clear: _Clear, known: Clock) -> None:
        """Tell whether *clear*, which is new, surely clears a set that no wait may have passed on. *known* is what the
        host has waited for.
        """
        if self._is_checked(signal):
            seen = {id(each) for wait in signal.waits for each in wait.enough}
            cleared = [each for each in signal.sets if self._is_behind(clear.point, each.point)]
            last = cleared[-1] if cleared else None
            if last is None or id(last) in seen or known.get(last.point.actor, 0) >= last.point.epoch:
                return
            if not any(self._is_behind(each.point, last.point) for each in signal.clears):
                text = "{2} clears {0} before anything has waited for the set by {1}: that signal is lost"
                self._tell_of(text, signal, last.access, clear.access)

    def _check(self, wait: SignalWait) -> None:
        """Tell whether the signal of *wait* may be cleared before it has seen it."""
        if self._is_checked(wait.signal) and "lost" not in wait.told:
            lost = next((clear for clear in wait.signal.clears if self._may_lose(wait, clear)), None)
            if lost is not None:
                wait.told.add("lost")
                text = "{1} may clear {0} before {3} has seen the set by {2}"
                self._tell_of(text, wait.signal, lost.access, wait.enough[-1].access, wait.access)

    def _may_lose(self, wait: SignalWait, clear: _Clear) -> bool:
        """Whether *clear* may come behind all sets that *wait* may pass on, and before *wait* itself."""
        point = clear.point
        if not wait.enough or any(self._is_behind(each.point, point) for each in wait.enough):
            return False
        if point.actor == wait.actor:
            return point.epoch < wait.line_epoch
        return self._order.closure(point.clock).get(wait.number, 0) < wait.epoch

    # --- what waits are behind

    def solve(self) -> None:
        """Compute again what all waits are behind, beginning from nothing: what grows from there is certain."""
        waits = [wait for signal in self._signals.values() for wait in signal.waits]
        for wait in waits:
            wait.past, wait.enough, wait.is_open = NOTHING, [], True
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
            past = joined(past, _common(self._pasts(sets), len(passed)))
        wait.enough = enough
        wait.is_open = not enough
        if wait.epoch > 1:  # its stream has passed those before
            past = joined(self._order.wait_at(wait.number, wait.epoch - 1).past, past)
        if past == wait.past:
            return False
        wait.past = past
        return True

    def _over(self, wait: SignalWait) -> Clock:
        """Return what is over when *wait* passes, without itself."""
        return self._order.closure(joined({**wait.before, wait.actor: wait.line_epoch - 1}, wait.past))

    def _pasts(self, sets: Sequence[_Set]) -> list[Clock]:
        return [{**self._order.closure(point.clock), point.actor: point.epoch} for point, _, _ in sets]

    def _is_after(self, each: _Set, wait: SignalWait) -> bool:
        """Whether the set *each* comes after *wait*, which so cannot pass on it."""
        point = each.point
        if point.actor == wait.actor and point.epoch > wait.line_epoch:
            return True
        return self._order.closure(point.clock).get(wait.number, 0) >= wait.epoch

    def _is_undone(self, each: _Set, wait: SignalWait, over: Clock, taken: Sequence[Clock]) -> bool:
        """Whether the set *each* is surely cleared, taken or replaced by another value, before *wait* passes."""
        point, signal = each.point, wait.signal
        clears = [
            *(clear.point for clear in signal.clears),
            *(other.point for other in signal.sets if not wait.fits(other.value)),
        ]
        if any(over.get(clear.actor, 0) >= clear.epoch and self._is_behind(clear, point) for clear in clears):
            return True
        return any(clock.get(point.actor, 0) >= point.epoch for clock in taken)

    def _is_behind(self, point: Point, earlier: Point) -> bool:
        if point.actor == earlier.actor:
            return point.epoch > earlier.epoch
        return self._order.closure(point.clock).get(earlier.actor, 0) >= earlier.epoch


def _common(clocks: Iterable[Clock], spared: int) -> Clock:
    """Return what is in all of *clocks* but at most *spared*: more than that many of them are over."""
    clocks = list(clocks)
    if len(clocks) <= spared:
        return NOTHING
    actors = {actor: None for clock in clocks for actor in clock}
    reached = {actor: sorted(clock.get(actor, 0) for clock in clocks)[spared] for actor in actors}
    return {actor: there for actor, there in reached.items() if there}
