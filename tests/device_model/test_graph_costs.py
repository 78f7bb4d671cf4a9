"""What the nodes of a plan are, by how many: what calls about its graph cost by."""

from device_model.graphs.dependencies import chains
from device_model.graphs.graph import Graph, NodeKind
from device_model.graphs.makeup import Makeup, makeup_of
from device_model.scheduler import Scheduler

BODY = Makeup(kernels=2, fills=1, runs=2)  # of every IF node here


def made(*nodes):
    """The makeup of a graph of *nodes*: each a kind, and the places of those before it."""
    graph = Graph("graph", None, Scheduler())
    befores = [tuple(before) for _, *before in nodes]
    for (kind, *_), before in zip(nodes, befores, strict=True):
        graph.add(kind, [graph.nodes[place] for place in before], None)
    bodies = [[BODY] if kind is NodeKind.IF else [] for kind, *_ in nodes]
    return makeup_of(zip(graph.nodes, befores, chains(befores), bodies, strict=True))


K, C, E = NodeKind.KERNEL, NodeKind.COPY, NodeKind.EMPTY


def test_kernels_in_a_row_are_one_run():
    assert made((K,), (K, 0), (K, 1)) == Makeup(kernels=3, runs=1)


def test_a_copy_between_kernels_ends_a_run_and_an_empty_node_does_not():
    assert made((K,), (E, 0), (K, 1), (C, 2), (K, 3)) == Makeup(kernels=3, copies=1, runs=2)


def test_kernels_side_by_side_are_runs_and_branches():
    assert made((K,), (K, 0), (K, 0), (K, 1, 2)) == Makeup(kernels=4, runs=2, branches=1, edges=1)


def test_what_is_in_a_body_counts_except_for_its_runs():
    assert made((NodeKind.IF,)) == Makeup(kernels=2, fills=1, ifs=1)


def test_a_record_is_a_mark():
    assert made((NodeKind.RECORD,), (NodeKind.HOST, 0)) == Makeup(marks=1, hosts=1)
