"""Handovers: which task or thread acts as which host, and when hosts handed one another what they knew.

What a host knew is described by a place in the recording: so many rows of calls and of accesses, and so many handovers
before. A host that takes the same thing twice, or an older one, takes nothing new: that has no row.
"""

from typing import NamedTuple

from acl_py.trace.rows.packing import Numbers
from device_model.completions import Nanoseconds


class Place(NamedTuple):
    """A moment of the host: the time, and how many rows of calls, of accesses and of handovers there were."""

    at_ns: Nanoseconds
    calls: int
    accesses: int
    handovers: int


class Gift(NamedTuple):
    """What the host with the number *giver*, or the operation with the serial number *function*, knew at a place."""

    giver: int
    function: int
    place: Place


class Row(NamedTuple):
    """*gift*, a number, was taken by the host with the number *taker*."""

    gift: int
    taker: int
    place: Place
    is_seen: bool


class Handovers:
    """The handovers of a recording; hosts have numbers in the order in which they appear."""

    __slots__ = ("_last", "_latest", "_taken", "callers", "gifts", "hosts", "rows")

    def __init__(self) -> None:
        self.hosts: Numbers[int] = Numbers()  # by the numbers that the sanitizer has
        self.callers: dict[int, int] = {}  # the host of each task or thread, by its number
        self.gifts: list[Gift] = []
        self.rows: list[Row] = []
        self._latest: dict[tuple[int, int], tuple[int, object]] = {}  # the gift of each giver, and what it knew
        self._last: dict[int, int] = {}  # the last row of each taker
        self._taken: dict[tuple[int, int, int, bool], int] = {}  # the latest gift; by giver, taker, whether it is seen

    def host(self, caller: int, host: int) -> None:
        """Note that *caller* acts as *host*."""
        self.callers[caller] = self.hosts[host]

    def give(self, giver: int, function: int, moment: Place, progress: object) -> int:
        """Return the number of what is given at this *moment*: that of before if there has been no *progress* since."""
        key = (-1, function) if function >= 0 else (self.hosts[giver], -1)
        state = moment.calls, moment.accesses, progress, self._last.get(key[0])
        latest = self._latest.get(key)
        if latest is not None and latest[1] == state:
            return latest[0]
        self._latest[key] = len(self.gifts), state
        self.gifts.append(Gift(*key, moment._replace(handovers=len(self.rows))))
        return len(self.gifts) - 1

    def take(self, gift: int, host: int, moment: Place, *, is_seen: bool) -> None:
        """Add a row, if *host* has taken nothing of this giver since then."""
        taker, giver = self.hosts[host], self.gifts[gift]
        key = giver.giver, giver.function, taker, is_seen
        if giver.giver != taker and self._taken.get(key, -1) < gift:
            self._taken[key] = gift
            self._last[taker] = len(self.rows)
            self.rows.append(Row(gift, taker, moment._replace(handovers=len(self.rows)), is_seen))
