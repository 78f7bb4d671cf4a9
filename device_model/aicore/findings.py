"""Findings: what is wrong with a kernel, though a card would go on; and errors, where no card could.

    KernelError            the kernel cannot go on: memory or event ids are used up, an argument is impossible
     ├─ KernelHangError         it would wait for ever, on this core or for another
     └─ KernelAssertionError    assert_() failed

What a card would get through, with wrong results or lucky ones, is a `Finding`: the kernel goes on, and its result
holds each mistake once, with a count.
"""

from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from device_model.aicore.debug import Message
    from device_model.aicore.program import Instruction, Program, Site


class Rule(Enum):
    """The rules that findings are about; the value says what holds when the rule is kept."""

    RAW = "a read starts after the write of what it reads has finished"
    WAR = "a write starts after the reads of what it overwrites have finished"
    WAW = "a write starts after an earlier write of the same bytes has finished"
    DOUBLE_SET = "a flag is waited for before it is set again"
    LATE_SET = "a flag is set before the wait for it is issued"
    FLAG_LEFT_SET = "every flag set is waited for before the kernel ends"
    FETCHED_TWICE = "an event id from FetchEventID is used before the next is fetched"
    RELEASED_TWICE = "an event id is released once, after it was allocated"
    WAIT_TIMEOUT = "a wait with a time limit sees its flag in time"
    TAIL_DROPPED = "a copy moves whole blocks of 32 bytes"
    PARTIAL_OVERLAP = "source and destination of an instruction are the same bytes, or share none still to be read"
    SHARED_LINE = "two cores do not write one 64-byte line of GM by scalar"
    NOT_FLUSHED = "what is written to GM by scalar is flushed with DataCacheCleanAndInvalid"
    CROSS_OVERFLOW = "the counter of a cross-core flag stays at 15 or below"
    CROSS_LEFT_SET = "every cross-core flag set is waited for before the kernel ends"
    RESERVED_FLAG = "beside SyncAll, cross-core flags are 0 to 10"
    TENSOR_NOT_FREED = "every tensor allocated from a queue is freed before the kernel ends"


class Finding:
    """One mistake: its *rule*, a *text* that names what to do, the *instructions* that meet in it and their lines.

    *missing* is the event or barrier that would have ordered them ("MTE2_V", "PipeBarrier<MTE2>", "SyncAll"), if that
    is what is missing. *where* is the core that saw it first, *count* how often the same lines made it.
    """

    __slots__ = ("count", "instructions", "missing", "rule", "sites", "text", "where")

    def __init__(
        self,
        rule: Rule,
        text: str,
        where: str,
        sites: "tuple[Site, ...]",
        instructions: "tuple[Instruction, ...]" = (),
        missing: str = "",
    ) -> None:
        self.rule = rule
        self.text = text
        self.where = where
        self.sites = sites
        self.instructions = instructions
        self.missing = missing
        self.count = 1

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.rule.name} in {self.where}: {self.text}{times}"

    def __repr__(self) -> str:
        return f"<Finding {self}>"


class Findings:
    """The findings of a launch, in the order of their first sight; the same mistake at the same lines counts up."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[object, Finding] = {}

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found.values())

    def __repr__(self) -> str:
        return f"<Findings: {', '.join(finding.rule.name for finding in self) or 'none'}>"

    def seen(self, key: object) -> bool:
        """Count one more of *key*; False if it is new."""
        finding = self._found.get(key)
        if finding is None:
            return False
        finding.count += 1
        return True

    def add(self, key: object, finding: Finding) -> None:
        """Take in the first finding of *key*."""
        self._found[key] = finding


class KernelError(Exception):
    """A core kernel cannot go on. *what* is wrong, and the *remedy*."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.remedy else self.what


class KernelHangError(KernelError):
    """A core kernel would never end; *pipes* says what hangs: (core, pipe, the wait at its head)."""

    def __init__(self, what: str, remedy: str, pipes: "tuple[tuple[Program, Instruction], ...]" = ()) -> None:
        super().__init__(what, remedy)
        self.pipes = pipes


class KernelAssertionError(KernelError):
    """assert_() failed in a kernel; *message* says where and, if the launch is timed, at which cycle."""

    def __init__(self, message: "Message") -> None:
        super().__init__("an assertion of a kernel failed")
        self.message = message

    def __str__(self) -> str:
        instruction = self.message.instruction
        return f"assertion failed at {instruction.site}: {self.message}"
