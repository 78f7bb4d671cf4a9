"""What hosts did between two calls: they touched memory, awaited what was done, and handed one another what they knew.

None of it takes time. So an instant may have many such rows, and their order is what counts.
"""

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from acl_py.trace.rows.timeline import Timeline


class Deed(Enum):
    """What a host did: a row of accesses is a touch of memory or an await, and a handover is given and taken."""

    TOUCHED = "touched"
    GAVE = "gave"
    TOOK = "took"


class Between(NamedTuple):
    """One deed, *at_ns*; *row* is that of the access or of the handover. One that is taken for granted, and not *seen*,
    belongs to the call or access behind it: there the host was asked what it knows.
    """

    at_ns: int
    deed: Deed
    row: int
    seen: bool = True


def between_calls(timeline: Timeline, *, accesses: bool = False) -> list[Between]:
    """Return the deeds of all hosts that order something, in their order; on request also all *accesses*."""
    placed = sorted(_placed(timeline, accesses=accesses), key=lambda each: (each[1].at_ns, each[0]))
    return [deed for _, deed in placed]


def _placed(timeline: Timeline, *, accesses: bool) -> Iterator[tuple[tuple[int, int], Between]]:
    """Yield each deed behind its place: how many accesses and how many handovers come before it, in half steps."""
    for row, access in enumerate(timeline.accesses):
        if accesses or access.after is not None:
            yield (2 * row + 1, 0), Between(access.at_ns, Deed.TOUCHED, row)
    for row, handover in enumerate(timeline.handovers):
        given = 2 * _behind(handover.given_since), 2 * _behind(handover.given_taken)
        yield given, Between(handover.given_ns, Deed.GAVE, row, handover.seen)
        yield (2 * _behind(handover.since), 2 * row + 1), Between(handover.at_ns, Deed.TOOK, row, handover.seen)


def _behind(row: int | None) -> int:
    return 0 if row is None else row + 1
