"""Signals: level flags of events, notifies, and words of memory that streams set and wait for.

A wait for a signal passes on any set that it may see: an older one that nothing has cleared, or a later one. So it is
behind what all these sets have in common, and not behind the newest. A notify is cleared by the wait that it lets pass,
so its waits take its sets one by one.

A wait may be queued before the set. Then the stream is *open*: what is queued behind the wait looks unordered, until
the set is queued.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from acl_py.sanitizer.order import Line, Order, Point

_KEPT = 64  # sets of one signal; the oldest are forgotten


class _Set(NamedTuple):
    point: Point
    value: int


class _Open(NamedTuple):
    """A wait of *line* that no set satisfies yet: it passes on a value that *fits*."""

    line: Line
    since: int
    fits: Callable[[int], bool]


class Signal:
    """The sets of one signal that a wait may see, and the waits without one."""

    __slots__ = ("is_consumed", "sets", "waits")

    def __init__(self, *, is_consumed: bool) -> None:
        self.is_consumed = is_consumed
        self.sets: list[_Set] = []
        self.waits: list[_Open] = []


class Signals:
    """All signals of one program, by what they belong to: an event, a notify, an address."""

    __slots__ = ("_order", "_signals", "open")

    def __init__(self, order: Order) -> None:
        self._order = order
        self._signals: dict[object, Signal] = {}
        self.open: dict[int, list[_Open]] = {}  # the waits without a set, by the number of their actor

    def set(self, key: object, point: Point, value: int = 1, *, is_consumed: bool = False) -> bool:
        """Set a signal at *point*; return whether that has ended a wait without a set."""
        signal = self._signal(key, is_consumed=is_consumed)
        fitting = [wait for wait in signal.waits if wait.fits(value)]
        for wait in fitting[:1] if is_consumed else fitting:
            signal.waits.remove(wait)
            self._close(wait)
            wait.line.join((point,))
        if not (is_consumed and fitting):
            signal.sets.append(_Set(point, value))
            del signal.sets[:-_KEPT]
        return bool(fitting)

    def clear(self, key: object, by: Point | None) -> None:
        """Clear a signal at *by*, or at once: the sets that are over by then can no longer be seen."""
        signal = self._signals.get(key)
        if signal is not None:
            signal.sets = [] if by is None else [each for each in signal.sets if not _is_behind(by, each.point)]

    def wait(self, key: object, line: Line, fits: Callable[[int], bool] = bool, *, is_consumed: bool = False) -> None:
        """Let *line* wait for a signal whose value *fits*."""
        signal = self._signal(key, is_consumed=is_consumed)
        seen = [each for each in signal.sets if fits(each.value)]
        if not seen:
            wait = _Open(line, line.count + 1, fits)
            line.count += 1
            signal.waits.append(wait)
            self.open.setdefault(line.number, []).append(wait)
            return
        line.join(_common([each.point for each in seen]))
        if is_consumed:
            signal.sets.remove(seen[0])

    def is_open(self, actor: int, epoch: int) -> bool:
        """Whether *epoch* of *actor* is behind a wait whose set is still to come."""
        return any(wait.since <= epoch for wait in self.open.get(actor, ()))

    def forget(self, key: object) -> None:
        """Drop a signal that was destroyed."""
        self._signals.pop(key, None)

    def _signal(self, key: object, *, is_consumed: bool) -> Signal:
        signal = self._signals.get(key)
        if signal is None:
            signal = self._signals[key] = Signal(is_consumed=is_consumed)
        return signal

    def _close(self, wait: _Open) -> None:
        waits = self.open[wait.line.number]
        waits.remove(wait)
        if not waits:
            del self.open[wait.line.number]


def _is_behind(point: Point, earlier: Point) -> bool:
    if point.actor == earlier.actor:
        return point.epoch >= earlier.epoch
    return point.clock.get(earlier.actor, 0) >= earlier.epoch


def _common(points: list[Point]) -> Iterable[Point]:
    """Return what is over at each of *points*."""
    if len(points) == 1:
        return points
    clocks = [{**point.clock, point.actor: point.epoch} for point in points]
    first, *others = clocks
    reached = {actor: min(clock.get(actor, 0) for clock in clocks) for actor in first}
    return [Point(actor, epoch, {}) for actor, epoch in reached.items() if epoch and all(actor in c for c in others)]
