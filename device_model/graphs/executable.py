"""Executables: graphs made ready for a device, and their launches.

A launch takes its turn in a stream: it begins when the work before it is over, and the work behind it waits until all
of its nodes are. Launches of one executable run one after the other, in whatever streams (measured:
graph-same-exec-two-streams). A launch takes one place in the hardware queue of its stream until it begins (measured:
graph-launch-depth).

The operations of a launch are like any other, but they do not queue behind the work of other streams. Each chain of
nodes has hardware queues of its own, and nodes that do not depend on one another never hold each other back. Copies go
on to the queue of the launch's stream when they can start, because a copy engine serves those only. There they pass
what has to wait, which may be work behind their own launch.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from device_model.collectives.parts import Part
from device_model.completions import NOTHING, AllOf, Completion, Group, Nanoseconds, Then
from device_model.core_kernels import CoreKernel
from device_model.events import Event
from device_model.graphs.graph import Graph, Node, NodeKind
from device_model.graphs.plan import Entry, Plan, plan_of, renewed
from device_model.graphs.streaks import NodeOp, Streak
from device_model.handles import Handle
from device_model.memory import Allocation
from device_model.queues import HardwareQueue
from device_model.streams import Stream
from device_model.work import Lane

if TYPE_CHECKING:
    from device_model.device import Device


class Executable(Handle):
    """*graph* as it is now, ready to be launched on *device*; later changes of the graph do not count.

    Its nodes have the priority of the stream of a launch or, if it *keeps_priorities*, of the streams from which they
    were captured.
    """

    __slots__ = (
        "_off", "_places", "_plan", "_whole", "destroyed", "device", "is_uploaded", "keeps_priorities", "last", "made",
        "name", "needs_host", "row",
    )  # fmt: skip

    _plan: Plan
    _whole: Plan  # as if all of its nodes were on

    def __init__(self, graph: Graph, device: "Device", made: object, *, keeps_priorities: bool = False) -> None:
        self.name = f"executable of {graph.name}"
        self.keeps_priorities = keeps_priorities
        self.device = device
        self.made = made
        self.destroyed: object = None  # the line that destroyed it
        self.is_uploaded = False  # the device has its nodes, so a launch need not send them
        self.last: Completion = NOTHING  # its last launch
        self.row = -1  # its number in a trace
        self._off: dict[int, None] = {}  # the places of nodes that do nothing until they are switched on again
        self._set_plan(plan_of(graph, device))
        self._places = {entry.node.first: entry.place for entry in self._whole.entries}

    def __repr__(self) -> str:
        state = f" destroyed at {self.destroyed}" if self.destroyed is not None else ""
        return f"<{self.name} made at {self.made}{state}>"

    @property
    def plan(self) -> Plan:
        """Its nodes, with the work that they have now."""
        if self._plan.updates != self.device.updates:
            self._set_plan(renewed(self._whole, self.device))
        return self._plan

    @property
    def launch_ns(self) -> Nanoseconds:
        """What a launch takes the host; the first one sends the nodes, if no upload has."""
        first_ns, ns = self.plan.launch_ns
        return ns if self.is_uploaded else first_ns

    def _set_plan(self, plan: Plan) -> None:
        self._whole = plan
        off = {place: plan.entries[place].node.doing_nothing() for place in self._off}
        self._plan = renewed(plan, self.device, off) if off else plan
        # Whether the host makes some of the copies.
        self.needs_host = any(self.device.by_host.makes(node) for node in plan.nodes)

    def memory(self) -> list[Allocation]:
        """Return the memory that its nodes allocate."""
        return [
            node.subject
            for node in self.plan.nodes
            if node.kind is NodeKind.ALLOCATE and isinstance(node.subject, Allocation)
        ]

    def freed(self) -> list[Allocation]:
        """Return the memory that its nodes give back."""
        return [
            node.subject
            for node in self.plan.nodes
            if node.kind is NodeKind.FREE and isinstance(node.subject, Allocation)
        ]

    def update(self, graph: Graph) -> bool:
        """Do the work of *graph* from now on, if its nodes and edges are of the same kinds; return whether they are.

        Launches that are queued do the work that they were queued with.
        """
        plan = plan_of(graph, self.device)
        if plan.shape != self._whole.shape:
            return False
        self._set_plan(plan)
        return True

    @property
    def nodes(self) -> list[Node]:
        """Its nodes without those of bodies, as if all were on."""
        return [entry.node for entry in self._whole.entries]

    def launch(
        self, stream: Stream, ready_ns: Nanoseconds, site: object, decided: Mapping[Node, int] | None = None
    ) -> Completion:
        """Queue a launch in *stream*; the arguments are those of `Launch`."""
        return Launch(self, stream, ready_ns, site, decided)

    def upload(self, stream: Stream) -> None:  # noqa: ARG002 - a card takes it in its turn
        """Send the nodes to the device."""
        self.is_uploaded = True

    def destroy(self, site: object) -> None:
        """Destroy it; launches that are queued complete."""
        self.destroyed = site

    # --- single nodes, which are named by those of the graph that it was made from

    def node(self, node: Node) -> Node | None:
        """Return its copy of *node*; None if it has none, or if *node* is in the body of another node."""
        place = self._places.get(node.first)
        return None if place is None else self._whole.entries[place].node

    def change(self, node: Node, new: Node) -> None:
        """Do what *new* does in the place of *node*, which it has, from the next launch on."""
        self._set_plan(renewed(self._whole, self.device, {self._places[node.first]: new}))

    def is_on(self, node: Node) -> bool:
        """Whether *node*, which it has, does its work."""
        return self._places[node.first] not in self._off

    def switch(self, node: Node, *, on: bool) -> None:
        """Let *node*, which it has, do its work from the next launch on, or nothing."""
        place = self._places[node.first]
        self._off.pop(place, None)
        if not on:
            self._off[place] = None
        self._set_plan(self._whole)


class LaunchTurn(Group):
    """The turn of *launch*: all is over that it waits for. Its first nodes can start a little later."""

    __slots__ = ("launch",)
    lane = len(Lane)  # the last entry of the tables of chains, which say how soon a node can start

    def __init__(self, launch: "Launch") -> None:
        super().__init__()
        self.launch = launch

    def __repr__(self) -> str:
        return f"<the turn of the {repr(self.launch)[1:-1]}>"

    def release(self, by: Completion) -> None:
        """Let the launch begin: *by* is all that it waits for."""
        self.launch.begin()
        self.note_last(by)
        self.complete(by.end_ns)


class Reached(Group):
    """The record that a launch makes in *event* when it reaches a RECORD node."""

    __slots__ = ("event", "scheduler")

    def __init__(self, event: Event, stream: Stream) -> None:
        super().__init__()
        self.event = event
        self.scheduler = stream.scheduler
        event.stand_for(self, stream)

    def __repr__(self) -> str:
        return f"<the record of {self.event.name} by a graph>"

    def release(self, by: Completion) -> None:
        """Note that the launch is there: *by* is all that is before the node."""
        if not self.done:  # by an abort
            self.note_last(by)
            self.complete(max(by.end_ns, self.scheduler.now))


class Run(Group):
    """One run of *plan* in *stream*: done when all of its nodes are."""

    __slots__ = (
        "_left", "_queued_ns", "_streaks", "decision", "device", "first_row", "lane", "launch", "number", "ops",
        "plan", "ready_ns", "records", "stream",
    )  # fmt: skip

    stream: Stream

    def __init__(
        self,
        plan: Plan,
        stream: Stream,
        device: "Device",
        launch: "Launch",
        decision: "Decision | None" = None,
        number: int = 0,
    ) -> None:
        super().__init__()
        self.decision = decision  # which runs it as its body with this number
        self.number = number
        self.lane = 0  # type: ignore[misc]  # of the node that was last
        self.plan = plan
        self.stream = stream
        self.device = device
        self.launch = launch
        self.first_row = -1  # the serial number in a trace of its first operation; -1 without one
        self.ops: list[NodeOp] = []
        self._streaks: list[Streak] = []
        self._queued_ns = self.ready_ns = -1  # when its nodes were queued; when they can start at the earliest
        self._left = len(plan.last)  # nodes with none behind them that are not over
        # An event stands for the record of the last launch from the call on.
        self.records = {node: Reached(node.subject, stream) for node in plan.records if isinstance(node.subject, Event)}

    def __repr__(self) -> str:
        return f"<a body in the {repr(self.launch)[1:-1]}>"

    def release(self, by: Completion) -> None:
        """Count one of the last nodes as over."""
        self._left -= 1
        if not self._left and not self.done:  # by an abort
            if by.lane != LaunchTurn.lane:  # no node is an operation
                self.lane = by.lane  # type: ignore[misc]
            self.note_last(by)
            self.complete(by.end_ns)

    def queue(self, turn: Completion, ready_ns: Nanoseconds) -> None:
        """Queue the operations of all nodes, the first ones behind *turn*; none can start before *ready_ns*.

        Of a row of kernels only the first one is queued now, if no observer wants the others (streaks.py).
        """
        device, plan = self.device, self.plan
        hooks, scheduler = device.hooks, self.stream.scheduler
        self._queued_ns, self.ready_ns = scheduler.now, ready_ns
        may_change = device.strike is not None or scheduler.choices is not None or plan.updates != device.updates
        one_by_one = hooks.each_node or may_change or self.launch.executable.keeps_priorities
        made: dict[int, Completion] = {}  # by place
        first = [turn]
        for row in plan.singles if one_by_one else plan.rows:
            entry = row.entries[0]
            before = [made[place] for place in entry.before] or first
            if entry.node.work is None:
                made[entry.place] = self._mark(entry, before, ready_ns)
            elif not row.steps:
                queues = plan.queues[entry.chain]
                queue = (
                    device.by_host.queue() if device.by_host.makes(entry.node) else queues[entry.node.work.label.lane]
                )
                op = self.operation(entry, queue)
                if isinstance(op.work, Part):
                    before = [*before, op.work.rank.tail]
                    op.work.rank.take(op.work, op)
                made[entry.place] = self._submit(op, before)
            else:
                streak = Streak(row, self, plan.queues[entry.chain][Lane.COMPUTE])
                self._streaks.append(streak)
                made[row.entries[-1].place] = streak
                self._submit(streak.op, before)
        device.call_hook(hooks.run_queued, self, list(made.values()))
        if hooks.node_queued is not None:
            for op in self.ops:
                device.call_hook(hooks.node_queued, op)
        for place in plan.last:
            if made[place].done:
                self.release(made[place])
            else:
                made[place].add_waiter(self)
        if not plan.last:
            _when(turn, lambda by: self.complete(max(by.end_ns, scheduler.now)))

    def operation(self, entry: Entry, queue: HardwareQueue) -> NodeOp:
        """Return a new operation of the node of *entry*, for *queue*."""
        work = entry.node.work
        assert work is not None, f"{entry.node!r} has no work"
        if isinstance(work, Part | CoreKernel):
            work = work.again()
        op = NodeOp(work, work.label.lane, work.nbytes, entry.node.site)
        op.entry, op.run, op.streak, op.capture = entry, self, None, entry.node.row
        op.stream = self.stream
        origin = entry.node.stream
        op.own_priority = origin.priority if origin is not None and self.launch.executable.keeps_priorities else None
        op.queue = queue
        op.queued_ns = self._queued_ns
        op.ready_ns = self.ready_ns
        op.row = self.row_of(entry)
        self.ops.append(op)
        return op

    def row_of(self, entry: Entry) -> int:
        """Return the serial number in a trace of the operation of *entry*; -1 without one."""
        return self.first_row + entry.number if self.first_row >= 0 else -1

    def left(self) -> list[NodeOp]:
        """Return its operations that have not ended, in the order of the plan."""
        for streak in self._streaks:
            streak.expand()
        self._streaks.clear()
        return sorted((op for op in self.ops if not op.done), key=lambda op: op.entry.place)

    def _submit(self, op: NodeOp, before: Sequence[Completion]) -> NodeOp:
        """Queue *op* behind *before*."""
        if self.device.strike is not None:
            before = [*before]
            op.ready_ns += self.device.strike(op, self.stream, op.queued_ns, before.append)
        for each in before:
            if not each.done:
                op.blockers += 1
                each.add_waiter(op)
        queue = op.queue
        fifo = queue.fifo
        fifo.append(op)
        if not op.blockers and fifo[0] is op:
            queue.engine.offer(queue)
        return op

    def _mark(self, entry: Entry, before: Sequence[Completion], ready_ns: Nanoseconds) -> Completion:
        """Return the completion of a node that is no operation."""
        node = entry.node
        mark = AllOf(before)
        if entry.bodies:
            return Decision(self, entry, mark, ready_ns)
        if node.kind is NodeKind.WAIT and isinstance(node.subject, Event) and node.subject.work is not None:
            return AllOf((mark, node.subject.work))
        record = self.records.get(node)
        if record is None:
            return mark
        if mark.done:
            record.release(mark)
        else:
            mark.add_waiter(record)
        return record


class Decision(Group):
    """The completion of the conditional node of *entry* in *run*: it asks its condition when it is behind *before*.

    Its bodies run one at a time, that of a WHILE node until the condition is 0.
    """

    __slots__ = ("_at_least_ns", "_entry", "_outer", "lane", "launch", "turns")

    def __init__(self, run: Run, entry: Entry, before: Completion, ready_ns: Nanoseconds) -> None:
        super().__init__()
        self.lane = 0  # type: ignore[misc]  # of the node that was last
        self.launch = run.launch
        self.turns = 0  # how many bodies have begun
        self._outer = run
        self._entry = entry
        self._at_least_ns = ready_ns
        self.launch.decisions[self] = None
        _when(before, self._ask)

    def __repr__(self) -> str:
        return f"<{self._entry.node.name} in the {repr(self.launch)[1:-1]}>"

    @property
    def node(self) -> Node:
        """The node, which has a condition."""
        return self._entry.node

    def release(self, by: Completion) -> None:
        """Ask once more if the body of a loop is over; else be over, too."""
        self.lane = by.lane  # type: ignore[misc]
        self.note_last(by)
        self.launch.runs.remove(by)  # type: ignore[arg-type]  # it waits for runs of its bodies only
        if self.done:  # by an abort
            return
        if self.node.kind is NodeKind.WHILE:
            self._ask(by)
        else:
            self._end(by.end_ns)

    def _ask(self, by: Completion) -> None:
        device, scheduler = self.launch.device, self.launch.stream.scheduler
        at_ns = max(by.end_ns, self._at_least_ns, scheduler.now) + device.profile.graphs.condition
        scheduler.at(at_ns, self._decide, self)

    def _decide(self, _: object) -> None:
        """Run the body that the condition wants now, or be over."""
        device, now = self.launch.device, self.launch.stream.scheduler.now
        device.workers.flush()  # the body of a kernel that has ended may still be under way
        number = None if self.launch.done else self._number()  # by an abort
        if number is None:
            self._end(now)
            return
        self.turns += 1
        self.launch.taken[self.node] = self._outcome(number)
        body = Run(self._entry.bodies[number], self.launch.stream, device, self.launch, self, number)
        body.records = self._outer.records
        self.launch.runs.append(body)
        body.queue(NOTHING, now)
        _when(body, self.release)

    def _number(self) -> int | None:
        """Return which body runs now."""
        condition, decided = self.node.condition, self.launch.decided
        assert condition is not None, f"{self.node!r} has no condition"
        if decided is None:
            return self.node.body_for(condition.value)
        if self.node.kind is NodeKind.WHILE:
            return 0 if self.turns < decided[self.node] else None
        return decided[self.node] - 1 if decided[self.node] else None

    def _outcome(self, number: int) -> int:
        if self.node.kind is NodeKind.WHILE:
            return self.turns
        return number + 1 if len(self.node.bodies) > 1 else True

    def _end(self, now: Nanoseconds) -> None:
        self.launch.decisions.pop(self, None)
        device = self.launch.device
        device.call_hook(device.hooks.decided, self)
        if not self.done:
            self.complete(now)


class Launch(Run):
    """One launch of *executable* in *stream*.

    *taken* says what its conditional nodes have run: True for the body of an IF node; the number of the body, counted
    from 1, if there are several; how often the body of a WHILE node has run.
    """

    __slots__ = ("decided", "decisions", "executable", "place", "row", "runs", "site", "taken")

    def __init__(
        self,
        executable: Executable,
        stream: Stream,
        ready_ns: Nanoseconds,
        site: object,
        decided: Mapping[Node, int] | None = None,
    ) -> None:
        """Queue the launch; its first nodes can start at *ready_ns* at the earliest.

        *decided* says, as *taken* does, what its conditional nodes run; by default their conditions do.
        """
        super().__init__(executable.plan, stream, executable.device, self)
        self.decisions: dict[Decision, None] = {}  # that are not over
        self.executable = executable
        self.site = site
        self.row = -1  # its number in a trace
        self.decided = decided
        self.taken: dict[Node, int] = {}
        self.runs: list[Run] = [self]  # its own, and those of bodies
        self.device.launches[self] = None
        before = AllOf((stream.turn(), executable.last))
        stream.give(self)
        executable.last = self
        turn = LaunchTurn(self)
        self.place: HardwareQueue | None = None  # where it holds a place until it begins
        if before.done:
            turn.release(before)
        else:
            self.place = stream.queues[Lane.COMPUTE]
            self.place.reserved += 1
            before.add_waiter(turn)
        self.queue(turn, ready_ns)

    def __repr__(self) -> str:
        at = f" submitted at {self.site}" if self.site is not None else ""
        return f"<launch of {self.executable.name} on {self.stream.name}{at}>"

    def complete(self, now: Nanoseconds) -> None:
        """Note that all of it is over."""
        del self.device.launches[self]
        super().complete(now)

    def unfinished(self) -> list[NodeOp]:
        """Return its operations, and those of bodies, that have not ended."""
        return [op for run in self.runs for op in run.left()]

    def abort(self, now: Nanoseconds) -> None:
        """Be over, with all records; the device has dropped its operations."""
        self._leave_queue()
        for run in self.runs:
            for completion in (*run.records.values(), run):
                if not completion.done:
                    completion.complete(now)
        for decision in [*self.decisions]:
            decision.complete(now)

    def _leave_queue(self) -> None:
        queue, self.place = self.place, None
        if queue is not None:
            queue.reserved -= 1
            queue.pass_on()

    def begin(self) -> None:
        """Leave the queue, and let all conditions have their defaults."""
        self._leave_queue()
        for node in self.plan.conditional:
            if node.condition is not None and node.condition.default is not None:
                node.condition.value = node.condition.default


def _when(completion: Completion, act: Callable[[Completion], object]) -> None:
    """Call *act* with *completion* when it is done: now, if it is."""
    if completion.done:
        act(completion)
    else:
        completion.add_waiter(Then(act))
