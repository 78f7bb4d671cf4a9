"""`acl-py model init`: write the sidecar of a model file, to be filled in."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from acl_py.compat.acl.standins import sidecars, skeletons, vendor_files
from acl_py.compat.acl.standins.graphs import protos
from acl_py.compat.acl.standins.graphs.graph import Graph
from acl_py.compat.acl.standins.graphs.packages import GraphError
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
    onnx: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="An ONNX file that computes what FILE does: it says the names, types and dims, and needs no function. "
            "--input gives an input other dims.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing sidecar.")] = False,
) -> None:
    """Write a sidecar beside FILE, and a Python file with its function unless that file exists."""
    sidecar = sidecars.sidecar_of(file)
    if sidecar.exists() and not force:
        raise typer.BadParameter(f"{sidecar} exists already; pass --force to overwrite it")
    given, wanted = ([_tensor(text) for text in texts] for texts in (inputs or [], outputs or []))
    try:
        if onnx is not None:
            _write_for_graph(file, onnx, given, wanted)
        else:
            known = _in_file(file) or vendor_files.Tensors([*sidecars.AN_INPUT], [*sidecars.AN_OUTPUT])
            _write(file, given or known.inputs, wanted or known.outputs)
    except OSError as error:
        raise typer.BadParameter(f"{error.filename}: cannot be written: {error.strerror}") from error


def _in_file(file: Path) -> vendor_files.Tensors | None:
    """Return the inputs and outputs that the model file says, if it is there and the vendor's; else say why not."""
    if not file.is_file():
        return None
    try:
        tensors = vendor_files.read(file.read_bytes())
    except vendor_files.VendorFileError as error:
        typer.echo(f"{file} does not say its inputs and outputs: {error}")
        return None
    typer.echo(f"{file} says its inputs and outputs")
    return tensors


def _write(file: Path, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Write the sidecar of *file*, and the Python file with its function unless that exists."""
    sidecar, module = sidecars.sidecar_of(file), sidecars.module_of(file)
    write_text(sidecar, sidecars.template(file, inputs, outputs))
    typer.echo(f"wrote {sidecar}")
    if not module.exists():
        write_text(module, skeletons.model_skeleton(file.name, inputs, outputs))
        typer.echo(f"wrote {module}: write infer() so that it computes what the model does")


def _write_for_graph(file: Path, onnx: Path, given: Sequence[Tensor], wanted: Sequence[Tensor]) -> None:
    """Write the sidecar of *file* that names the file *onnx*; if that cannot be computed here, say why, and write a
    function with zeros.
    """
    if wanted:
        raise typer.BadParameter("--onnx says what the outputs are: leave out --output")
    with refused(GraphError):
        model = protos.read(onnx)
        inputs, outputs = protos.tensors_with(model, {each.name: each for each in given}), protos.outputs_of(model)
    try:
        Graph(model, inputs, "float16")
    except GraphError as error:
        typer.echo(f"{onnx} cannot be computed here: {error}")
        _write(file, inputs, outputs)
        return
    sidecar = sidecars.sidecar_of(file)
    write_text(sidecar, sidecars.graph_template(file, onnx, inputs))
    typer.echo(f"wrote {sidecar}: {onnx} computes the model, in the types of that file")


@contextmanager
def refused(kind: type[Exception]) -> Iterator[None]:
    """Show errors of *kind* as mistakes in the options of a command."""
    try:
        yield
    except kind as error:
        raise typer.BadParameter(str(error)) from error


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
