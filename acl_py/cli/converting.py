"""`acl-py atc`: the vendor's converter of models, for a simulated device."""

from typing import Annotated

import typer

from acl_py.compat.acl.standins import converting
from acl_py.compat.acl.standins.converting import ConversionError

_FAILED = 255  # the vendor's exit code


def atc_command(
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="--model=FILE.onnx --framework=5 --output=NAME --soc_version=CHIP ...", show_default=False
        ),
    ] = None,
) -> None:
    """Make a model file from an ONNX file, with the options of Ascend's converter of that name.

    The file works like one of the vendor's where `acl` is simulated, and no card
    can load it. It has the ONNX file in itself, and needs the extra `onnx`.

    Used are model, framework, output, soc_version, input_shape, input_format,
    dynamic_batch_size, dynamic_image_size, dynamic_dims, insert_op_conf,
    out_nodes and output_type. Options about logs, precision and tuning are
    ignored, which is said; all others are refused.
    """
    typer.echo("ATC start working now, please wait for a moment.")
    try:
        given = converting.read_options(options or ())
        file, model = converting.convert(given)
    except (ConversionError, OSError) as error:
        typer.echo("ATC run failed, Please check the detail log, Try 'atc --help' for more information")
        typer.echo(f"{error}")
        raise typer.Exit(_FAILED) from error
    if given.ignored:
        typer.echo(f"acl-py: ignored here: {', '.join(f'--{each}' for each in given.ignored)}")
    typer.echo(
        f"acl-py: {file} has the ONNX file in it, for simulated devices; no card can load it. It computes in the "
        f"types of that file, where the vendor's default is float16; its time is that of {model.precision}"
    )
    typer.echo("ATC run success, welcome to the next use.")
