"""Kernels whose cores ask for collectives: a launch on each rank of a communicator, and how these meet.

A launch of such a kernel takes its cores when it has its turn, and waits until the launches of all ranks have begun.
Then the blocks of all of them run, which gives the values and the instructions of each. From then on each launch is
played in steps beside the clock (aicore.timing.steps): it tells when its commits come, and learns when turns are over.

The k-th launch of a rank with a communicator meets the k-th ones of the other ranks, in the order in which they begin.
A launch with several communicators waits for the ranks of all.
"""

from collections.abc import Sequence
from functools import partial
from math import floor, inf
from typing import Any

import numpy as np

from device_model import memory
from device_model.aicore.core.machine import BlockStrand
from device_model.aicore.core.program import Direction, Flow, Instruction
from device_model.aicore.hccl.client import HcclContext
from device_model.aicore.hccl.server import Bytes, Server, Turn
from device_model.aicore.launch import Launch
from device_model.aicore.runner import Beside, Placed, finish_late, place, run_together
from device_model.aicore.timing.l2 import Cache
from device_model.aicore.timing.steps import Steps
from device_model.collectives.cliques import Clique, Communicator
from device_model.collectives.exchanges import Exchange
from device_model.collectives.served import Room, Timetable
from device_model.completions import Nanoseconds
from device_model.core_kernels import Occupation, Pause
from device_model.errors import DeviceError, Kind, text_of
from device_model.kernel.findings import KernelError, KernelHangError

Key = tuple[Clique, int]  # a communicator, and the number of the launch that each of its ranks begins with it
WINDOW_BYTES = 200 << 20  # HCCL_BUFFSIZE is 200 MB unless it is set


class Meetings:
    """The launches of a runtime that wait for those of other ranks, and the windows of ranks."""

    def __init__(self) -> None:
        self._counts: dict[Communicator, int] = {}  # launches that have begun
        self._gangs: dict[Key, Gang] = {}  # that are not complete
        self._windows: dict[tuple[Communicator, str], Bytes] = {}

    def join(self, launch: "RankLaunch") -> "Gang":
        """Return the gang of *launch*, which begins: with it are those that it meets, and those that they meet."""
        keys = launch.keys = []
        for rank in launch.ranks:
            number = self._counts[rank] = self._counts.get(rank, 0) + 1
            keys.append((rank.clique, number))
        found = dict.fromkeys(gang for key in keys if (gang := self._gangs.get(key)) is not None)
        gang = next(iter(found), None) or Gang()
        for other in found:
            if other is not gang:
                gang.take(other)
        gang.add(launch)
        for key in gang.keys:
            self._gangs[key] = gang
        if gang.is_complete:
            for key in gang.keys:
                del self._gangs[key]
        return gang

    def window(self, rank: Communicator, name: str) -> Bytes:
        """Return the bytes of a window of *rank*: "in" or "out"."""
        room = self._windows.get((rank, name))
        if room is None:
            room = self._windows[rank, name] = np.frombuffer(memory.create_mapping(WINDOW_BYTES), np.uint8)
        return room


class _Standing(Exchange):
    """A gang among the exchanges of a clique, so that it hears when these fail."""

    __slots__ = ("gang",)

    def __init__(self, clique: Clique, number: int, gang: "Gang") -> None:
        super().__init__(clique, (0, number), ())
        self.gang = gang

    @property
    def has_begun(self) -> bool:
        """Whether it is no exchange that calls wait for: always."""
        return True

    def fail(self, error: DeviceError) -> None:
        """End the launches of the gang with *error*."""
        self.clique.exchanges.pop(self.key, None)
        self.gang.fail(error)


class Gang:
    """Launches that run together: of all ranks of each communicator that one of them has.

    Attributes:
        keys: Its communicators, with the number of the launch on each rank, and the launches by rank.
        error: Why no launch of it goes on.
    """

    def __init__(self) -> None:
        self.keys: dict[Key, dict[int, RankLaunch]] = {}
        self.launches: dict[RankLaunch, None] = {}
        self.timetable: Timetable | None = None  # once it has run
        self.error: DeviceError | None = None
        self._standing: list[_Standing] = []

    def __repr__(self) -> str:
        return f"<Gang of {len(self.launches)} launches>"

    @property
    def is_complete(self) -> bool:
        """Whether no launch is missing."""
        return all(len(launches) == len(clique) for (clique, _), launches in self.keys.items())

    def take(self, other: "Gang") -> None:
        """Make the launches of *other* part of this one."""
        for key, launches in other.keys.items():
            self.keys.setdefault(key, {}).update(launches)
        for launch in other.launches:
            launch.gang = self
            self.launches[launch] = None
        other._leave()
        self._stand()

    def add(self, launch: "RankLaunch") -> None:
        """Add *launch*."""
        self.launches[launch] = None
        for rank, key in zip(launch.ranks, launch.keys, strict=True):
            self.keys.setdefault(key, {})[rank.index] = launch
        self._stand()

    def _stand(self) -> None:
        """Hear of the failures of all cliques."""
        self._leave()
        for clique, number in self.keys:
            standing = _Standing(clique, number, self)
            clique.exchanges[standing.key] = standing
            self._standing.append(standing)

    def _leave(self) -> None:
        for each in self._standing:
            each.clique.exchanges.pop(each.key, None)
        self._standing.clear()

    def missing(self) -> str:
        """Say which ranks have no launch here."""
        texts = []
        for (clique, number), launches in self.keys.items():
            absent = [rank for rank in clique.ranks if rank.index not in launches]
            if absent:
                shown = ", ".join(f"{each.index} (device {each.device.ordinal})" for each in absent[:8])
                more = f" and {len(absent) - 8} more" if len(absent) > 8 else ""
                texts.append(f"launch {number} with {clique.name} of rank {shown}{more}")
        return "; ".join(texts)

    def run(self) -> None:
        """Run the blocks of all launches, then let each be played from its start on."""
        launches = sorted(self.launches, key=lambda each: [rank.device.ordinal for rank in each.ranks])
        rooms = self._rooms(launches)
        try:
            self._check_values(launches)
            run_together([launch.placed for launch in launches], partial(_hang, launches, rooms))
            for launch in launches:
                launch.check()
        except BaseException as error:
            self._fail_with(launches, error)
            return
        owners = {server: launch for launch in launches for server in launch.servers}
        self.timetable = Timetable(rooms, owners.__getitem__, launches[0].spec.server_ns, self.wake)
        for launch in launches:
            launch.begin_playing()
        self.wake()

    def _rooms(self, launches: Sequence["RankLaunch"]) -> list[Room]:
        """Make the servers of all launches, and let them meet."""
        everyone: list[Server] = []
        rooms = {key: Room(key[0], everyone) for key in self.keys}
        for launch in launches:
            launch.set_up([rooms[key] for key in launch.keys])
            everyone += launch.servers
        for key, of_rank in self.keys.items():
            for index in range(len(key[0])):
                launch = of_rank[index]
                rooms[key].servers.append(launch.servers[launch.keys.index(key)])
        return list(rooms.values())

    def _check_values(self, launches: Sequence["RankLaunch"]) -> None:
        one = launches[0]
        for other in launches:
            if other.values is not one.values:
                first, second = (one, other) if one.values else (other, one)
                raise KernelError(
                    f"{first!r} computes values, and {second!r} does not", "launch all ranks with values, or none"
                )

    def _fail_with(self, launches: Sequence["RankLaunch"], error: BaseException) -> None:
        """End all launches: a block has raised *error*."""
        result = getattr(error, "result", None)
        culprit = next((each for each in launches if each.placed.result is result), launches[0])
        for launch in launches:
            launch.result = launch.placed.result
        self.error = DeviceError(
            Kind.REMOTE_FAILURE,
            f"{culprit!r} has failed, which ran together with this launch: {text_of(error)}",
            "correct the kernel there first",
        )
        culprit.own_error = culprit.failure(error)
        self._leave()
        self.wake()

    def fail(self, error: DeviceError) -> None:
        """End all launches with *error*."""
        if self.error is None:
            self.error = error
            self._leave()
            self.wake()

    def end(self, launch: "RankLaunch") -> None:
        """Forget *launch*, which has ended."""
        self.launches.pop(launch, None)
        if not self.launches:
            self._leave()

    def wake(self) -> None:
        """Let the launches that wait look again."""
        for launch in self.launches:
            launch.is_woken = True
        devices = dict.fromkeys(rank.device for launch in self.launches for rank in launch.ranks)
        for device in devices:
            device.cores.waiting.look()


def _hang(launches: Sequence["RankLaunch"], rooms: Sequence[Room], waiting: Sequence[BlockStrand]) -> None:
    """Throw the error for blocks that can never go on into the first one."""
    owner = {core: launch for launch in launches for core in launch.placed.crossing.cores}
    blocks = "; ".join(
        f"{owner[strand.core].ranks_text}, {strand.core.program} in {strand.where}" for strand in waiting[:8]
    )
    more = f"; and {len(waiting) - 8} more" if len(waiting) > 8 else ""
    hang = KernelHangError(
        f"blocks wait for each other, and none can continue: {blocks}{more}. "
        + "; ".join(f"Of {room.clique.name}: {room.missing()}" for room in rooms),
        "all ranks must prepare and commit the same tasks, and all blocks call the same SyncAll()",
    )
    waiting[0].throw(hang)  # so that the traceback shows its wait


class RankLaunch(Launch):
    """A launch of a core kernel with communicators among its arguments, *ranks*: part of a gang.

    The kernel gets an `HcclContext` in place of each. Other arguments are those of `Launch`.
    """

    __slots__ = (
        "_cache", "_given", "_meetings", "_play", "_start_ns", "gang", "is_woken", "keys", "own_error", "placed",
        "ranks", "servers",
    )  # fmt: skip

    placed: Placed  # once the gang has run

    def __init__(self, ranks: Sequence[Communicator], meetings: Meetings, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.ranks = tuple(ranks)
        self.gang: Gang | None = None
        self.keys: list[Key] = []  # what it meets others by, one for each of its ranks
        self._meetings = meetings

    def __repr__(self) -> str:
        return f"<kernel {self.label} of {self.ranks_text}>"

    @property
    def ranks_text(self) -> str:
        """Its ranks in words: "rank 0 of pair"."""
        return " and ".join(f"rank {rank.index} of {rank.clique.name}" for rank in self.ranks)

    # What the dispatcher asks

    def run(self, start_ns: Nanoseconds) -> Occupation | Pause:
        """Join the launches of the other ranks; the last one to come lets all of them run."""
        self.gang = None
        self.servers: list[Server] = []
        self.is_woken = False
        self.own_error: DeviceError | None = None  # what stopped it, and not another launch of the gang
        self._play: Steps | None = None
        self._start_ns = start_ns
        error = next((rank.clique.error for rank in self.ranks if rank.clique.error is not None), None)
        if error is not None:
            return self._stopped(error)
        try:
            self._given = self._views()
        except BaseException as raised:
            self.leave("its launch has failed")
            return self._stopped(self.failure(raised))
        gang = self.gang = self._meetings.join(self)
        if gang.is_complete and gang.error is None:
            gang.run()
        return self._next(0)

    def go_on(self, after_ns: Nanoseconds) -> Occupation | Pause:
        """Play what happens up to now."""
        return self._next(after_ns)

    def is_over(self) -> bool:
        """Return whether the gang has news."""
        return self.is_woken

    def give_up(self, after_ns: Nanoseconds) -> Occupation:
        """End with the error for a launch that others never meet."""
        gang = self.gang
        assert gang is not None, f"{self!r} waits, so it has begun"
        why = gang.missing() or "turns that other ranks have left, as their contexts have failed"
        hang = KernelHangError(
            f"{self!r} waits for {why}",
            "launch the same kernels in the same order on all ranks, each with its own communicator",
        )
        failure = self.failure(hang)
        for rank in self.ranks:  # their launches count differently now, so nothing fits any more
            rank.clique.fail(failure)
        return self._stop(failure, after_ns)

    def leave(self, why: str) -> None:
        """Let the ranks that it meets know that it never runs, or goes on no more, and *why*."""
        self._leave()
        for rank in self.ranks:
            rank.clique.lose(rank, why)

    def _next(self, after_ns: Nanoseconds) -> Occupation | Pause:
        """Play up to now; return when to look again, or how long it has taken."""
        gang, play, self.is_woken = self.gang, self._play, False
        assert gang is not None, f"{self!r} has begun"
        error = self.own_error or gang.error
        if error is not None:
            return self._stop(error, after_ns)
        if 0 < self.limit_ns <= after_ns:
            self.leave("its launch has taken too long")
            return self._stopped(self.out_of_time(after_ns), self.limit_ns)
        limits = [self.limit_ns] if self.limit_ns else []
        if play is None or gang.timetable is None:
            return Pause(min(limits, default=None), self.cores)
        play.advance(after_ns * play.cycles_per_ns)
        gang.timetable.look(self)
        if not play.is_over:
            at = play.next_at()
            limits += [] if at == inf else [floor(at / play.cycles_per_ns) + 1]
            return Pause(min(limits, default=None), self.cores)
        last_ns = gang.timetable.last_end_ns(self)
        return Pause(min(limits, default=None), self.cores) if last_ns is None else self._end(play, last_ns)

    def _end(self, play: Steps, last_ns: Nanoseconds) -> Occupation:
        """End with the last core, or with the last turn of a server if that comes later."""
        result = self.result = self.placed.result
        timeline = result.timeline = play.timeline()
        timeline.duration_ns = max(timeline.duration_ns, last_ns - self._start_ns)
        finish_late(result.programs)
        self._leave()
        return self._occupation(result)

    def _stop(self, failure: DeviceError, after_ns: Nanoseconds) -> Occupation:
        self._leave()
        return self._stopped(failure, after_ns)

    def _leave(self) -> None:
        if self.gang is not None:
            self.gang.end(self)

    # What its gang asks

    def set_up(self, rooms: Sequence[Room]) -> None:
        """Give the blocks their cores, and each rank a server, which meets the others in its one of *rooms*."""
        self.servers = [
            Server(rank.index, rank.size, rank.clique.name, partial(self._meetings.window, rank), room)
            for rank, room in zip(self.ranks, rooms, strict=True)
        ]
        contexts = dict(zip(self.ranks, map(HcclContext, self.servers), strict=True))
        args = [contexts[each] if isinstance(each, Communicator) else each for each in self._given]
        kind, hazards, weak, auto_sync = self.options
        self.placed = place(
            Beside(self.function, self.blocks, args, kind), self.spec,
            hazards=hazards, weak=weak, auto_sync=auto_sync, values=self.values,
        )  # fmt: skip
        result, crossing, _, make = self.placed
        crossing.servers = self.servers
        for number, server in enumerate(self.servers):
            server.join(len(result.programs) + number, make)

    def check(self) -> None:
        """Check what its blocks have left behind."""
        try:
            for server in self.servers:
                server.finish()
            self._check_images(self.placed.result)
            self._note_accesses()
        except BaseException as error:
            error.result = self.placed.result  # type: ignore[attr-defined]
            raise

    def begin_playing(self) -> None:
        """Begin to give its instructions their times."""
        self._cache = self._l2() or Cache(self.spec.l2_bytes)
        self._play = Steps(self.placed.result.programs, self.spec, self._cache)
        self._play.begin([turn.done for server in self.servers for turn in server.turns])

    def when(self, instruction: Instruction) -> float:
        """Return when *instruction* has ended, in nanoseconds on the clock of the device; inf if that is not known."""
        assert self._play is not None, "it is played"
        return self._start_ns + instruction.end / self._play.cycles_per_ns

    def happen(self, turn: Turn, now: Nanoseconds) -> None:
        """Let *turn* end *now*, and put the bytes that it has moved into the L2."""
        assert self._play is not None, "it is played"
        ask = turn.task.ask
        for direction, ranges in ((Direction.READ, ask.sends), (Direction.WRITE, ask.receives)):
            for gm, start, stop in ranges(turn.number):
                start = max(start, stop - self._cache.nbytes)  # of more bytes, the last ones push out the others
                if start < stop:
                    self._cache.touch(Flow(direction, "ub", gm.key, start, stop - start))
        # When the message of the server is there. In a play a wait ends `cross_core` cycles behind what it waits for.
        back = self.spec.server_ns * self._play.cycles_per_ns - self.spec.cross_core
        self._play.happen(turn.done, (now - self._start_ns) * self._play.cycles_per_ns + max(back, 0.0))
