"""Edits of a run as edits of its program: the steps that make the waits of the run go, and edges come in their place.

A replay of the unchanged program repeats the run to the nanosecond, so the steps of a call are found by its times and
its line. A record without a wait that is left goes, too; but one in the legacy stream stays, because it puts the work
behind it in order with all blocking streams.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from acl_py.advice.lines import waits_of
from acl_py.advice.needs import Edit
from acl_py.calls import acts
from acl_py.calls.steps import Name
from acl_py.causes.relation import At, Node
from acl_py.explain.beside import DEFAULT_STREAM
from acl_py.explain.cases import Case, EditError
from acl_py.explain.edges import Edge, with_edges
from acl_py.explain.whatif import Asker
from acl_py.programs.format import Step
from acl_py.trace.rows.columns import call_columns, op_columns
from acl_py.trace.rows.reading import launching, short_site
from acl_py.trace.rows.timeline import Timeline
from device_model.rules import DefaultStream


@dataclass(frozen=True)
class Edited:
    """The program of an edit: *base* without the steps that have the indices *gone*, and with *edges*.

    *records* are the lines of the records that are gone, too.
    """

    base: Case
    gone: frozenset[int]
    edges: tuple[Edge, ...]
    records: tuple[str, ...]

    @cached_property
    def case(self) -> Case:
        """The program, which is made when it is asked for."""
        return with_edges(self.base, self.edges, self.gone)


class Steps:
    """The steps of the program of *asker* that make the calls of *timeline*."""

    def __init__(self, asker: Asker, timeline: Timeline) -> None:
        self._case = asker.case
        self._timeline = timeline
        self.steps = asker.case.program.steps
        self._by_times: defaultdict[tuple[int, int], list[Step]] = defaultdict(list)
        for call in asker.before.host:
            times = round(call.enter_us * 1000), round(call.exit_us * 1000)
            self._by_times[times].append(self.steps[call.step])
        self._launching = launching(op_columns(timeline.ops), call_columns(timeline.calls)).tolist()
        # By event: the steps that record it, and the others that use it.
        self._uses: defaultdict[str, tuple[list[Step], list[Step]]] = defaultdict(lambda: ([], []))
        self._queuing: defaultdict[str, list[int]] = defaultdict(list)  # by stream: the steps that give it work
        self._recording: defaultdict[str, list[int]] = defaultdict(list)  # by stream: the records in it
        self._recorded: defaultdict[str, list[int]] = defaultdict(list)  # by event: its records
        self._note_steps()

    def edited(self, edit: Edit) -> Edited:
        """Return the program with *edit*.

        Raises:
            EditError: the program has no steps for it, or they are no places for an edge.
        """
        calls, awaits = waits_of(edit.lines)
        gone = {self._of_call(index).index for index in calls} | {self._of_access(row).index for row in awaits}
        edges = tuple(self._edge(*behind) for behind in edit.behind)
        records = [*self._idle_records(gone, edges)]
        gone |= {step.index for step in records}
        return Edited(self._case, frozenset(gone), edges, tuple(dict.fromkeys(step.line for step in records)))

    def changes_nothing(self, edit: Edit, edges: Sequence[Edge]) -> bool:
        """Whether *edges* are the waits that *edit* takes out: of the same streams, for the same events."""
        calls, awaits = waits_of(edit.lines)
        waits = Counter((step.fields.get("event"), step.fields.get("stream")) for step in map(self._of_call, calls))
        return not awaits and waits == Counter((edge.event or None, edge.to_stream) for edge in edges)

    def _note_steps(self) -> None:
        for step in self.steps:
            act = step.act
            if isinstance(act, acts.Made | acts.Destroyed):
                continue
            for each in acts.leaves(act):
                if isinstance(each, Name) and each.kind == "event":
                    self._uses[each.name][not isinstance(act, acts.Recorded)].append(step)
            match act:
                case acts.Recorded(Name(_, event), Name(_, stream), external):
                    if not external:
                        self._recording[stream].append(step.index)
                        self._recorded[event].append(step.index)
                case acts.Synchronised() | acts.Asked():
                    pass
                case _ if "stream" in step.fields:
                    self._queuing[step.fields["stream"]].append(step.index)

    # --- the steps of rows

    def _of_call(self, index: int) -> Step:
        call = self._timeline.calls[index]
        return self._at(call.enter_ns, call.exit_ns, short_site(call.file, call.line))

    def _of_access(self, row: int) -> Step:
        access = self._timeline.accesses[row]
        return self._at(access.at_ns, access.at_ns, short_site(access.file, access.line))

    def _of_op(self, index: int) -> Step:
        op = self._timeline.ops[index]
        if op.launch is not None:
            return self._of_call(self._launching[op.launch])
        return self._at(op.called_ns, op.queued_ns, op.site)

    def _at(self, enter_ns: int, exit_ns: int, site: str) -> Step:
        found = next((step for step in self._by_times[enter_ns, exit_ns] if step.line == site), None)
        if found is None:
            raise EditError(f"the program has no step for {site}")
        return found

    def _of_node(self, node: Node) -> Step:
        if node.at is At.OP:
            return self._of_op(node.place)
        return self._of_access(node.place) if node.at is At.ACCESS else self._of_call(node.place)

    # --- edges

    def _edge(self, one: Node, other: Node, reuse: bool) -> Edge:
        """Return the edge from the operation *one*; the program may have an event for it already."""
        before, behind = self._of_node(one), self._of_node(other)
        stream = before.fields.get("stream")
        if one.at is not At.OP or not isinstance(stream, str):
            raise EditError(f"{before.line} is no place for a record")
        if other.at is At.OP:
            to_stream = behind.fields.get("stream")
            if not isinstance(to_stream, str):
                raise EditError(f"{behind.line} is no place for a wait in a stream")
            return Edge(
                before.index, behind.index, stream, to_stream, event=self._event(before, behind, stream, reuse=reuse)
            )
        by_event = self._next(stream, before) < behind.index
        event = self._event(before, behind, stream, reuse=reuse) if by_event else ""
        return Edge(before.index, behind.index, stream, None, by_event=by_event, event=event)

    def _next(self, stream: str, before: Step) -> int:
        """Return the index of the first step behind *before* that gives work to *stream*, or one behind all steps."""
        return next(_behind(before.index, self._queuing[stream]), len(self.steps))

    def _event(self, before: Step, behind: Step, stream: str, *, reuse: bool) -> str:
        """Return the name of an event that *stream* records before its next work, and no later until *behind*.

        With *reuse*, other work may come before the record. Another task may make a record at another time.
        """
        if before.task != behind.task:
            return ""
        until = behind.index if reuse else min(behind.index, self._next(stream, before))
        for index in _behind(before.index, self._recording[stream]):
            if index >= until:
                break
            record = self.steps[index]
            if record.task == behind.task:
                event = str(record.fields["event"])
                again = next(_behind(index, self._recorded[event]), len(self.steps))
                return event if again > behind.index else ""
        return ""

    # --- records

    def _idle_records(self, gone: Collection[int], edges: Sequence[Edge]) -> Iterator[Step]:
        """Yield the records of events for which nothing waits any more, now that the steps *gone* do not."""
        events = {edge.event for edge in edges}
        for name, (records, others) in self._uses.items():
            if others and name not in events and all(step.index in gone for step in others):
                yield from (step for step in records if not self._is_barrier(step))

    def _is_barrier(self, record: Step) -> bool:
        independent = self._case.rules.default_stream is DefaultStream.INDEPENDENT
        return not independent and record.fields.get("stream") == DEFAULT_STREAM


def _behind(index: int, indices: Sequence[int]) -> Iterator[int]:
    """Yield those of *indices*, which are sorted, that come behind *index*."""
    return islice(indices, bisect_right(indices, index), None)
