"""All habits of a program."""

from collections.abc import Iterable, Iterator

from acl_py.explain.cases import Case
from acl_py.explain.habits.habit import Habit
from acl_py.explain.habits.large_copies import large_copies
from acl_py.explain.habits.late_pinned import late_pinned
from acl_py.explain.habits.loops import things_in_loops
from acl_py.explain.habits.one_stream import work_of_one_stream
from acl_py.explain.habits.pieces import copies_in_pieces
from acl_py.explain.habits.priorities import helpful_priorities
from acl_py.explain.habits.repeated import repeated_launches
from acl_py.explain.habits.small_kernels import small_kernels
from acl_py.trace.rows.timeline import Timeline


def habits(case: Case, timeline: Timeline) -> Iterator[Habit]:
    """Yield all habits of the program of *case*, which ran as in *timeline*."""
    program = case.program
    in_loops = [*things_in_loops(program)]
    yield from in_loops
    yield from late_pinned(program, _indices(in_loops))
    yield from copies_in_pieces(program)
    repeated = [*repeated_launches(program)]
    yield from repeated
    yield from small_kernels(case, _indices(repeated))
    yield from work_of_one_stream(program)
    yield from large_copies(case, timeline)
    yield from helpful_priorities(case)


def _indices(habits: Iterable[Habit]) -> set[int]:
    return {step.index for habit in habits for step in habit.steps}
