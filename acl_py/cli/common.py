"""What several commands share: options, and how they print."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperCommand

from acl_py import recorded
from acl_py.faults import Fault, FaultError, listing, parse
from acl_py.parts import ALL_PARTS, parts_of
from acl_py.sanitizer.reports import ReportForm
from acl_py.sanitizer.suppressions import SuppressionError
from acl_py.schedules import Effects
from acl_py.tools.sanitizing import Fix, Sanitized
from acl_py.trace.rows.files import save
from acl_py.trace.rows.timeline import Timeline
from acl_py.trace.views import chrome, kineto, msprof, msprof_op, table
from device_model import overlay as overlays
from device_model import profile as profiles
from device_model.profile import DeviceProfile, ProfileError
from device_model.rules import RULES, SyncRules

# Options whose value may be left out, and what they have then.
_VALUES = {"--sanitize": ALL_PARTS, "--fix": ""}
# Groups of options in what --help prints.
OF_DEVICE, OF_TIME, OF_STANDINS = "Device and rules", "Time", "Models and operators"
OF_MISTAKES, OF_EXPLANATIONS, OF_FILES = "Mistakes and faults", "Explanations", "Files that are written"
PROFILE = "NAME|FILE.toml"  # what options that name a profile take
_PLAIN_WIDTH = 120  # columns, if the output is not a terminal
_EACH_S = 60.0  # between two lines of progress there

Device = Annotated[
    str,
    typer.Option(
        metavar=PROFILE,
        help="The name of a device profile (see `acl-py devices`), or the path of a .toml file.",
        rich_help_panel=OF_DEVICE,
    ),
]
Overlay = Annotated[
    str | None,
    typer.Option(
        metavar=PROFILE,
        help="What calls and the host's copies take on another host, in the place of the profile's values: torch, or "
        "the path of a .toml file (docs/programs/replays.md).",
        rich_help_panel=OF_DEVICE,
    ),
]


def _list_rules(rules: list[str] | None) -> list[str] | None:
    """Return the fault *rules* of an option. If one of them is "list", print all rules and exit."""
    if "list" in (rules or ()):
        typer.echo(listing())
        raise typer.Exit
    return rules


FaultRules = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        metavar="RULE",
        help="A fault rule, such as 'fail call=Malloc nth=3' or 'delay us=50 op=kernel'; may be repeated. 'list' "
        "lists the rules; docs/programs/replays.md explains them.",
        callback=_list_rules,
        is_eager=True,
        rich_help_panel=OF_MISTAKES,
    ),
]


def no_source(path: Path | None) -> Path | None:
    """Return the *path* to which an option writes; raise BadParameter if it is that of a Python source."""
    if path is not None and path.suffix in (".py", ".pyw", ".ipynb"):
        raise typer.BadParameter(f"{path} is the file to write, and looks like a program: name another file before it")
    return path


def page_file(path: Path | None) -> Path | None:
    """Return the *path* to which an option writes a page; raise BadParameter if its ending is that of another kind."""
    if path is not None and no_source(path) is not None and path.suffix.lower() not in ("", ".html", ".htm"):
        raise typer.BadParameter(f"{path} ends in {path.suffix}, and the page is HTML: let the name end in .html")
    return path


TraceOut = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Write the trace to this file; --format says how.",
        callback=no_source,
        rich_help_panel=OF_FILES,
    ),
]


class Sanitizable(TyperCommand):
    """A command with options whose value may be left out: only `--sanitize=PARTS` and `--fix=OUT.json` have one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse *args*, with `--sanitize` as `--sanitize=ALL_PARTS`. Arguments of a script are left as they are."""
        takes_value = {
            name for option in self.params if not getattr(option, "is_flag", True) for name in option.opts
        } - _VALUES.keys()
        whole, rest = [], list(args)
        while rest and (ctx.allow_interspersed_args or rest[0].startswith("-")) and rest[0] not in ("-", "--"):
            word = rest.pop(0)
            whole.append(f"{word}={_VALUES[word]}" if word in _VALUES else word)
            if word in takes_value and rest:
                whole.append(rest.pop(0))
        if "--no-sanitize" in whole and ctx.default_map:  # what the project says is no second option
            ctx.default_map = {name: value for name, value in ctx.default_map.items() if name != "sanitize"}
        return super().parse_args(ctx, [*whole, *rest])


@contextmanager
def option_refused(*errors: type[Exception]) -> Iterator[None]:
    """Raise BadParameter where one of *errors* says that an option asks for something impossible."""
    try:
        yield
    except errors as error:
        raise typer.BadParameter(str(error)) from error


def checked_parts(parts: str | None) -> str | None:
    """Return the *parts* of the sanitizer that an option names; raise BadParameter if there are none of that name."""
    with option_refused(ValueError):
        if parts is not None:
            parts_of(parts)
    return parts


def faults_of(rules: Sequence[str] | None) -> list[Fault]:
    """Return the fault rules that an option names; raise BadParameter if one is none."""
    with option_refused(FaultError):
        return [parse(text) for text in rules or ()]


Sanitize = Annotated[
    str | None,
    typer.Option(
        metavar="[=PARTS]",
        help="Look for races, errors in the lives of objects, unwritten bytes and leaks; or for some of these: "
        "device, host, uninitialised, leaks, digest, with commas. If there are findings, the exit code is 4.",
        callback=checked_parts,
        rich_help_panel=OF_MISTAKES,
    ),
]
EffectsOf = Annotated[
    Effects,
    typer.Option(
        "--effects",
        help="strong: operations have their effects at their ends; weak: what no promise orders takes place the other "
        "way round, so that no mistake is hidden by luck; torn: the same, and half of the bytes are new.",
        rich_help_panel=OF_MISTAKES,
    ),
]
FindingsOut = Annotated[
    Path | None,
    typer.Option(
        "--findings",
        metavar="FILE",
        help="Write what the sanitizer finds; '-' is standard output.",
        callback=no_source,
        rich_help_panel=OF_MISTAKES,
    ),
]
FindingsForm = Annotated[
    ReportForm,
    typer.Option(
        "--findings-format",
        help="The format of --findings. github: warnings beside the code.",
        rich_help_panel=OF_MISTAKES,
    ),
]


def sanitized_run(
    parts: str | None, folder: Path, path: Path | None, form: ReportForm, fix: Fix | None, *, is_brief: bool = False
) -> Sanitized | None:
    """Begin the sanitized run that options ask for; None without *parts*. Raise BadParameter if that is impossible."""
    if parts is None and path is not None:
        raise typer.BadParameter("--findings writes what --sanitize finds: give both")
    if fix is not None and (parts is None or is_brief):
        raise typer.BadParameter("--fix tries the fixes of what --sanitize finds: give both")
    if parts is None:
        return None
    with option_refused(SuppressionError):
        return Sanitized(parts, folder, path, form, fix, is_brief=is_brief)


class TraceFormat(Enum):
    """The formats of traces."""

    CHROME = "chrome"
    KINETO = "kineto"
    KINETO_RANKS = "kineto-ranks"
    MSPROF = "msprof"
    MSPROF_OP = "msprof-op"
    CSV = "csv"
    ACL = "acl"
    PROGRAM = "program"


_WRITERS: dict[TraceFormat, Callable[[Timeline, Path], None]] = {
    TraceFormat.CHROME: chrome.write,
    TraceFormat.KINETO: kineto.write,
    TraceFormat.KINETO_RANKS: kineto.write_ranks,
    TraceFormat.MSPROF: msprof.write,
    TraceFormat.MSPROF_OP: msprof_op.write,
    TraceFormat.CSV: table.write,
    TraceFormat.ACL: save,
    TraceFormat.PROGRAM: recorded.write,
}
Format = Annotated[
    TraceFormat | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="The format of --trace. chrome: for Perfetto; kineto: as PyTorch's profiler; kineto-ranks: a folder of "
        "these, a file for each rank; msprof: a folder as Ascend's profiler; msprof-op: instructions of core kernels; "
        "csv: a table; acl: all, for `acl-py report`; program: a stream program, for `acl-py replay`. By default acl "
        "for FILE.acl, csv for FILE.csv, and chrome for others.",
        rich_help_panel=OF_FILES,
    ),
]
_FORMATS = {".acl": TraceFormat.ACL, ".csv": TraceFormat.CSV}  # by the ending of a name


def format_of(form: TraceFormat | None, path: Path | None) -> TraceFormat:
    """Return the *form* of the trace that is written to *path*, by default as its name ends. Raise BadParameter if a
    form is given, and no path, or a page is asked for.
    """
    if path is None and form is not None:
        raise typer.BadParameter(f"--format {form.value} says how --trace writes the trace: give both")
    if form is None and path is not None and path.suffix.lower() == ".html":
        raise typer.BadParameter(f"--trace {path}: --report writes pages, and --trace none")
    return form or _FORMATS.get("" if path is None else path.suffix.lower(), TraceFormat.CHROME)


ReportOut = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE.html",
        help="Write the timeline to this file, as a page for any browser.",
        callback=page_file,
        rich_help_panel=OF_FILES,
    ),
]


def profile_of(device: str, overlay: str | None = None) -> DeviceProfile:
    """Return the profile that an option names, with the values of *overlay*; raise BadParameter if there is none."""
    with option_refused(ProfileError):
        profile = profiles.load(device)
        return profile if overlay is None else overlays.load(overlay, profile)


def rules_of(name: str) -> SyncRules:
    """Return the rules that an option names; raise BadParameter if there are none."""
    if name not in RULES:
        raise typer.BadParameter(f"there are no rules {name!r}; there are {', '.join(RULES)}")
    return RULES[name]


def console(*, stderr: bool = False) -> Console:
    """Return what prints to the terminal, or in 120 columns to a file."""
    made = Console(stderr=stderr)
    return made if made.is_terminal else Console(stderr=stderr, width=_PLAIN_WIDTH)


@contextmanager
def progress(what: str, total: int | None, clock: Callable[[], float] = monotonic) -> Iterator[Callable[[], object]]:
    """Show how far *what* has come, which has *total* parts, or None if that is not known: a bar on a terminal, and
    elsewhere a line each minute. It yields a function to call when a part has ended.

    No thread draws it, and both outputs stay as they are, because processes may be forked meanwhile.
    """
    out = console(stderr=True)
    if not out.is_terminal:
        yield _lines(what, total, clock)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    shown = Progress(
        *columns, console=out, transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
    )
    with shown:
        task = shown.add_task(what, total=total)
        yield lambda: shown.update(task, advance=1, refresh=True)


def _lines(what: str, total: int | None, clock: Callable[[], float]) -> Callable[[], object]:
    """Return a function that counts one more part, and prints a line once a minute by the *clock*, in seconds."""
    ended, said_s = 0, clock()

    def advance() -> None:
        nonlocal ended, said_s
        ended += 1
        if clock() - said_s >= _EACH_S:
            said_s = clock()
            of = "" if total is None else f" of {total:,}"
            print(f"acl-py: {what}: {ended:,}{of}", file=sys.stderr, flush=True)

    return advance


def complain(what: str) -> None:
    """Print *what* in red to the standard error."""
    console(stderr=True).print(f"[red]{escape(what)}[/red]", soft_wrap=True, highlight=False)


def is_written(write: Callable[[], object], path: Path | None = None) -> bool:
    """Call *write*, which writes to *path* if that is given. If it is not possible, say why and return False."""
    try:
        write()
    except OSError as error:
        complain(f"{path or error.filename}: cannot be written: {error.strerror}")
        return False
    return True


def write_trace(timeline: Timeline, path: Path, form: TraceFormat) -> bool:
    """Write *timeline* to the file or folder *path*. If that is not possible, say why and return False."""
    try:
        return is_written(lambda: _WRITERS[form](timeline, path))
    except ValueError as error:  # the format asks for something that the trace does not have
        complain(f"{path}: {error}")
        return False
