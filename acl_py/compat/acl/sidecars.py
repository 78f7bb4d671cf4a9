"""Sidecars: `resnet50.om.toml` beside `resnet50.om` says what the model file stands for.

A model file of the vendor's compiler cannot be run here. Its sidecar names its inputs and outputs and a Python function
that computes the second from the first. The function is `module:name`; a module beside the sidecar comes before all
others of that name.
"""

import importlib
import importlib.util
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any
from zlib import crc32

from acl_py.compat.acl.models import Model, Tensor, amounts, gears, registered, registered_with, with_weights

SUFFIX = ".toml"
_TOP = ("compute", "inputs", "outputs", "cost_us", "flops", "dynamic_batch", "dynamic_hw", "dynamic_dims", "work_size",
        "weight_size", "bundle")  # fmt: skip
_NEAR = (".", "model", "models", "../model", "../models")  # where scripts have their models

_TEMPLATE = """\
# What {file} stands for on a simulated device.

# The function that computes the outputs, as module:name; {module}.py lies beside this file.
#     def infer({arguments}):                # one NumPy array per input, not to be written to
#         return ...                    # one array per output; several as a tuple
compute = "{module}:infer"

cost_us = 1000.0                        # of one execution; or flops = 8.2e9, of which the device makes a time
# work_size = 0                         # bytes of device memory between inputs and outputs
# weight_size = 0                       # bytes of weights; by default the size of the model file

# At most one of these; -1 in the dims of inputs and outputs takes its values. Outputs may also have arithmetic with
# "batch", "height" and "width" or "d0", "d1", ...: dims = ["batch", "height // 4", "width // 4"].
# cost_us may have one number per gear then.
# dynamic_batch = [1, 2, 4, 8]
# dynamic_hw = [[224, 224], [448, 448]]
# dynamic_dims = [[20, 20], [40, 40]]   # one value for each -1 of the inputs, in their order
# With -1 and none of these each execution says the shapes, in the tensor descriptions of its dataset.
{tables}"""
_TABLE = """
[[{kind}]]
name = "{name}"
dtype = "{dtype}"
dims = [{dims}]
{rest}"""
_FUNCTION = """\
\"""What {file} computes.\"""

import numpy as np


def infer({arguments}):
    \"""Compute {outputs} of {inputs}.\"""
    # Zeros for a beginning: put what the model does here.
{zeros}
    return {results}
"""
AN_INPUT = (Tensor("data", "float32", (1, 3, 224, 224), "NCHW"),)
AN_OUTPUT = (Tensor("prob", "float32", (1, 1000)),)


class SidecarError(ValueError):
    """A sidecar, or what it names, that cannot be used: with the file and the field."""


def sidecar_of(path: Path) -> Path:
    """Where the sidecar of the model file *path* belongs."""
    return path.with_name(path.name + SUFFIX)


def template(file: Path, inputs: Sequence[Tensor] = AN_INPUT, outputs: Sequence[Tensor] = AN_OUTPUT) -> str:
    """A sidecar to begin with."""
    tables = [_table("inputs", each) for each in inputs] + [_table("outputs", each) for each in outputs]
    arguments = ", ".join(identifier(tensor.name) for tensor in inputs)
    return _TEMPLATE.format(file=file.name, module=identifier(file.stem), arguments=arguments, tables="".join(tables))


def _table(kind: str, tensor: Tensor) -> str:
    dims = ", ".join(f'"{dim}"' if isinstance(dim, str) else str(dim) for dim in tensor.dims)
    rest = "" if tensor.format == "ND" else f'format = "{tensor.format}"\n'
    return _TABLE.format(kind=kind, name=tensor.name, dtype=tensor.dtype, dims=dims, rest=rest)


def module_of(file: Path) -> Path:
    """The Python file that the template names."""
    return file.with_name(f"{identifier(file.stem)}.py")


def function_template(file: Path, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> str:
    """A Python file with the function that the template names."""
    names = [identifier(tensor.name) for tensor in inputs]
    results = [identifier(tensor.name) for tensor in outputs]
    zeros = [
        f"    {name} = np.zeros({_shape(names[0], each)}, {_plain(each)!r})"
        for name, each in zip(results, outputs, strict=True)
    ]
    return _FUNCTION.format(
        file=file.name,
        arguments=", ".join(names),
        inputs=" and ".join(_words(tensor) for tensor in inputs),
        outputs=" and ".join(_words(tensor) for tensor in outputs),
        zeros="\n".join(zeros),
        results=", ".join(results),
    )


def _shape(first: str, tensor: Tensor) -> str:
    """The shape as Python text; a dynamic dim is that of the *first* input."""
    dims = [
        str(dim) if isinstance(dim, int) and dim >= 0 else f"{first}.shape[{place}]"
        for place, dim in enumerate(tensor.dims)
    ]
    return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"


def _plain(tensor: Tensor) -> str:
    """A dtype that NumPy has by itself."""
    return "float32" if tensor.numpy.kind == "V" else tensor.dtype


def _words(tensor: Tensor) -> str:
    return f"{tensor.name} ({tensor.dtype} {list(tensor.dims)})"


def identifier(text: str) -> str:
    """*text* as a name in Python."""
    name = "".join(each if each.isalnum() else "_" for each in text)
    return name if name.isidentifier() else f"_{name}"


def find(path: str, directories: Sequence[Path]) -> Model | None:
    """What the model file *path* stands for: registered in Python, in the sidecar beside it, or in one of
    *directories*. None if nobody says so; SidecarError if it cannot be used.
    """
    model = registered(path)
    if model is not None:
        return model
    sidecar = sidecar_for(Path(path), directories)
    if sidecar is None:
        return None
    file = Path(path) if Path(path).is_file() else sidecar.with_suffix("")
    return read(sidecar, file)


def find_content(content: bytes, directories: Sequence[Path]) -> Model | None:
    """The same for the content of a model file: that of a registered one, or of one with a sidecar in *directories*,
    the current directory, the script's, or a directory model or models in or beside those.
    """
    model = registered_with(content)
    if model is not None:
        return model
    for file in known_files(directories):
        if file.stat().st_size == len(content) and file.read_bytes() == content:
            return read(sidecar_of(file), file)
    return None


def bundle(path: str, directories: Sequence[Path]) -> list[str] | None:
    """The model files that the bundle *path* has; None if it has no sidecar."""
    sidecar = sidecar_for(Path(path), directories)
    if sidecar is None:
        return None
    files = document_of(sidecar).get("bundle")
    if not isinstance(files, list) or not all(isinstance(each, str) for each in files):
        raise SidecarError(f'{sidecar}: a bundle has a list of model files: bundle = ["a.om", "b.om"]')
    return [str(sidecar.parent / each) for each in files]


def bundle_file(content: bytes, directories: Sequence[Path]) -> Path | None:
    """The file of a bundle with this content, where `find_content` looks."""
    sizes = (file for file in known_files(directories) if file.stat().st_size == len(content))
    return next((file for file in sizes if file.read_bytes() == content), None)


def sidecar_for(path: Path, directories: Sequence[Path]) -> Path | None:
    """The sidecar of the file *path*: beside it, or in one of *directories*."""
    places = (sidecar_of(path), *(sidecar_of(directory / path.name) for directory in directories))
    return next((each for each in places if each.is_file()), None)


def known_files(directories: Sequence[Path], near: Sequence[str] = _NEAR) -> Iterator[Path]:
    """The files with sidecars in *directories*, or *near* the current directory or the script's."""
    script = Path(sys.argv[0]).resolve().parent if sys.argv and sys.argv[0] else Path.cwd()
    places = [(root / each).resolve() for root in (Path.cwd(), script) for each in near]
    for directory in dict.fromkeys((*directories, *places)):
        for sidecar in sorted(directory.glob(f"*{SUFFIX}")):
            if sidecar.with_suffix("").is_file():
                yield sidecar.with_suffix("")


def read(sidecar: Path, file: Path) -> Model:
    """The model that *sidecar* describes, for the model *file*, which gives its weights a size if it exists."""
    document = document_of(sidecar)
    for name in ("compute", "inputs", "outputs"):
        if name not in document:
            raise SidecarError(f"{sidecar}: {name} is missing")
    try:
        model = Model(
            file.stem,
            tuple(_tensor("inputs", entry) for entry in document["inputs"]),
            tuple(_tensor("outputs", entry) for entry in document["outputs"]),
            function_of(sidecar, document["compute"]),
            amounts(document.get("cost_us")),
            amounts(document.get("flops")),
            gears(*(document.get(f"dynamic_{kind}", ()) for kind in ("batch", "hw", "dims"))),
            document.get("work_size"),
            document.get("weight_size", 0),
        )
    except (TypeError, ValueError) as error:
        raise SidecarError(f"{sidecar}: {error}") from error
    return with_weights(model, file.stat().st_size if file.is_file() else 0)


def document_of(sidecar: Path, known: Sequence[str] = _TOP) -> dict[str, Any]:
    """What *sidecar* says, under no other names than those that are *known*."""
    try:
        document = tomllib.loads(sidecar.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SidecarError(f"{sidecar}: {error}") from error
    unknown = [name for name in document if name not in known]
    if unknown:
        raise SidecarError(f"{sidecar}: {unknown[0]} is none of {', '.join(known)}")
    return document


def _tensor(kind: str, entry: Any) -> Tensor:
    known = {field.name for field in fields(Tensor)}
    if not isinstance(entry, dict) or not {"name", "dtype", "dims"} <= set(entry) <= known:
        raise ValueError(f"each of {kind} has name, dtype and dims, and may have format and ranges, not {entry!r}")
    return Tensor(**entry)


def function_of(sidecar: Path, reference: object) -> Callable[..., Any]:
    """The callable that *sidecar* names, as module:name."""
    module, separator, name = str(reference).partition(":")
    if not (separator and module and name):
        raise SidecarError(f"{sidecar}: compute is module:name, not {reference!r}")
    beside = sidecar.parent / f"{module}.py"
    try:
        function = attrgetter(name)(_load(beside) if beside.is_file() else importlib.import_module(module))
    except Exception as error:  # whatever a module does when it is imported
        hint = f"; a file {beside} would be found" if not beside.is_file() else ""
        what = f"{type(error).__name__}: {error}{hint}"
        raise SidecarError(f"{sidecar}: compute = {reference!r}: {what}") from error
    if not callable(function):
        raise SidecarError(f"{sidecar}: compute = {reference!r} cannot be called")
    return function  # type: ignore[no-any-return]


_loading = threading.RLock()  # threads load models at the same time; a module may load others


def _load(file: Path) -> Any:
    """The module in *file*, under a name of its own: two models may each have a model.py."""
    file = file.resolve()
    name = f"{file.stem}_{crc32(bytes(file.parent)):08x}"
    with _loading:
        known = sys.modules.get(name)
        return _import(name, file) if known is None else known


def _import(name: str, file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, f"{file} ends in .py"
    assert spec.loader is not None, f"{file} ends in .py"
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent))  # for what it imports itself
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(file.parent))
    return module
