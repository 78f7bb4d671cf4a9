"""One stream for all work, though parts of it touch other bytes and could run at the same time."""

from collections.abc import Iterator
from functools import partial

from acl_py.calls.acts import Made, Queued
from acl_py.calls.steps import Name
from acl_py.causes.findings import Pitfall
from acl_py.explain.habits.habit import Habit, Way
from acl_py.explain.relisting import relist
from acl_py.programs.format import Program

_MOST = 500  # operations; the time to spread them grows with their square
_COUNTS = (2, 3, 4)  # of streams that are tried


def work_of_one_stream(program: Program) -> Iterator[Habit]:
    """Yield a habit if *program* has one stream for all of its copies, fills and kernels."""
    work = [step for step in program.steps if isinstance(step.act, Queued) and step.work != "function"]
    if not 2 <= len(work) <= _MOST or len({step.fields["stream"] for step in work}) > 1:
        return
    stream = Name("stream", work[0].fields["stream"])
    maker = next((step for step in program.steps if step.act == Made(None, stream)), work[0])
    edit = "Spread it over {} streams, with events where one touches the bytes of another"
    ways = [Way(edit.format(count), partial(relist, count=count)) for count in _COUNTS]
    what = f"one stream has all work, {len(work):,} operations"
    yield Habit(Pitfall.ONE_STREAM, [maker, *(step for step in work if step is not maker)], what, ways)
