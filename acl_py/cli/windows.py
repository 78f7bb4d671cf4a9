"""Options that say which part of a run a report is about, and how it ends."""

import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from acl_py.cli.common import OF_FILES, is_written
from acl_py.tools.explanation import View
from acl_py.trace.rows.timeline import Timeline
from acl_py.trace.rows.windows import WindowError, between, marked, whole
from acl_py.whole_files import write_text

OF_WINDOW = "Part of the run"
_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s)?")

All = Annotated[
    bool,
    typer.Option(
        "--all",
        help="The whole run; by default from the first call that queues work to the last wait.",
        rich_help_panel=OF_WINDOW,
    ),
]
Range = Annotated[
    str | None,
    typer.Option("--range", metavar="NAME", help="What acl_py.annotate(NAME) marks.", rich_help_panel=OF_WINDOW),
]
Top = Annotated[int, typer.Option(min=1, metavar="N", help="The most lines of each list.", rich_help_panel=OF_WINDOW)]
JsonOut = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write the same as JSON (docs/traces/explanations.md); '-' is standard output, in place of the text.",
        rich_help_panel=OF_FILES,
    ),
]


def checked_time(text: str | None) -> str | None:
    """Return the time that an option names; raise BadParameter if it is none."""
    if text is not None and not _TIME.fullmatch(text.strip()):
        raise typer.BadParameter(f"{text!r} is no time: write 100us, 1.5ms or 2s")
    return text


def fail_over_option(help: str) -> Any:  # noqa: A002 - as typer calls it
    """Return the option --fail-over of a command; *help* says what fails."""
    return typer.Option("--fail-over", metavar="TIME", callback=checked_time, help=help)


FailOver = Annotated[
    str | None,
    fail_over_option("End with exit code 4 if more than this is to be gained, or is lost in a diff: 100us or 1.5ms."),
]


def nanoseconds(text: str) -> float:
    """Return the time that an option names; without a unit it is in microseconds."""
    match = _TIME.fullmatch(text.strip())
    assert match is not None, "the option was checked"
    return float(match[1]) * _UNITS_NS[match[2] or "us"]


def _us(text: str) -> float:
    """Return the time that an option names in microseconds; raise BadParameter if it is none."""
    return nanoseconds(checked_time(text) or "") / 1_000


Since = Annotated[
    float | None, typer.Option(metavar="TIME", parser=_us, help="From this time on.", rich_help_panel=OF_WINDOW)
]
Until = Annotated[
    float | None, typer.Option(metavar="TIME", parser=_us, help="Until this time.", rich_help_panel=OF_WINDOW)
]


def view_of(
    timeline: Timeline,
    *,
    is_whole: bool,
    name: str | None,
    since: float | None,
    until: float | None,
    top: int,
    of: Path | None = None,
) -> View:
    """Return what of *timeline* the options ask for; raise BadParameter if there is no such part of it. *of* is the
    file of *timeline*, which the message names if there are several.
    """
    asked = [is_whole, name is not None, since is not None or until is not None]
    if sum(asked) > 1:
        raise typer.BadParameter("--all, --range and --since with --until exclude each other: give one of them")
    try:
        if is_whole:
            return View(whole(timeline), top)
        if name is not None:
            return View(marked(timeline, name), top)
        if since is not None or until is not None:
            return View(between(timeline, since, until), top)
    except WindowError as error:
        raise typer.BadParameter(str(error) if of is None else f"{of}: {error}") from error
    return View(None, top)


def write_json(data: dict[str, Any], path: Path) -> bool:
    """Write *data* to the file *path*, or to the standard output. If that is not possible, say why, return False."""
    text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
        return True
    return is_written(lambda: write_text(path, text), path)
