"""Pages of managed memory: where each page is, what the program has advised about it, and what an access moves.

A page of 4 KB is on the host, on one device, or, if it is read-mostly, on several of them as copies. A page that was
never used counts as on the host, without an entry in the host's page table. Three accesses move pages:

* A kernel, copy or fill faults on pages that are not on its device. It moves whole regions of 64 KB. The driver brings
  in one region of each block of 2 MB at first, then twice as many each time, so a block of 32 regions takes six rounds.
* The host faults on pages that are not on the host, one region after the other.
* A prefetch moves exactly its range, without faults.

How many pages an access moves is counted here (`Moves`); the profile of the card says how long that takes.

A device that has no room left moves back the blocks that were used longest ago (assumed: no card was asked).
"""

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.completions import NOTHING, Completion

if TYPE_CHECKING:
    from device_model.handles import Stream

PAGE = 1 << 12
REGION = 1 << 16
BLOCK = 1 << 21
HOST = -1  # as a location; devices count from 0
NOWHERE = -2  # as a location: none was set, or not the same for all pages
_HOST_BIT = 31  # in the bits of locations; the devices have those below
_PER_REGION = REGION // PAGE
_PER_BLOCK = BLOCK // PAGE


class Advice(IntEnum):
    """What a program can say about the use of managed memory, with the values of cudaMemoryAdvise."""

    SET_READ_MOSTLY = 1
    UNSET_READ_MOSTLY = 2
    SET_PREFERRED_LOCATION = 3
    UNSET_PREFERRED_LOCATION = 4
    SET_ACCESSED_BY = 5
    UNSET_ACCESSED_BY = 6


class Moves(NamedTuple):
    """What accesses did with pages.

    Attributes:
        to_device: Pages that were moved, or copied, to a device.
        to_host: Pages that were moved, or copied, to the host.
        rounds: Rounds of faults that a device waited for.
        host_faults: Regions that the host faulted on, because they were on a device.
        mapped: Pages that were entered in the host's page table.
        unshared: Pages that the host wrote although it shared them with a device, each with a fault of its own.
        remote: Bytes of the host that a device reached over the bus, where they stayed.
    """

    to_device: int = 0
    to_host: int = 0
    rounds: int = 0
    host_faults: int = 0
    mapped: int = 0
    unshared: int = 0
    remote: int = 0

    def beside(self, other: "Moves") -> "Moves":
        """Return the moves of two accesses of one operation, whose faults are handled in the same rounds."""
        both = Moves(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))
        return both._replace(rounds=max(self.rounds, other.rounds))


NONE = Moves()


class Pages:
    """The pages of one allocation of *nbytes*."""

    __slots__ = ("_devices", "_is_away", "_is_mapped", "_is_shared", "_reached", "accessed_by", "count", "last_used",
                 "preferred", "prefetched", "read_mostly")  # fmt: skip

    def __init__(self, nbytes: int) -> None:
        self.count = -(-nbytes // PAGE)
        blocks = -(-nbytes // BLOCK)
        room = blocks * _PER_BLOCK  # the pages behind the last one stay on the host

        def flags() -> npt.NDArray[np.bool_]:
            return np.zeros(room, np.bool_)

        self._devices = np.zeros(room, np.uint32)  # a bit for each device that has the page
        self._is_away = flags()  # not on the host
        self._is_mapped = flags()  # in the host's page table
        self._is_shared = flags()  # the host may not write it without a fault: a device has, or had, a copy
        self._reached = np.zeros(room, np.uint32)  # a bit for each device that maps the page on the host
        self.read_mostly = flags()
        self.preferred = np.full(room, NOWHERE, np.int16)
        self.accessed_by = np.zeros(room, np.uint32)  # a bit for each device, and one for the host
        self.prefetched = np.full(room, NOWHERE, np.int16)
        self.last_used = np.zeros(blocks, np.int64)  # by a device: counts the accesses of all devices

    def __repr__(self) -> str:
        return f"<Pages {self.count}, {int(self._is_away.sum())} not on the host>"

    def take_over(self, pages: "Pages") -> None:
        """Let these pages be where *pages* are, which another simulation has left, and have the same advice."""
        for name in self.__slots__:
            setattr(self, name, getattr(pages, name))

    def part(self, start: int, stop: int) -> slice:
        """Return the pages that the bytes *start* to *stop* touch."""
        return slice(start // PAGE, -(-stop // PAGE))

    def on_device(self, device: int) -> int:
        """Return how many pages *device* has."""
        return int(np.count_nonzero(self._devices & np.uint32(1 << device)))

    def on_host(self) -> int:
        """Return how many pages the host has, those that were never used among them."""
        return self.count - int(np.count_nonzero(self._is_away))

    def blocks(self, start: int, stop: int) -> int:
        """Return how many blocks the bytes *start* to *stop* touch."""
        return -(-stop // BLOCK) - start // BLOCK

    def missing(self, start: int, stop: int, location: int) -> int:
        """Return how many pages of the bytes *start* to *stop* are not at *location*."""
        part = self.part(start, stop)
        if location == HOST:
            return int(np.count_nonzero(self._is_away[part]))
        return int(np.count_nonzero((self._devices[part] & np.uint32(1 << location)) == 0))

    def is_read_mostly(self, start: int, stop: int) -> bool:
        """Whether all pages of the bytes *start* to *stop* are read-mostly."""
        return bool(self.read_mostly[self.part(start, stop)].all())

    def devices_with_access(self, start: int, stop: int) -> tuple[int, ...]:
        """Return the devices, and last HOST, that were advised to access all pages of the bytes *start* to *stop*."""
        bits = int(np.bitwise_and.reduce(self.accessed_by[self.part(start, stop)]))
        devices = tuple(device for device in range(_HOST_BIT) if bits >> device & 1)
        return (*devices, HOST) if bits >> _HOST_BIT & 1 else devices

    def preferred_location(self, start: int, stop: int) -> int:
        """Return where all pages of the bytes *start* to *stop* should stay, or NOWHERE."""
        return self._common_location(self.preferred, start, stop)

    def last_prefetch(self, start: int, stop: int) -> int:
        """Return where all pages of the bytes *start* to *stop* were prefetched to last, or NOWHERE."""
        return self._common_location(self.prefetched, start, stop)

    def _common_location(self, locations: npt.NDArray[np.int16], start: int, stop: int) -> int:
        """Return the one of *locations* that all pages of the bytes *start* to *stop* have, or NOWHERE."""
        part = locations[self.part(start, stop)]
        return int(part[0]) if (part == part[0]).all() else NOWHERE

    def use_on_device(self, device: int, start: int, stop: int, *, writes: bool) -> Moves:
        """Let *device* read, or also write, the bytes *start* to *stop*."""
        regions, is_used = self._used(start, stop)
        bit = np.uint32(1 << device)
        has = (self._devices[regions] & bit) != 0
        on_host = ~self._is_away[regions]
        maps = ((self.accessed_by[regions] | self._reached[regions]) & bit) != 0
        stays = ~has & on_host & (maps | (self.preferred[regions] == HOST))
        lacks = is_used & ~has & ~(stays & maps)
        in_fault = _whole_regions(lacks)
        moving = in_fault & ~has & ~stays & (np.arange(regions.start, regions.stop) < self.count)
        self._reached[regions][in_fault & stays] |= bit
        if writes:  # a page of which others have a copy takes a fault, too
            lacks |= is_used & has & (on_host | ((self._devices[regions] & ~bit) != 0))
        self._bring(regions, moving, bit)
        if writes:
            self._keep_one(regions, is_used & ~stays, bit)
        remote = min(int(np.count_nonzero(stays & is_used)) * PAGE, stop - start)
        rounds = _rounds(np.flatnonzero(lacks) + regions.start)
        return Moves(to_device=int(np.count_nonzero(moving)), rounds=rounds, remote=remote)

    def use_on_host(self, start: int, stop: int, *, writes: bool) -> Moves:
        """Let the host read, or write, the bytes *start* to *stop*."""
        exact = self.part(start, stop)
        regions, is_used = self._used(start, stop)
        is_away = self._is_away[regions]
        in_fault = _whole_regions(is_away & is_used)
        moving = is_away & in_fault
        mapping = (moving | is_used) & ~self._is_mapped[regions]
        self._take_back(regions, moving)
        self._is_mapped[regions] |= mapping
        unshared = 0
        if writes:
            shared = self._is_shared[exact]
            unshared = int(np.count_nonzero(shared))
            self._devices[exact][shared] = 0
            self._is_shared[exact] = False
        return Moves(
            to_host=int(np.count_nonzero(moving)),
            host_faults=int(np.count_nonzero(in_fault)) // _PER_REGION,
            mapped=int(np.count_nonzero(mapping)),
            unshared=unshared,
        )

    def prefetch(self, start: int, stop: int, location: int) -> Moves:
        """Move the bytes *start* to *stop* to *location*: a device, or HOST."""
        part = self.part(start, stop)
        self.prefetched[part] = location
        if location == HOST:
            moving = self._is_away[part].copy()
            self._take_back(part, moving)
            return Moves(to_host=int(np.count_nonzero(moving)))
        bit = np.uint32(1 << location)
        moving = (self._devices[part] & bit) == 0
        self._bring(part, moving, bit)
        return Moves(to_device=int(np.count_nonzero(moving)))

    def attach(self, stream: "Stream", flags: int) -> Completion:  # noqa: ARG002 - it changes no access
        """Say who uses the pages, behind the work of *stream*; return when that is so."""
        return NOTHING

    def advise(self, start: int, stop: int, advice: Advice, location: int) -> None:
        """Note *advice* about the bytes *start* to *stop*; nothing moves.

        Of a page that is no longer read-mostly one copy stays: that of the host, or of the device with the lowest
        number.
        """
        part = self.part(start, stop)
        bit = np.uint32(1 << (location if location >= 0 else _HOST_BIT))
        match advice:
            case Advice.SET_READ_MOSTLY:
                self.read_mostly[part] = True
            case Advice.UNSET_READ_MOSTLY:
                self.read_mostly[part] = False
                self._devices[part] &= ~self._devices[part] + np.uint32(1)  # the lowest bit
                self._devices[part][~self._is_away[part]] = 0
            case Advice.SET_PREFERRED_LOCATION:
                self.preferred[part] = location
            case Advice.UNSET_PREFERRED_LOCATION:
                self.preferred[part] = NOWHERE
                self._reached[part] = 0
            case Advice.SET_ACCESSED_BY:
                self.accessed_by[part] |= bit
            case Advice.UNSET_ACCESSED_BY:
                self.accessed_by[part] &= ~bit

    def evict(self, device: int, block: int) -> int:
        """Move the pages that *device* has of a block to the host, and return how many these are."""
        part = slice(block * _PER_BLOCK, (block + 1) * _PER_BLOCK)
        held = (self._devices[part] & np.uint32(1 << device)) != 0
        moving = held & self._is_away[part]
        self._take_back(part, moving)
        self._devices[part][held] = 0
        return int(np.count_nonzero(moving))

    def blocks_on(self, device: int) -> npt.NDArray[np.intp]:
        """Return the indices of the blocks of which *device* has pages."""
        has = (self._devices & np.uint32(1 << device)) != 0
        return np.flatnonzero(has.reshape(-1, _PER_BLOCK).any(axis=1))

    def _used(self, start: int, stop: int) -> tuple[slice, npt.NDArray[np.bool_]]:
        """Return the pages of the regions of the bytes *start* to *stop*, and which of them these bytes touch."""
        exact = self.part(start, stop)
        regions = slice(start // REGION * _PER_REGION, -(-stop // REGION) * _PER_REGION)
        is_used = np.zeros(regions.stop - regions.start, np.bool_)
        is_used[exact.start - regions.start : exact.stop - regions.start] = True
        return regions, is_used

    def _bring(self, part: slice, moving: npt.NDArray[np.bool_], bit: np.uint32) -> None:
        """Move the pages *moving* of *part* to the device of *bit*; read-mostly pages are copied."""
        copied = moving & self.read_mostly[part]
        moved = moving & ~copied
        self._devices[part][copied] |= bit
        self._is_shared[part][copied] = True
        self._devices[part][moved] = bit
        self._leave_host(part, moved)

    def _keep_one(self, part: slice, written: npt.NDArray[np.bool_], bit: np.uint32) -> None:
        """Give up all copies of the *written* pages of *part* except that of the device of *bit*."""
        self._devices[part][written] = bit
        self._leave_host(part, written)

    def _leave_host(self, part: slice, gone: npt.NDArray[np.bool_]) -> None:
        self._is_away[part][gone] = True
        self._is_mapped[part][gone] = False
        self._is_shared[part][gone] = False
        self._reached[part][gone] = 0

    def _take_back(self, part: slice, moving: npt.NDArray[np.bool_]) -> None:
        """Move the pages *moving* of *part* to the host; read-mostly pages are copied."""
        copied = moving & self.read_mostly[part]
        self._is_shared[part][copied] = True
        self._devices[part][moving & ~copied] = 0
        self._is_away[part][moving] = False


class Residence:
    """What all managed memory of one simulation shares: the order in which blocks were used on devices."""

    __slots__ = ("_clock", "pages")

    def __init__(self) -> None:
        self._clock = 0
        self.pages: dict[Pages, None] = {}  # of the living allocations, in the order of their making

    def used(self, pages: Pages, start: int, stop: int) -> None:
        """Note that a device uses the bytes *start* to *stop* now."""
        first, last = start // BLOCK, -(-stop // BLOCK)
        pages.last_used[first:last] = np.arange(self._clock, self._clock + last - first)
        self._clock += last - first

    def make_room(self, device: int, capacity: int) -> int:
        """Move blocks from *device* to the host, those used longest ago first, until its pages fit in *capacity* bytes.

        Return how many pages were moved.
        """
        excess = sum(pages.on_device(device) for pages in self.pages) - capacity // PAGE
        if excess <= 0:
            return 0
        oldest = sorted(
            (int(pages.last_used[block]), order, int(block))
            for order, pages in enumerate(self.pages)
            for block in pages.blocks_on(device)
        )
        living, moved = list(self.pages), 0
        for _, order, block in oldest:
            if excess <= 0:
                break
            before = living[order].on_device(device)
            moved += living[order].evict(device, block)
            excess -= before - living[order].on_device(device)
        return moved


def _whole_regions(faulting: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the pages of all regions that have a *faulting* page."""
    return np.repeat(faulting.reshape(-1, _PER_REGION).any(axis=1), _PER_REGION)


def _rounds(faulting: npt.NDArray[np.intp]) -> int:
    """Return how many rounds bring in the *faulting* pages: blocks side by side, twice as many regions each time."""
    if not faulting.size:
        return 0
    regions = np.unique(faulting // _PER_REGION)
    _, in_each_block = np.unique(regions // (_PER_BLOCK // _PER_REGION), return_counts=True)
    most = int(in_each_block.max())
    return 1 + (most - 1).bit_length()
