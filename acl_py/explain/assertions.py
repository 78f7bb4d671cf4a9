"""Assertions about a recording, for tests: what overlaps, what is certainly in order, what waited, what a run takes.

An operation is named by its kernel ("add"), its kind ("h2d", "kernel"), its stream as charts show it ("stream 'copies'"
or "stream 1"), or by the completion that its verb returned. A name may stand for several operations.

All of them take *since_ns*: what was queued, or called, until then is not asserted about. Tests that share a simulation
give the time at which they began.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter

from acl_py.causes import lines
from acl_py.causes.findings import findings, findings_text
from acl_py.causes.path import makespan_ns
from acl_py.causes.relation import Relation
from acl_py.trace.rows.reading import site_of_call
from acl_py.trace.rows.timeline import Operation, Timeline
from acl_py.trace.views import chart
from device_model.errors import listed, shown
from device_model.ops import Op

_SHOWN = 8  # operations in a message

__tracebackhide__ = True  # pytest shows the line of the test


def assert_overlaps(timeline: Timeline, a: str | Op, b: str | Op, share: float = 0.0, *, since_ns: int = 0) -> None:
    """Assert that some operation *a* and some operation *b* ran at the same time; with *share*, 0 to 1, for at least
    this share of the time in which operations *a* ran.

    Raises:
        AssertionError: none did, or for a smaller share, or there are no such operations.
        ValueError: *share* is not from 0 to 1.
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise ValueError(f"share must be a number from 0 to 1, not {shown(share)}")
    first, second = (_rows(timeline, each, since_ns) for each in (a, b))
    how = "never run at the same time"
    if any(_overlap(timeline.ops[one], timeline.ops[other]) for one in first for other in second if one != other):
        found = _shared(timeline, set(first), set(second))
        if found >= share:
            return
        how = f"run at the same time for {100 * found:.1f} % of the time of {_called(a)}, not for {100 * share:g} %"
    raise AssertionError(
        f"{_called(a)} and {_called(b)} {how}:\n{_times(timeline, [*first, *second])}\n{_chart(timeline, since_ns)}"
    )


def _overlap(one: Operation, other: Operation) -> bool:
    return one.start_ns < other.end_ns and other.start_ns < one.end_ns


def _shared(timeline: Timeline, first: set[int], second: set[int]) -> float:
    """Return in which share of the time of the *first* rows another one of the *second* runs, too."""
    changes: list[tuple[int, int, int, int]] = []
    for index in first | second:
        op, is_first, is_second = timeline.ops[index], int(index in first), int(index in second)
        changes += [(op.start_ns, 1, is_first, is_second), (op.end_ns, -1, -is_first, -is_second)]
    running = firsts = seconds = last_ns = first_ns = both_ns = 0
    for at_ns, step, first_step, second_step in sorted(changes):
        if firsts:
            first_ns += at_ns - last_ns
        if firsts and seconds and running > 1:  # so they are not one operation that has both names
            both_ns += at_ns - last_ns
        running, firsts, seconds, last_ns = running + step, firsts + first_step, seconds + second_step, at_ns
    return both_ns / first_ns if first_ns else 1.0


def assert_ordered(timeline: Timeline, a: str | Op, b: str | Op, *, since_ns: int = 0) -> None:
    """Assert that each operation *b* is certain to start after all operations *a* that were queued before it: because
    of streams, events or synchronisations, and not because of the times of this run.

    Raises:
        AssertionError: one is not, or none was queued after one *a*, or there are no such operations.
    """
    first, second = (_rows(timeline, each, since_ns) for each in (a, b))
    ops, relation = timeline.ops, Relation(timeline)
    pairs = [(one, other) for other in second for one in first if one != other and _is_queued_before(ops, one, other)]
    if not pairs:
        raise AssertionError(
            f"no operation {_called(b)} was queued after an operation {_called(a)}:\n"
            f"{_times(timeline, [*first, *second])}"
        )
    for one, other in pairs:
        if not relation.is_before(one, other):
            raise AssertionError(
                f"nothing puts {_described(ops[other])} behind {_described(ops[one])}: record an event on "
                f"{ops[one].stream} and let {ops[other].stream} wait for it\n{_times(timeline, [one, other])}"
            )


def _is_queued_before(ops: Sequence[Operation], one: int, other: int) -> bool:
    return (ops[one].queued_ns, one) < (ops[other].queued_ns, other)


def assert_no_implicit_sync(timeline: Timeline, *, since_ns: int = 0) -> None:
    """Assert that nothing waited without being asked to: no pageable or synchronous copy kept the host, no free or
    destroy waited for the device, no queue was full, no legacy stream held others back, no pages of managed memory had
    to move first.

    Raises:
        AssertionError: something did; the message has the lines and what to change.
    """
    waits = findings(timeline, since_ns)
    if waits:
        raise AssertionError(f"something waited without being asked to\n{findings_text(waits)}")


def assert_within_us(
    timeline: Timeline,
    limit_us: float,
    of: str | Op | None = None,
    since_us: float | None = None,
    *,
    since_ns: int = 0,
) -> None:
    """Assert that the run took at most *limit_us* microseconds of simulated time.

    Args:
        timeline: The run.
        limit_us: The limit, in microseconds.
        of: Count these operations only, from the first start to the last end.
        since_us: Count from this time on, in microseconds from the begin of the simulation. Not together with *of*.
        since_ns: What was queued until then does not count.

    Raises:
        AssertionError: it took longer.
        ValueError: *since_us* is not in the run, or *of* is given, too.
    """
    _check_us("limit_us", limit_us)
    took_ns, what = _took(timeline, of, since_us, since_ns)
    if took_ns > limit_us * 1000:
        raise AssertionError(
            f"{what} took {took_ns / 1000:,.1f} us, {took_ns / 1000 - limit_us:,.1f} us more than {limit_us:,g}"
            f"{_head(timeline, since_ns) if of is None and since_us is None else ''}\n{_chart(timeline, since_ns)}"
        )


def _head(timeline: Timeline, since_ns: int) -> str:
    """Say how long a run took before it queued anything, if that was a good part of it."""
    queued = [op.queued_ns for op in timeline.ops if _counts(op, since_ns)]
    first_ns = min(queued, default=since_ns) - since_ns
    if first_ns * 10 < makespan_ns(timeline) - since_ns:
        return ""
    return f"; nothing was queued in the first {first_ns / 1000:,.1f} us: with since_us= they do not count"


def assert_time(
    timeline: Timeline,
    us: float,
    of: str | Op | None = None,
    tolerance: float = 0.0,
    since_us: float | None = None,
    *,
    since_ns: int = 0,
) -> None:
    """Assert that the run took *us* microseconds of simulated time, more or less by *tolerance*, a share of *us*.

    *of* and *since_us* are those of `assert_within_us`.

    Raises:
        AssertionError: it took longer, or less.
        ValueError: as of `assert_within_us`.
    """
    _check_us("us", us)
    (took_ns, what), wanted_ns = _took(timeline, of, since_us, since_ns), round(us * 1000)
    if abs(took_ns - wanted_ns) > tolerance * wanted_ns:
        about = f" within {100 * tolerance:g} %" if tolerance else ""
        raise AssertionError(f"{what} took {took_ns / 1000:,.3f} us, not {us:,g}{about}\n{_chart(timeline, since_ns)}")


def assert_held(timeline: Timeline, limit_us: float, by: str | None = None, *, since_ns: int = 0) -> None:
    """Assert that tasks and threads slept in calls for at most *limit_us* microseconds of simulated time, all together;
    with *by*, in the calls of a verb ("SynchronizeStream"), of a function ("cuStreamSynchronize") or of a line
    ("serve.py:12").

    Raises:
        AssertionError: they slept longer, or no call has that name or line.
    """
    _check_us("limit_us", limit_us)
    places: Counter[tuple[str, str]] = Counter()
    for call in timeline.calls:
        site = site_of_call(call)
        if call.enter_ns >= since_ns and (by is None or by in (call.name, call.function, site)):
            places[call.called, site] += sum(sleep.end_ns - sleep.begin_ns for sleep in call.sleeps)
    if by is not None and not places:
        raise AssertionError(
            f"no call is of {by!r}: name a verb, such as 'SynchronizeStream', or a line, 'serve.py:12'"
        )
    held_ns = places.total()
    if held_ns > limit_us * 1000:
        longest = "\n".join(
            f"  {name} ({site}): {lines.us(ns)}" for (name, site), ns in places.most_common(_SHOWN) if ns
        )
        raise AssertionError(f"calls held the host for {lines.us(held_ns)}, more than {limit_us:g} us:\n{longest}")


def _check_us(name: str, us: object) -> None:
    if isinstance(us, bool) or not isinstance(us, int | float):
        raise TypeError(f"{name} must be a number of microseconds, not {shown(us)}")


def assert_peak_memory(timeline: Timeline, limit: int, device: int = 0, *, since_ns: int = 0) -> None:
    """Assert that at no time more than *limit* bytes of memory of *device* were in use.

    Raises:
        AssertionError: more were; the message has the lines that had made them.
    """
    lives = [
        (max(each.begin_ns, since_ns), each.end_ns if each.end_ns >= 0 else timeline.end_ns + 1, each)
        for each in timeline.buffers
        if each.space == "device" and each.device == device and not 0 <= each.end_ns <= since_ns
    ]
    # What ends at a time comes before what begins then.
    changes = sorted([(end, -each.bytes) for _, end, each in lives] + [(begin, each.bytes) for begin, _, each in lives])
    in_use = accumulate((nbytes for _, nbytes in changes), initial=0)
    peak, peak_ns = max(zip(in_use, [0, *(at_ns for at_ns, _ in changes)], strict=True), key=itemgetter(0))
    if peak > limit:
        held: Counter[str] = Counter()
        for begin, end, each in lives:
            if begin <= peak_ns < end:
                held[each.made or each.name] += each.bytes
        largest = "\n".join(f"  {made}: {nbytes:,} bytes" for made, nbytes in held.most_common(_SHOWN))
        raise AssertionError(
            f"{peak:,} bytes of device {device} were in use at {peak_ns / 1000:,.1f} us, {peak - limit:,} more than "
            f"{limit:,}:\n{largest}"
        )


def _took(timeline: Timeline, of: str | Op | None, since_us: float | None, since_ns: int) -> tuple[int, str]:
    """Return how long the run or *of* took, in ns, and what to call that in a message."""
    if of is not None:
        if since_us is not None:
            raise ValueError("since_us is for the run as a whole: leave out of, or since_us")
        ops = [timeline.ops[index] for index in _rows(timeline, of, since_ns)]
        return max(op.end_ns for op in ops) - min(op.start_ns for op in ops), _called(of)
    whole_ns = makespan_ns(timeline)
    if since_us is None:
        return whole_ns - since_ns, "the test" if since_ns else "the run"
    _check_us("since_us", since_us)
    if not 0 <= since_us <= whole_ns / 1000:
        raise ValueError(f"since_us must be in the run, from 0 to {whole_ns / 1000:,.3f} us, not {since_us:,g}")
    return whole_ns - round(since_us * 1000), f"the run from {since_us:,.1f} us on"


def _chart(timeline: Timeline, since_ns: int) -> str:
    return chart.lanes(timeline, since_ns=since_ns or None)


def _counts(op: Operation, since_ns: int) -> bool:
    """Whether *op* was queued after *since_ns*; the last one before may have been queued at that time."""
    return op.queued_ns > since_ns or since_ns == 0


def _rows(timeline: Timeline, subject: str | Op, since_ns: int) -> list[int]:
    """Return the indices of the operations queued after *since_ns* that *subject* names.

    Raises:
        AssertionError: there are none.
    """
    ops = {index: op for index, op in enumerate(timeline.ops) if _counts(op, since_ns)}
    rows = [index for index, op in ops.items() if _is(op, subject)]
    if not rows:
        names = dict.fromkeys(name for op in ops.values() for name in (op.name, op.kind, op.stream))
        raise AssertionError(
            f"no operation is called {_called(subject)}; there are {listed(map(repr, names)) or 'no operations'}"
        )
    return rows


def _is(row: Operation, subject: str | Op) -> bool:
    if isinstance(subject, str):
        return subject in (row.name, row.kind, row.stream)
    times = subject.queued_ns, subject.start_ns, subject.end_ns
    return (row.queued_ns, row.start_ns, row.end_ns) == times and row.stream == subject.stream.name


def _called(subject: str | Op) -> str:
    return repr(subject) if isinstance(subject, str) else repr(subject.work.label.name)


def _described(op: Operation) -> str:
    return f"{op.name} on {op.stream} ({op.site})"


def _times(timeline: Timeline, indices: Sequence[int]) -> str:
    shown = sorted({*indices}, key=lambda index: timeline.ops[index].start_ns)
    lines = [
        f"  {_described(op)}: {op.start_ns / 1000:,.2f} to {op.end_ns / 1000:,.2f} us"
        for op in (timeline.ops[index] for index in shown[:_SHOWN])
    ]
    return "\n".join([*lines, *[f"  and {len(shown) - _SHOWN:,} more"] * (len(shown) > _SHOWN)])
