"""Advice that is followed: all edits that are safe, one after the other, in the program of a run.

The edit of the finding that is worth most is made, the edited program is run and asked again, and so on. Then go the
waits that are not needed, all together: not before, because a wait may be needless only beside a barrier that another
edit takes away. An edit is safe if it leaves no work on the same bytes without order and changes nothing but the
program. Each is worth what it gains behind those before it, so the gains add up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from acl_py.advice.choosing import missing
from acl_py.advice.texts import Words
from acl_py.causes.lines import us
from acl_py.explain.prices import Priced, prices
from acl_py.explain.whatif import Answer, Asker
from acl_py.programs.format import Program
from acl_py.recorded import not_known
from acl_py.tools.explanation import Explanation, View
from acl_py.trace.rows.timeline import Timeline

_MOST = 12  # edits


@dataclass(frozen=True, slots=True)
class Applied:
    """What was made: the *edits* of findings, those that are worth most first, and then what advice about *waits* says,
    or why there is none. *before_ns* and *after_ns* are how long the program worked then and works now, *program* is
    the edited one.
    """

    edits: Sequence[Priced]
    waits: Words | str
    before_ns: int
    after_ns: int
    program: Program

    @property
    def text(self) -> str:
        """All of it as plain text."""
        lines = [f"all that is safe: {us(self.before_ns)} -> {us(self.after_ns)}"]
        lines.append(f"edits: {len(self.edits)}" if self.edits else "edits: none: no safe one is worth 1 % of the run")
        notes: dict[str, None] = {}
        for number, each in enumerate(self.edits, 1):
            answer = _answer(each)
            lines += [f"  {number}. {each.finding.text}. Worth {us(answer.gain_ns)}.", *each.diff]
            notes |= dict.fromkeys(answer.notes)
        lines += not_known(notes)
        return "\n".join([*lines, self.waits if isinstance(self.waits, str) else self.waits.text])


def apply_advice(asker: Asker, timeline: Timeline, advance: Callable[[], object] = lambda: None) -> Applied:
    """Make all safe edits of the program of *asker*, whose recording, or that of its replay, is *timeline*. *advance*
    is called behind each edit.
    """
    lacks, before_ns, program = missing(timeline), asker.worked_ns, asker.case.program
    made: list[Priced] = []
    while len(made) < _MOST:
        best = next((each for each in prices(asker, timeline) if _is_safe(asker, each)), None)
        if best is None:
            break
        made.append(best)
        advance()
        asker, program = _edited(_answer(best)), _answer(best).case.program
        # The program has the accesses that were recorded; its replay is not watched.
        watched, handed = timeline.host_watched, timeline.handovers_watched
        timeline = replace(asker.timeline, host_watched=watched, handovers_watched=handed)
    made.sort(key=lambda each: -_answer(each).gain_ns)
    waits = lacks or Explanation(timeline, asker, View()).advice
    after_ns = asker.worked_ns
    if not isinstance(waits, str) and waits.together is not None:
        program, after_ns = waits.together.case.program, waits.together.worked_ns[1]
    return Applied(made, waits, before_ns, after_ns, program)


def _edited(answer: Answer) -> Asker:
    """Return an asker for the program of *answer*, whose steps keep their lines."""
    return Asker(replace(answer.case, program=answer.run.program))


def _answer(made: Priced) -> Answer:
    assert made.answer is not None, "what was made has an answer"
    return made.answer


def _is_safe(asker: Asker, priced: Priced) -> bool:
    """Whether the edit of *priced* gains something, keeps the order, and is one of the program."""
    answer = priced.answer
    if answer is None or priced.is_minor:
        return False
    return not answer.conflicts and answer.case.device == asker.case.device
