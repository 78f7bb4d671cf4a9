"""What the kernels of this folder share: how each is named and run, and how a block finds its part of the data.

A kernel here issues the calls that the kernels of its folder issue, in their order, on data of its own size. So it
shows that the names, and the forms in which the folder uses them, are here. What a host puts into a tiling is a plain
argument here.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from acl_py import asc

DATA_BLOCK = 32  # bytes


class Data(NamedTuple):
    """What a kernel is given, and what it must leave in its arguments, by their names."""

    given: dict[str, Any]
    wanted: dict[str, np.ndarray]


class Case(NamedTuple):
    """A kernel, the folder that it follows, and how it is launched.

    Attributes:
        folder: The folder, from the name of its repository on.
        kernel: The kernel.
        data: Makes its data, given a generator of random numbers.
        blocks: The number of blocks.
        tolerance: The relative and absolute error that is allowed; 0 for equal bits.
    """

    folder: str
    kernel: Any
    data: Callable[[np.random.Generator], Data]
    blocks: int
    tolerance: float


CASES: list[Case] = []


class RankedCase(NamedTuple):
    """A kernel that runs on several ranks, each with an argument *comm*; *data* makes the data of each of them.

    The others are as in `Case`.
    """

    folder: str
    kernel: Any
    data: Callable[[np.random.Generator, int], list[Data]]
    blocks: int


RANKED: list[RankedCase] = []


def follows_on_ranks(
    folder: str, data: Callable[[np.random.Generator, int], list[Data]], blocks: int = 1
) -> Callable[[Any], Any]:
    """Add the kernel below to those that run on several ranks."""

    def add(kernel: Any) -> Any:
        RANKED.append(RankedCase(folder, kernel, data, blocks))
        return kernel

    return add


def follows(folder: str, data: Callable[[np.random.Generator], Data], blocks: int = 1, tolerance: float = 0.0) -> Any:
    """Add the kernel below to the cases."""

    def add(kernel: Any) -> Any:
        CASES.append(Case(folder, kernel, data, blocks, tolerance))
        return kernel

    return add


def part_of_block(total: int, unit: int = 1) -> tuple[int, int]:
    """Return the first element and the number of elements of this block: whole units, the first blocks one more."""
    units = -(-total // unit)
    share, more = divmod(units, asc.GetBlockNum())
    block = asc.GetBlockIdx()
    first = (block * share + min(block, more)) * unit
    return first, max(min((share + (block < more)) * unit, total - first), 0)


def pieces(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the length of each piece of *count* elements."""
    for start in range(0, count, most):
        yield start, min(most, count - start)


def up(number: int, unit: int) -> int:
    """Return *number*, rounded up to a multiple of *unit*."""
    return -(-number // unit) * unit


def queue(pipe: asc.TPipe, position: asc.TPosition, count: int, nbytes: int, depth: int = 1) -> asc.TQue:
    """Return a queue with *count* buffers of *nbytes* bytes, of which *depth* may be enqueued."""
    made = asc.TQue(position, depth)
    pipe.InitBuffer(made, count, nbytes)
    return made


def buffer(pipe: asc.TPipe, nbytes: int) -> asc.TBuf:
    """Return a buffer of *nbytes* bytes for results in between."""
    made = asc.TBuf(asc.TPosition.VECCALC)
    pipe.InitBuffer(made, nbytes)
    return made


def handed_over(event: asc.HardEvent) -> None:
    """Let the destination of *event* wait for its source, with an id that the TPipe gives."""
    event_id = asc.GetTPipePtr().FetchEventID(event)
    asc.SetFlag(event, event_id)
    asc.WaitFlag(event, event_id)


def gm(argument: Any, dtype: Any, first: int = 0, size: int | None = None) -> asc.GlobalTensor:
    """Return *size* elements of an argument in GM, from element *first* on."""
    return asc.GlobalTensor(dtype).SetGlobalBuffer(argument[first:], size)
