"""Mistakes in kernels: findings, after which the kernel goes on, and errors, which end it.

    KernelError            the kernel cannot go on: memory or event ids are used up, or an argument is impossible
     └─ KernelHangError         a wait of the kernel can never end

Some mistakes do not stop a card: it runs on, and the results are wrong, or right by luck. Such a mistake is a
`Finding`. The kernel goes on here too, and the result of the launch lists each mistake once, with a count.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

WITHOUT_VALUES = "launch it with values, or give the kernel what it needs as a plain argument"


class KernelRule(Enum):
    """A rule that a kernel can break; each kind of kernel has an enumeration of its own.

    The value of a member says what holds when the rule is kept.
    """


class Finding:
    """One mistake of a kernel, after which the kernel went on.

    Attributes:
        rule: The rule that was broken.
        text: What is wrong and what to do.
        where: The core or block that made the mistake first, as "block 0 (AIV)".
        sites: The lines of the kernel that are involved, each a `Site`, or for PTX a `Place`.
        instructions: The instructions that are involved, for a hazard the earlier one first; may be empty.
        missing: What the kernel lacks: what would have ordered the accesses, such as "MTE2_V" or "syncthreads()", or a
            write; "" if the mistake is of another kind.
        count: How often the same lines made the same mistake.
        is_harmless: Whether it is known to have changed no result of this launch.
    """

    __slots__ = ("count", "instructions", "is_harmless", "missing", "rule", "sites", "text", "where")

    def __init__(
        self,
        rule: KernelRule,
        text: str,
        where: str,
        sites: tuple[Any, ...],
        instructions: tuple[Any, ...] = (),
        missing: str = "",
    ) -> None:
        self.rule = rule
        self.text = text
        self.where = where
        self.sites = sites
        self.instructions = instructions
        self.missing = missing
        self.count = 1
        self.is_harmless = False

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        harmless = "; harmless here: with other bytes there the results are the same" if self.is_harmless else ""
        return f"{self.rule.name} in {self.where}: {self.text}{harmless}{times}"

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


NO_FINDINGS = Findings()  # of launches in which nothing was found


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

    def __init__(self, what: str, remedy: str, pipes: Sequence[tuple[Any, Any]] = ()) -> None:
        super().__init__(what, remedy)
        self.pipes = pipes
