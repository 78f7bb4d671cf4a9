"""Barriers of blocks: `bar.sync`, `bar.arrive`, `bar.red`, each with a number of its own."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from device_model.ptx.lanes.group import Array, Group, Ints, Lanes

Go = Callable[[int, Lanes], None]


class Arrival(NamedTuple):
    """Lanes that wait at a barrier: where they go on, the line of the barrier, and for a reduction what they give and
    where the result goes.
    """

    lanes: Lanes
    place: int
    line: int
    given: Array | None = None
    result: Callable[[Lanes, Array, Array], None] | None = None  # of lanes, how many gave true, of how many


class _Barrier:
    """One barrier of each block of a group."""

    def __init__(self, blocks: int) -> None:
        self.arrived = np.zeros(blocks, np.int64)
        self.needed: int | None = None
        self.waiting: list[Arrival] = []


class Barriers:
    """The barriers of a group."""

    __slots__ = ("_alive", "_barriers", "group")

    def __init__(self, group: Group) -> None:
        self.group = group
        self._alive: Ints | None = None  # lanes of each block that have not ended; None: all
        self._barriers: dict[int, _Barrier] = {}

    @property
    def waiting(self) -> dict[int, list[Arrival]]:
        """Who waits, by the number of the barrier."""
        return {number: barrier.waiting for number, barrier in self._barriers.items() if barrier.waiting}

    def sync(self, go: Go, number: int, needed: int | None, arrival: Arrival) -> None:
        """Let the lanes of *arrival* wait until *needed* lanes of their block are there.

        None stands for all lanes that have not ended.
        """
        lanes = arrival.lanes
        for watch in self.group.launch.watches:
            watch.arrive(lanes, number)
        everybody = lanes.count == self.group.left and (needed is None or needed == self.group.threads)
        if everybody and not self._barriers and arrival.result is None:
            for watch in self.group.launch.watches:
                watch.release(self.group, number, np.ones(self.group.blocks, np.bool_))
            go(arrival.place, lanes)
            return
        barrier = self._arrive(number, needed, lanes)
        barrier.waiting.append(arrival)
        self._release(go, number, barrier)

    def arrive(self, go: Go, number: int, needed: int, lanes: Lanes) -> None:
        """Count *lanes* as arrived, without a wait."""
        for watch in self.group.launch.watches:
            watch.arrive(lanes, number)
        self._release(go, number, self._arrive(number, needed, lanes))

    def end(self, go: Go, lanes: Lanes) -> None:
        """Count *lanes* as ended: nobody waits for them any more."""
        if self._alive is None:
            self._alive = np.full(self.group.blocks, self.group.threads, np.int64)
        self._alive -= self._by_block(lanes)
        for number, barrier in list(self._barriers.items()):
            self._release(go, number, barrier)

    def _arrive(self, number: int, needed: int | None, lanes: Lanes) -> _Barrier:
        barrier = self._barriers.get(number)
        if barrier is None:
            barrier = self._barriers[number] = _Barrier(self.group.blocks)
        barrier.needed = needed
        barrier.arrived += self._by_block(lanes)
        return barrier

    def _by_block(self, lanes: Lanes) -> Array:
        if lanes.index is None:
            return np.full(self.group.blocks, self.group.threads, np.int64)
        return np.bincount(lanes.block[0], minlength=self.group.blocks)

    def _release(self, go: Go, number: int, barrier: _Barrier) -> None:
        if barrier.needed is not None:
            needed: Any = barrier.needed
        else:
            needed = self.group.threads if self._alive is None else self._alive
        is_complete = (barrier.arrived >= needed) & (barrier.arrived > 0)
        if not is_complete.any():
            return
        for watch in self.group.launch.watches:
            watch.release(self.group, number, is_complete)
        barrier.arrived[is_complete] = 0
        waiting, barrier.waiting = barrier.waiting, []
        released: list[Arrival] = []
        for arrival in waiting:
            on = arrival.lanes.some(is_complete[arrival.lanes.block])
            if len(on) == arrival.lanes.count:
                released.append(arrival)
            elif not len(on):
                barrier.waiting.append(arrival)
            else:
                released.append(_part(arrival, is_complete))
                barrier.waiting.append(_part(arrival, ~is_complete))
        if not barrier.waiting and not barrier.arrived.any():
            del self._barriers[number]
        self._reduce(released)
        for arrival in released:
            go(arrival.place, arrival.lanes)

    def _reduce(self, released: list[Arrival]) -> None:
        """Give the lanes of a reduction its results."""
        if not any(arrival.result for arrival in released):
            return
        true, count = np.zeros(self.group.blocks, np.int64), np.zeros(self.group.blocks, np.int64)
        for arrival in released:
            if arrival.given is not None:
                lanes, given = arrival.lanes, np.broadcast_to(arrival.given, arrival.lanes.shape)
                block = np.broadcast_to(lanes.block, lanes.shape).reshape(-1)
                count += np.bincount(block, minlength=len(count))
                true += np.bincount(block[given.reshape(-1)], minlength=len(count))
        for arrival in released:
            if arrival.result is not None:
                block = arrival.lanes.block
                arrival.result(arrival.lanes, true[block], count[block])


def _part(arrival: Arrival, blocks: Array) -> Arrival:
    """Return the part of *arrival* that is of *blocks*."""
    lanes = arrival.lanes
    mask = np.broadcast_to(blocks[lanes.block], lanes.shape).reshape(-1)
    given = arrival.given
    if given is not None and given.size > 1:
        given = np.broadcast_to(given, lanes.shape).reshape(-1)[mask][None, :]
    index = np.flatnonzero(mask) if lanes.index is None else lanes.index[mask]
    return arrival._replace(lanes=Lanes(lanes.group, index), given=given)
