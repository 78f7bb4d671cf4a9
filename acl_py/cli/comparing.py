"""`acl-py compare`: compares what a launch returns with a reference."""

from typing import Annotated

import typer

from acl_py.cli.common import Device, complain, profile_of
from acl_py.cli.crews import CrewError, Dask, Workers, crew_of
from acl_py.many.crew import WorkerError
from acl_py.tools import compare

DIFFERS = 4
_SHOWN = 10  # seeds

Launch = Annotated[
    str,
    typer.Argument(
        metavar="LAUNCH",
        help="FILE.py:FUNCTION or MODULE:FUNCTION: it launches kernels, and returns Arrays or copies of them.",
        show_default=False,
    ),
]
Reference = Annotated[
    str,
    typer.Argument(
        metavar="REFERENCE",
        help="The same, or FUNCTION of the same file: it returns what these arrays should hold.",
        show_default=False,
    ),
]
Relative = Annotated[float, typer.Option(min=0, help="The relative error that is allowed.")]
Absolute = Annotated[float, typer.Option(min=0, help="The absolute error that is allowed.")]
Tile = Annotated[
    str,
    typer.Option(
        metavar="ROWS,COLUMNS",
        help="The shape of tiles over the last dimensions. By default a tile is what one instruction wrote.",
        show_default=False,
    ),
]
Seeds = Annotated[
    int, typer.Option(min=1, help="Run the launch so many times, with the seeds 0, 1 and so on of its simulation.")
]


def compare_command(
    launch: Launch,
    reference: Reference,
    device: Device = "ascend910b3",
    rtol: Relative = 0.0,
    atol: Absolute = 0.0,
    tile: Tile = "",
    seeds: Seeds = 1,
    workers: Workers = 1,
    dask: Dask = "",
) -> None:
    """Compare what a launch returns with a reference, and show the first difference and what wrote it.

    Of each array that differs it prints the first wrong element, its tile, the
    instruction that wrote it, the first wrong step in time, and the finding
    nearest to that. With --seeds the launch runs once for each seed of its
    simulation, and what the first seed with a difference shows is printed.
    The exit code is 4 if there are differences, 0 if there are none, and 2 if
    there is nothing to compare.
    """
    profile = profile_of(device)
    shape = _shape(tile)
    try:
        compare.load(launch)
        reference_name, reference_function = compare.load(reference, launch)
        expected = compare.reference_values(reference_name, reference_function)
        job = compare.Comparison(launch, profile, expected, rtol, atol, tuple(shape))
        with crew_of(None if dask else workers, dask) as crew:
            found = list(crew.in_order(job, range(seeds)))
    except (compare.CompareError, CrewError, WorkerError) as error:
        complain(f"acl-py: {error}")
        raise typer.Exit(2) from error
    differing = [seed for seed, texts in enumerate(found) if texts]
    shown = found[differing[0]] if differing else ()
    for text in shown:
        typer.echo(text)
    equal = len(expected) - len(shown)
    typer.echo(f"{equal} of {len(expected)} arrays agree with {reference_name}")
    if seeds > 1:
        typer.echo(f"seeds: {len(differing)} of {seeds} differ{_some(differing)}")
    if differing:
        raise typer.Exit(DIFFERS)


def _some(seeds: list[int]) -> str:
    """Return the first of *seeds* as text."""
    more = ", ..." if len(seeds) > _SHOWN else ""
    return f": {', '.join(map(str, seeds[:_SHOWN]))}{more}" if seeds else ""


def _shape(tile: str) -> list[int]:
    try:
        return [int(length) for length in tile.split(",")] if tile else []
    except ValueError:
        raise typer.BadParameter(f"{tile!r}: give lengths with commas, such as 64,128", param_hint="--tile") from None
