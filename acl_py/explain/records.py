"""Records in the wrong stream: an event that was waited for, but that was not recorded behind the work it is meant for.

Suppose that an edge is missing between two steps, and the second one already waits for an event. If that event was
recorded meanwhile in another stream than that of the first step, the record may belong in the first step's stream. All
records of its line go with it.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from acl_py.calls.acts import Recorded, Synchronised, Waited
from acl_py.calls.steps import Name
from acl_py.explain.cases import Case, with_fields
from acl_py.explain.edges import Edge
from acl_py.programs.format import Program, Step


class Move(NamedTuple):
    """The records of the *line* by a *task* belong into other *streams*: those of the *work* at another line."""

    line: str
    task: str | None
    work: str
    streams: dict[str, str]

    @property
    def text(self) -> str:
        """The move as plain text."""
        return f"with the record of {self.line} in the stream of {self.work}"

    def moves(self, step: Step) -> bool:
        """Whether *step* is one of the records."""
        return isinstance(step.act, Recorded) and (step.line, step.task) == (self.line, self.task)


def misplaced(program: Program, edges: Iterable[Edge], line_of: Callable[[Step], str]) -> Move | None:
    """Return the move of a record that could stand for *edges*, all of which are missing; None if there is none."""
    found: list[tuple[Step, Step]] = []
    for edge in edges:
        record = _record_for(program, edge)
        if record is None:
            return None
        found.append((record, program.steps[edge.before]))
    if len({(line_of(record), record.task) for record, _ in found}) != 1:
        return None
    streams = Counter((record.fields["stream"], work.fields["stream"]) for record, work in found)
    to = {wrong: right for (wrong, right), _ in reversed(streams.most_common())}
    record, work = found[0]
    return Move(line_of(record), record.task, line_of(work), to)


def _record_for(program: Program, edge: Edge) -> Step | None:
    """Return the record between the steps of *edge* for whose event the second one waits, in its stream or the host."""
    if edge.from_stream is None or "stream" not in program.steps[edge.before].fields:
        return None
    task, waited = program.steps[edge.behind].task, set[str]()
    for step in reversed(program.steps[edge.before + 1 : edge.behind]):
        match step.act:
            case Waited(Name(_, event), Name(_, stream)) if stream == edge.to_stream:
                waited.add(event)
            case Synchronised(Name("event", event)) if edge.to_stream is None and step.task == task:
                waited.add(event)
            case Recorded(Name(_, event), Name(_, stream)) if event in waited:
                if stream != edge.from_stream:
                    return step
                waited.discard(event)
    return None


def moved(case: Case, move: Move) -> Case:
    """Return *case* with the records of the line of *move* in the streams of the work."""

    def change(step: Step) -> list[Step]:
        if not move.moves(step):
            return [step]
        stream = step.fields["stream"]
        return [with_fields(step, stream=move.streams.get(stream, stream))]

    return case.with_steps(change)
