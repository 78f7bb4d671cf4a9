"""Copies that are so large that nothing overlaps: an engine waits until another has all of the bytes.

In parts, and over several streams, a part is copied while a kernel works on the one before it. Copies of pageable
memory are another finding, which comes first.
"""

from collections.abc import Iterator
from functools import partial

from acl_py.calls.acts import Queued
from acl_py.causes.findings import Pitfall
from acl_py.explain.cases import Case
from acl_py.explain.chunking import SMALLEST, chunk, divided
from acl_py.explain.habits.habit import Habit, Way
from acl_py.explain.relisting import relist
from acl_py.trace.rows.timeline import Timeline

COUNTS, STREAMS = (2, 4, 8), (2, 3, 4)  # of parts, and of streams, that are tried
_MOST = 500  # operations in parts; the time to spread them grows with their square


def large_copies(case: Case, timeline: Timeline) -> Iterator[Habit]:
    """Yield a habit if the program of *case*, which ran as in *timeline*, has large copies and overlaps nothing."""
    steps = case.program.steps
    work = [step for step in steps if isinstance(step.act, Queued) and step.work]
    pageable = case.program.buffers_in("pageable")
    large = divided(case.program, COUNTS[0] * SMALLEST)
    if not large or len(work) * COUNTS[0] > _MOST or _overlaps(timeline):
        return
    copies = [step for step in steps if step.index in large]
    if any(step.fields[end] in pageable for step in copies for end in ("dst", "src")):
        return
    most = max(step.fields["bytes"] for step in copies)
    ways = []
    for streams in STREAMS:
        for count in COUNTS:
            if len(work) * count <= _MOST:
                edit = (
                    f"Copy it in {count} parts of {most // count:,} bytes, launch its kernels once for each part, and "
                    f"spread that over {streams} streams, with events where one touches the bytes of another"
                )
                ways.append(Way(edit, partial(_in_parts, count=count, streams=streams)))
    rivals = [Way("streams alone", partial(relist, count=streams)) for streams in STREAMS]
    what = f"large copies, of up to {most:,} bytes, and nothing runs beside them"
    yield Habit(Pitfall.LARGE_COPY, copies, what, ways, rivals)


def _in_parts(case: Case, count: int, streams: int) -> Case:
    return relist(chunk(case, count), streams)


def _overlaps(timeline: Timeline) -> bool:
    """Whether two operations that take time run at once."""
    until_ns = -1
    for op in sorted(timeline.ops, key=lambda op: (op.start_ns, op.end_ns)):
        if op.start_ns < until_ns and op.start_ns < op.end_ns:
            return True
        until_ns = max(until_ns, op.end_ns)
    return False
