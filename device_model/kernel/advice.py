"""Advice on a kernel: what a launch would save if some of its lines followed a guideline."""

from dataclasses import dataclass
from enum import Enum
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """A line of a kernel that does not follow a guideline.

    Attributes:
        site: The line, a `Site`, or for PTX a `Place`.
        name: Its instruction and pipe.
        count: How often it did not follow the guideline.
        what: What it does instead.
    """

    site: Any
    name: str
    count: int
    what: str

    def __str__(self) -> str:
        return f"{self.site}: {self.name} {self.what}" + (f" ({self.count:,} times)" if self.count > 1 else "")


@dataclass(frozen=True, slots=True)
class Advice:
    """A guideline that some lines of a kernel do not follow; str() is the text for users.

    Attributes:
        guideline: The guideline.
        cases: The lines.
        saved_us: The time that the launch would save, in us, if all of them followed it. Rarely it is negative: cores
            that finish earlier compete for bandwidth at other times.
    """

    guideline: Enum
    cases: tuple[Case, ...]
    saved_us: float

    def __str__(self) -> str:
        worth = f"costs {self.saved_us:.2f} us of the launch" if self.saved_us >= 0.005 else "costs this launch nothing"
        lines = [f"{self.guideline.name} {worth}: {self.guideline.value}", *map(str, self.cases)]
        return "\n  ".join(lines)
