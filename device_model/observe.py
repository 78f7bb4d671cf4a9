"""Observers: objects that watch a simulation without taking part in it.

`Observer` has a method for each thing that can be watched, and all of them do nothing. Override the ones you need:

    class Kernels(Observer):
        def op_ended(self, op):
            print(op, op.start_ns, op.end_ns)

The simulator reads the methods from `Hooks`. A method that no observer overrides is None there, so an event that is not
watched costs one comparison. Observers are called in the order in which they were added, at the simulated instant of
the event. They must not call the runtime. An exception that one raises reaches the host when the instant is over.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

from device_model.completions import Completion, Nanoseconds
from device_model.errors import DeviceError

if TYPE_CHECKING:
    from device_model.chains import Link
    from device_model.contexts import Context
    from device_model.device import Device
    from device_model.events import Event
    from device_model.faults import Rule
    from device_model.graphs.executable import Decision, Run
    from device_model.graphs.graph import Node
    from device_model.graphs.groups import NewWork
    from device_model.graphs.plan import Entry
    from device_model.graphs.streaks import NodeOp
    from device_model.kernel.findings import Finding
    from device_model.kernel.results import Result
    from device_model.memory import Allocation, Moves
    from device_model.ops import Op
    from device_model.steps import Step, Turn
    from device_model.streams import Stream
    from device_model.work import Copy

    Subject: TypeAlias = Stream | Event | Context | Device | Completion | Turn  # whose work a host waits for


class Observer:
    """A watcher of a simulation; override the methods that you want to be called."""

    def call(self, name: str, enter_ns: Nanoseconds, exit_ns: Nanoseconds, site: object, act: Any) -> None:
        """A call of *name*, made at *site*, took the host from *enter_ns* to *exit_ns*.

        *act* is what it did: a record of acl_py.calls.acts, such as `Began(memory, stream)`, which names streams,
        events, notifies, allocations, contexts, and the work of a copy or a fill. Match on its class.

        Four verbs make up most of a program, and this method is not called for them, as others have the same facts. If
        all that MemcpyAsync or LaunchKernel did was to queue an operation, `op_queued` is called: the call lasted from
        `op.called_ns` to `op.queued_ns`. `recorded` and `waited` stand for calls of RecordEvent and StreamWaitEvent. In
        a capture, `captured` stands for MemcpyAsync and LaunchKernel, and this method is called for the other two.
        """

    def captured(self, op: "Op", taken: "Node | NewWork") -> None:
        """*op*, which a call would have queued in its stream, became the node of a graph, or the new work of one.

        If `op.called_ns` is 0 or more, it was all that a call of MemcpyAsync or LaunchKernel did, and the call lasted
        from then to `op.end_ns`.
        """

    def op_queued(self, op: "Op") -> None:
        """*op* was queued in its stream."""

    def staged(self, copy: "Copy", stream: "Stream", site: object) -> None:
        """The host begins *copy* in *stream*, in a call made at *site*, through buffers of the driver.

        Its parts are operations that nobody else queues, so `op_queued` is not called for them, but `part_queued`.
        """

    def part_queued(self, op: "Op", copy: "Copy") -> None:
        """*op*, a part of *copy*, which goes through buffers of the driver, was queued in its stream."""

    def run_queued(self, run: "Run", made: Sequence[Completion]) -> None:
        """A launch of a graph was queued, or the body of a conditional node, which runs.

        *made* has, for each entry of its plan, the operation or what stands for it. `node_queued` follows for each
        operation; later, too, for those that are made when the ones before them have run (`nodes_ran`).
        """

    def node_queued(self, op: "Op") -> None:
        """*op*, a node of a launch, was queued. An observer that does not override this gets `op_queued`."""
        self.op_queued(op)

    def nodes_ran(self, ran: "Sequence[tuple[NodeOp, Entry, Nanoseconds, Nanoseconds]]") -> None:
        """Kernels of a launch *ran* without an operation for each, here in the order of their ends: the operation that
        stands for the node, the node, its start and its end. Nodes with one operation ran one behind the other.

        `op_ended` is not called for them. An operation has the times of its first node now, and is that of another one
        later. An observer that overrides `run_queued`, `node_queued` or `op_ended`, and not this, gets an operation for
        each node.
        """

    def decided(self, decision: "Decision") -> None:
        """*decision*, of a conditional node in a launch, is over: no body of it runs any more."""

    def op_ended(self, op: "Op") -> None:
        """*op* ended; its times are known now."""

    def recorded(
        self, event: "Event", stream: "Stream", enter_ns: Nanoseconds, site: object, completion: Completion
    ) -> None:
        """*event* was recorded on *stream*, in a call from *enter_ns* to now, made at *site*.

        *completion* is all the work that the record stands for; of an event with a flag, it is the step that sets it.
        """

    def waited(
        self, event: "Event", stream: "Stream", enter_ns: Nanoseconds, site: object, completion: Completion
    ) -> None:
        """The work queued on *stream* from now on waits for *event*; the call lasted from *enter_ns* to now.

        *completion* is what that work waits for: the work of the last record, or the step that waits.
        """

    def step_queued(self, step: "Step") -> None:
        """*step* was queued in its stream: a flag that it sets, clears or waits for, a callback that it hands over."""

    def host_waited(self, completion: Completion, since_ns: Nanoseconds) -> None:
        """The host slept in a call from *since_ns* until *completion* was done.

        If the call was cancelled, the host slept until now, and *completion* is one that is not done.
        """

    def refused(self, dead: object) -> None:
        """The call that runs is refused, because *dead* is memory that was freed, or a stream, an event, a notify or a
        context that was destroyed.
        """

    def hung(self, what: str, site: object, links: "Sequence[Link]") -> None:
        """The wait *what*, made at *site*, can never end; *links* say what it waits for."""

    def marked(
        self, name: str, begin_ns: Nanoseconds, end_ns: Nanoseconds, site: object, stream: "Stream | None" = None
    ) -> None:
        """The program has marked the time from *begin_ns* to *end_ns* as *name*: of the host, or those of *stream*; see
        `acl_py.annotate`.
        """

    def awaiting(self, subjects: "Sequence[Subject]", completion: Completion, promised: bool) -> None:
        """The host begins to wait for *completion*, or asks for it: all work of *subjects* so far.

        *promised* is whether the vendor documents that the call waits. `synchronized` follows in the same task or
        thread, with the same *completion*, unless the wait fails or reaches its time limit.
        """

    def synchronized(self, completion: Completion) -> None:
        """The host learned that *completion* is done: it waited for it, or asked."""

    def noticed(self, completion: Completion, site: object) -> None:
        """The host awaited *completion* at *site*, and it was done: that was no call, and took no time."""

    def timed(self, site: object) -> None:
        """The host asked for the time at *site*, as a program does that measures: that was no call. It is told only
        under a sanitizer.
        """

    def allocated(self, allocation: "Allocation", since: Completion) -> None:
        """Memory was allocated or registered. It is in use when *since* is done: at once, unless MallocAsync() took a
        block of its pool whose FreeAsync() is still to take place.
        """

    def freed(self, allocation: "Allocation", until: Completion) -> None:
        """Memory was freed or unregistered. It is in use until *until* is done: no longer, unless FreeAsync() frees it
        behind work of a stream.
        """

    def reset(self, device: "Device", site: object) -> None:
        """*device* was reset at *site*: all its memory is free, except what MallocHost() has allocated."""

    def filled(self, allocation: "Allocation", start: int, stop: int) -> None:
        """The runtime itself has written bytes, in no operation: the weights of a model that it has loaded."""

    def host_touched(
        self, allocation: "Allocation", ranges: Sequence[tuple[int, int]], writes: bool, site: object, by: "Op | None"
    ) -> None:
        """The host has read or written the bytes *ranges* of *allocation* at *site*; in the host function *by*, if it
        is not None. Only a sanitizer that watches the host tells it.
        """

    def viewed(self, allocation: "Allocation") -> None:
        """The host was given an array over *allocation*. It may read these bytes unseen, as in `plain[:] = array`. Only
        a sanitizer that watches the host tells it.
        """

    def exported(self, allocation: "Allocation", ranges: Sequence[tuple[int, int]], site: object) -> None:
        """The host may read and write the bytes *ranges* of *allocation* unseen from now on: code at *site* got at the
        memory itself. Only a sanitizer that watches the host tells it.
        """

    def sanitized(self, host: bool, handovers: bool) -> None:
        """A sanitizer tells from now on, or no longer, what the *host* reads and writes, and of *handovers*."""

    def parted(self) -> None:
        """From now on ranks have hosts of their own: calls of several tasks may take the same time."""

    def hosted(self, host: int) -> None:
        """The task or thread that makes the present call acts as the *host* with this number. All that act as one host
        count as one. Only a sanitizer tells it, as all that follows of handovers.
        """

    def gave(self, given: Any, giver: int, function: "Op | None") -> None:
        """The host with the number *giver*, or the host *function* that runs, has given what it knows.

        An observer may keep a number of its own in `given.row`.
        """

    def took(self, given: Any, taker: int, is_seen: bool) -> None:
        """The host with the number *taker* knows what was *given*. If that is not *is_seen*, it is taken for granted:
        what threads tell one another is not seen.
        """

    def pages_moved(
        self, op: "Op | None", moves: "Moves", begin_ns: Nanoseconds, end_ns: Nanoseconds, site: object
    ) -> None:
        """*op* starts and uses managed memory; if it is None, the host has used some at *site*.

        *moves* is what that did with the pages, and it lasts from *begin_ns* to *end_ns*. If all pages were there, it
        is nothing.
        """

    def fault(self, rule: "Rule", subject: "Op | str", at_ns: Nanoseconds) -> None:
        """A fault rule struck at *at_ns*. *subject* is the operation, not yet queued, or the name of a call or of
        a slow engine.
        """

    def failed(self, op: "Op", error: DeviceError) -> None:
        """*op* failed with *error*."""

    def wait_timed_out(self, step: "Step", error: DeviceError) -> None:
        """The wait *step* reached its time limit. Its stream remembers *error* and goes on."""

    def ran(self, op: "Op", result: "Result") -> None:
        """The core kernel *op* ended, after `op_ended`. *result* has what its cores did and what it printed."""

    def shown(self, op: "Op") -> None:
        """The core kernel *op*, which runs and waits for others, lets them see now what it has written so far."""

    def finding(self, op: "Op", finding: "Finding") -> None:
        """The core kernel *op* did something that its programmer should know; called after `ran`."""


_NAMES = tuple(name for name in vars(Observer) if not name.startswith("_"))


class Hooks:
    """The methods of all observers, one attribute for each; None if no observer overrides the method."""

    __slots__ = (
        "_observers",
        "allocated",
        "awaiting",
        "call",
        "captured",
        "decided",
        "each_node",
        "exported",
        "failed",
        "fault",
        "filled",
        "finding",
        "freed",
        "gave",
        "host_touched",
        "host_waited",
        "hosted",
        "hung",
        "marked",
        "node_queued",
        "nodes_ran",
        "noticed",
        "op_ended",
        "op_queued",
        "pages_moved",
        "part_queued",
        "parted",
        "ran",
        "recorded",
        "refused",
        "reset",
        "run_queued",
        "sanitized",
        "shown",
        "staged",
        "step_queued",
        "synchronized",
        "timed",
        "took",
        "viewed",
        "wait_timed_out",
        "waited",
    )

    call: Callable[[str, Nanoseconds, Nanoseconds, object, Any], None] | None
    captured: "Callable[[Op, Node | NewWork], None] | None"
    op_queued: "Callable[[Op], None] | None"
    staged: "Callable[[Copy, Stream, object], None] | None"
    part_queued: "Callable[[Op, Copy], None] | None"
    parted: "Callable[[], None] | None"
    run_queued: "Callable[[Run, Sequence[Completion]], None] | None"
    node_queued: "Callable[[Op], None] | None"
    nodes_ran: "Callable[[Sequence[tuple[NodeOp, Entry, Nanoseconds, Nanoseconds]]], None] | None"
    decided: "Callable[[Decision], None] | None"
    op_ended: "Callable[[Op], None] | None"
    recorded: "Callable[[Event, Stream, Nanoseconds, object, Completion], None] | None"
    waited: "Callable[[Event, Stream, Nanoseconds, object, Completion], None] | None"
    step_queued: "Callable[[Step], None] | None"
    host_waited: Callable[[Completion, Nanoseconds], None] | None
    refused: Callable[[object], None] | None
    hung: "Callable[[str, object, Sequence[Link]], None] | None"
    marked: Callable[..., None] | None  # its last argument may be left out
    awaiting: "Callable[[Sequence[Subject], Completion, bool], None] | None"
    synchronized: Callable[[Completion], None] | None
    noticed: Callable[[Completion, object], None] | None
    timed: Callable[[object], None] | None
    allocated: "Callable[[Allocation, Completion], None] | None"
    freed: "Callable[[Allocation, Completion], None] | None"
    reset: "Callable[[Device, object], None] | None"
    filled: "Callable[[Allocation, int, int], None] | None"
    host_touched: "Callable[[Allocation, Sequence[tuple[int, int]], bool, object, Op | None], None] | None"
    viewed: "Callable[[Allocation], None] | None"
    exported: "Callable[[Allocation, Sequence[tuple[int, int]], object], None] | None"
    sanitized: Callable[[bool, bool], None] | None
    hosted: Callable[[int], None] | None
    gave: "Callable[[Any, int, Op | None], None] | None"
    took: Callable[[Any, int, bool], None] | None
    pages_moved: "Callable[[Op | None, Moves, Nanoseconds, Nanoseconds, object], None] | None"
    fault: "Callable[[Rule, Op | str, Nanoseconds], None] | None"
    failed: "Callable[[Op, DeviceError], None] | None"
    wait_timed_out: "Callable[[Step, DeviceError], None] | None"
    ran: "Callable[[Op, Result], None] | None"
    shown: "Callable[[Op], None] | None"
    finding: "Callable[[Op, Finding], None] | None"
    each_node: bool  # whether an observer wants an operation for each node of a launch

    def __init__(self) -> None:
        self._observers: list[Observer] = []
        self._resolve(frozenset(_NAMES))

    def add(self, observer: Observer) -> None:
        """Add *observer*, which is called from now on."""
        self._observers.append(observer)
        self._resolve(_own_methods(type(observer)))

    def remove(self, observer: Observer) -> None:
        """Remove *observer*, which is no longer called."""
        self._observers.remove(observer)
        self._resolve(_own_methods(type(observer)))

    def _resolve(self, changed: frozenset[str]) -> None:
        watching = [(observer, _own_methods(type(observer))) for observer in self._observers]
        for name in _NAMES:
            if name in changed:
                setattr(self, name, _fan_out([getattr(each, name) for each, own in watching if name in own]))
        self.each_node = any(_wants_each_node(own) for _, own in watching)


def _own_methods(observer: type[Observer]) -> frozenset[str]:
    """Return the names of the methods that *observer* has in place of those of `Observer`."""
    classes = takewhile(lambda each: each is not Observer, observer.__mro__)
    names = frozenset().union(*map(vars, classes))
    return names | {"node_queued"} if "op_queued" in names else names  # which Observer's node_queued calls


def _wants_each_node(own: frozenset[str]) -> bool:
    """Whether an observer with these methods watches operations of launches, and does not know `nodes_ran`."""
    return "nodes_ran" not in own and not own.isdisjoint(("run_queued", "node_queued", "op_ended"))


def _fan_out(methods: Sequence[Callable[..., None]]) -> Callable[..., None] | None:
    if len(methods) < 2:
        return methods[0] if methods else None

    def each(*args: Any) -> None:
        for method in methods:
            method(*args)

    return each
