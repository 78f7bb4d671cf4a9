"""Nodes of graphs: what they touch in each launch, and the lives of the memory of a graph.

A node is compared when it is launched; those in the body of a conditional node, when the body runs.
"""

from collections.abc import Sequence

from acl_py.order.actors import Host, Line
from acl_py.order.clocks import Past
from acl_py.order.launches import Launches, Related
from acl_py.order.order import Order
from acl_py.sanitizer.accesses import Accesses
from acl_py.sanitizer.shadow import LifeCall, Use
from device_model.completions import Completion, Nanoseconds
from device_model.core_kernels import CoreKernel
from device_model.graphs.executable import Decision, Run
from device_model.graphs.graph import Node, NodeKind
from device_model.memory import Allocation
from device_model.ops import Op
from device_model.work import HostFunction

_LIVES = {NodeKind.ALLOCATE: LifeCall("MallocAsync"), NodeKind.FREE: LifeCall("FreeAsync")}


class Nodes:
    """Relates launches in *order*. *accesses* take up what nodes use."""

    def __init__(self, order: Order, accesses: Accesses) -> None:
        self._launches = Launches(order)
        self._accesses = accesses
        self._bodies: dict[Completion, tuple[Related[Use], ...]] = {}  # that may still run

    def queue(self, run: Run, made: Sequence[Completion], host: Host, at_ns: Nanoseconds) -> None:
        """Take up a run of nodes, whose operations and bodies are *made*, at *at_ns* of *host*."""
        related = self._launch(run, host, at_ns) if run.decision is None else self._bodies[run.decision][run.number]
        for place, (use, line) in enumerate(related.uses):
            completion, node = made[place], run.plan.entries[place].node
            if place in related.bodies:
                self._bodies[completion] = related.bodies[place]
            elif isinstance(completion, Op):
                self._touch(completion, node, use, line)
            elif isinstance(node.subject, Allocation):
                change = self._accesses.rest if node.kind is NodeKind.FREE else self._accesses.begin
                change(node.subject, use)

    def forget(self, decision: Decision) -> None:
        """Forget the bodies of *decision*, which do not run any more."""
        del self._bodies[decision]

    def _launch(self, run: Run, host: Host, at_ns: Nanoseconds) -> Related[Use]:
        launch = run.launch
        # By the time that a body or a host function runs, the host may have done more.
        later = Past.of({**host.past.clock, host.number: host.count})

        def use(node: Node, line: Line, in_body: bool) -> Use:
            is_late = in_body or isinstance(node.work, HostFunction)
            given, number = (later, -1) if is_late else (host.past, host.number)
            work = _LIVES.get(node.kind) or node.work or LifeCall(node.name)
            stream = node.stream or launch.stream
            return Use(line.number, line.count, line.past, given, number, work, stream, node.site, host.name, at_ns)

        return self._launches.launch(launch, host, use)

    def _touch(self, op: Op, node: Node, use: Use, line: Line) -> None:
        """Compare what *op*, of *node*, touches with what came before, unless the launch before did the same."""
        if isinstance(op.work, CoreKernel):  # each launch has its own, which knows what it touches
            use = use._replace(work=op.work)
        op.stamp = use
        footprint = line.footprints.get(node)
        if footprint is not None and footprint.is_repeated_by(op.work):
            footprint.latest = use
        elif type(op.work) is not HostFunction:  # what it touches shows when it runs
            line.footprints[node] = self._accesses.take(use)
