"""Which steps of a program are captured, and which launches run them."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from acl_py.calls.acts import (
    CaptureBegan,
    CaptureEnded,
    GraphLaunched,
    GraphUpdated,
    Made,
    Recorded,
    Waited,
)  # fmt: skip
from acl_py.calls.steps import Name
from acl_py.programs.format import Step


class Launched:
    """The captures and launches of a program of these *steps*, which are named by their places."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.graph_of: dict[int, str] = {}  # the graph of each step that is captured
        self._launches: defaultdict[str, list[int]] = defaultdict(list)  # by graph
        executables: dict[str, str] = {}  # the graph of each
        events: dict[str, str] = {}  # the graph of each event that was recorded in a capture
        capturing: dict[str, str] = {}  # the graph of each stream that captures
        for place, step in enumerate(steps):
            stream = str(step.fields.get("stream"))
            if stream in capturing:
                self.graph_of[place] = capturing[stream]
            match step.act:
                case CaptureBegan(_, _, graph):
                    capturing[stream] = graph.name if graph else f"capture at step {place}"
                case CaptureEnded():
                    ended = capturing.pop(stream, None)
                    capturing = {other: graph for other, graph in capturing.items() if graph != ended}
                case Made(Name() as graph, Name("executable", made)) | GraphUpdated(Name(_, made), Name() as graph):
                    executables[made] = graph.name
                case GraphLaunched(Name(_, executable)):
                    self._launches[executables.get(executable, "")].append(place)
                case Recorded(Name(_, event)) if stream in capturing:
                    events[event] = capturing[stream]
                case Recorded(Name(_, event)):
                    events.pop(event, None)
                case Waited(Name(_, event)) if events.get(event) in capturing.values():
                    capturing.setdefault(stream, events[event])

    def outside(self, before: int, behind: int) -> tuple[int, int]:
        """Return the steps between which an edge puts *before* and *behind* in order. In place of a captured step it
        is, if the other one is not of the same capture, the launch that runs it.
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
