"""Synchronisations of a recording: what each wait of a stream, and each synchronising call, has waited for."""

from collections.abc import Iterator
from typing import NamedTuple

from acl_py.trace.reading import asking_calls, step_spans
from acl_py.trace.rows import About, Call, Operation, Timeline

_NAMES = ("SynchronizeStream", "SynchronizeEvent", "SynchronizeDevice")
_LIMITED = "WithTimeout"


class Synchronisation(NamedTuple):
    """A wait that is over, from *begin_ns* to *end_ns*. In a stream it is an instant: a stream's own wait the one at
    which the stream came to it, a host's the one at which the stream was done.

    *call* asked for it, and *record* made the record that it was for, if there is one; both are indices in
    `Timeline.calls`. A host's wait for an event or a device has no *stream* ("").
    """

    name: str
    call: int
    device: int
    stream: str
    begin_ns: int
    end_ns: int
    record: int | None = None


def synchronisations(timeline: Timeline) -> list[Synchronisation]:
    """Return the waits of streams for records, and the synchronising calls that had to wait, in order of their ends.

    A host that waits for the legacy stream may wait for work of another stream: the wait is in the stream whose work
    ended last. It is the instant of that end, which is before the call ends.
    """
    found = [*_of_streams(timeline), *_of_the_host(timeline)]
    found.sort(key=lambda each: each.end_ns)
    return found


def _of_streams(timeline: Timeline) -> Iterator[Synchronisation]:
    asking = asking_calls(timeline.steps, timeline.calls)
    spans = step_spans(timeline)
    for at, index in zip(spans.begin_ns.tolist(), spans.step.tolist(), strict=True):
        step, call = timeline.steps[index], asking[index]
        if step.kind == "wait" and step.record is not None and step.end_ns >= 0 and call is not None:
            yield Synchronisation("StreamWaitEvent", call, step.device, step.stream, at, at, asking[step.record])


def _of_the_host(timeline: Timeline) -> Iterator[Synchronisation]:
    records: dict[About, int] = {}  # the last record of each event
    for index, call in enumerate(timeline.calls):
        if call.name == "RecordEvent" and call.about:
            records[call.about[0]] = index
        op = _waited_for(timeline, call)
        if op is None:
            continue
        name = call.name.removesuffix(_LIMITED)
        if name == "SynchronizeStream":
            yield Synchronisation(name, index, op.device, op.stream, op.end_ns, op.end_ns)
        else:
            record = records.get(call.about[0]) if name == "SynchronizeEvent" else None
            yield Synchronisation(name, index, op.device, "", call.enter_ns, call.exit_ns, record)


def _waited_for(timeline: Timeline, call: Call) -> Operation | None:
    """Return the operation whose end has ended the wait of *call*, if it synchronises."""
    if call.name.removesuffix(_LIMITED) not in _NAMES or call.after is None:
        return None
    op = timeline.ops[call.after]
    return op if op.end_ns <= call.exit_ns else None  # later: the time of the call was over
