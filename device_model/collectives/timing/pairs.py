"""Sends and receives of one group: which channels do each, and how fast.

NCCL numbers the distances between ranks, its *rounds*. In the round of distance d each rank sends to the rank d behind
it and receives from the one d before it. A round begins at a channel of its own, and takes more channels the more bytes
it has. A channel that does several rounds divides its warps among them, and in a round between sending and receiving.
"""

from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from device_model.completions import Nanoseconds
from device_model.links.collectives import CollectivesSpec, Pairs

Counts = tuple[tuple[int, ...], ...]  # what rank i sends to rank j


class Pair(NamedTuple):
    """What one rank sends to another, and the most bytes per nanosecond that its channels can move."""

    source: int
    target: int
    nbytes: int
    cap: float
    filling_ns: Nanoseconds  # how much later the last byte is where it belongs than on the link
    idle_ns: Nanoseconds  # how long links idle if each channel turns from one peer to another


class Work(NamedTuple):
    """What a channel of a rank has to do in one round."""

    sends: bool
    receives: bool


# By rank and channel: its work in each round.
Works = dict[tuple[int, int], dict[int, Work]]


def pairs_of(spec: CollectivesSpec, counts: Counts) -> tuple[list[Pair], int]:
    """Return the pairs of ranks that have bytes to send, and how many channels the busiest rank uses."""
    rows = enumerate(counts)
    return pairs_among(spec, len(counts), {(i, j): nbytes for i, row in rows for j, nbytes in enumerate(row) if nbytes})


def pairs_among(spec: CollectivesSpec, ranks: int, sent: Mapping[tuple[int, int], int]) -> tuple[list[Pair], int]:
    """Do the same for *sent*: by pairs of *ranks* what one sends to the other, the pairs in their order."""
    channels, rounds = channels_of(spec, ranks), _rounds(ranks)
    at: dict[tuple[int, int], list[int]] = {}
    works: Works = {}
    for (source, target), nbytes in sent.items():
        number = rounds[(target - source) % ranks]
        at[source, target] = own = _channels_at(spec.pairs, nbytes, ranks, number, channels)
        for channel in own:
            _note(works, source, channel, number, Work(True, False))
            _note(works, target, channel, number, Work(False, True))
    pairs = []
    for (source, target), own in at.items():
        nbytes, number = sent[source, target], rounds[(target - source) % ranks]
        cap = sum(min(_rate(spec.pairs, works[rank, each], number) for rank in (source, target)) for each in own)
        filling = 0.0 if source == target else _last_bytes(spec.pairs, nbytes, len(own), works[source, own[0]][number])
        rate = len(own) * spec.pairs.one_way_bytes_per_second / 1e9
        idle = spec.idle_ns(nbytes, len(own) * spec.pairs.round_bytes, rate)
        pairs.append(Pair(source, target, nbytes, cap, round(filling / cap), round(idle)))
    used = Counter(rank for rank, _ in works)
    return pairs, max(used.values(), default=0)


def channels_of(spec: CollectivesSpec, ranks: int) -> int:
    """Return how many channels sends and receives have: a power of two, as many as those of collectives or more."""
    channels = spec.channels_of_three if ranks == 3 else spec.channels
    return 1 << (channels - 1).bit_length()


def _channels_at(spec: Pairs, nbytes: int, ranks: int, number: int, channels: int) -> list[int]:
    """Return the channels of a send in round *number*: its share of them, or more if it is large."""
    count = channels
    while count * ranks > channels and count > 1:
        count //= 2
    count = min(count, -(-nbytes // spec.least_bytes))
    while nbytes > count * spec.most_bytes and count <= channels // 2:
        count *= 2
    bits = channels.bit_length() - 1
    first = int(f"{number % channels:0{bits}b}"[::-1], 2) if bits else 0  # rounds begin far from each other
    return [(first + part) % channels for part in range(count)]


def _last_bytes(spec: Pairs, nbytes: int, count: int, work: Work) -> float:
    """Return what the receiver still copies out of its buffer when the last byte has crossed the link.

    A slot of each channel, and at most half of all. A rank that only sends goes on with its next call meanwhile, so in
    a row of calls less of it shows: an eighth, as the buffer has eight slots.
    """
    return min(nbytes / (2 if work.receives else 8), count * spec.chunk_bytes)


@cache
def _rounds(ranks: int) -> dict[int, int]:
    """Return the round of each distance; a power of two of steps that grow by one visits each distance once."""
    rounds: dict[int, int] = {}
    power, distance = 1 << (ranks - 1).bit_length(), 0
    for step in range(power):
        distance = (distance + step) % power
        if distance < ranks:
            rounds[distance] = len(rounds)
    return rounds


def _note(works: Works, rank: int, channel: int, number: int, work: Work) -> None:
    here = works.setdefault((rank, channel), {})
    before = here.get(number, Work(False, False))
    here[number] = Work(before.sends or work.sends, before.receives or work.receives)


def _rate(spec: Pairs, works: dict[int, Work], number: int) -> float:
    """Return how many bytes per nanosecond a channel moves each way in round *number*, beside its other *works*.

    If there are fewer warps than that takes, they do one after the other, and each gets its share of a warp.
    """
    warps: float = spec.warps // len(works) or spec.warps / len(works)
    work = works[number]
    if work.sends and work.receives and number:  # in round 0 a rank copies its own bytes with all warps
        warps = (warps // 2 if warps <= 4 else (warps - 1) // 2) or warps / 2
        most = spec.both_ways_bytes_per_second
    else:
        most = spec.one_way_bytes_per_second
    return min(warps * spec.warp_bytes_per_second, most) / 1e9
