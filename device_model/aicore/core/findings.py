"""Mistakes in kernels: findings, after which the kernel goes on, and errors, which end it.

    KernelError            the kernel cannot go on: memory or event ids are used up, or an argument is impossible
     ├─ KernelHangError         a wait of the kernel can never end, on this core or for another one
     └─ KernelAssertionError    assert_() failed

Some mistakes do not stop a card: it runs on, and the results are wrong, or right by luck. Such a mistake is a
`Finding`. The kernel goes on here too, and the result of the launch lists each mistake once, with a count.
"""

from collections.abc import Iterator
from enum import Enum

from device_model.aicore.core.program import Instruction, Message, Program, Site


class Rule(Enum):
    """The rules that a kernel can break; the value says what holds when the rule is kept."""

    RAW = "a read starts after the write of the same bytes has finished"
    WAR = "a write starts after the reads of the bytes that it overwrites have finished"
    WAW = "a write starts after an earlier write of the same bytes has finished"
    UNWRITTEN_READ = "bytes are written before they are read"
    UNWRITTEN_OUT = "every byte of an Out argument is written"
    DOUBLE_SET = "a flag is waited for before it is set again"
    LATE_SET = "a flag is set before the wait for it is issued"
    FLAG_LEFT_SET = "every flag that is set is waited for before the kernel ends"
    FETCHED_TWICE = "of two flags with the same id from FetchEventID, one is waited for before the other is set"
    RELEASED_TWICE = "an event id is released only once, and only after it was allocated"
    WAIT_TIMEOUT = "a wait with a time limit sees its flag in time"
    TAIL_DROPPED = "a copy moves whole blocks of 32 bytes"
    PARTIAL_OVERLAP = "an instruction does not overwrite bytes of its source that it still has to read"
    SHARED_LINE = "the scalar pipes of two cores do not write to one 64-byte line of GM"
    NOT_FLUSHED = "scalar writes to GM are flushed with DataCacheCleanAndInvalid"
    CROSS_OVERFLOW = "the counter of a cross-core flag never exceeds 15"
    CROSS_LEFT_SET = "every cross-core flag that is set is waited for before the kernel ends"
    RESERVED_FLAG = "a kernel that calls SyncAll uses cross-core flags 0 to 10 only"
    TENSOR_NOT_FREED = "every tensor allocated from a queue is freed before the kernel ends"


class Finding:
    """One mistake of a kernel, after which the kernel went on.

    Attributes:
        rule: The `Rule` that was broken.
        text: What is wrong and what to do.
        where: The core that made the mistake first, as "block 0 (AIV)".
        sites: The lines of the kernel that are involved, each a `Site`.
        instructions: The instructions that are involved, for a hazard the earlier one first; may be empty.
        missing: What the kernel lacks: the event or barrier that would have ordered them, such as "MTE2_V" or
            "PipeBarrier<MTE2>", or a write; "" if the mistake is of another kind.
        count: How often the same lines made the same mistake.
    """

    __slots__ = ("count", "instructions", "missing", "rule", "sites", "text", "where")

    def __init__(
        self,
        rule: Rule,
        text: str,
        where: str,
        sites: tuple[Site, ...],
        instructions: tuple[Instruction, ...] = (),
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
    """The findings of a launch, in the order in which they were first made.

    The same mistake at the same lines is one finding; its `count` goes up.
    """

    __slots__ = ("_findings",)

    def __init__(self) -> None:
        self._findings: dict[object, Finding] = {}

    def __len__(self) -> int:
        return len(self._findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._findings.values())

    def __repr__(self) -> str:
        return f"<Findings: {', '.join(finding.rule.name for finding in self) or 'none'}>"

    def seen(self, key: object) -> bool:
        """Count the finding of *key* once more; return False if there is none yet."""
        finding = self._findings.get(key)
        if finding is None:
            return False
        finding.count += 1
        return True

    def add(self, key: object, finding: Finding) -> None:
        """Add *finding*, the first one of *key*."""
        self._findings[key] = finding


class KernelError(Exception):
    """A core kernel cannot go on. *what* says what is wrong, *remedy* what to do about it."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.remedy else self.what


class KernelHangError(KernelError):
    """A core kernel would never end. *pipes* holds, for each pipe that hangs, its program and the wait at its head."""

    def __init__(self, what: str, remedy: str, pipes: tuple[tuple[Program, Instruction], ...] = ()) -> None:
        super().__init__(what, remedy)
        self.pipes = pipes


class KernelAssertionError(KernelError):
    """assert_() failed in a kernel. *message* says where and, if the launch is timed, at which core cycle."""

    def __init__(self, message: Message) -> None:
        super().__init__("an assertion of a kernel failed")
        self.message = message

    def __str__(self) -> str:
        instruction = self.message.instruction
        return f"assertion failed at {instruction.site}: {self.message}"
