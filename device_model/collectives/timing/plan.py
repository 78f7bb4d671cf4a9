"""A collective as steps, between ranks.

A plan depends on nothing but its arguments. Ranks are numbers from 0 on; the player knows their devices. The steps of a
ring follow one another without a pause on the same links, so they are one step here.

In a ring each rank has a part. Its channels pass on a piece of each part, one part after the other, and then begin anew
with the next piece: a *round*. What a round takes beyond its transfers, such as copying from the buffer of the channel
to the program's, leaves the links idle if all channels do it at the same time, as they do at first. Later they drift
apart, and one channel sends while another copies. So the idle time grows with the number of rounds, but more slowly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from device_model.collectives.timing.pairs import Counts, Pair, pairs_of
from device_model.collectives.timing.tuner import MESH, RING, TREE, Choice, busiest, choose, steps_of
from device_model.completions import Nanoseconds
from device_model.links.collectives import CollectivesSpec

# From one rank to another, with the bytes on their links for each byte of the step.
Hop = tuple[int, int, float]

KINDS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "scatter",
    "barrier",
    "all_to_all",
    "send",
)
_LINES = ("broadcast", "reduce")  # from rank to rank, without rounds
_EXCHANGES = ("all_to_all", "scatter", "send")  # sends and receives of one group
_BARRIER_BYTES = 8  # what the ranks of a barrier sum up


class Step(NamedTuple):
    """After *latency_ns*, *nbytes* cross all *hops* at once, at most *cap* bytes per nanosecond.

    *passed* says how many times in turn bytes go from rank to rank in it.
    """

    latency_ns: Nanoseconds
    nbytes: float
    cap: float
    hops: tuple[Hop, ...]
    passed: int


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How a collective is done. A plan is equal to itself only, so that it is cheap to look up.

    Attributes:
        algorithm: "ring", "tree", "mesh" or "pairs".
        protocol: "LL", "LL128", "Simple" or "".
        channels: Blocks that do it on each rank; each holds an SM.
        tracks: Side by side, steps that follow one another.
    """

    algorithm: str
    protocol: str
    channels: int
    tracks: tuple[tuple[Step, ...], ...]


class Ask(NamedTuple):
    """A collective whose way is chosen."""

    spec: CollectivesSpec
    choice: Choice
    kind: str
    nbytes: int
    ranks: int
    channels: int
    root: int

    @property
    def rate(self) -> float:
        """What the channels of a rank pass on or take in, in bytes per nanosecond."""
        return self.channels * self.choice.way.channel_bytes_per_second / 1e9

    @property
    def wire(self) -> float:
        """Bytes on a link for each byte of the program."""
        return self.choice.way.wire_permille / 1000

    def idle_ns(self, part: float) -> float:
        """Return how long links idle in a ring whose ranks have *part* bytes each: see the top of this module."""
        return self.spec.idle_ns(part, self.channels * self.choice.way.round_bytes, self.rate)

    def filling_ns(self, hops: int) -> float:
        """Return how long it takes until the last of *hops* hops in a row has its first bytes: each rank passes on what
        it has once it has a chunk, or half of all.
        """
        return hops * min(self.nbytes / 2, self.channels * self.choice.way.chunk_bytes) / self.rate


def plan(
    spec: CollectivesSpec,
    kind: str,
    nbytes: int | Sequence[Sequence[int]],
    ranks: int,
    *,
    algorithm: str | None = None,
    protocol: str | None = None,
    channels: int | None = None,
    root: int = 0,
) -> Plan:
    """Return how a card does a collective.

    Args:
        spec: The card.
        kind: One of KINDS.
        nbytes: The larger buffer of one rank. Of all_to_all and send also a matrix: what rank i sends to rank j. One
            number is for all_to_all a rank's send buffer, for send what rank 0 sends to rank 1.
        ranks: How many the communicator has.
        algorithm: "ring", "tree" or "mesh" instead of the vendor's choice.
        protocol: "LL", "LL128" or "Simple" instead of the vendor's choice.
        channels: How many instead of the vendor's choice.
        root: The rank that has the bytes, or gets them.

    Raises:
        ValueError: The kind is unknown, or the card has no such way for it.
    """
    if kind not in KINDS:
        raise ValueError(f"there is no collective {kind!r}; there are {', '.join(KINDS)}")
    sizes = nbytes if isinstance(nbytes, int) else tuple(map(tuple, nbytes))
    return _plan(spec, kind, sizes, ranks, algorithm, protocol, channels, root)


@lru_cache(1024)
def _plan(
    spec: CollectivesSpec,
    kind: str,
    nbytes: int | Counts,
    ranks: int,
    algorithm: str | None,
    protocol: str | None,
    channels: int | None,
    root: int,
) -> Plan:
    if kind in _EXCHANGES:
        return _exchange(spec, _counts(kind, nbytes, ranks, root))
    assert isinstance(nbytes, int), f"{kind} takes one number of bytes, not {nbytes!r}"
    nbytes = _BARRIER_BYTES if kind == "barrier" else nbytes
    channels = channels or (spec.channels_of_three if ranks == 3 else spec.channels)
    choice = choose(spec, kind, nbytes, ranks, algorithm, protocol)
    steps = _STEPS[choice.algorithm](Ask(spec, choice, kind, nbytes, ranks, channels, root))
    return Plan(choice.algorithm, choice.protocol, channels, (steps,))


def _ring(ask: Ask) -> tuple[Step, ...]:
    """All parts go round, or all bytes along the line of ranks."""
    spec, ranks, way = ask.spec, ask.ranks, ask.choice.way
    if ranks == 1:
        return (Step(spec.start, ask.nbytes, ask.rate, (), 0),)
    in_turn = steps_of(ask.kind, ranks)
    latency = spec.start + in_turn * way.step
    moved = busiest(ask.kind, ask.nbytes, ranks)
    if ask.kind in _LINES:
        hops = _line(ask)
        return (Step(latency + round(ask.filling_ns(in_turn)), moved, ask.rate, hops, in_turn),)
    part = ask.nbytes / ranks
    hops = tuple((rank, (rank + 1) % ranks, ask.wire) for rank in range(ranks))
    # A channel takes in what comes last without passing it on, which takes as long as a step.
    cap = ask.rate * in_turn / (in_turn + 1)
    return (Step(latency + round(ask.idle_ns(part)), moved, cap, hops, in_turn),)


def _line(ask: Ask) -> tuple[Hop, ...]:
    """From the root to the rank before it, or all the way back to the root."""
    order = [(ask.root + i) % ask.ranks for i in range(ask.ranks)]
    return tuple((b, a, ask.wire) if ask.kind == "reduce" else (a, b, ask.wire) for a, b in pairwise(order))


def _tree(ask: Ask) -> tuple[Step, ...]:
    """Sums go up a line of ranks, and results down. Ranks inside it do both with the same channels."""
    ranks = ask.ranks
    hops = tuple(hop for rank in range(ranks - 1) for hop in ((rank + 1, rank, ask.wire), (rank, rank + 1, ask.wire)))
    in_turn = 2 * (ranks - 1)
    latency = ask.spec.start + in_turn * ask.choice.way.step + round(ask.filling_ns(in_turn))
    return (Step(latency, float(ask.nbytes), ask.rate / (2 if ranks > 2 else 1), hops, in_turn),)


def _mesh(ask: Ask) -> tuple[Step, ...]:
    """Each rank sends to all others at once: an all-reduce scatters sums, and then gathers them."""
    ranks = ask.ranks
    pairs = [(i, j) for i in range(ranks) for j in range(ranks) if i != j]
    if ask.kind == "broadcast":
        pairs = [(i, j) for i, j in pairs if i == ask.root]
    elif ask.kind == "reduce":
        pairs = [(i, j) for i, j in pairs if j == ask.root]
    nbytes = float(ask.nbytes) if ask.kind in _LINES else ask.nbytes / ranks
    hops = tuple((i, j, ask.wire) for i, j in pairs)
    step = Step(ask.choice.way.step, nbytes, ask.rate / max(1, ranks - 1), hops, 1)
    first = step._replace(latency_ns=ask.spec.start + step.latency_ns)
    return (first, step) if ask.kind in ("all_reduce", "barrier") else (first,)


_STEPS = {RING: _ring, TREE: _tree, MESH: _mesh}


def _counts(kind: str, nbytes: int | Counts, ranks: int, root: int) -> Counts:
    """Return what each rank sends to each."""
    if not isinstance(nbytes, int):
        return nbytes
    if kind == "send":
        return tuple(tuple(nbytes if (i, j) == (0, 1) else 0 for j in range(ranks)) for i in range(ranks))
    return tuple((nbytes // ranks if kind == "all_to_all" or i == root else 0,) * ranks for i in range(ranks))


def _exchange(spec: CollectivesSpec, counts: Counts) -> Plan:
    """Each pair has a transfer; if all are alike, they are one step."""
    pairs, channels = pairs_of(spec, counts)
    near = [pair for pair in pairs if pair.source == pair.target]
    far = [pair for pair in pairs if pair.source != pair.target]
    several = any(sum(pair.source == rank for pair in far) > 1 for rank in range(len(counts)))
    groups = [each for own in (near, far) for each in _alike(own, len(counts))]
    return Plan("pairs", "Simple", channels, tuple(_exchanged(spec, group, several) for group in groups))


def _alike(pairs: list[Pair], ranks: int) -> list[list[Pair]]:
    """Return *pairs* in one list if each rank has the same to do, else each by itself."""
    whole = ranks if pairs and pairs[0].source == pairs[0].target else ranks * (ranks - 1)
    are_alike = len(pairs) == whole and len({(pair.nbytes, pair.cap) for pair in pairs}) == 1
    return [pairs] if are_alike else [[each] for each in pairs]


def _exchanged(spec: CollectivesSpec, alike: list[Pair], several: bool) -> tuple[Step, ...]:
    """Return the step of pairs that are alike. Links idle as in a ring if a rank sends to *several* others, but for
    channels that are slower than the links have always something to do.
    """
    one, wire = alike[0], spec.pairs.wire_permille / 1000
    hops = tuple((pair.source, pair.target, wire) for pair in alike if pair.source != pair.target)
    idle = one.idle_ns if several and hops else 0
    latency = spec.start + spec.pairs.step + one.filling_ns + idle
    return (Step(latency, float(one.nbytes), one.nbytes / max(one.nbytes / one.cap - idle, 1.0), hops, 1),)
