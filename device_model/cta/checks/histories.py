"""Histories: what blocks did with shared memory, so that steps that an earlier block took are not checked again.

Whether an access is a hazard follows from the steps of its block so far: accesses, copies, waits and barriers, with
their lines, threads and addresses. It does not follow from values. So a block that has taken the same steps as an
earlier one has the same findings, and its steps are only noted. At the first step that no earlier block took from
there, the checks of the noted steps are made up for, without their findings, and from there on each step is checked.
"""

from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from types import CodeType

import numpy as np

from device_model.kernel.sites import Site
from device_model.sm.names import Ints

_MOST = 1 << 18  # steps that are kept; a kernel may have more if its addresses follow from its data
_DIGEST = 16  # bytes: what two histories with the same digest differ in is not to be found by chance


class Histories:
    """The histories of all blocks of a launch, and the lines of the kernel in them.

    Attributes:
        findings: By digest of a history, the keys of the findings that its last step makes.
    """

    __slots__ = ("_numbers", "_sites", "findings")

    def __init__(self) -> None:
        self.findings: dict[bytes, list[Hashable]] = {}
        self._sites: list[Site] = []
        self._numbers: dict[tuple[int, int], int] = {}

    def site_number(self, code: CodeType, lasti: int) -> int:
        """Return a number for this line, the same in all blocks; `site_of` gives the line back."""
        key = (id(code), lasti)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._sites)
            self._sites.append(Site(code, lasti))
        return number

    def site_of(self, number: int) -> Site:
        """Return the line with this *number*."""
        return self._sites[number]


class History:
    """The steps of one block so far.

    Args:
        histories: Those of all blocks.
        count: Counts a finding that an earlier block made, by its key.
        replay: Does calls that were noted, without their findings.
    """

    __slots__ = ("_calls", "_count", "_digest", "_histories", "_made", "_replay")

    def __init__(
        self,
        histories: Histories,
        count: Callable[[Hashable], object],
        replay: Callable[[Sequence[Callable[[], object]]], None],
    ) -> None:
        self._histories = histories
        self._count = count
        self._replay = replay
        self._digest = blake2b(digest_size=_DIGEST)
        self._calls: list[Callable[[], object]] | None = []  # noted; None: this block is the first to come here
        self._made: list[Hashable] = []

    def is_known(self, call: Callable[[], object], name: str, *arrays: Ints) -> bool:
        """Take the step *name* with *arrays*; return whether an earlier block did, so that *call* need not check it."""
        digest = self._digest
        digest.update(f"{name} {[each.shape for each in arrays]}".encode())
        for each in arrays:
            digest.update(np.ascontiguousarray(each).reshape(-1).data)
        key, findings = digest.digest(), self._histories.findings
        if self._calls is not None:
            if (known := findings.get(key)) is not None:
                self._calls.append(call)
                for finding in known:
                    self._count(finding)
                return True
            calls, self._calls = self._calls, None
            self._replay(calls)
        self._made = []
        if len(findings) < _MOST:
            findings[key] = self._made
        return False

    def add(self, finding: Hashable) -> None:
        """Note the key of a finding that the last step has made."""
        self._made.append(finding)

    def forget(self) -> None:
        """Let go of the block: a launch collects no garbage, so a cycle would keep the rows of all blocks."""
        self._calls = None
        del self._replay
