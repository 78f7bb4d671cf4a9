"""Pinned memory that is allocated while work is under way: the host has no time for the device meanwhile.

To pin a megabyte takes the host as long as to launch some sixty kernels. The same calls in front of the first work take
as long, but nothing waits for them then. So their worth is what the time from the first work to the last wait loses.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import partial

from acl_py.calls.acts import Completed, Synchronised
from acl_py.causes.findings import Pitfall
from acl_py.explain.cases import Case, queues
from acl_py.explain.habits.habit import Habit, Way, by_line, by_task, line_of
from acl_py.programs.format import Program, Step

_EDIT = "Allocate it before the first work"
_NOTES = (
    "pinned memory that is allocated earlier takes the same time there; this is not included",
    "whether the sizes of pinned memory are known before the first work",
)


def late_pinned(program: Program, in_loops: Collection[int]) -> Iterator[Habit]:
    """Yield a habit for each line of *program* that allocates pinned memory while its task has work under way.
    *in_loops* has the steps without such a habit, by their indices, each with what it makes.
    """
    for own in by_task(program.steps).values():
        late = [step for step in _late(own) if step.after is None and step.index not in in_loops]
        begin = next((step.index for step in own if queues(step)), -1)
        for steps in by_line(late).values():
            way = Way(_EDIT, partial(_hoisted, steps=steps, begin=begin), in_window=True)
            yield Habit(Pitfall.LATE_PINNED, steps, "pinned memory is allocated after the first work", [way])


def _late(own: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps of a task that allocate pinned memory too late. They come before its last work, when work is
    queued that the host has not waited for, or when a line has queued work that it queues again later.
    """
    last = {line_of(step): step.index for step in own if queues(step)}
    end, again, is_queued = max(last.values(), default=-1), -1, False
    for step in own:
        if queues(step):
            again = max(again, last[line_of(step)])
            is_queued = is_queued or not isinstance(step.act, Completed)
        elif isinstance(step.act, Synchronised):
            is_queued = False
        elif step.op == "malloc_host" and step.index < end and (is_queued or step.index < again):
            yield step


def _hoisted(case: Case, steps: Sequence[Step], begin: int) -> Case:
    """Return *case* with *steps* in front of the step *begin*."""
    moved = {step.index for step in steps}

    def change(step: Step) -> list[Step]:
        return [*steps, step] if step.index == begin else [] if step.index in moved else [step]

    return case.with_steps(change).noting(*_NOTES)
