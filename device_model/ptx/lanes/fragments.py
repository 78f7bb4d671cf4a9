"""Which lanes of a group are where in the code.

Lanes at one place run together. The ones at the lowest place run first, so lanes that took different ways meet again as
soon as they can: compilers put the place where ways join behind both of them.

Lanes that repeat a loop without progress, such as one that waits for a lock, give way to the others of the group. Once
nobody else can go on, they try again; if they then find the same, the group is stuck until others change memory.
"""

from collections.abc import Sequence
from enum import Enum

import numpy as np

from device_model.ptx.lanes.barriers import Barriers
from device_model.ptx.lanes.ends import StoppedError
from device_model.ptx.lanes.group import WARP, Array, Group, Lanes
from device_model.ptx.lanes.program import Code

_LOOK = 32  # rounds of a loop before it is looked at for progress
_MOST_ROUNDS = 1 << 12  # after so many, other lanes of the group go first once


class State(Enum):
    """What has become of a group."""

    ENDED = "all lanes have ended"
    STUCK = "lanes repeat a loop, and only others can end it"


class _Loop:
    """The lanes at the head of a loop, when they were last looked at."""

    __slots__ = ("lanes", "rounds", "values")

    def __init__(self) -> None:
        self.rounds = 0
        self.lanes: Lanes | None = None
        self.values: list[Array] = []


class Fragments:
    """The lanes of one group, by the place of the block of code that they run next."""

    __slots__ = ("_code", "_ended", "_loops", "_meeting", "_spinning", "_tried", "at", "barriers", "group", "waiting")

    def __init__(self, group: Group, code: Sequence[Code]) -> None:
        self.group = group
        self.at: dict[int, Lanes] = {0: group.everybody}
        self.barriers = Barriers(group)
        self._code = code
        self._meeting: dict[int, Lanes] = {}  # lanes that wait for others of their warps
        self._spinning: dict[int, Lanes] = {}  # lanes that have given way
        self._tried: dict[int, int] = {}  # how many there were at each place at the last try, and (-1) changes so far
        self._loops: dict[int, _Loop] = {}
        self.waiting = (
            0,
            group.everybody,
        )  # once the group is stuck: the head of a loop, and lanes that repeat it
        self._ended: Array | None = None  # which lanes have ended; None if none has

    def go(self, place: int, lanes: Lanes) -> None:
        """Let *lanes* run at *place* next."""
        for others in (self.at, self._meeting):
            if place in others:
                lanes = self._joined(others.pop(place), lanes)
        self.at[place] = lanes

    def split(self, lanes: Lanes, mask: Array, first: int, second: int) -> None:
        """Send the lanes for which *mask* is true to *first*, and the others to *second*."""
        if mask.size == 1:
            self.go(first if mask[0, 0] else second, lanes)
            return
        flat = (mask if mask.shape == lanes.shape else np.broadcast_to(mask, lanes.shape)).reshape(-1)
        count = np.count_nonzero(flat)
        if count == len(flat):
            self.go(first, lanes)
        elif not count:
            self.go(second, lanes)
        else:
            index = lanes.index
            for place, part in ((first, flat), (second, ~flat)):
                self.go(place, Lanes(self.group, np.flatnonzero(part) if index is None else index[part]))

    def end(self, lanes: Lanes) -> None:
        """*lanes* have ended."""
        self.group.left -= lanes.count
        if not self.group.left:
            return
        if self._ended is None:
            self._ended = np.zeros(self.group.width, np.bool_)
        self._ended[lanes.index] = True
        self.barriers.end(self.go, lanes)
        for place, waiting in list(self._meeting.items()):  # perhaps for these
            self.go(place, waiting)

    def run(self) -> State:
        """Run until no lane can go on.

        Raises:
            StoppedError: Lanes wait at a barrier, or for lanes of their warp, that do not come.
        """
        at, code, watches = self.at, self._code, self.group.launch.watches
        while True:
            while at:
                place = min(at) if len(at) > 1 else next(iter(at))
                lanes: Lanes | None = at.pop(place)
                assert lanes is not None, "there are lanes at each place"
                block = code[place]
                if block.meets is not None:
                    lanes = self._met(block, lanes)
                if block.loops is not None and lanes is not None:
                    lanes = self._moving(block, lanes)
                if lanes is not None:
                    for watch in watches:
                        watch.step(lanes, block)
                    block.end.go(self, lanes, block.run(lanes))
            if not self.group.left:
                return State.ENDED
            if not self._spinning:
                raise self._missing()
            tried = {place: lanes.count for place, lanes in self._spinning.items()}
            tried[-1] = self.group.changes
            is_stuck = tried == self._tried
            self._tried = {} if is_stuck else tried
            self.waiting = next(iter(self._spinning.items()))
            for place, lanes in self._spinning.items():
                self.go(place, lanes)
            self._spinning.clear()
            if is_stuck:
                return State.STUCK

    def _joined(self, first: Lanes, second: Lanes) -> Lanes:
        """Return all lanes of both."""
        if first.count + second.count == self.group.width:
            return self.group.everybody
        mask = np.zeros(self.group.width, np.bool_)
        mask[first.index] = mask[second.index] = True
        return Lanes(self.group, np.flatnonzero(mask))

    def _met(self, block: Code, lanes: Lanes) -> Lanes | None:
        """Return those of *lanes* whose warps are complete at *block*; the others wait there."""
        assert block.meets is not None, "the block waits for lanes"
        group = self.group
        group.launch.line = block.line
        if lanes.index is None:
            for watch in group.launch.watches:
                watch.meet(lanes, block.meets(lanes))
            return lanes
        warps = -(-group.threads // WARP)
        warp = (lanes.block * warps + lanes.thread // WARP)[0]
        bit = np.int64(1) << (lanes.thread[0] % WARP)
        here = np.zeros(group.blocks * warps, np.int64)
        np.bitwise_or.at(here, warp, bit)
        named = np.zeros_like(here)
        np.bitwise_or.at(named, warp, np.broadcast_to(block.meets(lanes), lanes.shape)[0].astype(np.int64))
        is_ready = (named & self._alive(warps) & ~here == 0)[warp]
        if not is_ready.all():
            self._meeting[block.number] = Lanes(group, lanes.index[~is_ready])
            if not is_ready.any():
                return None
            lanes = Lanes(group, lanes.index[is_ready])
        for watch in group.launch.watches:
            watch.meet(lanes, block.meets(lanes))
        return lanes

    def _alive(self, warps: int) -> Array:
        """Return the lanes of each warp that have not ended, as bits."""
        group = self.group
        lanes = np.zeros((group.blocks, warps * WARP), np.bool_)
        lanes[:, : group.threads] = True
        if self._ended is not None:
            lanes[:, : group.threads] &= ~self._ended.reshape(group.blocks, group.threads)
        return np.asarray(lanes.reshape(-1, WARP) @ (np.int64(1) << np.arange(WARP)))

    def _moving(self, block: Code, lanes: Lanes) -> Lanes | None:
        """Return *lanes*, which are at the head of a loop, if they go on; None if they give way."""
        loop = self._loops.get(block.number)
        if loop is None:
            loop = self._loops[block.number] = _Loop()
        loop.rounds += 1
        if loop.rounds % _LOOK > 1:
            return lanes
        values = [lanes.get(number) for number in block.loops or ()]
        before = loop.lanes
        is_same = (
            loop.rounds % _LOOK == 1
            and before is not None
            and (before is lanes or (before.count == lanes.count and bool(np.array_equal(before.index, lanes.index))))  # type: ignore[arg-type]
            and all(map(_same, values, loop.values))
        )
        loop.lanes, loop.values = lanes, [value.copy() for value in values]
        if is_same or (block.reads_memory and loop.rounds % _MOST_ROUNDS == 0):
            loop.rounds = _LOOK - 1
            self._spinning[block.number] = lanes
            return None
        return lanes

    def _missing(self) -> StoppedError:
        """Return the error for lanes that wait for others that do not come."""
        if self._meeting:
            place, lanes = next(iter(self._meeting.items()))
            return StoppedError("waits for others of its warp that never come", lanes, self._code[place].line)
        number, waiting = next(iter(self.barriers.waiting.items()))
        return StoppedError(f"not all threads of the block reach barrier {number}", waiting[0].lanes, waiting[0].line)


def _same(first: Array, second: Array) -> bool:
    """Whether both hold the same bits."""
    return first.shape == second.shape and first.tobytes() == second.tobytes()
