"""`acl-py sweep`: reads the grid of a sweep, shows how far it is, and prints the table."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any

import typer

from acl_py.cli.common import complain, console, is_written
from acl_py.cli.crews import CrewError, Dask, Workers, crew_of
from acl_py.many.crew import WorkerError
from acl_py.sweeps.files import filesystem_of, is_remote
from acl_py.sweeps.plots import check_plot, save_figure
from acl_py.sweeps.points import Point, check, points_of
from acl_py.sweeps.progress import Progress
from acl_py.sweeps.rows import Row
from acl_py.sweeps.running import Job
from acl_py.sweeps.store import state_of
from acl_py.sweeps.sweep import swept
from acl_py.tools.compare import CompareError, load
from acl_py.tools.swept_scripts import (
    ARG,
    ENV,
    ScriptJob,
    check_points,
    is_function,
    modules_of,
    state_of_script,
)

FAILED = 4

Program = Annotated[
    str,
    typer.Argument(
        metavar="PROGRAM",
        help="FILE.py:FUNCTION or MODULE:FUNCTION, a coroutine function as acl_py.run() takes it. FILE.py means its "
        "function main, or, if it has none, a script that says `import acl` or uses CUDA.",
        show_default=False,
    ),
]
GridOf = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        metavar="NAME=VALUES",
        help="Values of a parameter, with commas: --grid streams=1,2,4. May be repeated; all combinations are run. The "
        "names overlay, changes, seed and faults are options of the simulation.",
        show_default=False,
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUES",
        help="Of a script: values of a variable of its environment, with commas. May be repeated.",
        show_default=False,
    ),
]
Arg = Annotated[
    list[str] | None,
    typer.Option(
        metavar="VALUES",
        help="Of a script: values of an argument, with commas, such as 1,2,4 or --streams=1,2,4. May be repeated, in "
        "the order of the arguments.",
        show_default=False,
    ),
]
Devices = Annotated[
    str,
    typer.Option(
        help="Device profiles, with commas; by default that of `acl_py.run`, or of `acl-py run` for a script."
    ),
]
RulesOf = Annotated[
    str, typer.Option("--rules", help="Rules, with commas; by default those of the device.", show_default=False)
]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Keep each row in this file when it ends. An address such as s3://bucket/out.jsonl is for fsspec.",
        show_default=False,
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Do not run again what --out has.")]
Traces = Annotated[
    str,
    typer.Option(metavar="FOLDER", help="Save the trace of each point in this folder, or address.", show_default=False),
]
By = Annotated[
    str,
    typer.Option(metavar="VALUE", help="What counts: us, a number of the report, or one that the program returned."),
]
Plot = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Draw what counts, as .svg or .png; it needs matplotlib.", show_default=False),
]


def sweep_command(
    program: Program,
    grid: GridOf = None,
    env: Env = None,
    arg: Arg = None,
    device: Devices = "",
    rules: RulesOf = "",
    out: Out = None,
    resume: Resume = False,
    traces: Traces = "",
    by: By = "us",
    plot: Plot = None,
    workers: Workers = None,
    dask: Dask = "",
) -> None:
    """Run a program at many points, each in a simulation of its own, and compare the times.

    The table has a row for each point, in the order of the grid. Ctrl-C ends
    the sweep; with --out and --resume it goes on from there. The exit code is 4
    if a point has failed, and 2 if nothing can run.
    """
    try:
        axes = _axes(grid or [], env or [], arg or [], device, rules)
        points = points_of(axes)
        job, name, state = _job(program, points, traces, is_script=bool(env or arg))
        if resume and out is None:
            raise ValueError("--resume goes on with the rows of a file: name it with --out")
        if out is not None and not resume and _exists(out):
            raise ValueError(f"{out} exists: add --resume to go on with it, or name another file")
        if plot is not None:
            check_plot(plot)
        with crew_of(workers, dask, _files_of(job)) as crew, Progress() as shown:
            result = swept(job, name, state, points, crew, out, [shown], lambda text: complain(f"acl-py: {text}"))
    except (CompareError, CrewError, WorkerError, ValueError, TypeError, ImportError, OSError, SyntaxError) as error:
        complain(f"acl-py: {error}")
        raise typer.Exit(2) from error
    try:
        console().print(result.table(by))
        if plot is not None and not is_written(lambda: save_figure(result.plot(by), plot), plot):
            raise typer.Exit(1)
    except (KeyError, ValueError) as error:
        complain(f"acl-py: {error.args[0]}")
        raise typer.Exit(2) from error
    failed: list[Row] = [row for row in result if row.error]
    if failed:
        complain(f"{len(failed)} of {len(result)} points have failed")
        raise typer.Exit(FAILED)


def _job(
    program: str, points: list[dict[str, Any]], traces: str, *, is_script: bool
) -> tuple[Callable[[Point], Row], str, Callable[[], str]]:
    """Return what runs *program* at a point, its name, and what returns its state; refuse what cannot run."""
    if is_script or not is_function(program):
        if not program.endswith(".py"):
            raise ValueError(f"{program}: --env and --arg are for scripts, so name a file")
        check_points(program, points)
        return ScriptJob(program, traces), program, partial(state_of_script, program)
    _, function = load(program if ":" in program else f"{program}:main")
    check(function, points)
    assert isinstance(function, FunctionType), "a coroutine function"
    name = f"{function.__module__}.{function.__qualname__}"
    return Job(function, traces), name, partial(state_of, function)


def _files_of(job: Callable[[Point], Row]) -> list[Path]:
    """Return the files of the folder that the program imports, and then its own; none of what is in a package."""
    if not isinstance(job, Job) or "." in job.program.__module__:
        return []
    file = sys.modules[job.program.__module__].__file__
    return [] if file is None else [*reversed(list(modules_of(Path(file))))]


def _exists(out: str) -> bool:
    if not is_remote(out):
        return Path(out).exists()
    system, place = filesystem_of(out)
    return bool(system.exists(place))


def _axes(grid: list[str], env: list[str], arg: list[str], device: str, rules: str) -> dict[str, list[Any]]:
    axes: dict[str, list[Any]] = {}
    for option, prefix, each in [*(("--grid", "", each) for each in grid), *(("--env", ENV, each) for each in env)]:
        name, equals, values = each.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"{option} {each}: write NAME=VALUES, as in streams=1,2,4")
        if prefix + name in axes:
            raise ValueError(f"{option} {each}: {name} has its values already: give all of them with commas")
        axes[prefix + name] = [_value(value) for value in values.split(",")] if not prefix else values.split(",")
    for number, each in enumerate(arg, 1):
        name, equals, values = each.partition("=")
        if equals and name.startswith("-"):
            axes[ARG + name] = values.split(",")
        else:
            axes[f"{ARG}{number}"] = each.split(",")
    if device:
        axes["device"] = device.split(",")
    if rules:
        axes["rules"] = rules.split(",")
    return axes


def _value(text: str) -> Any:
    """Return a number, true, false or null as Python has it, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
