"""Cliques: ranks that make collectives together. Their calls meet in exchanges.

Collectives of a clique match by their number: the third AllReduce or AllGather that a rank has queued meets the third
one of each other rank. Sends and Recvs match by pair: the third Send from rank 0 to rank 1 meets the third Recv of rank
1 from rank 0. All parts of one rank run in the order in which they were queued, in whatever streams (asked of an H200:
two-collectives-two-streams).

Nothing here refuses calls that differ: their exchange never begins. `Clique.mismatch` finds the first ones, for the
report of a hang.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

from device_model.collectives.calls import Call, CollectiveKind, fits
from device_model.collectives.exchanges import Delivery, Exchange, Flow, Key, Play
from device_model.collectives.parts import Part
from device_model.completions import NOTHING, Completion, Nanoseconds
from device_model.errors import DeviceError, Kind
from device_model.handles import Handle
from device_model.names import named
from device_model.ops import Op
from device_model.scheduler import Scheduler

if TYPE_CHECKING:
    from device_model.collectives.folds import Fold
    from device_model.device import Device


class Communicator(Handle):
    """Rank *index* of *clique*, on *device*, as a program holds it; *made* is the line that made it."""

    __slots__ = ("_exchanges", "_received", "_sent", "clique", "destroyed", "device", "index", "known", "last", "made",
                 "made_calls", "stamp", "tail")  # fmt: skip

    def __init__(self, clique: "Clique", index: int, device: "Device", made: object) -> None:
        self.clique = clique
        self._exchanges = clique.exchanges
        self.index = index
        self.device = device
        self.made = made
        self.destroyed: object = None  # the line that destroyed it
        self.made_calls = 0  # collectives that it has queued
        self._sent = [0] * len(clique)  # how many Sends to each rank it has queued
        self._received = [0] * len(clique)
        self.last: Part | None = None  # what it has queued last
        self.tail: Completion = NOTHING  # the operation of that
        self.stamp: Any = None  # what an observer keeps with it
        self.known: dict[tuple[object, ...], Any] = {}  # what the host has found right about calls, by their arguments
        device.parts.ranks[self] = None

    def __repr__(self) -> str:
        state = f" destroyed at {self.destroyed}" if self.destroyed is not None else ""
        return f"<rank {self.index} of {self.clique.name} on device {self.device.ordinal} made at {self.made}{state}>"

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return len(self.clique)

    @property
    def number(self) -> int:
        """The number of its communicator, the same for all ranks of it."""
        return self.clique.number

    def take(self, part: Part, op: Op) -> None:
        """Give the calls of *part*, which was queued just now as *op*, their numbers and seats."""
        self.last = part
        self.tail = op
        for call in part.calls:
            if call.peer is None:
                number = self.made_calls = self.made_calls + 1
                seat, key = self.index, (number,)
                exchange = self._exchanges.get(key) or self.clique.exchange(key, self.clique.members)
            else:
                exchange, seat = self._delivery(call, call.peer)
            part.seats.append((exchange, seat))
            exchange.calls[seat] = call
            exchange.ops[seat] = op
            facts = exchange.facts
            if facts is None:
                exchange.facts = call.facts
            elif facts is not call.facts and facts != call.facts:
                exchange.differs = True

    def take_changed(self, part: Part, op: Op) -> None:
        """Do the same as `take` for a part that a fault rule has changed."""
        self.take(part, op)
        for exchange, _ in part.seats:
            exchange.is_changed = True

    def _delivery(self, call: Call, peer: int) -> "tuple[Exchange, int]":
        """Return the exchange of *call*, the next Send to *peer* or Recv from it, and this rank's seat there."""
        me, clique = self.index, self.clique
        if call.kind is CollectiveKind.SEND:
            self._sent[peer] += 1
            return clique.delivery(me, peer, self._sent[peer]), 0
        self._received[peer] += 1
        return clique.delivery(peer, me, self._received[peer]), 1

    def count_for(self, other: "Communicator", moved: Callable[[int], int]) -> None:
        """Let *other* have made the calls of this rank, with the peers to which *moved* takes those of this one."""
        other.made_calls = self.made_calls
        for mine, theirs in ((self._sent, other._sent), (self._received, other._received)):
            for peer in compress(self.clique.members, mine):
                theirs[moved(peer)] = mine[peer]

    def destroy(self, site: object) -> None:
        """Leave the clique. The caller has waited for all that was queued."""
        self.destroyed = site
        self.known.clear()
        self.device.parts.ranks.pop(self, None)


class Mismatch(NamedTuple):
    """An *exchange* that cannot begin: at these *seats* there was no call, or another one than at seat *first*."""

    exchange: Exchange
    first: int
    seats: tuple[int, ...]


class Clique:
    """The ranks of one communicator, a rank on each of *devices*.

    *play* gives an exchange its time. Ranks that wait in one for longer than *limit_ns* fail; 0 is no limit. For each
    rank that sends to it, a rank has *buffer_bytes*, which a Send can fill before its Recv begins. Without *values* no
    bytes move.
    """

    def __init__(
        self,
        number: int,
        devices: "Sequence[Device]",
        made: object,
        *,
        play: Play,
        limit_ns: Nanoseconds = 0,
        buffer_bytes: int = 0,
        name: str | None = None,
        values: bool = True,
    ) -> None:
        self.has_values = values
        # Ranks that run for others, by folds.py: the fold, the seats for which each of them stands, and the rank on
        # each device.
        self.fold: Fold | None = None
        self.seats: dict[int, tuple[int, ...]] = {}
        self.evenly: dict[int, slice] = {}  # those seats, where they are equally far apart
        self.index_of: dict[int, int] = {}
        self.exchange_type = Exchange
        self.number = number
        self.name = named("comm", number, name)
        self.given_name = name
        self.scheduler: Scheduler = devices[0].scheduler
        self.play = play
        self.limit_ns = limit_ns
        self._buffer_bytes = buffer_bytes
        self._flows: dict[tuple[int, int], Flow] = {}  # from the first rank to the second
        self.error: DeviceError | None = None  # why no exchange takes place any more
        self.exchanges: dict[Key, Exchange] = {}  # that are not over
        self._size = len(devices)
        self.members = range(len(devices))  # all ranks
        self.ranks = [Communicator(self, index, device, made) for index, device in enumerate(devices)]

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"<{self.name} of {self._size} ranks>"

    def exchange(self, key: Key, ranks: Sequence[int]) -> Exchange:
        """Return the exchange of this *key*; *ranks* have a seat in it."""
        exchange = self.exchanges.get(key)
        if exchange is None:
            exchange = self.exchanges[key] = self.exchange_type(self, key, ranks)
        return exchange

    def delivery(self, sender: int, receiver: int, number: int) -> Exchange:
        """Return the exchange of Send and Recv *number* of this pair."""
        key = sender, receiver, number
        exchange = self.exchanges.get(key)
        if sender == receiver or not self._buffer_bytes:
            if exchange is None:
                exchange = self.exchanges[key] = Exchange(self, key, (sender, receiver))
            return exchange
        if exchange is None:
            flow = self._flows.get(key[:2])
            if flow is None:
                flow = self._flows[key[:2]] = Flow(self._buffer_bytes)
            exchange = self.exchanges[key] = Delivery(self, key, flow)
        return exchange

    def seen_from(self, rank: int, peer: int) -> int:
        """Return the rank that is to *rank* what *peer* is to the one that runs for it."""
        if self.fold is None:
            return peer
        places = self.fold.index(self.ranks[rank].device.ordinal)
        return self.index_of[self.fold.moved(self.ranks[peer].device.ordinal, places)]

    def crosses(self, source: int, target: int) -> bool:
        """Whether the network is between two devices."""
        spec = self.ranks[0].device.links.spec
        return spec is not None and spec.server(source) != spec.server(target)

    def fail(self, error: DeviceError) -> None:
        """End all exchanges with *error*, and those that follow."""
        if self.error is None:
            self.error = error
            for rank in self.ranks:
                rank.known.clear()  # each call is refused from now on
            for exchange in list(self.exchanges.values()):
                exchange.fail(error)

    def lose(self, rank: Communicator, why: str) -> None:
        """End all exchanges, for *rank* takes part in none any more."""
        where = f"rank {rank.index} of {self.name}, on device {rank.device.ordinal},"
        self.fail(
            DeviceError(
                Kind.REMOTE_FAILURE,
                f"{where} takes part in nothing any more: {why}",
                "find what failed there first; then make a new communicator",
            )
        )

    def mismatch(self) -> Mismatch | None:
        """Return the first exchange that ranks wait for in vain; None if all ranks have called what fits.

        Of collectives it is the one with the lowest number; a Send or a Recv without its other side counts only if all
        collectives are right.
        """
        waited_for = [each for each in self.exchanges.values() if not each.has_begun]
        for exchange in sorted(waited_for, key=lambda each: (len(each.key), each.key[-1], each.key)):
            first, call = next((seat, call) for seat, call in enumerate(exchange.calls) if call is not None)
            wrong = tuple(seat for seat, other in enumerate(exchange.calls) if other is None or not fits(call, other))
            if wrong or not exchange.agrees:
                return Mismatch(exchange, first, wrong or tuple(range(1, len(exchange.calls))))
        return None
