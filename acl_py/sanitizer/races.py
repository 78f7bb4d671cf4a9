"""Races: pairs of accesses to the same bytes that nothing puts in order, and of which one writes.

This is the observer that walks along with a program. It keeps the relation (order.py) and the shadows of memory
(accesses.py). It compares each operation when it is queued, and each access of the host when it is made, with those
before it. What it says of a pair does not depend on times.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from acl_py.callers import Caller, current_caller, task_of
from acl_py.calls import acts
from acl_py.calls.acts import Act, Word
from acl_py.findings import Access, Finding, Findings, Kind, access_at
from acl_py.order.actors import CallbackWait, Host, Line
from acl_py.order.clocks import BEGINNING, Clock, Past, Point, joined
from acl_py.order.order import Order
from acl_py.order.relate import Relate
from acl_py.order.signals import Signals
from acl_py.ranges import Ranges
from acl_py.runtime.runtime import Runtime
from acl_py.sanitizer.accesses import Accesses
from acl_py.sanitizer.check import Check, guarded
from acl_py.sanitizer.finding_texts import handle_text, subject_of, work_text
from acl_py.sanitizer.hosts import Hosts
from acl_py.sanitizer.nodes import Nodes
from acl_py.sanitizer.pairs import Pairs
from acl_py.sanitizer.shadow import HostAccess, LifeCall, Use
from acl_py.sites import called_function
from device_model.completions import NOTHING, Completion, Nanoseconds, Then
from device_model.core_kernels import CoreKernel
from device_model.events import Event, FlagEvent
from device_model.graphs.executable import Decision, Run
from device_model.memory import Allocation
from device_model.ops import Op
from device_model.queues import Place
from device_model.steps import Step, StepKind, Turn
from device_model.streams import Stream, UnorderedStream
from device_model.work import H2H, Copy, HostFunction, Work

if TYPE_CHECKING:
    from device_model.observe import Subject


class _Wait(NamedTuple):
    """A wait of a host: what it will know, *points*, once *completion* is done, and whether that is *promised*."""

    completion: Completion
    points: list[Point]
    promised: bool


class Races(Check):
    """Adds the races to *findings*.

    It keeps, as their stamps, the line of each stream, the point of the last record of each event, and the use of each
    operation. Three methods are functions made for one program: a closure reaches its variables faster, and these
    functions are nearly the whole cost of the sanitizer.
    """

    __slots__ = ("op_queued", "recorded", "waited")

    op_queued: Callable[[Op], None]  # type: ignore[assignment]
    recorded: Callable[[Event, Stream, Nanoseconds, object, Completion], None]  # type: ignore[assignment]
    waited: Callable[[Event, Stream, Nanoseconds, object, Completion], None]  # type: ignore[assignment]

    def __init__(self, runtime: Runtime, fail: Callable[[Exception], None], findings: Findings) -> None:
        super().__init__(runtime, fail)
        self._findings = findings
        self._order = Order()
        self.hosts = Hosts(self._order, self._inside, self._findings.note, runtime.callers, runtime.hooks)
        self._signals = Signals(self._order, self._add_wait)
        self._pairs = Pairs(self._order, self._signals, self._stacks, findings)
        self._relate = Relate(self._order, self._signals, _key_of, self._pairs.settle)
        self._accesses = Accesses(self._pairs)
        self._waits: WeakKeyDictionary[Caller, _Wait] = WeakKeyDictionary()
        self._staged: dict[object, Use] = {}  # copies of pageable memory, whose calls have not returned
        self._freed: Allocation | None = None  # the last one
        self._before: dict[Step, Point] = {}  # what is over when a callback has its turn
        self._nodes = Nodes(self._order, self._accesses)
        self.op_queued, self.recorded, self.waited = _quick_hooks(self)

    def close(self) -> None:
        """Report what is left, and watch no more what tasks hand on."""
        self._signals.close()
        self._accesses.close()
        self._pairs.close()
        self.hosts.close()

    def tell_pageable(self, used: Callable[[], None]) -> None:
        """Call *used* with each use of pageable memory, which has no life."""
        self._accesses.pageable_used = used

    # --- hooks: what streams are given

    def queue(self, op: Op, host: Host) -> None:
        """Take up an operation that *host* has queued."""
        if type(op.stream) is UnorderedStream:
            self._done_by_host(op, host)
            return
        line = op.stream.stamp = self._order.queue(op.stream, host)
        op.stamp = Use(
            line.number, line.count, line.past, host.past, host.number, op.work, op.stream, op.site, host.name,
            op.queued_ns,
        )  # fmt: skip
        self.touch(op, line, host)

    def touch(self, op: Op, line: Line, host: Host) -> None:
        """Compare the operation *op*, which has its stamp, with what came before, unless it does what an earlier one
        from the same line of the program did.
        """
        footprint = line.footprints.get(op.site)
        if footprint is not None and footprint.is_repeated_by(op.work):
            footprint.latest = op.stamp
            return
        self._stacks.note(op.site)
        if type(op.work) is HostFunction:
            op.stamp = _called_later(Use._make(op.stamp), host)
        else:
            line.footprints[op.site] = self._accesses.take(op.stamp)

    def _done_by_host(self, op: Op, host: Host) -> None:
        """Take up an operation that the host waits for: it does the work itself, as it were."""
        self._order.act(host)
        op.stamp = self._use(op.work, op.site, op.queued_ns, None, op.stream)
        self._accesses.take(op.stamp)

    @guarded
    def staged(self, copy: Copy, stream: Stream, site: object) -> None:
        """Take up a copy of pageable memory, as one operation."""
        line = self._order.queue(stream, self.hosts.current())
        use = self._staged[copy] = self._use(copy, site, self._runtime.host_ns, line, stream)
        self._accesses.take(use)

    @guarded
    def part_queued(self, op: Op, copy: Copy) -> None:
        """Let each part of a copy of pageable memory stand for all of it."""
        if copy in self._staged:  # its call was not cancelled
            op.stamp = self._staged[copy]

    def record(self, event: Event, stream: Stream, site: object, completion: Completion) -> None:
        """Keep what a record stands for."""
        self._relate.record(event, stream, self.hosts.current(), partial(self._call, "RecordEvent", site))
        if completion is not NOTHING and not isinstance(completion, Op):
            completion.stamp = event.stamp

    def wait(self, event: Event, stream: Stream, site: object) -> None:
        """Put a stream behind what an event stands for."""
        self._relate.wait(event, stream, self.hosts.current(), partial(self._call, "StreamWaitEvent", site))

    @guarded
    def step_queued(self, step: Step) -> None:
        """Note what is over when a callback has its turn."""
        if step.kind is StepKind.CALLBACK:
            self._before[step] = self._order.record(step.stream, self.hosts.current())

    @guarded
    def run_queued(self, run: Run, made: Sequence[Completion]) -> None:
        """Take up a launch of a graph, or the body of a conditional node of one that was taken up."""
        self._nodes.queue(run, made, self.hosts.current(), self._runtime.host_ns)

    @guarded
    def launched(self, op: Op, launch: Any, made: Sequence[Completion]) -> None:
        """Take up a *launch* that a card has been given as the operation *op*; *made* stands for its nodes."""
        self._nodes.queue(launch, made, self.hosts.current(), self._runtime.host_ns)
        op.stamp = launch.stamp

    @guarded
    def decided(self, decision: Decision) -> None:
        """Forget the bodies of a conditional node: none of them runs any more."""
        self._nodes.forget(decision)

    def node_queued(self, op: Op) -> None:
        """Do nothing: `run_queued` has taken it up."""

    @guarded
    def ran(self, op: Op, result: object) -> None:  # it is that of the work
        """Judge what had to wait for a launch, and say which instructions of one that raced made the accesses."""
        if isinstance(op.work, CoreKernel):
            self._accesses.ran(op.work)
            self._pairs.ran(op.work)

    # --- hooks: what the host knows

    @guarded
    def awaiting(self, subjects: "Sequence[Subject]", completion: Completion, promised: bool) -> None:
        """Note what the host will know when its wait is over."""
        points = [point for subject in subjects for point in self._work_of(subject)]
        if points and not promised and getattr(completion, "stamp", None) is None:
            completion.stamp = points[0]  # a program may await it once more, which promises it
        self._waits[current_caller()] = _Wait(completion, points, promised)

    @guarded
    def synchronized(self, completion: Completion) -> None:
        """Let the host know what it has waited for."""
        wait = self._waits.pop(current_caller(), None)
        if wait is not None and wait.completion is completion and completion.done:
            learn = self._order.learn if wait.promised else self._order.learn_unpromised
            learn(self.hosts.current(), wait.points)

    def _work_of(self, subject: "Subject") -> Iterable[Point]:
        if isinstance(subject, Turn):
            return (self._before.pop(subject.step),) if subject.step in self._before else ()
        if isinstance(subject, Place):
            return _before_start(subject.made_by)
        return self._relate.work_of(subject)

    # --- hooks: calls

    @guarded
    def call(self, name: str, enter_ns: Nanoseconds, exit_ns: Nanoseconds, site: object, act: Act[Any]) -> None:
        """Take up copies that the host made itself, the lives of memory, and what else an act orders."""
        match act:
            case acts.Recorded() | acts.Waited() | acts.CallbackBegan() | acts.CallbackEnded():
                return  # `recorded`, `waited` and `awaiting` tell of them, also if they were captured
            case acts.HandedOver(stream, block):
                self._wait_for_callback(stream, block)
            case acts.Began(memory, Stream() as stream) if stream.branch is not None:
                self._accesses.expect(memory, self._use(LifeCall(name), site, exit_ns))
            case acts.Began(memory, Stream()):
                self._accesses.begin(memory, self._use_of_act(name, act, site, exit_ns))
            case acts.Ended(memory, stream):
                if memory is self._freed:
                    self._end(name, act, site, exit_ns)
            case acts.Queued(Copy() as copy) | acts.Completed(Copy() as copy):
                self._staged.pop(copy, None)
                if copy.label is H2H and copy.nbytes:
                    self._act(copy, site, exit_ns)
            case acts.Queued() | acts.Batched():
                return  # `op_queued` and `staged` tell of it
            case _:
                self._relate.act(act, self.hosts.current(), partial(self._call, name, site))

    @guarded
    def freed(self, allocation: Allocation, until: Completion) -> None:
        """Note that a life ends; the call that ends it follows."""
        self._freed = allocation

    @guarded
    def host_access(self, allocation: Allocation, ranges: Ranges, writes: bool, site: object) -> None:
        """The host, or a host function, has read or written the bytes *ranges* of *allocation* at *site*."""
        access = HostAccess(allocation, ranges, writes)
        calling = self._calling()
        if calling is not None:
            stamp = calling[1]
            self._accesses.take(stamp._replace(work=access._replace(by=work_text(stamp.work, writes=writes))))
        else:
            self._act(access, site, self._runtime.host_ns)

    def _calling(self) -> tuple[Op, Use] | None:
        """Return the host function that runs at the moment."""
        calling = self._runtime.calling
        stamp = None if calling is None else getattr(calling, "stamp", None)
        return (calling, stamp) if calling is not None and isinstance(stamp, Use) else None

    def _inside(self) -> tuple[Op, Point] | None:
        calling = self._calling()
        if calling is None:
            return None
        function, use = calling
        return function, Point(use.actor, use.epoch, Past.of(joined(use.clock, use.known)))

    def _wait_for_callback(self, stream: Stream, block: int) -> None:
        """Put what is queued in *stream* from now on behind its last callback, if that is to *block* it."""
        tail = stream.tail
        if block and not tail.done:
            wait = self._order.wait_for_callback(self._order.make_ready(stream, self.hosts.current()))
            tail.add_waiter(Then(partial(self._called_back, wait)))

    @guarded
    def _called_back(self, wait: CallbackWait, _: Completion) -> None:
        """Note that the host that runs has called the callback of *wait*."""
        self._order.end_callback(wait, self.hosts.current())
        self._signals.solve()
        self._pairs.settle()

    def _call(self, name: str, site: object, stream: Stream) -> Access:
        """Return a call of *name* as findings have it."""
        caller, now = self.hosts.current().name, self._runtime.host_ns
        what, stack = called_function(site, name), self._stacks.note(site)
        return access_at(site, what, caller=caller, stream=stream.name, stack=stack, at_ns=now)

    def _add_wait(self, text: str, signal: object, calls: Sequence[Access]) -> None:
        told = text.format(handle_text(signal), *map(subject_of, calls))
        self._findings.add(Finding(Kind.WAIT, told, (calls[0], calls[-1])[: len(calls)]))

    # --- what others ask, who have no findings

    def is_promised(self, earlier: Use, later: Use) -> bool:
        """Whether a promise puts *earlier* before *later*, as far as is known by now."""
        return self._pairs.is_known(earlier, later)

    def last_use(self, allocation: Allocation) -> Use | None:
        """Return the latest use of *allocation*, which is alive; None if it was never used."""
        return self._accesses.latest(allocation)

    def known_to_host(self) -> Clock:
        """Return what the host that makes the present call knows to be over."""
        host = self.hosts.current()
        return {**self._order.closure(host.past.clock), host.number: host.count}

    def _act(self, work: Work | HostAccess, site: object, at_ns: Nanoseconds) -> None:
        self._order.act(self.hosts.current())
        self._accesses.take(self._use(work, site, at_ns))

    def _use(
        self, work: Work | HostAccess | LifeCall, site: object, at_ns: Nanoseconds, line: Line | None = None,
        stream: Stream | None = None,
    ) -> Use:  # fmt: skip
        """Return the use of memory that was given to *stream*, the actor *line*, just now; None: the host made it."""
        self._stacks.note(site)
        host = self.hosts.current()
        by = line or host
        return Use(
            by.number, by.count, by.past, host.past, host.number, work, stream, site, host.name, at_ns,
        )  # fmt: skip

    def _use_of_act(self, name: str, act: acts.Began[Any] | acts.Ended[Any], site: object, at_ns: Nanoseconds) -> Use:
        """Return the use of memory whose life begins or ends in a call of *name*, in a stream or at once."""
        line = self._relate.act(act, self.hosts.current())
        return self._use(LifeCall(name), site, at_ns, line, act.stream)

    def _end(self, name: str, act: acts.Ended[Any], site: object, at_ns: Nanoseconds) -> None:
        """End the life of memory in a call of *name*: all that uses it must be over."""
        self._freed = None
        self._accesses.end(act.memory, self._use_of_act(name, act, site, at_ns))


def _quick_hooks(races: Races) -> tuple[Any, Any, Any]:
    """Return three methods of *races*: `op_queued`, `recorded` and `waited`.

    Nearly always the same host calls as before, and the stream is ready: then they do themselves what `Races.queue`,
    `Races.record` and `Races.wait` do. `Hosts.current` and `guarded` are written out, too.
    """
    hosts, fail = races.hosts, races.fail

    def op_queued(op: Op) -> None:
        """Take up an operation."""
        try:
            if get_ident() == hosts.thread and task_of(hosts.loop) is hosts.latest:
                host = hosts.host
            else:
                host = hosts.current()
            stream = op.stream
            line = stream.stamp
            if line is None or line.ready != host.version:
                races.queue(op, host)
                return
            line.count = count = line.count + 1
            site = op.site
            work = op.work
            op.stamp = use = (line.number, count, line.past, host.past, host.number, work, stream, site, host.name,
                              op.queued_ns)  # fmt: skip
            footprint = line.footprints.get(site)
            if footprint is not None and footprint.alone is work:
                footprint.latest = use
            else:
                races.touch(op, line, host)
        except Exception as error:
            fail(error)

    def recorded(event: Event, stream: Stream, _: int, site: object, completion: Completion) -> None:
        """Keep what the record stands for."""
        try:
            if get_ident() == hosts.thread and task_of(hosts.loop) is hosts.latest:
                host = hosts.host
            else:
                host = hosts.current()
            line = stream.stamp
            if line is None or line.ready != host.version or type(completion) is not Op:  # so the event has no flag
                races.record(event, stream, site, completion)
            else:
                event.stamp = line.number, line.count, line.past
        except Exception as error:
            fail(error)

    def waited(event: Event, stream: Stream, _: int, site: object, __: Completion) -> None:
        """Put the stream behind what it waits for."""
        try:
            if get_ident() == hosts.thread and task_of(hosts.loop) is hosts.latest:
                host = hosts.host
            else:
                host = hosts.current()
            line = stream.stamp
            point = event.stamp
            if line is None or line.ready != host.version or point is None or type(event) is FlagEvent:
                races.wait(event, stream, site)
            else:
                line.follow(point)
        except Exception as error:
            fail(error)

    return op_queued, recorded, waited


def _before_start(op: Op | None) -> Iterable[Point]:
    """Return what was over when *op* was next to start."""
    stamp = getattr(op, "stamp", ())
    if len(stamp) < len(Use._fields):  # a Point
        return ()
    use = Use._make(stamp)
    over = {**joined(use.clock, use.known), use.actor: use.epoch - 1}
    return [Point(actor, epoch, BEGINNING) for actor, epoch in over.items()]


def _called_later(use: Use, host: Host) -> Use:
    """Return *use*, a host function that *host* has queued. What it touches shows when it runs: by then the host may
    have done more.
    """
    return use._replace(given=Past.of({**use.known, host.number: host.count}), host=-1)


def _key_of(word: Word[Allocation]) -> tuple[int, int]:
    return word.memory.serial, word.offset
