"""Races: pairs of accesses to the same bytes that nothing puts in order, and of which one writes.

This is the observer that walks along with a program: it keeps the relation (order.py) and the shadows of memory
(shadow.py), and compares each operation when it is queued, and each access of the host when it is made, with those
before it. What it says of a pair does not depend on times.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from acl_py.callers import Caller, current_caller, row_name
from acl_py.sanitizer.findings import Finding, Findings, Kind, Span
from acl_py.sanitizer.guards import guarded
from acl_py.sanitizer.order import Order, Point
from acl_py.sanitizer.shadow import HostAccess, LifeCall, Ranges, Shadow, Use, Uses, overlap
from acl_py.sanitizer.wording import access_of, buffer_text, edge_of, subject_of
from device_model.completions import NOTHING, Completion, Nanoseconds
from device_model.contexts import Context
from device_model.device import Device
from device_model.events import Event
from device_model.memory import Allocation, Origin
from device_model.observe import Observer
from device_model.ops import Op
from device_model.rules import Release
from device_model.streams import Stream, UnorderedStream
from device_model.work import H2H, Copy, Extent, PitchedCopy, Work

if TYPE_CHECKING:
    from acl_py.runtime.runtime import Runtime
    from device_model.observe import Subject


_SHOWN = 3  # ranges in a sentence
_FEW = 8  # ranges of an access of the host that are kept one by one
_DESTROY_STREAM = ("DestroyStream", "DestroyStreamForce")


class _Wait(NamedTuple):
    """A wait of a host that has begun: what it will know, *points*, once *completion* is done."""

    completion: Completion
    points: list[Point]


class Races(Observer):
    """Observes *runtime* and adds the races to its findings. If it fails itself, it calls *fail*."""

    def __init__(self, runtime: "Runtime", fail: Callable[[Exception], None]) -> None:
        self.fail = fail
        self._runtime = runtime
        self._findings = runtime.state(Findings)
        self._order = Order()
        self._host = self._order.host()
        self._shadows: dict[int, Shadow] = {}  # by the serial number of a life
        self._recorded: dict[Event, Point] = {}
        self._waits: dict[Caller, _Wait] = {}
        self._freed: Allocation | None = None  # the last one
        self._names: dict[Caller, str] = {}
        self.place: Callable[[], object] | None = None  # where the program is, if it has no lines of Python

    # --- hooks: what streams are given

    @guarded
    def op_queued(self, op: Op) -> None:
        """Take up an operation."""
        host, stream, order = self._host, op.stream, self._order
        if type(stream) is UnorderedStream:  # the host waits for it: it does the work itself, as it were
            count = order.act(host)
            use = Use(
                host.number, count, host.clock, op.work, stream, self._site(op.site), self._caller(), op.queued_ns
            )
        else:
            line = order.queue(stream, host)
            use = Use(
                line.number, line.count, line.clock, op.work, stream, self._site(op.site), self._caller(), op.queued_ns
            )
        op.stamp = use
        self._take(use)

    @guarded
    def staged(self, copy: Copy, stream: Stream, site: object) -> None:
        """Take up a copy of pageable memory, as one operation."""
        line = self._order.queue(stream, self._host)
        now = self._runtime.host_ns
        self._take(Use(line.number, line.count, line.clock, copy, stream, self._site(site), self._caller(), now))

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
        point = self._recorded[event] = self._order.record(stream, self._host)
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
        """Put the stream behind the last record."""
        point = self._recorded.get(event)
        self._order.wait(stream, self._host, () if point is None else (point,))

    # --- hooks: what the host knows

    @guarded
    def awaiting(self, subjects: "Sequence[Subject]", completion: Completion, promised: bool) -> None:
        """Note what the host will know when its wait is over."""
        if promised:
            points = [point for subject in subjects for point in self._work_of(subject)]
            self._waits[current_caller()] = _Wait(completion, points)

    @guarded
    def synchronized(self, completion: Completion) -> None:
        """Let the host know what it has waited for."""
        wait = self._waits.pop(current_caller(), None)
        if wait is not None and wait.completion is completion and completion.done:
            self._order.learn(self._host, wait.points)

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
        elif name == "MallocAsync":
            self._shadow(about[0]).birth = self._turn(name, about[1], site, exit_ns)
        elif about and about[0] is self._freed:
            self._end(name, about, site, exit_ns)
        elif about and isinstance(about[0], Copy) and about[0].label is H2H and about[0].nbytes:
            self._act(about[0], site, exit_ns)

    @guarded
    def freed(self, allocation: Allocation) -> None:
        """Note that a life ends; the call that ends it follows."""
        self._freed = allocation

    @guarded
    def host_access(self, allocation: Allocation, ranges: Ranges, writes: bool, site: object) -> None:
        """The host has read or written the bytes *ranges* of *allocation* at *site*."""
        self._act(HostAccess(allocation, ranges, writes), site, self._runtime.host_ns)

    def _act(self, work: Work | HostAccess, site: object, at_ns: Nanoseconds) -> None:
        host = self._host
        count = self._order.act(host)
        self._take(Use(host.number, count, host.clock, work, None, self._site(site), self._caller(), at_ns))

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
        if allocation.serial < 0:  # pageable memory, which has no life
            return
        shadow = self._shadows.get(allocation.serial)
        if shadow is None:
            shadow = self._shadow(allocation)
        if shadow.birth is not None and not self._is_known(shadow.birth, use):
            self._add_early(shadow.birth, use, allocation, writes=writes)
        actor, count, clock = use[:3]
        host = self._host
        known, conflicts = host.clock, False
        for cell in shadow.cells(start, stop):
            for other, uses in cell.items():
                if other != actor and other != host.number:
                    latest = uses.latest if writes else uses.latest_write
                    if latest > clock.get(other, 0) and latest > known.get(other, 0):
                        conflicts = True
            mine = cell.get(actor)
            if mine is None:
                mine = cell[actor] = Uses()
            mine.latest = count
            if writes:
                mine.latest_write = count
                mine.writes[line] = use
            else:
                mine.reads[line] = use
        if conflicts:
            self._report(use, allocation, shadow, start, stop, writes=writes)

    def _report(self, use: Use, allocation: Allocation, shadow: Shadow, start: int, stop: int, *, writes: bool) -> None:
        """Add a finding for each earlier access that is in no order with *use*."""
        pairs: dict[int, tuple[Use, bool]] = {}
        for cell, _, _ in shadow.spans(start, stop):
            for other, uses in cell.items():
                if other == use.actor or other == self._host.number:
                    continue
                reads = uses.reads.values() if writes else ()
                for earlier in reads:
                    if not self._is_known(earlier, use):
                        pairs.setdefault(id(earlier), (earlier, False))
                for earlier in uses.writes.values():
                    if not self._is_known(earlier, use):
                        pairs[id(earlier)] = (earlier, True)
        for earlier, wrote in pairs.values():
            both = overlap(_ranges(earlier, allocation, writes=wrote), _ranges(use, allocation, writes=writes))
            if both:
                self._add(earlier, use, allocation, both, wrote=wrote, writes=writes)

    def _shadow(self, allocation: Allocation) -> Shadow:
        shadow = self._shadows.get(allocation.serial)
        if shadow is None:
            shadow = self._shadows[allocation.serial] = Shadow(allocation.nbytes)
        return shadow

    # --- lives

    def _turn(self, name: str, stream: Stream, site: object, at_ns: Nanoseconds) -> Use:
        """Return the use that a call of *name* makes of memory when *stream* comes to it."""
        line = self._order.queue(stream, self._host)
        return Use(line.number, line.count, line.clock, LifeCall(name), stream, self._site(site), self._caller(), at_ns)

    def _end(self, name: str, about: tuple[Any, ...], site: object, at_ns: Nanoseconds) -> None:
        """End the life of memory in a call of *name*: all that uses it must be over."""
        allocation, self._freed = about[0], None
        if len(about) > 1:
            end = self._turn(name, about[1], site, at_ns)
        else:
            host = self._host
            end = Use(
                host.number, host.count, host.clock, LifeCall(name), None, self._site(site), self._caller(), at_ns
            )
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

    def _is_known(self, earlier: Use, later: Use) -> bool:
        actor = earlier.actor
        if actor in (later.actor, self._host.number):
            return True
        return max(later.clock.get(actor, 0), self._host.clock.get(actor, 0)) >= earlier.epoch

    # --- findings

    def _add(
        self, earlier: Use, later: Use, allocation: Allocation, ranges: Ranges, *, wrote: bool, writes: bool
    ) -> None:
        first, second = access_of(earlier, writes=wrote), access_of(later, writes=writes)
        buffer = buffer_text(allocation)
        spans = tuple(Span(buffer, start, stop) for start, stop in ranges)
        shown = ", ".join(map(str, spans[:_SHOWN])) + (
            f" and {len(spans) - _SHOWN} more" if len(spans) > _SHOWN else ""
        )
        both = wrote and writes
        text = (
            f"{subject_of(first)} {'writes' if wrote else 'reads'} {shown}, and {subject_of(second)} "
            f"{'writes' if writes else 'reads'} {'it too' if both else 'it'}: nothing puts them in order"
        )
        missing, fix = edge_of(earlier, later)
        self._findings.add(Finding(Kind.RACE, text, (first, second), spans, missing, fix))

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

    def _site(self, site: object) -> object:
        return site if self.place is None else self.place()

    def _caller(self) -> str:
        caller = current_caller()
        name = self._names.get(caller)
        if name is None:
            name = self._names[caller] = row_name(caller, len(self._names) + 1)
        return name


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
