"""ONNX models as protobuf messages: how they are read, their inputs, and the shapes that are written in them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from acl_py.compat.acl.face.dtypes import DATA_TYPES
from acl_py.compat.acl.standins.graphs import packages
from acl_py.compat.acl.standins.graphs.packages import GraphError
from acl_py.compat.acl.standins.models import Shape, Tensor
from device_model.dtypes import as_dtype

_LARGE = 4096  # elements of a constant that is no shape, so shapes do not depend on it


def read(path: Path) -> Any:
    """Return the ONNX model in the file *path*, with the data that lie in other files beside it.

    Raises:
        GraphError: There is no such file, or it is no ONNX model.
    """
    onnx = packages.onnx()
    try:
        return _checked(onnx.load(str(path)))
    except OSError as error:
        raise GraphError(f"{path}: {error.strerror or error}") from error
    except Exception as error:
        raise _broken(path, error) from error


def parse(content: bytes, name: str) -> Any:
    """Return the ONNX model that *content* is.

    Raises:
        GraphError: It is none.
    """
    onnx = packages.onnx()
    try:
        return _checked(onnx.load_model_from_string(content))
    except Exception as error:
        raise _broken(name, error) from error


def _checked(model: Any) -> Any:
    if not model.graph.node or not model.opset_import:
        raise GraphError("it has no nodes" if model.opset_import else "it says no version of its operators")
    return model


def _broken(name: object, error: Exception) -> GraphError:
    return GraphError(f"{name} is no ONNX model, or is cut off: {error}")


def inputs_of(model: Any) -> tuple[Tensor, ...]:
    """Return the inputs of an ONNX model; a dim without a number is -1."""
    initial = {each.name for each in model.graph.initializer}
    return tuple(_tensor(each, "input") for each in model.graph.input if each.name not in initial)


def outputs_of(model: Any) -> tuple[Tensor, ...]:
    """Return the outputs of an ONNX model as the file describes them."""
    return tuple(_tensor(each, "output") for each in model.graph.output)


def _tensor(value: Any, role: str) -> Tensor:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise GraphError(f"{role} {value.name} is no tensor but {kind or 'has no type'}: only tensors can be passed")
    name = dtype_name(value, role)
    dims = _dims(value)
    return Tensor(value.name, name, dims, "NCHW" if len(dims) == 4 else "ND")


def dtype_name(value: Any, role: str) -> str:
    """Return the NumPy name of the elements of an input or output; raise GraphError if they cannot be passed."""
    number = value.type.tensor_type.elem_type
    helper = packages.onnx("helper")
    try:
        name = str(helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, ValueError, TypeError):
        name = ""
    if name not in DATA_TYPES or as_dtype(name).kind == "V":
        shown = packages.onnx().TensorProto.DataType.Name(number)
        raise GraphError(f"{role} {value.name} has elements of {shown}, which cannot be passed to onnxruntime here")
    return name


def _dims(value: Any) -> tuple[int, ...]:
    dims = value.type.tensor_type.shape.dim
    return tuple(dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else -1 for dim in dims)


def set_dims(value: Any, shape: Sequence[int]) -> None:
    """Give an input the dims *shape*; -1 is one that is not known."""
    dims = value.type.tensor_type.shape
    dims.ClearField("dim")
    for dim in shape:
        added = dims.dim.add()
        if dim >= 0:
            added.dim_value = dim


def tensors_with(model: Any, given: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    """Return the inputs of an ONNX model, with what is *given* about some of them by name.

    Raises:
        GraphError: It has no input of such a name, or another type or number of dims.
    """
    tensors = inputs_of(model)
    names = [each.name for each in tensors]
    for name, tensor in given.items():
        if name not in names:
            raise GraphError(f"it has no input {name!r}; its inputs are {', '.join(names) or 'none'}")
        own = tensors[names.index(name)]
        if tensor.dtype != own.dtype or len(tensor.dims) != len(own.dims):
            what = f"input {name} is {own.dtype} with {len(own.dims)} dims, {list(own.dims)}"
            raise GraphError(f"{what}, and not {tensor.dtype} with {list(tensor.dims)}")
    return tuple(given.get(each.name, each) for each in tensors)


def with_format(tensors: Sequence[Tensor], layout: str) -> tuple[Tensor, ...]:
    """Return *tensors* with *layout* as the format of those with four dims."""
    return tuple(replace(each, format=layout) if len(each.dims) == 4 else each for each in tensors)


def forget_shapes(model: Any, inputs: Mapping[str, Shape]) -> None:
    """Give the *inputs* their shapes, and forget all others: they were those of the shapes before."""
    graph = model.graph
    graph.ClearField("value_info")
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    for value in graph.input:
        if value.name in inputs:
            set_dims(value, inputs[value.name])


def skeleton(model: Any) -> Any:
    """Return a copy of *model* without the data of large constants, on which no shape depends."""
    copy = type(model)()
    copy.CopyFrom(model)
    for constant in constants(copy.graph):
        if prod(constant.dims) > _LARGE:
            for name in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                constant.ClearField(name)
    return copy


def constants(graph: Any) -> Iterator[Any]:
    """Yield the constants of *graph* and of the bodies in it: initial values, and those of nodes."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("g"):
                yield from constants(attribute.g)


def shapes_in(graph: Any) -> Iterator[tuple[str, Shape]]:
    """Yield the names of tensors with the shapes that *graph* says; -1 is a dim that it does not say."""
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.type.tensor_type.HasField("shape"):
            yield value.name, _known_dims(value)
    for constant in graph.initializer:
        yield constant.name, tuple(constant.dims)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t") and node.op_type == "Constant":
                yield node.output[0], tuple(attribute.t.dims)
            if attribute.HasField("g"):
                yield from shapes_in(attribute.g)


def _known_dims(value: Any) -> Shape:
    dims = value.type.tensor_type.shape.dim
    return tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in dims)
