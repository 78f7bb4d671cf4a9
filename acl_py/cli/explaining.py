"""What commands say about a run: `--explain`, and `--what-if`."""

from collections.abc import Sequence
from typing import Annotated

import typer

from acl_py.cli.common import console
from acl_py.explain.cases import Case, EditError
from acl_py.explain.edits import FORMS, Edit, parse_all
from acl_py.explain.lines import path_text
from acl_py.explain.path import Cause, critical_path
from acl_py.explain.prices import Priced, prices, prices_text
from acl_py.explain.whatif import Answer, Asker, answers_text
from acl_py.trace import page
from acl_py.trace.page import Run
from acl_py.trace.rows import Timeline
from device_model.errors import printable

Explain = Annotated[
    bool, typer.Option("--explain", help="Say what the run waited for, by line, and what each wait is worth.")
]
WhatIf = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Say what the run would take with an edit: {FORMS}. Several edits, separated by commas, are made "
        "together; may be repeated."
    ),
]


def edits_of(texts: Sequence[str] | None) -> list[list[Edit]]:
    """Return the edits of each option; raise BadParameter if one cannot be read."""
    try:
        return [parse_all(text) for text in texts or ()]
    except EditError as error:
        raise typer.BadParameter(str(error)) from error


def explain_case(case: Case, edits: Sequence[Sequence[Edit]], *, explain: bool) -> list[Run]:
    """Print the explanation of *case* if it is wanted, and what each of *edits* would change.

    Returns:
        For a page: the timeline with its findings, and that of each edit.

    Raises:
        EditError: an edit names something that the program does not have, or the edited program does not run.
    """
    asker = Asker(case)
    answers = [asker.ask(together) for together in edits]
    return [explained(asker, asker.timeline, explain=explain), *shown(answers)]


def explained(asker: Asker, timeline: Timeline, *, explain: bool) -> Run:
    """Print the explanation of *timeline*, a run of the program of *asker*, if it is wanted; return it for a page."""
    name = printable(asker.case.program.id)
    if not explain:
        return Run(name, timeline)
    path, priced = critical_path(timeline), prices(asker, timeline)
    say(path_text(timeline))
    say(prices_text(priced))
    critical = dict.fromkeys(part.op for part in path if part.cause is Cause.WORK and part.op is not None)
    return Run(name, timeline, [_on_page(each) for each in priced], list(critical))


def shown(answers: Sequence[Answer]) -> list[Run]:
    """Print *answers*, and return their timelines for a page."""
    if answers:
        say(answers_text(answers))
    return [Run(answer.edits, answer.after) for answer in answers]


def say(text: str) -> None:
    """Print *text* as it is."""
    console().print(text, markup=False, highlight=False, soft_wrap=True)


def _on_page(priced: Priced) -> page.Finding:
    finding = priced.finding
    price = None if priced.answer is None else priced.answer.gain_ns
    text = f"{finding.pitfall}\n{priced.text}"
    return page.Finding(text, finding.site, finding.begin_ns, finding.end_ns, finding.ops, price)
