"""Shadows: for each byte of each allocation, the accesses that a later one may race with.

A `Shadow` is of one life of one allocation. It is a row of *cells*, each for a range of bytes that the same accesses
have touched. A cell keeps, for each actor and each line of the program, the latest read and the latest write. That is
enough. An access may be in no order with an earlier access of the same stream, from the same line. Then it is in no
order with the latest one either, or was compared with the earlier one when it came.

A copy of rows is kept under all bytes from its first to its last; where two accesses seem to conflict, the exact rows
decide.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from acl_py.order.clocks import Clock, Past
from acl_py.ranges import Ranges
from device_model.completions import Nanoseconds
from device_model.memory import Allocation
from device_model.streams import Stream
from device_model.work import Copy, Kernel, Work


class HostAccess(NamedTuple):
    """What the host did itself, or its host function *by*: it read or wrote *ranges* of *allocation*."""

    allocation: Allocation
    ranges: Ranges
    writes: bool
    by: str = ""


class LifeCall(NamedTuple):
    """A call that begins or ends a life of memory: its name."""

    name: str


class Use(NamedTuple):
    """Something that touches memory: an operation, an access of the host, a call that begins or ends its life.

    It is *epoch* of *actor*. It comes after what its stream waits for, *past*, and after all that its host knew,
    *given*. The number of the host is *host*: it comes after all that this actor did before, too. The rest is for
    findings.
    """

    actor: int
    epoch: int
    past: Past
    given: Past
    host: int
    work: Work | HostAccess | LifeCall
    stream: Stream | None  # None for the host
    site: object
    caller: str
    at_ns: Nanoseconds

    @property
    def clock(self) -> Clock:
        """How far each actor has come in what its stream waits for."""
        return self.past.clock

    @property
    def known(self) -> Clock:
        """How far each actor has come in what its host knew."""
        return self.given.clock


# The fields of a Use: a plain tuple takes a tenth of the time to make.
PlainUse: TypeAlias = tuple[
    int, int, Past, Past, int, Work | HostAccess | LifeCall, Stream | None, object, str, Nanoseconds
]


class Footprint:
    """The latest use of some bytes by one actor, from one line of the program.

    It is *alone* while no other actor has touched any of these bytes, and no other access has taken its place. Then the
    actor's next use of the same bytes from the same line becomes its `latest` use, and that is all there is to do.
    """

    __slots__ = ("alone", "latest")

    def __init__(self, use: PlainUse) -> None:
        self.latest = use
        work = use[5]
        # While it is alone: its work, if that touches the same bytes each time that it is queued.
        self.alone = work if type(work) is Kernel or type(work) is Copy else None

    @property
    def use(self) -> Use:
        """The use."""
        return Use._make(self.latest)

    def is_repeated_by(self, work: Work) -> bool:
        """Whether *work*, of the same actor and from the same line, touches the same bytes, and no other actor does."""
        mine = self.alone
        if mine is work:
            return True
        return (
            type(work) is type(mine) is Copy
            and work.dst is mine.dst
            and work.src is mine.src
            and work.nbytes == mine.nbytes
            and work.dst_offset == mine.dst_offset
            and work.src_offset == mine.src_offset
        )


class Uses:
    """The footprints in one cell by one actor, by line."""

    __slots__ = ("latest", "latest_write", "reads", "writes")

    def __init__(self) -> None:
        self.latest = 0  # the last epoch of an access, and of a write; footprints that are alone may be later
        self.latest_write = 0
        self.reads: dict[object, Footprint] = {}
        self.writes: dict[object, Footprint] = {}

    def share(self) -> None:
        """Note that another actor touches the cell, too."""
        for footprint in self.reads.values():
            self.latest = max(self.latest, footprint.latest[1])
            footprint.alone = None
        for footprint in self.writes.values():
            self.latest_write = max(self.latest_write, footprint.latest[1])
            footprint.alone = None
        self.latest = max(self.latest, self.latest_write)

    def add(self, line: object, footprint: Footprint, *, writes: bool) -> None:
        """Add *footprint* in the place of the one that was the latest from *line*."""
        epoch, footprints = footprint.latest[1], self.writes if writes else self.reads
        replaced = footprints.get(line)
        if replaced is not None and replaced is not footprint:
            replaced.alone = None
        footprints[line] = footprint
        if epoch > self.latest:  # a host function takes its turn late
            self.latest = epoch
        if writes and epoch > self.latest_write:
            self.latest_write = epoch

    def copy(self) -> "Uses":
        """Return uses of the same footprints, for the other half of a cell that is split."""
        other = Uses()
        other.latest, other.latest_write = self.latest, self.latest_write
        other.reads, other.writes = dict(self.reads), dict(self.writes)
        return other


Cell = dict[int, Uses]  # by actor


class Shadow:
    """The cells of one allocation."""

    __slots__ = ("_cells", "_starts", "birth", "end", "exact", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.birth: Use | None = None  # the turn in a stream in which it begins
        self.end: Use | None = None  # the node of a graph that has freed it, until the next launch
        self.nbytes = nbytes
        self._starts = [0]
        self._cells: list[Cell] = [{}]
        self.exact: dict[tuple[int, int], Cell] = {}  # ranges that are one cell, as far as known

    def cells(self, start: int, stop: int) -> Sequence[Cell]:
        """Return the cells of the bytes from *start* to *stop*; cells that lie across are split."""
        if start >= stop:
            return ()
        first = self._cut(start)
        cells = self._cells[first : self._cut(stop)]
        if len(cells) == 1:
            self.exact[start, stop] = cells[0]
        return cells

    def _cut(self, at: int) -> int:
        """Return the number of the cell that begins at byte *at*, which is made if there is none."""
        if at >= self.nbytes:
            return len(self._cells)
        index = bisect_left(self._starts, at)
        if index == len(self._starts) or self._starts[index] != at:
            self.exact.clear()
            self._starts.insert(index, at)
            self._cells.insert(index, {actor: uses.copy() for actor, uses in self._cells[index - 1].items()})
        return index

    def share(self) -> None:
        """Let no footprint in it stand for later uses of the same bytes."""
        for cell in self._cells:
            for uses in cell.values():
                uses.share()

    def uses(self) -> Iterator[tuple[Use, bool]]:
        """Yield all uses, some of them several times, and whether they write."""
        for cell in self._cells:
            for uses in cell.values():
                for footprint in uses.writes.values():
                    yield footprint.use, True
                for footprint in uses.reads.values():
                    yield footprint.use, False

    def spans(self, start: int, stop: int) -> Iterator[tuple[Cell, int, int]]:
        """Yield the cells from *start* to *stop*, which begin and end there, with their first and last bytes."""
        first = bisect_right(self._starts, start) - 1
        for index in range(first, len(self._starts)):
            begin = self._starts[index]
            if begin >= stop:
                break
            end = self._starts[index + 1] if index + 1 < len(self._starts) else self.nbytes
            yield self._cells[index], begin, end
