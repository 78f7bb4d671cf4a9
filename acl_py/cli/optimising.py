"""`acl-py optimise`: all safe edits that a report advises are made in the program of a run."""

from pathlib import Path
from typing import Annotated

import typer

from acl_py.cli.common import Overlay, complain, is_written, profile_of, progress, rules_of
from acl_py.cli.explaining import say
from acl_py.errors import DeadlockError
from acl_py.explain.cases import Case, EditError
from acl_py.explain.optimiser import write_program
from acl_py.explain.recordings import asker_of
from acl_py.explain.whatif import Asker
from acl_py.programs.format import ProgramError, load
from acl_py.tools.applied import apply_advice
from acl_py.trace.rows.files import TraceFileError, read_trace
from acl_py.trace.rows.timeline import Timeline
from device_model.rules import RULES

_GZIP = b"\x1f\x8b"  # how saved traces begin


def optimise_command(
    file: Annotated[
        Path,
        typer.Argument(metavar="TRACE|PROGRAM.json", help="A saved trace, or a stream program.", show_default=False),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="OUT.json", help="Write the edited stream program to this file."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE.toml", help="The device; by default that of the run, and h200 for a stream program."
        ),
    ] = None,
    overlay: Overlay = None,
    rules: Annotated[
        str | None, typer.Option(help="The rules of a stream program; by default those of the device.")
    ] = None,
) -> None:
    """Make all safe edits that a report advises in the program of a run, and print them in the order of their worth.

    An edit is safe if it leaves no work on the same bytes without order. Your own files are not changed.
    """
    try:
        asker, timeline = _asked(file, device, overlay, rules)
        with progress("edits", None) as advance:
            applied = apply_advice(asker, timeline, advance)
    except (EditError, ProgramError, TraceFileError) as error:
        complain(str(error))
        raise typer.Exit(1) from error
    except DeadlockError as error:
        complain(f"{file}: the program ends in a deadlock")
        raise typer.Exit(1) from error
    say(applied.text)
    if out is not None and not is_written(lambda: write_program(applied.program, out), out):
        raise typer.Exit(1)


def _asked(file: Path, device: str | None, overlay: str | None, rules: str | None) -> tuple[Asker, Timeline]:
    """Return an asker for the program in *file*, and its recording."""
    if _is_trace(file):
        if rules is not None:
            raise typer.BadParameter("--rules is for stream programs: a trace has those of its run")
        if device is None and overlay is not None:
            raise typer.BadParameter("--overlay lays values over a profile: give its name with --device, too")
        timeline = read_trace(file)
        return asker_of(timeline, file.name, None if device is None else profile_of(device, overlay)), timeline
    programs = load(file)
    if len(programs) != 1:
        raise ProgramError(f"{file}: has {len(programs)} programs; optimise takes one")
    if isinstance(programs[0], ProgramError):
        raise programs[0]
    card = profile_of(device or "h200", overlay)
    asker = Asker(Case(programs[0], card, RULES[card.rules] if rules is None else rules_of(rules)))
    return asker, asker.timeline


def _is_trace(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(len(_GZIP)) == _GZIP
    except OSError:
        return False  # the reader of programs says what is wrong
