"""Global memory of a launch: what threads of different blocks, or of one block without a barrier, do to each other."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from device_model.ptx.checks.fences import Fences
from device_model.ptx.checks.flags import Flags
from device_model.ptx.checks.lines import Access
from device_model.ptx.checks.order import Order
from device_model.ptx.checks.picking import picked, table
from device_model.ptx.checks.races import ATOMIC, NARROW, NO_ACQUIRE, NO_RELEASE, Report, Suspects, suspects
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

    __slots__ = ("_fences", "_flags", "_launch", "_report", "_shadows", "_written")

    def __init__(self, launch: Launch, report: Report, written: Sequence[int] | None) -> None:
        self._launch = launch
        self._report = report
        self._shadows: dict[int, Shadow] = {}
        self._flags: Flags | None = None  # both are made when the kernel uses a lock or a flag, or runs a fence
        self._fences: Fences | None = None
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
        self._check_scope(seen, last, access)

    def change(self, at: Lanes, order: Order, address: Array, nbytes: int, access: Access) -> None:
        """Check and note an atomic operation."""
        seen = self._see(at, address, nbytes, access)
        if seen is None:
            return
        self._check(Rule.RAW, at, order, seen, seen.shadow.writes[seen.where], access)
        self._check_readers(at, order, seen, access)
        self._check_scope(seen, seen.shadow.write(seen.where, seen.mine), access)

    def synchronise(self, at: Lanes, order: Order, now: int, access: Access, space: str) -> None:
        """The lanes use a lock or a flag: other blocks may know by it what theirs did."""
        flags, fences = self._known()
        flags.use(at, order, now, releases=access.releases, acquires=access.acquires)
        fences.use_as(access, at, order, now, is_inner=space == "shared")

    def fence(self, at: Lanes, order: Order, now: int) -> None:
        """The lanes run a fence."""
        self._known()[1].fence(at, order, now)

    def _known(self) -> tuple[Flags, Fences]:
        if self._flags is None or self._fences is None:
            self._flags, self._fences = Flags(self._launch), Fences(self._launch)
        return self._flags, self._fences

    def barrier(self, group: Group, blocks: Array) -> None:
        """Threads of *blocks*, a mask, have waited for each other."""
        if self._flags is not None:
            self._flags.barrier(group, blocks)
        if self._fences is not None:
            self._fences.barrier(group, blocks)

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
        word = self._report.stamp(access) << STAMP | STRONG * (access.is_strong and not access.is_narrow)
        mine = (lanes + at.group.first * self._launch.threads & LANE) + np.int64(word)
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
        wrong = ~self._knows(at, order, found, access)
        if values and wrong.any():
            wrong &= self._changes(seen, found.at // seen.granules, at, values)
        if wrong.any():
            for missing, part in self._by_cause(found.part(wrong), access):
                self._report.race(rule, 0, part, access, lambda at: _bytes(seen, at // seen.granules), missing)

    def _by_cause(self, found: Suspects, access: Access) -> list[tuple[str, Suspects]]:
        """Return what is missing between two blocks, and the suspects that lack it."""
        narrow = self._are_strong(found.stamp) & access.is_strong
        flagged = shown = np.zeros(len(narrow), np.bool_)
        if self._flags is not None and self._fences is not None:
            block, thread, other_block, other = self._places(found)
            flagged = ~narrow & self._flags.know(block, thread, other_block, other, found.stamp)
            shown = self._fences.shows(other_block, other, found.stamp)
        masks = (
            (NARROW, narrow),
            (ATOMIC, ~narrow & ~flagged),
            (NO_RELEASE, flagged & ~shown),
            (NO_ACQUIRE, flagged & shown),
        )
        return [(missing, found.part(mask)) for missing, mask in masks if mask.any()]

    def _knows(self, at: Lanes, order: Order, found: Suspects, access: Access) -> Array:
        block, thread, other_block, other = places = self._places(found)
        is_own = block == other_block
        known = np.zeros(len(block), np.bool_)
        if is_own.any():
            inner = block[is_own] - at.group.first
            known[is_own] = order.knows(inner, thread[is_own], other[is_own], found.stamp[is_own])
            if access.is_strong:
                known |= is_own & self._are_strong(found.stamp)
        if self._flags is not None and self._fences is not None:
            flagged = ~is_own & self._flags.know(*places, found.stamp)
            if flagged.any():
                known |= flagged & (self._fences.know(*places, found.stamp) | self._are_strong(found.stamp))
        return known

    def _places(self, found: Suspects) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the blocks and threads of suspects, and of those before them."""
        return *np.divmod(found.lane, self._launch.threads), *np.divmod(found.other, self._launch.threads)

    def _are_strong(self, stamps: Ints) -> Array:
        """Return which accesses are strong: what has read a flag comes after its store, without a fence."""
        each, place = np.unique(stamps, return_inverse=True)
        return np.array([self._report.access(stamp).is_strong for stamp in each.tolist()])[place]

    def _changes(self, seen: _Seen, which: Ints, at: Lanes, values: Sequence[Array]) -> Array:
        """Return which of the lanes store another value than memory has."""
        size = values[0].dtype.itemsize
        places = seen.offset[which] // size
        differs = np.zeros(len(which), np.bool_)
        for number, value in enumerate(values):
            old = seen.region.peek(np.dtype(f"u{size}"), places + number)
            differs |= _of(at, value, seen.lanes[which]) != old
        return differs

    def _check_scope(self, seen: _Seen, last: Array | None, access: Access) -> None:
        """Report lanes of different blocks that change one address at the same time, with the scope of a block."""
        if last is None or not access.is_narrow:
            return
        threads = self._launch.threads
        apart = np.flatnonzero((last & LANE) // threads != (seen.mine & LANE) // threads)
        if len(apart):
            stamps = np.full(len(apart), self._report.now)
            found = Suspects(apart, seen.mine[apart] & LANE, last[apart] & LANE, stamps)
            self._report.race(Rule.WAW, 0, found, access, lambda at: _bytes(seen, at // seen.granules), NARROW)

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
