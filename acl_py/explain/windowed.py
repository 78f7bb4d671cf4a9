"""What-ifs about a part of a run: how long the same calls take in the run as it is, and in the edited one.

A time of one run is no time of another. So marks stand before the first call that begins in the part and behind the
last one that ends in it: steps that do nothing, which edits leave where they are.
"""

from collections.abc import Iterable
from dataclasses import replace

from acl_py.calls.steps import HOST_ACCESS
from acl_py.explain.cases import Case, EditError, made_like
from acl_py.explain.whatif import Answer, Asker
from acl_py.programs.format import Step
from acl_py.programs.replay import Replay
from acl_py.trace.rows.timeline import Timeline
from acl_py.trace.rows.windows import Window, whole

_BEGIN, _END = "begin of part", "end of part"  # lines of marks; a number follows


class Part:
    """The part of the run in *timeline* that is the *window*. What *asker* answers is about the calls in it.

    Raises:
        EditError: no call lies in it.
    """

    def __init__(self, asker: Asker, timeline: Timeline, window: Window) -> None:
        self._what = window.what
        self._is_whole = window == whole(timeline)
        self.asker = asker if self._is_whole else Asker(_marked(asker, window))
        self._before_ns = self._ns(self.asker.before)

    def of(self, answer: Answer) -> Answer:
        """Return *answer* about this part.

        Raises:
            EditError: the edits have taken calls out that begin or end the part.
        """
        return replace(answer, worked_ns=(self._before_ns, self._ns(answer.run)), part=self._what)

    def _ns(self, run: Replay) -> int:
        if self._is_whole:
            return round(run.done_us * 1000)
        times: dict[str, dict[str, float]] = {_BEGIN: {}, _END: {}}
        for call in run.host:
            mark, _, number = run.program.steps[call.step].site.rpartition(":")
            if mark in times:
                times[mark][number] = call.enter_us
        if not times[_BEGIN] or times[_BEGIN].keys() != times[_END].keys():
            raise EditError(f"nothing is left of what lies {self._what}")
        return round(1000 * sum(times[_END][number] - since for number, since in times[_BEGIN].items()))


def _marked(asker: Asker, window: Window) -> Case:
    """Return the case of *asker* with a mark where each span of *window* begins and ends."""
    calls = [(round(call.enter_us * 1000), round(call.exit_us * 1000), call.step) for call in asker.before.host]
    firsts: dict[int, list[int]] = {}
    lasts: dict[int, list[int]] = {}
    for number, (begin, end) in enumerate(window.spans):
        inside = [call for call in calls if begin <= call[0] and call[1] <= end]
        if inside:
            firsts.setdefault(min(inside)[2], []).append(number)
            lasts.setdefault(max(inside, key=lambda call: (call[1], call[2]))[2], []).append(number)
    if not firsts:
        raise EditError(f"no call lies {window.what}")

    def change(step: Step) -> list[Step]:
        before, behind = firsts.get(step.index, ()), lasts.get(step.index, ())
        marks = [replace(each, after=step.after) for each in _marks(step, _BEGIN, before)]
        return [*marks, step, *_marks(step, _END, behind)]

    return asker.case.with_steps(change)


def _marks(step: Step, name: str, numbers: Iterable[int]) -> list[Step]:
    mark = made_like(step, HOST_ACCESS, reads=(), writes=())
    return [replace(mark, site=f"{name}:{number}") for number in numbers]
