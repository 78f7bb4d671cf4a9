"""What came out of one run of a program under a schedule."""

from collections.abc import Callable
from dataclasses import dataclass

from acl_py.findings import Finding
from acl_py.schedules import Decide, Deviation, Point


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of a program.

    Attributes:
        failure: How it failed, in a line or more; "" if it did not.
        deviations: Where the run was not the default one.
        texts: What each deviation did, as a sentence.
        points: All choice points, in order; none if the process did not reach its end.
        findings: What the sanitizer found, if it was asked for.
        ns: How long its simulations took, in simulated time; 0 unless that was asked for.
    """

    failure: str
    deviations: tuple[Deviation, ...] = ()
    texts: tuple[str, ...] = ()
    points: tuple[Point, ...] = ()
    findings: tuple[Finding, ...] = ()
    ns: int = 0


Run = Callable[[Decide], Outcome]  # runs the program once
