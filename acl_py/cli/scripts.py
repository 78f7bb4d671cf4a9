"""`acl-py run`: reads the options of a script's run."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from acl_py import log
from acl_py.cli.common import (
    OF_DEVICE,
    OF_FILES,
    OF_MISTAKES,
    OF_STANDINS,
    OF_TIME,
    PROFILE,
    EffectsOf,
    FaultRules,
    FindingsForm,
    FindingsOut,
    Format,
    Overlay,
    ReportOut,
    Sanitize,
    TraceFormat,
    TraceOut,
    complain,
    faults_of,
    format_of,
    option_refused,
    profile_of,
    rules_of,
    sanitized_run,
    write_trace,
)
from acl_py.cli.explaining import Explain, Shown, WhatIf, edits_of, explain_recording, say, write_page
from acl_py.cli.fixing import Fix, Fixes
from acl_py.compat.acl.hanging import View
from acl_py.explain.edits import Edit
from acl_py.options import card_of, place
from acl_py.parts import PARTS_OF_SCRIPTS
from acl_py.sanitizer import reports
from acl_py.sanitizer.watch import Watch, begin
from acl_py.schedules import Effects, having
from acl_py.tools import scripts
from acl_py.tools.own_simulations import OwnSimulations
from acl_py.tools.sanitizing import Sanitized
from acl_py.tools.scripts import Clock, Form
from acl_py.trace.page import Run
from acl_py.trace.rows.timeline import Timeline
from device_model.profile import ProfileError

_EMPTY = (
    "acl-py: the recording is empty: the script used no device, neither through the module acl nor in a simulation of "
    "acl_py. Not recorded are simulations with trace=False and those of processes that the script starts"
)
_KEPT = 10_000  # instructions of each launch, in a trace that is about instructions


class LogForm(Enum):
    """The forms of logs."""

    CONSOLE = "console"
    JSON = "json"


class HostTime(Enum):
    """How the time of the host between calls is counted."""

    MODELLED = "modelled"
    MEASURED = "measured"


Script = Annotated[
    str,
    typer.Argument(
        help="A Python script that says `import acl` or uses CUDA; '-' is standard input.",
        show_default=False,
        metavar="SCRIPT",
    ),
]
_USUAL = (
    "The name of a device profile (see `acl-py devices`), or the path of a .toml file; by default ascend910b3 for "
    "`acl`, and h200 for CUDA."
)
UsualDevice = Annotated[str | None, typer.Option(metavar=PROFILE, help=_USUAL, rich_help_panel=OF_DEVICE)]
_AnyDevice = Annotated[
    str | None,
    typer.Option(
        metavar=PROFILE,
        help=f"{_USUAL} cuda:0 and npu:0 are cards of this machine, for programs of verbs.",
        rich_help_panel=OF_DEVICE,
    ),
]
Arguments = Annotated[list[str] | None, typer.Argument(help="Arguments of the script.", show_default=False)]
IsModule = Annotated[bool, typer.Option("-m", help="SCRIPT is the name of a module, as after python -m.")]
IsText = Annotated[bool, typer.Option("-c", help="SCRIPT is the program itself, as after python -c.")]
Devices = Annotated[
    int | None,
    typer.Option(
        min=1, max=4096, help="The number of cards; by default that of the profile.", rich_help_panel=OF_DEVICE
    ),
]
Rules = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Rules of synchronisation: cuda, cuda_per_thread or acl; by default those of the device.",
        rich_help_panel=OF_DEVICE,
    ),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Threads that run large kernels.", rich_help_panel=OF_DEVICE)]
Models = Annotated[
    list[Path] | None,
    typer.Option(
        exists=True,
        file_okay=False,
        metavar="FOLDER",
        help="A folder with the TOML files (sidecars) that name the Python function of each model or kernel; may be "
        "repeated.",
        rich_help_panel=OF_STANDINS,
    ),
]
Register = Annotated[
    list[Path] | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        metavar="FILE.py",
        help="A Python file that registers operators, models or kernels, before the script runs; may be repeated.",
        rich_help_panel=OF_STANDINS,
    ),
]
CountedTime = Annotated[
    HostTime,
    typer.Option(
        help="modelled: calls take the times of the profile; measured: the real time between calls counts too.",
        rich_help_panel=OF_TIME,
    ),
]
ScriptClock = Annotated[
    Clock,
    typer.Option(
        help="What `time` means in the script and the modules in its folder: simulated: time.time(), perf_counter() "
        "and sleep() take simulated time; real: Python's.",
        rich_help_panel=OF_TIME,
    ),
]
HangAfter = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Seconds after which a wait that only another thread could end counts as a hang; by default, never.",
        rich_help_panel=OF_TIME,
    ),
]
Instructions = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="How many instructions of each launch of a core kernel the trace keeps; by default 10000 for --format "
        "msprof-op, otherwise none.",
        rich_help_panel=OF_FILES,
    ),
]
NoSanitize = Annotated[
    bool,
    typer.Option(
        "--no-sanitize",
        help="Look for no races and unwritten reads; the script runs faster.",
        rich_help_panel=OF_MISTAKES,
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Exit with 4 if calls failed or there are findings, and the script's own exit code is 0.",
        rich_help_panel=OF_MISTAKES,
    ),
]


Log = Annotated[
    LogForm | None,
    typer.Option(
        "--log",
        help="Write an event to standard error for each call, operation, wait and finding, as it happens: for people, "
        "or a JSON object a line.",
        rich_help_panel=OF_FILES,
    ),
]


def run_command(
    script: Script,
    arguments: Arguments = None,
    is_module: IsModule = False,
    is_text: IsText = False,
    device: _AnyDevice = None,
    overlay: Overlay = None,
    devices: Devices = None,
    rules: Rules = None,
    workers: Workers = None,
    models: Models = None,
    register: Register = None,
    host_time: CountedTime = HostTime.MODELLED,
    clock: ScriptClock = Clock.REAL,
    hang_after: HangAfter = None,
    fault: FaultRules = None,
    sanitize: Sanitize = None,
    no_sanitize: NoSanitize = False,
    findings_out: FindingsOut = None,
    findings_form: FindingsForm = reports.ReportForm.JSON,
    fix: Fix = None,
    effects: EffectsOf = Effects.STRONG,
    strict: Strict = False,
    trace_out: TraceOut = None,
    trace_format: Format = None,
    instructions: Instructions = None,
    report: ReportOut = None,
    log_form: Log = None,
    explain: Explain = False,
    what_if: WhatIf = None,
    *,
    context: typer.Context,
) -> None:
    """Run a script that says `import acl`, or one for CUDA, unmodified and without a card.

    CUDA is what cuda.core, cuda.bindings and numba find: a driver that is
    simulated, with kernels in PTX.

    The script may use acl_py, too: --trace, --report, --explain and --what-if
    are then about each of its simulations, and these have the --device, the
    --rules and the --overlay that are given here, whatever the script says.

    The output and the exit code are those of the script. A summary follows on
    standard error, with the calls that failed. If the script would hang on a
    card, the exit code is 3, and the summary lists the waits and their lines.
    If a file that an option asks for cannot be written, or an edit of
    --what-if cannot be tried, and the script's own exit code is 0, it is 5.
    """
    form = _form(is_module=is_module, is_text=is_text)
    form_of_trace = format_of(trace_format, trace_out)
    if rules is not None:
        rules_of(rules)
    on_card = card_of(device) is not None
    _place(context, device, rules, overlay)
    if on_card:
        device = None  # of sessions of `acl`
    profile = profile_of(device or "ascend910b3", overlay)
    with option_refused(ProfileError):
        replace(profile, devices=devices or profile.devices)
    faults_of(fault)
    if instructions is None:
        instructions = _KEPT if form_of_trace is TraceFormat.MSPROF_OP else 0
    options: dict[str, Any] = {
        "device": device,
        "overlay": overlay,
        "devices": devices,
        "rules": rules,
        "workers": workers,
        "models": models or [],
        "host_time": host_time.value,
        "hang_after": hang_after,
        "faults": fault or [],
        "sanitize": sanitize,
        "instructions": instructions,
    }
    parts = _parts(sanitize, no_sanitize=no_sanitize)
    fixing = None if fix is None else Fixes(fix)
    folder = scripts.folder_of(script, form)
    sanitized = sanitized_run(parts, folder, findings_out, findings_form, fixing, is_brief=sanitize is None)
    title = script if form is Form.FILE else form.value
    views = _views(trace_out, form_of_trace, title, edits_of(what_if), report, sanitized, explain=explain)
    watch = _watch_of(sanitized, instructions) if views else None
    if fixing is not None:
        views.append(lambda _: fixing.is_written)  # it was tried when the findings were shown
    if log_form is not None:
        log.enable(_logger(log_form))
    try:
        with having(effects):
            code = scripts.run(
                script,
                arguments or (),
                register or (),
                views,
                form=form,
                strict=strict,
                sanitized=sanitized,
                watch=watch,
                own=OwnSimulations(frozenset() if sanitized is None else sanitized.watch.parts),
                clock=clock,
                is_simulated=not on_card,
                **options,
            )
    except scripts.ScriptError as error:
        complain(f"acl-py: {error}")
        raise typer.Exit(2) from error
    raise typer.Exit(code)


def _watch_of(sanitized: Sanitized | None, instructions: int) -> Watch:
    """Return the watch that keeps the recordings of the run for its views."""
    watch = begin(frozenset()) if sanitized is None else sanitized.watch
    watch.keep_traces(instructions)
    return watch


def _place(context: typer.Context, device: str | None, rules: str | None, overlay: str | None) -> None:
    """Let the simulations of the script have what the command line says of them. What the project says is for scripts
    that say nothing; a card is one even then.
    """
    given = {"device": device, "rules": rules, "overlay": overlay}
    sources = {name: getattr(context.get_parameter_source(name), "name", "") for name in given}
    place(**{
        name: value
        for name, value in given.items()
        if sources[name] == "COMMANDLINE" or (name == "device" and card_of(value) is not None)
    })  # fmt: skip


def _logger(form: LogForm) -> Any:
    """Return what writes events to standard error; the script's own configuration of structlog stays its own."""
    import structlog  # imported here, because few runs are logged

    is_json = form is LogForm.JSON
    renderer: Any = (
        structlog.processors.JSONRenderer() if is_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, renderer],
        wrapper_class=structlog.BoundLogger,
        context_class=dict,
    ).bind()


def _form(*, is_module: bool, is_text: bool) -> Form:
    if is_module and is_text:
        raise typer.BadParameter("-m and -c exclude each other: SCRIPT is either a module or a program")
    return Form.MODULE if is_module else Form.TEXT if is_text else Form.FILE


def _parts(sanitize: str | None, *, no_sanitize: bool) -> str | None:
    """Return the parts of the sanitizer that watch the script; None if there are none."""
    if no_sanitize and sanitize is not None:
        raise typer.BadParameter("--sanitize and --no-sanitize exclude each other: leave one out")
    return None if no_sanitize else sanitize or PARTS_OF_SCRIPTS


def _views(
    trace_out: Path | None,
    trace_format: TraceFormat,
    title: str,
    edits: Sequence[Sequence[Edit]],
    report: Path | None,
    sanitized: Sanitized | None,
    *,
    explain: bool,
) -> list[View]:
    """Return what is made of the recordings when the script has ended."""
    views: list[View] = []
    if trace_out is not None:
        views.append(partial(_write_traces, trace_out, trace_format))
    if report is not None or explain or edits:
        views.append(partial(_explain, title, edits, report, sanitized, explain=explain or bool(edits)))
    if views:
        views.insert(0, _check_recordings)
    return views


def _check_recordings(timelines: Sequence[Timeline]) -> bool:
    """Say so if there is nothing to write or to explain."""
    if not timelines:
        say(_EMPTY, stderr=True)
    return True


def _write_traces(path: Path, form: TraceFormat, timelines: Sequence[Timeline]) -> bool:
    """Write a recording to *path*, and each of several to a path with its number. Return whether that was possible."""
    if len(timelines) <= 1:
        return write_trace(timelines[0] if timelines else Timeline(), path, form)
    numbered = [path.with_stem(f"{path.stem}-{number}") for number in range(1, len(timelines) + 1)]
    say(f"acl-py: traces of {len(timelines)} simulations: {numbered[0]} to {numbered[-1]}", stderr=True)
    written = [write_trace(timeline, each, form) for timeline, each in zip(timelines, numbered, strict=True)]
    return all(written)


def _explain(
    title: str,
    edits: Sequence[Sequence[Edit]],
    path: Path | None,
    sanitized: Sanitized | None,
    timelines: Sequence[Timeline],
    *,
    explain: bool,
) -> bool:
    """Print the explanation of each recording if it is wanted, and write all of them to one page if it has a *path*.
    Return whether that was possible, and each edit could be tried.
    """
    shown, is_fine = [] if timelines else [Shown(Run(title, Timeline()))], True
    for number, timeline in enumerate(timelines, 1):
        name = title if len(timelines) == 1 else f"{title}, simulation {number} of {len(timelines)}"
        if not explain:
            shown.append(Shown(Run(name, timeline)))
            continue
        if len(timelines) > 1:
            say(f"\n{name}:", stderr=True)
        (run, *answers), asked = explain_recording(timeline, name, edits, stderr=True)
        is_fine &= asked
        if len(timelines) > 1:
            answers = [answer.below(name) for answer in answers]
        shown += [run, *answers]
    mistakes = () if sanitized is None else sanitized.report().mistakes
    return (path is None or write_page(shown, path, mistakes=mistakes)) and is_fine
