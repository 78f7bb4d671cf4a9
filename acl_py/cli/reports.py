"""`acl-py report` and `acl-py diff`: what saved traces say."""

from pathlib import Path
from typing import Annotated

import typer

from acl_py.cli.common import complain, write_page
from acl_py.cli.explaining import OptimiseOut, WhatIf, edits_of, explain_recording, say
from acl_py.explain.diff import diff_text
from acl_py.trace.page import Page
from acl_py.trace.rows.files import TraceFileError, read_trace
from acl_py.trace.rows.timeline import Timeline

_SAVED = "A trace that was saved with --format acl, or with Trace.save()."
TraceIn = Annotated[Path, typer.Argument(help=_SAVED, show_default=False, metavar="TRACE")]
HtmlOut = Annotated[
    Path | None, typer.Option("--html", metavar="FILE.html", help="Write the timeline, with its findings, to a page.")
]


def report_command(trace: TraceIn, html: HtmlOut = None, what_if: WhatIf = None, optimise: OptimiseOut = None) -> None:
    """Explain a saved trace: its critical path by line, and the implicit waits, with their prices."""
    edits = edits_of(what_if)
    timeline = _read(trace)
    runs, fine = explain_recording(timeline, trace.name, edits, optimised=optimise)
    if html is not None:
        fine &= write_page(Page(runs), html)
    if not fine:
        raise typer.Exit(1)


def diff_command(before: TraceIn, after: TraceIn) -> None:
    """Compare two saved traces: what moved on the critical path, line by line, and why."""
    say(diff_text(_read(before), _read(after)))


def _read(path: Path) -> Timeline:
    try:
        return read_trace(path)
    except TraceFileError as error:
        complain(str(error))
        raise typer.Exit(1) from error
