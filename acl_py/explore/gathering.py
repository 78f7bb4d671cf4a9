"""What the sanitizer finds under all schedules that were tried: one list."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from acl_py.explore.outcomes import Outcome, Run
from acl_py.explore.shrinking import shrink
from acl_py.findings import Finding, Kind
from acl_py.many.crew import Crew
from acl_py.schedules import Decide


class Gathering:
    """Keeps what is found in any run.

    A run that has failed gives nothing back, so its leaks do not count.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, ...], tuple[Finding, Outcome]] = {}  # by their keys; the run that had it first

    def saw(self, outcome: Outcome) -> None:
        """Keep the findings of a run."""
        for finding in outcome.findings:
            if not (outcome.failure and finding.kind is Kind.LEAK):
                self._first.setdefault(finding.key, (finding, outcome))

    @property
    def findings(self) -> list[Finding]:
        """All findings, each once, in the order of the runs."""
        return [finding for finding, _ in self._first.values()]

    def shrunk(
        self, run: Run, findings: Sequence[Finding], tell: Callable[[Finding, Outcome], object], crew: Crew
    ) -> None:
        """Call *tell* with each of *findings* that the default schedule does not have, and the shortest way to it.

        *run* runs the program, on *crew*.
        """
        for finding in findings:
            outcome = self._first[finding.key][1]
            if outcome.deviations:
                tell(finding, shrink(Having(run, finding), replace(outcome, failure=str(finding)), crew=crew))


@dataclass(frozen=True, slots=True)
class Having:
    """Runs a program as *run* does. It fails if it has *finding*."""

    run: Run
    finding: Finding

    def __call__(self, decide: Decide) -> Outcome:
        """Run the program once."""
        outcome = self.run(decide)
        has_it = any(each.key == self.finding.key for each in outcome.findings)
        return replace(outcome, failure=str(self.finding) if has_it else "")
