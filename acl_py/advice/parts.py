"""The first part of a long run: a program that repeats itself shows there what its waits order and what they are worth.

What a wait is needed for in the part, it is needed for in the run: the order of a program's beginning does not depend
on what comes later. The reverse does not hold, so what is chosen in the part is judged and run again in the whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from acl_py.advice.lines import WaitLine
from acl_py.errors import DeadlockError
from acl_py.explain.cases import EditError
from acl_py.explain.whatif import Asker
from acl_py.programs.format import ProgramError
from acl_py.trace.rows.columns import op_columns
from acl_py.trace.rows.timeline import Timeline

FEWEST_OPS = 1_500  # of a part
SHARE = 4  # a part is a quarter of a run at most
ROUNDS = 16  # a line that waits so often does so in the part


@dataclass(frozen=True, slots=True)
class Part:
    """The run until *until_ns*, which has so many *ops*; *asker* has its program."""

    until_ns: int
    ops: int
    asker: Asker

    def of(self, line: WaitLine, timeline: Timeline) -> WaitLine:
        """Return *line* with those of its waits that are in the part."""
        calls = [index for index in line.calls if timeline.calls[index].exit_ns <= self.until_ns]
        awaits = [row for row in line.awaits if timeline.accesses[row].at_ns <= self.until_ns]
        return replace(line, calls=calls, awaits=awaits)


def part_of(asker: Asker, timeline: Timeline, lines: Sequence[WaitLine]) -> Part | None:
    """Return the part of the run in *timeline*, whose program *asker* has, that tells enough about *lines*; None if the
    run is short, or has no such part.
    """
    queued = sorted(op_columns(timeline.ops).queued_ns.tolist())
    if len(queued) < SHARE * FEWEST_OPS:
        return None
    until_ns = max([queued[FEWEST_OPS], *(_waited_ns(line, timeline) for line in lines if line.count >= ROUNDS)])
    if until_ns > queued[len(queued) // SHARE]:
        until_ns = queued[FEWEST_OPS]
    case, steps = asker.case, asker.case.program.steps
    kept = {call.step for call in asker.before.host if call.exit_us * 1000 <= until_ns}
    kept -= {step.index for step in steps if step.after is not None and step.after not in kept}
    try:
        own = Asker(case.with_steps(lambda step: [step] if step.index in kept else []))
    except (ProgramError, DeadlockError, EditError):  # what it begins with needs what comes later
        return None
    return Part(until_ns, sum(each <= until_ns for each in queued), own)


def _waited_ns(line: WaitLine, timeline: Timeline) -> int:
    """Return when *line* has waited often enough."""
    times = [timeline.calls[index].exit_ns for index in line.calls]
    times += [timeline.accesses[row].at_ns for row in line.awaits]
    return sorted(times)[ROUNDS - 1]
