"""Folds: ranks that are alike in all they do, of which only the first one runs.

The ranks of a *class* make the same calls, with the same sizes, in the same order, and at the same times. So the part
of the first one stands for those of all others: in a collective it takes their seats, too. Member i of a class sends to
the member of another class, or of its own, that stands i + k places behind its first one. So a Send of the first one
says what all of them send, and meets the Recv of the first one of the other class.

The links between devices that are alike are alike, too. A collective crosses those of all its ranks, as usual; a Send
and its Recv cross the link out of the one first device, and the link into the other first device.
"""

from collections.abc import Sequence
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, cast

from device_model.collectives.calls import Call, CollectiveKind
from device_model.collectives.cliques import Communicator
from device_model.collectives.exchanges import Exchange
from device_model.collectives.parts import Part
from device_model.collectives.timing.player import Routed, Tracks
from device_model.links.spec import Link
from device_model.ops import Op

if TYPE_CHECKING:
    from device_model.collectives.cliques import Clique

_INTO = ("in", "from host")  # links into a device


class Fold:
    """*classes* of devices, by their numbers; the first one of each class runs."""

    def __init__(self, classes: Sequence[Sequence[int]]) -> None:
        self.classes = [tuple(each) for each in classes]
        self.size = sum(map(len, self.classes))
        self._place = {device: (each, index) for each in self.classes for index, device in enumerate(each)}

    def __repr__(self) -> str:
        return f"<Fold of {self.size} devices in {len(self.classes)} classes>"

    def alike(self, device: int) -> tuple[int, ...]:
        """Return the class of *device*."""
        return self._place[device][0]

    def first(self, device: int) -> int:
        """Return the device that runs for *device*."""
        return self._place[device][0][0]

    def index(self, device: int) -> int:
        """Return the place of *device* in its class."""
        return self._place[device][1]

    def moved(self, device: int, places: int) -> int:
        """Return the device so many *places* behind *device*, in a circle, in its class."""
        alike, index = self._place[device]
        return alike[(index + places) % len(alike)]

    def link(self, link: Link) -> Link:
        """Return the link that stands for a *link* which a Send crosses."""
        return (link[0], self.first(link[1])) if link[0] in _INTO else link

    def routed(self, tracks: Tracks) -> Tracks:
        """Return *tracks* of a Send over the links that stand for theirs."""
        return tuple(tuple(self._step(step) for step in track) for track in tracks)

    def _step(self, step: Routed) -> Routed:
        loads = tuple((self.link(link), weight) for link, weight in step.transfer.loads)
        return step._replace(transfer=step.transfer._replace(loads=loads))


class FoldedExchange(Exchange):
    """A collective in which one part stands for several seats."""

    __slots__ = ("reps",)

    def __init__(self, clique: "Clique", key: tuple[int, ...], ranks: Sequence[int]) -> None:
        super().__init__(clique, key, ranks)
        self.left = self.reps = len(clique.seats)

    def _go_on(self) -> None:
        clique = self.clique
        if self.left and self.left == self.reps - 1 and clique.limit_ns:
            self._at(clique.scheduler.now + clique.limit_ns, Exchange._time_out)
        elif not self.left:
            super()._go_on()

    def _there(self) -> list[Op]:
        return list(compress(cast("list[Op]", self.ops), self.arrived))


class FoldedRank(Communicator):
    """A rank that runs, and stands for those of its class that its communicator has."""

    __slots__ = ()

    def take(self, part: Part, op: Op) -> None:
        """Give the calls of *part* their numbers, and the seats of all ranks for which this one stands."""
        super().take(part, op)
        seats, evenly = self.clique.seats[self.index], self.clique.evenly.get(self.index)
        for call, (exchange, _) in zip(part.calls, part.seats, strict=True):
            if call.peer is not None:
                continue
            if evenly is not None:  # all at once, for there may be hundreds
                exchange.calls[evenly] = [call] * len(seats)
                continue
            for seat in seats:
                exchange.calls[seat] = call

    def _delivery(self, call: Call, peer: int) -> tuple[Exchange, int]:
        """Return the exchange of *call* and its seat: that of the rank that runs and sends, also for its receivers."""
        clique, fold = self.clique, self.clique.fold
        assert fold is not None, f"{self!r} is not folded"
        mine, other = self.device.ordinal, clique.ranks[peer].device.ordinal
        if call.kind is CollectiveKind.SEND:
            return super()._delivery(call, peer)
        sender, me = fold.first(other), fold.moved(mine, -fold.index(other))
        first, receiver = clique.index_of[sender], clique.index_of[me]
        self._received[peer] += 1
        return clique.delivery(first, receiver, self._received[peer]), 1


def why_not(rank: Communicator, peer: int) -> tuple[str, str] | None:
    """Return why *rank*, which stands for others, cannot send to or receive from rank *peer*, and what to do."""
    clique = rank.clique
    fold, mine, other = clique.fold, rank.device.ordinal, clique.ranks[peer].device.ordinal
    if fold is None:
        return None
    own, theirs = len(fold.alike(mine)), len(fold.alike(other))
    if own != theirs:
        what = f"the rank on device {mine} stands for {own}, and the one on device {other} is one of {theirs}"
        return f"ranks that send to each other must stand for equally many: {what}", "tell them apart with alike="
    if _distances(clique, fold, mine, other) > 1:
        what = f"those for which the rank on device {mine} stands have their peers at several distances"
        return f"{what} in {clique.name}", "tell them apart with alike="
    if clique.crosses(mine, other) and own > 1:
        return f"a rank that stands for {own} cannot send to another server", "run these ranks without fold="
    return None


def _distances(clique: "Clique", fold: Fold, mine: int, other: int) -> int:
    """Return how many distances there are between the ranks like *mine* and their peers, which are like *other*.

    The channels of a Send depend on it. Ranks that are not in the clique have one of their own.
    """
    pairs = [(fold.moved(mine, places), fold.moved(other, places)) for places in range(len(fold.alike(mine)))]
    index_of = clique.index_of
    return len(
        {
            (index_of[receiver] - index_of[sender]) % len(clique)
            for sender, receiver in pairs
            if sender in index_of and receiver in index_of
        }
    )


def fold_clique(clique: "Clique", fold: Fold) -> None:
    """Let the ranks of *clique* that run stand for those of their classes.

    Raises:
        ValueError: Its ranks share network cards with others that are like them.
    """
    devices = [rank.device.ordinal for rank in clique.ranks]
    index_of = {device: index for index, device in enumerate(devices)}
    seats: dict[int, list[int]] = {}
    for index, device in enumerate(devices):
        if fold.first(device) in index_of:
            seats.setdefault(index_of[fold.first(device)], []).append(index)
    crosses = any(clique.crosses(devices[0], device) for device in devices)
    for first, each in seats.items():
        if crosses and len(each) < len(fold.alike(devices[first])):
            raise ValueError(
                f"{clique.name} reaches over servers, and has only {len(each)} of the "
                f"{len(fold.alike(devices[first]))} ranks for which the one on device {devices[first]} stands: the "
                "others may share its network cards; tell them apart with alike="
            )
    clique.fold, clique.index_of, clique.exchange_type = fold, index_of, FoldedExchange
    clique.seats = {first: tuple(each) for first, each in seats.items()}
    clique.evenly = {first: evenly for first, each in seats.items() if (evenly := _evenly(each)) is not None}
    for first, rank in enumerate(clique.ranks):
        rank.known.clear()
        if first in seats:
            rank.__class__ = FoldedRank


def _evenly(seats: Sequence[int]) -> slice | None:
    """Return *seats* as a slice, if they are equally far apart."""
    step = seats[1] - seats[0] if len(seats) > 1 else 1
    return slice(seats[0], seats[-1] + 1, step) if list(seats) == list(range(seats[0], seats[-1] + 1, step)) else None


def unfold_clique(clique: "Clique") -> None:
    """Let all ranks of *clique* run again; they have made as many calls as the ones that stood for them."""
    fold = clique.fold
    if fold is None:
        return
    for first, seats in clique.seats.items():
        rank = clique.ranks[first]
        rank.__class__ = Communicator
        for seat in seats[1:]:
            places = fold.index(clique.ranks[seat].device.ordinal)
            rank.count_for(clique.ranks[seat], partial(_moved, clique, fold, places))
    for rank in clique.ranks:
        rank.known.clear()
    clique.fold, clique.seats, clique.evenly, clique.index_of, clique.exchange_type = None, {}, {}, {}, Exchange


def _moved(clique: "Clique", fold: Fold, places: int, peer: int) -> int:
    return clique.index_of[fold.moved(clique.ranks[peer].device.ordinal, places)]
