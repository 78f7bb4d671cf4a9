"""Parts: what one rank does in a collective, as the work of an operation in one of its streams."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from device_model.collectives import results
from device_model.collectives.calls import Call, label_of
from device_model.errors import DeviceError
from device_model.memory import LARGE
from device_model.work import Extent, Work

if TYPE_CHECKING:
    from device_model.collectives.cliques import Communicator
    from device_model.collectives.exchanges import Exchange


_TAKEN: list[memoryview] = []


class Part(Work):
    """The *calls* that *rank* has queued as one operation: one collective, or any number of Sends and Recvs.

    Each call meets those of other ranks in an exchange. The part is over when all of its exchanges are. A part serves
    one operation only: each launch of a graph makes new ones.
    """

    __slots__ = ("calls", "error", "label", "left", "nbytes", "rank", "seats")
    joins = True

    def __init__(self, rank: "Communicator", calls: Sequence[Call]) -> None:
        first = calls[0]
        self.rank = rank
        self.calls = calls
        self.nbytes = first.nbytes
        self.label = first.label
        self.left = 1  # exchanges that are not over
        self.error: DeviceError | None = None  # what ended it before its time
        # Of each call: where it takes part, and its place there. One that a fault rule has changed has the same list.
        self.seats: list[tuple[Exchange, int]] = []
        if first.peer is not None:
            self._count(calls[1:])

    def add(self, calls: Sequence[Call]) -> None:
        """Make *calls* as well, Sends and Recvs as the others; the part has not been queued yet."""
        self.calls = [*self.calls, *calls]
        self._count(calls)

    def _count(self, calls: Sequence[Call]) -> None:
        for call in calls:
            self.left += 1
            self.nbytes += call.nbytes
            if call.label.name not in self.label.name:
                self.label = label_of(f"{self.label.name} and {call.label.name}")

    def again(self) -> "Part":
        """Return a part for one more operation that makes the same calls."""
        return Part(self.rank, self.calls)

    def awaited(self) -> "Exchange | None":
        """Return the first of its exchanges that has not begun; None if bytes move in all, or it has not its turn."""
        return next((each for each, seat in self.seats if each.arrived[seat] and not each.moves(seat)), None)

    def perform(self) -> None:
        """Write what this rank has received.

        Raises:
            DeviceError: Another rank has failed, the exchange has lasted too long, or memory is gone.
        """
        if self.error is not None:
            raise self.error
        for call, (exchange, seat) in zip(self.calls, self.seats):  # noqa: B905 - of one length, and this is hot
            received = exchange.results[seat]
            exchange.results[seat] = _TAKEN  # a program may hold this part for long
            for (allocation, start, stop), data in zip(call.receives, received):  # noqa: B905
                if allocation.cold is None and stop - start < LARGE:
                    allocation.view[start:stop] = data
                else:
                    results.write(call, allocation, start, data)

    def reads(self) -> Sequence[Extent]:
        """Return the bytes that it sends."""
        return tuple(extent for call in self.calls for extent in call.sends)

    def writes(self) -> Sequence[Extent]:
        """Return the bytes that it receives."""
        return tuple(extent for call in self.calls for extent in call.receives)
