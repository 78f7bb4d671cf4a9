"""All habits of a program."""

from collections.abc import Iterator

from acl_py.explain.cases import Case
from acl_py.explain.habits.habit import Habit
from acl_py.explain.habits.loops import things_in_loops
from acl_py.explain.habits.one_stream import work_of_one_stream
from acl_py.explain.habits.pieces import copies_in_pieces
from acl_py.explain.habits.repeated import repeated_launches
from acl_py.explain.habits.small_kernels import small_kernels


def habits(case: Case) -> Iterator[Habit]:
    """Yield all habits of the program of *case*."""
    program = case.program
    yield from things_in_loops(program)
    yield from copies_in_pieces(program)
    repeated = [*repeated_launches(program)]
    yield from repeated
    yield from small_kernels(case, {step.index for habit in repeated for step in habit.steps})
    yield from work_of_one_stream(program)
