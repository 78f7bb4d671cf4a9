"""Cliques: ranks that make collectives together, and the exchanges in which their calls meet.

Collectives of a clique match by their number: the third AllReduce or AllGather that a rank has queued meets the third
one of each other rank. Sends and Recvs match by pair: the third Send from rank 0 to rank 1 meets the third Recv of rank
1 from rank 0. All parts of one rank run in the order in which they were queued, in whatever streams (asked of an H200:
two-collectives-two-streams).

An exchange begins when all its parts have their turn. If they do not agree, or one never comes, it never begins: cards
do the same (asked of an H200: other counts, other kinds, a missing rank). So nothing here refuses calls that differ;
`Clique.mismatch` finds the first ones, for the report of a hang.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from device_model.collectives import results, words
from device_model.collectives.calls import Call, CollectiveKind, fits, rows_fit
from device_model.collectives.parts import Part
from device_model.completions import NOTHING, Completion, Nanoseconds
from device_model.errors import DeviceError, Kind
from device_model.handles import Handle
from device_model.names import named
from device_model.scheduler import Scheduler

if TYPE_CHECKING:
    from device_model.device import Device

# Plays an exchange in time: called when it begins, it calls the function when its last byte has arrived.
Play = Callable[["Exchange", Callable[[], None]], None]
_Key = tuple[int, ...]  # of a collective: its number; of a Send and its Recv: both ranks, and the number for this pair


class Exchange:
    """Calls that meet, of the *ranks* that have a seat each: all ranks of *clique*, or the sender and the receiver."""

    __slots__ = ("arrived", "calls", "clique", "error", "is_over", "key", "left", "parts", "ranks", "results")

    def __init__(self, clique: "Clique", key: _Key, ranks: Sequence[int]) -> None:
        self.clique = clique
        self.key = key
        self.ranks = ranks
        self.calls: list[Call | None] = [None] * len(ranks)
        self.parts: list[Part | None] = [None] * len(ranks)
        self.arrived = [False] * len(ranks)
        self.left = len(ranks)  # seats whose part has not had its turn
        self.results: list[Any] = []  # for each seat, once it is over
        self.is_over = False

    def __repr__(self) -> str:
        return f"<exchange {self.key} of {self.clique!r}>"

    @property
    def number(self) -> int:
        """Its number in the clique, or of Sends and Recvs in their pair; from 1 on."""
        return self.key[-1]

    @property
    def has_begun(self) -> bool:
        """Whether bytes move, or have moved."""
        return self.is_over or (not self.left and self.agrees)

    @property
    def agrees(self) -> bool:
        """Whether the calls that are there so far fit together."""
        calls = [call for call in self.calls if call is not None]
        facts = calls[0].facts
        for call in calls:
            if call.facts != facts:
                return False
        is_whole = len(calls) == len(self.ranks)
        return calls[0].kind is not CollectiveKind.ALL_TO_ALL_V or not is_whole or rows_fit(calls)

    def sit(self, seat: int, call: Call, part: Part) -> None:
        """Take a seat: *part* was queued, and makes *call* here."""
        self.calls[seat], self.parts[seat] = call, part
        part.seats.append((self, seat))

    def arrive(self, seat: int) -> None:
        """Note that the part of *seat* has its turn; the last one lets the exchange begin."""
        clique, part = self.clique, self.parts[seat]
        assert part is not None, f"{self!r} does not know its seat {seat}"
        self.arrived[seat] = True
        self.left -= 1
        op = part.op
        if op is not None and op.stream.context.error is not None and op.start_ns >= op.stream.context.failed_ns:
            clique.fail(_remote(clique, part.rank, "its context has failed"))
        if clique.error is not None:
            part.leave(clique.error)
        elif self.left:
            if clique.limit_ns and self.left == len(self.ranks) - 1:
                clique.scheduler.at(clique.scheduler.now + clique.limit_ns, self._time_out, self)
        elif self.agrees:
            if clique.limit_ns:
                clique.scheduler.forget(self)
            clique.play(self, self._end)

    def missing(self) -> Iterator[tuple[int, Part | None]]:
        """Yield the ranks whose parts have not had their turn, with the part, if it is queued."""
        for rank, part, arrived in zip(self.ranks, self.parts, self.arrived, strict=True):
            if not arrived:
                yield rank, part

    def _end(self) -> None:
        """Let all parts have what they receive: the last byte has arrived."""
        if self.is_over:
            return
        error: DeviceError | None = None
        calls = [call for call in self.calls if call is not None]
        for part in self.parts:
            if part is not None and part.op is not None:  # bodies of earlier work may still run in threads
                part.op.stream.context.device.workers.prepare(part.op)
        try:
            self.results = results.results(calls)
        except DeviceError as found:
            error = found
        self._leave(error)

    def fail(self, error: DeviceError) -> None:
        """End with *error*, which reaches all ranks that wait."""
        if not self.is_over:
            self._leave(error)

    def _leave(self, error: DeviceError | None) -> None:
        self.is_over = True
        self.clique.exchanges.pop(self.key, None)
        self.clique.scheduler.forget(self)
        there = [part for part, arrived in zip(self.parts, self.arrived, strict=True) if part is not None and arrived]
        # First those that a fault rule has changed: if one fails, the others do.
        there.sort(key=_is_unchanged)
        for part in there:
            part.leave(error)
            if error is None and part.op is not None and part.op.error is not None:
                error = _remote(self.clique, part.rank, f"its part has failed: {part.op.error.what}")
                self.clique.fail(error)

    def _time_out(self, _: "Exchange") -> None:
        """End all work of the clique: ranks have waited here for longer than is allowed."""
        limit_s, mismatch = self.clique.limit_ns / 1e9, self.clique.mismatch()
        why = "not all have had their turn" if mismatch is None else words.mismatch_text(mismatch)
        error = DeviceError(
            Kind.COLLECTIVE_TIMEOUT,
            f"EI0002: ranks of {self.clique.name} have waited {limit_s:g} s for the others: {why}",
            "let all ranks make the same calls in the same order, or allow more time with simulate(hccl_timeout_s=)",
        )
        self.clique.fail(error)


def _is_unchanged(part: Part) -> bool:
    return type(part) is Part


class Communicator(Handle):
    """Rank *index* of *clique*, on *device*, as a program holds it; *made* is the line that made it."""

    __slots__ = ("_received", "_sent", "clique", "destroyed", "device", "index", "last", "made", "made_calls", "stamp",
                 "tail")  # fmt: skip

    def __init__(self, clique: "Clique", index: int, device: "Device", made: object) -> None:
        self.clique = clique
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

    def take(self, part: Part) -> None:
        """Give the calls of *part*, which was queued just now, their numbers and seats."""
        assert part.op is not None, f"{part!r} has no operation"
        part.number = 1 if self.last is None else self.last.number + 1
        self.last, self.tail = part, part.op
        me, clique = self.index, self.clique
        for call in part.calls:
            if call.peer is None:
                self.made_calls += 1
                clique.exchange((self.made_calls,), range(len(clique))).sit(me, call, part)
            elif call.kind is CollectiveKind.SEND:
                self._sent[call.peer] += 1
                clique.exchange((me, call.peer, self._sent[call.peer]), (me, call.peer)).sit(0, call, part)
            else:
                self._received[call.peer] += 1
                clique.exchange((call.peer, me, self._received[call.peer]), (call.peer, me)).sit(1, call, part)

    def destroy(self, site: object) -> None:
        """Leave the clique. The caller has waited for all that was queued."""
        self.destroyed = site
        self.device.parts.ranks.pop(self, None)


class Mismatch(NamedTuple):
    """An *exchange* that does not come about: at these *seats* nobody has called, or otherwise than at seat *first*."""

    exchange: Exchange
    first: int
    seats: tuple[int, ...]


class Clique:
    """The ranks of one communicator, a rank on each of *devices*.

    *play* gives an exchange its time. Ranks that wait in one for longer than *limit_ns* fail; 0 is no limit.
    """

    def __init__(
        self,
        number: int,
        devices: "Sequence[Device]",
        made: object,
        *,
        play: Play,
        limit_ns: Nanoseconds = 0,
        name: str | None = None,
    ) -> None:
        self.number = number
        self.name = named("comm", number, name)
        self.given_name = name
        self.scheduler: Scheduler = devices[0].scheduler
        self.play = play
        self.limit_ns = limit_ns
        self.error: DeviceError | None = None  # why no exchange takes place any more
        self.exchanges: dict[_Key, Exchange] = {}  # that are not over
        self._size = len(devices)
        self.ranks = [Communicator(self, index, device, made) for index, device in enumerate(devices)]

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"<{self.name} of {self._size} ranks>"

    def exchange(self, key: _Key, ranks: Sequence[int]) -> Exchange:
        """Return the exchange of this *key*; *ranks* have a seat in it."""
        exchange = self.exchanges.get(key)
        if exchange is None:
            exchange = self.exchanges[key] = Exchange(self, key, ranks)
        return exchange

    def fail(self, error: DeviceError) -> None:
        """End all exchanges with *error*, and those that follow."""
        if self.error is None:
            self.error = error
            for exchange in list(self.exchanges.values()):
                exchange.fail(error)

    def lose(self, rank: Communicator, why: str) -> None:
        """End all exchanges, for *rank* takes part in none any more."""
        self.fail(_remote(self, rank, why))

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


def _remote(clique: Clique, rank: Communicator, why: str) -> DeviceError:
    return DeviceError(
        Kind.REMOTE_FAILURE,
        f"rank {rank.index} of {clique.name}, on device {rank.device.ordinal}, takes part in nothing any more: {why}",
        "find what failed there first; then make a new communicator",
    )
