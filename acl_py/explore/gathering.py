"""What the sanitizer finds under all schedules that were tried: one list."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from acl_py.explore.outcomes import Outcome, Run
from acl_py.explore.shrinking import shrink
from acl_py.findings import Finding, Kind
from acl_py.schedules import Decide


class Gathering:
    """Runs a program as *run* does, and keeps what is found in any of the runs.

    A run that has failed gives nothing back, so its leaks do not count.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._first: dict[tuple[str, ...], tuple[Finding, Outcome]] = {}  # by their keys; the run that had it first

    def __call__(self, decide: Decide) -> Outcome:
        """Run the program once."""
        outcome = self._run(decide)
        for finding in outcome.findings:
            if not (outcome.failure and finding.kind is Kind.LEAK):
                self._first.setdefault(finding.key, (finding, outcome))
        return outcome

    @property
    def findings(self) -> list[Finding]:
        """All findings, each once, in the order of the runs."""
        return [finding for finding, _ in self._first.values()]

    def shrunk(self, findings: Sequence[Finding], tell: Callable[[Finding, Outcome], object]) -> None:
        """Call *tell* with each of *findings* that the default schedule does not have, and the shortest way to it."""
        for finding in findings:
            outcome = self._first[finding.key][1]
            if outcome.deviations:
                tell(finding, shrink(self._having(finding), replace(outcome, failure=str(finding))))

    def _having(self, finding: Finding) -> Run:
        """Return what runs the program, and fails if it has *finding*."""

        def run(decide: Decide) -> Outcome:
            outcome = self._run(decide)
            has_it = any(each.key == finding.key for each in outcome.findings)
            return replace(outcome, failure=str(finding) if has_it else "")

        return run
