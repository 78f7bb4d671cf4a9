"""Barriers in shared memory: objects of 64 bits, of which lanes count arrivals and bytes.

A phase ends when as many lanes have arrived as the object was made for, and all bytes that it expects have come. Its
bits, from the lowest: bytes that have still to come (21, with a sign); arrivals that are still missing (20); arrivals
of a phase (20); the parity of the phase. Lanes that change one object take turns, as with atomics.
"""

import numpy as np

from device_model.ptx.lanes.atomics import atomics
from device_model.ptx.lanes.group import Array, Lanes
from device_model.ptx.lanes.memory import AccessError

MOST = (1 << 20) - 1  # arrivals of a phase, and bytes that one may expect
_BYTES, _COUNT = 21, 20  # bits
_MISSING, _ALL, _PHASE = _BYTES, _BYTES + _COUNT, _BYTES + 2 * _COUNT  # where these begin


class Mbarrier:
    """Objects taken apart: an array of each part."""

    __slots__ = ("bytes", "count", "missing", "phase")

    def __init__(self, words: Array) -> None:
        bits = words.astype(np.uint64)
        low = (bits & np.uint64((1 << _BYTES) - 1)).astype(np.int64)
        self.bytes = np.where(low >> (_BYTES - 1), low - (1 << _BYTES), low)
        self.missing = (bits >> np.uint64(_MISSING) & np.uint64(MOST)).astype(np.int64)
        self.count = (bits >> np.uint64(_ALL) & np.uint64(MOST)).astype(np.int64)
        self.phase = (bits >> np.uint64(_PHASE) & np.uint64(1)).astype(np.int64)

    def ended(self) -> "Mbarrier":
        """Begin the next phase of those whose phase is complete."""
        is_complete = (self.missing == 0) & (self.bytes == 0)
        self.missing = np.where(is_complete, self.count, self.missing)
        self.phase = np.where(is_complete, 1 - self.phase, self.phase)
        return self

    def words(self) -> Array:
        """Return the objects."""
        low = self.bytes & ((1 << _BYTES) - 1)
        rest = (self.missing & MOST) << _MISSING | (self.count & MOST) << _ALL | self.phase << _PHASE
        return np.asarray(low | rest).astype(np.uint64)


def made(at: Lanes, count: Array) -> Array:
    """Return new objects for phases of so many arrivals.

    Raises:
        AccessError: A count is 0, or more than `MOST`.
    """
    wide = count.astype(np.int64)
    is_bad = (wide < 1) | (wide > MOST)
    if is_bad.any():
        raise AccessError(f"an mbarrier for {int(wide[is_bad][0])} arrivals, not 1 to {MOST}", at.some(is_bad))
    new = Mbarrier(np.zeros(wide.shape, np.uint64))
    new.count = new.missing = wide
    return new.words()


def arrive(
    at: Lanes, space: str, address: Array, count: Array, expected: Array | None = None, *, drops: bool = False
) -> Array:
    """Arrive *count* times; return the states of the phases that the lanes arrive at.

    Args:
        at: The lanes.
        space: The state space of the objects.
        address: Where they are.
        count: How often each lane arrives.
        expected: How many bytes it lets the phase wait for, before it arrives.
        drops: Whether later phases take so many arrivals less.

    Raises:
        AccessError: More lanes arrive than the phase has arrivals.
    """

    def step(old: Array, given: Array, more: Array | None) -> Array:
        barrier = Mbarrier(old)
        if more is not None:
            barrier.bytes = barrier.bytes + more.astype(np.int64)
        barrier.missing = barrier.missing - given.astype(np.int64)
        if drops:
            barrier.count = barrier.count - given.astype(np.int64)
        if (barrier.missing < 0).any():
            raise AccessError("more arrivals at an mbarrier than its phase has", at.flat.reshape(-1))
        return barrier.ended().words()

    return np.asarray(atomics(at, space, step, address, count.astype(np.uint64), expected))


def expect_tx(at: Lanes, space: str, address: Array, nbytes: Array) -> None:
    """Let phases wait for so many more bytes."""

    def step(old: Array, given: Array, _: Array | None) -> Array:
        barrier = Mbarrier(old)
        barrier.bytes = barrier.bytes + given.astype(np.int64)
        return barrier.words()

    atomics(at, space, step, address, nbytes.astype(np.uint64), wanted=False)


def complete_tx(at: Lanes, space: str, address: Array, nbytes: Array) -> None:
    """Tell that so many bytes have come."""

    def step(old: Array, given: Array, _: Array | None) -> Array:
        barrier = Mbarrier(old)
        barrier.bytes = barrier.bytes - given.astype(np.int64)
        return barrier.ended().words()

    atomics(at, space, step, address, nbytes.astype(np.uint64), wanted=False)


def is_over(words: Array, state: Array) -> Array:
    """Return whether the phases of *state*, which `arrive` has returned, are over."""
    return np.asarray(Mbarrier(words).phase != Mbarrier(state).phase)


def is_parity_over(words: Array, parity: Array) -> Array:
    """Return whether phases of this parity are over: the current one, or the one before it."""
    return np.asarray(Mbarrier(words).phase != (parity.astype(np.int64) & 1))


def pending(state: Array) -> Array:
    """Return how many arrivals were missing in *state*."""
    return np.asarray(Mbarrier(state).missing.astype(np.uint32))
