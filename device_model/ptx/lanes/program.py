"""A compiled kernel: what lanes run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from device_model.ptx.lanes.group import Array, Lanes
from device_model.ptx.text.syntax import Instruction, Variable


class End(Protocol):
    """How a block of code ends."""

    def go(self, fragments: Any, at: Lanes, result: Any) -> None:
        """Send the lanes *at* on, after the block has returned *result*."""


class Loop(NamedTuple):
    """What a loop is for the lanes that run it.

    Attributes:
        first: The number of its first block of code.
        last: That of its last one.
        decides: The registers that rounds change and that say what a round does: where lanes go, and what they change
            in memory. A lane that finds the same values in them again has made no progress.
        reads_memory: Whether it reads what others may change.
        polls: Whether it can be a wait: what it reads of others, or of the time, decides what it does.
        reads_clock: Whether it reads the time.
        is_pure: Whether a round changes nothing but registers.
    """

    first: int
    last: int
    decides: Sequence[int]
    reads_memory: bool
    polls: bool
    reads_clock: bool
    is_pure: bool


class Code:
    """A basic block: *run* does what it says, and *end* sends its lanes on.

    *meets* returns the masks of lanes for which the lanes wait at its beginning; None if they wait for nobody. *loop*
    is the loop of which it is the head, if it is one. *instructions* are what it does in PTX.
    """

    __slots__ = ("end", "instructions", "line", "loop", "meets", "number", "run")

    def __init__(
        self,
        number: int,
        line: int,
        run: Callable[[Lanes], Any],
        end: End,
        meets: Callable[[Lanes], Array] | None,
        loop: Loop | None,
        instructions: Sequence[Instruction] = (),
    ) -> None:
        self.number = number
        self.line = line
        self.run = run
        self.end = end
        self.meets = meets
        self.loop = loop
        self.instructions = instructions


class Place(NamedTuple):
    """A line of a kernel: of its PTX, and of the source that this was made from, if that is known."""

    line: int
    file: str = ""
    source: int = 0

    def __str__(self) -> str:
        return f"PTX line {self.line}" + (f" ({Path(self.file).name}:{self.source})" if self.file else "")


def filename(name: str) -> str:
    """Return the name that the Python code of the kernel *name* has instead of a file."""
    return f"<ptx {name}>"


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A kernel.

    Attributes:
        name: Its name.
        blocks: Its code; the first block is where lanes begin.
        registers: How many registers there are, with the special ones.
        special: The numbers of the special registers that it uses, by name.
        zeros: The registers that may be read before they are written, with their types.
        shared_bytes: The bytes of static shared memory of a block.
        dynamic_at: Where the dynamic shared memory begins.
        local_bytes: The bytes of local memory of a lane.
        parameter_bytes: The bytes of its parameters.
        limits: Its performance directives.
        pressure: The registers of 32 bits that a thread needs at the same time.
        lines: The line of PTX for each line of the Python code.
        places: By line of PTX, what it was made from.
        shared: The variables in shared memory.
        tells_time: Whether the times of single warps matter: it reads them, sleeps, or has a loop that can be a wait.
        touches_nothing: Whether all its launches of one shape do the same, and leave nothing but the time they take.
    """

    name: str
    blocks: Sequence[Code]
    registers: int
    special: Mapping[str, int]
    zeros: Mapping[int, Any]
    shared_bytes: int
    dynamic_at: int
    local_bytes: int
    parameter_bytes: int
    limits: Mapping[str, tuple[int, ...]]
    pressure: int
    lines: Sequence[int]
    places: Mapping[int, Place]
    shared: Sequence[Variable] = ()
    tells_time: bool = False
    touches_nothing: bool = False
