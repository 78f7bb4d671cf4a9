"""The last waits of a run: what a failed test says below its traceback.

It says for what the host waited last, with the rule for a wait that the program did not ask for, and which operations
the host did not wait for.
"""

from collections.abc import Iterator
from dataclasses import replace

from acl_py.calls.acts import Synchronised
from acl_py.causes.findings import Finding, findings
from acl_py.causes.lines import us
from acl_py.trace.rows.reading import as_timeline, site_of_call
from acl_py.trace.rows.recorder import Trace
from acl_py.trace.rows.timeline import Call, Ref, Timeline
from device_model.ops import Op

_WAITS = 4  # lines of the program
_LEFT = 2  # operations that have not ended
_MOST_ROWS = 50_000  # calls and operations whose implicit waits are looked for: a second of processor time


def last_waits(trace: Trace, left: list[Op], since_ns: int = 0) -> str:
    """Return what the host waited for since *since_ns*, the latest line last, and what is *left* on the device.

    A line of the program is there once, with all its waits. "" if the host has made no call since then.
    """
    timeline = as_timeline(trace)
    calls = [index for index, call in enumerate(timeline.calls) if call.exit_ns > since_ns]
    if not calls:
        return ""
    ran = sum(op.end_ns > since_ns for op in timeline.ops)
    lines = [f"{timeline.device}, rules {timeline.rules}: {us(timeline.end_ns - since_ns)}, {_count(ran)}"]
    lines += _not_ended(left)
    waits = _waits(timeline, calls)
    lines += ["the host waited for nothing"] if not waits else ["the host's last waits:"]
    lines += [f"  {text}" for text in waits[-_WAITS:]]
    return "\n".join(lines)


def _count(number: int) -> str:
    return f"{number:,} operation{'s' * (number != 1)}"


def _not_ended(left: list[Op]) -> Iterator[str]:
    for op in left[:_LEFT]:
        yield f"not ended: {op.work.label.name} on {op.stream.name} ({op.site}): the host has not waited for it"
    if len(left) > _LEFT:
        yield f"and {len(left) - _LEFT:,} more that have not ended"


def _waits(timeline: Timeline, calls: list[int]) -> list[str]:
    """Return a text for each line of the program that has waited, or asked to, in one of *calls*. The line that did so
    last is the last.
    """
    unasked = {}
    if len(timeline.calls) + len(timeline.ops) <= _MOST_ROWS:
        unasked = {index: finding for finding in findings(timeline) for index in finding.calls}
    waiting: dict[object, list[int]] = {}
    for index in calls:
        call = timeline.calls[index]
        if call.sleeps or isinstance(call.act, Synchronised):
            key = id(unasked[index]) if index in unasked else (call.called, call.file, call.line)
            waiting[key] = waiting.pop(key, [])  # behind those that waited last before it
            waiting[key].append(index)
    return [_text(timeline, indices, unasked.get(indices[-1])) for indices in waiting.values()]


def _text(timeline: Timeline, indices: list[int], unasked: Finding | None) -> str:
    """Return the text of the waits in the calls *indices*, all of one line; *unasked* is their finding, if any."""
    calls = [timeline.calls[index] for index in indices]
    held_ns = sum(sleep.end_ns - sleep.begin_ns for call in calls for sleep in call.sleeps)
    if unasked is not None:
        is_all = unasked.calls == indices
        return unasked.text if is_all else replace(unasked, calls=indices, ops=[], held_ns=held_ns).text
    call, times = calls[-1], f" {len(calls):,} times" * (len(calls) > 1)
    of = _subject(timeline, call)
    if not held_ns:
        return f"{site_of_call(call)}: {call.called}(){of} did not have to wait{times}: the work had ended"
    until = ""
    if call.after is not None:
        op = timeline.ops[call.after]
        until = f", {'the last time ' * (len(calls) > 1)}until {op.name} on {op.stream} ({op.site}) had ended"
    return f"{site_of_call(call)}: {call.called}(){of} waited{times} for {us(held_ns)}{until}"


def _subject(timeline: Timeline, call: Call) -> str:
    """Return what *call* synchronises with, as " of stream 2"; "" if it says so itself."""
    match call.act:
        case Synchronised(Ref(handle)) if handle >= 0 and timeline.handles[handle].kind in ("stream", "event"):
            return f" of {timeline.handles[handle].name}"
    return ""
