"""How accesses that are not ordered become findings."""

from array import array
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from device_model.kernel.findings import Findings
from device_model.ptx.checks.lines import Access
from device_model.ptx.checks.rules import PtxFinding, Rule
from device_model.ptx.checks.shadows import LANE, STAMP, STRONG
from device_model.ptx.lanes.group import WARP, Array, Ints
from device_model.ptx.lanes.launch import Launch, indices
from device_model.ptx.lanes.program import Place

_MOST = 8  # earlier accesses that one access is told about
_VERBS = {Rule.RAW: ("reads", "may still write it"), Rule.WAR: ("writes", "may still read it"),
          Rule.WAW: ("writes", "may still write it")}  # fmt: skip


ATOMIC = "an atomic operation"  # what is missing between two blocks
NARROW = "the scope of the device"
NO_RELEASE, NO_ACQUIRE = "a fence before the flag is set", "a fence after the flag is read"


class Suspects(NamedTuple):
    """Lanes that access what others have accessed since the last barrier.

    Attributes:
        at: Which of the granules of the access.
        lane: The lane that accesses it now.
        other: The lane that did before.
        stamp: When that was.
    """

    at: Ints
    lane: Ints
    other: Ints
    stamp: Ints

    def part(self, mask: Array) -> "Suspects":
        """Return those for which *mask* is true."""
        return Suspects(self.at[mask], self.lane[mask], self.other[mask], self.stamp[mask])


def suspects(words: Array, mine: Array, floor: int) -> Suspects | None:
    """Return the accesses of *mine* that meet earlier ones in *words* of another lane, with a stamp from *floor* on."""
    if np.maximum.reduce(words) < floor << STAMP:
        return None
    apart = (words >= floor << STAMP) & ((words ^ mine) & LANE != 0) & (words & mine & STRONG == 0)
    at = np.flatnonzero(apart)
    if not len(at):
        return None
    found = words[at]
    return Suspects(at, mine[at] & LANE, found & LANE, found >> STAMP)


class Report:
    """Makes findings of a launch.

    Attributes:
        findings: All of them.
    """

    def __init__(self, launch: Launch, places: Mapping[int, Place]) -> None:
        self.findings = Findings()
        self._launch = launch
        self._places = places
        self._accesses: list[Access] = []
        self._numbers: dict[Access, int] = {}
        self._by_stamp = array("i", [0])  # the number of the access with this stamp; stamps begin at 1

    @property
    def now(self) -> int:
        """The stamp of the last access."""
        return len(self._by_stamp) - 1

    def stamp(self, access: Access) -> int:
        """Note *access*; return its stamp."""
        number = self._numbers.get(access)
        if number is None:
            number = self._numbers[access] = len(self._accesses)
            self._accesses.append(access)
        self._by_stamp.append(number)
        return self.now

    def access(self, stamp: int) -> Access:
        """Return the access that has this *stamp*."""
        return self._accesses[self._by_stamp[stamp]]

    def place(self, line: int) -> Place:
        """Return a line of PTX with its line of the source."""
        return self._places.get(line) or Place(line)

    def find(self, rule: Rule, block: int, thread: int, text: str, lines: tuple[int, ...], missing: str = "") -> None:
        """Make a finding, or count it; in *text* the place of the lane stands before what is said of it."""
        places = tuple(map(self.place, lines))
        key = (rule, missing, *((place.file, place.source) if place.file else place.line for place in places))
        if self.findings.seen(key):  # a compiler makes several lines of PTX of one line
            return
        launch = self._launch
        where = f"block {indices(block, launch.grid)}, thread {indices(thread, launch.block)}"
        self.findings.add(key, PtxFinding(rule, text, where, (block, thread), places, missing))

    def race(
        self, rule: Rule, first_block: int, wrong: Suspects, access: Access, what: Callable[[int], str],
        between: str = ATOMIC,
    ) -> None:  # fmt: skip
        """Report *wrong*, whose lanes are counted from *first_block* on.

        *what* names the bytes of one of them, and *between* what is missing between two blocks.
        """
        threads = self._launch.threads
        stamps = np.unique(wrong.stamp)[-_MOST:]
        for stamp in stamps.tolist():
            at = np.flatnonzero(wrong.stamp == stamp)
            lane, other = wrong.lane[at], wrong.other[at]
            far = (lane // threads != other // threads) * 2 + (lane % threads // WARP != other % threads // WARP)
            worst = int(at[int(far.argmax())])
            self._race(rule, first_block, worst, wrong, access, what, between)

    def _race(
        self, rule: Rule, first_block: int, worst: int, wrong: Suspects, access: Access, what: Callable[[int], str],
        between: str,
    ) -> None:  # fmt: skip
        launch = self._launch
        before = self.access(int(wrong.stamp[worst]))
        block, thread = divmod(int(wrong.lane[worst]), launch.threads)
        other_block, other = divmod(int(wrong.other[worst]), launch.threads)
        is_far = block != other_block
        near = "syncwarp" if thread // WARP == other // WARP else "bar.sync"
        missing = between if is_far else near
        verb, still = _VERBS[rule]
        whose = f"thread {indices(other, launch.block)}"
        if is_far:
            whose += f" of block {indices(first_block + other_block, launch.grid)}"
        text = (
            f"thread {indices(thread, launch.block)} {verb} {what(int(wrong.at[worst]))} in {self.place(access.line)} "
            f"while {whose} {still}, in {self.place(before.line)}; missing {missing}"
        )
        self.find(rule, first_block + block, thread, text, (before.line, access.line), missing)

    def two_writers(self, block: int, thread: int, other: int, what: str, access: Access) -> None:
        """Report that two threads store different values to *what* in one instruction."""
        text = (
            f"threads {indices(thread, self._launch.block)} and {indices(other, self._launch.block)} store different "
            f"values to {what} in {self.place(access.line)}; which one stays is not defined"
        )
        self.find(Rule.TWO_WRITERS, block, thread, text, (access.line,))
