"""The times of the warps of a launch: what they read of them, and how they spend them.

A warp spends what each block of code costs one warp alone. Two things let it wait for others. A barrier lets all warps
go on when the last one has come. And a warp that reads what another one has stored cannot do so before that. So the
time of each store is kept, and no warp reads a value before the time of its store.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from device_model.ptx.lanes.group import WARP, Array, Group, Ints, Lanes
from device_model.ptx.lanes.program import Code
from device_model.ptx.lanes.watching import Watch

_DTYPES = {"%clock": "u4", "%clock_hi": "u4", "%globaltimer_lo": "u4", "%globaltimer_hi": "u4"}
_BYTE = np.dtype(np.uint8)
_WORD = 4  # bytes, of which each has a time of its last store
_PER_MS = 1_000_000  # nanoseconds; a clock of so many kHz has so many cycles a millisecond
GRAIN_NS = 1000  # lanes whose times are no further apart go on together


class Rates(NamedTuple):
    """What the time of a warp is made of.

    Attributes:
        costs: By block of code, the cycles that it costs one warp.
        polls: The lines whose loads are meant to see what others store.
        results: The lines of atomic operations whose results are read.
        latency: Cycles from a store to the load that sees it.
        barrier: Cycles of a barrier.
        khz: The clock of the SMs.
        begin: Cycles from the launch of a block to its first instruction.
        places: How many blocks the card holds.
    """

    costs: Mapping[int, int]
    polls: frozenset[int]
    results: frozenset[int]
    latency: int
    barrier: int
    khz: int
    begin: int
    places: int


class Polled(NamedTuple):
    """The memory that an access has looked at.

    Attributes:
        space: "global" or "shared".
        places: The first address of each lane; in shared memory, where in that of the group.
        nbytes: How many bytes from there on.
    """

    space: str
    places: Ints
    nbytes: int

    def contents(self, group: Group) -> bytes:
        """Return the bytes that are there now."""
        found = b""
        for place in self.places.tolist():
            if self.space != "global":
                found += group.shared[place : place + self.nbytes].tobytes()
                continue
            region = group.launch.memory.find(place)
            if region is None:
                return b""
            found += region.peek(_BYTE, place - region.start + np.arange(self.nbytes)).tobytes()
        return found


class Clock(Watch):
    """The time of each warp, in cycles since the launch began.

    Attributes:
        spent: By block and warp.
        worked: The same without waits.
        now: The time of the simulation, in the same cycles.
        stored: When global memory was changed last.
    """

    __slots__ = ("_arrived", "_began_ns", "_block_cost", "_ended", "_polled", "_rates", "_shared", "_stamps", "now",
                 "spent", "stored", "worked")  # fmt: skip

    def __init__(self, rates: Rates, blocks: int, threads: int, began_ns: int) -> None:
        self._rates = rates
        self._began_ns = began_ns
        self.spent = np.zeros((blocks, -(-threads // WARP)), np.int64)
        self._ended = np.zeros(blocks, np.bool_)
        self.worked = np.zeros_like(self.spent)
        self.now = self.stored = 0
        self._block_cost = 0  # of the block of code that runs
        self._stamps: dict[int, Array] = {}  # of the words of a region, by its beginning
        self._shared: dict[int, Array] = {}  # of shared memory, by the first block of a group
        self._arrived: dict[tuple[int, int], Array] = {}  # at a barrier of a group: the warps that wait
        self._polled: dict[int, Polled] = {}  # by line: what it looked at last

    # Times

    def cycles(self, nanoseconds: int) -> int:
        """Return the first whole cycle after so many nanoseconds."""
        return -(-nanoseconds * self._rates.khz // _PER_MS)

    def nanoseconds(self, cycles: int) -> int:
        """Return the first nanosecond after so many cycles."""
        return -(-cycles * _PER_MS // self._rates.khz)

    def go_to(self, after_ns: int) -> None:
        """The simulation goes on so many nanoseconds behind the start."""
        self.now = max(self.now, self.cycles(after_ns))

    def whole(self, cycles: float) -> float:
        """Return how long the launch takes; *cycles* is what it takes without waits.

        That is longer than what one warp spends, as warps of an SM share its units: by so much the launch is longer
        than the time of its last warp.
        """
        return float(self.spent.max()) + max(0.0, cycles - float(self.worked.max()))

    def read(self, at: Lanes, name: str) -> Array:
        """Return what a clock register holds for each lane."""
        spent = self._of(at) - self._block_cost
        if spent.size and (spent == spent.reshape(-1)[0]).all():
            spent = spent.reshape(-1)[:1].reshape(1, 1)
        if name.startswith("%globaltimer"):
            return self._began_ns + spent * _PER_MS // self._rates.khz
        return self._began_ns * self._rates.khz // _PER_MS + spent

    def of(self, at: Lanes) -> Array:
        """Return the time of each lane, in one row."""
        return self._of(at).reshape(-1)

    def raise_to(self, at: Lanes, times: Array) -> None:
        """Let no warp be earlier than *times*, which has one for each lane."""
        np.maximum.at(self.spent.reshape(-1), self._warp(at), np.broadcast_to(times, at.count))

    def set_back(self, at: Lanes, times: Array) -> None:
        """Set the warps of the lanes to *times*, one for each lane."""
        self.spent.reshape(-1)[self._warp(at)] = times

    def spend(self, at: Lanes, nanoseconds: Array) -> None:
        """Let time pass for the warps of the lanes: the longest of what their lanes ask for."""
        cycles = -(-nanoseconds.astype(np.int64) * self._rates.khz // _PER_MS)
        self.raise_to(at, self.of(at) + np.broadcast_to(cycles, at.shape).reshape(-1))

    def _of(self, at: Lanes) -> Array:
        times = self.spent.reshape(-1)[self._warp(at)]
        return times.reshape(at.shape)

    def _warp(self, at: Lanes) -> Ints:
        """Return the warp of each lane, counted through the grid."""
        group, warps = at.group, self.spent.shape[1]
        block, thread = np.divmod(at.flat.reshape(-1), group.threads)
        return np.asarray((block + group.first) * warps + thread // WARP)

    # What a launch tells

    def begin(self, group: Group) -> None:
        """Let blocks begin where others have ended, and the first ones at the beginning."""
        numbers = np.arange(group.first, group.first + group.blocks)
        later = numbers[numbers >= self._rates.places]
        starts = np.zeros(group.blocks, np.int64)
        if len(later):
            ends = np.sort(self.spent.max(1)[self._ended])
            starts[group.blocks - len(later) :] = ends[later - self._rates.places]
        self.spent[numbers] = starts[:, None] + self._rates.begin
        self.worked[numbers] = self.spent[numbers]

    def end_blocks(self, group: Group, blocks: Ints) -> None:
        """Note that *blocks* of the group have ended: their places are free."""
        self._ended[group.first + blocks] = True

    def step(self, at: Lanes, code: Code) -> None:
        """Let the warps spend what a block of code costs."""
        cost = self._block_cost = self._rates.costs[code.number]
        if at.index is None:
            own = slice(at.group.first, at.group.first + at.group.blocks)
            self.spent[own] += cost
            self.worked[own] += cost
        else:
            warp = self._warp(at)
            warps = warp[np.flatnonzero(np.diff(warp, prepend=-1))]
            self.spent.reshape(-1)[warps] += cost
            self.worked.reshape(-1)[warps] += cost

    def load(self, at: Lanes, space: str, address: Array, nbytes: int) -> None:
        """Let warps that poll a word not be earlier than what is there."""
        line = at.group.launch.line
        if line not in self._rates.polls or space not in ("global", "shared"):
            return
        self._polled[line] = _polled(at, space, address, nbytes)
        stamps, places = self._places(at, space, address)
        if stamps is not None:
            found = stamps[places]
            times = np.where(found > 0, found + (self._rates.latency if space == "global" else 0), 0)
            self.raise_to(at, np.broadcast_to(times, at.shape).reshape(-1))

    def store(self, at: Lanes, space: str, address: Array, nbytes: int, values: Sequence[Array]) -> None:  # noqa: ARG002
        """Keep when a word was stored."""
        if space not in ("global", "shared"):
            return
        stamps, places = self._places(at, space, address)
        times = self._of(at)
        if space == "global":
            self.stored = max(self.stored, int(times.max()))
        if stamps is not None:
            for word in range(-(-nbytes // _WORD)):
                stamps[np.broadcast_to(places + word, at.shape)] = times

    def change(self, at: Lanes, space: str, address: Array, nbytes: int) -> None:
        """Let atomic operations at one address come one after the other: no lane is earlier than the one before it."""
        if space not in ("global", "shared"):
            return
        line = at.group.launch.line
        self._polled[line] = _polled(at, space, address, nbytes)
        stamps, places = self._places(at, space, address)
        if stamps is None:
            return
        places = np.broadcast_to(places, at.shape).reshape(-1)
        times = np.maximum(self.of(at), stamps[places])
        order = np.argsort(places, kind="stable")
        apart = np.cumsum(np.diff(places[order], prepend=places[order[0]]) != 0) * (1 << 53)
        times[order] = np.maximum.accumulate(times[order] + apart) - apart
        np.maximum.at(stamps, places, times)
        if line in self._rates.results:
            self.raise_to(at, times)
        if space == "global":
            self.stored = max(self.stored, int(times.max()))

    def arrive(self, at: Lanes, number: int) -> None:
        """Note which warps come to a barrier."""
        key = at.group.first, number
        if key not in self._arrived:
            self._arrived[key] = np.zeros((at.group.blocks, self.spent.shape[1]), np.bool_)
        self._arrived[key].reshape(-1)[self._warp(at) - at.group.first * self.spent.shape[1]] = True

    def release(self, group: Group, number: int, blocks: Array) -> None:
        """Let the warps of a barrier go on when the last one has come."""
        arrived = self._arrived[group.first, number]
        own = self.spent[group.first : group.first + group.blocks]
        here = arrived & blocks[:, None]
        last = np.where(here, own, 0).max(1) + self._rates.barrier
        own[here] = np.broadcast_to(last[:, None], own.shape)[here]
        arrived[blocks] = False

    def polled(self, lines: Sequence[int]) -> list[Polled]:
        """Return what *lines* have looked at last."""
        return [self._polled[line] for line in lines if line in self._polled]

    def _places(self, at: Lanes, space: str, address: Array) -> tuple[Array | None, Array]:
        """Return the times of the words of a memory, and where in them the words of the lanes are.

        None if the addresses are not all in one memory: then each one has its own calls, or is refused.
        """
        group = at.group
        if space == "shared":
            stamps = self._shared.get(group.first)
            if stamps is None:
                stamps = self._shared[group.first] = np.zeros(len(group.shared) // _WORD + 4, np.int64)
            inside = np.clip(address.view(np.int64), 0, max(0, group.shared_bytes - 1))
            return stamps, (inside + at.block * group.shared_bytes) // _WORD
        low, high = int(address.min()), int(address.max())
        region = group.launch.memory.find(low)
        if region is None or high >= region.stop:
            return None, address
        start = region.start // _WORD * _WORD
        stamps = self._stamps.get(start)
        if stamps is None:
            stamps = self._stamps[start] = np.zeros((region.stop - start) // _WORD + 4, np.int64)
        return stamps, (address - np.uint64(start)).view(np.int64) // _WORD


def _polled(at: Lanes, space: str, address: Array, nbytes: int) -> Polled:
    places = address.view(np.int64)
    if space == "shared":
        places = places + at.block * at.group.shared_bytes
    return Polled(space, np.unique(places), nbytes)


def clock(at: Lanes, name: str) -> Array:
    """Return what a clock register holds now."""
    value = at.group.launch.clock
    times = np.zeros((1, 1), np.int64) if value is None else value.read(at, name)
    if name.endswith("_hi"):
        times = times >> 32
    return times.astype(_DTYPES.get(name, "u8"))


def sleep(at: Lanes, nanoseconds: Array) -> None:
    """Let time pass for the lanes."""
    if at.group.launch.clock is not None:
        at.group.launch.clock.spend(at, nanoseconds)
