"""A core that notes what a block does, for all blocks that do the same.

It issues instructions as any core does, and orders and checks them in its local memories. It computes nothing, and
leaves GM and what it would report alone: it keeps them, in their order, for each of the blocks.
"""

from collections.abc import Callable, Sequence
from sys import _getframe
from typing import Any, NamedTuple, NoReturn

from device_model.aicore.core.each import Blocks, Each
from device_model.aicore.core.hazards import Clock
from device_model.aicore.core.machine import TO_GM, Combining, Core, refuse_read_only
from device_model.aicore.core.memories import GlobalMemory, LocalMemory, Range
from device_model.aicore.core.names import Pipe, Space
from device_model.aicore.core.program import Flow, Instruction, Kind, Message, Program
from device_model.kernel.findings import Finding, Findings
from device_model.kernel.sites import frame_of_kernel, instruction_of

Compute = Callable[[], object]


class Access(NamedTuple):
    """Accesses of one instruction to GM, to be checked with the *clock* that its pipe had.

    *number* is that of the instruction. The ranges are as in `Core.issue`; *atomic* is how writes are combined.
    """

    number: int
    clock: Clock
    reads: tuple[Range, ...]
    writes: tuple[Range, ...]
    atomic: Combining | None


class Found(NamedTuple):
    """A finding of the first block with its key, or one more of that key."""

    key: object
    finding: Finding | None


class _Notebook(Findings):
    """Findings of a core that is recorded."""

    def __init__(self, notes: list[Access | Found]) -> None:
        super().__init__()
        self._notes = notes

    def seen(self, key: object) -> bool:
        """Note the finding of *key* once more; return False if there is none yet."""
        if key not in self._findings:
            return False
        self._notes.append(Found(key, None))
        return True

    def add(self, key: object, finding: Finding) -> None:
        """Note *finding*, the first one of *key*."""
        super().add(key, finding)
        self._notes.append(Found(key, finding))


class _Alone:
    """The other cores of a block that is recorded: any dealing with them ends the record."""

    def __init__(self, blocks: Blocks, cores: Sequence[Core]) -> None:
        self._blocks = blocks
        self.cores = cores

    def __getattr__(self, name: str) -> NoReturn:
        self._blocks.stop()


class _NoMessages(list[Message]):
    """The messages of a block that is recorded: a message ends the record, as each block has its own text."""

    def __init__(self, blocks: Blocks) -> None:
        super().__init__()
        self._blocks = blocks

    def append(self, message: Message) -> NoReturn:  # noqa: ARG002 - whatever it says
        """End the record."""
        self._blocks.stop()


class Recorder(Core):
    """A core that stands for each of *cores*, whose blocks are *blocks*; see the module.

    Attributes:
        notes: The accesses to GM and the findings, in their order.
        computes: What its instructions compute, in their order; empty in a run without values.
        kept: Its local memories.
        read, written: The allocations that its instructions read, and the ranges that they write; as `computes`.
    """

    __slots__ = ("_blocks", "_computes_values", "computes", "kept", "notes", "read", "written")

    def __init__(self, cores: Sequence[Core], blocks: Blocks) -> None:
        first = cores[0]
        self._blocks = blocks
        self.notes: list[Access | Found] = []
        self.computes: list[Compute] = []
        self.kept: list[LocalMemory] = []
        self.read: list[GlobalMemory] = []
        self.written: list[Range] = []
        super().__init__(
            Program(first.index, first.core_type, first.program.block, first.program.sub_block),
            first.spec,
            block_dim=first.block_dim,
            ratio=first.ratio,
            crossing=_Alone(blocks, first.crossing.cores),  # type: ignore[arg-type]
            findings=_Notebook(self.notes),
            messages=_NoMessages(blocks),
            hazards=first.hazards,
            weak=first.weak,
            auto_sync=first.auto_sync,
            values=first.values,
            fill=first.fill,
        )
        self.block_idx = Each.of(blocks, [each.block_idx for each in cores])  # type: ignore[assignment]

    @property
    def values(self) -> bool:
        """Whether instructions compute. A caller that asks wants to read a computed value, which ends the record."""
        if self._computes_values:
            self._blocks.stop()
        return False

    @values.setter
    def values(self, values: bool) -> None:
        self._computes_values = values

    def issue(
        self,
        pipe: Pipe,
        name: str,
        startup: int,
        cycles: int,
        reads: Sequence[Range],
        writes: Sequence[Range],
        compute: Compute,
        flow: Flow | None = None,
    ) -> Instruction:
        """Record an instruction, as `Core.issue` does, and keep what it computes."""
        if self.auto_sync:
            self._wait_for_scalar(pipe, reads, writes)
        code, offset = instruction_of(frame_of_kernel(_getframe(1)))
        instruction = Instruction(
            self.index, pipe, Kind.WORK, name, startup, cycles, self.scalar, flow, (), code, offset
        )
        self.scalar = 0
        self.instructions.append(instruction)
        if self.hazards:
            self.access(instruction, reads, writes)
        refuse_read_only(instruction, writes)
        if self._computes_values:
            is_combined = self.atomic is not None and pipe in TO_GM and type(writes[0][0]) is GlobalMemory
            self._note_gm(reads, writes)
            self.computes.append(_combined(self.atomic, writes, compute) if is_combined and self.atomic else compute)
        return instruction

    def _note_gm(self, reads: Sequence[Range], writes: Sequence[Range]) -> None:
        self.read += [each[0] for each in reads if type(each[0]) is GlobalMemory]
        for each in writes:
            if type(each[0]) is GlobalMemory:
                self.written.append(each)
                if self.atomic is not None:
                    self.read.append(each[0])

    def access(self, instruction: Instruction, reads: Sequence[Range], writes: Sequence[Range]) -> list[Any]:
        """Check and record the accesses to local memories; note those to GM."""
        read, written = (tuple(each for each in ranges if type(each[0]) is GlobalMemory) for ranges in (reads, writes))
        if not read and not written:
            return super().access(instruction, reads, writes)
        pipe, number = instruction.pipe, len(self.instructions) - 1
        if self.stuck:
            self._blocks.stop()
        if read:
            self.notes.append(Access(number, self.clocks[pipe].copy(), read, (), None))
        super().access(
            instruction,
            [each for each in reads if type(each[0]) is not GlobalMemory],
            [each for each in writes if type(each[0]) is not GlobalMemory],
        )
        if written:
            self.notes.append(Access(number, self.clocks[pipe].copy(), (), written, self.atomic))
        return []

    def scalar_read(self, tensor: Any, index: int, at: int) -> Any:
        """Note a read of the scalar pipe; its value, and what another launch has written, end the record."""
        if self._computes_values or (type(tensor.memory) is GlobalMemory and tensor.memory.flushed):
            self._blocks.stop()
        return super().scalar_read(tensor, index, at)

    def scalar_write(self, tensor: Any, index: int, at: int, value: Any) -> None:
        """Note a write of the scalar pipe to local memory; one to GM, whose lines blocks share, ends the record."""
        if type(tensor.memory) is GlobalMemory:
            self._blocks.stop()
        super().scalar_write(tensor, index, at, value)

    def memory(self, space: Space) -> LocalMemory:
        """Return the memory *space*, and keep it when the block has ended."""
        memory = super().memory(space)
        if memory not in self.kept:
            self.kept.append(memory)
        return memory


def _combined(atomic: Combining, writes: Sequence[Range], compute: Compute) -> Compute:
    return lambda: atomic.into(writes, compute)()
