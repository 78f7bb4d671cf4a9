"""What calls about graphs cost by the number, kind and edges of nodes: rows of another H200, and the model's sums.

data/graph_costs.json has the medians of three runs of tests/bench/cuda/graphs.cu. Its host is another one than the
profile's, so the curves of kernels are its own, from every second row of chains of kernels. What the profile says of
other kinds of nodes, of runs, branches and edges is the same.
"""

from dataclasses import replace

from device_model.curves import Curve
from device_model.graphs.makeup import Makeup
from device_model.profile import Graphs, load
from tests.conformance.criteria import measured

CALLS = ("instantiate", "upload", "launch_first", "launch", "update")
WIDE = 8  # chains of a graph that is "wide"
FIELDS = {"kernel": "kernels", "d2d": "kernels", "memset": "fills", "host": "hosts", "record": "marks"}


def rows():
    """The rows about graphs: kind and shape of the nodes, how many, and what each call took in microseconds."""
    return [row for row in measured("graph_costs") if "shape" in row]


def chains():
    """The chains of kernels, by their number of nodes."""
    return [row for row in rows() if (row["kind"], row["shape"]) == ("kernel", "chain")]


def costs() -> Graphs:
    """The profile's costs, with the curves of kernels of this host: those of the rows at even positions."""
    fitted = [*chains()[::2], chains()[-1]]
    curves = {
        call: Curve(sorted({(row["nodes"], round(1000 * row[call])) for row in fitted if call in row}))
        for call in CALLS
    }
    return replace(load("h200").graphs, instantiate_other=400, **curves)


def makeup(row) -> Makeup:
    """What the nodes of *row* are."""
    nodes, kind, shape = row["nodes"], row["kind"], row["shape"]
    branches = min(nodes, WIDE) - 1 if shape == "wide" else 0
    edges = max(nodes - 2, 0) if shape == "twice" else 0
    if kind == "mixed":
        kernels = (nodes + 1) // 2
        return Makeup(kernels=kernels, copies=nodes - kernels, runs=kernels)
    if kind == "empty":
        return Makeup()
    if kind == "if":  # each with a kernel as its body
        return Makeup(kernels=nodes, ifs=nodes)
    field = FIELDS.get(kind, "copies")
    return Makeup(branches=branches, edges=edges, runs=branches + 1 if field == "kernels" else 0)._replace(
        **{field: nodes}
    )


def predicted(row, call, graphs) -> float:
    """What *call* takes for the graph of *row*, in microseconds."""
    match call:
        case "instantiate":
            ns = makeup(row).instantiate_ns(graphs)
        case "upload":
            ns = makeup(row).upload_ns(graphs)
        case "update":
            ns = graphs.update[row["nodes"]]
        case _:
            ns = makeup(row).launch_ns(graphs, is_first=call == "launch_first")
    return ns / 1000


def errors(chosen, call, graphs):
    """By how many percent the model is off, for each of the *chosen* rows."""
    return [100 * (predicted(row, call, graphs) / row[call] - 1) for row in chosen]
