"""Trials of captures and graphs: what the calls about them cost by the number and the kind of the nodes."""

from collections.abc import Iterator, Sequence

from acl_py.calibrate.trials import SYNC_DEVICE, Reading, Step, Trial, cost, launch, trial, with_memory
from device_model.profile import DeviceProfile

_NODES = 16  # of one kind in a graph
_MOST_NODES = 500  # of a graph: larger ones keep their ratio to this


def of_graphs(profile: DeviceProfile) -> Iterator[Trial]:
    """Yield the trials of graphs: of kernels by their number, and of nodes of other kinds."""
    for nodes in (size for size, _ in profile.graphs.instantiate.points if size <= _MOST_NODES):
        yield _graph_of_kernels(profile, nodes)
    for nodes in (size for size, _ in profile.graphs.upload.points if size <= _MOST_NODES):
        steps = [*_captured([launch(1)] * nodes), {"op": "upload", "exec": "x", "stream": "s"}, SYNC_DEVICE]
        yield trial(
            f"uploads of {nodes} kernels", [*steps, *_ENDS], {f"graphs.upload[{nodes}]": cost(len(steps) - 2)},
        )  # fmt: skip
    record: Step = {"op": "record", "event": "e", "stream": "s"}
    steps = [*_captured([launch(1), record] * 3), *_ENDS]
    yield trial("records in a capture", steps, {"graphs.mark": cost(2, 4, 6)}, events={"e": {"timing": False}})
    fill = {"op": "memset_async", "dst": "d", "bytes": 4096, "stream": "s"}
    copy = {"op": "memcpy_async", "dst": "d", "src": "p", "bytes": 4096, "stream": "s"}
    function = {"op": "host_func", "us": 0, "stream": "s"}
    for name, node in (("copy", copy), ("fill", fill), ("host", function)):
        steps = [*_captured([node] * _NODES), *[_LAUNCH, SYNC_DEVICE] * 3]
        tells = {f"graphs.launch_{name}": _per_node(_NODES + 5, _NODES + 7)}
        if name == "fill":
            tells |= {"graphs.instantiate_other": _per_node(_NODES + 2)}
        yield with_memory(f"graphs of {_NODES} nodes: {name}", [*steps, *_ENDS], tells)
    steps = [*_captured([launch(1), fill] * _NODES), *[_LAUNCH, SYNC_DEVICE] * 3]
    yield with_memory(
        "graphs of kernels and fills in turn",
        [*steps, *_ENDS],
        {"graphs.launch_run": cost(2 * _NODES + 5, 2 * _NODES + 7)},
    )


_LAUNCH: Step = {"op": "graph_launch", "exec": "x", "stream": "s"}
_ENDS: list[Step] = [{"op": "exec_destroy", "exec": "x"}, {"op": "graph_destroy", "graph": "g"}]


def _per_node(*steps: int) -> Reading:
    return lambda run: cost(*steps)(run) / _NODES


def _captured(steps: Sequence[Step]) -> list[Step]:
    """Return the steps that make an executable graph of *steps*."""
    return [
        {"op": "begin_capture", "stream": "s", "mode": 2},
        *steps,
        {"op": "end_capture", "stream": "s", "graph": "g"},
        {"op": "instantiate", "graph": "g", "exec": "x"},
    ]


def _graph_of_kernels(profile: DeviceProfile, nodes: int) -> Trial:
    steps = [
        *_captured([launch(1)] * nodes),
        *[_LAUNCH, SYNC_DEVICE] * 2,
        {"op": "exec_update", "exec": "x", "graph": "g"},
    ]
    last = nodes + 3
    tells: dict[str, Reading] = {"graphs.captured": cost(*range(2, nodes + 1))} if nodes == 10 else {}
    if nodes == 10:
        tells["graphs.begin"] = cost(0)
    for name, step in (
        ("end", nodes + 1), ("instantiate", nodes + 2), ("launch_first", last), ("launch", last + 2),
        ("update", last + 4),
    ):  # fmt: skip
        if any(size == nodes for size, _ in getattr(profile.graphs, name).points):
            tells[f"graphs.{name}[{nodes}]"] = cost(step)
    return trial(f"graphs of {nodes} kernels", [*steps, *_ENDS], tells)
