"""Meetings: which calls of collectives belong together, and which ranks each of them gets something from.

What a call gives is over when the call that gets it is. So a rank's later work is behind the earlier work of the ranks
that it has got something from. Calls match by their number: collectives in their communicator, Sends and Recvs in their
pair of ranks.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from device_model.collectives.calls import POINT_TO_POINT, CollectiveKind

_FROM_ROOT = (CollectiveKind.BROADCAST, CollectiveKind.SCATTER)


class Communicator(Protocol):
    """What the relation asks of the communicator of a rank, live or recorded."""

    @property
    def index(self) -> int:
        """The number of the rank."""

    @property
    def size(self) -> int:
        """How many ranks there are."""

    @property
    def number(self) -> int:
        """The number that tells its ranks from those of others."""


class Meeting:
    """Calls of *size* seats that belong together."""

    __slots__ = ("size", "taken")

    def __init__(self, size: int) -> None:
        self.size = size
        self.taken = 0

    @property
    def is_full(self) -> bool:
        """Whether all have called."""
        return self.taken == self.size


class Meetings:
    """The meetings of a program."""

    __slots__ = ("_counts", "_open")

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, ...]] = Counter()
        self._open: dict[tuple[int, ...], Meeting] = {}

    def seat(self, call: Any, communicator: Communicator) -> tuple[Meeting, int, Sequence[int]]:
        """Return where *call* takes part, its seat there, and the seats that it gets something from."""
        kind = CollectiveKind(call.kind)  # a recorded call has its value
        me, size, number = communicator.index, communicator.size, communicator.number
        if kind in POINT_TO_POINT:
            seat = int(kind is CollectiveKind.RECV)
            pair = (me, call.peer) if not seat else (call.peer, me)
            self._counts[number, *pair, seat] += 1
            key: tuple[int, ...] = (number, *pair, self._counts[number, *pair, seat])
            return self._take(key, 2), seat, (0,) if seat else ()
        self._counts[number, me] += 1
        others = [rank for rank in range(size) if rank != me]
        if kind in _FROM_ROOT:
            others = [rank for rank in others if rank == call.root]
        elif kind is CollectiveKind.REDUCE and me != call.root:
            others = []
        return self._take((number, self._counts[number, me]), size), me, others

    def _take(self, key: tuple[int, ...], size: int) -> Meeting:
        meeting = self._open.setdefault(key, Meeting(size))
        meeting.taken += 1
        if meeting.is_full:
            del self._open[key]
        return meeting
