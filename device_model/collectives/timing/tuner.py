"""The vendor's choice: the way that its library expects to be fastest.

NCCL computes an expected time for each way and takes the smallest (ncclTopoGetAlgoTime): a base, a latency for each
step from rank to rank, and the bytes at the rate that it expects of the way.
"""

from dataclasses import dataclass

from device_model.links.collectives import CollectivesSpec, Way

RING, TREE, MESH, DOUBLING, NHR, PAIRWISE = "ring", "tree", "mesh", "halving_doubling", "nhr", "pairwise"
ALGORITHMS = (RING, TREE, MESH, DOUBLING, NHR, PAIRWISE)
_REDUCTIONS = ("all_reduce", "barrier")
# What an algorithm can do; others can do all.
_KINDS = {
    TREE: _REDUCTIONS,
    DOUBLING: (*_REDUCTIONS, "all_gather", "reduce_scatter"),
    NHR: (*_REDUCTIONS, "all_gather", "reduce_scatter"),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A way with its names: *algorithm* is one of ALGORITHMS, *protocol* "LL", "LL128", "Simple" or ""."""

    algorithm: str
    protocol: str
    way: Way


def ways_of(spec: CollectivesSpec) -> tuple[Choice, ...]:
    """Return the ways that a card has, in the order in which equals are preferred."""
    named = (
        (RING, "LL", spec.ring_ll),
        (RING, "LL128", spec.ring_ll128),
        (RING, "Simple", spec.ring_simple),
        (TREE, "LL", spec.tree_ll),
        (TREE, "LL128", spec.tree_ll128),
        (TREE, "Simple", spec.tree_simple),
        (MESH, "", spec.mesh),
        (RING, "", spec.ring),
        (DOUBLING, "", spec.halving_doubling),
        (NHR, "", spec.nhr),
    )
    return tuple(Choice(algorithm, protocol, way) for algorithm, protocol, way in named if way is not None)


def allowed_ways(spec: CollectivesSpec, kind: str, algorithm: str | None, protocol: str | None) -> list[Choice]:
    """Return the ways of a card that can do *kind*, with *algorithm* and *protocol* if they are given."""
    able = [each for each in ways_of(spec) if kind in _KINDS.get(each.algorithm, (kind,))]
    return [each for each in able if algorithm in (None, each.algorithm) and protocol in (None, each.protocol)]


def choose(
    spec: CollectivesSpec, kind: str, nbytes: int, ranks: int, algorithm: str | None = None, protocol: str | None = None
) -> Choice:
    """Return how the vendor's library does *kind* with *nbytes* in the larger buffer of each of *ranks*.

    Args:
        spec: The card.
        kind: A kind of plan.py that passes bytes along all ranks.
        nbytes: Bytes of the larger buffer of a rank.
        ranks: How many there are.
        algorithm: The only algorithm to choose from; None: all that can do *kind*.
        protocol: The only protocol to choose from; None: all.

    Raises:
        ValueError: The card has no such way for this kind.
    """
    allowed = allowed_ways(spec, kind, algorithm, protocol)
    if not allowed:
        able = allowed_ways(spec, kind, None, None)
        known = ", ".join(" ".join(filter(None, (each.algorithm, each.protocol))) for each in able)
        raise ValueError(f"{kind} cannot be done by {algorithm or 'any'} {protocol or 'protocol'}; there are {known}")
    return min(allowed, key=lambda each: _expected_ns(each, kind, nbytes, ranks))


def _expected_ns(choice: Choice, kind: str, nbytes: int, ranks: int) -> float:
    """Return the time that the library expects; ncclTopoTuneModel has the sums."""
    way = choice.way
    if choice.algorithm == TREE:  # each link carries all bytes up and down
        return way.base + 2 * (ranks - 1) * way.hop + 2e9 * nbytes / way.expected_bytes_per_second
    steps = 1 if kind in ("broadcast", "reduce") else steps_of(kind, ranks)
    return way.base + steps * way.hop + 1e9 * busiest(kind, nbytes, ranks) / way.expected_bytes_per_second


def steps_of(kind: str, ranks: int) -> int:
    """Return how many steps from rank to rank follow one another in a ring."""
    return 2 * (ranks - 1) if kind in _REDUCTIONS else ranks - 1


def busiest(kind: str, nbytes: int, ranks: int) -> float:
    """Return the bytes that cross the busiest link of a ring."""
    if kind in ("broadcast", "reduce"):
        return float(nbytes)
    return nbytes / ranks * steps_of(kind, ranks)
