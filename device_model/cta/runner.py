"""Runs the blocks of a kernel one after the other, in one Python thread."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, Protocol, overload

from device_model.cta.block import Block, Message, Store, block_text
from device_model.cta.checks.histories import Histories
from device_model.cta.language import copies
from device_model.cta.report import LaunchReport, report
from device_model.cta.stores import writes_of
from device_model.kernel.blas import one_thread
from device_model.kernel.findings import Findings
from device_model.kernel.garbage import no_collections
from device_model.kernel.results import Write
from device_model.sm import card
from device_model.sm.history import Instruction
from device_model.sm.instructions import Row
from device_model.sm.names import WARP, Dim3
from device_model.sm.occupancy import Occupancy
from device_model.sm.spec import SmSpec


class Timeline:
    """The times of one launch.

    Attributes:
        card: When its blocks ran, in cycles, and how busy the units of an SM were.
        duration_ns: The whole launch, with what the card takes besides its blocks.
        ns_per_cycle: The length of a cycle.
        busy_us: For each unit, how long it worked, in microseconds: a mean over the SMs.
        occupancy: How many blocks an SM can hold, and why not more.
        spec: The SMs.
    """

    __slots__ = ("busy_us", "card", "duration_ns", "ns_per_cycle", "occupancy", "spec")

    def __init__(self, timeline: card.CardTimeline, spec: SmSpec, occupancy: Occupancy, overhead_ns: int) -> None:
        self.card = timeline
        self.occupancy = occupancy
        self.spec = spec
        self.ns_per_cycle = 1e6 / spec.khz
        self.duration_ns = round(timeline.cycles * self.ns_per_cycle) + overhead_ns
        microseconds = timeline.cycles * self.ns_per_cycle / 1000
        self.busy_us: Mapping[str, float] = {
            unit.name.lower(): share * microseconds for unit, share in timeline.busy.items()
        }

    def __repr__(self) -> str:
        return f"<Timeline of {len(self.card.spans)} blocks: {self.duration_ns / 1000:.2f} us>"

    def report(self) -> LaunchReport:
        """Return what the launch made of the card; the blocks are played again to tell which copies were hidden."""
        return report(self.card, self.occupancy, self.spec)

    def core_of(self, program: "Program") -> str:
        """Return the SM that ran *program*, as "SM 3"."""
        return f"SM {self.card.placings[program.block].sm}"


class Instructions(Sequence[Instruction]):
    """What the warps of one block did, in the order of issue; it is worked out when it is first looked at."""

    __slots__ = ("_block", "_card")

    def __init__(self, card: card.CardTimeline, block: int) -> None:
        self._card = card
        self._block = block

    def __len__(self) -> int:
        return self._card.count(self._block)

    @overload
    def __getitem__(self, index: int) -> Instruction: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Instruction]: ...
    def __getitem__(self, index: int | slice) -> Instruction | Sequence[Instruction]:
        if isinstance(index, slice) and not range(len(self))[index]:
            return ()
        return self._card.instructions(self._block)[index]

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self._card.instructions(self._block))


class Program:
    """The instructions of one block."""

    __slots__ = ("_grid", "block", "instructions")

    def __init__(self, card: card.CardTimeline, block: int, grid: Dim3) -> None:
        self.block = block
        self.instructions = Instructions(card, block)
        self._grid = grid

    def __str__(self) -> str:
        return block_text(self.block, self._grid)


class Timing(Protocol):
    """Takes the instructions of the blocks of a launch, to time them."""

    def add(self, rows: Sequence[Row]) -> None:
        """Add the next block."""


@dataclass
class Result:
    """The result of a launch.

    Attributes:
        blocks: The blocks with their instructions, in `rows`; of a launch that is timed the first one only.
        findings: The mistakes that were found.
        timeline: The times; None if the launch was not timed or did not end.
        messages: What was printed, in the order of the blocks.
        stores: What each block stored in global memory.
        grid: The number of blocks in each direction.
    """

    blocks: list[Block] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    timeline: Timeline | None = None
    messages: list[Message] = field(default_factory=list)
    stores: list[Sequence[Store]] = field(default_factory=list)
    grid: Dim3 = (1, 1, 1)

    @property
    def output(self) -> str:
        """The text that printf wrote: a line for each message, with the block, the thread and the cycle."""
        return "".join(f"{self._line(message)}\n" for message in self.messages)

    def _line(self, message: Message) -> str:
        block, thread, rows, text = message
        when = "" if self.timeline is None else f", cycle {self.timeline.card.reached(block, thread // WARP, rows):.0f}"
        return f"[{block_text(block, self.grid)}, thread {thread}{when}] {text}"

    def report(self) -> LaunchReport:
        """Return occupancy, traffic by level, bank conflicts by line and hidden copies, as data; print it for the text.

        Raises:
            ValueError: The launch has no times.
        """
        if self.timeline is None:
            raise ValueError("this launch has no times: it was stopped, or run without timing")
        return self.timeline.report()

    def writes(self) -> list[Write]:
        """Return the stores to global memory, block after block, as they took effect; the launch must be timed."""
        assert self.timeline is not None, "writes have times"
        programs = zip(self.programs, self.stores, strict=True)
        return [each for program, stores in programs for each in writes_of(self.timeline.card, program, stores)]

    @property
    def programs(self) -> list[Program]:
        """The instructions of each block; none if the launch was not timed."""
        card = None if self.timeline is None else self.timeline.card
        return [] if card is None else [Program(card, block, self.grid) for block in range(len(card.spans))]


def run(
    kernel: Callable[..., object],
    grid: Dim3,
    args: Sequence[Any],
    *,
    threads: int,
    capacity: int,
    is_dynamic: bool,
    hazards: bool = True,
    card: Callable[[int], Timing] | None = None,
    has_values: bool = True,
) -> Result:
    """Run a kernel, one block after the other.

    Args:
        kernel: The function, called once for each block.
        grid: The number of blocks in each direction.
        args: Its arguments: tensors and plain values.
        threads: The threads of a block.
        capacity: The bytes of shared memory of a block; *is_dynamic* if the kernel has asked for so many.
        is_dynamic: See *capacity*.
        hazards: Whether accesses are checked.
        card: Called after the first block with the bytes of shared memory that a block has; returns what times the
            blocks.
        has_values: Whether memory holds values. Without them a kernel that looks at what it has loaded cannot go on.

    Raises:
        KernelError: The kernel cannot go on.
        Exception: Anything that the kernel raises. Every error has the result so far as its attribute `result`.
    """
    result = Result(grid=grid)
    timing: Timing | None = None
    try:
        with no_collections(), one_thread():
            histories = Histories()
            for number in range(prod(grid)):
                block = Block(
                    number, grid, threads, result.findings, histories, capacity=capacity, is_dynamic=is_dynamic,
                    hazards=hazards, has_values=has_values,
                )  # fmt: skip
                try:
                    block.run(partial(_whole, block, kernel, args))
                finally:
                    result.messages += block.messages
                    result.stores.append(block.stores)
                block.forget()
                if card is not None:
                    timing = timing or card(capacity if is_dynamic else block.shared_used)
                    timing.add(block.rows)
                if timing is None or number == 0:
                    result.blocks.append(block)
    except BaseException as error:
        error.result = result  # type: ignore[attr-defined]
        raise
    return result


def _whole(block: Block, kernel: Callable[..., object], args: Sequence[Any]) -> None:
    kernel(*args)
    block.finish()
    if block.hazards:
        copies.finish(block)
