"""Shadows: the last accesses of the bytes of a memory.

A shared array has one entry for each *granule*: 16 bytes, or the width of its narrowest access so far if that is less.
The entry has the last write (its source, its stamp and its line) and, for each warp, the last read since then. A check
is a comparison of arrays: in a kernel that uses barriers, all earlier stamps are below the floor, and that is the whole
check.

Global memory has a truth value for each byte: was it written, was it read before that, and does it hold nothing.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from device_model.cta.checks.rules import Rule
from device_model.cta.names import threads_text
from device_model.sm.names import WARP, Bools, Ints

if TYPE_CHECKING:
    from device_model.cta.block import Block

NOBODY = -1
# A read in one number: its stamp, its line, its thread.
_STAMP, _SITE = 32, 12
_THREAD, _SITES = (1 << _SITE) - 1, (1 << _STAMP - _SITE) - 1
_WIDEST = 16  # bytes of one access
_OF_GRANULES = ("_writer", "_stamp", "_write_site", "_atomic", "_last_read", "_reader", "_other")
_ONES = {1: 0x01, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}  # a true byte in each place


class SharedShadow:
    """The last accesses to each granule of a shared array of *nbytes* bytes from byte *address* on."""

    __slots__ = (
        "_address", "_atomic", "_block", "_has_atomics", "_last_read", "_name", "_other", "_reader", "_stamp",
        "_write_site", "_writer", "end", "granule",
    )  # fmt: skip

    def __init__(self, block: "Block", address: int, nbytes: int, name: str) -> None:
        count = -(-nbytes // _WIDEST)
        self._block = block
        self._address = address
        self._name = name
        self.end = address + nbytes
        self.granule = _WIDEST
        self._writer: Ints = np.full(count, NOBODY, np.int64)
        self._stamp: Ints = np.zeros(count, np.int64)  # of the last write; 0: there was none
        self._write_site: Ints = np.zeros(count, np.int64)
        self._atomic: Bools = np.zeros(count, np.bool_)
        self._has_atomics = False
        self._last_read: Ints = np.zeros(count, np.int64)  # its stamp
        # By granule and warp: the last read, packed, and the last one before it of another thread. Two are enough: a
        # thread that writes finds one that is not its own.
        self._reader: Ints = np.zeros((count, block.warps), np.int64)
        self._other: Ints = np.zeros((count, block.warps), np.int64)

    def _granules(self, threads: Ints, addresses: Ints, width: int) -> tuple[Ints, Ints]:
        """Return the granules of accesses of *width* bytes, and the thread of each, both flat."""
        if width < self.granule:
            self._divide(self.granule // width)
        first = (addresses - self._address) // self.granule
        count = max(width // self.granule, 1)
        if count == 1 and first.shape[1] == 1:
            return first[:, 0], threads
        granules = first[..., None] + np.arange(count)
        owners = np.broadcast_to(threads.reshape(-1, *[1] * (granules.ndim - 1)), granules.shape)
        return granules.reshape(-1), owners.reshape(-1)

    def _divide(self, parts: int) -> None:
        """Make *parts* granules of each, which have had the same accesses so far."""
        self.granule //= parts
        for name in _OF_GRANULES:
            setattr(self, name, np.repeat(getattr(self, name), parts, axis=0))

    def read(self, threads: Ints, addresses: Ints, width: int) -> None:
        """Record that each of *threads* reads *width* bytes at each of its *addresses*, and check it."""
        self._block.check(self._read, self._name, threads, addresses, width, self._block.site_number())

    def _read(self, threads: Ints, addresses: Ints, width: int, site: int) -> None:
        block = self._block
        granules, owners = self._granules(threads, addresses, width)
        stamps = self._stamp[granules]
        if not stamps.min(initial=1):
            self._find_unwritten(granules[stamps == 0], owners[stamps == 0], site)
        self._check_writes(Rule.RAW, granules, owners, stamps, site)
        now = block.order.now
        readers, others = self._reader.reshape(-1), self._other.reshape(-1)
        places = granules * block.warps + owners // WARP
        packed = owners + (now << _STAMP | site << _SITE)
        before = readers[places]
        differs = (before > 0) & (before & _THREAD != owners)
        if differs.any():
            others[places[differs]] = before[differs]
        readers[places] = packed
        lost = readers[places] != packed
        if lost.any():  # several threads of one warp read the same granule
            others[places[lost]] = packed[lost]
        self._last_read[granules] = now

    def write(self, threads: Ints, addresses: Ints, width: int, *, is_copy: bool = False) -> None:
        """Record that each of *threads* writes, itself or by an asynchronous copy; check it."""
        self._block.check(self._write, self._name, threads, addresses, width, self._block.site_number(), is_copy)

    def _write(self, threads: Ints, addresses: Ints, width: int, site: int, is_copy: int) -> None:
        block = self._block
        granules, owners = self._granules(threads, addresses, width)
        self._check_writes(Rule.WAW, granules, owners, self._stamp[granules], site)
        self._check_reads(granules, owners, site)
        sources = owners + block.threads if is_copy else owners
        self._set_writer(granules, sources, site, is_atomic=False)

    def update(self, threads: Ints, addresses: Ints, width: int) -> None:
        """Record an atomic operation; atomic operations need no order among themselves."""
        self._block.check(self._update, self._name, threads, addresses, width, self._block.site_number())

    def _update(self, threads: Ints, addresses: Ints, width: int, site: int) -> None:
        granules, owners = self._granules(threads, addresses, width)
        stamps = np.where(self._atomic[granules], 0, self._stamp[granules])
        nothing = self._writer[granules] == NOBODY
        if nothing.any():
            self._find_unwritten(granules[nothing], owners[nothing], site)
        self._check_writes(Rule.RAW, granules, owners, stamps, site)
        self._check_reads(granules, owners, site)
        self._set_writer(granules, owners, site, is_atomic=True)

    def _find_unwritten(self, granules: Ints, owners: Ints, site: int) -> None:
        block = self._block
        line = block.site_of(site)
        block.find_hazard(
            Rule.UNWRITTEN_READ,
            f"{threads_text(owners[:1])} reads {self._bytes(int(granules[0]))} at {line}, where nothing was written; "
            "on a card there is what an earlier block left; write these bytes first",
            (line,),
            f"a write to {self._name}",
        )

    def _set_writer(self, granules: Ints, sources: Ints, site: int, *, is_atomic: bool) -> None:
        self._writer[granules] = sources
        self._stamp[granules] = self._block.order.now
        self._write_site[granules] = site
        if is_atomic or self._has_atomics:
            self._has_atomics = True
            self._atomic[granules] = is_atomic
        if self._last_read[granules].any():
            self._last_read[granules] = 0
            self._reader[granules] = 0
            self._other[granules] = 0

    def _check_writes(self, rule: Rule, granules: Ints, owners: Ints, stamps: Ints, site: int) -> None:
        """Check that each of *owners* knows that the last write of its granule is over."""
        block = self._block
        order = block.order
        if stamps.max(initial=0) < order.floor_with_copies:
            return  # all threads know all of these writes, by a barrier
        writers = self._writer[granules]
        wrong = ~order.knows(owners, writers, stamps) & (stamps > 0)
        if not wrong.any():
            return
        across = wrong & (writers % order.threads // WARP != owners // WARP)
        at = int((across if across.any() else wrong).argmax())
        writer, stamp, thread = int(writers[at]), int(stamps[at]), int(owners[at])
        first, later = block.site_of(int(self._write_site[granules[at]])), block.site_of(site)
        missing = self._missing(writer, stamp, thread)
        is_copy = writer >= order.threads
        maker = f"the copy of thread {writer - order.threads}" if is_copy else f"thread {writer}"
        verb = "reads" if rule is Rule.RAW else "writes"
        block.find_hazard(
            rule,
            f"thread {thread} {verb} {self._bytes(int(granules[at]))} at {later} while {maker} from {first} may still "
            f"write it; missing {missing}",
            (first, later),
            missing,
        )

    def _check_reads(self, granules: Ints, owners: Ints, site: int) -> None:
        """Check that each of *owners* knows that all reads of its granule since the last write are over."""
        block = self._block
        order = block.order
        if self._last_read[granules].max(initial=0) < max(order.floor, 1):
            return
        worst: tuple[int, int] | None = None  # the access, and the warp that may still read
        for warp in range(block.warps):
            wrong = np.zeros(len(granules), np.bool_)
            for reads in (self._reader[granules, warp], self._other[granules, warp]):
                wrong |= (reads > 0) & ~order.knows(owners, reads & _THREAD, reads >> _STAMP)
            across = wrong & (owners // WARP != warp)
            if across.any():
                worst = int(across.argmax()), warp
                break
            if wrong.any():
                worst = int(wrong.argmax()), warp
        if worst is None:
            return
        at, warp = worst
        read, thread = int(self._reader[granules[at], warp]), int(owners[at])
        first, later = block.site_of(read >> _SITE & _SITES), block.site_of(site)
        missing = self._barrier(warp * WARP, read >> _STAMP, thread)
        block.find_hazard(
            Rule.WAR,
            f"thread {thread} writes {self._bytes(int(granules[at]))} at {later} while warp {warp} may still read it "
            f"at {first}; missing {missing}",
            (first, later),
            missing,
        )

    def _missing(self, writer: int, stamp: int, thread: int) -> str:
        """Return the call that would have let *thread* know the write."""
        order = self._block.order
        maker = writer % order.threads
        if writer < order.threads:
            return self._barrier(maker, stamp, thread)
        if stamp < order.handed[maker]:
            return "the wait for its mbarrier"
        calls = []
        if stamp >= order.completed[maker]:
            if stamp >= order.committed(maker):
                calls.append("commit_group()")
            calls.append("wait_group()")
        if maker != thread and not (calls and stamp < order.floor):
            calls.append(self._barrier(maker, stamp, thread))
        return " and ".join(calls)

    def _barrier(self, first: int, stamp: int, second: int) -> str:
        """Return the barrier between an access of thread *first* at *stamp* and one of *second* that comes now."""
        block = self._block
        if first // WARP == second // WARP:
            return "syncwarp()"
        if block.roles is None or stamp < block.order.roles_since:
            return "syncthreads()"
        return "bar_sync()" if block.roles[first] == block.roles[second] else "bar_sync() or an mbarrier"

    def _bytes(self, granule: int) -> str:
        start = granule * self.granule
        return f"{self._name}, bytes {start}:{start + self.granule},"


class GlobalShadow:
    """What a launch did with the bytes of an allocation; *empty* are the ranges that hold nothing before it."""

    __slots__ = ("_empty", "_has_writes", "_read", "_touched", "_written", "name")

    def __init__(self, nbytes: int, name: str, empty: Sequence[tuple[int, int]]) -> None:
        size = -(-nbytes // 16) * 16
        self.name = name
        self._has_writes = False
        self._written: Bools = np.zeros(size, np.bool_)
        self._read: Bools = np.zeros(size, np.bool_)
        self._touched: Bools = np.zeros(-(-size // 32), np.bool_)  # sectors that are in the L2
        self._empty: Bools | None = None
        if empty:
            self._empty = np.zeros(size, np.bool_)
            for start, stop in empty:
                self._empty[start:stop] = True

    def read(self, words: Ints, width: int) -> int:
        """Record reads of *words* of *width* bytes; return the place of one that holds nothing, or -1."""
        parts, unit = _parts(words, width)
        ones = unit.type(_ONES[unit.itemsize])
        read = self._read.view(unit)
        if not self._has_writes and self._empty is None:
            read[parts] = ones
            return -1
        written = self._written.view(unit)[parts]
        read[parts] |= ~written & ones
        if self._empty is None:
            return -1
        nothing = (self._empty.view(unit)[parts] & ~written & ones) != 0
        return int(nothing.argmax()) * len(words) // len(parts) if nothing.any() else -1

    def write(self, words: Ints, width: int) -> None:
        """Record writes of *words* of *width* bytes."""
        self._has_writes = True
        parts, unit = _parts(words, width)
        self._written.view(unit)[parts] = _ONES[unit.itemsize]

    def misses(self, sectors: Ints) -> Bools:
        """Return which of *sectors* the launch touches for the first time; from here on they are in the L2."""
        missed = ~self._touched[sectors]
        self._touched[sectors] = True
        return missed

    def contents_read(self) -> Iterator[tuple[int, int]]:
        """Return the ranges that were read before the launch wrote them."""
        return _runs(self._read, 0)

    def written(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Return the ranges of start:stop that the launch has written."""
        return _runs(self._written[start:stop], start)

    def unwritten(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Return the ranges of start:stop that hold nothing."""
        if self._empty is None:
            return iter(())
        return _runs(self._empty[start:stop] & ~self._written[start:stop], start)


def _parts(words: Ints, width: int) -> tuple[Ints, np.dtype[Any]]:
    """Return *words* of *width* bytes as words of 8 bytes at most, and their type."""
    if width <= 8:
        return words, np.dtype(f"u{width}")
    return (words[:, None] * (width // 8) + np.arange(width // 8)).reshape(-1), np.dtype("u8")


def _runs(flags: Bools, start: int) -> Iterator[tuple[int, int]]:
    """Return the ranges in which *flags*, whose first is byte *start*, are true."""
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False))
    return ((start + first, start + last) for first, last in edges.reshape(-1, 2).tolist())
