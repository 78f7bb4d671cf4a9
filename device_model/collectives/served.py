"""Turns of kernels' collectives that meet: what they give each rank, and when.

The values come first (`Room`), while the blocks of all ranks run. The times follow (`Timetable`): a turn begins on a
rank when its commit has reached the server there and the turn before it has ended, it takes place once it has begun on
all ranks, and its bytes share the links with whatever else is on its way.
"""

from collections.abc import Callable, Sequence
from math import ceil, inf
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from device_model.aicore.core.program import Instruction
from device_model.aicore.hccl.names import HcclReduceOp
from device_model.aicore.hccl.server import Ask, Bytes, Server, Turn
from device_model.collectives.calls import Call, CollectiveKind, ReduceOp
from device_model.collectives.exchanges import Exchange
from device_model.collectives.results import combine
from device_model.completions import Nanoseconds
from device_model.kernel.findings import KernelError
from device_model.work import Extent

if TYPE_CHECKING:
    from device_model.collectives.cliques import Clique

_REDUCTIONS = {
    HcclReduceOp.HCCL_REDUCE_SUM: ReduceOp.SUM,
    HcclReduceOp.HCCL_REDUCE_MAX: ReduceOp.MAX,
    HcclReduceOp.HCCL_REDUCE_MIN: ReduceOp.MIN,
}
_REDUCED = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)
_ONE_PIECE = (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER)  # each rank sends one, and not one for each rank


class Round(Exchange):
    """The turns of all ranks of *clique* that meet: number *number* of a launch."""

    __slots__ = ("begins_ns", "turns", "waiting")

    def __init__(self, clique: "Clique", number: int) -> None:
        super().__init__(clique, (0, number), clique.members)
        self.turns: dict[int, Turn] = {}
        self.waiting = len(clique)  # ranks on which its time is not known
        self.begins_ns: Nanoseconds = 0

    @property
    def is_met(self) -> bool:
        """Whether all ranks take part."""
        return len(self.turns) == len(self.ranks)

    def take(self, rank: int, turn: Turn) -> None:
        """Let *rank* take part with *turn*.

        Raises:
            KernelError: It asks for something else than another rank.
        """
        ask = turn.task.ask
        call = _call_of(ask, turn.number)
        first = next(((other, each) for other, each in enumerate(self.calls) if each is not None), None)
        self.calls[rank] = call
        self.turns[rank] = turn
        if first is None:
            self.facts = call.facts
        elif call.facts != self.facts:
            other, theirs = first
            raise _differs(self, (other, theirs), (rank, call))
        if self.is_met and not self.agrees:
            raise KernelError(
                f"turn {self.number + 1} of {self.clique.name} is an AlltoAllV, and ranks do not expect what others "
                f"send: {_wrong_pair(cast('list[Call]', self.calls))}",
                "recv_counts[i] on rank j must be send_counts[j] on rank i",
            )

    def given(self) -> list[list[Bytes]]:
        """Return, for each rank, the bytes that arrive: one for each range that it receives."""
        ranks, calls = self.ranks, cast("list[Call]", self.calls)
        pieces = [self.turns[rank].pieces for rank in ranks]
        kind = calls[0].kind
        sent = [[each[0] if kind in _ONE_PIECE else each[rank] for each in pieces] for rank in ranks]
        if kind not in _REDUCED:
            return sent
        if kind is CollectiveKind.ALL_REDUCE:
            return [[_combined(calls, sent[0])]] * len(ranks)
        return [[_combined(calls, sent[rank])] for rank in ranks]


def _combined(calls: Sequence[Call], parts: Sequence[Bytes]) -> Bytes:
    return combine(calls, [part.data for part in parts]).view(np.uint8)


def _call_of(ask: Ask, turn: int) -> Call:
    """Return what a rank asks for in a turn as a call of a collective, of whose extents only the sizes matter."""
    sends, receives = (
        tuple(cast("Extent", (None, start, stop)) for _, start, stop in ranges(turn))
        for ranges in (ask.sends, ask.receives)
    )
    reduction = None if ask.reduction is None else _REDUCTIONS[ask.reduction]
    return Call(CollectiveKind(ask.kind), ask.count, ask.dtype, reduction, sends=sends, receives=receives)


def _differs(met: Round, one: tuple[int, Call], other: tuple[int, Call]) -> KernelError:
    texts = [f"rank {rank} asks for {call} at {met.turns[rank].task.ask.prepared.site}" for rank, call in (one, other)]
    return KernelError(
        f"turn {met.number + 1} of {met.clique.name}: {texts[0]}, and {texts[1]}",
        "prepare the same tasks in the same order on all ranks; on a card they hang, or mix their bytes up",
    )


def _wrong_pair(calls: Sequence[Call]) -> str:
    for one, sender in enumerate(calls):
        for other, receiver in enumerate(calls):
            (_, start, stop), (_, first, last) = sender.sends[other], receiver.receives[one]
            if stop - start != last - first:
                return f"rank {one} sends {stop - start:,} bytes to rank {other}, which expects {last - first:,}"
    raise AssertionError("the counts fit")


class Room:
    """Where the servers of *clique* meet during a launch; *all_servers* has also those of other communicators."""

    def __init__(self, clique: "Clique", all_servers: list[Server]) -> None:
        self.clique = clique
        self.servers: list[Server] = []  # by rank
        self.rounds: list[Round] = []
        self._all_servers = all_servers

    def arrive(self, server: Server, turn: Turn) -> None:
        """Take *turn*, which has begun on the rank of *server*; the last one ends it for all."""
        number = len(server.turns) - 1
        if number == len(self.rounds):
            self.rounds.append(Round(self.clique, number))
        met = self.rounds[number]
        met.take(server.rank, turn)
        if not met.is_met:
            return
        arrived = met.given() if turn.pieces else [[]] * len(self.servers)
        for each, received in zip(self.servers, arrived, strict=True):
            each.end(met.turns[each.rank], received)

    def go_on(self) -> None:
        """Let all servers go on as far as they can."""
        while any(server.serve() for server in self._all_servers):
            pass

    def missing(self) -> str:
        """Say what ranks lack that wait for one another; "" if none does."""
        last = self.rounds[-1] if self.rounds else None
        if last is None or last.is_met:
            return "; ".join(server.state() for server in self.servers)
        begun = next(iter(last.turns.values()))
        others = [server for server in self.servers if server.rank not in last.turns]
        return f"{begun.task} waits for {', '.join(f'rank {each.rank}' for each in others)}: " + "; ".join(
            server.state() for server in others
        )


class Clocked(Protocol):
    """A launch that is played: when its instructions have ended, and what its server tells it."""

    def when(self, instruction: Instruction) -> float:
        """Return when *instruction* has ended, in nanoseconds on the clock of the device; inf if that is not known."""

    def happen(self, turn: Turn, now: Nanoseconds) -> None:
        """Let *turn* end *now*."""


class _Line:
    """The turns of *server* in *room*, one behind the other; *launch* is the one that it serves."""

    __slots__ = ("asked", "ended_ns", "launch", "place", "room", "server")

    def __init__(self, room: Room, server: Server, launch: Clocked) -> None:
        self.room = room
        self.server = server
        self.launch = launch
        self.place = 0  # of the first turn that has not ended
        self.asked = -1  # of the last turn that has begun here
        self.ended_ns: Nanoseconds = 0  # when the last turn so far has ended

    @property
    def is_open(self) -> bool:
        """Whether a turn has not ended that takes place."""
        return self.place < len(self.server.turns) and self.room.rounds[self.place].is_met


class Timetable:
    """When the turns of *rooms* take place; *launch_of* gives the launch of a server. A commit reaches the server
    *message_ns* after it, and *told* is called when turns have ended.
    """

    def __init__(
        self,
        rooms: Sequence[Room],
        launch_of: Callable[[Server], Clocked],
        message_ns: Nanoseconds,
        told: Callable[[], None],
    ) -> None:
        self._message_ns = message_ns
        self._told = told
        self._ended: set[Instruction] = set()  # turns of servers
        self._of: dict[Clocked, list[_Line]] = {}
        self._in: dict[Room, list[_Line]] = {}
        for room in rooms:
            for server in room.servers:
                launch = launch_of(server)
                line = _Line(room, server, launch)
                self._of.setdefault(launch, []).append(line)
                self._in.setdefault(room, []).append(line)

    def last_end_ns(self, launch: Clocked) -> Nanoseconds | None:
        """Return when the last turn of *launch* has ended, 0 if it has none; None if one has not ended."""
        lines = self._of[launch]
        return None if any(line.is_open for line in lines) else max(line.ended_ns for line in lines)

    def look(self, launch: Clocked) -> None:
        """Let turns of *launch* begin whose time is known now."""
        for line in self._of[launch]:
            if line.is_open and line.asked < line.place:
                self._look_at(line)

    def _look_at(self, line: _Line) -> None:
        turn, met = line.server.turns[line.place], line.room.rounds[line.place]
        committed = line.launch.when(turn.commit)
        if committed == inf or not self._ended.issuperset(turn.after):
            return
        line.asked = line.place
        met.begins_ns = max(met.begins_ns, ceil(committed) + self._message_ns)
        met.waiting -= 1
        if not met.waiting:
            scheduler = line.room.clique.scheduler
            scheduler.at(max(met.begins_ns, scheduler.now), self._begin, (line.room, met))

    def _begin(self, what: tuple[Room, Round]) -> None:
        room, met = what
        play: Any = room.clique.play
        play.serve(met, lambda now: self._end(room, met, now))

    def _end(self, room: Room, met: Round, now: Nanoseconds) -> None:
        met.is_over = True
        for line in self._in[room]:
            turn = met.turns[line.server.rank]
            line.place += 1
            line.ended_ns = now
            self._ended.add(turn.done)
            line.launch.happen(turn, now)
        for launch in self._of:
            self.look(launch)
        self._told()
