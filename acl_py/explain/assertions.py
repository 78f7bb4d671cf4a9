"""Assertions about a recording, for tests: what overlaps, what is certainly in order, and what waited implicitly.

An operation is named by its kernel ("add"), its kind ("h2d", "kernel"), its stream as charts show it ("stream 'copies'"
or "stream 1"), or by the completion that its verb returned. A name may stand for several operations.
"""

from collections.abc import Sequence

from acl_py.causes.findings import findings, findings_text
from acl_py.causes.path import makespan_ns
from acl_py.causes.relation import Relation
from acl_py.trace.rows.timeline import Operation, Timeline
from acl_py.trace.views import chart
from device_model.errors import listed
from device_model.ops import Op

_SHOWN = 8  # operations in a message

__tracebackhide__ = True  # pytest shows the line of the test


def assert_overlaps(timeline: Timeline, a: str | Op, b: str | Op) -> None:
    """Assert that some operation *a* and some operation *b* ran at the same time.

    Raises:
        AssertionError: none did, or there are no such operations.
    """
    first, second = (_rows(timeline, each) for each in (a, b))
    if any(_overlap(timeline.ops[one], timeline.ops[other]) for one in first for other in second if one != other):
        return
    raise AssertionError(
        f"{_called(a)} and {_called(b)} never run at the same time:\n{_times(timeline, [*first, *second])}\n"
        f"{chart.lanes(timeline)}"
    )


def _overlap(one: Operation, other: Operation) -> bool:
    return one.start_ns < other.end_ns and other.start_ns < one.end_ns


def assert_ordered(timeline: Timeline, a: str | Op, b: str | Op) -> None:
    """Assert that each operation *b* is certain to start after all operations *a* that were queued before it: because
    of streams, events or synchronisations, and not because of the times of this run.

    Raises:
        AssertionError: one is not, or none was queued after one *a*, or there are no such operations.
    """
    first, second = (_rows(timeline, each) for each in (a, b))
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


def assert_no_implicit_sync(timeline: Timeline) -> None:
    """Assert that nothing waited without being asked to: no pageable or synchronous copy kept the host, no free or
    destroy waited for the device, no queue was full, no legacy stream held others back, no pages of managed memory had
    to move first.

    Raises:
        AssertionError: something did; the message has the lines and what to change.
    """
    waits = findings(timeline)
    if waits:
        raise AssertionError(f"something waited without being asked to\n{findings_text(waits)}")


def assert_within_us(timeline: Timeline, limit_us: float, of: str | Op | None = None) -> None:
    """Assert that the run took at most *limit_us* microseconds of simulated time; with *of*, that these operations did,
    from the first start to the last end.

    Raises:
        AssertionError: it took longer.
    """
    ops = timeline.ops if of is None else [timeline.ops[index] for index in _rows(timeline, of)]
    took_ns = makespan_ns(timeline)
    if of is not None:
        took_ns = max(op.end_ns for op in ops) - min(op.start_ns for op in ops)
    if took_ns > limit_us * 1000:
        what = "the run" if of is None else _called(of)
        raise AssertionError(
            f"{what} took {took_ns / 1000:,.1f} us, {took_ns / 1000 - limit_us:,.1f} us more than {limit_us:,g}\n"
            f"{chart.lanes(timeline)}"
        )


def _rows(timeline: Timeline, subject: str | Op) -> list[int]:
    """Return the indices of the operations that *subject* names.

    Raises:
        AssertionError: there are none.
    """
    rows = [index for index, op in enumerate(timeline.ops) if _is(op, subject)]
    if not rows:
        names = dict.fromkeys(name for op in timeline.ops for name in (op.name, op.kind, op.stream))
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
