"""What a wait can be worth: nothing, if its line has no part in the critical path; and what a run takes besides."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate

from acl_py.calls import acts
from acl_py.causes.path import critical_path
from acl_py.trace.rows.reading import short_site
from acl_py.trace.rows.timeline import Ref, Timeline
from device_model.completions import Why


def lines_on_path(timeline: Timeline) -> set[str]:
    """Return the lines of all calls on the critical path of *timeline*, and those that let operations on it wait for an
    event.

    An operation waits for what its stream was put behind since the operation before it.
    """
    waits: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)  # by stream: when, and at which line
    for call in timeline.calls:
        match call.act:
            case acts.Waited(_, Ref(stream)):
                waits[stream].append((call.exit_ns, short_site(call.file, call.line)))
    queued: defaultdict[int, list[int]] = defaultdict(list)
    for op in timeline.ops:
        queued[op.in_stream].append(op.queued_ns)
    for lines in waits.values():
        lines.sort()
    for times in queued.values():
        times.sort()
    sites = set()
    for part in critical_path(timeline):
        if part.call is not None:
            call = timeline.calls[part.call]
            sites.add(short_site(call.file, call.line))
        if part.op is not None and timeline.ops[part.op].why is Why.EVENT:
            op = timeline.ops[part.op]
            times, lines = queued[op.in_stream], waits[op.in_stream]
            place = bisect_left(times, op.queued_ns)
            since_ns = times[place - 1] if place else -1
            first, last = (bisect_right(lines, at_ns, key=lambda each: each[0]) for at_ns in (since_ns, op.queued_ns))
            sites.update(site for _, site in lines[first:last])
    return sites


def awake_ns(timeline: Timeline, calls: Iterable[int]) -> int:
    """Return for how long the host was busy in *calls*, without their sleeps."""
    rows = (timeline.calls[index] for index in calls)
    return sum(call.exit_ns - call.enter_ns - sum(each.end_ns - each.begin_ns for each in call.sleeps) for call in rows)


def peak_bytes(timeline: Timeline) -> int:
    """Return how much memory of devices was in use at once, at most."""
    changes: list[tuple[int, int]] = []
    for memory in timeline.buffers:
        if memory.space == "device" and memory.begin_ns >= 0:
            changes.append((memory.begin_ns, memory.bytes))
            if memory.end_ns >= 0:
                changes.append((memory.end_ns, -memory.bytes))
    return max(accumulate(change for _, change in sorted(changes)), default=0)
