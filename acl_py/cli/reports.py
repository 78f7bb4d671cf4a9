"""`acl-py report` and `acl-py diff`: what saved traces say."""

from pathlib import Path
from typing import Annotated

import typer

from acl_py.cli.common import complain, write_page
from acl_py.cli.explaining import explain_recording, say
from acl_py.explain.diff import diff_text
from acl_py.trace.files import TraceFileError, read_trace
from acl_py.trace.page import Page
from acl_py.trace.rows import Timeline

_SAVED = "A trace that was saved with --format acl, or with Trace.save()."
TraceIn = Annotated[Path, typer.Argument(help=_SAVED, show_default=False, metavar="TRACE")]
HtmlOut = Annotated[
    Path | None, typer.Option("--html", metavar="FILE.html", help="Write the timeline, with its findings, to a page.")
]


def report_command(trace: TraceIn, html: HtmlOut = None) -> None:
    """Explain a saved trace: its critical path by line, and the waits that nobody asked for."""
    run = explain_recording(_read(trace), trace.name)
    if html is not None and not write_page(Page([run]), html):
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
