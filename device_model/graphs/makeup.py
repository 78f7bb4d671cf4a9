"""Makeups: what the nodes of a plan are, by how many; calls about a graph cost the host by that.

A launch sends kernels in a row as one, whatever their number, and each other node by itself (measured: rows of
tests/conformance/data/graph_costs.json).
"""

from collections import Counter
from collections.abc import Iterable
from operator import add
from typing import TYPE_CHECKING, NamedTuple

from device_model.completions import Nanoseconds
from device_model.graphs.graph import CONDITIONAL, Node, NodeKind
from device_model.work import D2D

if TYPE_CHECKING:
    from device_model.profile import Graphs


class Makeup(NamedTuple):
    """What the nodes of a plan and of its bodies are, by how many: this is what calls cost by."""

    kernels: int = 0  # and copies inside the device, which are kernels too
    copies: int = 0  # over the bus, and from host to host
    fills: int = 0
    hosts: int = 0  # host functions
    marks: int = 0  # records, waits, allocations, frees
    ifs: int = 0  # conditional nodes, besides what is in their bodies
    runs: int = 0  # sequences of kernels with nothing else between them
    branches: int = 0  # chains but one; empty nodes make none
    edges: int = 0  # dependencies of a node but its first

    def plus(self, other: "Makeup") -> "Makeup":
        """Return the sums of both."""
        return Makeup(*map(add, self, other))

    @property
    def others(self) -> int:
        """How many nodes are no kernels, not conditional and not empty."""
        return self.copies + self.fills + self.hosts + self.marks

    def instantiate_ns(self, costs: "Graphs") -> Nanoseconds:
        """Return what making an executable takes the host."""
        return (
            costs.instantiate[self.kernels]
            + self.others * costs.instantiate_other
            + self.ifs * costs.instantiate_if
            + self.branches * costs.instantiate_branch
            + self.edges * costs.instantiate_edge
        )

    def upload_ns(self, costs: "Graphs") -> Nanoseconds:
        """Return what sending the nodes to the device takes the host."""
        runs = max(self.runs - 1, 0)
        return (
            costs.upload[self.kernels]
            + self.others * costs.upload_other
            + self.ifs * costs.upload_if
            + runs * costs.upload_run
        )

    def launch_ns(self, costs: "Graphs", *, is_first: bool) -> Nanoseconds:
        """Return what a launch takes the host; the first one sends the kernels, if no upload has."""
        return (
            (costs.launch_first if is_first else costs.launch)[self.kernels]
            + (self.ifs * costs.upload_if if is_first else 0)
            + max(self.runs - 1, 0) * costs.launch_run
            + self.copies * costs.launch_copy
            + self.fills * costs.launch_fill
            + (self.marks + self.ifs) * costs.launch_mark
            + self.hosts * costs.launch_host
        )


_COUNTED = {  # the field of Makeup that counts nodes of a kind
    NodeKind.KERNEL: "kernels",
    NodeKind.COPY: "copies",
    NodeKind.FILL: "fills",
    NodeKind.HOST: "hosts",
    **dict.fromkeys(CONDITIONAL, "ifs"),
}


def makeup_of(nodes: Iterable[tuple[Node, tuple[int, ...], int, list[Makeup]]]) -> Makeup:
    """Return the makeup of *nodes*: each with the places of those before it, its chain, the makeups of its bodies."""
    counts = Counter[str]()
    last: dict[int, str] = {}  # what the last node of each chain is counted as
    inner = Makeup()
    for node, before, chain, bodies in nodes:
        if node.kind is NodeKind.EMPTY:
            continue
        field = "kernels" if node.work is not None and node.work.label is D2D else _COUNTED.get(node.kind, "marks")
        counts[field] += 1
        counts["edges"] += max(len(before) - 1, 0)
        counts["runs"] += field == "kernels" != last.get(chain)
        last[chain] = field
        for body in bodies:
            inner = inner.plus(body._replace(runs=0))  # a conditional node costs as much as a run
    counts["branches"] = max(len(last) - 1, 0)
    return Makeup(**counts).plus(inner)
