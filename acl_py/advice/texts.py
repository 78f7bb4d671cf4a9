"""Advice in words, for the terminal and for pages."""

from collections.abc import Iterator, Sequence
from typing import Any

from acl_py.advice.choosing import Chosen
from acl_py.advice.needs import Behind, node_text
from acl_py.advice.pieces import Advice, Form, Way
from acl_py.calls import acts
from acl_py.calls.steps import Name
from acl_py.causes.lines import us
from acl_py.explain.edges import Edge
from acl_py.explain.whatif import Answer
from acl_py.programs.format import Step
from acl_py.trace import page
from acl_py.trace.rows.timeline import Timeline
from device_model.errors import listed

_MOST = 5  # lines of the program in a list


class Words:
    """Says what is *chosen* for the run in *timeline*; *steps* are those of its program.

    For a part of the run, *chosen* has only the advice about that, and *elsewhere* says how many pieces are about other
    parts. Their prices are those of the whole run.
    """

    def __init__(self, chosen: Chosen, timeline: Timeline, steps: Sequence[Step], elsewhere: int | None = None) -> None:
        self._elsewhere = elsewhere
        self._chosen = chosen
        self._timeline = timeline
        self._steps = steps

    @property
    def text(self) -> str:
        """All advice as plain text: what it is worth together, then each piece, then what is not known."""
        together, elsewhere = self.together, self._elsewhere
        of = "this run" if elsewhere is None else "this part"
        lines = [f"advice: none: no wait of {of} is known to be needless"]
        if together is not None and self.advice:
            before_ns, (before, after) = together.worked_ns[0], self._chosen.peaks
            more = f"; memory of devices in use at once: {before:,} -> {after:,} bytes" if after > before else ""
            run = "" if elsewhere is None else " in the whole run"
            told = f"{us(before_ns)} -> {us(before_ns - together.gain_ns)}{run}, still ordered{more}"
            first = self._chosen.first_ops
            part = "" if first is None else f"; each piece is worth its share in the first {first:,} operations"
            others = f", and {elsewhere:,} more in other parts" if elsewhere else ""
            lines = [f"advice: all of this{others}: {told}{part}"]
        lines += [f"  {each.way.line.site}: {self._piece(each)}" for each in self._chosen.advice]
        lines += [f"  {sentence}" for sentence in self._about_queries()]
        doubtful = [each for each in self._chosen.verdicts if each.doubt is not None]
        if doubtful:
            doubts = [f"{each.line.site} {each.line.call}: {each.doubt}" for each in doubtful]
            lines.append(f"  not known whether these are needed: {listed(doubts, _MOST)}")
        return "\n".join(lines)

    @property
    def advice(self) -> Sequence[Advice]:
        """All pieces of advice."""
        return self._chosen.advice

    @property
    def together(self) -> Answer | None:
        """The answer of all pieces together; None if there are none."""
        return self._chosen.together

    def data(self) -> dict[str, Any]:
        """Return all advice for JSON."""
        together = self.together if self.advice and not self._elsewhere else None
        doubts = [each for each in self._chosen.verdicts if each.doubt is not None]
        return {
            "before_us": None if together is None else together.worked_ns[0] / 1000,
            "first_ops": self._chosen.first_ops,
            "after_us": None if together is None else (together.worked_ns[0] - together.gain_ns) / 1000,
            "pieces": [
                {
                    "line": each.way.line.site,
                    "call": each.way.line.called,
                    "form": each.way.form.value,
                    "text": self._piece(each),
                    "times": each.way.line.count,
                    "worth_us": None if each.alone_ns is None else each.alone_ns / 1000,
                    "adds_us": each.added_ns / 1000,
                    "hides": [hidden.site for hidden in each.hidden],
                }
                for each in self._chosen.advice
            ],
            "notes": [*self._about_queries()],
            "not_known": [
                {"line": each.line.site, "call": each.line.called, "why": str(each.doubt)} for each in doubts
            ],
        }

    def _about_queries(self) -> Iterator[str]:
        """Say that a run with the advice keeps the number of queries, if there are any. A loop of queries that was seen
        to repeat is run as a loop.
        """
        asks = [step for step in self._steps if step.is_query and not step.fields.get("until")]
        if self.advice and asks:
            lines = listed([*dict.fromkeys(step.line for step in asks)], _MOST)
            yield (
                f"the program asks whether work is done ({lines}): these times have as many queries as this run, so if "
                'an answer becomes "not yet" with the advice, the program may ask again and take longer'
            )

    def on_page(self) -> list[page.Finding]:
        """Return all advice as a page shows it."""
        return [self._on_page(each) for each in self._chosen.advice]

    def _piece(self, advice: Advice) -> str:
        """Return one piece of advice in sentences."""
        sentences = [self._what(advice.way), self._edit(advice.way), self._worth(advice)]
        if advice.hidden:
            lines = listed([f"{each.site} ({each.called})" for each in advice.hidden])
            sentences.append(f"Needed once it is gone: {lines}")
        return ". ".join(sentences) + "."

    def _worth(self, advice: Advice) -> str:
        assert self.together is not None, "there is advice"
        of = us(self.together.worked_ns[0])
        of = of if self._elsewhere is None else f"the {of} of the whole run"
        if advice.below is not None:
            return f"Worth {us(advice.added_ns)} of {of}" + (f", with the {advice.below} below" if advice.below else "")
        gain_ns = advice.alone_ns or 0
        worth = f"Worth {us(gain_ns)} of {of}" if gain_ns else "Worth nothing alone"
        others = "other advice" if self._elsewhere else "advice above"
        return worth if gain_ns == advice.added_ns else f"{worth}, and {us(advice.added_ns)} with the {others}"

    def _what(self, way: Way) -> str:
        line = way.line
        if way.form is Form.REMOVE:
            times = f"in this run, {line.count:,} of {line.count:,}"
            return f"{line.call} orders nothing that is not in order without it ({times})"
        if way.form is Form.LAST:
            times = f"in this run, {line.count:,} of {line.count + line.last:,}"
            return f"{line.call} orders nothing before its last wait ({times})"
        one, other = way.pairs[0].one, way.pairs[0].other
        needs = f"{node_text(self._timeline, other)} needs only {node_text(self._timeline, one)}"
        return f"{line.call} waits for more than it has to: {needs}"

    def _edit(self, way: Way) -> str:
        if way.form is Form.WEAKER:
            edit = "; ".join(self._edges(way))
        else:
            edit = "Remove it" if way.form is Form.REMOVE else "Make the call once, behind the others"
        records = self._new_records(way)
        return f"{edit}, and the record at {listed(records)}, for which nothing waits then" if records else edit

    def _new_records(self, way: Way) -> list[str]:
        """Return the lines of the records that go with *way*, and not with what was chosen before it."""
        gone: set[str] = set()
        for each in self._chosen.advice:
            if each.way is way:
                break
            gone.update(each.way.edited.records)
        return [line for line in way.edited.records if line not in gone]

    def _edges(self, way: Way) -> Iterator[str]:
        """Yield what to wait for instead: the first edge of each kind."""
        kinds: dict[tuple[str | None, str | None, bool], tuple[Behind, Edge]] = {}
        edges = way.edited.edges[len(way.edited.edges) - len(way.edit.behind) :]
        for behind, edge in zip(way.edit.behind, edges, strict=True):
            kinds.setdefault((edge.from_stream, edge.to_stream, edge.by_event), (behind, edge))
        for behind, edge in kinds.values():
            one, other = node_text(self._timeline, behind.one), node_text(self._timeline, behind.other)
            record = self._record(edge)
            event = f"an event recorded behind {one}" if record is None else f"the event that {record.line} records"
            if edge.to_stream is not None:
                yield f"Let {edge.to_stream} wait for {event}"
            elif edge.by_event:
                yield f"Synchronise with {event}, before {other}"
            else:
                yield f"Synchronise with {edge.from_stream} before {other}"

    def _record(self, edge: Edge) -> Step | None:
        """Return the record for which *edge* waits, if the program makes it already."""
        event = Name("event", edge.event)
        before = (step for step in reversed(self._steps[: edge.behind]) if isinstance(step.act, acts.Recorded))
        return next((step for step in before if event in acts.leaves(step.act)), None) if edge.event else None

    def _on_page(self, advice: Advice) -> page.Finding:
        timeline, line, text = self._timeline, advice.way.line, self._piece(advice)
        calls = [timeline.calls[index] for index in line.calls]
        awaits = [timeline.accesses[row].at_ns for row in line.awaits]
        begin_ns = min([*(call.enter_ns for call in calls), *awaits])
        end_ns = max([*(call.exit_ns for call in calls), *awaits])
        held_ns = sum(call.exit_ns - call.enter_ns for call in calls)
        return page.Finding(text, line.site, begin_ns, end_ns, [], line.calls, held_ns, advice.added_ns)
