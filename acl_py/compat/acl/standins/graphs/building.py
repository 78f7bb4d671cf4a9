"""Models that ONNX graphs compute: in files, beside sidecars, and in the files that `acl-py atc` writes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from acl_py.compat.acl.aipp import files as aipp_files
from acl_py.compat.acl.standins.graph_files import Description
from acl_py.compat.acl.standins.graphs import protos
from acl_py.compat.acl.standins.graphs.graph import Graph
from acl_py.compat.acl.standins.models import Gears, Model, Tensor, gears

_KEPT = 4  # graphs, with their weights: scripts ask for the size of a model and its description before they load it


def model_of(name: str, graph: Graph, sizes: Gears | None, precision: str) -> Model:
    """Return the model *name* that *graph* computes.

    Raises:
        ValueError: The gears do not fit the graph.
    """
    model = Model(
        name,
        graph.inputs,
        graph.outputs,
        graph.compute,
        gears=sizes,
        weight_size=graph.weight_bytes,
        precision=precision,
        counted=graph.at,
    )
    if sizes is None:
        return model
    shapes = [model.output_shapes(gear) for gear in sizes.values]
    dims = [[_common(values) for values in zip(*each, strict=True)] for each in zip(*shapes, strict=True)]
    outputs = (replace(tensor, dims=tuple(each)) for tensor, each in zip(model.outputs, dims, strict=True))
    return replace(model, outputs=tuple(outputs))


def _common(values: Sequence[int]) -> int:
    """Return the dim that all gears have, or -1."""
    return values[0] if len(set(values)) == 1 else -1


def graph_in_file(path: Path, given: Mapping[str, Tensor], precision: str) -> Graph:
    """Return the graph of the ONNX file *path*, with what is *given* about its inputs.

    Raises:
        GraphError: It cannot be used.
    """
    try:
        state = os.stat(path)
    except OSError:
        return _read(path, tuple(given.values()), precision)  # which says why
    return _kept_file(path.resolve(), state.st_mtime_ns, state.st_size, tuple(given.values()), precision)


@lru_cache(_KEPT)
def _kept_file(path: Path, _time_ns: int, _size: int, given: tuple[Tensor, ...], precision: str) -> Graph:
    return _read(path, given, precision)


def _read(path: Path, given: tuple[Tensor, ...], precision: str) -> Graph:
    model = protos.read(path)
    return Graph(model, protos.tensors_with(model, {each.name: each for each in given}), precision)


def model_in(description: Description, onnx: bytes, name: str) -> Model:
    """Return the model *name* of a file that `acl-py atc` wrote.

    Raises:
        ValueError: It cannot be used.
    """
    graph = graph_of(onnx, name, description.inputs, description.precision)
    sizes = gears(description.dynamic_batch, description.dynamic_hw, description.dynamic_dims)
    model = model_of(name, graph, sizes, description.precision)
    return model.with_aipp(aipp_files.parse(description.aipp, "the AIPP file")) if description.aipp else model


def graph_of(content: bytes, name: str, inputs: Sequence[Tensor], precision: str) -> Graph:
    """Return the graph of the ONNX file that *content* is, whose inputs are *inputs*.

    Raises:
        GraphError: It cannot be used.
    """
    return _kept.get(content, name, tuple(inputs), precision)


class _Contents:
    """The graphs that were last asked for, by what their files have in them."""

    def __init__(self) -> None:
        self._graphs: dict[tuple[object, ...], Graph] = {}

    def get(self, content: bytes, name: str, inputs: tuple[Tensor, ...], precision: str) -> Graph:
        key = blake2b(content).digest(), inputs, precision
        graph = self._graphs.pop(key, None)
        if graph is None:
            model = protos.parse(content, name)
            graph = Graph(model, protos.tensors_with(model, {each.name: each for each in inputs}), precision)
        self._graphs[key] = graph
        while len(self._graphs) > _KEPT:
            del self._graphs[next(iter(self._graphs))]
        return graph


_kept = _Contents()
