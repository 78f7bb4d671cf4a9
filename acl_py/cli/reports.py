"""`acl-py report` and `acl-py diff`: what saved traces say."""

from pathlib import Path
from typing import Annotated

import typer

from acl_py.causes.lines import MOST_LINES, us
from acl_py.cli.common import PROFILE, Overlay, complain, option_refused, page_file, profile_of
from acl_py.cli.crews import CrewError, Dask, Workers, crew_of
from acl_py.cli.explaining import OptimiseOut, Told, WhatIf, edits_of, say, write_page
from acl_py.cli.windows import All, FailOver, JsonOut, Range, Since, Top, Until, nanoseconds, view_of, write_json
from acl_py.explain.diff import MOST_CHANGES, Difference
from acl_py.tools.sanitizing import FOUND
from acl_py.trace.rows.files import TraceFileError, read_trace
from acl_py.trace.rows.timeline import Timeline

_SAVED = "A trace that --trace FILE.acl, or Trace.save(), has written."
TraceIn = Annotated[Path, typer.Argument(help=_SAVED, show_default=False, metavar="TRACE")]
Before = Annotated[Path, typer.Argument(help=_SAVED, show_default=False, metavar="BEFORE")]
After = Annotated[Path, typer.Argument(help="The same, of the later run.", show_default=False, metavar="AFTER")]
HtmlOut = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE.html", help="Write the timeline, with its findings, to a page.", callback=page_file
    ),
]


def report_command(
    trace: TraceIn,
    html: HtmlOut = None,
    what_if: WhatIf = None,
    optimise: OptimiseOut = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar=PROFILE,
            help="The profile by which prices are told; by default that of the run, or for a card the nearest.",
        ),
    ] = None,
    overlay: Overlay = None,
    is_whole: All = False,
    name: Range = None,
    since: Since = None,
    until: Until = None,
    top: Top = MOST_LINES,
    json_out: JsonOut = None,
    fail_over: FailOver = None,
    workers: Workers = 1,
    dask: Dask = "",
) -> None:
    """Explain a saved trace: its critical path by line, and what it could do without, with the price of each.

    With --fail-over the exit code is 4 if one finding, one piece of advice
    or one --what-if is worth more than that. Edits that leave work without
    order do not count.
    """
    edits = edits_of(what_if)
    if device is None and overlay is not None:
        raise typer.BadParameter("--overlay lays values over a profile: give its name with --device, too")
    model = None if device is None else profile_of(device, overlay)
    timeline = _read(trace)
    view = view_of(timeline, is_whole=is_whole, name=name, since=since, until=until, top=top)
    is_text = str(json_out) != "-"
    with option_refused(CrewError), crew_of(None if dask else workers, dask) as crew:
        told = Told(timeline, trace.name, edits, model, view, crew)
        if is_text:
            told.say()
        fine = told.is_fine
        if optimise is not None:
            fine &= told.propose(optimise, stderr=not is_text)
    if json_out is not None:
        fine &= write_json(told.explanation.data(told.answers), json_out)
    if html is not None:
        fine &= write_page(told.pages, html)
    if not fine:
        raise typer.Exit(1)
    if fail_over is not None and (worth_ns := told.worth_ns) > nanoseconds(fail_over):
        complain(f"{us(worth_ns)} could be gained: --fail-over allows {fail_over}")
        raise typer.Exit(FOUND)


def diff_command(
    before: Before,
    after: After,
    is_whole: All = False,
    name: Range = None,
    since: Since = None,
    until: Until = None,
    top: Top = MOST_CHANGES,
    json_out: JsonOut = None,
    fail_over: FailOver = None,
) -> None:
    """Compare two saved traces: what moved on the critical path, line by line, and why.

    --since and --until are times in each of the two runs. With --fail-over
    the exit code is 4 if the later run takes longer by more than that.
    """
    old, new = _read(before), _read(after)
    windows = [
        view_of(run, is_whole=is_whole, name=name, since=since, until=until, top=top, of=path).window
        for run, path in ((old, before), (new, after))
    ]
    difference = Difference(old, new, *windows)
    if str(json_out) != "-":
        say(difference.text(top))
    if json_out is not None and not write_json(difference.data(top), json_out):
        raise typer.Exit(1)
    if fail_over is not None and difference.ns > nanoseconds(fail_over):
        complain(f"{us(difference.ns)} more: --fail-over allows {fail_over}")
        raise typer.Exit(FOUND)


def _read(path: Path) -> Timeline:
    try:
        return read_trace(path)
    except TraceFileError as error:
        complain(str(error))
        raise typer.Exit(1) from error
