"""All that is said of a run: its critical path, advice about its waits, and its findings, each with a price.

`Explanation` has it as text for the terminal, as data for other programs, and for a page.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

from acl_py import __version__
from acl_py.advice.choosing import Chooser, missing
from acl_py.advice.pairs import RacesError
from acl_py.advice.pieces import Advice
from acl_py.advice.texts import Words
from acl_py.causes.findings import BARRIERS, Finding, Pitfall, findings, findings_text
from acl_py.causes.lines import MOST_LINES, by_line, path_text, within
from acl_py.causes.pages import with_findings
from acl_py.causes.path import Part, critical_path, makespan_ns
from acl_py.explain.pages import with_prices
from acl_py.explain.prices import Priced, notes_of_prices, prices, prices_text
from acl_py.explain.whatif import Answer, Asker
from acl_py.recorded import not_known, notes_of
from acl_py.trace.page import Run
from acl_py.trace.rows.overlaps import HiddenCopies, hidden_copies
from acl_py.trace.rows.timeline import Operation, Timeline
from acl_py.trace.rows.windows import Window, whole, worked

FORM, VERSION = "acl_py report", 1  # of the data


@dataclass(frozen=True, slots=True)
class View:
    """What of a run is told: the *window*, None from the first work to the last wait, and how many lines at *most*."""

    window: Window | None = None
    most: int = MOST_LINES


class Explanation:
    """The explanation of the run in *timeline*; with an *asker*, which repeats it, there are prices and advice."""

    def __init__(self, timeline: Timeline, asker: Asker | None, view: View) -> None:
        self.timeline = timeline
        self.asker = asker
        self.view = view
        self.window = view.window or worked(timeline)

    @cached_property
    def path(self) -> list[Part]:
        """The critical path of the whole run."""
        return critical_path(self.timeline)

    @cached_property
    def _all_priced(self) -> list[Priced]:
        if self.asker is None:
            return [Priced(each, None, "the run cannot be repeated") for each in findings(self.timeline)]
        return prices(self.asker, self.timeline)

    @property
    def priced(self) -> list[Priced]:
        """The findings in the window, with their prices in the whole run; those that are worth most first."""
        if not self._is_of_part:
            return self._all_priced
        is_in = self._is_in_window
        found = [each for each in self._all_priced if is_in(each.finding.begin_ns, each.finding.end_ns)]
        return [replace(each, is_of_part=True) for each in found]

    @property
    def _is_of_part(self) -> bool:
        """Whether a part of the run is told that leaves out work or waits."""
        return self.view.window not in (None, whole(self.timeline))

    @cached_property
    def advice(self) -> Words | str:
        """Advice about the waits of the run, or why there is none."""
        if self.asker is None:
            return ""
        lacks = missing(self.timeline)
        if lacks:
            return lacks
        found = [each.finding for each in self._all_priced]
        barriers = {index for each in found if each.pitfall in BARRIERS for index in each.calls}
        has_legacy = any(each.pitfall is Pitfall.LEGACY for each in found)
        try:
            chosen = Chooser(self.asker, self.timeline, barriers, has_legacy=has_legacy).choose()
        except RacesError as error:
            return f"no advice: {error}"
        steps = self.asker.case.program.steps
        if not self._is_of_part:
            return Words(chosen, self.timeline, steps)
        shown = [each for each in chosen.advice if self._are_in_window(each.way.line.calls)]
        elsewhere = len(chosen.advice) - len(shown)
        return Words(replace(chosen, advice=shown), self.timeline, steps, elsewhere)

    def _are_in_window(self, calls: Sequence[int]) -> bool:
        rows = [self.timeline.calls[index] for index in calls]
        return not rows or any(self._is_in_window(call.enter_ns, call.exit_ns) for call in rows)

    def _is_in_window(self, begin_ns: int, end_ns: int) -> bool:
        """Whether this time is in the window, and does not only end where it begins, or begin where it ends."""
        if begin_ns == end_ns:
            return self.window.has(begin_ns, end_ns)
        return any(self.window.within(begin_ns, end_ns))

    @cached_property
    def notes(self) -> list[str]:
        """What prices do not contain."""
        return notes_of(self.timeline) if self.asker is None else notes_of_prices(self.asker, self._all_priced)

    @property
    def worth_ns(self) -> int:
        """How much shorter the run is with the best finding or piece of advice; 0 if there is none. An edit that leaves
        work without order gains nothing.
        """
        answers = (each.answer for each in self.priced)
        gains = [each.gain_ns for each in answers if each is not None and not each.conflicts]
        return max([0, *gains, *(each.added_ns for each in self._pieces)])

    @property
    def _pieces(self) -> Sequence[Advice]:
        return () if isinstance(self.advice, str) else self.advice.advice

    @property
    def text(self) -> str:
        """The explanation as plain text."""
        text = [path_text(self.timeline, self.view.window, self.view.most)]
        if self.asker is None:
            found = [each.finding for each in self.priced]
            return "\n".join([*text, findings_text(found[: self.view.most]), *not_known(self.notes)])
        advice = self.advice if isinstance(self.advice, str) else self.advice.text
        return "\n".join([*text, advice, prices_text(self.priced, self.notes, self.view.most)])

    @property
    def _ops_in_window(self) -> list[Operation]:
        """The operations in the window; one that is partly in it has the times of that part."""
        return [
            op._replace(start_ns=begin, end_ns=end)
            for op in self.timeline.ops
            for begin, end in self.window.within(op.start_ns, op.end_ns)
        ]

    def on_page(self, run: Run) -> Run:
        """Return *run*, which shows the timeline, with its critical path, findings and advice."""
        if self.asker is None:
            return with_findings(run, self.path, [each.finding for each in self._all_priced])
        run = with_prices(run, self.path, self._all_priced, self.notes)
        return run if isinstance(self.advice, str) else run._replace(findings=[*self.advice.on_page(), *run.findings])

    def data(self, answers: Sequence[Answer] = ()) -> dict[str, Any]:
        """Return the explanation and the *answers* to what-ifs, for JSON (fields: docs/traces/explanations.md)."""
        timeline, path = self.timeline, within(self.window, self.path)
        causes: Counter[str] = Counter()
        for part in path:
            causes[str(part.cause)] += part.ns
        return {
            "form": FORM,
            "version": VERSION,
            "acl_py": __version__,
            "device": timeline.device,
            "rules": timeline.rules,
            "error": timeline.error,
            "run_us": makespan_ns(timeline) / 1000,
            "window": {
                "what": self.window.what,
                "us": self.window.ns / 1000,
                "spans_us": [[begin / 1000, end / 1000] for begin, end in self.window.spans],
            },
            "causes": {cause: ns / 1000 for cause, ns in causes.most_common()},
            "lines": [
                {
                    "line": line.site,
                    "names": dict(line.names),
                    "us": line.ns.total() / 1000,
                    "causes": {str(cause): ns / 1000 for cause, ns in line.ns.most_common()},
                    "slack_us": None if line.slack_ns is None else line.slack_ns / 1000,
                }
                for line in by_line(timeline, path)[: self.view.most]
            ],
            "copies": [*_copies(hidden_copies(self._ops_in_window, timeline.marks))],
            "advice": {"missing": self.advice} if isinstance(self.advice, str) else self.advice.data(),
            "findings": [*_findings(self.priced[: self.view.most])],
            "what_if": [_answer(each) for each in answers],
            "notes": list(self.notes),
        }


def _copies(rows: Sequence[HiddenCopies]) -> Iterator[dict[str, Any]]:
    """Yield *rows* as data, with times in microseconds."""
    for row in rows:
        yield {
            name.replace("copy_ns", "us").replace("_ns", "_us"): value / 1000 if name.endswith("_ns") else value
            for name, value in asdict(row).items()
        }


def _findings(priced: Sequence[Priced]) -> Iterator[dict[str, Any]]:
    """Yield *priced* as data. An id is the same as long as the kind, the file and the words are."""
    seen: Counter[str] = Counter()
    for each in priced:
        finding = each.finding
        name = _id(finding)
        seen[name] += 1
        yield {
            "id": name if seen[name] == 1 else f"{name}-{seen[name]}",
            "kind": finding.pitfall.value,
            "line": finding.site,
            "what": finding.what,
            "edit": finding.edit,
            "diff": list(each.source),
            "times": max(len(finding.calls), len(finding.ops)),
            "held_us": finding.held_ns / 1000,
            "worth_us": None if each.answer is None else each.answer.gain_ns / 1000,
            "no_price": each.problem,
            "conflicts": [] if each.answer is None else list(each.answer.conflicts),
        }


def _id(finding: Finding) -> str:
    file = finding.site.rpartition(":")[0]
    digest = sha256(repr((finding.pitfall.value, file, finding.what)).encode()).hexdigest()
    return f"{finding.pitfall.value.replace(' ', '-')}-{digest[:8]}"


def _answer(answer: Answer) -> dict[str, Any]:
    before_ns, after_ns = answer.worked_ns
    return {
        "edits": answer.edits,
        "part": answer.part,
        "before_us": before_ns / 1000,
        "after_us": after_ns / 1000,
        "conflicts": list(answer.conflicts),
        "notes": list(answer.notes),
    }
