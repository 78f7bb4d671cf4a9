"""`acl-py explore`: reads the options of an exploration, and prints what it finds."""

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from acl_py.cli.common import (
    EffectsOf,
    FaultRules,
    Sanitize,
    complain,
    faults_of,
    option_refused,
    profile_of,
    progress,
    rules_of,
)
from acl_py.cli.crews import CrewError, Dask, Workers, crew_of_processes
from acl_py.cli.scripts import Arguments, Models, Register, Rules, UsualDevice
from acl_py.cli.windows import JsonOut, fail_over_option, nanoseconds, write_json
from acl_py.explore.explorer import DefaultFailsError, Exploration, counted, explore
from acl_py.explore.gathering import Gathering
from acl_py.explore.limits import UntimedError, limited
from acl_py.explore.outcomes import Outcome, Run
from acl_py.explore.scripts import Job, run
from acl_py.explore.strategies import strategy
from acl_py.many.crew import Crew, WorkerError
from acl_py.parts import parts_of
from acl_py.sanitizer.reports import Report, judge
from acl_py.sanitizer.suppressions import Suppression, SuppressionError, find
from acl_py.schedules import Deviation, Effects, Replay, parse
from acl_py.tools.scripts import ScriptError

FAILS = 4
Echo = Callable[[str], object]  # prints a line
_SEARCH = (
    "--runs",
    "--strategy",
    "--seed",
    "--depth",
    "--bound",
    "--schedule",
    "--json",
    "--workers",
    "--dask",
)  # options that replays do without


class StrategyName(Enum):
    """The strategies."""

    RANDOM = "random"
    PCT = "pct"
    EXHAUSTIVE = "exhaustive"


Script = Annotated[
    str, typer.Argument(help="A Python script that uses acl_py or CUDA, or says `import acl`.", metavar="SCRIPT")
]
Runs = Annotated[int, typer.Option(min=1, help="The most schedules that are tried.")]
Check = Annotated[
    str,
    typer.Option(
        metavar="FUNC",
        help="A function of the script that is called without arguments after it. False or an exception is a failure.",
    ),
]
Strategy = Annotated[
    StrategyName,
    typer.Option(
        "--strategy",
        help="random: random deviations; pct: random priorities, of which --depth - 1 fall; exhaustive: all schedules "
        "with up to --bound deviations.",
    ),
]
Seed = Annotated[int, typer.Option(help="Where the random numbers begin: same seed, same result.")]
Depth = Annotated[int, typer.Option(min=1, help="Of pct: decisions in a certain order that the mistake takes.")]
Bound = Annotated[int, typer.Option(min=1, help="Of exhaustive: the most deviations from the default schedule.")]
Text = Annotated[
    str | None,
    typer.Option(
        "--schedule", metavar="TEXT", help="Run this schedule once, such as 'delay@3=1', and show its output."
    ),
]
FailOver = Annotated[
    str | None,
    fail_over_option(
        "A run fails, too, if it takes longer than under the default schedule by more than this simulated time, as "
        "100us or 1.5ms."
    ),
]
Limit = Annotated[float, typer.Option(min=0.1, help="Seconds of real time that a run may take.")]


def explore_command(
    script: Script,
    arguments: Arguments = None,
    runs: Runs = 100,
    check: Check = "",
    strategy_name: Strategy = StrategyName.RANDOM,
    seed: Seed = 0,
    depth: Depth = 3,
    bound: Bound = 2,
    schedule: Text = None,
    limit: Limit = 60.0,
    fail_over: FailOver = None,
    device: UsualDevice = None,
    rules: Rules = None,
    sanitize: Sanitize = None,
    effects: EffectsOf = Effects.STRONG,
    models: Models = None,
    register: Register = None,
    fault: FaultRules = None,
    json_out: JsonOut = None,
    workers: Workers = None,
    dask: Dask = "",
) -> None:
    """Run a script under many legal schedules, and find one under which it fails.

    It fails if it raises, ends with an exit code, hangs, has a finding, or if
    the function of --check returns False, or with --fail-over if it takes
    longer than that allows. The exit code is then 4. What the
    schedule does in another way than the default one is shrunk and printed, with
    the command that runs it again. With --sanitize, what the sanitizer finds
    under any schedule is reported at the end, and the exit code is 4, too.
    Arguments of the script that look like options come after --.
    """
    if rules is not None:
        rules_of(rules)
    profile_of(device or "ascend910b3")
    faults_of(fault)
    options = {
        "device": device, "rules": rules, "models": models or [], "effects": effects.value, "faults": fault or [],
    }  # fmt: skip
    job = Job(
        script, tuple(arguments or ()), check, limit, is_shown=schedule is not None, register=tuple(register or ()),
        options=options, parts=parts_of(sanitize or False), is_timed=fail_over is not None,
    )  # fmt: skip
    over_ns = None if fail_over is None else nanoseconds(fail_over)
    run_script, gathering = partial(run, job), Gathering()
    echo = partial(typer.echo, err=str(json_out) == "-")  # then the standard output has the data
    found: Exploration | None = None
    with option_refused(SuppressionError):  # those of the project that the script belongs to
        suppressions = find(Path(script).parent) if job.parts else ()
    with ExitStack() as stack:
        try:
            crew = stack.enter_context(crew_of_processes(workers, dask))
            if schedule is not None:
                wanted = _parsed(schedule)
                limited = run_script if over_ns is None else _limited(job, over_ns)
                failing = _run_once(limited, gathering, wanted, echo)
            else:
                way = strategy(strategy_name.value, seed=seed, depth=depth, bound=bound)
                with progress("schedules", runs + 1) as advance:
                    saw = partial(_saw, gathering, advance)
                    found = explore(run_script, way, runs, echo, crew=crew, saw=saw, over_ns=over_ns)
                _show(found, strategy_name.value, bound, echo)
                failing = found.failing
        except (ScriptError, CrewError, WorkerError, UntimedError) as error:
            complain(f"acl-py: {error}")
            raise typer.Exit(2) from error
        except DefaultFailsError as error:
            complain(f"acl-py: the script fails under the default schedule, so begin with that:\n{error}")
            if job.parts:
                _show_findings(gathering, suppressions, run_script, crew)
            raise typer.Exit(2) from error
        if failing is not None:
            _show_failing(failing, echo, is_new=schedule is None)
        fails = (job.parts and _show_findings(gathering, suppressions, run_script, crew)) or failing is not None
    if json_out is not None:
        report = judge(gathering.findings, suppressions)
        if not write_json(_data(script, found, failing, report), json_out):
            raise typer.Exit(1)
    if fails:
        raise typer.Exit(FAILS)


def _limited(job: Job, over_ns: float) -> Run:
    """Return what runs the script of *job*, and lets it take no more than *over_ns* longer than by default.

    Raises:
        DefaultFailsError: it fails under the default schedule.
        UntimedError: it has no time.
    """
    default = run(replace(job, is_shown=False), Replay(()))
    if default.failure:
        raise DefaultFailsError(default.failure)
    return limited(partial(run, job), default, over_ns)


def _saw(gathering: Gathering, advance: Callable[[], object], outcome: Outcome) -> None:
    """Keep what a run has found, and note it in the progress."""
    gathering.saw(outcome)
    advance()


def _data(script: str, found: Exploration | None, failing: Outcome | None, report: Report) -> dict[str, Any]:
    """Return what came out, for JSON (docs/explore.md has the fields)."""
    return {
        "form": "acl_py explore",
        "version": 1,
        "script": script,
        "schedules": 1 if found is None else found.runs,
        "is_complete": found is not None and found.is_complete,
        "failing": None
        if failing is None
        else {
            "failure": failing.failure,
            "deviations": [
                {"schedule": str(each), "text": text}
                for each, text in zip(failing.deviations, failing.texts, strict=True)
            ],
            "command": _command(failing),
        },
        "findings": json.loads(report.json())["findings"],
    }


def _show_findings(gathering: Gathering, suppressions: Sequence[Suppression], run: Run, crew: Crew) -> bool:
    """Print what was found, with a command for each finding that only other schedules have; return whether there is
    anything.
    """
    report = judge(gathering.findings, suppressions)
    complain(f"acl-py: {report.text()}")
    gathering.shrunk(
        run,
        report.findings,
        lambda finding, least: complain(f"{finding.id} is not found under the default schedule: {_command(least)}"),
        crew,
    )
    return bool(report.findings)


def _show_failing(failing: Outcome, echo: Echo, *, is_new: bool) -> None:
    """Print how a run has failed, and what is otherwise in it; of a *new* one also the command that repeats it."""
    echo(f"it fails: {failing.failure}")
    echo("what differs from the default schedule:" if failing.deviations else "with no deviation")
    width = max((len(str(each)) for each in failing.deviations), default=0)
    for deviation, text in zip(failing.deviations, failing.texts, strict=True):
        echo(f"  {deviation!s:{width}}  {text}")
    if is_new:
        echo(f"run it again: {_command(failing)}")


def _parsed(schedule: str) -> list[Deviation]:
    try:
        return parse(schedule)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--schedule") from error


def _run_once(run: Run, gathering: Gathering, wanted: Sequence[Deviation], echo: Echo) -> Outcome | None:
    """Run one schedule and return its outcome if it fails."""
    outcome = run(Replay(wanted))
    gathering.saw(outcome)
    for deviation in wanted:
        if deviation not in outcome.deviations:
            number = sum(point.kind is deviation.kind for point in outcome.points)
            raise ScriptError(
                f"the run did not come to {deviation}: it has {number} choice points of the kind {deviation.kind}, and "
                "not every one has that option; is it the same script, with the same arguments and options?"
            )
    if outcome.failure:
        return outcome
    echo("it does not fail under this schedule")
    return None


def _show(found: Exploration, strategy_name: str, bound: int, echo: Echo) -> None:
    """Say what an exploration did; the caller prints the failing run, if there is one."""
    if found.failing is not None:
        return
    tried, points = counted(found.runs, "schedule"), counted(found.points, "choice point")
    if found.is_complete:
        echo(f"none of the {tried} with up to {counted(bound, 'deviation')} fails ({points})")
    else:
        echo(f"none of {tried} fails ({strategy_name}, {points})")


def _command(failing: Outcome) -> str:
    """Return the command line of this process, with the failing schedule in place of how it was searched for."""
    words, given = [], iter(sys.argv[1:])
    for word in given:
        name = word.split("=")[0]
        if name not in _SEARCH:
            words.append(word)
        elif "=" not in word:
            next(given, None)
    at = words.index("explore") + 1
    return shlex.join(["acl-py", *words[:at], "--schedule", " ".join(map(str, failing.deviations)), *words[at:]])
