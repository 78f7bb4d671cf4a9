"""Groups of vector cores that wait for each other through GM: GroupBarrier, and turns in the order of the blocks.

As with cross-core flags, a core knows what another one has done only if it waits for it. The messages themselves are
kept beside GM, whose workspace is checked and not written.
"""

from collections import deque
from enum import Enum
from operator import index as integer
from typing import NamedTuple

from device_model.aicore.core.machine import Core, Token, park, running
from device_model.aicore.core.names import CoreType, HardEvent, Pipe, Space
from device_model.aicore.core.program import Kind
from device_model.aicore.core.tensors import GlobalBuffer, GlobalTensor, LocalTensor, int32
from device_model.aicore.flags.crossing import learn_token
from device_model.aicore.flags.sync import barrier_all, check_waits, pass_flag
from device_model.kernel.findings import KernelError

BARRIER_LINE = 512  # bytes of a message of GroupBarrier
TURN_BYTES = 32  # bytes of a message of NotifyNextBlock


class PipeMode(Enum):
    """The pipe that sends messages of a GroupBarrier (Ascend C: PipeMode); Atlas A2 and A3 have one."""

    MTE3_MODE = 1


class _Rounds(NamedTuple):
    """What the two groups of a barrier have said: for each round, a token of each core."""

    arrived: list[list[Token]]
    waited: list[list[Token]]


class GroupBarrier:
    """A place where one group of vector cores waits for another one (Ascend C: GroupBarrier).

    Cores of the first group call Arrive, those of the second one Wait; a core of both calls Arrive and then Wait. In a
    loop, the first group goes on when all of the second one have passed the round before. On cube cores nothing
    happens. On a card the last 1,600 bytes of the UB hold messages, so leave them. Make one object for a workspace:
    what it has said stays there, and another one would begin to count again.

    Args:
        group_workspace: The same bytes of GM for all these cores, from a multiple of 512 on, and zero before the
            launch: `GetWorkspaceLen()`, 512 for each core of the larger group.
        arrive_size: How many vector cores arrive.
        wait_size: How many vector cores wait.
        pipe_mode: The pipe that sends messages.

    Raises:
        KernelError: A group is empty or larger than the launch, or the workspace too small, not aligned, not zero, or
            that of another object of this core.
    """

    def __init__(
        self,
        group_workspace: GlobalBuffer,
        arrive_size: int,
        wait_size: int,
        pipe_mode: PipeMode = PipeMode.MTE3_MODE,
    ) -> None:
        core = running()
        self._sizes = integer(arrive_size), integer(wait_size)
        most = sum(each.core_type is CoreType.AIV for each in core.crossing.cores)
        if not all(0 < size <= most for size in self._sizes) or not isinstance(pipe_mode, PipeMode):
            raise KernelError(
                f"GroupBarrier of {arrive_size} and {wait_size} cores with {pipe_mode}",
                f"a group has 1 to {most} vector cores of this launch, and the mode is PipeMode.MTE3_MODE",
            )
        _check_clear("GroupBarrier", core, group_workspace, BARRIER_LINE, self.GetWorkspaceLen())
        self._check_own(core, group_workspace)
        key = ("GroupBarrier", group_workspace.memory.key, group_workspace.address)
        mail = core.crossing.mail.setdefault(key, deque())
        if not mail:
            mail.append(_Rounds([], []))
        self._rounds: _Rounds = mail[0]
        self._round = 0
        self._has_arrived = False

    def __repr__(self) -> str:
        return f"<GroupBarrier of {self._sizes[0]} and {self._sizes[1]} cores, round {self._round}>"

    def _check_own(self, core: Core, workspace: GlobalBuffer) -> None:
        """Raise KernelError if another object of *core* has some of these bytes."""
        start, stop = workspace.address, workspace.address + self.GetWorkspaceLen()
        taken = core.crossing.mail.setdefault(("workspaces of GroupBarrier", core.index), deque())
        for key, first, last, site in taken:
            if key == workspace.memory.key and start < last and first < stop:
                raise KernelError(
                    f"GroupBarrier with a workspace {workspace!r}, which the one at {site} has, too",
                    "the messages of the first one are there: use that object again, or give other bytes",
                )
        taken.append((workspace.memory.key, start, stop, core.site()))

    def GetWorkspaceLen(self) -> int:
        """Return the bytes of the workspace (Ascend C: GetWorkspaceLen)."""
        return BARRIER_LINE * max(self._sizes)

    def Arrive(self, arrive_index: int) -> None:
        """Tell the waiting group that the copies of this core to GM are done (Ascend C: Arrive).

        Runs on MTE3, behind its earlier instructions and those of the scalar pipe. From the second round on, the scalar
        pipe waits until the other group has passed the round before.

        Args:
            arrive_index: The number of this core in its group, from 0 on.

        Raises:
            KernelError: There is no such number in the group.
            KernelHangError: The other group does not pass the round before.
        """
        core = running()
        if core.core_type is CoreType.AIC:
            return
        self._check_index("Arrive", arrive_index, self._sizes[0])
        if self._round:
            self._wait_for(core, self._rounds.waited, self._round - 1, self._sizes[1], "Arrive")
        _say(core, self._rounds.arrived, self._round, "Arrive")
        self._round += 1
        self._has_arrived = True

    def Wait(self, wait_index: int) -> None:
        """Wait until all of the other group have arrived (Ascend C: Wait).

        The scalar pipe waits, so nothing is issued to any pipe of this core meanwhile.

        Args:
            wait_index: The number of this core in its group, from 0 on.

        Raises:
            KernelError: There is no such number in the group.
            KernelHangError: Not all of the other group arrive.
        """
        core = running()
        if core.core_type is CoreType.AIC:
            return
        self._check_index("Wait", wait_index, self._sizes[1])
        number = self._round - self._has_arrived
        self._wait_for(core, self._rounds.arrived, number, self._sizes[0], "Wait")
        _say(core, self._rounds.waited, number, "Wait")
        self._round = number + 1
        self._has_arrived = False

    def _check_index(self, name: str, number: int, size: int) -> None:
        if not 0 <= integer(number) < size:
            raise KernelError(f"{name}({number}) of {self!r}", f"this group has the numbers 0 to {size - 1}")

    def _wait_for(self, core: Core, rounds: list[list[Token]], number: int, size: int, name: str) -> None:
        said = _round(rounds, number)
        check_waits(core)
        while len(said) < size:
            park(f"{name} of {self!r} at {core.site()}", lambda: len(said) >= size)
        core.note(Pipe.S, Kind.CROSS_WAIT, name, tuple(each for token in said for each in token.sets))
        core.count_wait()
        for token in said:
            learn_token(core, token)


def _round(rounds: list[list[Token]], number: int) -> list[Token]:
    while len(rounds) <= number:
        rounds.append([])
    return rounds[number]


def _say(core: Core, rounds: list[list[Token]], number: int, name: str) -> None:
    """Send a message on MTE3, behind the scalar pipe."""
    pass_flag(HardEvent.S_MTE3)
    _round(rounds, number).append(_token(core, Pipe.MTE3, name))


def _token(core: Core, pipe: Pipe, name: str) -> Token:
    instruction = core.note(pipe, Kind.CROSS_SET, name)
    knowledge = dict(core.remote)
    knowledge[core.index] = tuple(core.knowledge_of(pipe))
    return Token((instruction,), knowledge)


def _check_clear(name: str, core: Core, gm: GlobalBuffer | GlobalTensor, alignment: int, nbytes: int) -> None:
    if gm.address % alignment or gm.nbytes < nbytes:
        raise KernelError(
            f"{name} with a workspace {gm!r}", f"give it {nbytes} bytes in GM from a multiple of {alignment} on"
        )
    if core.values and gm.memory.bytes[gm.address : gm.address + nbytes].any():
        raise KernelError(f"{name} with a workspace {gm!r} that is not zero", "fill it with zeros before the launch")


# Turns


def InitDetermineComputeWorkspace(gm_workspace: GlobalTensor, ub_workspace: LocalTensor) -> None:
    """Let the vector cores take turns from now on, the first block first (Ascend C: InitDetermineComputeWorkspace).

    All vector cores call it once, before the two functions below. The workspace need not be zero.

    Args:
        gm_workspace: int32 in GM, the same for all cores: 32 bytes for each core.
        ub_workspace: int32 in UB: 32 bytes for each core, and 32 more.

    Raises:
        KernelError: The core has no UB, or a workspace is too small or of another type.
    """
    core = running()
    turns = _turns("InitDetermineComputeWorkspace", core, gm_workspace, ub_workspace)
    barrier_all(core)
    turns.append(core.index)


def WaitPreBlock(gm_workspace: GlobalTensor, ub_workspace: LocalTensor) -> None:
    """Wait until the vector core before this one has called NotifyNextBlock (Ascend C: WaitPreBlock).

    The first one waits for the last one, from its second turn on. The scalar pipe waits.

    Args:
        gm_workspace: As for InitDetermineComputeWorkspace.
        ub_workspace: As for InitDetermineComputeWorkspace.

    Raises:
        KernelError: As for InitDetermineComputeWorkspace, or that was not called.
        KernelHangError: The core before this one does not call NotifyNextBlock.
    """
    core = running()
    _taken(core, gm_workspace, ub_workspace, "WaitPreBlock")
    number, cores = _number_of(core)
    places = core.crossing.mail.setdefault(_key(gm_workspace, number), deque())
    began = core.crossing.mail.setdefault(_key(gm_workspace, "began"), deque())
    check_waits(core)
    if number == 0 and not began:
        began.append(True)
        return
    while not places:
        before = (number - 1) % cores
        park(f"WaitPreBlock of vector core {number}, behind {before}, at {core.site()}", lambda: bool(places))
    token: Token = places.popleft()
    core.note(Pipe.S, Kind.CROSS_WAIT, "WaitPreBlock", token.sets)
    core.count_wait()
    learn_token(core, token)


def NotifyNextBlock(gm_workspace: GlobalTensor, ub_workspace: LocalTensor) -> None:
    """Tell the next vector core that all pipes of this one are done (Ascend C: NotifyNextBlock).

    The scalar pipe waits for all pipes.

    Args:
        gm_workspace: As for InitDetermineComputeWorkspace.
        ub_workspace: As for InitDetermineComputeWorkspace.

    Raises:
        KernelError: As for InitDetermineComputeWorkspace, or that was not called.
    """
    core = running()
    _taken(core, gm_workspace, ub_workspace, "NotifyNextBlock")
    number, cores = _number_of(core)
    barrier_all(core)
    mail = core.crossing.mail.setdefault(_key(gm_workspace, (number + 1) % cores), deque())
    mail.append(_token(core, Pipe.S, "NotifyNextBlock"))


def _key(gm: GlobalTensor, what: object) -> tuple[object, ...]:
    return "turns", gm.memory.key, gm.address, what


def _number_of(core: Core) -> tuple[int, int]:
    """Return the number of a vector core among them, and how many there are."""
    vectors = [each.index for each in core.crossing.cores if each.core_type is CoreType.AIV]
    return vectors.index(core.index), len(vectors)


def _taken(core: Core, gm: GlobalTensor, ub: LocalTensor, name: str) -> None:
    if core.index not in _turns(name, core, gm, ub):
        raise KernelError(
            f"{name} on {core.program}", "call InitDetermineComputeWorkspace() first, on all vector cores"
        )


def _turns(name: str, core: Core, gm: GlobalTensor, ub: LocalTensor) -> "deque[int]":
    """Check the arguments, and return the cores that have called InitDetermineComputeWorkspace."""
    if core.core_type is not CoreType.AIV:
        raise KernelError(f"{name} on {core.program}", "only vector cores have it: put it under `if ASCEND_IS_AIV:`")
    nbytes = _number_of(core)[1] * TURN_BYTES
    for role, tensor, space, least in (
        ("gm_workspace", gm, Space.GM, nbytes),
        ("ub_workspace", ub, Space.UB, nbytes + TURN_BYTES),
    ):
        if tensor.memory.space is not space or tensor.dtype != int32 or tensor.nbytes < least:
            raise KernelError(f"{name} with {role} {tensor!r}", f"give it {least} bytes of int32 in {space}")
    return core.crossing.mail.setdefault(_key(gm, "cores"), deque())
