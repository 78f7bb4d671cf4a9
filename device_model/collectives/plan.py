"""Plans of collectives: what is asked, how it is done, and the steps over links that this takes.

    ask = Ask(Kind.ALL_REDUCE, devices=(0, 1, 2, 3), nbytes=1 << 20)
    choice = choose(ask, profile, Forced())          # algorithm, protocol, channels, and the SMs that they hold
    steps = plan(ask, choice, profile)
    play(scheduler, links, steps, on_end)            # calls on_end() when the last step ends

A plan depends on nothing but its arguments. No bytes move here: results are computed elsewhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from device_model.completions import Nanoseconds

if TYPE_CHECKING:
    from device_model.profile import DeviceProfile
    from device_model.scheduler import Scheduler


class Kind(Enum):
    """What the ranks of a communicator do together."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    SCATTER = "scatter"
    EXCHANGE = "exchange"  # sends and receives of one group: Send and Recv, AlltoAll with or without counts
    BARRIER = "barrier"


class Algorithm(Enum):
    """The order in which ranks pass bytes on."""

    RING = "ring"
    TREE = "tree"
    MESH = "mesh"  # each rank with all others at once
    PAIRWISE = "pairwise"  # of an exchange: what each pair sends


class Protocol(Enum):
    """How a rank learns that bytes have come: by a flag in each word of 8 or line of 128 bytes, or one for a chunk."""

    LL = "LL"
    LL128 = "LL128"
    SIMPLE = "Simple"


@dataclass(frozen=True, slots=True)
class Ask:
    """One collective.

    Attributes:
        kind: What the ranks do.
        devices: The number of each rank's device, by rank.
        nbytes: The size of one rank's larger buffer: of AllGather the receive buffer, of ReduceScatter and Scatter
            the send buffer (of the root). Not used by an exchange and a barrier.
        counts: Of an exchange: the bytes that rank i sends to rank j, as counts[i][j].
        root: The rank that has the bytes, or gets them.
    """

    kind: Kind
    devices: tuple[int, ...]
    nbytes: int = 0
    counts: tuple[tuple[int, ...], ...] = ()
    root: int = 0


@dataclass(frozen=True, slots=True)
class Forced:
    """What the user has fixed, as NCCL_ALGO, NCCL_PROTO and HCCL_ALGO do; None: the vendor's choice."""

    algorithm: Algorithm | None = None
    protocol: Protocol | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """How a collective is done: by *channels* that work side by side, each of which holds an SM of each rank."""

    algorithm: Algorithm
    protocol: Protocol
    channels: int
    sms: int


class Step(NamedTuple):
    """A part of a plan: after *latency_ns*, *nbytes* move, at most *cap* bytes per nanosecond.

    Each link of *loads* carries its number of bytes for each of the *nbytes*.
    """

    latency_ns: Nanoseconds
    nbytes: float
    cap: float
    loads: tuple[tuple[int, float], ...]


def choose(ask: Ask, profile: "DeviceProfile", forced: Forced) -> Choice:
    """Return how a card with *profile* does *ask*.

    Raises:
        ValueError: What is forced cannot do it.
    """
    raise NotImplementedError


def plan(ask: Ask, choice: Choice, profile: "DeviceProfile") -> tuple[Step, ...]:
    """Return the steps of *ask*, one after the other."""
    raise NotImplementedError


def play(scheduler: "Scheduler", links: object, steps: Sequence[Step], on_end: Callable[[], None]) -> None:
    """Play *steps* on *links* from now on; call *on_end* at the end of the last."""
    raise NotImplementedError
