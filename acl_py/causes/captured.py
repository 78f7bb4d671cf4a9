"""Which calls of a recording were captured, and what launches of graphs record in events.

A stream captures from BeginCapture() on, or from when it waits for an event that was recorded in a capture, until the
capture ends. What is called for it meanwhile becomes nodes: it orders nothing before a launch does.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from acl_py.calls import acts
from acl_py.calls.acts import Act
from acl_py.trace.rows import Call, Ref, Thing, Timeline


@dataclass(slots=True)
class Captured:
    """The indices of *calls* that were captured; and by the index of each call of GraphLaunch() the events that the
    launch records, as handles.
    """

    calls: set[int] = field(default_factory=set)
    records: dict[int, list[int]] = field(default_factory=dict)


def captured(timeline: Timeline) -> Captured:
    """Return what was captured in the run of *timeline*."""
    if not any(handle.kind == "graph" for handle in timeline.handles):
        return Captured()
    walk = _Walk()
    for index, call in enumerate(timeline.calls):
        walk.call(index, call)
    return walk.found


class _Walk:
    """A walk through the calls in the order of their ends. Numbers are those of handles."""

    def __init__(self) -> None:
        self.found = Captured()
        self.capturing: dict[int, int] = {}  # the graph of each stream that captures
        self.events: dict[int, int] = {}  # the graph of each event whose last record was captured
        self.records: defaultdict[int, dict[int, None]] = defaultdict(dict)  # of graphs and executables

    def call(self, index: int, call: Call) -> None:
        match call.act:
            case acts.CaptureBegan(Ref(stream), _, Ref(graph)):
                self.capturing[stream] = graph
            case acts.CaptureEnded(_, Ref(graph)):
                self._end(graph)
            case acts.Destroyed(Ref(stream)) if stream in self.capturing:
                self._end(self.capturing[stream])
            case acts.Waited(Ref(event), Ref(stream)) if self.events.get(event) in self.capturing.values():
                self.capturing.setdefault(stream, self.events[event])
                self.found.calls.add(index)
            case acts.GraphLaunched(Ref(executable)):
                self.found.records[index] = [*self.records[executable]]
            case acts.GraphUpdated(Ref(executable), Ref(graph)):
                self.records[executable] = dict(self.records[graph])
            case acts.Made(Ref(graph), Ref(made)):
                self.records[made] = dict(self.records[graph])
            case acts.NodeAdded(Ref(graph), Ref(child)):
                self.records[graph] |= self.records[child]
            case _ if self._is_captured(call.act):
                self._captured(index, call.act)
            case acts.Recorded(Ref(event)):
                self.events.pop(event, None)

    def _is_captured(self, act: Act[Thing]) -> bool:
        refs = (each.handle for each in acts.leaves(act) if isinstance(each, Ref))
        return any(place in self.capturing for place in refs)

    def _captured(self, index: int, act: Act[Thing]) -> None:
        self.found.calls.add(index)
        match act:
            case acts.Recorded(Ref(event), Ref(stream), 1):  # at each launch
                self.records[self.capturing[stream]][event] = None
            case acts.Recorded(Ref(event), Ref(stream)):
                self.events[event] = self.capturing[stream]

    def _end(self, graph: int) -> None:
        self.capturing = {stream: other for stream, other in self.capturing.items() if other != graph}
