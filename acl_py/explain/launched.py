"""Which steps of a program are captured, and which launches run them."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from acl_py.programs.format import Step

_BEGIN = ("begin_capture", "begin_capture_to")


class Launched:
    """The captures and launches of a program of these *steps*, which are named by their places."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.graph_of: dict[int, str] = {}  # the graph of each step that is captured
        self._launches: defaultdict[str, list[int]] = defaultdict(list)  # by graph
        executables: dict[str, str] = {}  # the graph of each
        events: dict[str, str] = {}  # the graph of each event that was recorded in a capture
        capturing: dict[str, str] = {}  # the graph of each stream that captures
        for place, step in enumerate(steps):
            fields = step.fields
            stream, event = str(fields.get("stream")), str(fields.get("event"))
            if step.op in _BEGIN:
                capturing[stream] = fields["graph"] or f"capture at step {place}"
            elif step.op == "end_capture":
                ended = capturing.pop(stream, None)
                capturing = {other: graph for other, graph in capturing.items() if graph != ended}
            elif step.op in ("instantiate", "exec_update"):
                executables[fields["exec"]] = fields["graph"]
            elif step.op == "graph_launch":
                self._launches[executables.get(fields["exec"], "")].append(place)
            else:
                if step.op == "wait" and events.get(event) in capturing.values():
                    capturing.setdefault(stream, events[event])
                if stream in capturing:
                    self.graph_of[place] = capturing[stream]
                    if step.op == "record":
                        events[event] = capturing[stream]
                elif step.op == "record":
                    events.pop(event, None)

    def outside(self, before: int, behind: int) -> tuple[int, int]:
        """Return the steps between which an edge puts *before* and *behind* in order: in place of a captured step, if
        the other one is not of the same capture, the launch that runs it.
        """
        one, other = self.graph_of.get(before), self.graph_of.get(behind)
        if one == other:
            return before, behind
        if other is not None:
            behind = self._launch(other, before, behind)
        if one is not None:
            launches = self._launches[one]
            place = bisect_left(launches, behind)
            before = launches[place - 1] if place else before
        return before, behind

    def _launch(self, graph: str, after: int, captured: int) -> int:
        """Return the first launch of *graph* that follows the step *after*; *captured* if there is none."""
        launches = self._launches[graph]
        place = bisect_left(launches, after + 1)
        return launches[place] if place < len(launches) else captured
