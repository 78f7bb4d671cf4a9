"""A graph: an ONNX model whose inputs have given shapes, and what it takes to compute it.

The vendor's converter makes models that compute in float16 unless it is told otherwise; here they compute in the types
of the file, mostly float32.
"""

import threading
from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from acl_py.compat.acl.standins.graphs import packages, products
from acl_py.compat.acl.standins.graphs.packages import GraphError
from acl_py.compat.acl.standins.graphs.protos import (
    constants,
    dtype_name,
    forget_shapes,
    inputs_of,
    set_dims,
    shapes_in,
    skeleton,
)
from acl_py.compat.acl.standins.graphs.sessions import session
from acl_py.compat.acl.standins.models import Amounts, Shape, Tensor, check_precision, nbytes_of
from device_model.library.products import BYTES

_MOST_BYTES = 2**31 - 1  # of a message of protobuf
# Operators whose results have a shape that depends on values.
_BY_VALUE = {"NonZero", "NonMaxSuppression", "Unique", "Compress", "Loop", "Scan", "If", "StringSplit"}


class Graph:
    """An ONNX model whose *inputs* have the given shapes, computed in *precision* on a card.

    Raises:
        GraphError: It cannot be used; if onnxruntime lacks operators, the message lists all of them with their nodes.
    """

    def __init__(self, model: Any, inputs: Sequence[Tensor], precision: str) -> None:
        check_precision(precision)
        if model.functions:
            model = packages.onnx("inliner").inline_local_functions(model)
        self.inputs = tuple(inputs)
        self._precision = precision
        self._names = [each.name for each in self.inputs]
        self._is_doubtful = _differ(inputs_of(model), self.inputs)
        forget_shapes(model, {each.name: each.shown for each in self.inputs})
        if model.ByteSize() > _MOST_BYTES:
            raise GraphError("it has more than 2 GB with its weights, which onnxruntime takes from a file only")
        self._outputs = [(each.name, dtype_name(each, "output")) for each in model.graph.output]
        self._skeleton = skeleton(model)
        self.content: bytes = model.SerializeToString()
        self.weight_bytes = sum(map(self._constant_bytes, constants(self._skeleton.graph)))
        self._known: dict[tuple[Shape, ...], Amounts] = {}
        self._lock = threading.Lock()  # of the shapes in the skeleton
        self._session = session(self.content, model)

    def compute(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the outputs for these inputs."""
        return tuple(self._session.run(None, dict(zip(self._names, arrays, strict=True))))

    @cached_property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs; a dim that depends on the shapes of the inputs, or on their values, is -1."""
        shapes = [each.shown for each in self.inputs]
        found: list[Shape | None] = [*self.at(shapes).outputs] if not self._is_free(shapes) else self._loose(shapes)
        if None in found:
            ones = self.at([tuple(max(dim, 1) for dim in shape) for shape in shapes]).outputs  # they have the ranks
            found = [(-1,) * len(one) if shape is None else shape for shape, one in zip(found, ones, strict=True)]
        tensors = zip(self._outputs, found, strict=True)
        return tuple(Tensor(name, dtype, shape or ()) for (name, dtype), shape in tensors)

    @staticmethod
    def _is_free(shapes: Sequence[Shape]) -> bool:
        return any(-1 in shape for shape in shapes)

    def _loose(self, shapes: Sequence[Shape]) -> list[Shape | None]:
        """The shapes of the outputs where dims of inputs are not known; None where not even their number is."""
        with self._lock:
            known = self._inferred(shapes)
        return [known.get(name) for name, _ in self._outputs]

    def at(self, shapes: Sequence[Shape]) -> Amounts:
        """Return what an execution takes with inputs of *shapes*, and the shapes of its outputs.

        Raises:
            GraphError: The graph cannot have them.
        """
        key = tuple(map(tuple, shapes))
        with self._lock:
            if key not in self._known:
                self._known[key] = self._counted(key)
            return self._known[key]

    def _counted(self, shapes: tuple[Shape, ...]) -> Amounts:
        known = self._inferred(shapes)
        if self._is_doubtful:  # onnx does not see all contradictions, and onnxruntime says what they are
            known |= self._tried(shapes, [name for name, _ in self._outputs])
        nodes = self._skeleton.graph.node
        missing = [
            name
            for name in {*products.needed(nodes), *(name for name, _ in self._outputs)}
            if -1 in known.get(name, (-1,))
        ]
        if missing:
            known |= self._tried(shapes, sorted(missing))
        by_value = self._by_value
        outputs = tuple(
            tuple(-1 for _ in known[name]) if name in by_value and name in missing else known[name]
            for name, _ in self._outputs
        )
        moved = self.weight_bytes
        moved += sum(nbytes_of(tensor.numpy, shape) for tensor, shape in zip(self.inputs, shapes, strict=True))
        moved += sum(nbytes_of(dtype, known[name]) for name, dtype in self._outputs)
        return Amounts(products.flops(nodes, known), moved, outputs)

    def _inferred(self, shapes: Sequence[Shape]) -> dict[str, Shape]:
        """Return the shapes of all tensors that onnx can tell for inputs of *shapes*."""
        for value in self._skeleton.graph.input:
            if value.name in self._names:
                set_dims(value, shapes[self._names.index(value.name)])
        inference = packages.onnx("shape_inference")
        try:
            model = inference.infer_shapes(self._skeleton, data_prop=True)
        except inference.InferenceError as error:
            raise GraphError(f"it cannot have inputs of {_listed(self._names, shapes)}: {error}") from error
        return dict(shapes_in(model.graph))

    def _tried(self, shapes: Sequence[Shape], names: Sequence[str]) -> dict[str, Shape]:
        """Return the shapes of the tensors *names* where onnx cannot tell them: those of one execution of zeros."""
        model = packages.onnx().load_model_from_string(self.content)
        outputs = {each.name for each in model.graph.output}
        for name in names:
            if name not in outputs:
                model.graph.output.add().name = name
        zeros = {tensor.name: np.zeros(shape, tensor.numpy) for tensor, shape in zip(self.inputs, shapes, strict=True)}
        try:
            results = session(model.SerializeToString(), model).run(list(names), zeros)
        except GraphError:
            raise
        except Exception as error:
            raise GraphError(f"it cannot have inputs of {_listed(self._names, shapes)}: {error}") from error
        return {name: np.shape(result) for name, result in zip(names, results, strict=True)}

    @cached_property
    def _by_value(self) -> set[str]:
        """The names of tensors that come from operators whose shapes depend on values."""
        found = set[str]()
        for node in self._skeleton.graph.node:
            if node.op_type in _BY_VALUE or found.intersection(node.input):
                found.update(node.output)
        return found

    def _constant_bytes(self, constant: Any) -> int:
        """Return the bytes of a constant on a card: floats have the precision that it computes in."""
        dtype = packages.onnx("helper").tensor_dtype_to_np_dtype(constant.data_type)
        size = BYTES[self._precision] if dtype == np.float32 else dtype.itemsize
        return int(prod(constant.dims) * size)


def _listed(names: Sequence[str], shapes: Sequence[Shape]) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in zip(names, shapes, strict=True))


def _differ(own: Sequence[Tensor], given: Sequence[Tensor]) -> bool:
    """Return whether inputs have other dims than the numbers in the file."""
    pairs = [pair for a, b in zip(own, given, strict=True) for pair in zip(a.dims, b.dims, strict=True)]
    return any(dim not in (-1, other) for dim, other in pairs)
