"""Accesses of the host, joined: between two calls each line has at most three rows, however many items it touches.

Nothing waits between two calls. So the order of accesses says only one thing: whether a byte was read before it was
written. Reads of bytes that are not written yet come first, then writes, then the other reads.

An await that finds its operation done is no call, but what comes behind it is in order with the operation.
"""

from typing import NamedTuple, TypeVar

from acl_py.ranges import ByteRanges, Ranges
from acl_py.trace.rows.timeline import Extent
from device_model.completions import Nanoseconds

_FRESH, _WRITTEN, _READ_AGAIN = range(3)
_K = TypeVar("_K")
_Key = tuple[int, int, object, int]  # order, caller, site, the serial number of the memory


class Row(NamedTuple):
    """Accesses at *site* by the task or thread with number *caller*; *extents* have serial numbers of memory.

    Of an await, *after* is the serial number of the operation. A look at the clock has neither that nor extents.
    """

    at_ns: Nanoseconds
    calls: int
    caller: int
    site: object
    writes: bool = False
    extents: tuple[Extent, ...] = ()
    after: int = -1


class Exports:
    """The bytes that code has got at whose accesses are not seen, in the order of time; each byte once."""

    __slots__ = ("_known", "rows")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._known: dict[int, ByteRanges] = {}  # by the serial number of the memory

    def add(self, at_ns: Nanoseconds, calls: int, caller: int, site: object, serial: int, ranges: Ranges) -> None:
        """Add *ranges* of the memory with number *serial*, which *caller* got at behind so many rows of *calls*."""
        known = self._known.setdefault(serial, ByteRanges())
        _, news = known.split(ranges)
        if news:
            known.add(news)
            extents = tuple(Extent(serial, start, stop) for start, stop in news)
            self.rows.append(Row(at_ns, calls, caller, site, extents=extents))


class Touched:
    """What a host function has read and written: bytes that it reads behind its own writes count as written only."""

    __slots__ = ("_reads", "_writes")

    def __init__(self) -> None:
        self._reads: dict[int, ByteRanges] = {}  # by the serial number of the memory
        self._writes: dict[int, ByteRanges] = {}

    def add(self, serial: int, ranges: Ranges, *, writes: bool) -> None:
        """Add an access to *ranges* of the memory with number *serial*."""
        if not writes and serial in self._writes:
            _, ranges = self._writes[serial].split(ranges)
        _join(self._writes if writes else self._reads, serial, ranges)

    def extents(self) -> tuple[tuple[Extent, ...], tuple[Extent, ...]]:
        """Return the bytes that it reads, and those that it writes."""
        return _extents(self._reads), _extents(self._writes)


class Accesses:
    """The accesses of the host in a recording."""

    __slots__ = ("_joined", "_moment", "_rows", "_written")

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._moment = 0, 0  # the time, and the number of calls until then
        self._joined: dict[_Key, ByteRanges] = {}  # of this moment
        self._written: dict[int, ByteRanges] = {}  # in this moment, by the serial number of the memory

    def add(
        self,
        at_ns: Nanoseconds,
        calls: int,
        caller: int,
        site: object,
        serial: int,
        ranges: Ranges,
        *,
        writes: bool,
    ) -> None:
        """Add an access to *ranges* of the memory with number *serial*, behind so many rows of *calls*. Calls without a
        row of their own take time.
        """
        if (at_ns, calls) != self._moment:
            self._end_moment()
            self._moment = at_ns, calls
        key = caller, site, serial
        if writes:
            _join(self._written, serial, ranges)
            _join(self._joined, (_WRITTEN, *key), ranges)
        elif serial not in self._written:
            _join(self._joined, (_FRESH, *key), ranges)
        else:
            again, fresh = self._written[serial].split(ranges)
            _join(self._joined, (_READ_AGAIN, *key), again)
            _join(self._joined, (_FRESH, *key), fresh)

    def add_await(self, at_ns: Nanoseconds, calls: int, caller: int, site: object, after: int) -> None:
        """Add an await of the operation with number *after*."""
        self._end_moment()
        self._rows.append(Row(at_ns, calls, caller, site, after=after))

    def add_clock(self, at_ns: Nanoseconds, calls: int, caller: int, site: object) -> None:
        """Add a look at the clock."""
        self._end_moment()
        row = Row(at_ns, calls, caller, site)
        if self._rows[-1:] != [row]:
            self._rows.append(row)

    def _end_moment(self) -> None:
        self._rows += self._latest()
        self._joined.clear()
        self._written.clear()

    def end_moment(self) -> int:
        """Let what follows have rows of its own, and return the number of rows so far."""
        if self._joined:
            self._end_moment()
        return len(self._rows)

    def rows(self) -> list[Row]:
        """Return all rows so far, in their order."""
        return [*self._rows, *self._latest()]

    def _latest(self) -> list[Row]:
        """Return the rows of this moment."""
        lines: dict[tuple[int, int, str], dict[int, ByteRanges]] = {}  # a line may have several sites
        sites: dict[str, object] = {}
        for (order, caller, site, serial), touched in sorted(self._joined.items(), key=lambda each: each[0][0]):
            sites.setdefault(str(site), site)
            _join(lines.setdefault((order, caller, str(site)), {}), serial, list(touched))
        return [
            Row(*self._moment, caller, sites[line], order == _WRITTEN, _extents(memory))
            for (order, caller, line), memory in lines.items()
        ]


def _join(touched: dict[_K, ByteRanges], key: _K, ranges: Ranges) -> None:
    if key in touched:
        touched[key].add(ranges)
    elif ranges:
        touched[key] = ByteRanges(ranges)


def _extents(memory: dict[int, ByteRanges]) -> tuple[Extent, ...]:
    return tuple(Extent(serial, start, stop) for serial, touched in memory.items() for start, stop in touched)
