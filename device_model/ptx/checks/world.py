"""Global memory of a launch: what threads of different blocks, or of one block without a barrier, do to each other."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from device_model.ptx.checks.flags import Flags
from device_model.ptx.checks.lines import Access
from device_model.ptx.checks.order import Order
from device_model.ptx.checks.picking import picked, table
from device_model.ptx.checks.races import Report, Suspects, suspects
from device_model.ptx.checks.rules import Rule
from device_model.ptx.checks.shadows import LANE, STAMP, STRONG, Shadow
from device_model.ptx.lanes.group import Array, Group, Ints, Lanes
from device_model.ptx.lanes.launch import Launch
from device_model.ptx.lanes.regions import Region

_ALIGNED = ~15


class _Seen(NamedTuple):
    """The lanes of an access that are looked at, and its granules."""

    lanes: Ints  # in the group
    offset: Ints  # in the region
    where: Any
    granules: int
    mine: Array
    region: Region
    shadow: Shadow
    nbytes: int


class GlobalChecks:
    """Checks the accesses of a launch to global memory."""

    __slots__ = ("_flags", "_launch", "_report", "_shadows", "_written")

    def __init__(self, launch: Launch, report: Report, written: Sequence[int] | None) -> None:
        self._launch = launch
        self._report = report
        self._shadows: dict[int, Shadow] = {}
        self._flags: Flags | None = None
        self._written: list[int] | None = None  # where the regions begin that the kernel may change; None: anywhere
        if written is not None:
            values = [int(launch.parameters[at : at + 8].view(np.uint64)[0]) for at in written]
            regions = [launch.memory.find(value) for value in values]
            self._written = [region.start & _ALIGNED for region in regions if region is not None]

    def load(self, at: Lanes, order: Order, address: Array, nbytes: int, access: Access) -> None:
        """Check and note a load."""
        seen = None if access.is_constant else self._see(at, address, nbytes, access, is_load=True)
        if seen is None:
            return
        self._check(Rule.RAW, at, order, seen, seen.shadow.writes[seen.where], access)
        if order.highest == 1:  # there was no barrier
            seen.shadow.read(seen.where, seen.mine, lambda words: words == 0)
            return
        floor: Any = order.lowest
        threads = self._launch.threads
        if order.lowest != order.highest:
            floor = np.repeat(order.floor[seen.lanes // threads], seen.granules)

        def is_over(words: Array) -> Array:
            is_own = (words & LANE) // threads == (seen.mine & LANE) // threads
            return np.asarray((words == 0) | (is_own & (words >> STAMP < floor)))

        seen.shadow.read(seen.where, seen.mine, is_over)

    def store(
        self, at: Lanes, order: Order, address: Array, nbytes: int, access: Access, values: Sequence[Array]
    ) -> None:
        """Check and note a store."""
        seen = self._see(at, address, nbytes, access, values)
        if seen is None:
            return
        self._check(Rule.WAW, at, order, seen, seen.shadow.writes[seen.where], access, values)
        self._check_readers(at, order, seen, access)
        last = seen.shadow.write(seen.where, seen.mine)
        if last is not None and not access.is_strong:
            self._check_lanes(seen, last, access, at, values)

    def change(self, at: Lanes, order: Order, address: Array, nbytes: int, access: Access) -> None:
        """Check and note an atomic operation."""
        seen = self._see(at, address, nbytes, access)
        if seen is None:
            return
        self._check(Rule.RAW, at, order, seen, seen.shadow.writes[seen.where], access)
        self._check_readers(at, order, seen, access)
        seen.shadow.write(seen.where, seen.mine)

    def synchronise(self, at: Lanes, order: Order, now: int, *, releases: bool, acquires: bool) -> None:
        """The lanes use a lock or a flag: other blocks may know by it what theirs did."""
        if self._flags is None:
            self._flags = Flags(self._launch)
        self._flags.use(at, order, now, releases=releases, acquires=acquires)

    def barrier(self, group: Group, blocks: Array) -> None:
        """Threads of *blocks*, a mask, have waited for each other."""
        if self._flags is not None:
            self._flags.barrier(group, blocks)

    def _see(
        self, at: Lanes, address: Array, nbytes: int, access: Access, values: Sequence[Array] = (), *,
        is_load: bool = False,
    ) -> _Seen | None:  # fmt: skip
        """Return what is looked at.

        None if the addresses are not all in one region: each one has its own calls. None also for loads of what the
        kernel does not change.
        """
        low, high = int(address.min()), int(address.max())
        region = self._launch.memory.find(low)
        if region is None or high + nbytes > region.stop:
            return None
        base = region.start & _ALIGNED
        shadow = self._shadows.get(base)
        if is_load and shadow is None and self._written is not None and base not in self._written:
            return None
        if shadow is None:
            shadow = self._shadows[base] = Shadow(region.stop - base)
        lanes, places = picked(at, address, values)
        where, count = shadow.places(0, places - base, nbytes)
        word = self._report.stamp(access) << STAMP | STRONG * access.is_strong
        mine = (lanes + at.group.first * self._launch.threads & LANE) + word
        if count > 1:
            mine = np.repeat(mine, count)
        return _Seen(lanes, places - region.start, where, count, mine, region, shadow, nbytes)

    def _check_readers(self, at: Lanes, order: Order, seen: _Seen, access: Access) -> None:
        readers = seen.shadow.readers(seen.where)
        if readers is not None:
            for words in readers:
                self._check(Rule.WAR, at, order, seen, words, access)

    def _check(
        self, rule: Rule, at: Lanes, order: Order, seen: _Seen, words: Array, access: Access,
        values: Sequence[Array] = (),
    ) -> None:  # fmt: skip
        """Report the lanes that do not know that the accesses *words* are over."""
        found = suspects(words, seen.mine, 1)
        if found is None:
            return
        wrong = ~self._knows(at, order, found)
        if values and wrong.any():
            wrong &= self._changes(seen, found.at // seen.granules, at, values)
        if wrong.any():
            self._report.race(rule, 0, found.part(wrong), access, lambda at: _bytes(seen, at // seen.granules))

    def _knows(self, at: Lanes, order: Order, found: Suspects) -> Array:
        block, thread = np.divmod(found.lane, self._launch.threads)
        other_block, other = np.divmod(found.other, self._launch.threads)
        is_own = block == other_block
        known = np.zeros(len(block), np.bool_)
        if is_own.any():
            inner = block[is_own] - at.group.first
            known[is_own] = order.knows(inner, thread[is_own], other[is_own], found.stamp[is_own])
        if self._flags is not None:
            known |= ~is_own & self._flags.know(block, thread, other_block, other, found.stamp)
        return known

    def _changes(self, seen: _Seen, which: Ints, at: Lanes, values: Sequence[Array]) -> Array:
        """Return which of the lanes store another value than memory has."""
        size = values[0].dtype.itemsize
        places = seen.offset[which] // size
        differs = np.zeros(len(which), np.bool_)
        for number, value in enumerate(values):
            old = seen.region.peek(np.dtype(f"u{size}"), places + number)
            differs |= _of(at, value, seen.lanes[which]) != old
        return differs

    def _check_lanes(self, seen: _Seen, last: Array, access: Access, at: Lanes, values: Sequence[Array]) -> None:
        """Report lanes that store something else than the lane that counts, at the same address."""
        lost = np.flatnonzero(last != seen.mine)
        threads = self._launch.threads
        which, winner = lost // seen.granules, (last[lost] & LANE) - at.group.first * threads
        differs = np.zeros(len(which), np.bool_)
        for value in values:
            differs |= _of(at, value, seen.lanes[which]) != _of(at, value, winner)
        wrong = np.flatnonzero(differs)
        if not len(wrong):
            return
        lane, other = int(seen.lanes[which[wrong[0]]]), int(winner[wrong[0]])
        what = _bytes(seen, int(which[wrong[0]]))
        if lane // threads == other // threads:
            block = lane // threads + at.group.first
            self._report.two_writers(block, lane % threads, other % threads, what, access)
            return
        first = at.group.first * threads
        stamp = np.array([self._report.now])
        pair = Suspects(
            np.array([which[wrong[0]] * seen.granules]), np.array([lane + first]), np.array([other + first]), stamp
        )
        self._report.race(Rule.WAW, 0, pair, access, lambda _: what)


def _of(at: Lanes, value: Array, lanes: Ints) -> Array:
    """Return the bits of *value* of *lanes*."""
    shape = at.group.blocks, at.group.threads
    return np.broadcast_to(table(at, value), shape)[np.divmod(lanes, at.group.threads)]


def _bytes(seen: _Seen, lane: int) -> str:
    start = int(seen.offset[lane])
    return f"bytes {start}:{start + seen.nbytes} of the memory at {seen.region.start:#x}"
