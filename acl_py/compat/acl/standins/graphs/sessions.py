"""Sessions of onnxruntime: each computes one ONNX model in one thread, so two runs have the same results."""

from collections.abc import Iterator
from typing import Any

from acl_py.compat.acl.standins.graphs import packages
from acl_py.compat.acl.standins.graphs.packages import GraphError
from acl_py.late_imports import import_late

_FATAL = 4  # the only messages that are printed: the others are in the errors that onnxruntime raises


def session(content: bytes, model: Any) -> Any:
    """Return a session that computes *model*, which is *content* as bytes.

    Raises:
        GraphError: onnxruntime cannot compute it. If it lacks operators, all are listed with their nodes.
    """
    runtime = packages.onnxruntime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL
    try:
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        lacking = _lacking(model)
        what = f"onnxruntime {runtime.__version__} lacks {lacking}" if lacking else f"onnxruntime refuses it: {error}"
        raise GraphError(what) from error


def _lacking(model: Any) -> str:
    """Return the operators of *model* that onnxruntime lacks, each with its nodes; "" if it has all."""
    kernels = import_late("onnxruntime.capi.onnxruntime_pybind11_state").get_all_opkernel_def()
    has = {(each.domain, each.op_name) for each in kernels} | {("", "Constant")}
    has |= {
        (each.domain, each.name)
        for each in packages.onnx("defs").get_all_schemas_with_history()
        if each.has_function or each.has_context_dependent_function
    }
    lacks = dict[str, list[str]]()
    for place, node in enumerate(_nodes(model.graph)):
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (domain, node.op_type) not in has:
            name = f"{domain}.{node.op_type}" if domain else node.op_type
            lacks.setdefault(name, []).append(node.name or f"node {place}")
    return "; ".join(f"the operator {name} ({', '.join(nodes)})" for name, nodes in lacks.items())


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)
