"""Lanes that repeat a loop without progress: when they look again, and which time ends their loop.

Nothing changes from round to round but the time. So a loop that asks for no time goes on when memory changes. One that
does ends in the first round whose time lets a lane leave it. That round is searched, and not reached round by round:
the lanes run single rounds on trial, at later and later times.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from device_model.ptx.lanes.clocks import Polled
from device_model.ptx.lanes.group import Array, Lanes
from device_model.ptx.lanes.program import Code, Loop

_FAR = 1 << 62  # cycles, after which no time is looked for
_UNKNOWN = -1


class Spin:
    """Lanes at the head of a loop, at *place*.

    Attributes:
        polled: The memory that they look at.
    """

    __slots__ = ("_end", "_seen", "_since", "facts", "lanes", "period", "place", "polled")

    def __init__(self, place: int, facts: Loop, lanes: Lanes) -> None:
        self.place = place
        self.facts = facts
        self.lanes = lanes
        self.polled: list[Polled] = []
        self._seen: list[bytes] = []  # what they found there
        self.period: Array = np.ones(lanes.count, np.int64)  # cycles of a round of each lane
        self._since: Array = np.zeros(lanes.count, np.int64)
        self._end: int | None = _UNKNOWN  # the number of the round that ends it; None: no time does

    def note(self, since: Array, now: Array, polled: list[Polled]) -> None:
        """Note when the lanes began to make no progress, one round before *now*, and what they look at."""
        self._since, self.polled = since, polled
        self._seen = [each.contents(self.lanes.group) for each in polled]
        self.period = np.maximum(now - since, 1)

    def is_changed(self) -> bool:
        """Whether other bytes are there than those that the lanes found."""
        return any(each.contents(self.lanes.group) != seen for each, seen in zip(self.polled, self._seen, strict=True))

    def next_look(self, now: int) -> Array:
        """Return when each lane looks again, from *now* on."""
        rounds = np.maximum(0, -(-(now - self._since) // self.period))
        return np.asarray(self._since + rounds * self.period)

    def ends_at(self, code: Sequence[Code]) -> int | None:
        """Return the cycle in which the first lanes leave the loop because of the time; None if none does."""
        if self._end == _UNKNOWN:
            is_single = all(each.loop is None for each in code[self.place + 1 : self.facts.last + 1])
            is_tried = self.facts.reads_clock and self.facts.is_pure and is_single
            self._end = self._round(code) if is_tried else None
        return None if self._end is None else int(self.end_times().min())

    def end_times(self) -> Array:
        """Return the time of each lane in the round in which the first ones leave."""
        assert self._end is not None, "a time ends the loop"
        return np.asarray(self._since + self._end * self.period)

    def is_over(self, now: int) -> bool:
        """Whether the time has come that ends the loop."""
        return self._end not in (None, _UNKNOWN) and int(self.end_times().min()) <= now

    def _round(self, code: Sequence[Code]) -> int | None:
        """Return the first round that a lane leaves: farther and farther ones are tried, then those between."""
        most = _FAR // int(self.period.max())
        stays, leaves = 0, 1
        while not self._leaves(code, leaves):
            stays, leaves = leaves, 2 * leaves
            if leaves > most:
                return None
        while leaves - stays > 1:
            between = (stays + leaves) // 2
            if self._leaves(code, between):
                leaves = between
            else:
                stays = between
        return leaves

    def _leaves(self, code: Sequence[Code], number: int) -> bool:
        """Whether a lane leaves the loop in the round of this number; nothing is changed."""
        group = self.lanes.group
        launch, clock = group.launch, group.launch.clock
        assert clock is not None, "lanes that read the time have one"
        watches, registers, times = launch.watches, group.registers, (clock.spent, clock.worked)
        launch.watches, group.registers = (clock,), registers.copy()
        clock.spent, clock.worked = clock.spent.copy(), clock.worked.copy()
        group.share()
        try:
            clock.set_back(self.lanes, self._since + number * self.period)
            return _Trial(self.place, self.facts.last, self.lanes).run(code)
        finally:
            launch.watches, group.registers = watches, registers
            clock.spent, clock.worked = times
            group.share()


class _Trial:
    """One round of a loop: what `Fragments` is to the ends of blocks of code."""

    def __init__(self, head: int, last: int, lanes: Lanes) -> None:
        self._at = {head: lanes}
        self._head, self._last = head, last
        self._left = False

    def run(self, code: Sequence[Code]) -> bool:
        """Run the round; return whether a lane left the loop."""
        while self._at and not self._left:
            place = min(self._at)
            lanes, block = self._at.pop(place), code[place]
            for watch in lanes.group.launch.watches:
                watch.step(lanes, block)
            block.end.go(self, lanes, block.run(lanes))
        return self._left

    def go(self, place: int, lanes: Lanes) -> None:
        """Let *lanes* run at *place* next, if the round goes on there."""
        if not self._head <= place <= self._last:
            self._left = True
        elif place != self._head:
            before = self._at.get(place)
            if before is not None:
                lanes = Lanes(lanes.group, np.union1d(before.flat.reshape(-1), lanes.flat.reshape(-1)))
            self._at[place] = lanes

    def split(self, lanes: Lanes, mask: Any, first: int, second: int) -> None:
        """Send the lanes for which *mask* is true to *first*, and the others to *second*."""
        flat = np.broadcast_to(mask, lanes.shape).reshape(-1)
        index = lanes.flat.reshape(-1)
        for place, part in ((first, flat), (second, ~flat)):
            if part.all():
                self.go(place, lanes)
            elif part.any():
                self.go(place, Lanes(lanes.group, index[part]))

    sleep = go

    def end(self, lanes: Lanes) -> None:  # noqa: ARG002 - of a block that ends lanes
        """Lanes end: they have left the loop."""
        self._left = True
