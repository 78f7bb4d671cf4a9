"""`acl-py model init`: write the sidecar of a model file, to be filled in."""

from pathlib import Path
from typing import Annotated

import typer

from acl_py.compat.acl.standins import sidecars, skeletons
from acl_py.compat.acl.standins.models import Tensor
from acl_py.whole_files import write_text

app = typer.Typer(help="Models for scripts that say `import acl`.", no_args_is_help=True)


@app.callback()
def model() -> None:
    """A sidecar beside a model file says what the model computes."""


@app.command("init")
def init_command(
    file: Annotated[Path, typer.Argument(help="The model file, as in resnet50.om; it need not exist.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", help="name:dtype:dims, as in data:float32:1,3,224,224; :NCHW may follow. -1 is dynamic."
        ),
    ] = None,
    outputs: Annotated[list[str] | None, typer.Option("--output", help="An output, written like an input.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing sidecar.")] = False,
) -> None:
    """Write a sidecar beside FILE, and a Python file with its function unless that file exists."""
    sidecar, module = sidecars.sidecar_of(file), sidecars.module_of(file)
    if sidecar.exists() and not force:
        raise typer.BadParameter(f"{sidecar} exists already; pass --force to overwrite it")
    tensors = [[_tensor(text) for text in texts] for texts in (inputs or [], outputs or [])]
    given, wanted = tensors[0] or sidecars.AN_INPUT, tensors[1] or sidecars.AN_OUTPUT
    try:
        write_text(sidecar, sidecars.template(file, given, wanted))
        typer.echo(f"wrote {sidecar}")
        if not module.exists():
            write_text(module, skeletons.model_skeleton(file.name, given, wanted))
            typer.echo(f"wrote {module}: write infer() so that it computes what the model does")
    except OSError as error:
        raise typer.BadParameter(f"{error.filename}: cannot be written: {error.strerror}") from error


def _tensor(text: str) -> Tensor:
    name, _, rest = text.partition(":")
    dtype, _, rest = rest.partition(":")
    dims, _, layout = rest.partition(":")
    try:
        return Tensor(name, dtype, tuple(_dim(each) for each in dims.split(",") if each), layout or "ND")
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}") from error


def _dim(text: str) -> int | str:
    text = text.strip()
    return int(text) if text.lstrip("-").isdigit() else text
