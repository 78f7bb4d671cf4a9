"""The simulations of a program of verbs that `acl-py run` runs: the summary of the last one comes when it has ended."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from acl_py.findings import Findings
from acl_py.parts import SanitizerPart
from acl_py.sanitizer.watch import of_verbs

if TYPE_CHECKING:
    from acl_py.simulation import Simulation
    from acl_py.trace.rows.timeline import Timeline


class OwnSimulations:
    """Keeps the simulation that began last, and no earlier one: its memory may be large."""

    def __init__(self, parts: frozenset[SanitizerPart]) -> None:
        """Follow the simulations from here on. *parts* are those of the sanitizer, whose report follows."""
        of_verbs.append(self._follow)
        self._parts = parts
        self._last: Simulation | None = None
        self._count = 0

    def _follow(self, simulation: "Simulation") -> None:
        self._last = simulation
        self._count += 1

    @property
    def has_begun(self) -> bool:
        """Whether there was a simulation."""
        return self._last is not None

    def show(self, _: "Sequence[Timeline]") -> bool:
        """Print the summary, if there was a simulation in which the program has done something; it writes no file.

        Findings and leaks are left out if the report of the sanitizer has them. A program that has ended well
        and has asked for the report of all its work gets no summary, because the report says the same.
        """
        if self._last is None or not self._last.runtime.host_ns:
            return True
        from acl_py.runtime.leaks import leaks_of  # imported here: scripts of acl and CUDA have no such simulation
        from acl_py.simulation import has_reported, recorder_of
        from acl_py.trace.views.summary import summarize

        if has_reported(self._last):
            return True
        runtime, trace = self._last.runtime, recorder_of(self._last)
        found = runtime.state(Findings)
        has_failed = trace is not None and bool(trace.error)  # it could not give everything back
        leaks = () if SanitizerPart.LEAKS in self._parts or has_failed else leaks_of(runtime)
        which = "" if self._count == 1 else f"the last of {self._count:,} simulations: "
        text = summarize(runtime, trace, () if found.is_quiet else found, leaks)
        print(f"acl-py: {which}{text}", file=sys.stderr)
        return True
