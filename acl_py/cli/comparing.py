"""`acl-py compare`: compares what a launch returns with a reference."""

from typing import Annotated

import typer

from acl_py.cli.common import Device, complain, profile_of
from acl_py.tools import compare

DIFFERS = 4

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


def compare_command(
    launch: Launch,
    reference: Reference,
    device: Device = "ascend910b3",
    rtol: Relative = 0.0,
    atol: Absolute = 0.0,
    tile: Tile = "",
) -> None:
    """Compare what a launch returns with a reference, and show the first difference and what wrote it.

    Of each array that differs it prints the first wrong element, its tile, the
    instruction that wrote it, the first wrong step in time, and the finding
    nearest to that. The exit code is 4 if there are differences, 0 if there
    are none, and 2 if there is nothing to compare.
    """
    profile = profile_of(device)
    shape = _shape(tile)
    try:
        name, function = compare.load(launch)
        reference_name, reference_function = compare.load(reference, launch)
        expected = compare.reference_values(reference_name, reference_function)
        outcome = compare.run(name, function, profile)
        found = list(compare.differences(outcome, expected, rtol=rtol, atol=atol, tile=shape))
    except compare.CompareError as error:
        complain(f"acl-py: {error}")
        raise typer.Exit(2) from error
    for each in found:
        typer.echo(each)
    equal = len(expected) - len(found)
    typer.echo(f"{equal} of {len(expected)} arrays agree with {reference_name}")
    if found:
        raise typer.Exit(DIFFERS)


def _shape(tile: str) -> list[int]:
    try:
        return [int(length) for length in tile.split(",")] if tile else []
    except ValueError:
        raise typer.BadParameter(f"{tile!r}: give lengths with commas, such as 64,128", param_hint="--tile") from None
