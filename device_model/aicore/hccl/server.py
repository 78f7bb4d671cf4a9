"""The HCCL server of a card: the AI CPU, which carries out the tasks that a kernel has prepared and committed.

It takes the messages of the kernel in their order. A turn of a task begins here when the turn before it has ended and
the kernel has committed it. It takes place when it has begun on all ranks, and ends for all of them together.

What a turn moves depends only on what the kernels do, never on times. So a kernel's values are right before anything is
timed: the server reads what is sent when the turn begins, and writes what arrives when it has begun everywhere. Its own
accesses to GM are checked as those of a core, which knows what the core knew that committed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.findings import Rule
from device_model.aicore.core.machine import Core, Stale, Token, refuse_read_only
from device_model.aicore.core.memories import GlobalMemory, Range
from device_model.aicore.core.names import CoreType, Pipe
from device_model.aicore.core.program import Instruction, Kind, Program
from device_model.aicore.core.tensors import GlobalBuffer
from device_model.aicore.flags.crossing import learn_token
from device_model.aicore.hccl.names import HcclReduceOp
from device_model.kernel.findings import KernelError

MOST_MESSAGES = 63  # of a kernel, until it calls Finalize
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Ask:
    """What a kernel asks of its server with one call: *repeat* turns.

    *sends* and *receives* give the ranges of GM of a turn by its number: one, or one for each rank. *prepared* is the
    instruction of the kernel.
    """

    kind: str
    count: int
    dtype: np.dtype[Any]
    reduction: HcclReduceOp | None
    repeat: int
    sends: Callable[[int], tuple[Range, ...]]
    receives: Callable[[int], tuple[Range, ...]]
    prepared: Instruction

    def __str__(self) -> str:
        how = "" if self.reduction is None else f" ({self.reduction.name.removeprefix('HCCL_REDUCE_').lower()})"
        size = "" if self.kind == "AlltoAllV" else f"{self.count:,} "
        return f"{self.kind} of {size}{self.dtype}{how}"


class Task:
    """What a kernel has prepared: *commits* has a token for each turn that may begin, *ended* one for each that has."""

    __slots__ = ("ask", "begun", "commits", "ended", "handle")

    def __init__(self, handle: int, ask: Ask) -> None:
        self.handle = handle
        self.ask = ask
        self.begun = 0
        self.commits: list[Token] = []
        self.ended: list[Token] = []

    def __str__(self) -> str:
        return f"{self.ask}, handle {self.handle} at {self.ask.prepared.site}"

    @property
    def is_over(self) -> bool:
        """Whether all turns have ended."""
        return len(self.ended) == self.ask.repeat


class Turn:
    """A turn of *task* that has begun on one rank.

    Attributes:
        number: Its number in the task, from 0 on.
        commit: The instruction that committed it.
        after: Turns of other communicators that must have ended before.
        pieces: The bytes that it sends, as the ranges of `Ask.sends`; none in a run without values.
        done: Stands for all that the turn writes. Its time comes from the server.
    """

    __slots__ = ("after", "commit", "done", "number", "pieces", "task")

    def __init__(
        self,
        task: Task,
        number: int,
        commit: Instruction,
        after: tuple[Instruction, ...],
        pieces: list[Bytes],
        done: Instruction,
    ) -> None:
        self.task = task
        self.number = number
        self.commit = commit
        self.after = after
        self.pieces = pieces
        self.done = done


class GroupSync(NamedTuple):
    """A message: what follows begins when the task *handle* of *server* is over."""

    server: "Server"
    session: int
    handle: int


class Meeting(Protocol):
    """Where the servers of all ranks of a communicator meet."""

    def arrive(self, server: "Server", turn: Turn) -> None:
        """Take *turn*, which has begun on the rank of *server*; the last one ends it for all."""

    def go_on(self) -> None:
        """Let all servers go on as far as they can."""


class _ServerProgram(Program):
    """The place of a server among the cores of a launch."""

    def __init__(self, index: int, name: str) -> None:
        super().__init__(index, CoreType.AIV, 0, 0)
        self._name = name

    def __str__(self) -> str:
        return self._name


class Server:
    """The server of *rank* of a communicator with *size* ranks, called *name*, for one launch.

    Args:
        rank: The rank.
        size: How many ranks there are.
        name: That of the communicator.
        windows: Returns the bytes of a window of this rank, "in" or "out".
        meeting: Where it meets the servers of the other ranks.
    """

    core: Core  # what its accesses are checked with; `join` sets it

    def __init__(self, rank: int, size: int, name: str, windows: Callable[[str], Bytes], meeting: Meeting) -> None:
        self.rank = rank
        self.size = size
        self.name = name
        self.meeting = meeting
        self.turns: list[Turn] = []  # that have begun, in their order
        self.sender: Core | None = None  # the core whose messages it takes
        self._windows = windows
        self._memories: dict[str, GlobalMemory] = {}
        self._messages: list[tuple[int, Task | GroupSync]] = []  # with the numbers of their sessions
        self._place = 0  # of the message that it works on
        self._after: list[Instruction] = []  # what the next turn waits for, besides its commit
        self._sessions: dict[int, list[Task]] = {}  # a session ends with Finalize
        self._open: dict[int, None] = {}  # cores with an object
        self._closed: dict[int, int] = {}  # how many objects of each core are finalized
        self._finals: dict[int, Token] = {}  # how each session ended
        self._waits: list[tuple[int, Core, Instruction, int]] = []  # of kernels: session, core, and what it counted

    def __repr__(self) -> str:
        return f"<Server of rank {self.rank} of {self.name}>"

    def join(self, index: int, make: Callable[[Program], Core]) -> None:
        """Become number *index* among the cores of a launch; *make* makes a core."""
        self.core = make(_ServerProgram(index, f"the HCCL server of rank {self.rank} of {self.name}"))

    # What kernels ask

    def open(self, core: Core) -> int:
        """Return the number of the session that an object of *core* begins or joins."""
        if core.index in self._open:
            raise KernelError(
                f"a second Hccl object of {self.name} on {core.program}", "call Finalize() on the first one before"
            )
        self._open[core.index] = None
        return self.session_of(core)

    def session_of(self, core: Core) -> int:
        """Return the number of the session in which *core* is, or which it begins next."""
        return self._closed.get(core.index, 0)

    def close(self, core: Core) -> None:
        """End the session of an object of *core*."""
        del self._open[core.index]
        self._closed[core.index] = self._closed.get(core.index, 0) + 1

    def tasks(self, session: int) -> list[Task]:
        """Return the tasks of *session*; a handle is a place in it."""
        return self._sessions.setdefault(session, [])

    def prepare(self, core: Core, session: int, ask: Ask) -> None:
        """Take a task of *core*."""
        self._check_sender(core, ask.kind)
        tasks = self.tasks(session)
        task = Task(len(tasks), ask)
        tasks.append(task)
        self._take(session, task, ask.kind)

    def wait_for_group(self, core: Core, session: int, sync: GroupSync) -> None:
        """Let what follows wait for a task of another communicator."""
        self._check_sender(core, "InterHcclGroupSync")
        self._take(session, sync, "InterHcclGroupSync")

    def _take(self, session: int, message: Task | GroupSync, name: str) -> None:
        if sum(number == session for number, _ in self._messages) >= MOST_MESSAGES:
            raise KernelError(
                f"{name} is message {MOST_MESSAGES + 1} of rank {self.rank} of {self.name}",
                f"a kernel prepares at most {MOST_MESSAGES} tasks: let one have several turns with repeat",
            )
        self._messages.append((session, message))

    def _check_sender(self, core: Core, name: str) -> None:
        if self.sender is not None and self.sender is not core:
            raise KernelError(
                f"{name} on {core.program}, and {self.sender.program} has prepared tasks of {self.name} before",
                "call it on cube cores or on vector cores, not on both: `if asc.ASCEND_IS_AIC:`",
            )
        self.sender = core

    def commit(self, core: Core, session: int, handle: int, turns: int, instruction: Instruction) -> None:
        """Let the next *turns* turns of a task begin."""
        token = Token((instruction,), _known(core))
        self.tasks(session)[handle].commits += [token] * turns
        self.meeting.go_on()

    def waited(self, session: int, core: Core, instruction: Instruction, number: int) -> None:
        """Note that *core* has waited for a turn of *session*, as its wait *number* for other cores."""
        self._waits.append((session, core, instruction, number))

    def finalize(self, core: Core, session: int, instruction: Instruction) -> None:
        """End *session*; no task of it is known from now on."""
        self._finals[session] = Token((instruction,), _known(core))

    def window(self, name: str) -> GlobalBuffer:
        """Return the window *name* of this rank, "in" or "out"."""
        memory = self._memories.get(name)
        if memory is None:
            room = self._windows(name)
            memory = GlobalMemory(room, (self.name, self.rank, name), f"window {name} of {self.name}")
            self._memories[name] = memory
        return GlobalBuffer(memory, 0, memory.size)

    # What it does

    def serve(self) -> bool:
        """Begin the next turn, if it can; return whether anything has moved."""
        if self._place == len(self._messages):
            return False
        _, message = self._messages[self._place]
        if isinstance(message, GroupSync):
            tasks = message.server.tasks(message.session)
            if message.handle >= len(tasks) or not tasks[message.handle].is_over:
                return False
            token = tasks[message.handle].ended[-1]
            learn_token(self.core, token)
            self._after += token.sets
            self._place += 1
            return True
        if message.is_over:
            self._place += 1
            return True
        if message.begun > len(message.ended) or message.begun == len(message.commits):
            return False
        self._begin(message)
        return True

    def _begin(self, task: Task) -> None:
        token, number = task.commits[task.begun], task.begun
        task.begun += 1
        learn_token(self.core, token)
        reads = task.ask.sends(number)
        _, stale = self._access(task, reads, ())
        pieces = [_bytes_of(each, stale) for each in reads] if self.core.values else []
        # From now on the bytes of the others may arrive at any time.
        done, _ = self._access(task, (), task.ask.receives(number))
        turn = Turn(task, number, token.sets[0], tuple(self._after), pieces, done)
        self._after.clear()
        self.turns.append(turn)
        self.meeting.arrive(self, turn)

    def end(self, turn: Turn, arrived: Sequence[Bytes]) -> None:
        """End *turn*: *arrived* is written to the ranges that it receives, in a run with values."""
        if self.core.values:
            for (memory, start, stop), data in zip(turn.task.ask.receives(turn.number), arrived, strict=True):
                memory.bytes[start:stop] = data
        turn.task.ended.append(Token((turn.done,), _known(self.core)))

    def _access(
        self, task: Task, reads: Sequence[Range], writes: Sequence[Range]
    ) -> tuple[Instruction, Sequence[Stale]]:
        """Check accesses; return the instruction that stands for them, and the old bytes that it reads (weak mode)."""
        core, prepared = self.core, task.ask.prepared
        name = f"{task.ask.kind} of the HCCL server"
        instruction = Instruction(core.index, Pipe.S, Kind.WORK, name, 0, 0, 0, None, (), prepared.code, prepared.lasti)
        stale = core.access(instruction, reads, writes) if core.hazards else ()
        refuse_read_only(instruction, writes)
        return instruction, stale

    # The end of the launch, and hangs

    def finish(self) -> None:
        """Report sessions without a Finalize, and waits that may come after one."""
        for session, tasks in self._sessions.items():
            if tasks and session not in self._finals:
                first = tasks[0].ask.prepared
                self.core.find(
                    Rule.NOT_FINALIZED,
                    f"{first} prepares a task of rank {self.rank} of {self.name}, and Finalize is never called, so the "
                    "server never ends and the next kernel finds it busy; call Finalize() on all cores at the end",
                    first,
                    missing="Finalize",
                )
        for session, core, instruction, number in self._waits:
            final = self._finals.get(session)
            if final is None or final.sets[0].core == core.index:
                continue
            known = final.knowledge.get(core.index)
            if known is None or known[Pipe.ALL] < number:
                core.find(
                    Rule.FINALIZED_EARLY,
                    f"{instruction} may come after {final.sets[0]}, which clears what the server has done, and then "
                    "it waits without end; call SyncAll() between them, or set and wait for a flag of all cores",
                    instruction,
                    final.sets[0],
                    missing="SyncAll before Finalize",
                )

    def state(self) -> str:
        """Say what it works on, for a kernel that hangs."""
        if self._place == len(self._messages):
            return f"core 0 of rank {self.rank} has prepared no other task"
        _, message = self._messages[self._place]
        if isinstance(message, GroupSync):
            return f"rank {self.rank} waits for handle {message.handle} of {message.server.name}"
        if message.begun > len(message.ended):
            return f"rank {self.rank} has begun turn {message.begun} of {message}"
        return (
            f"rank {self.rank} has committed {len(message.commits)} of {message.ask.repeat} turns of {message}, "
            "and they are over"
            if message.commits
            else f"rank {self.rank} has not committed {message}"
        )


def _known(core: Core) -> dict[int, tuple[int, ...]]:
    """Return what the scalar pipe of *core* knows now."""
    return {**core.remote, core.index: tuple(core.knowledge_of(Pipe.S))}


def _bytes_of(read: Range, stale: Sequence[Stale]) -> Bytes:
    """Return a copy of the bytes of *read*, with those of *stale* as they were."""
    memory, start, stop = read
    found: Bytes = memory.bytes[start:stop].copy()
    for other, first, old in stale:
        low, high = max(start, first), min(stop, first + len(old))
        if other is memory and low < high:
            found[low - start : high - start] = old[low - first : high - first]
    return found
