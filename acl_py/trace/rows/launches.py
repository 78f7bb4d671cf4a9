"""What a trace stores of graphs: the graphs, executables and task groups that calls were about, launches, and which
operations each launch has queued.

Graphs and launches themselves are not kept: they have the memory and the functions of the program.
"""

from collections.abc import Callable
from io import BytesIO
from typing import NamedTuple

from acl_py.trace.rows.packing import RUN
from acl_py.trace.rows.timeline import Handle
from device_model.completions import Nanoseconds
from device_model.graphs.executable import Executable, Launch, Run
from device_model.graphs.graph import Graph
from device_model.graphs.groups import TaskGroup
from device_model.streams import Stream

_FIRST_LOOK = 1024  # so many launches are kept before those that are done are let go


class GraphNumber(NamedTuple):
    """What a call was about: the graph, executable or task group with this place in `GraphRows.handles`."""

    number: int


class Submitted(NamedTuple):
    """A launch as it was queued; *caller* is a number."""

    name: str
    stream: Stream
    queued_ns: Nanoseconds
    site: object
    caller: int


class Outcome(NamedTuple):
    """What came of a launch: its end, -1 if it has none yet, and what each of its conditional nodes has run."""

    end_ns: Nanoseconds
    taken: tuple[bool | int, ...]


class GraphRows:
    """Graphs, executables and task groups in the order in which calls were about them; launches in that of calls."""

    __slots__ = ("_captures", "_next_look", "_outcomes", "_pending", "handles", "runs", "submitted")

    def __init__(self) -> None:
        self.handles: list[Handle] = []
        self.submitted: list[Submitted] = []
        self.runs = BytesIO()
        self._pending: dict[int, Launch] = {}
        self._outcomes: dict[int, Outcome] = {}
        self._next_look = _FIRST_LOOK
        self._captures = 0

    def next_capture(self) -> int:
        """Return the number of the next node that is captured."""
        self._captures += 1
        return self._captures - 1

    def number(self, thing: Graph | Executable | TaskGroup) -> GraphNumber:
        """Return what a row has in place of *thing*."""
        if thing.row < 0:
            thing.row = len(self.handles)
            made = "" if thing.made is None else str(thing.made)
            if isinstance(thing, Graph):
                self.handles.append(Handle("graph", thing.name, -1, made, {}))
            else:
                kind = "executable" if isinstance(thing, Executable) else "task group"
                self.handles.append(Handle(kind, thing.name, thing.device.ordinal, made, {}))
        return GraphNumber(thing.row)

    def add(self, run: Run, first: int, caller: Callable[[], int]) -> None:
        """Store a *run*, whose operations have serial numbers from *first* on; also its launch, if it is that."""
        launch = run.launch
        run.first_row = first
        for op in run.ops:
            op.row = run.row_of(op.entry)
        if run is launch:
            launch.row = len(self.submitted)
            name, stream = launch.executable.name, launch.stream
            self.submitted.append(Submitted(name, stream, stream.scheduler.now, launch.site, caller()))
            self._pending[launch.row] = launch
            if len(self._pending) >= self._next_look:
                self._look()
                self._next_look = max(_FIRST_LOOK, 2 * len(self._pending))
        if launch.row >= 0 and run.plan.operations:  # a trace may begin later
            self.runs.write(RUN.pack(launch.row, first, run.plan.operations))

    def outcomes(self) -> list[Outcome]:
        """Return what came of each launch."""
        self._look()
        return [
            self._outcomes[row] if row in self._outcomes else _outcome(self._pending[row])._replace(end_ns=-1)
            for row in range(len(self.submitted))
        ]

    def _look(self) -> None:
        """Let go of the launches that are done."""
        for row, launch in [*self._pending.items()]:
            if launch.done:
                self._outcomes[row] = _outcome(launch)
                del self._pending[row]


def _outcome(launch: Launch) -> Outcome:
    return Outcome(launch.end_ns, tuple(launch.taken.get(node, False) for node in launch.plan.conditional))
