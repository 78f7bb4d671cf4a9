"""`acl-py replay`: stream programs, alone or under several rules."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.markup import escape
from rich.table import Column, Table

from acl_py.cli.common import (
    OF_DEVICE,
    OF_FILES,
    Device,
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
    console,
    faults_of,
    format_of,
    is_written,
    profile_of,
    rules_of,
    sanitized_run,
    write_trace,
)
from acl_py.cli.explaining import Explain, OptimiseOut, Shown, WhatIf, edits_of, explain_case, say, write_page
from acl_py.cli.fixing import Fix, Fixes
from acl_py.errors import DeadlockError
from acl_py.explain.cases import Case, EditError
from acl_py.explain.edits import Edit
from acl_py.explain.whatif import by_line
from acl_py.faults import Fault
from acl_py.findings import Finding
from acl_py.programs import chakra
from acl_py.programs.format import Program, ProgramError, load
from acl_py.programs.portability import compare
from acl_py.programs.replay import Replay, replay
from acl_py.sanitizer import reports
from acl_py.schedules import Effects
from acl_py.tools.sanitizing import FOUND, Sanitized
from acl_py.trace.page import Run
from acl_py.trace.views import chart
from acl_py.trace.views.shown import shown_for_all
from acl_py.whole_files import write_text
from device_model.errors import printable
from device_model.profile import DeviceProfile
from device_model.rules import RULES, SyncRules

_T = TypeVar("_T")
_ENGINES = ("H2D", "D2H", "cores")

Files = Annotated[
    list[Path],
    typer.Argument(
        help="JSON files of stream programs (the format is in docs/programs.md), '-' is standard input; or a Chakra "
        "trace: the file NAME.0.et of a rank, or a folder."
    ),
]
Rules = Annotated[
    list[str] | None,
    typer.Option(
        help="Rules of synchronisation: cuda, cuda_per_thread or acl; by default those of the device. Give the "
        "option twice to compare what a program does under each.",
        rich_help_panel=OF_DEVICE,
    ),
]
JsonOut = Annotated[
    Path | None, typer.Option("--json", help="Write all times to this JSON file.", rich_help_panel=OF_FILES)
]


def replay_command(
    files: Files,
    device: Device = "h200",
    overlay: Overlay = None,
    rules: Rules = None,
    fault: FaultRules = None,
    sanitize: Sanitize = None,
    findings_out: FindingsOut = None,
    findings_form: FindingsForm = reports.ReportForm.JSON,
    fix: Fix = None,
    effects: EffectsOf = Effects.STRONG,
    json_out: JsonOut = None,
    trace_out: TraceOut = None,
    trace_format: Format = None,
    report: ReportOut = None,
    explain: Explain = False,
    what_if: WhatIf = None,
    optimise: OptimiseOut = None,
) -> None:
    """Run stream programs and show their times: a timeline for one program, a table for several.

    A program that cannot run is reported, and the others still run; the exit
    code is then 1. With --sanitize it is 4 if all ran and there are findings.
    """
    card, orders = profile_of(device, overlay), [rules_of(name) for name in rules or ()]
    form = format_of(trace_format, trace_out)
    injected = faults_of(fault)
    edits = edits_of(what_if)
    found = False
    asks = explain or bool(edits) or optimise is not None
    if injected and (asks or fix is not None):
        raise typer.BadParameter(
            "--explain, --what-if, --optimise and --fix run the program again, without faults: leave --fault out"
        )
    folder = Path.cwd() if str(files[0]) == "-" else files[0].parent
    if len(orders) > 1:
        outputs = [json_out, trace_out, report]
        _check_alone(outputs, injected, explained=asks, fixed=fix is not None, effects=effects)
        sanitized = sanitized_run(sanitize, folder, findings_out, findings_form, None)
        compared, fine = _for_each(files, card, partial(_compare, orders=orders, card=card))
        found = sanitized is not None and _show_findings(sanitized, list(chain.from_iterable(compared)))
    else:
        order = orders[0] if orders else None
        stuck: list[Shown] = []
        cases: list[Case] = []
        fixes = None if fix is None else Fixes(fix, cases)
        sanitized = sanitized_run(sanitize, folder, findings_out, findings_form, fixes)
        once = partial(_replay, card=card, order=order, injected=injected, effects=effects, stuck=stuck)
        runs, fine = _for_each(files, card, once)
        _show(runs)
        cases += [Case(run.program, card, order or RULES[card.rules]) for run in runs]
        found = sanitized is not None and _show_findings(sanitized)
        fine &= _write(runs, json_out, trace_out, form) and (fixes is None or fixes.is_written)
        pages = [Shown(_page(run), None if injected else case) for run, case in zip(runs, cases, strict=True)]
        if optimise is not None and len(runs) != 1:
            complain(f"--optimise writes one program, but {len(runs)} ran")
            optimise, fine = None, False
        if asks:
            pages, explained = _explain(cases, edits, optimise, explain=explain)
            fine &= explained
        if report is not None:
            fine &= _write_report([*pages, *stuck], report)
    if not fine:
        raise typer.Exit(1)
    if found:
        raise typer.Exit(FOUND)


def _page(run: Replay) -> Run:
    """Return what a page shows of *run*: until the end of the synchronisation that ends it."""
    return Run(
        printable(run.program.id),
        by_line(run),
        since_ns=0,
        until_ns=round(run.makespan_us * 1000),
        notes=run.program.notes,
    )


def _check_alone(
    outputs: Sequence[Path | None], injected: Sequence[Fault], *, explained: bool, fixed: bool, effects: Effects
) -> None:
    """Refuse the options that apply to one run, because there are several rules."""
    if fixed:
        raise typer.BadParameter("--fix is for one run: give --rules only once")
    if effects is not Effects.STRONG:
        raise typer.BadParameter("--effects is for one run: give --rules only once")
    if explained:
        raise typer.BadParameter("--explain, --what-if and --optimise are for one run: give --rules only once")
    if any(outputs):
        raise typer.BadParameter("--json, --trace and --report write one run: give --rules only once")
    if injected:
        raise typer.BadParameter("--fault applies to one run: give --rules only once")


# --- running


def _for_each(files: Sequence[Path], card: DeviceProfile, work: Callable[[Program], _T]) -> tuple[list[_T], bool]:
    """Do *work* for each program of *files*, and complain about those that cannot be read or run.

    Returns:
        The results, and whether every program ran.
    """
    results: list[_T] = []
    fine = True
    for program in _programs(files, card):
        try:
            if isinstance(program, ProgramError):
                raise program
            results.append(work(program))
        except ProgramError as error:
            complain(str(error))
            fine = False
    return results, fine


def _programs(files: Sequence[Path], card: DeviceProfile) -> Iterator[Program | ProgramError]:
    for file in files:
        try:
            yield from [chakra.program(file, device=card)] if chakra.is_trace(file) else load(file)
        except ProgramError as error:
            yield error
        except ImportError as error:
            yield ProgramError(str(error))


def _replay(
    program: Program,
    *,
    card: DeviceProfile,
    order: SyncRules | None,
    injected: Sequence[Fault],
    effects: Effects,
    stuck: list[Shown],
) -> Replay:
    """Run *program*. If it ends in a deadlock, what it did until then goes to *stuck*."""
    try:
        return replay(program, device=card, rules=order, faults=injected, effects=effects)
    except DeadlockError as error:
        if error.timeline is not None:
            stuck.append(Shown(Run.whole(printable(program.id), error.timeline)))
        raise ProgramError(f"{printable(program.id)}: {error}") from error


# --- output


def _show(runs: Sequence[Replay]) -> None:
    screen = console()
    if len(runs) == 1:
        run = runs[0]
        times = f"done after {run.done_us:,.1f} us, synchronised after {run.makespan_us:,.1f} us"
        screen.print(f"{escape(printable(run.program.id))}: {times}", highlight=False)
        screen.print(chart.lanes(run.trace, screen.width), markup=False, highlight=False, soft_wrap=True)
    elif runs:
        screen.print(_table(runs))
    for run in runs:
        for rule in run.rules:
            what = f"{printable(run.program.id)}: {rule.text} struck {rule.struck} of {rule.seen} matches"
            screen.print(what, markup=False, highlight=False, soft_wrap=True)
        _show_notes(run.program)


def _show_notes(program: Program) -> None:
    """Print what a recorded *program* could not keep of its run."""
    for note in program.notes:
        say(f"{printable(program.id)}: not known: {note}")


def _table(runs: Sequence[Replay]) -> Table:
    table = Table(Column("program", overflow="fold"))
    cores = shown_for_all("cores", [(run.trace.device, run.trace.rules) for run in runs])
    for heading in ("calls", "ops", "H2D\nus", "D2H\nus", f"{cores}\nus", "done\nus", "synced\nus"):
        table.add_column(heading, justify="right")
    for run in runs:
        ops = run.trace.ops
        busy = {engine: sum(op.end_ns - op.start_ns for op in ops if op.engine == engine) / 1000 for engine in _ENGINES}
        times = [f"{busy[engine]:,.1f}" for engine in _ENGINES]
        table.add_row(
            *(escape(printable(run.program.id)), str(len(run.host)), str(len(ops))),
            *(*times, f"{run.done_us:,.1f}", f"{run.makespan_us:,.1f}"),
        )
    return table


def _show_findings(sanitized: Sanitized, findings: Sequence[Finding] | None = None) -> bool:
    """Print what the sanitizer found, or *findings*, and return whether that is anything. Later runs are not
    sanitized.
    """
    sanitized.end()
    try:
        return bool(sanitized.show(findings).findings)
    except OSError as error:
        complain(f"{error.filename}: cannot be written: {error.strerror}")
        raise typer.Exit(1) from error


def _write(runs: Sequence[Replay], json_out: Path | None, trace_out: Path | None, form: TraceFormat) -> bool:
    """Write the files that were asked for. Return whether that was possible."""
    fine = True
    if trace_out is not None and len(runs) != 1:
        complain(f"--trace writes the trace of one program, but {len(runs)} ran")
        fine = False
    elif trace_out is not None:
        fine = write_trace(runs[0].trace.timeline(), trace_out, form)
    if json_out is not None:
        text = json.dumps([run.to_json() for run in runs]) + "\n"
        fine &= is_written(lambda: write_text(json_out, text))
    return fine


def _write_report(shown: Sequence[Shown], path: Path) -> bool:
    """Write all that is *shown* to a page, one below the other. Return whether that was possible."""
    if not shown:
        complain("--report has nothing to write: no program ran")
        return False
    return write_page(shown, path)


def _explain(
    cases: Sequence[Case], edits: Sequence[Sequence[Edit]], optimised: Path | None, *, explain: bool
) -> tuple[list[Shown], bool]:
    """Print what each program waited for, and what *edits* would change; write the *optimised* program.

    Returns:
        The timelines for a page, and whether all that was asked could be done.
    """
    pages: list[Shown] = []
    fine = True
    for case in cases:
        name = printable(case.program.id)
        if len(cases) > 1:
            say(f"{name}:")
        try:
            runs, done = explain_case(case, edits, explain=explain, optimised=optimised)
        except EditError as error:
            complain(f"{name}: {error}")
            fine = False
        else:
            pages += runs
            fine &= done
    return pages, fine


def _compare(program: Program, *, orders: Sequence[SyncRules], card: DeviceProfile) -> list[Finding]:
    """Print what *program* does differently under each of the rules, and return what is found in it."""
    screen, name = console(), escape(printable(program.id))
    comparison = compare(program, orders, card)
    differing = comparison.differences
    if not differing:
        screen.print(f"{name}: no difference", highlight=False)
        _show_notes(program)
        return comparison.findings
    table = Table("what", "where", *(each.name for each in orders), title=name, title_justify="left")
    for each in differing:
        table.add_row(each.what, escape(each.where), *(escape(each.under[rules.name]) for rules in orders))
    screen.print(table)
    _show_notes(program)
    return comparison.findings
