"""A collective as steps, between ranks.

A plan depends on nothing but its arguments. Ranks are numbers from 0 on; the player knows their devices. The steps of a
ring follow one another without a pause on the same links, so they are one step here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from device_model.collectives.timing.pairs import Counts, Pair, pairs_among, pairs_of
from device_model.collectives.timing.schedules import Ask, Step, steps
from device_model.collectives.timing.tuner import PAIRWISE, choose
from device_model.links.collectives import CollectivesSpec

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
_EXCHANGES = ("all_to_all", "scatter", "send")  # sends and receives of one group
_BARRIER_BYTES = 8  # what the ranks of a barrier sum up


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How a collective is done. A plan is equal to itself only, so that it is cheap to look up.

    Attributes:
        algorithm: One of tuner.ALGORITHMS, or "pairs" for sends and receives.
        protocol: "LL", "LL128", "Simple" or "".
        channels: Blocks that do it on each rank; each holds an SM.
        tracks: Side by side, steps that follow one another.
    """

    algorithm: str
    protocol: str
    channels: int
    tracks: tuple[tuple[Step, ...], ...]


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
        algorithm: One of tuner.ALGORITHMS instead of the vendor's choice. Sends and receives take "pairwise", with
            which a rank sends to one after the other, and ignore the others.
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
        return _exchange(spec, _counts(kind, nbytes, ranks, root), is_pairwise=algorithm == PAIRWISE)
    assert isinstance(nbytes, int), f"{kind} takes one number of bytes, not {nbytes!r}"
    nbytes = _BARRIER_BYTES if kind == "barrier" else nbytes
    channels = channels or (spec.channels_of_three if ranks == 3 else spec.channels)
    choice = choose(spec, kind, nbytes, ranks, algorithm, protocol)
    own = steps(Ask(spec, choice, kind, nbytes, ranks, channels, root))
    return Plan(choice.algorithm, choice.protocol, channels, (own,))


def _counts(kind: str, nbytes: int | Counts, ranks: int, root: int) -> Counts:
    """Return what each rank sends to each."""
    if not isinstance(nbytes, int):
        return nbytes
    if kind == "send":
        return tuple(tuple(nbytes if (i, j) == (0, 1) else 0 for j in range(ranks)) for i in range(ranks))
    return tuple((nbytes // ranks if kind == "all_to_all" or i == root else 0,) * ranks for i in range(ranks))


def _exchange(spec: CollectivesSpec, counts: Counts, *, is_pairwise: bool) -> Plan:
    """Each pair has a transfer; if all are alike, they are one step."""
    pairs, channels = pairs_of(spec, counts)
    near = [pair for pair in pairs if pair.source == pair.target]
    far = [pair for pair in pairs if pair.source != pair.target]
    if is_pairwise:
        tracks = tuple(_one_by_one(spec, far, len(counts)))
        return Plan(PAIRWISE, "", channels, (*(_exchanged(spec, [pair], False) for pair in near), *tracks))
    several = any(sum(pair.source == rank for pair in far) > 1 for rank in range(len(counts)))
    groups = [each for own in (near, far) for each in _alike(own, len(counts))]
    return Plan("pairs", "Simple", channels, tuple(_exchanged(spec, group, several) for group in groups))


Sent = tuple[int, int, int]  # from one rank to another, so many bytes


@lru_cache(1024)
def plan_of_send(spec: CollectivesSpec, ranks: int, send: Sent, beside: tuple[Sent, ...]) -> Plan:
    """Return how a card does *send*, which shares channels with what its two ranks send and receive *beside* it.

    *ranks* are those of the communicator.
    """
    sent = {(source, target): nbytes for source, target, nbytes in (*beside, send) if nbytes}
    pairs, channels = pairs_among(spec, ranks, dict(sorted(sent.items())))
    own = [pair for pair in pairs if (pair.source, pair.target) == send[:2]]
    several = sum(pair.source == send[0] != pair.target for pair in pairs) > 1
    return Plan("pairs", "Simple", channels, tuple(_exchanged(spec, [pair], several) for pair in own))


def _one_by_one(spec: CollectivesSpec, far: list[Pair], ranks: int) -> Iterator[tuple[Step, ...]]:
    """Yield for each rank the steps with which it sends to the next rank, the one behind that, and so on."""
    in_turn = sorted(far, key=lambda pair: (pair.source, (pair.target - pair.source) % ranks))
    for _, own in groupby(in_turn, key=lambda pair: pair.source):
        first, *others = [step for pair in own for step in _exchanged(spec, [pair], False)]
        yield (first, *(step._replace(latency_ns=step.latency_ns - spec.start) for step in others))


def _alike(pairs: list[Pair], ranks: int) -> list[list[Pair]]:
    """Return *pairs* in one list if each rank has the same to do, else each by itself."""
    whole = ranks if pairs and pairs[0].source == pairs[0].target else ranks * (ranks - 1)
    are_alike = len(pairs) == whole and len({(pair.nbytes, pair.cap) for pair in pairs}) == 1
    return [pairs] if are_alike else [[each] for each in pairs]


def _exchanged(spec: CollectivesSpec, alike: list[Pair], several: bool) -> tuple[Step, ...]:
    """Return the step of pairs that are alike. Links idle as in a ring if a rank sends to *several* others. They do not
    if the channels are slower than the links, and so always have something to do.
    """
    one, wire = alike[0], spec.pairs.wire_permille / 1000
    hops = tuple((pair.source, pair.target, wire) for pair in alike if pair.source != pair.target)
    idle = one.idle_ns if several and hops else 0
    latency = spec.start + spec.pairs.step + one.filling_ns + idle
    return (Step(latency, float(one.nbytes), one.nbytes / max(one.nbytes / one.cap - idle, 1.0), hops, 1),)
