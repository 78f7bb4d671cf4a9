"""Round trips: a run, its recorded program, and the replay of that, which must have the same times."""

import json
from collections import defaultdict

from acl_py import recorded
from acl_py.programs.format import parse
from acl_py.programs.replay import replay
from acl_py.trace.rows.timeline import Timeline

_PAY_WAKE_UP = ("SynchronizeStream", "SynchronizeEvent", "SynchronizeDevice", "await")


def document_of(timeline: Timeline) -> dict:
    """The recorded program, as a file would have it."""
    return json.loads(json.dumps(recorded.program(timeline)))


def differences(timeline: Timeline, *, device=None, faults=()) -> list[str]:
    """What the replay of the recorded program has that *timeline* has not, and the other way around."""
    program = parse(document_of(timeline))
    again = replay(program, device=device or timeline.device, rules=timeline.rules, faults=faults).trace.timeline()
    ours, theirs = _operations(timeline), _operations(again)
    rows = [*_missing("operation", ours, theirs), *_missing("operation of the replay", theirs, ours)]
    calls, others = _calls(timeline), _calls(again)
    end = max((exit_ns for _, exit_ns, _ in calls), default=0)
    # A timer of asyncio is a sleep of the replay, and behind all is its last synchronisation. A wait that was cancelled
    # becomes host work and a sleep.
    others = [call for call in others if call[0] < end and (call[2] != "Sleep" or call in calls)]
    cut = {(call.enter_ns, call.sleeps[0].begin_ns, call.name) for call in timeline.calls if _was_cut_short(call)}
    others = [call for call in others if call not in cut]
    rows += [*_missing("call", calls, others), *_missing("call of the replay", others, calls)]
    ours, theirs = _callers(timeline), _callers(again)
    return rows + [f"task: {ours[call]} and {theirs[call]} make {call}" for call in calls if ours[call] != theirs[call]]


def _missing(what, these, those):
    return [f"{what}: {row}" for row in these if row not in those]


def _operations(timeline):
    streams = {}
    return sorted(
        (op.queued_ns, op.start_ns, op.end_ns, op.engine, op.kind, streams.setdefault(op.in_stream, len(streams)))
        for op in sorted(timeline.ops, key=lambda op: (op.queued_ns, op.start_ns))
    )


def _calls(timeline):
    return sorted((call.enter_ns, call.exit_ns, call.name) for call in timeline.calls if not _was_cut_short(call))


def _callers(timeline):
    """The number of the caller of each call, in the order of their first calls."""
    numbers = {}
    calls = sorted(timeline.calls, key=lambda call: (call.enter_ns, call.exit_ns))
    callers = {
        (call.enter_ns, call.exit_ns, call.name): numbers.setdefault(call.by, len(numbers))
        for call in calls
        if call.name != "Sleep"
    }
    return defaultdict(int, callers)


def _was_cut_short(call):
    return call.name in _PAY_WAKE_UP and bool(call.sleeps) and call.exit_ns == call.sleeps[-1].end_ns
