"""What ranks ask for: the kinds of collectives, and one call of one rank.

A call of a rank has what it reads and writes there, and *facts* that all ranks must agree on. Which ranks a call takes
part with, and which bytes a result consists of, follow from its kind (`results`).
"""

from dataclasses import dataclass, field
from enum import Enum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from device_model.work import Extent, Label, Lane

if TYPE_CHECKING:
    import numpy as np


class CollectiveKind(Enum):
    """The kinds of collectives; the values are the names of the verbs."""

    ALL_REDUCE = "AllReduce"
    ALL_GATHER = "AllGather"
    REDUCE_SCATTER = "ReduceScatter"
    BROADCAST = "Broadcast"
    REDUCE = "Reduce"
    SCATTER = "Scatter"
    ALL_TO_ALL = "AlltoAll"
    ALL_TO_ALL_V = "AlltoAllV"
    BARRIER = "Barrier"
    SEND = "Send"
    RECV = "Recv"

    __hash__ = object.__hash__  # that of Enum is a Python function, and calls are looked up by their facts


class ReduceOp(Enum):
    """What a reduction does with two elements; AVERAGE is the sum, divided by the number of ranks."""

    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    AVERAGE = "avg"

    __hash__ = object.__hash__


POINT_TO_POINT = (CollectiveKind.SEND, CollectiveKind.RECV)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of one rank.

    Args:
        kind: What it does.
        count: The elements that the call names; of AlltoAllV none.
        dtype: Their type; None for a barrier.
        reduction: How elements are combined; None where they are not.
        root: The rank that has, or gets, the result; None where there is none.
        peer: The other rank of a Send or a Recv; None for others.
        sends: What it reads: one range, or for AlltoAllV one for each rank; none if it reads nothing.
        receives: What it writes, in the same way.

    Attributes:
        facts: What the calls of all ranks must have in common; a Send and its Recv, too.
        nbytes: The bytes of the larger of what it reads and what it writes.
        label: That of a part which makes this call alone.
    """

    kind: CollectiveKind
    count: int
    dtype: "np.dtype[Any] | None" = None
    reduction: ReduceOp | None = None
    root: int | None = None
    peer: int | None = None
    sends: tuple[Extent, ...] = ()
    receives: tuple[Extent, ...] = ()
    facts: tuple[object, ...] = field(init=False, repr=False, compare=False)  # these follow: all parts read them
    nbytes: int = field(init=False, repr=False, compare=False)
    label: Label = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kind = CollectiveKind.SEND if self.kind is CollectiveKind.RECV else self.kind
        note = object.__setattr__  # it is frozen
        note(self, "facts", _together(kind, self.count, self.dtype, self.reduction, self.root))
        note(self, "nbytes", max(_size(self.sends), _size(self.receives)))
        note(self, "label", label_of(self.kind.value))

    def __str__(self) -> str:
        return self.text()

    def text(self, number: int | None = None) -> str:
        """Return the call in words, with its *number*: "AllReduce 3 of 1,024 float32 (sum)"."""
        what = self.kind.value if number is None else f"{self.kind.value} {number}"
        if self.peer is not None:
            what += f" {'to' if self.kind is CollectiveKind.SEND else 'from'} rank {self.peer}"
        if self.kind is CollectiveKind.ALL_TO_ALL_V:
            return f"{what} of {self.dtype}"
        if self.dtype is not None:
            what += f" of {self.count:,} {self.dtype}"
        if self.root is not None:
            what += f" with root {self.root}"
        return what if self.reduction is None else f"{what} ({self.reduction.value})"


@lru_cache(1024)
def _together(*facts: object) -> tuple[object, ...]:
    """Return *facts*; for equal ones nearly always the same tuple, which is quick to compare."""
    return facts


@cache
def label_of(what: str) -> Label:
    """Return the label of parts that do *what*: "AllReduce", or "Send and Recv"."""
    return Label("collective", Lane.COLLECTIVE, what)


def _size(extents: tuple[Extent, ...]) -> int:
    nbytes = 0
    for _, start, stop in extents:
        nbytes += stop - start
    return nbytes


def fits(one: Call, other: Call) -> bool:
    """Whether two calls of one exchange agree."""
    return one is other or one.facts == other.facts


def rows_fit(calls: list[Call]) -> bool:
    """Whether in AlltoAllV each rank expects of each other what that one sends; *calls* are those of all ranks."""

    def sizes(extents: tuple[Extent, ...]) -> list[int]:
        return [stop - start for _, start, stop in extents]

    sent = [sizes(call.sends) for call in calls]
    expected = [sizes(call.receives) for call in calls]
    return all(sent[i][j] == expected[j][i] for i in range(len(calls)) for j in range(len(calls)))
