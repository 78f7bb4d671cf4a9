"""The time of exchanges: the plan of what meets, played on the links between the devices of its ranks."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from device_model.collectives.calls import Call, CollectiveKind
from device_model.collectives.exchanges import Exchange
from device_model.collectives.parts import Part
from device_model.collectives.timing.plan import Plan, Sent, plan, plan_of_send
from device_model.collectives.timing.player import Done, Tracks, play_tracks, routed
from device_model.collectives.timing.tuner import PAIRWISE, allowed_ways
from device_model.links.collectives import CollectivesSpec
from device_model.links.fabric import Links

_MOST_SENDS = 1024  # of which the tracks are kept
_KINDS = {
    CollectiveKind.ALL_REDUCE: "all_reduce",
    CollectiveKind.ALL_GATHER: "all_gather",
    CollectiveKind.REDUCE_SCATTER: "reduce_scatter",
    CollectiveKind.BROADCAST: "broadcast",
    CollectiveKind.REDUCE: "reduce",
    CollectiveKind.SCATTER: "scatter",
    CollectiveKind.ALL_TO_ALL: "all_to_all",
    CollectiveKind.BARRIER: "barrier",
}


class Player:
    """Plays the exchanges of a clique whose rank i is on the device number *devices[i]*.

    The algorithms, by kind of plan.py, and the protocol are used instead of the vendor's choice, for the kinds that can
    be done so.
    """

    def __init__(
        self,
        spec: CollectivesSpec,
        links: Links,
        devices: Sequence[int],
        algorithms: Mapping[str, str] = MappingProxyType({}),
        protocol: str | None = None,
    ) -> None:
        self._spec = spec
        self._links = links
        self._devices = tuple(devices)
        self._algorithms = algorithms
        self._protocol = protocol
        self._tracks: dict[object, Tracks] = {}  # of what follows from the facts of a call, by these
        # Of Sends, by the fold, their ranks, their bytes, and what is beside them.
        self._sends: dict[tuple[object, ...], Tracks] = {}

    def __call__(self, exchange: Exchange, done: Done) -> None:
        """Play *exchange*, which begins now; call *done* with the time when its last byte has arrived."""
        play_tracks(self._tracks_for(exchange), self._links, self._links.scheduler.now, done)

    def serve(self, exchange: Exchange, done: Done) -> None:
        """Play *exchange* as the servers of the cards do for their kernels: no host has to start it."""
        begun_ns, now = self._spec.start, self._links.scheduler.now
        tracks = tuple(
            (first._replace(latency_ns=max(first.latency_ns - begun_ns, 0)), *others)
            for first, *others in self._tracks_for(exchange)
        )
        play_tracks(tracks, self._links, now, done)

    def _tracks_for(self, exchange: Exchange) -> Tracks:
        first = exchange.calls[0]
        assert first is not None, f"{exchange!r} has begun without its first rank"
        tracks = self._tracks.get(first.facts) if first.peer is None else self._tracks_of_send(exchange, first.nbytes)
        if tracks is None:
            tracks = routed(self.plan_of(exchange), self._links.spec, self._devices)
            if first.kind in _KINDS:
                self._tracks[first.facts] = tracks
        return tracks

    def _tracks_of_send(self, exchange: Exchange, nbytes: int) -> Tracks:
        """Return the tracks of a Send and its Recv."""
        fold = exchange.clique.fold
        key = fold, exchange.ranks, nbytes, _beside(exchange)
        tracks = self._sends.get(key)
        if tracks is None:
            if len(self._sends) >= _MOST_SENDS:
                self._sends.clear()
            tracks = routed(self.plan_of(exchange), self._links.spec, self._devices)
            tracks = self._sends[key] = tracks if fold is None else fold.routed(tracks)
        return tracks

    def plan_of(self, exchange: Exchange) -> Plan:
        """Return how the calls of *exchange*, which are all there, are done."""
        calls = [call for call in exchange.calls if call is not None]
        first, ranks = calls[0], len(set(exchange.ranks))
        in_turn = PAIRWISE if self._algorithms.get("all_to_all") == PAIRWISE else None
        if first.kind is CollectiveKind.ALL_TO_ALL_V:
            return plan(self._spec, "all_to_all", _rows(calls), ranks, algorithm=in_turn)
        if first.kind is CollectiveKind.ALL_TO_ALL:
            return plan(self._spec, "all_to_all", first.nbytes, ranks, algorithm=in_turn)
        if first.peer is not None:  # how many channels it gets depends on the size of the communicator
            send = exchange.ranks[0], exchange.ranks[1], first.nbytes
            return plan_of_send(self._spec, len(self._devices), send, _beside(exchange))
        kind = _KINDS[first.kind]
        algorithm, protocol = self._algorithms.get(kind), self._protocol
        if not allowed_ways(self._spec, kind, algorithm, protocol):
            algorithm = protocol = None
        nbytes = max(call.nbytes for call in calls)
        return plan(self._spec, kind, nbytes, ranks, algorithm=algorithm, protocol=protocol, root=first.root or 0)


def _rows(calls: Sequence[Call]) -> list[list[int]]:
    """Return how many bytes each rank sends to each."""
    return [[stop - start for _, start, stop in call.sends] for call in calls]


def _beside(exchange: Exchange) -> tuple[Sent, ...]:
    """Return the other Sends and Recvs of the parts that meet in *exchange*, a Send and its Recv."""
    found: dict[Sent, None] = {}
    clique = exchange.clique
    for rank, op in zip(exchange.ranks, exchange.ops, strict=True):
        if op is not None and isinstance(op.work, Part):
            for call in op.work.calls:
                peer = rank if call.peer is None else clique.seen_from(rank, call.peer)
                ends = (rank, peer) if call.kind is CollectiveKind.SEND else (peer, rank)
                if ends != exchange.ranks:
                    found[(*ends, call.nbytes)] = None
    return tuple(found)
