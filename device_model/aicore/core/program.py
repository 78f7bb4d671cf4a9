"""Programs: the instructions of a core, in the order in which the scalar pipe issued them.

Running a kernel fills programs; `timing.play` reads them and adds the times. Instructions are plain slotted records,
because a launch makes hundreds of thousands of them.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import IntEnum
from math import inf
from types import CodeType
from typing import TYPE_CHECKING

from device_model.aicore.core.names import CoreType, Pipe
from device_model.kernel.sites import Site

if TYPE_CHECKING:
    from device_model.aicore.vector.banks import Conflict


class Kind(IntEnum):
    """How a pipe treats an instruction."""

    WORK = 0  # occupies the pipe
    SET = 1  # SetFlag: done when all before it in its pipe is
    WAIT = 2  # WaitFlag: stops its pipe until the sets in `waits` are done
    BARRIER = 3  # stops its pipe until all before it in the pipe is done
    BARRIER_ALL = 4  # in S: stops the scalar pipe, and so all issue, until all pipes are done
    CROSS_SET = 5  # CrossCoreSetFlag: as SET, for other cores
    CROSS_WAIT = 6  # CrossCoreWaitFlag, in S: stops all issue until the sets in `waits`, of other cores, are done


class Direction(IntEnum):
    """The direction of a flow, as seen by the core."""

    READ = 0  # GM to the core
    WRITE = 1  # the core to GM


class Flow:
    """The part of a copy that goes through GM.

    *nbytes* useful bytes in *rows* rows of *length* bytes, *stride* bytes apart, from byte *start* of the allocation
    that *key* names. *path* is "ub", "l1" or "l0c". With *bypass* the L2 keeps none of them.
    """

    __slots__ = ("bypass", "direction", "key", "length", "nd2nz", "path", "rows", "start", "stride")

    def __init__(
        self,
        direction: Direction,
        path: str,
        key: Hashable,
        start: int,
        length: int,
        rows: int = 1,
        stride: int = 0,
        *,
        bypass: bool = False,
        nd2nz: bool = False,
    ) -> None:
        self.direction = direction
        self.path = path
        self.key = key
        self.start = start
        self.length = length
        self.rows = rows
        self.stride = stride
        self.bypass = bypass
        self.nd2nz = nd2nz

    @property
    def nbytes(self) -> int:
        """Its useful bytes."""
        return self.length * self.rows

    @property
    def stop(self) -> int:
        """The end of the last row."""
        return self.start + (self.rows - 1) * self.stride + self.length

    def __repr__(self) -> str:
        shape = f"{self.nbytes} B" if self.rows == 1 else f"{self.rows} x {self.length} B every {self.stride}"
        return f"<Flow {self.direction.name} {self.path} {self.key!r}+{self.start}: {shape}>"


class Access:
    """What touches bytes: an instruction, or several copies that add to the same bytes.

    Attributes:
        core: The index of its program in the launch.
        seq: Its number in its pipe, from 1 on; 0 if it moves no data or hazards are not checked.
    """

    __slots__ = ("core", "pipe", "seq")

    def __init__(self, core: int, pipe: Pipe) -> None:
        self.core = core
        self.pipe = pipe
        self.seq = 0


class Instruction(Access):
    """One instruction of one core.

    Attributes:
        startup: Core cycles that it takes only if its pipe was idle, has just passed a flag or barrier, or waits.
        cycles: Core cycles that it always takes.
        scalar: Core cycles that the scalar pipe spent since the instruction before, besides the issue of this one.
        flow: Its traffic with GM, or None.
        waits: Earlier instructions: the sets that a wait pairs with, the vector instructions that must finish first
            because they use the same bytes, or those that one with a unit flag follows block by block.
        start, end: Its times, in core cycles from the start of the task, set by `timing.play`; inf until then.
    """

    __slots__ = (
        "code", "cycles", "end", "flow", "kind", "lasti", "name", "scalar", "start", "startup", "waits",
    )  # fmt: skip

    def __init__(
        self,
        core: int,
        pipe: Pipe,
        kind: Kind,
        name: str,
        startup: int,
        cycles: int,
        scalar: int,
        flow: Flow | None,
        waits: "tuple[Instruction, ...]",
        code: CodeType,
        lasti: int,
    ) -> None:
        # Not super().__init__(): one call less for each instruction.
        self.core = core
        self.pipe = pipe
        self.seq = 0
        self.kind = kind
        self.name = name
        self.startup = startup
        self.cycles = cycles
        self.scalar = scalar
        self.flow = flow
        self.waits = waits
        self.code = code
        self.lasti = lasti
        self.start = self.end = inf

    @property
    def site(self) -> Site:
        """The line of the kernel that issued it."""
        return Site(self.code, self.lasti)

    def __str__(self) -> str:
        return f"{self.name} ({self.pipe}) at {self.site}"

    def __repr__(self) -> str:
        return f"<{self.name} pipe={self.pipe} core={self.core} at {self.site}>"


class Program:
    """The instructions of one core for one block.

    *block* is the block's index in the launch, *sub_block* the index of the vector core in a mixed block (0 on cube
    cores), and *index* the index of the program in the launch. *conflicts* has the instructions with bank conflicts.
    """

    __slots__ = ("block", "conflicts", "core_type", "index", "instructions", "late", "sub_block", "tail_scalar")

    def __init__(self, index: int, core_type: CoreType, block: int, sub_block: int) -> None:
        self.index = index
        self.core_type = core_type
        self.block = block
        self.sub_block = sub_block
        self.instructions: list[Instruction] = []
        self.conflicts: dict[Instruction, Conflict] = {}
        self.tail_scalar = 0  # scalar cycles after the last instruction
        self.late: list[Callable[[], None]] = []  # what is done when the instructions have their times

    def __str__(self) -> str:
        part = f".{self.sub_block}" if self.sub_block else ""
        return f"block {self.block}{part} ({self.core_type})"

    def __repr__(self) -> str:
        return f"<Program {self}: {len(self.instructions)} instructions>"


@dataclass(eq=False, slots=True)
class Message:
    """A message of a kernel (`debug.printf`).

    Attributes:
        program: The program of the core that wrote it.
        instruction: The instruction of the scalar pipe that stands for it, which has its line and its time.
        make_text: Makes the message, without a newline at its end.
    """

    program: Program
    instruction: Instruction
    make_text: Callable[[], str]

    @property
    def text(self) -> str:
        """The message, without a newline at its end."""
        return self.make_text()

    @property
    def cycle(self) -> float | None:
        """When the scalar pipe wrote it, in core cycles from the start of the task; None if there are no times."""
        start = self.instruction.start
        return None if start == inf else start

    def __str__(self) -> str:
        cycle = self.cycle
        when = "" if cycle is None else f", cycle {cycle:.0f}"
        return f"[{self.program}{when}] {self.text}"

    def __repr__(self) -> str:
        return f"<Message {self}>"
