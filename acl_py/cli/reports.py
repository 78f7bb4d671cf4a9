"""`acl-py report` and `acl-py diff`: what saved traces say."""

from pathlib import Path
from typing import Annotated

import typer

from acl_py.cli.common import Overlay, complain, profile_of, write_page
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


def report_command(
    trace: TraceIn,
    html: HtmlOut = None,
    what_if: WhatIf = None,
    optimise: OptimiseOut = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE.toml",
            help="The profile by which prices are told; by default that of the run, or for a card the nearest.",
        ),
    ] = None,
    overlay: Overlay = None,
) -> None:
    """Explain a saved trace: its critical path by line, and the implicit waits, with their prices."""
    edits = edits_of(what_if)
    if device is None and overlay is not None:
        raise typer.BadParameter("--overlay lays values over a profile: give its name with --device, too")
    model = None if device is None else profile_of(device, overlay)
    timeline = _read(trace)
    runs, fine = explain_recording(timeline, trace.name, edits, model=model, optimised=optimise)
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
