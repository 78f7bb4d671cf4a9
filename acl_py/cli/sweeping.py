"""`acl-py sweep`: reads the grid of a sweep, shows how far it is, and prints the table."""

import json
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from acl_py.cli.common import complain, console, progress
from acl_py.late_imports import import_late
from acl_py.sweeps.points import points_of
from acl_py.sweeps.rows import Row
from acl_py.sweeps.sweep import sweep
from acl_py.tools.compare import CompareError, load

FAILED = 4

Program = Annotated[
    str,
    typer.Argument(
        metavar="PROGRAM",
        help="FILE.py:FUNCTION or MODULE:FUNCTION, a coroutine function as acl_py.run() takes it; FILE.py means its "
        "function main.",
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
Devices = Annotated[str, typer.Option(help="Device profiles, with commas.")]
RulesOf = Annotated[
    str, typer.Option("--rules", help="Rules, with commas; by default those of the device.", show_default=False)
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Keep each row in this file when it ends.", show_default=False),
]
Resume = Annotated[bool, typer.Option("--resume", help="Do not run again what --out has.")]
WorkersOf = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes; by default one for each processor.")
]
Dask = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Run on the Dask cluster of this scheduler.", show_default=False)
]


def sweep_command(
    program: Program,
    grid: GridOf = None,
    device: Devices = "h200",
    rules: RulesOf = "",
    out: Out = None,
    resume: Resume = False,
    workers: WorkersOf = None,
    dask: Dask = "",
) -> None:
    """Run a program at many points, each in a simulation of its own, and compare the times.

    The table has a row for each point, in the order of the grid. Ctrl-C ends
    the sweep; with --out and --resume it goes on from there. The exit code is 4
    if a point has failed, and 2 if nothing can run.
    """
    try:
        _, function = load(program if ":" in program else f"{program}:main")
        axes = _axes(grid or [], device, rules)
        if out is not None and out.exists() and not resume:
            raise ValueError(f"{out} exists: add --resume to go on with it, or name another file")
        points = points_of(axes)
        with _executor(dask) as executor, progress("points", len(points)) as advance:
            result = sweep(function, points, executor=executor, workers=workers, store=out, tell=lambda *_: advance())
    except (CompareError, ValueError, TypeError, ImportError, OSError) as error:
        complain(f"acl-py: {error}")
        raise typer.Exit(2) from error
    console().print(result.table())
    failed: list[Row] = [row for row in result if row.error]
    if failed:
        complain(f"{len(failed)} of {len(result)} points have failed")
        raise typer.Exit(FAILED)


def _axes(grid: list[str], device: str, rules: str) -> dict[str, list[Any]]:
    axes: dict[str, list[Any]] = {}
    for each in grid:
        name, equals, values = each.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"--grid {each}: write NAME=VALUES, as in streams=1,2,4")
        axes[name] = [_value(value) for value in values.split(",")]
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


@contextmanager
def _executor(address: str) -> Iterator[Executor | None]:
    """Give the executor of a Dask cluster; None without an address."""
    if not address:
        yield None
        return
    try:
        distributed = import_late("distributed")
    except ImportError as error:
        raise ImportError("--dask needs the package distributed: pip install 'acl_py[dask]'") from error
    with distributed.Client(address, timeout="10s") as client:
        yield client.get_executor()
