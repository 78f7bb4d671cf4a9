"""Advice that is followed: the edits of all findings that are safe, one after the other, in the program of a run.

The edit that is worth most is made, the edited program is run and asked again, and so on. An edit is safe if it leaves
no work on the same bytes without order and changes nothing but the program. Each is worth what it gains behind those
before it, so the gains add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from acl_py.causes.lines import us
from acl_py.explain.prices import Priced, prices
from acl_py.explain.whatif import Asker
from acl_py.programs.format import Program
from acl_py.recorded import not_known
from acl_py.trace.rows.timeline import Timeline

_MOST = 12  # edits


@dataclass(frozen=True, slots=True)
class Applied:
    """The edits that were made, those that are worth most first, how long the program took before and takes now, and
    the edited *program*.
    """

    edits: Sequence[Priced]
    before_ns: int
    after_ns: int
    program: Program

    @property
    def text(self) -> str:
        """The edits as plain text, a line for each."""
        if not self.edits:
            return f"{us(self.before_ns)}: no safe edit is worth 1 % of the run"
        count = "1 edit" if len(self.edits) == 1 else f"{len(self.edits)} edits"
        lines = [f"{us(self.before_ns)} -> {us(self.after_ns)} with {count}, those that are worth most first:"]
        notes: dict[str, None] = {}
        for number, each in enumerate(self.edits, 1):
            assert each.answer is not None, "what was made has an answer"
            lines.append(f"  {number}. {each.finding.text}. Worth {us(each.answer.gain_ns)}.")
            lines += each.diff
            notes |= dict.fromkeys(each.answer.notes)
        return "\n".join([*lines, *not_known(notes)])


def apply_advice(asker: Asker, timeline: Timeline) -> Applied:
    """Make all safe edits of the program of *asker*, whose recording, or that of its replay, is *timeline*."""
    made: list[Priced] = []
    before_ns, program = asker.before_ns, asker.case.program
    while len(made) < _MOST:
        best = next((each for each in prices(asker, timeline) if _is_safe(asker, each)), None)
        if best is None:
            break
        assert best.answer is not None, "what is safe has an answer"
        made.append(best)
        program = best.answer.case.program
        asker = Asker(replace(best.answer.case, program=best.answer.run.program))  # it keeps the lines of the steps
        timeline = asker.timeline
    made.sort(key=lambda each: -each.answer.gain_ns if each.answer is not None else 0)
    return Applied(made, before_ns, asker.before_ns, program)


def _is_safe(asker: Asker, priced: Priced) -> bool:
    """Whether the edit of *priced* gains something, keeps the order, and is one of the program."""
    answer = priced.answer
    return (
        answer is not None and not priced.is_minor and not answer.conflicts and answer.case.device == asker.case.device
    )
