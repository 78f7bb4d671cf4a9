"""The traffic of an access, by the pattern of its addresses.

A kernel makes the same accesses again and again, in other tiles. So what follows from a pattern is kept: addresses less
a multiple of 128 bytes, after which banks and sectors repeat.
"""

from functools import lru_cache
from typing import Protocol

import numpy as np

from device_model.sm import banks
from device_model.sm.instructions import SECTOR
from device_model.sm.names import WARP, Bools, Ints

_PERIOD = 128  # bytes
_KEPT = 1024  # patterns
PerWarp = tuple[int, ...]


class Threads(Protocol):
    """What traffic reads of the block that makes an access."""

    @property
    def active(self) -> Ints:
        """The threads that take part, in their order."""

    @property
    def is_whole(self) -> bool:
        """Whether all threads take part."""

    @property
    def warps(self) -> int:
        """How many warps it has."""


class L2(Protocol):
    """What traffic asks about an allocation in global memory."""

    def misses(self, sectors: Ints) -> Bools:
        """Return which of *sectors* are not in the L2 yet; from here on they are."""


def phases(block: Threads, addresses: Ints, width: int, *, is_store: bool) -> tuple[PerWarp, PerWarp]:
    """Return the phases in shared memory that an access takes, and those of them that it takes because banks conflict.

    Both are by warp; means if each thread makes several. *addresses* are [thread, number].
    """
    _, pattern = relative(addresses)
    who = None if block.is_whole else block.active.tobytes()
    return _phases(pattern.tobytes(), addresses.shape, who, width, is_store)


def sectors(block: Threads, addresses: Ints, l2: L2) -> tuple[PerWarp, PerWarp]:
    """Return the sectors of global memory that each warp moves, and those of them that are not in the L2 yet."""
    base, pattern = relative(addresses)
    who = None if block.is_whole else block.active.tobytes()
    moved, first, warps = _sectors(pattern.tobytes(), addresses.shape, who)
    misses = l2.misses(first + base // SECTOR)
    if not misses.any():
        return moved, (0,) * block.warps
    return moved, tuple(np.bincount(warps[misses].astype(np.intp), minlength=block.warps).tolist())


def relative(addresses: Ints) -> tuple[int, Ints]:
    """Return a base, a multiple of 128 bytes, and *addresses* from it on: the pattern."""
    base = int(np.minimum.reduce(addresses, axis=None)) // _PERIOD * _PERIOD
    return base, addresses - base


@lru_cache(_KEPT)
def _phases(
    pattern: bytes, shape: tuple[int, int], who: bytes | None, width: int, is_store: bool
) -> tuple[PerWarp, PerWarp]:
    threads, count = shape
    warps = -(-threads // WARP)
    lanes = np.zeros((warps * WARP, count), np.int64)
    lanes[:threads] = np.frombuffer(pattern, np.int64).reshape(shape)
    by_warp = np.moveaxis(lanes.reshape(warps, WARP, count), -1, 0)  # [number, warp, lane]
    mask: Bools | None = None
    if who is not None or threads % WARP:
        active = np.zeros(warps * WARP, np.bool_)
        active[_threads(who, threads)] = True
        mask = np.broadcast_to(active.reshape(warps, WARP), by_warp.shape)
    traffic = (banks.store if is_store else banks.load)(by_warp, width, mask)
    return means(traffic, count)


def means(traffic: banks.Traffic, count: int) -> tuple[PerWarp, PerWarp]:
    """Return the phases of each warp, and those because of conflicts: means of *count* instructions, [number, warp]."""
    taken, least = (-(-each.sum(axis=0) // count) for each in (traffic.phases, traffic.passes))
    return tuple(taken.tolist()), tuple((taken - least).tolist())


@lru_cache(_KEPT)
def _sectors(pattern: bytes, shape: tuple[int, int], who: bytes | None) -> tuple[PerWarp, Ints, Ints]:
    """Return the sectors that each warp moves, each sector once, and the first warp that moves it."""
    threads, count = shape
    warps = -(-threads // WARP)
    active = _threads(who, threads)
    addresses = np.frombuffer(pattern, np.int64).reshape(shape)[active]
    instructions = np.arange(count) * warps + (active // WARP)[:, None]  # one number for each of each warp
    pairs = np.unique(np.stack([instructions.reshape(-1), (addresses // SECTOR).reshape(-1)]), axis=1)
    warp_of = pairs[0] % warps
    each, first = np.unique(pairs[1], return_index=True)
    return tuple(np.bincount(warp_of.astype(np.intp), minlength=warps).tolist()), each, warp_of[first]


def _threads(who: bytes | None, threads: int) -> Ints:
    return np.arange(threads, dtype=np.int64) if who is None else np.frombuffer(who, np.int64)
