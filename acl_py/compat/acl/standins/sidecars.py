"""Sidecars: `resnet50.om.toml` beside `resnet50.om` says what the model computes.

A model file of the vendor's compiler cannot run here. Its sidecar names the inputs, the outputs and a Python function
that computes the outputs from the inputs; or an ONNX file, which says all of this.

The function is `module:name`: of an installed module, or of the Python file of that name beside the sidecar. Installed
modules come first, so a file beside a sidecar cannot replace numpy or json, neither for the sidecar nor for the imports
of its module. Nothing else in a sidecar can name code. The files of code that sidecars loaded are kept in `brought_in`,
for the summary of a run.
"""

import importlib
import importlib.util
import json
import os
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any
from zlib import crc32

from acl_py.compat.acl.aipp import files as aipp_files
from acl_py.compat.acl.face.options import brought_in
from acl_py.compat.acl.standins.models import Model, Tensor, amounts, gears, registered, registered_with, with_weights
from acl_py.compat.acl.standins.skeletons import identifier
from acl_py.late_imports import import_late

SUFFIX = ".toml"
_TOP = ("compute", "onnx", "inputs", "outputs", "cost_us", "flops", "precision", "dynamic_batch", "dynamic_hw",
        "dynamic_dims", "work_size", "weight_size", "bundle", "aipp")  # fmt: skip
_LONGEST_NAME = 200  # of a function with its module
_NEAR = (".", "model", "models", "../model", "../models")  # where scripts have their models

_TEMPLATE = """\
# What {file} computes on a simulated device.

# The Python function, as module:name; {module}.py lies beside this file.
#     def infer({arguments}):   # a read-only NumPy array for each input
#         return ...      # an array for each output; several as a tuple
compute = "{module}:infer"

# The time of one execution. Or flops = 8.2e9: the time follows from the card,
# and from the type that the model computes in: precision = "float16".
cost_us = 1000.0
# Device memory in bytes: between inputs and outputs, and for the weights. By
# default as much as inputs and outputs take, and the size of the model file.
# work_size = 0
# weight_size = 0

# Dynamic shapes: write -1 in dims, and at most one of these lists of values.
# dynamic_dims has one value for each -1 of the inputs, in their order.
# dynamic_batch = [1, 2, 4, 8]
# dynamic_hw = [[224, 224], [448, 448]]
# dynamic_dims = [[20, 20], [40, 40]]
# Outputs may then have arithmetic in dims with "batch", with "height" and
# "width", or with "d0", "d1", ...: dims = ["batch", "height // 4"]. cost_us and
# flops may be lists with one number for each of the values.
# With -1 and no list, the tensor descriptions of each execution give the shapes.

# A file of AIPP beside this one, as atc --insert_op_conf takes it: the program
# passes images in uint8, and the function gets the inputs below.
# aipp = "aipp.cfg"
{tables}"""
_GRAPH_TEMPLATE = """\
# What {file} computes on a simulated device: an ONNX file, by onnxruntime in
# one thread. It computes in the types of that file, mostly float32; the
# vendor's converter makes models that compute in float16 by default.
onnx = {onnx}

# The time of one execution is the greater of two: the products of the graph at
# the card's rate for this precision, and its weights, inputs and outputs at
# the rate of the memory. That is a bound; cost_us or flops say another time.
precision = "float16"
# cost_us = 1000.0

# Dynamic shapes: write -1 in dims, and at most one of these lists of values.
# dynamic_dims has one value for each -1 of the inputs, in their order.
# dynamic_batch = [1, 2, 4, 8]
# dynamic_hw = [[224, 224], [448, 448]]
# dynamic_dims = [[20, 20], [40, 40]]
# With -1 and no list, the tensor descriptions of each execution give the shapes.

# A file of AIPP beside this one, as atc --insert_op_conf takes it: the program
# passes images in uint8.
# aipp = "aipp.cfg"
{tables}"""
_TABLE = """
[[{kind}]]
name = {name}
dtype = "{dtype}"
dims = [{dims}]
{rest}"""
AN_INPUT = (Tensor("data", "float32", (1, 3, 224, 224), "NCHW"),)
AN_OUTPUT = (Tensor("prob", "float32", (1, 1000)),)


class SidecarError(ValueError):
    """A sidecar that cannot be used, or the code that it names; the message has the file and the field."""


def sidecar_of(path: Path) -> Path:
    """Return the path of the sidecar of the model file *path*."""
    return path.with_name(path.name + SUFFIX)


def template(file: Path, inputs: Sequence[Tensor] = AN_INPUT, outputs: Sequence[Tensor] = AN_OUTPUT) -> str:
    """Return the text of a sidecar to begin with."""
    tables = [_table("inputs", each) for each in inputs] + [_table("outputs", each) for each in outputs]
    arguments = ", ".join(identifier(tensor.name) for tensor in inputs)
    return _TEMPLATE.format(file=file.name, module=identifier(file.stem), arguments=arguments, tables="".join(tables))


def graph_template(file: Path, onnx: Path, inputs: Sequence[Tensor]) -> str:
    """Return the text of a sidecar for the ONNX file *onnx*, with the dims of its *inputs*."""
    path = json.dumps(os.path.relpath(onnx, file.parent), ensure_ascii=False)  # a text in TOML, too
    return _GRAPH_TEMPLATE.format(file=file.name, onnx=path, tables="".join(_table("inputs", each) for each in inputs))


def _table(kind: str, tensor: Tensor) -> str:
    dims = ", ".join(f'"{dim}"' if isinstance(dim, str) else str(dim) for dim in tensor.dims)
    rest = "" if tensor.format == "ND" else f'format = "{tensor.format}"\n'
    return _TABLE.format(
        kind=kind, name=json.dumps(tensor.name, ensure_ascii=False), dtype=tensor.dtype, dims=dims, rest=rest
    )


def module_of(file: Path) -> Path:
    """The Python file that the template names."""
    return file.with_name(f"{identifier(file.stem)}.py")


def find(path: str, directories: Sequence[Path]) -> Model | None:
    """Return the model of the file *path*: registered in Python, or of a sidecar beside it or in one of *directories*.
    None if there is neither.

    Raises:
        SidecarError: The sidecar cannot be used.
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
    """Return the model whose file has this content, or None. It is a registered one, or one with a sidecar in
    *directories*, the current directory, the script's, or a directory model or models in or beside those.
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
        raise SidecarError(f'{sidecar}: bundle must be a list of model files, as in bundle = ["a.om", "b.om"]')
    for each in files:
        if not each or each in (".", "..") or set(each) & set("/\\\0"):
            raise SidecarError(
                f"{sidecar}: bundle must name files in the folder of the sidecar, without a path, not {each!r}"
            )
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
    if "onnx" in document:
        return _of_graph(sidecar, document, file)
    for name in ("compute", "inputs", "outputs"):
        if name not in document:
            raise SidecarError(f"{sidecar}: {name} is missing; a model needs compute, inputs and outputs, or onnx")
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
            precision=document.get("precision", "float16"),
        )
        if "aipp" in document:
            model = model.with_aipp(aipp_files.read(sidecar.parent / document["aipp"]))
    except (TypeError, ValueError) as error:
        raise SidecarError(f"{sidecar}: {error}") from error
    return with_weights(model, file.stat().st_size if file.is_file() else 0)


def _of_graph(sidecar: Path, document: dict[str, Any], file: Path) -> Model:
    """The model of a sidecar that names an ONNX file, which says all but the dims and what the model costs."""
    for name in ("compute", "outputs"):
        if name in document:
            raise SidecarError(f"{sidecar}: the ONNX file says what {name} would: leave out {name}, or onnx")
    reference = document["onnx"]
    if not isinstance(reference, str) or not reference:
        raise SidecarError(f'{sidecar}: onnx must be the path of an ONNX file, as in onnx = "resnet50.onnx"')
    path = sidecar.parent / reference
    building = import_late(f"{__package__}.graphs.building")
    try:
        given = [_tensor("inputs", entry) for entry in document.get("inputs", ())]
        precision = document.get("precision", "float16")
        graph = building.graph_in_file(path, {each.name: each for each in given}, precision)
        sizes = gears(*(document.get(f"dynamic_{kind}", ()) for kind in ("batch", "hw", "dims")))
        model: Model = replace(
            building.model_of(file.stem, graph, sizes, precision),
            cost_us=amounts(document.get("cost_us")),
            flops=amounts(document.get("flops")),
            work_size=document.get("work_size"),
        )
        if "aipp" in document:
            model = model.with_aipp(aipp_files.read(sidecar.parent / document["aipp"]))
    except (TypeError, ValueError) as error:
        raise SidecarError(f"{sidecar}: onnx = {reference!r}: {error}") from error
    brought_in[f"{_shown(sidecar)} computes {_shown(path)} with onnxruntime"] = None
    return replace(model, weight_size=document["weight_size"]) if "weight_size" in document else model


def document_of(sidecar: Path, known: Sequence[str] = _TOP) -> dict[str, Any]:
    """Return the TOML document of *sidecar*; its fields must be among the *known* ones."""
    try:
        document = tomllib.loads(sidecar.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SidecarError(f"{sidecar}: {error}") from error
    except RecursionError:
        raise SidecarError(f"{sidecar}: lists or tables are nested too deeply") from None
    unknown = [name for name in document if name not in known]
    if unknown:
        raise SidecarError(f"{sidecar}: there is no field {unknown[0]}; the fields are {', '.join(known)}")
    return document


def _tensor(kind: str, entry: Any) -> Tensor:
    known = {field.name for field in fields(Tensor)}
    if not isinstance(entry, dict) or not {"name", "dtype", "dims"} <= set(entry) <= known:
        what = f"each table of {kind} needs name, dtype and dims, and may have format and ranges"
        raise ValueError(f"{what}, not {entry!r}")
    return Tensor(**entry)


def function_of(sidecar: Path, reference: object) -> Callable[..., Any]:
    """Import the module that *sidecar* names, as module:name, and return the function."""
    module, separator, name = reference.partition(":") if isinstance(reference, str) else ("", "", "")
    if not separator or len(module + name) > _LONGEST_NAME or not (_is_dotted(module) and _is_dotted(name)):
        what = f"compute must be module:name without a path, as in resnet50:infer, not {reference!r}"
        raise SidecarError(f"{sidecar}: {what}")
    beside = sidecar.parent / f"{module}.py"
    installed = _is_installed(module, sidecar.parent)
    if not (installed or ("." not in module and beside.is_file())):
        what = f"there is no installed module {module} and no file {beside}; install the one or write the other"
        raise SidecarError(f"{sidecar}: compute = {reference!r}: {what}")
    try:
        function = attrgetter(name)(_imported(sidecar, module, None if installed else beside))
    except Exception as error:  # a module may raise anything when it is imported
        is_hidden = installed and beside.is_file()
        hint = f"; the installed {module} comes before {beside}: give that file another name" if is_hidden else ""
        what = f"{type(error).__name__}: {error}{hint}"
        raise SidecarError(f"{sidecar}: compute = {reference!r}: {what}") from error
    if not callable(function):
        raise SidecarError(f"{sidecar}: compute = {reference!r} is not callable; name a function")
    return function  # type: ignore[no-any-return]


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _is_installed(module: str, folder: Path) -> bool:
    """Return whether *module*, or its package, is found outside *folder*, the script's folder and the current folder.
    Nothing is imported.
    """
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return True
    here = {folder.resolve(), Path.cwd(), Path(sys.argv[0] if sys.argv else "").resolve().parent}
    path = [each for each in sys.path if Path(each).resolve() not in here]
    return any(finder.find_spec(top, path) is not None for finder in sys.meta_path)


_loading = threading.RLock()  # threads load models at the same time; a module may load others


def _imported(sidecar: Path, module: str, beside: Path | None) -> Any:
    """*module*, from the file *beside* the sidecar or, without one, an installed one; what it brings in is noted."""
    with _loading:
        before = set(sys.modules)
        imported = importlib.import_module(module) if beside is None else _load(beside)
        new = [sys.modules[name] for name in list(sys.modules) if name not in before]
        _note(sidecar, imported, new)
    return imported


def _note(sidecar: Path, imported: Any, new: Sequence[Any]) -> None:
    """Remember the files that *sidecar* has brought in. They are those of the *imported* module, and of the *new* ones
    those beside it one by one, and those that are installed by package.
    """
    folder, packages = sidecar.parent.resolve(), dict[str, int]()
    file = getattr(imported, "__file__", None)
    files = [_shown(file) if file else f"the module {imported.__name__}, which has no file"]
    for module in new:
        file = getattr(module, "__file__", None)
        if module is imported or not file:
            continue
        if Path(file).resolve().is_relative_to(folder):
            files.append(_shown(file))
        else:
            package = module.__name__.partition(".")[0]
            packages[package] = packages.get(package, 0) + 1
    lines = [f"{_shown(sidecar)} runs {file}" for file in files]
    lines += [
        f"{_shown(sidecar)} runs {count} file{'s' if count > 1 else ''} of the installed {package}"
        for package, count in packages.items()
    ]
    brought_in.update(dict.fromkeys(lines))


def _shown(file: str | Path) -> str:
    """*file* relative to the working folder, if it is in it."""
    path, here = Path(os.path.abspath(file)), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _load(file: Path) -> Any:
    """The module in *file*, under a name of its own: two models may each have a model.py."""
    file = file.resolve()
    name = f"{file.stem}_{crc32(bytes(file.parent)):08x}"
    known = sys.modules.get(name)
    return _import(name, file) if known is None else known


def _import(name: str, file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, f"{file} ends in .py"
    assert spec.loader is not None, f"{file} ends in .py"
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.append(str(file.parent))  # for its own imports; last, behind the installed modules
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(file.parent))
    return module
