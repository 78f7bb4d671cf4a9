"""The command line, `acl-py`: run, model, replay, devices, demo, explain-error."""

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from acl_py import codes, faults
from acl_py.compat.acl.standins import commands
from acl_py.errors import DeadlockError
from acl_py.faults import Fault, FaultError
from acl_py.tools import scripts
from acl_py.tools.portability import differences
from acl_py.tools.programs import Program, ProgramError, load
from acl_py.tools.replay import Replay, replay
from acl_py.trace import chart, chrome
from device_model import profile as profiles
from device_model.errors import printable
from device_model.profile import Curve, DeviceProfile, ProfileError
from device_model.rules import RULES, SyncRules

app = typer.Typer(
    help="Run streams, events and kernels of Ascend ACL and CUDA on a simulated device.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(commands.app, name="model")
_PLAIN_WIDTH = 120  # columns, if the output is not a terminal

Device = Annotated[
    str, typer.Option(help="The name of a device profile (see `acl-py devices`), or the path of a .toml file.")
]


@app.command("replay")
def replay_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="JSON files of stream programs (the format is in docs/programs.md); '-' is standard input."
        ),
    ],
    device: Device = "h200",
    rules: Annotated[
        list[str] | None,
        typer.Option(
            help="Rules of synchronisation: cuda, cuda_per_thread or acl; by default those of the device. Give the "
            "option twice to compare what a program does under each."
        ),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            help="A fault rule, such as 'fail call=Malloc nth=3' or 'delay us=50 op=kernel'; may be repeated. 'list' "
            "lists the rules; docs/programs.md explains them."
        ),
    ] = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write all times to this JSON file.")] = None,
    trace_out: Annotated[
        Path | None, typer.Option("--trace", help="Write a Chrome trace to this file; for one program only.")
    ] = None,
) -> None:
    """Run stream programs and show their times: a timeline for one program, a table for several.

    A program that cannot run is reported, and the others still run; the exit code is then 1.
    """
    card, orders = _profile(device), [_rules(name) for name in rules or ()]
    injected = [_fault(text) for text in fault or ()]
    if len(orders) > 1:
        if json_out is not None or trace_out is not None:
            raise typer.BadParameter("--json and --trace write one run: give --rules only once")
        if injected:
            raise typer.BadParameter("--fault applies to one run: give --rules only once")
        _compare(_programs(files), orders, card)
        return
    order = orders[0] if orders else None
    runs: list[Replay] = []
    failed = False
    for program in _programs(files):
        try:
            if isinstance(program, ProgramError):
                raise program
            runs.append(_replay(program, card, order, injected))
        except ProgramError as error:
            failed = True
            _complain(str(error))
    _show(runs)
    if trace_out is not None and len(runs) != 1:
        failed = True
        _complain(f"--trace writes the trace of one program, but {len(runs)} ran")
        trace_out = None
    try:
        if trace_out is not None:
            chrome.write(runs[0].trace, trace_out)
        if json_out is not None:
            json_out.write_text(json.dumps([run.to_json() for run in runs]) + "\n", encoding="utf-8")
    except OSError as error:
        failed = True
        _complain(f"{error.filename}: cannot be written: {error.strerror}")
    if failed:
        raise typer.Exit(1)


@app.command("devices")
def devices_command(
    name: Annotated[str | None, typer.Argument(help="Show all values of this profile, each with its source.")] = None,
) -> None:
    """List the device profiles with their main values, or show all values of one."""
    if name is None:
        _console().print(_summary([profiles.load(each) for each in profiles.names()]))
    else:
        _console().print(_everything(_profile(name)))


class HostTime(Enum):
    """How the time of the host between calls is counted."""

    MODELLED = "modelled"
    MEASURED = "measured"


# Everything after the script is an argument of the script, even if it looks like an option.
@app.command("run", context_settings={"allow_interspersed_args": False})
def run_command(
    script: Annotated[Path, typer.Argument(help="A Python script that says `import acl`.", show_default=False)],
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments of the script.", show_default=False)] = None,
    device: Device = "ascend910b3",
    devices: Annotated[
        int | None, typer.Option(min=1, help="The number of cards; by default that of the profile.")
    ] = None,
    rules: Annotated[
        str | None,
        typer.Option(help="Rules of synchronisation: cuda, cuda_per_thread or acl; by default those of the device."),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads that run large kernels.")] = None,
    models: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="A folder with the TOML files (sidecars) that name the Python function of each model or kernel; may "
            "be repeated.",
        ),
    ] = None,
    register: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="A Python file that registers operators, models or kernels, before the script runs; may be repeated.",
        ),
    ] = None,
    host_time: Annotated[
        HostTime,
        typer.Option(
            help="modelled: calls take the times of the profile; measured: the real time between calls counts too."
        ),
    ] = HostTime.MODELLED,
    hang_after: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds after which a wait that only another thread could end counts as a hang; by default, never.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 4 if calls failed and the script's own exit code is 0.")
    ] = False,
) -> None:
    """Run a script that says `import acl`, unmodified and without a card.

    The output and the exit code are those of the script. A summary follows
    on standard error, with the calls that failed. If the script would hang
    on a card, the exit code is 3, and the summary lists the waits and their lines.
    """
    if rules is not None:
        _rules(rules)
    _profile(device)
    try:
        code = scripts.run(
            script,
            arguments or (),
            register or (),
            strict=strict,
            device=device,
            devices=devices,
            rules=rules,
            workers=workers,
            models=models or [],
            host_time=host_time.value,
            hang_after=hang_after,
        )
    except scripts.ScriptError as error:
        _complain(f"acl-py: {error}")
        raise typer.Exit(2) from error
    raise typer.Exit(code)


class Demo(Enum):
    """The demos."""

    STREAMS = "streams"
    AICORE = "aicore"


@app.command("demo")
def demo_command(
    what: Annotated[
        Demo, typer.Argument(help="streams: one job in four versions. aicore: one kernel, single- and double-buffered.")
    ] = Demo.STREAMS,
) -> None:
    """Run one job in several versions, and draw the timelines of the device, or of the pipes of an AI core."""
    from acl_py.tools import demo, demo_aicore  # imported here, because few other commands need their kernels

    (demo if what is Demo.STREAMS else demo_aicore).main()


def _replay(program: Program, card: DeviceProfile, rules: SyncRules | None, injected: Sequence[Fault]) -> Replay:
    try:
        return replay(program, device=card, rules=rules, faults=injected)
    except DeadlockError as error:
        raise ProgramError(f"{printable(program.id)}: {error}") from error


def _programs(files: Sequence[Path]) -> list[Program | ProgramError]:
    programs: list[Program | ProgramError] = []
    for file in files:
        try:
            programs += load(file)
        except ProgramError as error:
            programs.append(error)
    return programs


def _profile(device: str) -> DeviceProfile:
    try:
        return profiles.load(device)
    except ProfileError as error:
        raise typer.BadParameter(str(error)) from error


def _fault(text: str) -> Fault:
    try:
        return faults.parse(text)
    except FaultError as error:
        raise typer.BadParameter(str(error)) from error


def _rules(name: str) -> SyncRules:
    if name not in RULES:
        raise typer.BadParameter(f"there are no rules {name!r}; there are {', '.join(RULES)}")
    return RULES[name]


@app.command("explain-error")
def explain_error_command(
    code: Annotated[
        str, typer.Argument(help="A number (107002, 700) or a name (cudaErrorIllegalAddress, CONTEXT_NULL).")
    ],
) -> None:
    """Explain an error code of ACL or CUDA: what it means, what causes it in a simulation, and what to do."""
    entries = codes.find(code)
    if not entries:
        _complain(f"there is no code {code}; similar codes: {', '.join(codes.near(code)) or 'none'}")
        raise typer.Exit(2)
    console = _console()
    for entry in entries:
        console.print(f"[bold]{entry.number}[/bold]  {entry.name}  ({_VENDORS[entry.vendor]})", highlight=False)
        kinds = entry.kinds()
        if not kinds:
            console.print(
                f"  {escape(entry.meaning)}\n  No simulation gives this code, except by a fault rule.",
                highlight=False,
            )
        for kind in kinds:
            advice = codes.ADVICE[kind]
            text = f"  {kind.value}\n    cause:      {advice.cause}\n    what to do: {advice.remedy}"
            console.print(escape(text), highlight=False, soft_wrap=True)


_VENDORS = {"acl": "ACL, aclError", "cuda": "CUDA, cudaError_t"}


# --- output


def _console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_PLAIN_WIDTH)


def _complain(what: str) -> None:
    _console(stderr=True).print(f"[red]{escape(what)}[/red]", soft_wrap=True, highlight=False)


def _show(runs: Sequence[Replay]) -> None:
    console = _console()
    if len(runs) == 1:
        run = runs[0]
        console.print(f"{escape(printable(run.program.id))}: {run.makespan_us:,.1f} us", highlight=False)
        console.print(chart.lanes(run.trace, console.width), markup=False, highlight=False, soft_wrap=True)
    elif runs:
        console.print(_comparison(runs))
    for run in runs:
        for rule in run.rules:
            what = f"{printable(run.program.id)}: {rule.text} struck {rule.struck} of {rule.seen} matches"
            console.print(what, markup=False, highlight=False, soft_wrap=True)


def _compare(programs: Sequence[Program | ProgramError], rules: Sequence[SyncRules], card: DeviceProfile) -> None:
    """Print what each program does differently under each of *rules*."""
    console = _console()
    failed = False
    for program in programs:
        try:
            if isinstance(program, ProgramError):
                raise program
            differing = differences(program, rules, card)
        except ProgramError as error:
            failed = True
            _complain(str(error))
            continue
        if not differing:
            console.print(f"{escape(printable(program.id))}: no difference", highlight=False)
            continue
        table = Table(
            "what", "where", *(each.name for each in rules), title=escape(printable(program.id)), title_justify="left"
        )
        for each in differing:
            table.add_row(each.what, escape(each.where), *(escape(each.under[rule.name]) for rule in rules))
        console.print(table)
    if failed:
        raise typer.Exit(1)


def _comparison(runs: Sequence[Replay]) -> Table:
    table = Table("program")
    for heading in ("calls", "operations", "H2D us", "D2H us", "cores us", "makespan us"):
        table.add_column(heading, justify="right")
    for run in runs:
        ops = run.trace.ops
        busy = {engine: sum(op.end_ns - op.start_ns for op in ops if op.engine == engine) / 1000 for engine in _ENGINES}
        times = [f"{busy[engine]:,.1f}" for engine in _ENGINES]
        table.add_row(
            escape(printable(run.program.id)), str(len(run.host)), str(len(ops)), *times, f"{run.makespan_us:,.1f}"
        )
    return table


_ENGINES = ("H2D", "D2H", "cores")

# The columns of `acl-py devices`: heading, dotted name of the value, unit.
_MAIN = {
    "cores": ("cores.count", ""),
    "memory GB": ("memory.bytes", "GB"),
    "its GB/s": ("cores.bytes_per_second", "GB/s"),
    "h2d GB/s": ("copies.h2d", "GB/s"),
    "launch us": ("host.launch", "us"),
    "copy us": ("host.copy", "us"),
    "wake us": ("host.wake", "us"),
}
_UNITS = {"": 1, "us": 1e3, "GB": 1e9, "GB/s": 1e9}


def _summary(cards: Sequence[DeviceProfile]) -> Table:
    table = Table(Column("device", no_wrap=True), "rules", caption_justify="left")
    for heading in (*_MAIN, "measured", "documented", "assumed"):
        table.add_column(heading, justify="right")
    for card in cards:
        cells = [_number(_value(card, name), unit) for name, unit in _MAIN.values()]
        origins = [_origin(source) for source in card.sources.values()]
        counts = [str(origins.count(origin)) for origin in ("measured", "documented", "assumed")]
        table.add_row(card.name, card.rules, *cells, *counts)
    table.caption = "\n".join(f"{card.name}: {escape(card.description)}" for card in cards)
    return table


def _origin(source: str) -> str:
    return source.split(":")[0].split()[0]


def _everything(card: DeviceProfile) -> Table:
    table = Table("value", "", "source", title=f"{card.name}: {card.description}; rules {card.rules}", show_lines=False)
    for name, source in card.sources.items():
        value = _value(card, name)
        shown = (
            "  ".join(f"{size}: {time}" for size, time in value.points) if isinstance(value, Curve) else f"{value:,}"
        )
        table.add_row(name, shown, escape(source))
    table.caption = "times in ns, sizes in bytes; a curve is size: time"
    return table


def _value(card: DeviceProfile, name: str) -> Any:
    value: Any = card
    for part in name.split("."):
        assert is_dataclass(value) and part in {each.name for each in fields(value)}, f"profiles have no value {name}"  # noqa: PT018
        value = getattr(value, part)
    return value


def _number(value: Any, unit: str) -> str:
    if isinstance(value, Curve):  # the slope of its last piece: bytes per nanosecond
        (size, time), (larger, longer) = value.points[-2:]
        value = 1e9 * (larger - size) / max(1, longer - time)
    scaled = value / _UNITS[unit]
    return f"{scaled:,.1f}" if unit else f"{scaled:,.0f}"
