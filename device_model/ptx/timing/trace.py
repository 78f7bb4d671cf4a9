"""What sampled warps of a launch did, and how much all of them did.

The sampled blocks follow from the grid and the card alone. Of each warp of theirs a trace has which blocks of code it
ran, in which order, and the traffic of each access by its real addresses. Of all warps it has how often each block of
code ran, and how many instructions each issued.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from device_model.ptx.lanes.group import WARP, Array, Group, Ints, Lanes
from device_model.ptx.lanes.program import Code
from device_model.ptx.lanes.watching import Watch
from device_model.ptx.timing.samples import Access, Sample, Visit
from device_model.sm import banks
from device_model.sm.spec import SmSpec

CLOSE = 8  # of so many sampled blocks, one is looked at closely
MOST_VISITS = 4096  # of a warp, that are kept
_FEW = 256  # visits of all warps, of a small launch
SECTOR, LINE = 32, 128  # bytes


class _Pattern(NamedTuple):
    """What a warp asks global memory for: its *sectors*, how many *addresses* they have, how many lanes have the *same*
    one at most, and the sectors that it *wanted*.
    """

    sectors: tuple[int, ...]
    addresses: int
    same: int
    wanted: int


class Trace(Watch):
    """Watches a launch.

    Args:
        sampled: The numbers of the blocks to look at.
        issues: How many instructions each block of code issues.
        shape: The blocks of the grid, and the warps of each.
        l1_sectors: How many sectors of L1 a block has for itself.
        sums: Lines of atomics that an assembler does once for a warp.
        widths: Lines of loads that are one for an SM, with the bytes of the whole, or 0 for those behind the first.
        spec: The SM.

    Attributes:
        samples: The sampled blocks.
        work: The instructions that each warp issued: [block, warp].
        visits: How many warps ran each block of code.
        needed: How many would have run it if lanes of a block that run it at the same time filled whole warps.
        hot: Cycles that the slice of the L2 that has most atomics works on them.
        atomics: How many atomics of warps there were.
    """

    __slots__ = (
        "_close", "_issues", "_l1", "_line", "_pass", "_slices", "_sums", "_wanted", "_widths", "atomics", "hot",
        "needed", "samples", "visits", "work",
    )  # fmt: skip

    def __init__(
        self,
        sampled: Sequence[int],
        issues: Mapping[int, int],
        shape: tuple[int, int],
        l1_sectors: int,
        sums: Collection[int],
        widths: Mapping[int, int],
        spec: SmSpec,
    ) -> None:
        self._wanted = list(sampled)
        self._issues = issues
        self._l1 = l1_sectors
        self.samples: list[Sample] = []
        self._close: dict[int, list[Sample]] = {}  # by the first block of a group, those to look at closely
        self._pass, self._line = spec.atomic_pass_permille / 1000, spec.atomic_line_permille / 1000
        self._slices = np.zeros(spec.l2_slices)
        self._sums = sums
        self._widths = widths
        self.work = np.zeros(shape, np.int64)
        self.visits: dict[int, int] = dict.fromkeys(issues, 0)
        self.needed: dict[int, int] = dict.fromkeys(issues, 0)
        self.hot = 0.0
        self.atomics = 0

    def changed(self, samples: Sequence[Sample], *, hot: float | None = None, work: float = 1.0) -> "Trace":
        """Return the same launch with other *samples*, atomics that take *hot* cycles, and a part *work* of its
        instructions.
        """
        other = copy(self)
        other.samples = list(samples)
        other.hot = self.hot if hot is None else hot
        other.work = np.rint(self.work * work).astype(np.int64)
        return other

    def everything(self) -> Hashable | None:
        """Return all that a small launch did, as far as its time depends on it; None of a larger one."""
        warps = [visits for sample in self.samples for visits in sample.visits]
        if len(self.samples) < len(self.work) or sum(map(len, warps)) > _FEW:
            return None
        did = tuple(tuple((number, *accesses.items()) for number, accesses in visits) for visits in warps)
        return did, self.hot, self.atomics

    def begin(self, group: Group) -> None:
        """Find the sampled blocks of *group*."""
        samples = [
            Sample(number, group.threads, close=order % CLOSE == CLOSE // 2 or len(self._wanted) < CLOSE)
            for order, number in enumerate(self._wanted)
            if group.first <= number < group.first + group.blocks
        ]
        self.samples += samples
        self._close[group.first] = [sample for sample in samples if sample.close]

    def step(self, at: Lanes, code: Code) -> None:
        """Count, and note for the sampled warps, that they run *code*."""
        group, number = at.group, code.number
        work = self.work[group.first : group.first + group.blocks]
        if at.index is None:
            work += self._issues[number]
            self.visits[number] += work.size
            self.needed[number] += work.size
        else:
            block, thread = np.divmod(at.index, group.threads)
            warps = np.flatnonzero(np.bincount(block * work.shape[1] + thread // WARP))
            work.reshape(-1)[warps] += self._issues[number]
            self.visits[number] += len(warps)
            self.needed[number] += int((-(-np.bincount(block) // WARP)).sum())
        for sample in self.samples:
            if group.first <= sample.place < group.first + group.blocks:
                for visits in _gone(sample, at, number):
                    if len(visits) < MOST_VISITS:
                        visits.append((number, {}))

    def load(self, at: Lanes, space: str, address: Array, nbytes: int) -> None:
        """Note the traffic of a load."""
        whole = self._widths.get(at.group.launch.line, nbytes)
        if whole:
            self._note(at, space, address, whole, "load")

    def store(self, at: Lanes, space: str, address: Array, nbytes: int, values: Sequence[Array]) -> None:  # noqa: ARG002
        """Note the traffic of a store."""
        self._note(at, space, address, nbytes, "store")

    def change(self, at: Lanes, space: str, address: Array, nbytes: int) -> None:
        """Note the traffic of an atomic operation."""
        how = "atom"
        if space == "global":
            addresses = np.broadcast_to(address, at.shape).reshape(-1)
            warps = np.broadcast_to(at.flat, at.shape).reshape(-1) // WARP
            count = int(np.count_nonzero(np.diff(warps, prepend=-1)))
            if at.group.launch.line in self._sums:
                how = "one"
                places = _first(warps, addresses) // LINE
                slices = (places % len(self._slices)).astype(np.intp)
                self._slices += np.bincount(slices, minlength=len(self._slices)) * self._line
            else:
                places, passes = _passes(warps, addresses)
                slices = (places // (LINE // SECTOR) % len(self._slices)).astype(np.intp)
                self._slices += np.bincount(slices, passes * self._pass, len(self._slices))
            self.hot = float(self._slices.max())
            self.atomics += count
        self._note(at, space, address, nbytes, how)

    def _note(self, at: Lanes, space: str, address: Array, nbytes: int, how: str) -> None:
        group, line = at.group, at.group.launch.line
        for sample in self._close[group.first]:
            (threads, active), own = _addresses(at, sample.place - group.first, address)
            if not active:
                continue
            base = int(own[0]) // LINE * LINE
            pattern = (own.view(np.int64) - base).tobytes()
            warps = (group.threads + WARP - 1) // WARP
            if space in ("shared", "param"):
                found = _phases(pattern, threads, warps, nbytes, how)
            elif space == "local":  # the words of the lanes of a warp are side by side, and stay in L1
                found = [Access(hits=4 * max(1, nbytes // 4))] * warps
            else:
                found = self._global(sample, base // SECTOR, _sectors(pattern, threads, warps, nbytes), how, line)
            for warp in active:
                visits = sample.visits[warp]
                if len(visits) == MOST_VISITS:
                    continue
                seen = visits[-1][1]
                seen[line] = seen[line].plus(found[warp]) if line in seen else found[warp]

    def _global(self, sample: Sample, base: int, patterns: Sequence[_Pattern], how: str, line: int) -> list[Access]:
        """Return what goes to the L2, and what L1 has."""
        found = []
        for sectors, addresses, same, wanted in patterns:
            if how in ("atom", "one"):
                found.append(
                    Access(0, len(sectors), _lines(sectors), 0, addresses, same if how == "atom" else 1, len(sectors))
                )
            elif how == "store":
                found.append(Access(0, len(sectors), _lines(sectors), wanted=wanted))
            else:
                new = sample.load([each + base for each in sectors], line, self._l1)
                tags = _lines(sectors)
                found.append(Access(0, len(new), _lines(new), len(sectors) - len(new), wanted=wanted, tags=tags))
        return found


def _first(warps: Array, addresses: Array) -> Array:
    """Return the first address of each warp."""
    return addresses[np.flatnonzero(np.diff(warps, prepend=-1))].astype(np.int64)


def _passes(warps: Array, addresses: Array) -> tuple[Array, Array]:
    """Return the sectors that each warp changes, and the passes of each: one for each lane of its busiest address."""
    order = np.lexsort((addresses, warps))
    own, places = warps[order], addresses[order].astype(np.int64)
    begins = np.flatnonzero((np.diff(own, prepend=-1) != 0) | (np.diff(places, prepend=-1) != 0))
    lanes = np.diff(begins, append=len(own))
    own, sectors = own[begins], places[begins] // SECTOR
    begins = np.flatnonzero((np.diff(sectors, prepend=-1) != 0) | (np.diff(own, prepend=-1) != 0))
    return sectors[begins], np.maximum.reduceat(lanes, begins)


def _lines(sectors: Sequence[int]) -> int:
    return len(dict.fromkeys(each * SECTOR // LINE for each in sectors))


def _gone(sample: Sample, at: Lanes, number: int) -> Sequence[list[Visit]]:
    """Let the lanes of a sampled block go on to the block of code *number*; return what their warps did before."""
    if at.index is None:
        sample.go_all(number)
        return sample.visits
    threads = _threads(at.index, sample.place - at.group.first, at.group.threads)
    if sample.close:
        sample.go(threads, number)
    return [sample.visits[each] for each in _warps(threads)]


def _threads(index: Ints, block: int, threads: int) -> Array:
    """Return the threads of a block of the group that are among the lanes *index*."""
    low, high = np.searchsorted(index, (block * threads, (block + 1) * threads))
    return index[low:high] - block * threads


def _addresses(at: Lanes, block: int, address: Array) -> tuple[tuple[bytes, Sequence[int]], Array]:
    """Return the active threads of a block, their warps, and the address of each thread."""
    threads = at.group.threads
    if at.index is None:
        row = address[block if address.shape[0] > 1 else 0]
        return _everyone(threads), np.ascontiguousarray(row if len(row) == threads else np.broadcast_to(row, threads))
    low, high = np.searchsorted(at.index, (block * threads, (block + 1) * threads))
    active = at.index[low:high] - block * threads
    flat = np.broadcast_to(address, at.shape)[0, low:high]
    return (active.tobytes(), _warps(active)), np.ascontiguousarray(flat)


@lru_cache(1024)
def _everyone(threads: int) -> tuple[bytes, Sequence[int]]:
    """Return all threads of a block, and their warps."""
    return np.arange(threads).tobytes(), range(-(-threads // WARP))


def _warps(threads: Array) -> list[int]:
    """Return the warps of *threads*, which are in order."""
    warps: list[int] = np.flatnonzero(np.bincount(threads // WARP)).tolist()
    return warps


def _spread(pattern: bytes, threads: bytes, warps: int) -> tuple[Array, Array]:
    """Return the addresses by warp and lane, and which lanes are active."""
    who = np.frombuffer(threads, np.intp)
    addresses = np.zeros(warps * WARP, np.int64)
    active = np.zeros(warps * WARP, np.bool_)
    addresses[who] = np.frombuffer(pattern, np.int64)
    active[who] = True
    return addresses.reshape(warps, WARP), active.reshape(warps, WARP)


@lru_cache(4096)
def _phases(pattern: bytes, threads: bytes, warps: int, nbytes: int, how: str) -> list[Access]:
    addresses, active = _spread(pattern, threads, warps)
    if how == "atom":  # each further lane of an address is a turn of its own
        return [_turns(each[on]) for each, on in zip(addresses, active, strict=True)]
    width = min(16, max(4, nbytes))
    traffic = (banks.store if how == "store" else banks.load)(addresses // width * width, width, active)
    return [
        Access(int(phases), conflicts=int(phases - passes))
        for phases, passes in zip(traffic.phases, traffic.passes, strict=True)
    ]


def _turns(addresses: Array) -> Access:
    if not len(addresses):
        return Access()
    words, counts = np.unique(addresses // 4, return_counts=True)
    turns = np.bincount((words % banks.BANKS).astype(np.intp), weights=counts)
    return Access(int(turns.max()), atomics=len(words), same=int(counts.max()))


@lru_cache(4096)
def _sectors(pattern: bytes, threads: bytes, warps: int, nbytes: int) -> list[_Pattern]:
    addresses, active = _spread(pattern, threads, warps)
    found = []
    for each, on in zip(addresses, active, strict=True):
        own = each[on]
        both = np.unique(np.concatenate([own // SECTOR, (own + nbytes - 1) // SECTOR]))
        _, counts = np.unique(own, return_counts=True)
        wanted = -(-len(counts) * nbytes // SECTOR)
        found.append(_Pattern(tuple(both.tolist()), len(counts), int(counts.max(initial=0)), wanted))
    return found
