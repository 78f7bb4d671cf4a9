"""Which calls of a recording were captured, and what launches of graphs record in events.

A stream captures from BeginCapture() on, or from when it waits for an event that was recorded in a capture, until the
capture ends. What is called for it meanwhile becomes nodes: it orders nothing before a launch does.
"""

from collections import defaultdict

from acl_py.calls import acts
from acl_py.calls.acts import Act
from acl_py.trace.rows.timeline import Call, Ref, Thing, Timeline


class Captured:
    """The indices of *calls* that were captured in the run of *timeline*; and by the index of each call of
    GraphLaunch() the events that the launch *records*, as handles.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.calls: set[int] = set()
        self.records: dict[int, list[int]] = {}
        # All numbers are those of handles.
        self._capturing: dict[int, int] = {}  # the graph of each stream that captures
        self._events: dict[int, int] = {}  # the graph of each event whose last record was captured
        self._records: defaultdict[int, dict[int, None]] = defaultdict(dict)  # of graphs and executables
        if any(handle.kind == "graph" for handle in timeline.handles):
            for index, call in enumerate(timeline.calls):  # in the order of their ends
                self._call(index, call)

    def _call(self, index: int, call: Call) -> None:
        match call.act:
            case acts.CaptureBegan(Ref(stream), _, Ref(graph)):
                self._capturing[stream] = graph
            case acts.CaptureEnded(_, Ref(graph)):
                self._end(graph)
            case acts.Destroyed(Ref(stream)) if stream in self._capturing:
                self._end(self._capturing[stream])
            case acts.Waited(Ref(event), Ref(stream)) if self._events.get(event) in self._capturing.values():
                self._capturing.setdefault(stream, self._events[event])
                self.calls.add(index)
            case acts.GraphLaunched(Ref(executable)):
                self.records[index] = [*self._records[executable]]
            case acts.GraphUpdated(Ref(executable), Ref(graph)):
                self._records[executable] = dict(self._records[graph])
            case acts.Made(Ref(graph), Ref(made)):
                self._records[made] = dict(self._records[graph])
            case acts.NodeAdded(Ref(graph), Ref(child)):
                self._records[graph] |= self._records[child]
            case _ if self._is_captured(call.act):
                self._catch(index, call.act)
            case acts.Recorded(Ref(event)):
                self._events.pop(event, None)

    def _is_captured(self, act: Act[Thing]) -> bool:
        refs = (each.handle for each in acts.leaves(act) if isinstance(each, Ref))
        return any(place in self._capturing for place in refs)

    def _catch(self, index: int, act: Act[Thing]) -> None:
        self.calls.add(index)
        match act:
            case acts.Recorded(Ref(event), Ref(stream), 1):  # at each launch
                self._records[self._capturing[stream]][event] = None
            case acts.Recorded(Ref(event), Ref(stream)):
                self._events[event] = self._capturing[stream]

    def _end(self, graph: int) -> None:
        self._capturing = {stream: other for stream, other in self._capturing.items() if other != graph}
