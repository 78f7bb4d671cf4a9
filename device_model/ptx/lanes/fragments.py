"""Which lanes of a group are where in the code.

Lanes at one place run together. The ones at the lowest place run first, so lanes that took different ways meet again as
soon as they can. Compilers put the place where ways join behind both of them.

Lanes that repeat a loop without progress, such as one that waits for a lock, give way to the others of the group. Once
nobody else can go on, they try again. If they then find the same, the group is stuck until others change memory, or
until a time comes that ends the loop. Lanes that sleep are set aside until their time has come.
"""

from collections.abc import Sequence
from enum import Enum

import numpy as np

from device_model.ptx.lanes.barriers import Barriers
from device_model.ptx.lanes.clocks import GRAIN_NS
from device_model.ptx.lanes.ends import StoppedError
from device_model.ptx.lanes.group import Array, Group, Lanes
from device_model.ptx.lanes.meetings import Meetings
from device_model.ptx.lanes.program import Code, Loop
from device_model.ptx.lanes.spins import Spin

_LOOK = 32  # rounds of a loop before it is looked at for progress; of one that can be a wait, each is looked at
_MOST_ROUNDS = 1 << 12  # after so many, other lanes of the group go first once
_ENDLESS = 1 << 22  # rounds in which memory does not change


class State(Enum):
    """What has become of a group."""

    ENDED = "all lanes have ended"
    STUCK = "lanes repeat a loop or sleep, and only others or a time can end it"


class _Loop:
    """The lanes at the head of a loop, when they were last looked at; *since* are their times then."""

    __slots__ = ("changes", "lanes", "rounds", "since", "values", "yields")

    def __init__(self) -> None:
        self.rounds = self.yields = self.changes = 0
        self.lanes: Lanes | None = None
        self.values: list[Array] = []
        self.since: Array | None = None


class Fragments:
    """The lanes of one group, by the place of the block of code that they run next."""

    __slots__ = ("_asleep", "_code", "_ended", "_from", "_loops", "_meetings", "_shown", "_tried", "_yielding", "at",
                 "barriers", "group", "spinning")  # fmt: skip

    def __init__(self, group: Group, code: Sequence[Code]) -> None:
        self.group = group
        self.at: dict[int, Lanes] = {0: group.everybody}
        self.barriers = Barriers(group)
        self._code = code
        self._meetings = Meetings(group)
        self.spinning: list[Spin] = []  # lanes that repeat a loop without progress
        self._yielding: dict[int, Lanes] = {}  # lanes that make progress, and let the others go first
        self._asleep: list[tuple[int, Lanes]] = []  # lanes that go on at a place when their time has come
        self._tried: dict[int, int] = {}  # how many there were at each place at the last try, and (-1) changes so far
        self._loops: dict[int, _Loop] = {}
        self._shown = 0  # changes of memory that others have looked at
        self._from = -1  # the block of code that has sent lanes on last
        self._ended: Array | None = None  # which lanes have ended; None if none has

    def go(self, place: int, lanes: Lanes) -> None:
        """Let *lanes* run at *place* next."""
        for others in (self.at, self._meetings.waiting):
            if place in others:
                lanes = self._joined(others.pop(place), lanes)
        if place > self._from and place in self._loops:  # the loop begins again
            self._loops[place].rounds = 0
        self.at[place] = lanes

    def sleep(self, place: int, lanes: Lanes) -> None:
        """Let *lanes* run at *place* once their time has come."""
        if self.group.launch.clock is None:
            self.go(place, lanes)
        else:
            self._asleep.append((place, lanes))

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
        for place, waiting in list(self._meetings.waiting.items()):  # perhaps for these
            self.go(place, waiting)

    def run(self) -> State:
        """Run until no lane can go on.

        Raises:
            StoppedError: Lanes wait at a barrier, or for lanes of their warp, that do not come.
        """
        while True:
            self._run_ready()
            if not self.group.left:
                return State.ENDED
            if self._wake():
                continue
            if not self.spinning and not self._asleep:
                raise self._missing()
            tried = {spin.place: spin.lanes.count for spin in self.spinning}
            tried[-1] = self.group.changes
            if tried == self._tried or not self.spinning:
                return State.STUCK
            self._tried = tried
            self.retry()

    def retry(self) -> None:
        """Let the lanes that make no progress look again."""
        spinning, self.spinning = self.spinning, []
        for spin in spinning:
            self._again(spin)

    @property
    def wakes_at(self) -> int | None:
        """When the first lanes go on by themselves, in cycles; None if only others can let them."""
        clock = self.group.launch.clock
        if clock is None:
            return None
        times = [int(clock.of(lanes).min()) for _, lanes in self._asleep]
        times += [end for spin in self.spinning if (end := spin.ends_at(self._code)) is not None]
        return min(times, default=None)

    def ended_blocks(self) -> Array:
        """Return the numbers of the blocks of the group that have ended."""
        if self._ended is None:
            return np.arange(0 if self.group.left else self.group.blocks)
        return np.flatnonzero(self._ended.reshape(self.group.blocks, -1).all(1))

    def _run_ready(self, inside: Loop | None = None) -> None:
        """Run lanes until none is ready; only *inside* a loop, if there is one, and no round of it twice."""
        launch, at, code = self.group.launch, self.at, self._code
        watches = launch.watches
        while at:
            place = min(at) if len(at) > 1 else next(iter(at))
            if inside is not None:
                own = [each for each in at if inside.first <= each <= inside.last]
                if not own:
                    return
                place = min(own)
            lanes: Lanes | None = at.pop(place)
            assert lanes is not None, "there are lanes at each place"
            block = code[place]
            if block.meets is not None:
                lanes = self._meetings.complete(block, lanes, self._ended)
            if block.loop is not None and lanes is not None:
                lanes = self._moving(block, lanes)
            if lanes is not None:
                self._from = place
                for watch in watches:
                    watch.step(lanes, block)
                block.end.go(self, lanes, block.run(lanes))
                if launch.looking and self.group.changes != self._shown:
                    self._shown = self.group.changes
                    launch.look()

    def look(self) -> None:
        """Let lanes that make no progress look once more if others find other bytes: then they know when that was.

        Those that leave their loops stay where they have come to.
        """
        for spin in [spin for spin in self.spinning if spin.is_changed()]:
            self.spinning.remove(spin)
            held = dict(self.at)
            self.at.clear()
            self._again(spin)
            self._run_ready(spin.facts)
            for place, lanes in held.items():
                self._from = place
                self.go(place, lanes)

    def _again(self, spin: Spin) -> None:
        clock = self.group.launch.clock
        if clock is not None:
            clock.set_back(spin.lanes, spin.next_look(clock.now))
        self._loops[spin.place].rounds = 0 if self._polls(spin.place) else _LOOK - 1
        self._from = spin.place  # they come from the loop itself
        self.go(spin.place, spin.lanes)

    def _wake(self) -> bool:
        """Let lanes go on that have only let others go first, and those whose time has come. Returns whether any do."""
        yielding, self._yielding = self._yielding, {}
        for place, lanes in yielding.items():
            self._from = place
            self.go(place, lanes)
        clock = self.group.launch.clock
        if clock is not None:
            until = clock.now + clock.cycles(GRAIN_NS)
            asleep, self._asleep = self._asleep, []
            for place, lanes in asleep:
                self._wake_some(place, lanes, clock.of(lanes) <= until)
            for spin in [spin for spin in self.spinning if spin.is_over(clock.now)]:
                self.spinning.remove(spin)
                clock.set_back(spin.lanes, spin.end_times())
                self._loops[spin.place].rounds = 0
                self._from = spin.place
                self.go(spin.place, spin.lanes)
        return bool(self.at)

    def _wake_some(self, place: int, lanes: Lanes, due: Array) -> None:
        """Let those of *lanes* go on that are *due*; the others sleep on."""
        if due.all():
            self._from = place
            self.go(place, lanes)
            return
        flat = lanes.flat.reshape(-1)
        if due.any():
            self._from = place
            self.go(place, Lanes(self.group, flat[due]))
        self._asleep.append((place, Lanes(self.group, flat[~due])))

    def _joined(self, first: Lanes, second: Lanes) -> Lanes:
        """Return all lanes of both."""
        if first.count + second.count == self.group.width:
            return self.group.everybody
        mask = np.zeros(self.group.width, np.bool_)
        mask[first.index] = mask[second.index] = True
        return Lanes(self.group, np.flatnonzero(mask))

    def _moving(self, block: Code, lanes: Lanes) -> Lanes | None:
        """Return *lanes*, which are at the head of a loop, if they go on; None if they give way."""
        loop, facts = self._loops.get(block.number), block.loop
        assert facts is not None, "the block is the head of a loop"
        if loop is None:
            loop = self._loops[block.number] = _Loop()
        loop.rounds += 1
        if loop.rounds % _LOOK > 1 and not facts.polls:
            return lanes
        values = [lanes.get(number) for number in facts.decides]
        is_same = (
            loop.rounds > 1
            and (facts.polls or loop.rounds % _LOOK == 1)
            and loop.lanes is not None
            and _are_same(loop.lanes, lanes)
            and all(map(_same, values, loop.values))
        )
        if is_same:
            self._spin(block, loop, lanes)
            return None
        clock = self.group.launch.clock
        loop.lanes, loop.values = lanes, [value.copy() if value.size == 1 else value for value in values]
        loop.since = None if clock is None else clock.of(lanes)
        if facts.reads_memory and loop.rounds % _MOST_ROUNDS == 0:
            return self._give_way(block, loop, lanes)
        return lanes

    def _polls(self, place: int) -> bool:
        facts = self._code[place].loop
        return facts is not None and facts.polls

    def _spin(self, block: Code, loop: _Loop, lanes: Lanes) -> None:
        """Set *lanes* aside, which make no progress: since the last look, each round is like the one before."""
        clock, facts = self.group.launch.clock, block.loop
        assert facts is not None, "the block is the head of a loop"
        lines = [item.line for code in self._code[block.number : facts.last + 1] for item in code.instructions]
        spin = Spin(block.number, facts, lanes)
        if clock is not None:
            assert loop.since is not None, "the lanes were looked at before"
            spin.note(loop.since, clock.of(lanes), clock.polled(lines))
            clock.set_back(lanes, loop.since)
        loop.rounds = 0 if facts.polls else _LOOK - 1
        self.spinning.append(spin)
        if clock is not None and spin.polled:
            launch = self.group.launch
            launch.looking[self] = None

    def _give_way(self, block: Code, loop: _Loop, lanes: Lanes) -> Lanes | None:
        """Let others go before *lanes*, which make progress: those of the group, and in a loop that can be a wait all
        that happens until their time.
        """
        if loop.changes != self.group.changes:
            loop.changes, loop.yields = self.group.changes, 0
        loop.yields += 1
        loop.lanes = None  # they come here again before they have run another round
        if loop.yields * _MOST_ROUNDS >= _ENDLESS:
            self._spin(block, loop, lanes)
        elif self._polls(block.number) and self.group.launch.clock is not None:
            self._asleep.append((block.number, lanes))
        else:
            self._yielding[block.number] = lanes
        return None

    def _missing(self) -> StoppedError:
        """Return the error for lanes that wait for others that do not come."""
        if self._meetings.waiting:
            place, lanes = next(iter(self._meetings.waiting.items()))
            return StoppedError("waits for others of its warp that never come", lanes, self._code[place].line)
        number, waiting = next(iter(self.barriers.waiting.items()))
        return StoppedError(f"not all threads of the block reach barrier {number}", waiting[0].lanes, waiting[0].line)


def _are_same(first: Lanes, second: Lanes) -> bool:
    """Whether both are the same lanes."""
    if first is second:
        return True
    return first.count == second.count and bool(np.array_equal(first.flat, second.flat))


def _same(first: Array, second: Array) -> bool:
    """Whether both hold the same bits."""
    return first.shape == second.shape and first.tobytes() == second.tobytes()
