"""What commands say about a run: `--explain`, and `--what-if`."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import Annotated, NamedTuple

import typer
from rich.text import Text

from acl_py.calls.steps import HOST_ACCESS
from acl_py.causes.pages import explained as with_causes
from acl_py.cli.common import OF_EXPLANATIONS, complain, console, is_written, option_refused, progress
from acl_py.explain.asking import asking_of
from acl_py.explain.cases import Case, EditError
from acl_py.explain.edits import FORMS, Edit, parse_all
from acl_py.explain.optimiser import optimise, write_program
from acl_py.explain.recordings import asker_of
from acl_py.explain.whatif import Answer, Asker, answers_text
from acl_py.explain.windowed import Part
from acl_py.many.crew import Crew
from acl_py.tools.explanation import Explanation, View
from acl_py.trace.page import Page, Run
from acl_py.trace.rows.timeline import Timeline
from device_model.errors import printable
from device_model.profile import DeviceProfile

MOST_PRICED_OPS = 1_000  # of a run whose findings have prices on a page without --explain
_USUAL = View()
# What a terminal shows in colours: lines of the program, what something is worth, and how a part of a report begins.
_PLACE, _WORTH, _HEAD = r"[\w.-]+\.py:\d+", r"Worth [\d,.]+ us|-> [\d,.]+ us", r"^(critical path|advice|findings)"

Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Say what the run waited for, by line, and what each wait is worth.",
        rich_help_panel=OF_EXPLANATIONS,
    ),
]
WhatIf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="EDIT",
        help=f"Say what the run would take with an edit: {FORMS}. Several edits, separated by commas, are made "
        "together; may be repeated.",
        rich_help_panel=OF_EXPLANATIONS,
    ),
]


OptimiseOut = Annotated[
    Path | None,
    typer.Option(
        "--optimise",
        metavar="OUT.json",
        help="Propose pinned memory, operations in parts and streams that make the run faster, with the gain of each "
        "and of all, and write the edited program to this file.",
        rich_help_panel=OF_EXPLANATIONS,
    ),
]


class Shown(NamedTuple):
    """A *run* that a page shows. *case* is its program, None if only the recording is there."""

    run: Run
    case: Case | None = None

    def below(self, title: str) -> "Shown":
        """Return this with *title* before its own title."""
        return self._replace(run=self.run._replace(title=f"{title}: {self.run.title}"))


def propose(asker: Asker, path: Path, *, stderr: bool = False, crew: Crew | None = None) -> bool:
    """Print what the optimiser proposes, and write the edited program. Return whether that was possible.

    The edited programs run on *crew*, or else one after the other in this process.
    """
    with progress("edits tried", None) as advance:
        proposal = optimise(asker, crew, advance)
    say(proposal.text, stderr=stderr)
    if proposal.together is None:
        return True
    program = proposal.together.case.program
    return is_written(lambda: write_program(program, path), path)


def edits_of(texts: Sequence[str] | None) -> list[list[Edit]]:
    """Return the edits of each option; raise BadParameter if one cannot be read."""
    with option_refused(EditError):
        return [parse_all(text) for text in texts or ()]


def explain_case(
    case: Case, edits: Sequence[Sequence[Edit]], *, explain: bool, optimised: Path | None = None
) -> tuple[list[Shown], bool]:
    """Print the explanation of *case* if it is wanted, and what each of *edits* would change; write the *optimised*
    program.

    Returns:
        For a page: the timeline with its findings, and that of each edit. And whether the program could be written.

    Raises:
        EditError: an edit names something that the program does not have, or the edited program does not run.
    """
    asker = Asker(case)
    answers = [asker.ask(together) for together in edits]
    run = _run(asker, _with_host(asker.timeline, case))
    if explain:
        explanation = Explanation(run.timeline, asker, _USUAL)
        say(explanation.text)
        run = explanation.on_page(run)
    if answers:
        say(answers_text(answers))
    return [Shown(run, case), *_runs(answers)], optimised is None or propose(asker, optimised)


def explain_recording(
    timeline: Timeline,
    name: str,
    edits: Sequence[Sequence[Edit]],
    *,
    model: DeviceProfile | None = None,
    optimised: Path | None = None,
    stderr: bool = False,
) -> tuple[list[Shown], bool]:
    """Print the explanation of a run, and what each of *edits* would change; write the *optimised* program. *name* is
    that of the run, and prices are by *model*, or else by the profile of the run.

    Returns:
        For a page: the timeline with its findings, and that of each edit. And whether all that was asked could be done.
    """
    told = Told(timeline, name, edits, model)
    told.say(stderr=stderr)
    return told.pages, told.is_fine and (optimised is None or told.propose(optimised, stderr=stderr))


class Told:
    """What is told of a recording: its *explanation*, and the *answers* to the *edits*."""

    def __init__(
        self,
        timeline: Timeline,
        name: str,
        edits: Sequence[Sequence[Edit]] = (),
        model: DeviceProfile | None = None,
        view: View = _USUAL,
        crew: Crew | None = None,
    ) -> None:
        self.timeline = timeline
        self.name = name
        self.is_empty = not timeline.ops and not timeline.calls
        self.answers: list[Answer] = []
        self.is_fine = True  # whether all that was asked could be done
        asker = self._asker(model, asks=bool(edits))
        self.explanation = Explanation(timeline, asker, view)
        self._crew = crew or Crew(workers=1)
        if asker is not None and edits:
            try:
                self._ask(asker, edits, view)
            except EditError as error:
                self._complain(str(error))

    def _ask(self, asker: Asker, edits: Sequence[Sequence[Edit]], view: View) -> None:
        """Ask for the answers to *edits*, which are about what *view* shows."""
        part = None if view.window is None else Part(asker, self.timeline, view.window)
        for answer in self._crew.in_order(asking_of(asker if part is None else part.asker), edits):
            if isinstance(answer, EditError):
                self._complain(str(answer))
            else:
                self.answers.append(answer if part is None else part.of(answer))

    def _asker(self, model: DeviceProfile | None, *, asks: bool) -> Asker | None:
        if self.is_empty:
            self.is_fine = not asks
            return None
        try:
            return asker_of(self.timeline, self.name, model)
        except EditError as error:
            complain(f"no prices: {error}")
            self.is_fine = not asks
            return None

    @property
    def worth_ns(self) -> int:
        """How much shorter the run, or its part, is with the best finding, piece of advice or answer; 0 without any.

        An answer that leaves work without order is no gain.
        """
        gains = [before - after for before, after in (each.worked_ns for each in self.answers if not each.conflicts)]
        return max([self.explanation.worth_ns, *gains])

    def _complain(self, what: str) -> None:
        complain(what)
        self.is_fine = False

    def say(self, *, stderr: bool = False) -> None:
        """Print it."""
        if self.timeline.error:
            say(f"the run ended with an error: {self.timeline.error}", stderr=stderr)
        if self.is_empty:
            say("the recording is empty: no call was made", stderr=stderr)
            return
        say(self.explanation.text, stderr=stderr)
        if self.answers:
            say(answers_text(self.answers), stderr=stderr)

    @property
    def pages(self) -> list[Shown]:
        """The timeline with its explanation, for a page, and that of each edit."""
        asker = self.explanation.asker
        if self.is_empty:
            return [Shown(Run(self.name, self.timeline))]
        if asker is None:
            return [Shown(self.explanation.on_page(Run(self.name, self.timeline)))]
        return [Shown(self.explanation.on_page(_run(asker, self.timeline))), *_runs(self.answers)]

    def propose(self, path: Path, *, stderr: bool = False) -> bool:
        """Print what the optimiser proposes, and write the edited program. Return whether that was possible."""
        asker = self.explanation.asker
        return asker is not None and propose(asker, path, stderr=stderr, crew=self._crew)


def write_page(shown: Iterable[Shown], path: Path, *, title: str = "", mistakes: Sequence[str] = ()) -> bool:
    """Explain what is *shown*, with prices, and write it with the *mistakes* to the file *path*. If it cannot be
    written, say why.
    """
    page = Page([each.run if each.run.critical else _priced(*each) for each in shown], title, mistakes)
    if not is_written(lambda: with_causes(page).write(path), path):
        return False
    say(f"acl-py: the timeline is in {path}", stderr=True)
    return True


def _priced(run: Run, case: Case | None) -> Run:
    """Return *run* with its findings, their prices, and advice; or with a note why these are not there."""
    timeline = run.timeline
    if not timeline.ops:
        return run
    try:
        if len(timeline.ops) > MOST_PRICED_OPS:
            raise EditError(f"the run has {len(timeline.ops):,} operations; --explain prices its findings")
        asker = asker_of(timeline, run.title) if case is None else Asker(case)
        whole = timeline if case is None else _with_host(timeline, case)
        return Explanation(whole, asker, _USUAL).on_page(run)
    except EditError as error:
        plain = Explanation(timeline, None, _USUAL).on_page(run)
        return plain._replace(notes=[*(plain.notes or ()), f"there are no prices: {error}"])


def _with_host(timeline: Timeline, case: Case) -> Timeline:
    """Return *timeline*, a run of *case*. A program that says nothing of the host's accesses may still have some."""
    return replace(timeline, host_watched=any(step.act == HOST_ACCESS for step in case.program.steps))


def _run(asker: Asker, timeline: Timeline) -> Run:
    case = asker.case
    notes = [*case.program.notes, *case.notes]
    return Run(printable(case.program.id), timeline, notes=notes)


def _runs(answers: Iterable[Answer]) -> list[Shown]:
    return [Shown(Run(each.edits, each.after, notes=each.notes), each.case) for each in answers]


def say(text: str, *, stderr: bool = False) -> None:
    """Print *text*: as it is to a file; to a terminal with its lines wrapped, and with colours."""
    out = console(stderr=stderr)
    if not out.is_terminal:
        out.print(text, markup=False, highlight=False, soft_wrap=True)
        return
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        wrapped = wrap(
            line, out.width, subsequent_indent=f"{indent}  ", break_long_words=False, break_on_hyphens=False,
            drop_whitespace=True, replace_whitespace=False,
        )  # fmt: skip
        for part in wrapped or [""]:
            shown = Text(part)
            shown.highlight_regex(_PLACE, "cyan")
            shown.highlight_regex(_WORTH, "bold green")
            shown.highlight_regex(_HEAD, "bold")
            out.print(shown, soft_wrap=True)
