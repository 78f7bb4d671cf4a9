"""Shared memory of one group of blocks: what is read before it is written, and what no barrier orders.

Blocks that do the same have one row of the shadow together, until one of them does something else.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from device_model.ptx.checks.lines import Access
from device_model.ptx.checks.order import Order
from device_model.ptx.checks.picking import in_all_blocks, picked_of_block, table
from device_model.ptx.checks.races import Report, suspects
from device_model.ptx.checks.rules import Rule
from device_model.ptx.checks.shadows import LANE, STAMP, STRONG, Shadow
from device_model.ptx.checks.variables import Variables
from device_model.ptx.lanes.group import WARP, Array, Group, Ints, Lanes


class _Seen(NamedTuple):
    """The lanes of an access that are looked at, and its granules."""

    block: Ints
    thread: Ints
    address: Ints
    where: Any  # the places of all granules
    granules: int  # granules of each lane
    mine: Array  # the words of the granules
    nbytes: int


class SharedChecks:
    """Checks the accesses of *group* to shared memory."""

    __slots__ = ("_group", "_order", "_report", "_shadow", "_variables")

    def __init__(self, group: Group, order: Order, report: Report, variables: Variables) -> None:
        self._group = group
        self._order = order
        self._report = report
        self._variables = variables
        self._shadow = Shadow(group.shared_bytes)

    def spread(self) -> None:
        """Let each block have a row of its own."""
        if self._shadow.rows < self._group.blocks:
            self._shadow.spread(self._group.blocks)

    def load(self, at: Lanes, address: Array, nbytes: int, access: Access) -> None:
        """Check and note a load."""
        seen = self._see(at, address, nbytes, access)
        words = self._shadow.writes[seen.where]
        self._check_written(seen, words, access)
        self._check(Rule.RAW, seen, words, access)
        floor = self._floor(seen)
        oldest = self._order.lowest << STAMP
        self._shadow.read(seen.where, seen.mine, lambda word: word >> STAMP < floor, oldest)

    def store(self, at: Lanes, address: Array, nbytes: int, access: Access, values: Sequence[Array]) -> None:
        """Check and note a store."""
        seen = self._see(at, address, nbytes, access, values)
        words = self._shadow.writes[seen.where]
        self._check(Rule.WAW, seen, words, access, (at, values))
        self._check_readers(seen, access)
        last = self._shadow.write(seen.where, seen.mine)
        if last is not None and not access.is_strong:
            self._check_lanes(seen, last, access, at, values)

    def change(self, at: Lanes, address: Array, nbytes: int, access: Access) -> None:
        """Check and note an atomic operation."""
        seen = self._see(at, address, nbytes, access)
        words = self._shadow.writes[seen.where]
        self._check_written(seen, words, access)
        self._check(Rule.RAW, seen, words, access)
        self._check_readers(seen, access)
        self._shadow.write(seen.where, seen.mine)

    def _see(self, at: Lanes, address: Array, nbytes: int, access: Access, values: Sequence[Array] = ()) -> _Seen:
        group = self._group
        lanes, places, is_same = picked_of_block(at, address, values)
        if not is_same:
            self.spread()
        elif self._shadow.rows > 1:
            lanes, places = in_all_blocks(group, lanes, places)
        row: Ints | int = 0
        if is_same and self._shadow.rows == 1:
            block, thread = np.zeros_like(lanes), lanes
        else:
            block, thread = np.divmod(lanes, group.threads)
            row = block
        where, count = self._shadow.places(row, places, nbytes)
        is_strong = access.is_strong and not access.is_volatile
        mine = thread + np.int64(self._report.stamp(access) << STAMP | STRONG * is_strong)
        return _Seen(block, thread, places, where, count, np.repeat(mine, count) if count > 1 else mine, nbytes)

    def _floor(self, seen: _Seen) -> Any:
        order = self._order
        return order.lowest if order.lowest == order.highest else np.repeat(order.floor[seen.block], seen.granules)

    def _check_written(self, seen: _Seen, words: Array, access: Access) -> None:
        if np.minimum.reduce(words):
            return
        nothing = words.reshape(len(seen.thread), -1) == 0
        if seen.granules > access.parts:
            nothing = nothing.reshape(len(seen.thread), access.parts, -1).all(2)
        if access.unused and nothing.shape[1] == access.parts:
            nothing[:, access.unused] = False
        wrong = np.flatnonzero(nothing.any(1))
        if not len(wrong):
            return
        lane = int(wrong[0])
        self._report.find(
            Rule.UNWRITTEN_READ,
            self._group.first + int(seen.block[lane]),
            int(seen.thread[lane]),
            f"reads {self._bytes(seen, lane)} in {self._report.place(access.line)}, where nothing was written; on a "
            "card there is what an earlier block left",
            (access.line,),
            "a store",
        )

    def _check_readers(self, seen: _Seen, access: Access) -> None:
        readers = self._shadow.readers(seen.where)
        if readers is not None:
            for words in readers:
                self._check(Rule.WAR, seen, words, access)

    def _check(
        self, rule: Rule, seen: _Seen, words: Array, access: Access,
        stored: tuple[Lanes, Sequence[Array]] | None = None,
    ) -> None:  # fmt: skip
        """Report the lanes that do not know that the accesses *words* are over."""
        found = suspects(words, seen.mine, self._order.lowest)
        if found is None:
            return
        block = seen.block[found.at // seen.granules]
        wrong = ~self._order.knows(block, found.lane, found.other, found.stamp)
        if access.is_strong:
            stamps, place = np.unique(found.stamp, return_inverse=True)
            are_strong = np.array([self._report.access(stamp).is_strong for stamp in stamps.tolist()])
            wrong &= ~(are_strong[place] & (found.lane // WARP != found.other // WARP))
        if stored is not None and wrong.any():
            wrong &= self._changes(seen, found.at // seen.granules, *stored)
        if not wrong.any():
            return
        base = block * self._group.threads
        found = found._replace(lane=found.lane + base, other=found.other + base).part(wrong)
        self._report.race(rule, self._group.first, found, access, lambda at: self._bytes(seen, at // seen.granules))

    def _changes(self, seen: _Seen, which: Ints, at: Lanes, values: Sequence[Array]) -> Array:
        """Return which of the lanes store another value than memory has."""
        group, size = self._group, values[0].dtype.itemsize
        memory = group.shared.view(f"u{size}").reshape(group.blocks, -1)
        rows: Any = slice(None) if self._shadow.rows == 1 else seen.block[which]
        differs = np.zeros(len(which), np.bool_)
        for number, value in enumerate(values):
            column = np.minimum(seen.address[which] // size + number, memory.shape[1] - 1)
            new, old = table(at, value), memory[rows, column]
            other = np.broadcast_to(new, (group.blocks, group.threads))[rows, seen.thread[which]] != old
            differs |= other.any(0) if self._shadow.rows == 1 else other
        return differs

    def _check_lanes(self, seen: _Seen, last: Array, access: Access, at: Lanes, values: Sequence[Array]) -> None:
        """Report lanes that store something else than the lane that counts, at the same address."""
        lost = np.flatnonzero(last != seen.mine)
        which, winner = lost // seen.granules, last[lost] & LANE
        rows: Any = slice(None) if self._shadow.rows == 1 else seen.block[which]
        differs = np.zeros(len(which), np.bool_)
        for value in values:
            whole = np.broadcast_to(table(at, value), (self._group.blocks, self._group.threads))
            other = whole[rows, seen.thread[which]] != whole[rows, winner]
            differs |= other.any(0) if self._shadow.rows == 1 else other
        wrong = np.flatnonzero(differs)
        if len(wrong):
            lane = int(which[wrong[0]])
            self._report.two_writers(
                self._group.first + int(seen.block[lane]), int(seen.thread[lane]), int(winner[wrong[0]]),
                self._bytes(seen, lane), access,
            )  # fmt: skip

    def _bytes(self, seen: _Seen, lane: int) -> str:
        return self._variables.describe("shared", int(seen.address[lane]), seen.nbytes)
