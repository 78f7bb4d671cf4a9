"""Races: pairs of accesses to the same bytes that nothing puts in order, and of which one writes.

This is the observer that walks along with a program: it keeps the relation (order.py) and the shadows of memory
(shadow.py), and compares each operation when it is queued, and each access of the host when it is made, with those
before it. What it says of a pair does not depend on times.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from acl_py.callers import Caller, current_caller
from acl_py.sanitizer.findings import Finding, Findings, Kind, Span
from acl_py.sanitizer.guards import guarded
from acl_py.sanitizer.hosts import Hosts
from acl_py.sanitizer.order import Host, Order, Point, joined
from acl_py.sanitizer.shadow import HostAccess, LifeCall, Ranges, Shadow, Use, Uses, overlap
from acl_py.sanitizer.signals import Signals
from acl_py.sanitizer.wording import access_of, buffer_text, edge_of, subject_of, work_text
from device_model.completions import NOTHING, Completion, Nanoseconds
from device_model.contexts import Context
from device_model.device import Device
from device_model.events import Event, FlagEvent
from device_model.memory import Allocation, Origin
from device_model.observe import Observer
from device_model.ops import Op
from device_model.rules import Release
from device_model.signals import Compare, satisfies
from device_model.streams import Stream, UnorderedStream
from device_model.work import H2H, Copy, Extent, HostFunction, Kernel, PitchedCopy, Work

if TYPE_CHECKING:
    from acl_py.runtime.runtime import Runtime
    from device_model.observe import Subject


_new = tuple.__new__
_SHOWN = 3  # ranges in a sentence
_WHY = {
    Kind.RACE: "nothing puts them in order",
    Kind.RELIES: "only a wait in a call that need not wait puts them in order",
}
_FEW = 8  # ranges of an access of the host that are kept one by one
_SIGNALS = ("ResetEvent", "RecordNotify", "WaitAndResetNotify", "ValueWrite", "ValueWait")
_DESTROY_STREAM = ("DestroyStream", "DestroyStreamForce")


class _Wait(NamedTuple):
    """A wait of a host: what it will know, *points*, once *completion* is done, and whether that is *promised*."""

    completion: Completion
    points: list[Point]
    promised: bool


class Races(Observer):
    """Observes *runtime* and adds the races to its findings. If it fails itself, it calls *fail*."""

    def __init__(self, runtime: "Runtime", fail: Callable[[Exception], None]) -> None:
        self.fail = fail
        self._runtime = runtime
        self._findings = runtime.state(Findings)
        self._order = Order()
        self.hosts = Hosts(self._order, self._inside, self._findings.note)
        self._lines = self._order.lines
        self._shadows: dict[int, Shadow] = {}  # by the serial number of a life
        self._recorded: dict[Event, Point] = {}
        self._signals = Signals(self._order)
        self._deferred: list[tuple[Use, Use, Callable[[], None]]] = []  # pairs behind a wait whose set is to come
        self._waits: WeakKeyDictionary[Caller, _Wait] = WeakKeyDictionary()
        self._freed: Allocation | None = None  # the last one

    def close(self) -> None:
        """Report what is left, and watch no more what tasks hand on."""
        deferred, self._deferred = self._deferred, []
        for _, _, report in deferred:
            report()
        self.hosts.close()

    # --- hooks: what streams are given

    def op_queued(self, op: Op) -> None:
        """Take up an operation. This is the hot path: `guarded`, `_use` and `Order.queue` are written out."""
        try:
            stream, host = op.stream, self.hosts.current()
            line = self._lines.get(stream)
            if line is None or self._order.has_several_hosts or (
                (rule := line.rule) is not None and (rule.legacy is stream or line.round != rule.round)
            ):  # fmt: skip
                self._queued(op, host)
                return
            line.count += 1
            use = op.stamp = _new(Use, (line.number, line.count, line.clock, host.clock, host.number, op.work, stream,
                                        op.site, host.name, op.queued_ns))  # fmt: skip
            work = op.work
            if type(work) is Copy:
                size = work.nbytes
                self._touch(use, op.site, work.dst, work.dst_offset, work.dst_offset + size, writes=True)
                self._touch(use, op.site, work.src, work.src_offset, work.src_offset + size, writes=False)
            elif type(work) is HostFunction:
                op.stamp = use._replace(known={**host.clock, host.number: host.count}, host=-1)
            elif type(work) is Kernel:
                for allocation, start, stop in work.written:
                    self._touch(use, op.site, allocation, start, stop, writes=True)
                for allocation, start, stop in work.read:
                    self._touch(use, op.site, allocation, start, stop, writes=False)
            else:
                self._take(use)
        except Exception as error:
            self.fail(error)

    def _queued(self, op: Op, host: Host) -> None:
        """Take up an operation in a stream that gets work for the first time, or of which more is to be thought."""
        if type(op.stream) is UnorderedStream:  # the host waits for it: it does the work itself, as it were
            self._order.act(host)
            use = self._use_of_host(op.work, op.site, op.queued_ns)._replace(stream=op.stream)
        else:
            use = self._use(op.work, op.stream, op.site, op.queued_ns)
        op.stamp = use
        self._take(use)

    @guarded
    def staged(self, copy: Copy, stream: Stream, site: object) -> None:
        """Take up a copy of pageable memory, as one operation."""
        self._take(self._use(copy, stream, site, self._runtime.host_ns))

    @guarded
    def recorded(
        self,
        event: Event,
        stream: Stream,
        enter_ns: Nanoseconds,  # noqa: ARG002
        site: object,  # noqa: ARG002
        completion: Completion,
    ) -> None:
        """Keep what the record stands for."""
        if isinstance(event, FlagEvent):
            self._set(event, stream)
        point = self._recorded[event] = self._order.record(stream, self.hosts.current())
        if completion is not NOTHING and not isinstance(completion, Op):
            completion.stamp = point

    @guarded
    def waited(
        self,
        event: Event,
        stream: Stream,
        enter_ns: Nanoseconds,  # noqa: ARG002
        site: object,  # noqa: ARG002
        completion: Completion,  # noqa: ARG002
    ) -> None:
        """Put the stream behind the last record, or behind what sets the flag."""
        if isinstance(event, FlagEvent):
            self._signals.wait(event, self._order.turn(stream, self.hosts.current()))
            return
        point = self._recorded.get(event)
        self._order.wait(stream, self.hosts.current(), () if point is None else (point,))

    # --- hooks: what the host knows

    @guarded
    def awaiting(self, subjects: "Sequence[Subject]", completion: Completion, promised: bool) -> None:
        """Note what the host will know when its wait is over."""
        points = [point for subject in subjects for point in self._work_of(subject)]
        self._waits[current_caller()] = _Wait(completion, points, promised)

    @guarded
    def synchronized(self, completion: Completion) -> None:
        """Let the host know what it has waited for."""
        wait = self._waits.pop(current_caller(), None)
        if wait is not None and wait.completion is completion and completion.done:
            learn = self._order.learn if wait.promised else self._order.suspect
            learn(self.hosts.current(), wait.points)

    def _work_of(self, subject: "Subject") -> Iterable[Point]:
        order = self._order
        if isinstance(subject, Stream):
            return order.work_of_stream(subject)
        if isinstance(subject, Event):
            return (self._recorded[subject],) if subject in self._recorded else ()
        if isinstance(subject, Context):
            return order.work_of_context(subject)
        if isinstance(subject, Device):
            return order.work_of_device(subject)
        stamp = getattr(subject, "stamp", None)
        return () if stamp is None else (Point(*stamp[:3]),)

    # --- hooks: calls

    @guarded
    def call(
        self,
        name: str,
        enter_ns: Nanoseconds,  # noqa: ARG002
        exit_ns: Nanoseconds,
        site: object,
        about: tuple[Any, ...],
    ) -> None:
        """Take up copies that the host made itself, and ends of streams and events."""
        if name in _DESTROY_STREAM:
            self._order.end(about[0])
        elif name == "DestroyEvent":
            self._recorded.pop(about[0], None)
            self._signals.forget(about[0])
        elif name in _SIGNALS:
            self._signal(name, about)
        elif name == "MallocAsync":
            self._shadow(about[0]).birth = self._use(LifeCall(name), about[1], site, exit_ns)
        elif self._freed is not None and about and about[0] is self._freed:
            self._end(name, about, site, exit_ns)
        elif about and isinstance(about[0], Copy) and about[0].label is H2H and about[0].nbytes:
            self._act(about[0], site, exit_ns)

    @guarded
    def freed(self, allocation: Allocation) -> None:
        """Note that a life ends; the call that ends it follows."""
        self._freed = allocation

    @guarded
    def host_access(self, allocation: Allocation, ranges: Ranges, writes: bool, site: object) -> None:
        """The host, or a host function, has read or written the bytes *ranges* of *allocation* at *site*."""
        access = HostAccess(allocation, ranges, writes)
        stamp = self._calling()
        if stamp is not None:
            self._take(stamp._replace(work=access._replace(by=work_text(stamp.work, writes=writes))))
        else:
            self._act(access, site, self._runtime.host_ns)

    def _calling(self) -> Use | None:
        """Return the host function that runs at the moment."""
        calling = next((device.calling for device in self._runtime.devices if device.calling is not None), None)
        stamp = None if calling is None else getattr(calling, "stamp", None)
        return stamp if isinstance(stamp, Use) else None

    def _inside(self) -> Point | None:
        stamp = self._calling()
        return None if stamp is None else Point(stamp.actor, stamp.epoch, joined(stamp.clock, stamp.known))

    def _signal(self, name: str, about: tuple[Any, ...]) -> None:
        """Take up a call that sets, clears or awaits a signal."""
        match name, about:
            case "ResetEvent", (FlagEvent() as event, Stream() as stream):
                self._signals.clear(event, self._order.record(stream, self.hosts.current()))
            case "RecordNotify", (notify, stream):
                self._set(notify, stream, is_consumed=True)
            case "WaitAndResetNotify", (notify, stream, _):
                line = self._order.turn(stream, self.hosts.current())
                self._signals.wait(notify, line, is_consumed=True)
            case "ValueWrite", (allocation, offset, value, stream):
                self._set((allocation.serial, offset), stream, value)
            case "ValueWait", (allocation, offset, value, flag, stream):
                line = self._order.turn(stream, self.hosts.current())
                self._signals.wait((allocation.serial, offset), line, partial(satisfies, Compare(flag), value))

    def _set(self, key: object, stream: Stream, value: int = 1, *, is_consumed: bool = False) -> None:
        """Set a signal in *stream*, and look again at pairs that were seen behind a wait for it."""
        line = self._order.queue(stream, self.hosts.current())
        if self._signals.set(key, line.point(), value, is_consumed=is_consumed):
            self._settle()

    def _settle(self) -> None:
        """Report the pairs behind waits that have their sets now; the rest waits on."""
        deferred, self._deferred = self._deferred, []
        for earlier, later, report in deferred:
            if self._is_open(earlier, later):
                self._deferred.append((earlier, later, report))
            elif not (self._is_behind_wait(earlier, later) or self._is_behind_wait(later, earlier)):
                report()

    def _is_open(self, one: Use, other: Use) -> bool:
        """Whether either is behind a wait whose set is still to come."""
        return any(self._signals.is_open(use.actor, use.epoch) for use in (one, other))

    def _is_behind_wait(self, waiting: Use, other: Use) -> bool:
        """Whether *waiting* is behind *other* by what a wait has turned out to be behind."""
        line = self._order.by_number(waiting.actor)
        return line is not None and line.clock.get(other.actor, 0) >= other.epoch

    def _act(self, work: Work | HostAccess, site: object, at_ns: Nanoseconds) -> None:
        self._order.act(self.hosts.current())
        self._take(self._use_of_host(work, site, at_ns))

    def _use(self, work: Work | LifeCall, stream: Stream, site: object, at_ns: Nanoseconds) -> Use:
        """Return the use of memory that is given to *stream* now."""
        host = self.hosts.current()
        line = self._order.queue(stream, host)
        known, number = host.clock, host.number
        if isinstance(work, HostFunction):  # what it touches shows when it runs: the host may have done more by then
            known, number = {**known, number: host.count}, -1
        return Use(line.number, line.count, line.clock, known, number, work, stream, site, host.name, at_ns)

    def _use_of_host(self, work: Work | HostAccess | LifeCall, site: object, at_ns: Nanoseconds) -> Use:
        host = self.hosts.current()
        return Use(
            host.number, host.count, host.clock, host.clock, host.number, work, None, site, host.name,
            at_ns,
        )  # fmt: skip

    # --- accesses

    def _take(self, use: Use) -> None:
        """Compare *use* with what came before, and keep it."""
        work, line = use.work, use.site
        if isinstance(work, Work):
            if isinstance(work, PitchedCopy):
                line = line, work.dst_offset, work.dst_pitch, work.src_offset, work.src_pitch, work.width, work.height
            for allocation, start, stop in work.writes():
                self._touch(use, line, allocation, start, stop, writes=True)
            for allocation, start, stop in work.reads():
                self._touch(use, line, allocation, start, stop, writes=False)
        elif isinstance(work, LifeCall):
            return
        elif len(work.ranges) <= _FEW:
            for start, stop in work.ranges:
                self._touch(use, line, work.allocation, start, stop, writes=work.writes)
        else:
            start, stop = work.ranges[0][0], work.ranges[-1][1]
            line = line, hash(tuple(work.ranges))
            self._touch(use, line, work.allocation, start, stop, writes=work.writes)

    def _touch(self, use: Use, line: object, allocation: Allocation, start: int, stop: int, *, writes: bool) -> None:
        """Take up an access to one range. *line* is what tells it from others of the same actor."""
        shadow = self._shadows.get(allocation.serial)
        if shadow is None:
            if allocation.serial < 0:  # pageable memory, which has no life
                return
            shadow = self._shadow(allocation)
        cell = shadow.exact.get((start, stop))
        if cell is not None:
            mine = cell.get(use[0])
            if mine is not None and len(cell) == 1 and use[4] >= 0:  # nobody else has touched it, as most memory
                mine.latest = use[1]
                if writes:
                    mine.latest_write = use[1]
                    mine.writes[line] = use
                else:
                    mine.reads[line] = use
                return
        if shadow.birth is not None and not self._is_known(shadow.birth, use):
            self._add_early(shadow.birth, use, allocation, writes=writes)
        self._compare(use, line, allocation, shadow, start, stop, writes=writes)

    def _compare(
        self, use: Use, line: object, allocation: Allocation, shadow: Shadow, start: int, stop: int, *, writes: bool
    ) -> None:
        actor, epoch, clock, known, host = use[:5]
        conflicts = False
        for cell in shadow.cells(start, stop):
            mine = cell.get(actor)
            if mine is None:
                mine = cell[actor] = Uses()
            if len(cell) > 1:
                for other, uses in cell.items():
                    if other != actor and other != host:
                        latest = uses.latest if writes else uses.latest_write
                        if latest > clock.get(other, 0) and latest > known.get(other, 0):
                            conflicts = True
            if epoch > mine.latest:  # a host function takes its turn late
                mine.latest = epoch
            if writes:
                if epoch > mine.latest_write:
                    mine.latest_write = epoch
                mine.writes[line] = use
            else:
                mine.reads[line] = use
        if conflicts:
            self._report(use, allocation, shadow, start, stop, writes=writes)

    def _report(self, use: Use, allocation: Allocation, shadow: Shadow, start: int, stop: int, *, writes: bool) -> None:
        """Add a finding for each earlier access that is in no order with *use*."""
        pairs: dict[tuple[int, bool], Use] = {}
        for cell, _, _ in shadow.spans(start, stop):
            for uses in cell.values():
                for wrote, earlier_uses in ((True, uses.writes), (False, uses.reads if writes else {})):
                    for earlier in earlier_uses.values():
                        if not self._is_ordered(earlier, use):
                            pairs[id(earlier), wrote] = earlier
        for (_, wrote), earlier in pairs.items():
            both = overlap(_ranges(earlier, allocation, writes=wrote), _ranges(use, allocation, writes=writes))
            if not wrote and (id(earlier), True) in pairs:  # told as a write already, if those bytes overlap
                wrote_too = _ranges(earlier, allocation, writes=True)
                if overlap(wrote_too, _ranges(use, allocation, writes=writes)):
                    continue
            if not both:
                continue
            report = partial(self._add, earlier, use, allocation, both, wrote=wrote, writes=writes)
            if self._signals.open and self._is_open(earlier, use):
                self._deferred.append((earlier, use, report))
            else:
                report()

    def _shadow(self, allocation: Allocation) -> Shadow:
        shadow = self._shadows.get(allocation.serial)
        if shadow is None:
            shadow = self._shadows[allocation.serial] = Shadow(allocation.nbytes)
        return shadow

    # --- lives

    def _end(self, name: str, about: tuple[Any, ...], site: object, at_ns: Nanoseconds) -> None:
        """End the life of memory in a call of *name*: all that uses it must be over."""
        allocation, self._freed = about[0], None
        if len(about) > 1:
            end = self._use(LifeCall(name), about[1], site, at_ns)
        else:
            end = self._use_of_host(LifeCall(name), site, at_ns)
        shadow = self._shadows.pop(allocation.serial, None)
        if shadow is None:
            return
        if shadow.birth is not None and not self._is_known(shadow.birth, end):
            self._add_early(shadow.birth, end, allocation, writes=True)
        if self._waits_for_device(allocation, end):
            return
        for use, writes in shadow.uses():
            if not self._is_known(use, end):
                self._add_in_use(use, end, allocation, writes=writes)

    def _waits_for_device(self, allocation: Allocation, end: Use) -> bool:
        """Whether the call that ends this life waits for all work of the device, as programs are used to."""
        waits = self._runtime.rules.release is Release.WAITS_FOR_DEVICE
        return waits and end.stream is None and allocation.origin is not Origin.POOL

    def _is_ordered(self, one: Use, other: Use) -> bool:
        """Whether *one*, which was taken up first, is over before *other*; or after it, if that is a host function."""
        if self._is_known(one, other):
            return True
        return other.host < 0 and max(one.clock.get(other.actor, 0), one.known.get(other.actor, 0)) >= other.epoch

    @staticmethod
    def _is_known(earlier: Use, later: Use) -> bool:
        actor = earlier.actor
        if actor in (later.actor, later.host):
            return True
        return max(later.clock.get(actor, 0), later.known.get(actor, 0)) >= earlier.epoch

    # --- findings

    def _add(
        self, earlier: Use, later: Use, allocation: Allocation, ranges: Ranges, *, wrote: bool, writes: bool
    ) -> None:
        reached = self.hosts.current().unpromised.get(earlier.actor, 0)
        kind = Kind.RELIES if reached >= earlier.epoch else Kind.RACE
        if later.at_ns < earlier.at_ns:  # a host function, which runs later than it was queued
            earlier, later, wrote, writes = later, earlier, writes, wrote
        first, second = access_of(earlier, writes=wrote), access_of(later, writes=writes)
        buffer = buffer_text(allocation)
        spans = tuple(Span(buffer, start, stop) for start, stop in ranges)
        shown = ", ".join(map(str, spans[:_SHOWN])) + (
            f" and {len(spans) - _SHOWN} more" if len(spans) > _SHOWN else ""
        )
        both = wrote and writes
        text = (
            f"{subject_of(first)} {'writes' if wrote else 'reads'} {shown}, and {subject_of(second)} "
            f"{'writes' if writes else 'reads'} {'it too' if both else 'it'}: {_WHY[kind]}"
        )
        missing, fix = edge_of(earlier, later)
        self._findings.add(Finding(kind, text, (first, second), spans, missing, fix))

    def _add_early(self, birth: Use, use: Use, allocation: Allocation, *, writes: bool) -> None:
        """Add a use of memory that does not wait for its allocation."""
        first, second = access_of(birth, writes=True), access_of(use, writes=writes)
        buffer = buffer_text(allocation)
        text = f"{subject_of(second)} uses {buffer} without waiting for its allocation, {subject_of(first)}"
        missing, fix = edge_of(birth, use)
        span = Span(buffer, 0, allocation.nbytes)
        self._findings.add(Finding(Kind.BEFORE_ALLOCATION, text, (first, second), (span,), missing, fix))

    def _add_in_use(self, use: Use, end: Use, allocation: Allocation, *, writes: bool) -> None:
        """Add the end of a life that does not wait for a use of the memory."""
        first, second = access_of(use, writes=writes), access_of(end, writes=True)
        buffer = buffer_text(allocation)
        text = f"{subject_of(second)} frees {buffer} without waiting for {subject_of(first)}, which uses it"
        missing, fix = edge_of(use, end)
        span = Span(buffer, 0, allocation.nbytes)
        self._findings.add(Finding(Kind.FREE_IN_USE, text, (first, second), (span,), missing, fix))


def _ranges(use: Use, allocation: Allocation, *, writes: bool) -> Ranges:
    """Return the bytes of *allocation* that *use* reads or *writes*, rows apart."""
    work = use.work
    if isinstance(work, HostAccess):
        return work.ranges
    assert isinstance(work, Work), f"{work!r} touches no bytes"
    rows: Iterable[Extent] = work.written_rows() if writes else work.read_rows()
    return _merged(sorted((start, stop) for other, start, stop in rows if other is allocation))


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for start, stop in ranges:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged
