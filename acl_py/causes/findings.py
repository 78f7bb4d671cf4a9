"""Findings: the implicit waits of a program.

A wait is implicit if the program did not ask for it: a call or an operation waited by a rule of the API.

Each finding is one line of the program, with all calls and operations that it concerns. It says what waited and for
how long, and what a person can change. How long something waited is not what the change is worth: a wait may be hidden
behind other work. For that, see `prices`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from acl_py.calls.acts import Act, Completed, Destroyed, GraphLaunched, Queued, leaves
from acl_py.calls.table import FAULTS
from acl_py.causes.captured import Captured
from acl_py.causes.lines import us
from acl_py.causes.partners import Partners
from acl_py.causes.slack import successive
from acl_py.causes.walk import is_pageable
from acl_py.trace.rows.columns import CallKind, OpColumns, call_columns, op_columns
from acl_py.trace.rows.ranks import Delivery, Meeting
from acl_py.trace.rows.reading import as_timeline, launching, site_of_call
from acl_py.trace.rows.timeline import (
    Call,
    Copied,
    Filled,
    Memory,
    Migration,
    Operation,
    Sleep,
    StreamStep,
    Timeline,
)
from acl_py.wording import reword, words_at
from device_model.completions import Why


class Pitfall(StrEnum):
    """What kind of wait a finding is about; those from IN_LOOP on are habits, which explain finds in programs."""

    LEGACY = "legacy stream"
    PAGEABLE = "pageable copy"
    FREE = "free"
    DESTROY = "destroy"
    FULL_QUEUE = "full queue"
    SHARED_QUEUE = "shared queue"
    SYNC_COPY = "synchronous copy"
    PAGE_FAULTS = "page faults"
    LATE_RANK = "late rank"
    IN_LOOP = "made in a loop"
    PIECES = "small pieces"
    REPEATED = "repeated launches"
    SMALL_KERNELS = "small kernels"
    LATE_PINNED = "pinned late"
    PRIORITY = "priority"
    ONE_STREAM = "one stream"
    LARGE_COPY = "large copy"
    WRONG_RECORD = "record in the wrong stream"
    EARLY_SEND = "early send"


# Findings about work that takes turns: how long its calls took says nothing of that.
_WITHOUT_TIME = (Pitfall.EARLY_SEND, Pitfall.LARGE_COPY, Pitfall.ONE_STREAM, Pitfall.PRIORITY)


@dataclass(slots=True)
class Finding:
    """One finding. *held_ns* adds up the waits, and *waits* has the begin and the end of each; *calls* and *ops* are
    indices, and all of them lie from *begin_ns* to *end_ns*. *what* says what happened, and *edit* what to change.

    The findings of habits, which add up calls, have no *waits*.
    """

    pitfall: Pitfall
    site: str
    what: str
    edit: str
    held_ns: int = 0
    begin_ns: int = 0
    end_ns: int = 0
    calls: list[int] = field(default_factory=list)
    ops: list[int] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)

    def hold(self, waits: Iterable[tuple[int, int]]) -> None:
        """Add *waits*, those that took time."""
        for begin_ns, end_ns in waits:
            if begin_ns < end_ns:
                self.waits.append((begin_ns, end_ns))
                self.held_ns += end_ns - begin_ns

    @property
    def often(self) -> str:
        """How often it happened, as the end of a sentence."""
        times = max(len(self.calls), len(self.ops))
        return "" if times <= 1 else f", {times:,} times"

    @property
    def text(self) -> str:
        """The finding in two sentences."""
        lasted = "" if self.pitfall in _WITHOUT_TIME else f"{self.often}, for {us(self.held_ns)}"
        return f"{self.site}: {self.what}{lasted}. {self.edit}"


def findings(timeline: Timeline, since_ns: int = 0) -> list[Finding]:
    """Return all findings of *timeline*, those with the longest waits first; with *since_ns*, those of calls that
    began, and of operations that were queued, after that time.
    """
    timeline = as_timeline(timeline)
    found = _Found(timeline, since_ns)
    found.look_at_calls()
    found.look_at_ops()
    found.look_at_launches()
    found.look_at_migrations()
    found.look_at_collectives()
    return sorted(found.by_place.values(), key=lambda finding: -finding.held_ns)


def findings_text(found: Sequence[Finding]) -> str:
    """Return *found* as plain text, a line for each."""
    if not found:
        return "findings: none: no call and no operation waited without being asked to (races: see the sanitizer)"
    return "\n".join([f"findings: {len(found):,}", *(f"  {finding.text}" for finding in found)])


_PINNED = "Use pinned memory: MallocHost() instead of an array, or HostRegister() once before the loop"
_STAGED = "a copy from pageable memory kept the host, which copied the bytes to buffers of the driver"
_STAGED_AND_WAITED = f"{_STAGED} and waited for room in them"
_UNSTAGED = "a copy to pageable memory kept the host until it was done"
_IN_GRAPH = "a copy of pageable memory in a graph kept the host in the launch until all of it was done"
_PAGEABLE_ACL = "a copy of pageable memory kept the host until its stream and the copy were done"
_BY_HOST = "Copy without the device, for example with numpy.copyto(), as soon as the bytes are there"
_PREFETCH = "Move them before they are used: MemPrefetchAsync() in a stream, while other work runs"
_STAY = "Let the pages prefer the device, or move them there: MemPrefetchAsync()"
_PREFETCH_BACK = "Move them before they are used: MemPrefetchAsync(..., CPU_DEVICE_ID) behind the work that writes them"
_FREES = {
    "Free": "Use FreeAsync() in the stream that used the memory last, or free it behind the last synchronisation",
    "FreeHost": "Keep the memory for the next round, or free it behind the last synchronisation",
    "HostUnregister": "Keep it registered for the next round, or unregister it behind the last synchronisation",
}
_WAIT_UNASKED = (Destroyed, Completed, Queued, GraphLaunched)  # and frees: by the name of the call
_LATE_NS = 20_000  # a task that makes the calls of all ranks takes up to this from one rank to the next
BARRIERS = (Pitfall.LEGACY, Pitfall.SYNC_COPY)  # what waited by these rules is in order; frees promise none


_Waits: TypeAlias = Iterable[tuple[int, int]]


class _Found:
    """The findings so far, one for each pitfall and place."""

    def __init__(self, timeline: Timeline, since_ns: int) -> None:
        self.timeline = timeline
        self.ops, self.calls = op_columns(timeline.ops), call_columns(timeline.calls)
        self.since_ns = since_ns
        self.by_place: dict[tuple[Pitfall, str, str], Finding] = {}
        self.is_acl = timeline.rules == "acl"
        first = next((kind for kind in self.calls.kinds if kind.function), None)
        self.function = "" if first is None else first.function  # of a script
        self.words = "" if first is None else words_at(first.file, first.function)
        self.is_script = self.function.startswith("acl")  # it uses the module acl

    @cached_property
    def counted(self) -> npt.NDArray[np.bool_]:
        """Which operations were queued after `since_ns`; the last one before may have been queued at that time."""
        return (self.ops.queued_ns > self.since_ns) | (self.since_ns == 0)

    @cached_property
    def before(self) -> list[int]:
        return _previous(self.ops)

    @cached_property
    def legacy_steps(self) -> list[StreamStep]:
        return [step for step in self.timeline.steps if is_legacy(step)]

    @cached_property
    def sync_copies(self) -> list[Call]:
        copies = [call for call in self.timeline.calls if isinstance(call.act, Completed)]
        return sorted(copies, key=attrgetter("enter_ns"))

    @cached_property
    def captured(self) -> set[int]:
        return Captured(self.timeline).calls

    @property
    def _own_stream(self) -> str:
        return "CreateStream()" if self.is_script else "CreateStream(nonblocking=True)"  # all of acl's streams block

    def look_at_calls(self) -> None:
        """Note what calls waited for without being asked to."""
        calls = self.calls
        of_pageable = np.array([self._is_of_pageable(kind) for kind in calls.kinds], bool)
        may_wait = np.array([_may_wait(kind) for kind in calls.kinds], bool)
        slept = calls.sleeps.call
        is_of_interest = of_pageable[calls.kind]
        is_of_interest[slept] |= may_wait[calls.kind[slept]]
        is_of_interest[[*self.captured]] = False
        is_of_interest &= calls.enter_ns >= self.since_ns
        for index in np.flatnonzero(is_of_interest).tolist():
            self._look_at_call(index, self.timeline.calls[index])

    def look_at_ops(self) -> None:
        """Note which lines held operations back without being asked to."""
        held = (self.ops.after >= 0) & np.isin(self.ops.why, (Why.LEGACY, Why.QUEUE)) & self.counted
        for index in np.flatnonzero(held).tolist():
            op = self.timeline.ops[index]
            self._look_at_op(index, op, self.timeline.ops[self.ops.after[index]])

    def look_at_launches(self) -> None:
        """Note which captured copies of pageable memory kept the host in launches: it makes them itself."""
        nodes = np.flatnonzero((self.ops.launch >= 0) & self.counted).tolist()
        call_of = launching(self.ops, self.calls).tolist()
        lines = {site_of_call(call): index for index in self.captured for call in [self.timeline.calls[index]]}
        for index in nodes:
            op, call = self.timeline.ops[index], call_of[int(self.ops.launch[index])]
            if call >= 0 and op.site in lines and self._is_copy_of_pageable(op):
                launch = self.timeline.calls[call]
                if launch.after is not None and self.ops.launch[launch.after] == op.launch:
                    finding = self._call(Pitfall.PAGEABLE, lines[op.site], _waits(launch), _IN_GRAPH, _PINNED)
                    del finding.calls[1:]  # the copy was captured once, and made by each launch
                    finding.ops.append(index)
                    finding.end_ns = max(finding.end_ns, launch.exit_ns)

    def _is_copy_of_pageable(self, op: Operation) -> bool:
        """Whether *op* is a copy with an end in pageable memory; a recording has no bytes of arrays."""
        ends = (*op.reads, *op.writes)
        spaces = {self.timeline.buffers[each.buffer].space for each in ends if each.buffer >= 0}
        return op.kind in ("h2d", "d2h") and (len(spaces) < 2 or "pageable" in spaces)

    def look_at_migrations(self) -> None:
        """Note which operations, and which lines of the host, waited for pages of managed memory."""
        lasting = [each for each in self.timeline.migrations if each.end_ns > each.begin_ns]
        migrations = [each for each in lasting if each.begin_ns >= self.since_ns]
        if not migrations:
            return
        ops = {(op.start_ns, op.name, op.stream): index for index, op in enumerate(self.timeline.ops)}
        calls = {call.enter_ns: index for index, call in enumerate(self.timeline.calls) if call.name == FAULTS}
        for each in migrations:
            if each.stream:
                self._look_at_op_migration(each, ops.get((each.begin_ns, each.name, each.stream)))
            elif each.to_host:
                self._look_at_host_migration(each, calls.get(each.begin_ns))

    def look_at_collectives(self) -> None:
        """Note which ranks came to collectives much later than those that waited for them."""
        partners = Partners(self.timeline, self.ops)
        for meeting in partners.meetings:
            self._look_at_meeting(meeting)
        ranks = {each.send: each.sender for each in partners.deliveries}
        ranks |= {each.recv: each.receiver for each in partners.deliveries}
        seen: set[int] = set()  # a part counts once, with the last of those that it has waited for
        for each in partners.deliveries:
            for op, other in ((each.send, each.recv), (each.recv, each.send)):
                if partners.last.get(op) == other and op not in seen:
                    seen.add(op)
                    self._look_at_delivery(each, op, other, ranks)

    def _look_at_meeting(self, meeting: Meeting) -> None:
        """Note the last rank if the others have waited for longer than the collective took."""
        if len(meeting.ops) < 2:
            return
        ops = {rank: self.timeline.ops[index] for rank, index in meeting.ops.items()}
        *_, before, last = sorted(ops, key=lambda rank: (ops[rank].start_ns, rank))
        what = f"rank {last} of {meeting.name} is late: the others wait in {meeting.kind}"
        self._late(meeting.ops[last], last, ops[before].start_ns, what, meeting.number)

    def _look_at_delivery(self, delivery: Delivery, op: int, other: int, ranks: Mapping[int, int]) -> None:
        """Note the rank of *other* if *op*, the other side of *delivery*, has waited for it longest."""
        waiting = self.timeline.ops[op]
        what = f"rank {ranks[other]} of {delivery.name} is late: rank {ranks[op]} waits in {waiting.name}"
        self._late(other, ranks[other], waiting.start_ns, what, delivery.number)

    def _late(self, last: int, rank: int, since: int, what: str, number: int) -> None:
        """Note that the operation *last* of *rank* came late to the collective *number*, for which others had waited
        *since*, if they have waited for longer than it took.
        """
        op = self.timeline.ops[last]
        if not self.counted[last] or op.start_ns - since <= max(_LATE_NS, op.end_ns - op.start_ns):
            return
        cause = None if op.after is None else self.timeline.ops[op.after]
        edit = f"Queue it earlier on rank {rank}"
        if cause is not None:
            edit = f"Give rank {rank} less work before it: it waited for {cause.name} ({cause.site})"
        key = Pitfall.LATE_RANK, op.site, what
        known = self.by_place.get(key)
        first = number if known is None else known.what.removeprefix(what).split()[0]
        finding = self._finding(*key, edit, since, op.start_ns)
        finding.what = f"{what} {first}" if known is None else f"{what} {first} to {number}"
        finding.ops.append(last)
        finding.hold([(since, op.start_ns)])

    def _look_at_host_migration(self, migration: Migration, index: int | None) -> None:
        """Note that the host waited for pages, in the call *index*; None if that is a part of a step of a program."""
        what, times = "the host waited for pages of managed memory that were on a device", _times(migration)
        if index is not None:
            self._call(Pitfall.PAGE_FAULTS, index, [times], what, _PREFETCH_BACK)
            return
        place = Pitfall.PAGE_FAULTS, migration.site, what
        self._finding(*place, _PREFETCH_BACK, *times).hold([times])

    def _look_at_op_migration(self, migration: Migration, index: int | None) -> None:
        """Note that the operation *index* waited for pages; None if it has not ended."""
        if index is None or self.timeline.ops[index].kind.startswith("prefetch"):
            return
        what, edit = f"{migration.name} waited for pages of managed memory", _PREFETCH
        if not migration.to_device and migration.remote:
            what, edit = f"{migration.name} reached memory of the host over the bus", _STAY
        site = self.timeline.ops[index].site
        finding = self._finding(Pitfall.PAGE_FAULTS, site, what, edit, *_times(migration))
        finding.ops.append(index)
        finding.hold([_times(migration)])

    def _look_at_call(self, index: int, call: Call) -> None:
        lasted = [(call.enter_ns, call.exit_ns)]
        asleep = [_times(sleep) for sleep in call.sleeps if sleep.begin_ns < sleep.end_ns]
        copy = _copied(call)
        if copy is not None and self._is_of_pageable(call):
            staged = _PAGEABLE_ACL if self.is_acl else _STAGED if copy.kind == "h2d" else _UNSTAGED
            waited = _STAGED_AND_WAITED if staged is _STAGED else staged
            self._staged(Pitfall.PAGEABLE, index, lasted, staged, waited, _PINNED)
        elif copy is not None and copy.kind == "h2h" and call.waited_ns:
            what = f"{call.called}() from host to host waited for earlier work, and then the host copied"
            self._call(Pitfall.SYNC_COPY, index, _waits(call), what, _BY_HOST)
        elif not asleep:
            return
        elif call.name in _FREES:
            what = f"{call.called}() waited for all work of the device"
            edit = _FREES["FreeHost" if self.is_script and call.name == "Free" else call.name]  # acl has no FreeAsync
            self._call(Pitfall.FREE, index, _waits(call), what, edit)
        elif isinstance(call.act, Destroyed):
            edit = "Destroy it behind a synchronisation that the program needs anyway"
            self._call(Pitfall.DESTROY, index, _waits(call), f"{call.called}() waited for work", edit)
        elif isinstance(call.act, Completed):
            edit = f"Use {call.name}Async() in a stream"
            if not _is_of_device(call.act, self.timeline.buffers):
                edit += ", with pinned memory, and synchronise before the result is used"
            staged, waited = f"in {call.called}(), {_STAGED}", f"{call.called}() waited for its work"
            self._staged(Pitfall.SYNC_COPY, index, asleep, staged, waited, edit)
        elif isinstance(call.act, Queued | GraphLaunched) and not self._waited_for_own_work(call):
            edit = "Queue fewer and larger operations, or use more streams"
            what = f"{call.called}() waited for room in a full queue"
            self._call(Pitfall.FULL_QUEUE, index, _waits(call), what, edit)

    def _look_at_op(self, index: int, op: Operation, other: Operation) -> None:
        """Note which line held the operation *index* back, which waited for *other*."""
        if op.why is Why.LEGACY:
            self._legacy(index, op, other)
        else:
            what = f"work of other streams waited in a hardware queue behind {other.name} of {other.stream}"
            edit = "Queue the other work first, or use fewer streams: streams beyond the number of queues share them"
            self._op(Pitfall.SHARED_QUEUE, index, other.site, what, edit)

    def _legacy(self, index: int, op: Operation, other: Operation) -> None:
        """Note the work, or the record or wait, of the legacy stream that stands between *op* and *other*."""
        edit = f"Give the work of the legacy stream a stream made with {self._own_stream}"
        waited = "work of blocking streams waited for the legacy stream"
        if is_legacy(op):
            self._op(Pitfall.LEGACY, index, op.site, "work of the legacy stream waited for blocking streams", edit)
        elif is_legacy(other):
            self._op(Pitfall.LEGACY, index, other.site, waited, edit)
        else:
            self._legacy_between(index, op, edit, waited)

    def _legacy_between(self, index: int, op: Operation, edit: str, waited: str) -> None:
        """Note what stood between *op* and an operation of another blocking stream. That is a record or wait of the
        legacy stream, or a synchronous copy or fill that had begun, and had not yet queued anything.
        """
        step = next((step for step in reversed(self.legacy_steps) if step.queued_ns <= op.queued_ns), None)
        place = bisect_right(self.sync_copies, op.queued_ns, key=attrgetter("enter_ns"))
        call = self.sync_copies[place - 1] if place else None
        if call is not None and (step is None or step.queued_ns < call.enter_ns):
            self._op(Pitfall.LEGACY, index, site_of_call(call), waited, edit)
        elif step is not None:
            edit = f"Let another stream, made with {self._own_stream}, {step.kind} the event"
            self._op(Pitfall.LEGACY, index, step.site, f"{waited}, where an event is recorded or waited for", edit)

    def _is_of_pageable(self, call: Call | CallKind) -> bool:
        """Whether *call* is an asynchronous copy between the host and the device, of pageable memory."""
        copy = _copied(call)
        return copy is not None and copy.kind in ("h2d", "d2h") and is_pageable(call.act, self.timeline.buffers)

    def _waited_for_own_work(self, call: Call) -> bool:
        """Whether *call* has slept for what it had queued itself, as a launch does for copies of pageable memory."""
        return call.after is not None and bool(self.ops.queued_ns[call.after] >= call.enter_ns)

    def _staged(self, pitfall: Pitfall, index: int, waits: _Waits, staged: str, waited: str, edit: str) -> None:
        """Note a call in which the host copied. What is said of its line is *waited* if any of its calls waited."""
        finding = self._call(pitfall, index, waits, staged, edit)
        if self.timeline.calls[index].waited_ns:
            finding.what = waited

    def _call(self, pitfall: Pitfall, index: int, waits: _Waits, what: str, edit: str) -> Finding:
        call = self.timeline.calls[index]
        finding = self._finding(pitfall, site_of_call(call), what, edit, call.enter_ns, call.exit_ns)
        finding.calls.append(index)
        finding.hold(waits)
        return finding

    def _op(self, pitfall: Pitfall, index: int, site: str, what: str, edit: str) -> None:
        op = self.timeline.ops[index]
        free = max(op.queued_ns, self.before[index])  # it could have started then
        finding = self._finding(pitfall, site, what, edit, free, op.start_ns)
        finding.ops.append(index)
        finding.hold([(free, op.start_ns)])

    def _finding(self, pitfall: Pitfall, site: str, what: str, edit: str, begin_ns: int, end_ns: int) -> Finding:
        finding = self.by_place.setdefault(
            (pitfall, site, what), Finding(pitfall, site, what, self._worded(edit), begin_ns=begin_ns, end_ns=end_ns)
        )
        finding.begin_ns, finding.end_ns = min(finding.begin_ns, begin_ns), max(finding.end_ns, end_ns)
        return finding

    def _worded(self, edit: str) -> str:
        return reword(edit, self.words) if self.words else edit


def _times(row: Migration | Sleep) -> tuple[int, int]:
    return row.begin_ns, row.end_ns


def _waits(row: Call | Sleep) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each wait that `waited_ns` of *row* adds up."""
    for sleep in row.sleeps if isinstance(row, Call) else row.waits or ():
        if sleep.waits is None:
            yield _times(sleep)
        else:
            yield from _waits(sleep)


def is_legacy(row: Operation | StreamStep) -> bool:
    """Whether *row* is in the legacy stream, which no program has made or named."""
    return row.stream.startswith("legacy")


def _copied(call: Call | CallKind) -> Copied | None:
    """Return what *call* copies, if it does."""
    return next((each for each in leaves(call.act) if isinstance(each, Copied)), None)


def _is_of_device(act: Act[Any], buffers: Sequence[Memory]) -> bool:
    """Whether *act* copies from device to device, or fills memory of a device."""
    for each in leaves(act):
        if isinstance(each, Copied):
            return each.kind == "d2d"
        if isinstance(each, Filled):
            return each.buffer >= 0 and buffers[each.buffer].space == "device"
    return False


def _may_wait(call: CallKind) -> bool:
    """Whether a call of this kind that sleeps is a finding."""
    copy = _copied(call)
    return call.name in _FREES or isinstance(call.act, _WAIT_UNASKED) or (copy is not None and copy.kind == "h2h")


def _previous(ops: OpColumns) -> list[int]:
    """Return for each operation when the one before it in its stream ended; 0 for the first."""
    ends = np.zeros(len(ops), np.int64)
    streams = np.array([kind.in_stream for kind in ops.kinds], np.int64)[ops.kind]
    behind, before = successive(np.lexsort((ops.start_ns, ops.queued_ns)), streams)
    ends[behind] = ops.end_ns[before]
    return ends.tolist()
