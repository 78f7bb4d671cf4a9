"""What commands say about a run: `--explain`, and `--what-if`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from acl_py.advice.choosing import Chooser, missing
from acl_py.advice.pairs import RacesError
from acl_py.advice.texts import Words
from acl_py.calls.steps import HOST_ACCESS
from acl_py.causes.findings import BARRIERS, Finding, Pitfall, findings, findings_text
from acl_py.causes.lines import path_text
from acl_py.causes.pages import with_findings
from acl_py.causes.path import critical_path
from acl_py.cli.common import OF_EXPLANATIONS, complain, console, is_written, option_refused
from acl_py.explain.cases import Case, EditError
from acl_py.explain.edits import FORMS, Edit, parse_all
from acl_py.explain.optimiser import optimise, write_program
from acl_py.explain.pages import with_prices
from acl_py.explain.prices import notes_of_prices, prices, prices_text
from acl_py.explain.recordings import asker_of
from acl_py.explain.whatif import Answer, Asker, answers_text
from acl_py.recorded import not_known
from acl_py.trace.page import Run
from acl_py.trace.rows.timeline import Timeline
from device_model.errors import printable
from device_model.profile import DeviceProfile

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


def propose(asker: Asker, path: Path, *, stderr: bool = False) -> bool:
    """Print what the optimiser proposes, and write the edited program. Return whether that was possible."""
    proposal = optimise(asker)
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
) -> tuple[list[Run], bool]:
    """Print the explanation of *case* if it is wanted, and what each of *edits* would change; write the *optimised*
    program.

    Returns:
        For a page: the timeline with its findings, and that of each edit. And whether the program could be written.

    Raises:
        EditError: an edit names something that the program does not have, or the edited program does not run.
    """
    asker = Asker(case)
    answers = [asker.ask(together) for together in edits]
    # A program that says nothing of the host's accesses may still have some.
    host_watched = any(step.act == HOST_ACCESS for step in case.program.steps)
    timeline = replace(asker.timeline, host_watched=host_watched)
    pages = [explained(asker, timeline, explain=explain), *shown(answers)]
    return pages, optimised is None or propose(asker, optimised)


def explain_recording(
    timeline: Timeline,
    name: str,
    edits: Sequence[Sequence[Edit]],
    *,
    model: DeviceProfile | None = None,
    optimised: Path | None = None,
    stderr: bool = False,
) -> tuple[list[Run], bool]:
    """Print the explanation of a run, and what each of *edits* would change; write the *optimised* program. *name* is
    that of the run, and prices are by *model*, or else by the profile of the run.

    Returns:
        For a page: the timeline with its findings, and that of each edit. And whether all that was asked could be done.
    """
    asks = bool(edits) or optimised is not None
    if timeline.error:
        say(f"the run ended with an error: {timeline.error}", stderr=stderr)
    if not timeline.ops and not timeline.calls:
        say("the recording is empty: no call was made", stderr=stderr)
        return [Run(name, timeline)], not asks
    try:
        asker = asker_of(timeline, name, model)
    except EditError as error:
        complain(f"no prices: {error}")
        return [_unpriced(timeline, name, stderr=stderr)], not asks
    pages, answers, fine = [explained(asker, timeline, explain=True, stderr=stderr)], [], True
    for together in edits:
        try:
            answers.append(asker.ask(together))
        except EditError as error:
            complain(str(error))
            fine = False
    pages += shown(answers, stderr=stderr)
    return pages, fine and (optimised is None or propose(asker, optimised, stderr=stderr))


def _unpriced(timeline: Timeline, name: str, *, stderr: bool) -> Run:
    """Print the explanation of a run that cannot be repeated; return it for a page."""
    path, found = critical_path(timeline), findings(timeline)
    say(path_text(timeline), stderr=stderr)
    run = with_findings(Run(name, timeline), path, found)
    say("\n".join([findings_text(found), *not_known(run.notes or ())]), stderr=stderr)
    return run


def explained(asker: Asker, timeline: Timeline, *, explain: bool, stderr: bool = False) -> Run:
    """Print the explanation of *timeline*, a run of the program of *asker*, if it is wanted; return it for a page."""
    case = asker.case
    notes = [*case.program.notes, *case.notes]
    shown = Run(printable(case.program.id), timeline, since_ns=0, until_ns=asker.before_ns, notes=notes)
    if not explain:
        return shown
    path, priced = critical_path(timeline), prices(asker, timeline)
    notes = notes_of_prices(asker, priced)
    say(path_text(timeline), stderr=stderr)
    advice = _advice(asker, timeline, [each.finding for each in priced])
    say(advice if isinstance(advice, str) else advice.text, stderr=stderr)
    say(prices_text(priced, notes), stderr=stderr)
    run = with_prices(shown, path, priced, notes)
    return run if isinstance(advice, str) else run._replace(findings=[*advice.on_page(), *run.findings])


def _advice(asker: Asker, timeline: Timeline, found: Sequence[Finding]) -> Words | str:
    """Return advice about the waits of a run with the findings *found*, or why there is none."""
    lacks = missing(timeline)
    if lacks:
        return lacks
    barriers = {index for each in found if each.pitfall in BARRIERS for index in each.calls}
    has_legacy = any(each.pitfall is Pitfall.LEGACY for each in found)
    try:
        chosen = Chooser(asker, timeline, barriers, has_legacy=has_legacy).choose()
    except RacesError as error:
        return f"no advice: {error}"
    return Words(chosen, timeline, asker.case.program.steps)


def shown(answers: Sequence[Answer], *, stderr: bool = False) -> list[Run]:
    """Print *answers*, and return their timelines for a page."""
    if answers:
        say(answers_text(answers), stderr=stderr)
    return [Run(each.edits, each.after, since_ns=0, until_ns=each.after_ns, notes=each.notes) for each in answers]


def say(text: str, *, stderr: bool = False) -> None:
    """Print *text* as it is."""
    console(stderr=stderr).print(text, markup=False, highlight=False, soft_wrap=True)
