"""The lines of a program that wait, and what is known of each wait without a look at what it orders."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from pathlib import PurePath

import numpy as np

from acl_py.advice.pairs import Doubt
from acl_py.calls import acts
from acl_py.causes.captured import Captured
from acl_py.causes.relation import At, Node
from acl_py.causes.walk import tells
from acl_py.trace.rows.columns import call_columns
from acl_py.trace.rows.reading import short_site
from acl_py.trace.rows.timeline import Access, Call, Ref, Timeline

_PACKAGES = ("site-packages", "dist-packages")


class Strength(IntEnum):
    """How much a wait covers; the strongest first."""

    DEVICE = 0
    STREAM = 1
    EVENT = 2
    OPERATION = 3
    IN_STREAM = 4


_STRENGTHS = {"device": Strength.DEVICE, "context": Strength.DEVICE, "stream": Strength.STREAM, "event": Strength.EVENT}


@dataclass(slots=True)
class WaitLine:
    """One line that waits: *calls* are the indices of its calls, *awaits* rows of accesses. *last* counts those that it
    has made besides, which stay.
    """

    site: str
    file: str
    called: str
    strength: Strength
    calls: list[int] = field(default_factory=list)
    awaits: list[int] = field(default_factory=list)
    last: int = 0

    @property
    def call(self) -> str:
        """What the line does, for people: `SynchronizeStream()`, or `await`."""
        return self.called if self.called == "await" else f"{self.called}()"

    @property
    def count(self) -> int:
        """How many waits it has made, without the last ones."""
        return len(self.calls) + len(self.awaits)

    @property
    def by_host(self) -> bool:
        """Whether the host waits."""
        return self.strength is not Strength.IN_STREAM

    def without_last(self, calls: Collection[int], awaits: Collection[int]) -> "WaitLine":
        """Return this line without some of its waits, which are the last ones."""
        kept = (
            [each for each in self.calls if each not in calls],
            [each for each in self.awaits if each not in awaits],
        )
        last = self.last + self.count - sum(map(len, kept))
        return WaitLine(self.site, self.file, self.called, self.strength, *kept, last)

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from other lines."""
        return self.site, self.called


def wait_lines(timeline: Timeline) -> list[WaitLine]:
    """Return the lines that wait, and that a program can do without: calls that also copy are none of them."""
    lines: dict[tuple[str, str], WaitLine] = {}
    for index, call in enumerate(timeline.calls):
        strength = _strength(call, timeline)
        if strength is not None:
            _line(lines, call, call.called, strength).calls.append(index)
    for row, access in enumerate(timeline.accesses):
        if access.after is not None:
            _line(lines, access, "await", Strength.OPERATION).awaits.append(row)
    return [*lines.values()]


def _line(lines: dict[tuple[str, str], WaitLine], row: Call | Access, called: str, strength: Strength) -> WaitLine:
    site = short_site(row.file, row.line)
    line = lines.setdefault((site, called), WaitLine(site, row.file, called, strength))
    line.strength = min(line.strength, strength)
    return line


def _strength(call: Call, timeline: Timeline) -> Strength | None:
    match call.act:
        case acts.Synchronised(None):
            return Strength.OPERATION if call.after is not None else None
        case acts.Synchronised(Ref(handle)):
            return _STRENGTHS.get(timeline.handles[handle].kind)
        case acts.Waited() | acts.Awaited():
            return Strength.IN_STREAM
    return None


class Doubtful:
    """What makes it doubtful whether a wait of a timeline can be left out, whatever it orders."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._captured = Captured(timeline).calls
        failed = [each.at_ns for each in timeline.failures] + [each.at_ns for each in timeline.strikes]
        self._failed_ns = min(failed, default=None)
        self._waits: defaultdict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)
        for index, call in enumerate(timeline.calls):
            if isinstance(call.act, acts.Synchronised | acts.Completed):
                self._waits[call.caller, call.by].append((index, 0, index))
        for row, access in enumerate(timeline.accesses):
            if access.after is not None:
                self._waits[access.caller, access.by].append((_behind(access.behind), 1, row))
        for waits in self._waits.values():
            waits.sort()
        self._tells = self._told()

    @property
    def last(self) -> tuple[set[int], set[int]]:
        """The last waits of all tasks and threads: calls, and rows of accesses."""
        last = [waits[-1] for waits in self._waits.values()]
        return {index for _, is_row, index in last if not is_row}, {row for _, is_row, row in last if is_row}

    def of(self, line: WaitLine) -> Doubt | None:
        """Return why a wait of *line* cannot be left out; None if nothing is known against it."""
        if any(part in _PACKAGES for part in PurePath(line.file).parts):
            return Doubt.FOREIGN
        if not self._captured.isdisjoint(line.calls):
            return Doubt.CAPTURE
        rows = [self._timeline.calls[index] for index in line.calls]
        if any(_has_limit(call) for call in rows):
            return Doubt.LIMIT
        if any(_takes_signal(call, self._timeline) for call in rows):
            return Doubt.SIGNAL
        return Doubt.FAILURE if line.by_host and self._shows_failure(line) else None

    def _shows_failure(self, line: WaitLine) -> bool:
        timeline = self._timeline
        ends = [timeline.calls[index].exit_ns for index in line.calls]
        ends += [timeline.accesses[row].at_ns for row in line.awaits]
        return self._failed_ns is not None and any(end >= self._failed_ns for end in ends)

    def told(self, line: WaitLine, calls: Collection[int], awaits: Collection[int]) -> Iterator[Node]:
        """Yield where something is told behind a wait of *line*, by those who wait there, if *calls* and *awaits* go. A
        handover counts before the next wait that stays.
        """
        if not line.by_host:
            return
        timeline = self._timeline
        waits: defaultdict[tuple[str, int], set[tuple[int, int, int]]] = defaultdict(set)
        for index in line.calls:
            call = timeline.calls[index]
            waits[call.caller, call.by].add((index, 0, index))
        for row in line.awaits:
            access = timeline.accesses[row]
            waits[access.caller, access.by].add((_behind(access.behind), 1, row))
        for caller, own in waits.items():
            tells = self._tells[caller]
            for behind, node in islice(tells, bisect_left(tells, (min(own)[0],)), None):
                if node.at is not At.GAVE or self._is_next(caller, own, behind, calls, awaits):
                    yield node

    def _is_next(
        self,
        caller: tuple[str, int],
        own: Container[tuple[int, int, int]],
        behind: int,
        calls: Collection[int],
        awaits: Collection[int],
    ) -> bool:
        """Whether the last wait of *caller* up to the call *behind* is one of *own*.

        Waits among *calls* and *awaits* are passed over.
        """
        waits = self._waits[caller]
        place = bisect_left(waits, (behind + 1,)) - 1
        while place >= 0:
            if waits[place] in own:
                return True
            if waits[place][2] not in (awaits if waits[place][1] else calls):
                return False
            place -= 1
        return False

    def _told(self) -> defaultdict[tuple[str, int], list[tuple[int, Node]]]:
        """Return for each task or thread where it tells something, with the call that it has behind it. It tells
        something if it asks for a time or whether work is done, or hands over what it knows.
        """
        timeline = self._timeline
        told: defaultdict[tuple[str, int], list[tuple[int, Node]]] = defaultdict(list)
        calls = call_columns(timeline.calls)
        for index in np.flatnonzero(np.array([*map(tells, calls.kinds)], bool)[calls.kind]).tolist():
            told[calls.callers[calls.caller[index]], calls.by[calls.caller[index]]].append(
                (index - 1, Node(At.ENTRY, index))
            )
        for row, access in enumerate(timeline.accesses):
            if access.after is None and not access.extents:  # it has read the clock
                told[access.caller, access.by].append((_behind(access.behind), Node(At.ACCESS, row)))
        for row, handover in enumerate(timeline.handovers):
            if handover.giver is not None:
                for caller in timeline.hosts[handover.giver].callers:
                    told[caller.name, caller.by].append((_behind(handover.given_behind), Node(At.GAVE, row)))
        for places in told.values():
            places.sort()
        return told


def _behind(call: int | None) -> int:
    return -1 if call is None else call


def _has_limit(call: Call) -> bool:
    match call.act:
        case acts.Synchronised(_, limit) | acts.Awaited(_, _, _, _, limit):
            return bool(limit)
    return False


def _takes_signal(call: Call, timeline: Timeline) -> bool:
    match call.act:
        case acts.Awaited():
            return True
        case acts.Waited(Ref(event)):
            return timeline.handles[event].options.get("class") == "flag"
    return False


def waits_of(lines: Sequence[WaitLine]) -> tuple[frozenset[int], frozenset[int]]:
    """Return the calls and the rows of accesses of all *lines*."""
    return (
        frozenset(index for line in lines for index in line.calls),
        frozenset(row for line in lines for row in line.awaits),
    )
