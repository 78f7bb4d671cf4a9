"""A core that runs one block: it computes each instruction when it is issued, and records it.

The kernel's Python code is the scalar pipe. A call such as Add() computes its result at once, with NumPy, so results
follow the order of the program. It also appends an `Instruction` to the core's `Program`. After all blocks have run,
`timing.play` works out when each pipe would have executed its instructions.

Because values never depend on times, a missing flag does not change the results of a simulated kernel. It is found
another way: the core keeps a vector clock for each pipe and checks each access against it (`hazards`). In weak mode an
access that is not in order also reads the old bytes, as a card may.
"""

from collections import deque
from collections.abc import Callable, Sequence
from sys import _getframe
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from device_model.aicore.core.counter import SystemCycle
from device_model.aicore.core.findings import Rule
from device_model.aicore.core.hazards import ALWAYS, Clock
from device_model.aicore.core.memories import POISON, Bytes, GlobalMemory, LocalMemory, Memory, Range
from device_model.aicore.core.names import EVENT_OF, EVENTS_OF, PIPES, SPACES_OF, CoreType, HardEvent, Pipe, Space
from device_model.aicore.core.program import Flow, Instruction, Kind, Message, Program
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.core.unknown import Unknown
from device_model.kernel.findings import WITHOUT_VALUES, Finding, Findings, KernelError
from device_model.kernel.greenlets import getcurrent
from device_model.kernel.sites import Site, frame_of_kernel, instruction_of, site
from device_model.kernel.strands import Strand

if TYPE_CHECKING:
    from device_model.aicore.flags.crossing import Crossing

_IN_ORDER = (Pipe.S, Pipe.V, Pipe.M)
TO_GM = (Pipe.MTE3, Pipe.FIX)
EVENT_IDS = 8  # per HardEvent
# Instructions that may read bytes of no use: all of a table of which some elements are gathered, and whole repeats,
# which comparisons take.
_READ_MORE = ("Gather", "Gatherb", "Compare", "Compares")
_INSERTED = (
    ", which the vendor's compiler inserts: @asc.kernel(auto_sync=True) does so, here and wherever else one is missing"
)
ALL_LANES = ((1 << 64) - 1,) * 2  # the initial vector mask, for types of any width
LINE = 64  # bytes of a line of the scalar data cache


Stale = tuple[Memory, int, Bytes]  # a memory, a start address, and the old bytes that a reader sees there
Knowledge = dict[int, tuple[int, ...]]  # core -> the last finished access of each of its pipes, as known here


class Combining(Protocol):
    """A mode in which copies to GM are combined with the bytes there. SetAtomicAdd, for one, sets it."""

    def into(self, writes: Sequence[Range], compute: Callable[[], object]) -> Callable[[], object]:
        """Return a function that calls *compute* and combines its results with the former bytes of *writes* in GM."""


class Destroyable(Protocol):
    """The TPipe of a core, as the end of a kernel sees it."""

    def Destroy(self) -> None:
        """Wait for all its buffers and all pipes, and free all memory."""


class Core:
    """One core running one block of a kernel."""

    __slots__ = (
        "allocated",
        "allocators",
        "atomic",
        "auto_sync",
        "block_dim",
        "block_idx",
        "clocks",
        "closing",
        "core_type",
        "counts_mask",
        "crossing",
        "dirty_lines",
        "events",
        "fetched",
        "fill",
        "findings",
        "flag_clocks",
        "flags",
        "hazards",
        "index",
        "instructions",
        "late",
        "mask",
        "memories",
        "messages",
        "pad_value",
        "program",
        "ratio",
        "remote",
        "saturates",
        "scalar",
        "seqs",
        "spec",
        "stuck",
        "tokens",
        "tpipe",
        "unit",
        "values",
        "waits_done",
        "weak",
    )

    def __init__(
        self,
        program: Program,
        spec: CoreSpec,
        *,
        block_dim: int,
        ratio: int,
        crossing: "Crossing",
        findings: Findings,
        messages: list[Message],
        hazards: bool,
        weak: bool,
        auto_sync: bool,
        values: bool = True,
        fill: bytes = POISON,
    ) -> None:
        self.values = values  # whether instructions compute
        self.fill = fill  # what local memories hold before their first write
        self.program = program
        self.instructions = program.instructions
        self.index = program.index
        self.core_type = program.core_type
        self.spec = spec
        self.block_dim = block_dim
        self.ratio = ratio
        is_vector = program.core_type is CoreType.AIV
        self.block_idx = program.block * ratio + program.sub_block if is_vector else program.block
        self.crossing = crossing
        self.findings = findings
        self.messages = messages
        self.hazards = hazards
        self.weak = weak
        self.auto_sync = auto_sync
        self.scalar = 0  # cycles of the scalar pipe since the last instruction
        self.closing: list[Callable[[], None]] = []  # what the core does when its kernel has returned
        self.memories: dict[Space, LocalMemory] = {}
        self.allocators: list[Any] = []  # the memories that have a LocalMemAllocator
        self.unit: Any = None  # its VectorUnit or CubeUnit, from its first use on
        self.tpipe: Destroyable | None = None
        self.mask: tuple[int, ...] = ALL_LANES  # of SetVectorMask, lowest word first
        self.counts_mask = False
        self.pad_value: Any = None  # what SetPadValue has set
        self.saturates = False  # whether results of half and bfloat16 do
        self.atomic: Combining | None = None  # how copies are combined with the bytes in GM
        # Flags, by 8 * event + id: the SetFlag that set it, and the clock of its pipe at that moment.
        self.events = frozenset(EVENTS_OF[self.core_type])
        self.flags: list[Instruction | None] = [None] * (len(HardEvent) * EVENT_IDS)
        self.flag_clocks: list[Clock | None] = [None] * len(self.flags)
        self.allocated = [0] * len(HardEvent)  # a bit for each id
        self.fetched: dict[int, list[Site]] = {}  # ids of FetchEventID, and the fetches since the last wait for each
        self.stuck: dict[int, deque[Instruction]] = {}  # waits whose flag was clear when they were issued
        self.late: list[tuple[Instruction, Instruction]] = []  # waits whose SetFlag was issued later, and that SetFlag
        # clocks[p][q] is the last access of pipe q that pipe p knows to be finished. The last number, of Pipe.ALL,
        # counts finished waits for other cores; it is the same for all pipes.
        self.seqs = [0] * len(Pipe)
        self.clocks: list[Clock] = [
            [ALWAYS if other is pipe and pipe in _IN_ORDER else 0 for other in Pipe] for pipe in PIPES
        ]
        self.remote: Knowledge = {}
        # Cross-core flags, by id: tokens that have arrived, and the numbers of the waits that consumed one.
        self.tokens: dict[int, deque[Token]] = {}
        self.waits_done: dict[int, list[int]] = {}
        self.dirty_lines: dict[tuple[GlobalMemory, int], Instruction] = {}

    def __repr__(self) -> str:
        return f"<Core {self.program}: {len(self.instructions)} instructions>"

    # Issue

    def issue(
        self,
        pipe: Pipe,
        name: str,
        startup: int,
        cycles: int,
        reads: Sequence[Range],
        writes: Sequence[Range],
        compute: Callable[[], object],
        flow: Flow | None = None,
    ) -> Instruction:
        """Record an instruction of *pipe*, check it for hazards, and compute it.

        *startup* and *cycles* are core cycles, see `Instruction`. *reads* and *writes* are ranges of bytes, `(memory,
        start, stop)`, or rows, `(memory, start, stop, length, stride)`. *compute* does the work and is called after
        the check for hazards. The time of a copy follows from its *flow* instead of from *cycles*.
        """
        if self.auto_sync:
            self._wait_for_scalar(pipe, reads, writes)
        code, offset = instruction_of(frame_of_kernel(_getframe(1)))
        instruction = Instruction(
            self.index, pipe, Kind.WORK, name, startup, cycles, self.scalar, flow, (), code, offset
        )
        self.scalar = 0
        self.instructions.append(instruction)
        if self.atomic is not None and pipe in TO_GM and type(writes[0][0]) is GlobalMemory:
            compute = self.atomic.into(writes, compute)
        stale = self.access(instruction, reads, writes) if self.hazards else None
        if not self.values:
            refuse_read_only(instruction, writes)
            return instruction
        try:
            if stale:
                _compute_with(stale, writes, compute)
            else:
                compute()
        except ValueError:
            refuse_read_only(instruction, writes)
            raise
        return instruction

    def note(self, pipe: Pipe, kind: Kind, name: str, waits: tuple[Instruction, ...] = ()) -> Instruction:
        """Record an instruction that moves no data, such as a flag or a barrier."""
        code, offset = instruction_of(frame_of_kernel(_getframe(2)))
        instruction = Instruction(self.index, pipe, kind, name, 0, 0, self.scalar, None, waits, code, offset)
        self.scalar = 0
        self.instructions.append(instruction)
        return instruction

    def site(self) -> Site:
        """Return the line of the kernel that is running."""
        return site()

    def check_values(self, what: str) -> None:
        """Refuse *what*, which looks at what memory holds, in a run without values."""
        if not self.values:
            raise KernelError(f"{what} at {self.site()} needs values, and values=False", WITHOUT_VALUES)

    def scalar_read(self, tensor: Any, index: int, at: int) -> Any:
        """Read the element at byte *at* with the scalar pipe."""
        if type(tensor.memory) is GlobalMemory and tensor.memory.flushed:
            self.see("GetValue", tensor.memory, at // LINE)
        values: list[Any] = []
        self.issue(
            Pipe.S,
            "GetValue",
            0,
            self.spec.get_value,
            ((tensor.memory, at, at + tensor.dtype.itemsize),),
            (),
            lambda: values.append(tensor.view.item(index)),
        )
        return values[0] if self.values else Unknown(f"GetValue({index}) of {tensor!r} at {self.site()}")

    def see(self, name: str, memory: GlobalMemory, line: int) -> None:
        """Let *name* wait for what another launch has written to *line*: a value is not seen before it is there.

        A launch beside this one has computed everything, so a kernel that polls GM sees at its first look what the last
        look would see on a card.
        """
        flushed, by = memory.flushed.get(line, (None, None))
        if flushed is not None and by is not self.crossing:
            self.note(Pipe.S, Kind.CROSS_WAIT, name, (flushed,))

    def scalar_write(self, tensor: Any, index: int, at: int, value: Any) -> None:
        """Write the element at byte *at* with the scalar pipe."""

        def store() -> None:
            tensor.view[index] = value

        memory = tensor.memory
        late = isinstance(value, SystemCycle) and type(memory) is GlobalMemory
        if late:
            known, value = value, 0
        written = self.issue(
            Pipe.S, "SetValue", 0, self.spec.set_value, (), ((memory, at, at + tensor.dtype.itemsize),), store
        )
        if type(memory) is GlobalMemory:
            self._write_line(memory, at // LINE, written)
        if late and self.values:
            self.program.late.append(lambda: _store_late(tensor, index, at, known, written))

    def _write_line(self, memory: GlobalMemory, line: int, written: Instruction) -> None:
        self.dirty_lines.setdefault((memory, line), written)
        if not self.hazards:
            return
        other = memory.lines.get(line)
        memory.lines[line] = written
        if other is not None and other.core != self.index and not self.is_ordered(other, self.clocks[Pipe.S]):
            self.find(
                Rule.SHARED_LINE,
                f"{written} and {other} write the same 64-byte line of {memory.name} (bytes {line * LINE} to "
                f"{line * LINE + LINE}) from two cores, so one write is lost; let cores write to separate lines",
                written,
                other,
            )

    # Order

    def access(self, instruction: Instruction, reads: Sequence[Range], writes: Sequence[Range]) -> list[Stale]:
        """Check and record the accesses of *instruction*; return the old bytes that it reads (weak mode)."""
        pipe = instruction.pipe
        seqs = self.seqs
        seqs[pipe] = instruction.seq = seqs[pipe] + 1
        clock = self.clocks[pipe]
        stale: list[Stale] = []
        for touched in reads:
            memory = touched[0]
            if len(touched) == 3:
                if touched[1] == touched[2]:
                    continue
                spans = memory.shadow.read(self, instruction, clock, touched[1], touched[2])
            else:
                spans = memory.shadow.read_rows(self, instruction, clock, *touched[1:])
            if spans and self.weak:
                stale += [(memory, span.start, span.old) for span in spans if span.old is not None]
        for touched in writes:
            memory, start, stop = touched[:3]
            if start == stop:
                continue
            length, stride = touched[3:] if len(touched) > 3 else (stop - start, stop - start)
            if self.atomic is not None and pipe in TO_GM and type(memory) is GlobalMemory:
                for at in range(start, stop, stride):
                    memory.shadow.accumulate(self, instruction, clock, at, at + length)
                continue
            for at in range(start, stop, stride):
                span = memory.shadow.write(self, instruction, clock, at, at + length)
                if self.weak:
                    span.old = memory.bytes[at : at + length].copy()
        return stale

    def _wait_for_scalar(self, pipe: Pipe, reads: Sequence[Range], writes: Sequence[Range]) -> None:
        """Insert the flags between the scalar pipe and another one that an instruction of *pipe* needs for its bytes.

        This is what the vendor's compiler does with accesses to UB (auto_sync). It puts a SetFlag behind the last
        instruction of the pipe that must come first, and a WaitFlag before this one.
        """
        clock = self.clocks[pipe]
        events = [
            EVENT_OF[earlier.pipe, pipe]
            for ranges, is_write in ((reads, False), (writes, True))
            for memory, start, stop, *_ in ranges
            if memory.space is Space.UB
            for earlier in memory.shadow.conflicts(start, stop, is_write=is_write)
            if (earlier.pipe is Pipe.S) is not (pipe is Pipe.S) and not self.is_ordered(earlier, clock)
        ]
        for event in dict.fromkeys(events):
            setter = self.note(event.source, Kind.SET, event.set_name)
            self.note(event.destination, Kind.WAIT, event.wait_name, (setter,))
            self.learn(event.destination, self.knowledge_of(event.source))

    def is_ordered(self, earlier: Instruction, clock: Clock) -> bool:
        """Whether a pipe of this core with *clock* knows that *earlier* has finished."""
        if earlier.core == self.index:
            return earlier.seq <= clock[earlier.pipe]
        known = self.remote.get(earlier.core)
        return known is not None and earlier.seq <= known[earlier.pipe]

    def knowledge_of(self, pipe: Pipe) -> Clock:
        """Return the clock that a flag set by *pipe* carries: all that was issued to *pipe* so far is finished then."""
        clock = self.clocks[pipe].copy()
        clock[pipe] = self.seqs[pipe]
        return clock

    def learn(self, pipe: Pipe, clock: Sequence[int]) -> None:
        """Merge *clock* into the clock of *pipe*, which has waited for a flag that carried it.

        What the scalar pipe learns, all pipes learn, because it issues their later instructions.
        """
        for learner in PIPES if pipe is Pipe.S else (pipe,):
            mine = self.clocks[learner]
            self.clocks[learner] = [a if a > b else b for a, b in zip(mine, clock, strict=True)]

    def count_wait(self) -> int:
        """Count a finished wait for other cores, after which all later instructions are issued; return its number."""
        self.seqs[Pipe.ALL] = number = self.seqs[Pipe.ALL] + 1
        for clock in self.clocks:
            clock[Pipe.ALL] = number
        return number

    # Mistakes

    def find(
        self, rule: Rule, text: str, *instructions: Instruction, missing: str = "", site: Site | None = None
    ) -> None:
        """Add a finding, or count it up if the same lines have made it before."""
        sites = tuple(each.site for each in instructions) or (site or self.site(),)
        key = (rule, sites, missing)
        if not self.findings.seen(key):
            self.findings.add(key, Finding(rule, text, str(self.program), sites, instructions, missing))

    def hazard(self, rule: Rule, earlier: Instruction, later: Instruction, memory: str, start: int, stop: int) -> None:
        """Report that *later* touches bytes start:stop of *memory*, and *earlier* may not have finished with them."""
        if earlier is later or self.stuck:  # rows of one instruction; or a kernel that may hang, which is reported
            return
        missing = self._missing(rule, earlier, later)
        key: object = (rule, earlier.site, later.site, missing)
        # Flags that auto_sync would insert are one finding, for one change mends them all.
        is_of_scalar = earlier.core == self.index and memory == Space.UB.value and Pipe.S in (earlier.pipe, later.pipe)
        if is_of_scalar:
            key = "flags of the scalar pipe"
        if self.findings.seen(key):
            return
        first = "reading" if rule is Rule.WAR else "writing"
        second = "reads" if rule is Rule.RAW else "writes"
        text = f"{later} {second} {memory}[{start}:{stop}] while {earlier} may still be {first} it; missing {missing}"
        if is_of_scalar:
            text += _INSERTED
        where = str(self.program)
        self.findings.add(key, Finding(rule, text, where, (earlier.site, later.site), (earlier, later), missing))

    def unwritten(self, instruction: Instruction, memory: str, start: int, stop: int) -> None:
        """Report that *instruction* reads bytes start:stop of *memory*, which hold nothing."""
        if instruction.name in _READ_MORE:
            return
        self.find(
            Rule.UNWRITTEN_READ,
            f"{instruction} reads {memory}[{start}:{stop}], where nothing was written; on a card there "
            "is what an earlier kernel left; write these bytes first, or read fewer",
            instruction,
        )

    def _missing(self, rule: Rule, earlier: Instruction, later: Instruction) -> str:
        if earlier.core >= len(self.crossing.cores):
            return "Hccl.Wait"
        if self.index >= len(self.crossing.cores):
            before = "a barrier of all cores and pipes before Hccl.Commit"
            return before if rule is Rule.RAW else f"Hccl.Wait, or {before}"
        if earlier.core != self.index:
            if rule is Rule.WAW and later.pipe in TO_GM and earlier.site == later.site:
                return "SetAtomicAdd, or a range of its own for each core"
            return "SyncAll or CrossCoreSetFlag and CrossCoreWaitFlag"
        if earlier.pipe is later.pipe:
            return f"PipeBarrier<{later.pipe}>"
        event = EVENT_OF.get((earlier.pipe, later.pipe))
        return str(event) if event in self.events else "PipeBarrier<ALL>"

    # Memories

    def memory(self, space: Space) -> LocalMemory:
        """Return the memory *space* of this core; raise KernelError if this type of core has none."""
        memory = self.memories.get(space)
        if memory is None:
            if space not in SPACES_OF[self.core_type]:
                raise KernelError(
                    f"{self.program} has no {space}",
                    f"a core of type {self.core_type} has {', '.join(map(str, SPACES_OF[self.core_type]))}",
                )
            memory = self.memories[space] = LocalMemory(space, self.spec.space_bytes[space], self.fill)
        return memory

    @property
    def is_cube(self) -> bool:
        """Whether this is a cube core (AIC)."""
        return self.core_type is CoreType.AIC


def _compute_with(stale: Sequence[Stale], writes: Sequence[Range], compute: Callable[[], object]) -> None:
    """Compute with the *stale* bytes as they were before their last write; keep what is computed into them."""
    fresh = [memory.bytes[start : start + len(old)].copy() for memory, start, old in stale]
    for memory, start, old in stale:
        memory.bytes[start : start + len(old)] = old
    compute()
    for (memory, start, old), kept in zip(stale, fresh, strict=True):
        stop = start + len(old)
        for written, first, last, *rows in writes:
            length, stride = rows or (last - first, max(last - first, 1))
            for at in range(first, last, stride) if written is memory else ():
                low, high = max(start, at), min(stop, at + length)
                if low < high:
                    kept[low - start : high - start] = memory.bytes[low:high]
        memory.bytes[start:stop] = kept


def _store_late(tensor: Any, index: int, at: int, value: SystemCycle, written: Instruction) -> None:
    """Store what *written* has written, now that it is known, unless another instruction has written there since."""
    last = tensor.memory.shadow.writer_of(at)
    if last is None or last is written:
        tensor.view[index] = int(value)


def refuse_read_only(instruction: Instruction, writes: Sequence[Range]) -> None:
    """Raise KernelError if *instruction* writes to an argument that is In."""
    for memory, *_ in writes:
        if not memory.bytes.flags.writeable:
            raise KernelError(
                f"{instruction} writes to {memory.name}, which the kernel declares as In", "declare it as Out or InOut"
            ) from None


class BlockStrand(Strand):
    """One block on one core; the kernel can wait for other cores inside any function that it calls.

    Attributes:
        can_give_up: Whether its present wait has a time limit.
        has_given_up: Whether the time limit of that wait has passed.
    """

    def __init__(self, core: Core, block: Callable[[], object]) -> None:
        super().__init__(block)
        self.core = core
        self.can_give_up = False
        self.has_given_up = False

    def give_up(self) -> None:
        """End its wait although the condition is not met: the time limit of the wait has passed."""
        self.has_given_up = True
        self._ready = None


def park(where: str, ready: Callable[[], bool], *, can_give_up: bool = False) -> bool:
    """Let other blocks run until *ready()* is true; return False if the wait was given up.

    *where* names the wait in messages. Only a wait with *can_give_up* may be given up.
    """
    strand = getcurrent()
    assert isinstance(strand, BlockStrand), "the caller runs in no block"
    strand.can_give_up, strand.has_given_up = can_give_up, False
    strand.park(where, ready)
    return not strand.has_given_up


def running() -> Core:
    """Return the core that runs the caller; raise KernelError outside a kernel."""
    strand = getcurrent()
    if type(strand) is not BlockStrand:
        raise KernelError(
            "a function of the kernel language was called outside a core kernel",
            "call it in a function made with @asc.kernel, and launch that",
        )
    return strand.core


class Token(NamedTuple):
    """One count of a cross-core flag: the sets that made it, and the clocks that they carry."""

    sets: tuple[Instruction, ...]
    knowledge: Knowledge
