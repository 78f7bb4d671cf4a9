"""The steps of each algorithm, between ranks.

In a ring each rank has a part. Its channels pass on a piece of each part, one part after the other, and then begin
again with the next piece: a *round*. What a round takes beyond its transfers, such as copying from the buffer of the
channel to the program's, leaves the links idle if all channels do it at the same time, as they do at first. Later they
drift apart, and one channel sends while another copies. So the idle time grows with the number of rounds, but more
slowly.
"""

from itertools import pairwise
from typing import NamedTuple

from device_model.collectives.timing.tuner import DOUBLING, MESH, NHR, RING, TREE, Choice, busiest, steps_of
from device_model.completions import Nanoseconds
from device_model.links.collectives import CollectivesSpec

# From one rank to another, with the bytes on their links for each byte of the step.
Hop = tuple[int, int, float]

LINES = ("broadcast", "reduce")  # from rank to rank, without rounds
BOTH = ("all_reduce", "barrier")  # scatter sums, and then gather them


class Step(NamedTuple):
    """After *latency_ns*, *nbytes* cross all *hops* at once, at most *cap* bytes per nanosecond.

    *passed* says how many times in turn bytes go from rank to rank in it.
    """

    latency_ns: Nanoseconds
    nbytes: float
    cap: float
    hops: tuple[Hop, ...]
    passed: int


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
        """Return how long it takes until the last of *hops* hops in a row has its first bytes. Each rank passes on what
        it has once it has a chunk, or half of all.
        """
        return hops * min(self.nbytes / 2, self.channels * self.choice.way.chunk_bytes) / self.rate

    def step(self, nbytes: float, pairs: list[tuple[int, int]], share: float = 1.0) -> Step:
        """Return a step in which each of *pairs* passes on *nbytes* with *share* of its channels."""
        hops = tuple((source, target, self.wire) for source, target in pairs)
        return Step(self.choice.way.step, nbytes, self.rate * share, hops, 1)


def steps(ask: Ask) -> tuple[Step, ...]:
    """Return the steps of a collective, which follow one another."""
    if ask.ranks == 1:
        return (Step(ask.spec.start, float(ask.nbytes), ask.rate, (), 0),)
    first, *others = _STEPS[ask.choice.algorithm](ask)
    return (first._replace(latency_ns=ask.spec.start + first.latency_ns), *others)


def _ring(ask: Ask) -> tuple[Step, ...]:
    """All parts go round, or all bytes along the line of ranks."""
    ranks, way = ask.ranks, ask.choice.way
    in_turn = steps_of(ask.kind, ranks)
    latency = in_turn * way.step
    moved = busiest(ask.kind, ask.nbytes, ranks)
    if ask.kind in LINES:
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
    latency = in_turn * ask.choice.way.step + round(ask.filling_ns(in_turn))
    return (Step(latency, float(ask.nbytes), ask.rate / (2 if ranks > 2 else 1), hops, in_turn),)


def _mesh(ask: Ask) -> tuple[Step, ...]:
    """Each rank sends to all others at once."""
    pairs = [(i, j) for i in range(ask.ranks) for j in range(ask.ranks) if i != j]
    if ask.kind == "broadcast":
        pairs = [(i, j) for i, j in pairs if i == ask.root]
    elif ask.kind == "reduce":
        pairs = [(i, j) for i, j in pairs if j == ask.root]
    nbytes = float(ask.nbytes) if ask.kind in LINES else ask.nbytes / ask.ranks
    step = ask.step(nbytes, pairs, 1 / (ask.ranks - 1))
    return (step, step) if ask.kind in BOTH else (step,)


def _doubling(ask: Ask) -> tuple[Step, ...]:
    """Sums are halved with partners at distances that double, and gathered the same way back.

    Of ranks that are more than a power of two, each first gives its bytes to one of the others, and gets the result
    from it at the end.
    """
    core = 1 << (ask.ranks.bit_length() - 1)
    extra = [(rank, rank - core) for rank in range(core, ask.ranks)]
    halving = []
    distance = 1
    while distance < core:
        halving.append(ask.step(ask.nbytes / (2 * distance), [(rank, rank ^ distance) for rank in range(core)]))
        distance *= 2
    part = ask.nbytes / ask.ranks
    back = [(target, source) for source, target in extra]
    before = ask.step(part if ask.kind == "all_gather" else float(ask.nbytes), extra)
    behind = ask.step(part if ask.kind == "reduce_scatter" else float(ask.nbytes), back)
    between = _there_and_back(ask, halving)
    return (before, *between, behind) if extra else between


def _nhr(ask: Ask) -> tuple[Step, ...]:
    """As many steps as doubling has, for any number of ranks: to the rank at a distance that doubles, with as many
    parts as that.
    """
    ranks, part = ask.ranks, ask.nbytes / ask.ranks
    gathering = []
    distance = 1
    while distance < ranks:
        pairs = [(rank, (rank + distance) % ranks) for rank in range(ranks)]
        gathering.append(ask.step(min(distance, ranks - distance) * part, pairs))
        distance *= 2
    return _there_and_back(ask, gathering[::-1])


def _there_and_back(ask: Ask, scattering: list[Step]) -> tuple[Step, ...]:
    """Return the steps that scatter, those that gather, or both."""
    scatters = scattering if ask.kind in ("reduce_scatter", *BOTH) else []
    gathers = scattering[::-1] if ask.kind in ("all_gather", *BOTH) else []
    return (*scatters, *gathers)


_STEPS = {RING: _ring, TREE: _tree, MESH: _mesh, DOUBLING: _doubling, NHR: _nhr}
