"""Limits: a run fails, too, if it takes much longer than the one under the default schedule."""

from dataclasses import dataclass, replace

from acl_py.causes.lines import us
from acl_py.explore.outcomes import Outcome, Run
from acl_py.schedules import Decide


class UntimedError(Exception):
    """The program has no time that could be limited."""


@dataclass(frozen=True, slots=True)
class Limited:
    """Runs a program as *run* does. It fails if it takes more than *over_ns* longer than *usual_ns*."""

    run: Run
    usual_ns: int
    over_ns: float

    def __call__(self, decide: Decide) -> Outcome:
        """Run the program once."""
        outcome = self.run(decide)
        more_ns = outcome.ns - self.usual_ns
        if outcome.failure or more_ns <= self.over_ns:
            return outcome
        failure = f"it takes {us(outcome.ns)}, {us(more_ns)} more than under the default schedule"
        return replace(outcome, failure=failure)


def limited(run: Run, default: Outcome, over_ns: float) -> Limited:
    """Return what runs a program as *run* does, and lets it take no more than *over_ns* longer than *default*.

    Raises:
        UntimedError: nothing says how long that took.
    """
    if not default.ns:
        raise UntimedError(
            "--fail-over compares simulated times, but the script ran no simulation that keeps a trace: leave "
            "--fail-over out, or trace=False"
        )
    return Limited(run, default.ns, over_ns)
