"""What a launch leaves behind, as the rest of the device and traces see it. Each kind of kernel has its own classes."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import IntEnum
from types import CodeType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from device_model.kernel.findings import Findings
from device_model.kernel.sites import Site


class Flow(Protocol):
    """A movement between a core and the memory of the device."""

    @property
    def nbytes(self) -> int:
        """How many bytes."""


class Instruction(Protocol):
    """One instruction, as a trace shows it; *start* and *end* are cycles from the start of the launch."""

    start: float
    end: float

    @property
    def name(self) -> str:
        """What it is."""

    @property
    def code(self) -> CodeType:
        """The code of the line that issued it."""

    @property
    def lasti(self) -> int:
        """The place of that line in `code`."""

    @property
    def pipe(self) -> IntEnum:
        """What executed it: a pipe of an AI core, or a unit of an SM."""

    @property
    def kind(self) -> IntEnum:
        """How the pipe treats it, such as WORK or WAIT."""

    @property
    def flow(self) -> "Flow | None":
        """What it moved through the memory of the device."""

    @property
    def waits(self) -> Sequence[Any]:
        """The earlier instructions that it waited for."""

    @property
    def site(self) -> Site:
        """The line of the kernel that issued it."""


class Program(Protocol):
    """The instructions of one core or block, in the order in which they were issued."""

    block: int

    @property
    def instructions(self) -> Sequence[Instruction]:
        """All of them."""


class Timeline(Protocol):
    """The times of a launch."""

    duration_ns: int  # with the overhead of the launch
    ns_per_cycle: float

    @property
    def busy_us(self) -> Mapping[str, float]:
        """How long each kind of unit is busy, in microseconds; means over the cores in use."""

    def core_of(self, program: Any) -> str:
        """Return the name of the core that ran *program*."""


class Result(Protocol):
    """The result of a launch."""

    @property
    def findings(self) -> Findings:
        """The mistakes that were found."""

    @property
    def output(self) -> str:
        """The text that the kernel wrote."""

    @property
    def programs(self) -> Sequence[Program]:
        """The instructions of each core or block."""

    @property
    def timeline(self) -> Timeline | None:
        """The times; None if the launch was not timed or did not end."""


class Write(NamedTuple):
    """An instruction that wrote to the memory of the device.

    It is number *number*, from 0 on, of those of *program*. It wrote *rows* rows of *length* bytes, *stride* bytes
    apart, from byte *start* of the allocation *key* on; *key* is the number of the device and that of the allocation.
    *threads* has the thread that wrote each row; () on cores without threads.
    """

    instruction: Instruction
    program: Program
    number: int
    key: Hashable
    start: int
    length: int
    rows: int
    stride: int
    threads: Sequence[int] = ()


@runtime_checkable
class HasWrites(Protocol):
    """The result of a kernel that knows which instruction wrote which bytes of the memory of the device."""

    def writes(self) -> Iterable[Write]:
        """Return the writes of all cores, each behind those that it overwrites."""
