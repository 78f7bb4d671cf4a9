"""Graphs on a card: the model keeps their structure and checks every call, and the driver gets them when they are made
ready for launches.

A node becomes one of the driver in the same way as work of a stream becomes a node in a capture. A stream of ours
captures into the driver's graph, behind the nodes before it, and the call that queues such work is made there. So each
kind of work has one call (work.py), inside a graph and outside. The driver captures no stream of the program, so it
refuses no call beside a capture; the model does.

* A launch is one operation of its stream.
* Memory that a graph allocates is there from the call of MallocAsync() on, because the next node needs its address.
* The driver has no conditional nodes here: only code that is linked with the vendor's device runtime sets a condition.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from acl_py.calls.fields import TAKING
from acl_py.card.events import Reached
from acl_py.card.streams import CardStream
from device_model.completions import NOTHING, Completion, Nanoseconds, Then
from device_model.graphs.executable import Executable
from device_model.graphs.graph import Graph, Node, NodeKind
from device_model.graphs.plan import Entry, Plan
from device_model.ops import Op
from device_model.streams import Stream
from device_model.work import Label, Lane, Work

if TYPE_CHECKING:
    from acl_py.card.cuda.contexts import CudaContext, CudaDevice
    from acl_py.card.cuda.host_functions import CudaFunctions

_RELAXED = 2  # the mode of a capture that forbids no call
_EXTERNAL = 1  # a flag of records and waits that become nodes
_NON_BLOCKING = 1  # a flag of cuStreamCreate
_USE_NODE_PRIORITY = 8  # a flag of cuGraphInstantiate
_CANNOT_TAKE_OVER = 910


class GraphLaunch(Work):
    """Launches *executable*."""

    __slots__ = ("executable", "label")
    nbytes = 0

    def __init__(self, executable: "CardExecutable") -> None:
        self.executable = executable
        self.label = Label("graph", Lane.COMPUTE, executable.name)


class Launched:
    """A launch of *executable* in *stream*, as the sanitizer relates it; it sets what stands for it, the *stamp*."""

    decision = None  # there are no conditional nodes

    def __init__(self, executable: "CardExecutable", stream: CardStream) -> None:
        self.executable = executable
        self.stream = stream
        self.plan = executable.plan
        self.launch = self
        self.stamp: object = None


class CardExecutable(Executable):
    """An executable of the driver, with its *handle*."""

    __slots__ = ("_before", "_functions", "_work", "handle", "may_last", "ops")
    device: "CudaDevice"

    def __init__(self, graph: Graph, device: "CudaDevice", made: object, *, keeps_priorities: bool) -> None:
        self.handle: Any = None
        self.ops: list[Op] = []  # of its nodes: a failure of one is one of the stream of the last launch
        self.may_last = False  # a launch may last without end
        self._functions: list[int] = []  # the numbers of its host functions
        self._before: Completion | None = None  # the last launch of the executable whose place this handle takes
        super().__init__(graph, device, made, keeps_priorities=keeps_priorities)
        self._work = GraphLaunch(self)
        device.primary.executables[self] = None

    def _set_plan(self, plan: Plan) -> None:
        """Let the driver do what *plan* says, too: by a change of its executable, or else by a new one."""
        before = plan if self.handle is None else self._whole
        super()._set_plan(plan)
        builder, gone = _Builder(self), self._functions
        try:
            self._take_over(builder.build(self._plan))
        except BaseException:
            self._functions_of_card.forget(builder.functions)
            super()._set_plan(before)
            raise
        self.ops, self._functions, self.may_last = builder.ops, builder.functions, builder.may_last
        self._forget(gone)

    def _take_over(self, graph: Any) -> None:
        """Do what *graph* of the driver does, which is destroyed then."""
        driver, cu = self.device.driver, self.device.driver.cu
        try:
            code = _CANNOT_TAKE_OVER if self.handle is None else int(cu.cuGraphExecUpdate(self.handle, graph)[0])
            if code == _CANNOT_TAKE_OVER:
                flags = _USE_NODE_PRIORITY if self.keeps_priorities else 0
                self._replace(driver(cu.cuGraphInstantiate, graph, flags))
            elif code:
                raise driver.error(code, "cuGraphExecUpdate")
        finally:
            driver(cu.cuGraphDestroy, graph)

    def _replace(self, handle: Any) -> None:
        """Launch *handle* from now on, the first time behind the launches so far."""
        if self.handle is not None:
            self.device.driver(self.device.driver.cu.cuGraphExecDestroy, self.handle)
            self._before = self.last
        self.handle = handle

    def _forget(self, functions: list[int]) -> None:
        """Forget host functions when no launch so far can call them any more."""
        if self.last.done:
            self._functions_of_card.forget(functions)
        elif functions:
            self.last.add_waiter(Then(lambda _: self._functions_of_card.forget(functions)))

    @property
    def _functions_of_card(self) -> "CudaFunctions":
        return self.device.primary.works.functions

    def launch(
        self,
        stream: Stream,
        ready_ns: Nanoseconds,  # noqa: ARG002 - the card decides
        site: object,
        decided: Mapping[Node, int] | None = None,  # noqa: ARG002 - there are no conditional nodes
    ) -> Completion:
        """Queue a launch in *stream*."""
        assert isinstance(stream, CardStream), f"{stream!r} is not of a card"
        self._wait_for_before(stream)
        if self.ops and self.ops[0].stream is not stream:  # their failure is one of the last launch's stream
            for op in self.ops:
                op.stream = stream
        self.last = op = Op(self._work, Lane.COMPUTE, 0, site)
        self.device.runtime.submit(stream, op, 0, 0)
        self._tell_sanitizer(op, stream)
        for node in self.plan.records:
            event: Any = node.subject
            Reached(event, stream)
        return op

    def _tell_sanitizer(self, op: Op, stream: CardStream) -> None:
        sanitizer = self.device.runtime.sanitizer
        if sanitizer is not None:
            ops = iter(self.ops)
            made = [NOTHING if entry.node.work is None else next(ops) for entry in self.plan.entries]
            sanitizer.launched(op, Launched(self, stream), made)
            for each in self.ops:
                self.device.runtime.note_unseen(each.work)

    def _wait_for_before(self, stream: CardStream) -> None:
        before, self._before = self._before, None
        if before is not None and not before.done:
            earlier: Any = before.stream
            stream.wait_for(earlier.last_mark(), before)

    def upload(self, stream: Stream) -> None:
        """Send the nodes to the card."""
        super().upload(stream)
        assert isinstance(stream, CardStream), f"{stream!r} is not of a card"
        self.device.driver(self.device.driver.cu.cuGraphUpload, self.handle, stream.handle)

    def destroy(self, site: object) -> None:
        """Destroy it; launches that are queued complete."""
        super().destroy(site)
        del self.device.primary.executables[self]
        self.device.driver(self.device.driver.cu.cuGraphExecDestroy, self.handle)
        self._forget(self._functions)


class _Builder:
    """Makes the graph of the driver for one executable."""

    def __init__(self, executable: CardExecutable) -> None:
        self._executable = executable
        self._device = executable.device
        self._driver, self._cu = executable.device.driver, executable.device.driver.cu
        self.ops: list[Op] = []
        self.may_last = False
        self.functions: list[int] = []
        self._made: list[tuple[Any, ...]] = []  # by place: the nodes that stand for an entry

    def build(self, plan: Plan) -> Any:
        """Return a graph of the driver with the nodes of *plan*."""
        graph = self._driver(self._cu.cuGraphCreate, 0)
        try:
            with self._device.primary.works.functions.kept(self.functions):
                for entry in plan.entries:
                    self._made.append(self._add(graph, entry))
        except BaseException:
            self._cu.cuGraphDestroy(graph)
            raise
        return graph

    def _add(self, graph: Any, entry: Entry) -> tuple[Any, ...]:
        """Add the nodes of *entry* to *graph*, and return the last ones."""
        before = tuple(node for place in entry.before for node in self._made[place])
        stream, driver, cu = self._device.primary.takers.of(self._priority(entry.node)), self._driver, self._cu
        if entry.node.work is None and entry.node.kind not in (NodeKind.RECORD, NodeKind.WAIT):
            return (driver(cu.cuGraphAddEmptyNode, graph, before, len(before)),)
        mode = cu.CUstreamCaptureMode(_RELAXED)
        edges = [cu.CUgraphEdgeData()] * len(before)  # plain ones; versions of cuda.bindings before 13.1 want them all
        driver(cu.cuStreamBeginCaptureToGraph, stream.handle, graph, before, edges, len(before), mode)
        try:
            self._call(stream, entry.node)
            return tuple(driver(cu.cuStreamGetCaptureInfo, stream.handle)[3])
        finally:
            cu.cuStreamEndCapture(stream.handle)

    def _priority(self, node: Node) -> int:
        return node.stream.priority if self._executable.keeps_priorities and node.stream is not None else 0

    def _call(self, stream: CardStream, node: Node) -> None:
        """Make the call in *stream* that becomes *node*."""
        if node.work is None:
            event: Any = node.subject
            event.fix()
            driver, cu = self._driver, self._cu
            if node.kind is NodeKind.RECORD:
                driver(cu.cuEventRecordWithFlags, event.handle, stream.handle, _EXTERNAL)
            else:
                driver(cu.cuStreamWaitEvent, stream.handle, event.handle, _EXTERNAL)
                self.may_last = True
            return
        op = Op(node.work, node.work.label.lane, node.work.nbytes, node.site)
        op.stream = stream
        maker = self._device.primary.works.of(node.work)
        self.ops.append(op)
        self.may_last |= maker.may_last
        maker.call(stream, op)


class Takers:
    """The streams that capture into graphs of the driver, one for each priority; they never run anything."""

    def __init__(self, context: "CudaContext") -> None:
        self._context = context
        self._streams: dict[int, CardStream] = {}

    def of(self, priority: int) -> CardStream:
        """Return that of *priority*."""
        if priority not in self._streams:
            context, cu = self._context, self._context.driver.cu
            handle = context.driver(cu.cuStreamCreateWithPriority, _NON_BLOCKING, priority)
            queues = context.device.queues(-1)
            self._streams[priority] = CardStream(context, 0, TAKING, queues, None, priority, None, handle)
        return self._streams[priority]

    def close(self) -> None:
        """Destroy them."""
        for stream in self._streams.values():
            self._context.driver.cu.cuStreamDestroy(stream.handle)
