"""All habits of a program."""

from collections.abc import Iterator

from acl_py.explain.habits.habit import Habit
from acl_py.explain.habits.loops import things_in_loops
from acl_py.explain.habits.one_stream import work_of_one_stream
from acl_py.explain.habits.pieces import copies_in_pieces
from acl_py.explain.habits.repeated import repeated_launches
from acl_py.programs.format import Program


def habits(program: Program) -> Iterator[Habit]:
    """Yield all habits of *program*."""
    yield from things_in_loops(program)
    yield from copies_in_pieces(program)
    yield from repeated_launches(program)
    yield from work_of_one_stream(program)
