"""A sampled block: what each of its warps did, and the traffic of its accesses."""

from collections import Counter
from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from device_model.ptx.lanes.group import WARP, Array


class Access(NamedTuple):
    """The traffic of an access of a warp.

    Attributes:
        phases: Of shared memory.
        sectors: Of 32 bytes that the L2 gives or takes.
        lines: Of 128 bytes in which these are.
        hits: Sectors that L1 has.
        atomics: Distinct addresses of an atomic operation.
        same: Lanes of the address that has most of them.
        wanted: Sectors that the bytes of the lanes would fill, side by side; those that L1 has count, too.
        conflicts: Phases of shared memory that banks with several words add.
        tags: Lines of 128 bytes that L1 looks up.
    """

    phases: int = 0
    sectors: int = 0
    lines: int = 0
    hits: int = 0
    atomics: int = 0
    same: int = 0
    wanted: int = 0
    conflicts: int = 0
    tags: int = 0

    def plus(self, other: "Access") -> "Access":
        """Return the traffic of both."""
        return Access(*(one + two for one, two in zip(self, other, strict=True)))


Visit = tuple[int, dict[int, Access]]  # a block of code, and by line of PTX what its accesses did


class Sample:
    """A sampled block: what each of its warps did, and the sectors that L1 has of it.

    Of a block that is not *close*, only the order of the code is kept, and no traffic.

    Attributes:
        place: Its number in the grid.
        visits: What each warp did.
        known: The sectors in L1, the oldest one first, each with the line of PTX that asked for it.
        found: Which lines of PTX found sectors in L1 that another line had asked for: (found, asked).
        splits: How often lanes of a warp went different ways behind a block of code.
    """

    __slots__ = ("_last", "_threads", "close", "found", "known", "place", "splits", "visits")

    def __init__(self, place: int, threads: int, *, close: bool) -> None:
        self.place = place
        self.close = close
        self.visits: list[list[Visit]] = [[] for _ in range(-(-threads // WARP))]
        self.known: dict[int, int] = {}
        self.found: dict[tuple[int, int], None] = {}
        self.splits: Counter[int] = Counter()
        self._threads = threads
        self._last: int | Array = -1  # the block of code that all threads ran, or that each one ran

    def go_all(self, number: int) -> None:
        """All threads go on to the block of code *number*."""
        self._last = number

    def go(self, threads: Array, number: int) -> None:
        """*threads* go on to the block of code *number*; others of their warps may not have gone on from theirs."""
        last = self._last = np.full(self._threads, self._last) if isinstance(self._last, int) else self._last
        if len(threads) < len(last):
            warps = len(self.visits)
            from_here = np.bincount((last + 1) * warps + np.arange(len(last)) // WARP)
            going = np.bincount((last[threads] + 1) * warps + threads // WARP, minlength=len(from_here))
            for before in np.flatnonzero((going > 0) & (going < from_here)) // warps - 1:
                self.splits[int(before)] += 1
        last[threads] = number

    def load(self, sectors: Sequence[int], line: int, most: int) -> list[int]:
        """*line* loads *sectors*; return those that L1, which keeps *most*, does not have."""
        new = [each for each in sectors if each not in self.known]
        for each in sectors:
            asked = self.known.pop(each, line)
            self.known[each] = asked
            if asked != line:
                self.found[line, asked] = None
        while len(self.known) > most:
            del self.known[next(iter(self.known))]
        return new

    def changed(self, visits: list[list[Visit]]) -> "Sample":
        """Return the same block with other *visits*."""
        other = copy(self)
        other.visits = visits
        return other
