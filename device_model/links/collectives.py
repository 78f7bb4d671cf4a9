"""The numbers of collectives: the table `[collectives]` of a profile.

A collective is done by blocks of a kernel on each rank, its *channels*. Each holds an SM. A *way* is an algorithm with
a protocol. Times are in nanoseconds, rates in bytes per second.
"""

from dataclasses import fields

from device_model.errors import ProfileError
from device_model.frozen import Frozen
from device_model.kernel.ranges import Count, Few


class Way(Frozen):
    """An algorithm with a protocol: what the vendor's library expects of it, and what a card does.

    Attributes:
        base: What the library expects a collective to take whatever its size, and
        hop: in addition for each step from rank to rank, and
        expected_bytes_per_second: the rate of one rank that it expects (the "bus bandwidth").
        step: What a step from rank to rank takes besides its bytes.
        wire_permille: Bytes on the links for 1,000 bytes of the program: headers, and flags.
        channel_bytes_per_second: What a channel passes on or takes in, if links are no limit.
        chunk_bytes: What a channel has to have before it can pass on the first byte.
        round_bytes: What a channel moves of each rank's part before it begins again with the next piece of all parts.
    """

    base: int
    hop: int
    expected_bytes_per_second: Count
    step: int
    wire_permille: Count
    channel_bytes_per_second: Count
    chunk_bytes: Count
    round_bytes: Count


class Pairs(Frozen):
    """Sends and receives: a channel has so many warps, and divides them among what it does.

    Attributes:
        step: What the way from the sender to the receiver takes besides the bytes.
        wire_permille: Bytes on the links for 1,000 bytes of the program.
        least_bytes: A channel more is for so many bytes more.
        most_bytes: A send takes more channels than its share if each would have more bytes than this.
        chunk_bytes: What a channel has to have before it can pass on the first byte.
        round_bytes: What a channel has in its buffer at a time.
        buffer_bytes: What a rank has for what another sends, so that a Send can end before its Recv begins.
        warps: Warps of a channel.
        warp_bytes_per_second: What a warp moves.
        one_way_bytes_per_second: What a channel can move that only sends or only receives.
        both_ways_bytes_per_second: What a channel can move each way if it does both.
    """

    step: int
    wire_permille: Count
    least_bytes: Count
    most_bytes: Count
    chunk_bytes: Count
    round_bytes: Count
    buffer_bytes: int
    warps: Few
    warp_bytes_per_second: Count
    one_way_bytes_per_second: Count
    both_ways_bytes_per_second: Count


class CollectivesSpec(Frozen):
    """How long collectives take on a card.

    Attributes:
        start: From the turn of the last rank to the first byte, and from the last byte to the end.
        channels: Channels of a collective.
        channels_of_three: The same for three ranks.
        drift_permille: The exponent with which the time in which links idle grows with the number of rounds; 1,000 if
            the channels stay in step (collectives.timing.plan).
        pairs: Sends and receives.
        ring_ll, ring_ll128, ring_simple, tree_ll, tree_ll128, tree_simple: The ways of NCCL, if it is the library. In
            a ring each rank sends to the next; a tree sums up and then passes down.
        mesh, ring, halving_doubling, nhr: The ways of HCCL, if it is. In a mesh each rank sends to all others at once,
            with the last two to one after the other, at distances that double.
    """

    start: int
    channels: Few
    channels_of_three: Few
    drift_permille: int
    pairs: Pairs
    ring_ll: Way | None
    ring_ll128: Way | None
    ring_simple: Way | None
    tree_ll: Way | None
    tree_ll128: Way | None
    tree_simple: Way | None
    mesh: Way | None
    ring: Way | None
    halving_doubling: Way | None
    nhr: Way | None

    def __post_init__(self) -> None:
        if not any(isinstance(getattr(self, each.name), Way) for each in fields(self)):
            raise ProfileError("collectives must have a way, such as the table collectives.ring_simple")

    def idle_ns(self, part: float, round_bytes: float, rate: float) -> float:
        """Return how long links idle for *part* bytes in rounds of *round_bytes*, which take all channels at *rate*
        bytes per nanosecond: the time of a round, as often as channels that drift apart are at its end together.
        """
        return round_bytes / rate * float((part / round_bytes) ** (self.drift_permille / 1000))
