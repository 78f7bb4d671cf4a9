"""Which calls of a recording were captured, and what launches of graphs record in events.

A stream captures from BeginCapture() on, or from when it waits for an event that was recorded in a capture, until the
capture ends. What is called for it meanwhile becomes nodes: it orders nothing before a launch does.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from acl_py.trace.rows import Call, Ref, Timeline

_BEGIN = ("BeginCapture", "BeginCaptureToGraph")


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
    walk = _Walk(timeline)
    for index, call in enumerate(timeline.calls):
        walk.call(index, call)
    return walk.found


class _Walk:
    """A walk through the calls in the order of their ends. Numbers are those of handles."""

    def __init__(self, timeline: Timeline) -> None:
        self.kinds = [handle.kind for handle in timeline.handles]
        self.found = Captured()
        self.capturing: dict[int, int] = {}  # the graph of each stream that captures
        self.events: dict[int, int] = {}  # the graph of each event whose last record was captured
        self.records: defaultdict[int, dict[int, None]] = defaultdict(dict)  # of graphs and executables

    def call(self, index: int, call: Call) -> None:
        refs = [each.handle for each in call.about if isinstance(each, Ref)]
        streams = [place for place in refs if self.kinds[place] == "stream"]
        if call.name in _BEGIN:
            self.capturing[refs[0]] = refs[1]
        elif call.name == "EndCapture":
            self._end(refs[1])
        elif call.name.startswith("DestroyStream") and refs and refs[0] in self.capturing:
            self._end(self.capturing[refs[0]])
        elif call.name.startswith("Graph"):
            self._graph(index, call.name, refs)
        elif call.name == "StreamWaitEvent" and self.events.get(refs[0]) in self.capturing.values():
            self.capturing.setdefault(refs[1], self.events[refs[0]])
            self.found.calls.add(index)
        elif any(stream in self.capturing for stream in streams):
            self.found.calls.add(index)
            if call.name == "RecordEvent" and call.about[2:] == (1,):  # at each launch
                self.records[self.capturing[refs[1]]][refs[0]] = None
            elif call.name == "RecordEvent":
                self.events[refs[0]] = self.capturing[refs[1]]
        elif call.name == "RecordEvent":
            self.events.pop(refs[0], None)

    def _end(self, graph: int) -> None:
        self.capturing = {stream: other for stream, other in self.capturing.items() if other != graph}

    def _graph(self, index: int, name: str, refs: list[int]) -> None:
        """Take up a call about graphs: what a graph or an executable records."""
        match name, refs:
            case "GraphLaunch", [executable, _]:
                self.found.records[index] = [*self.records[executable]]
            case "GraphExecUpdate", [executable, graph]:
                self.records[executable] = dict(self.records[graph])
            case (("GraphInstantiate" | "GraphClone"), [graph, made, *_]):
                self.records[made] = dict(self.records[graph])
            case "GraphAddChildGraphNode", [graph, child, *_]:
                self.records[graph] |= self.records[child]
