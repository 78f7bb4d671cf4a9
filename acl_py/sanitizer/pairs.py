"""Pairs of uses of the same memory: whether anything puts them in order, and what is said of those that nothing does.

Clocks tell most pairs apart at once. Waits for signals and callbacks that block their stream are not in the clocks,
because what satisfies them may come later. A pair that they put in order, or may put in order, stays undecided until
that is known.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from acl_py.findings import Access, Finding, Findings, Kind, Span
from acl_py.order.order import Order
from acl_py.order.signals import Signals
from acl_py.ranges import Ranges, union
from acl_py.sanitizer.check import Stacks
from acl_py.sanitizer.finding_texts import access_of, buffer_text, edge_of, end_later, subject_of
from acl_py.sanitizer.shadow import HostAccess, LifeCall, Use
from device_model.core_kernels import CoreKernel
from device_model.errors import listed
from device_model.memory import Allocation
from device_model.work import Extent, Work

if TYPE_CHECKING:
    from device_model.aicore.core.program import Flow

_SHOWN = 3  # ranges in a sentence
_WHY = {
    Kind.RACE: "nothing puts them in order",
    Kind.RELIES: "only a wait in a call that need not wait puts them in order",
}
_UNDECIDED = 4096  # pairs that waits for signals order, and a later set may set free; the oldest are forgotten

_IsOrdered: TypeAlias = Callable[[Use, Use], bool]


class _Pair(NamedTuple):
    """Two uses that waits for signals put in order, or may do so. *report* tells them if they are in none."""

    earlier: Use
    later: Use
    is_ordered: _IsOrdered
    report: Callable[[], None]


class _Raced(NamedTuple):
    """The access of a launch in a finding: the finding with this *key*, its *place* there, and the bytes."""

    key: tuple[str, ...]
    place: int
    allocation: Allocation
    ranges: Ranges
    writes: bool


class Pairs:
    """Judges pairs of uses by *order* and *signals*, and adds those in no order to *findings*."""

    def __init__(self, order: Order, signals: Signals, stacks: Stacks, findings: Findings) -> None:
        self._order = order
        self._signals = signals
        self._stacks = stacks
        self._findings = findings
        self._undecided: deque[_Pair] = deque(maxlen=_UNDECIDED)
        self._raced: dict[CoreKernel, list[_Raced]] = {}  # by launches that have not run yet
        self._judged: tuple[object, set[tuple[int, ...]]] = (None, set())  # pairs of the access that was last

    def close(self) -> None:
        """Report the pairs that nothing has put in order until now."""
        pairs = list(self._undecided)
        self._undecided.clear()
        for pair in pairs:
            if not (pair.is_ordered(pair.earlier, pair.later) or _may_exchange(pair.earlier, pair.later)):
                pair.report()

    def settle(self) -> None:
        """Look again at the pairs behind waits that have one more set now; what may still change waits on."""
        pairs = list(self._undecided)
        self._undecided.clear()
        for pair in pairs:
            self.judge(*pair)

    def judge(self, earlier: Use, later: Use, is_ordered: _IsOrdered, report: Callable[[], None]) -> None:
        """Report a pair that no plain wait orders, unless a wait for a signal or a callback does, or still may. Or
        report a flag in memory that one of two launches waits for, or the host.
        """
        if (
            is_ordered(earlier, later)
            or _may_exchange(earlier, later)
            or any(
                self._signals.is_open(clock) or self._order.waits_for_callback(clock)
                for use in (earlier, later)
                for clock in (use.clock, use.known)
            )
        ):
            self._undecided.append(_Pair(earlier, later, is_ordered, report))
        else:
            report()

    def judge_once(
        self, earlier: Use, later: Use, allocation: Allocation, is_ordered: _IsOrdered, report: Callable[[], None]
    ) -> None:
        """Judge a pair, unless it was judged before: an operation may read and write, and touch several ranges."""
        access = later.actor, later.epoch, later.work
        if self._judged[0] != access:
            self._judged = access, set()
        pair = earlier.actor, earlier.epoch, allocation.serial
        if pair not in self._judged[1]:
            self._judged[1].add(pair)
            self.judge(earlier, later, is_ordered, report)

    def is_plainly_ordered(self, one: Use, other: Use) -> bool:
        """Whether *one*, which was taken up first, is over before *other*; or after it, if that is a host function."""
        if self.is_plainly_known(one, other):
            return True
        return max(one.clock.get(other.actor, 0), one.known.get(other.actor, 0)) >= other.epoch

    @staticmethod
    def is_plainly_known(earlier: Use, later: Use) -> bool:
        """Whether clocks alone say that *earlier* is over before *later*."""
        actor = earlier.actor
        if actor in (later.actor, later.host):
            return True
        return max(later.clock.get(actor, 0), later.known.get(actor, 0)) >= earlier.epoch

    def is_ordered(self, one: Use, other: Use, *, unpromised: bool = False) -> bool:
        """Whether either is over before the other: *one*, which was queued first, may wait for a set that comes later.

        With *unpromised*, waits count that nothing promises.
        """
        return self.is_known(one, other, unpromised=unpromised) or self._reaches(one, other, unpromised=unpromised)

    def is_known(self, earlier: Use, later: Use, *, unpromised: bool = False) -> bool:
        """Whether *earlier* is over before *later*, with waits for signals and callbacks."""
        return self.is_plainly_known(earlier, later) or self._reaches(later, earlier, unpromised=unpromised)

    def _reaches(self, later: Use, earlier: Use, *, unpromised: bool) -> bool:
        clocks = (self._order.closure(clock, unpromised=unpromised) for clock in (later.clock, later.known))
        return any(clock.get(earlier.actor, 0) >= earlier.epoch for clock in clocks)

    def _accesses(self, earlier: Use, later: Use, *, wrote: bool, writes: bool) -> tuple[Access, Access]:
        """Return two uses as findings have them; the running call is that of *later*, as a rule."""
        first = access_of(earlier, self._stacks.note(earlier.site), writes=wrote)
        return first, access_of(later, self._stacks.now(later.site), writes=writes)

    def add_race(
        self, earlier: Use, later: Use, allocation: Allocation, ranges: Ranges, *, wrote: bool, writes: bool
    ) -> None:
        """Add two uses of the bytes *ranges* in no promised order: the first one *wrote* or read, as the second one."""
        kind = Kind.RELIES if self.is_ordered(earlier, later, unpromised=True) else Kind.RACE
        first, second = self._accesses(earlier, later, wrote=wrote, writes=writes)
        if (later.at_ns, later.host) < (earlier.at_ns, 0):  # a host function, which runs later than it was queued
            earlier, later, first, second, wrote, writes = later, earlier, second, first, writes, wrote
        buffer = buffer_text(allocation)
        spans = tuple(Span(buffer, start, stop) for start, stop in ranges)
        both = wrote and writes
        text = (
            f"{subject_of(first)} {'writes' if wrote else 'reads'} {listed(spans, _SHOWN)}, and {subject_of(second)} "
            f"{'writes' if writes else 'reads'} {'it too' if both else 'it'}: {_WHY[kind]}"
        )
        missing, fix = edge_of(earlier, later)
        finding = Finding(kind, text, (first, second), spans, missing, fix)
        self._findings.add(finding)
        for place, (use, is_write) in enumerate(((earlier, wrote), (later, writes))):
            if isinstance(use.work, CoreKernel):
                self._raced.setdefault(use.work, []).append(_Raced(finding.key, place, allocation, ranges, is_write))
                if use.work.result is not None:
                    self.ran(use.work)

    def ran(self, work: CoreKernel) -> None:
        """Add to the findings about *work*, a launch that has run, which of its instructions made the access."""
        for key, place, allocation, ranges, writes in self._raced.pop(work, ()):
            line = _instruction_text(work, allocation, ranges, writes=writes)
            if line:
                self._findings.lead(key, place, line)

    def add_early(self, birth: Use, use: Use, allocation: Allocation, *, writes: bool) -> None:
        """Add a use of memory that does not wait for its allocation."""
        first, second = self._accesses(birth, use, wrote=True, writes=writes)
        buffer = buffer_text(allocation)
        text = f"{subject_of(second)} uses {buffer} without waiting for its allocation, {subject_of(first)}"
        self._add_life(Kind.BEFORE_ALLOCATION, text, (birth, use), (first, second), allocation)

    def add_unborn(self, birth: Use, use: Use, allocation: Allocation, *, writes: bool) -> None:
        """Add a use of memory before the launch of the graph that allocates it, *birth*."""
        first, second = self._accesses(birth, use, wrote=True, writes=writes)
        buffer = buffer_text(allocation)
        text = f"{subject_of(second)} uses {buffer} before a launch of its graph allocates it, {subject_of(first)}"
        span, fix = Span(buffer, 0, allocation.nbytes), f"launch the graph before {second.site}"
        self._findings.add(Finding(Kind.BEFORE_ALLOCATION, text, (first, second), (span,), fix=fix))

    def add_late(self, end: Use, use: Use, allocation: Allocation, *, writes: bool) -> None:
        """Add a use of memory that is not before the node of its graph that frees it, *end*."""
        first, second = self._accesses(end, use, wrote=True, writes=writes)
        buffer = buffer_text(allocation)
        text = f"{subject_of(second)} uses {buffer}, which its graph has freed, {subject_of(first)}"
        span, fix = Span(buffer, 0, allocation.nbytes), end_later(first, second)
        self._findings.add(Finding(Kind.USE_AFTER_FREE, text, (first, second), (span,), fix=fix))

    def add_in_use(self, use: Use, end: Use, allocation: Allocation, *, writes: bool) -> None:
        """Add the end of a life that does not wait for a use of the memory."""
        first, second = self._accesses(use, end, wrote=writes, writes=True)
        buffer = buffer_text(allocation)
        text = f"{subject_of(second)} frees {buffer} without waiting for {subject_of(first)}, which uses it"
        self._add_life(Kind.FREE_IN_USE, text, (use, end), (first, second), allocation)

    def _add_life(
        self, kind: Kind, text: str, uses: tuple[Use, Use], accesses: tuple[Access, Access], allocation: Allocation
    ) -> None:
        """Add a finding about the begin or the end of a life."""
        if self.is_known(*uses, unpromised=True):
            kind, text = Kind.RELIES, f"{text}: {_WHY[Kind.RELIES]}"
        span = Span(buffer_text(allocation), 0, allocation.nbytes)
        self._findings.add(Finding(kind, text, accesses, (span,), *edge_of(*uses)))


def ranges_in(use: Use, allocation: Allocation, *, writes: bool) -> Ranges:
    """Return the bytes of *allocation* that *use* reads or *writes*, rows apart."""
    work = use.work
    if isinstance(work, HostAccess):
        return work.ranges
    assert isinstance(work, Work), f"{work!r} touches no bytes"
    rows: Iterable[Extent] = work.written_rows() if writes else work.read_rows()
    return union([(start, stop) for other, start, stop in rows if other is allocation])


def _instruction_text(work: CoreKernel, allocation: Allocation, ranges: Ranges, *, writes: bool) -> str:
    """Return the first instruction of *work*, which has run, that reads or *writes* one of the bytes *ranges* of
    *allocation*: its line, its name and its core. "" if there is none: the launch declares the bytes and does not touch
    them.
    """
    from device_model.aicore.core.program import Direction, Flow  # imported here: most programs have no such kernel

    direction, key = Direction.WRITE if writes else Direction.READ, (allocation.device, allocation.serial)
    for program in () if work.result is None else work.result.programs:
        for instruction in program.instructions:
            flow = instruction.flow
            if isinstance(flow, Flow) and flow.direction is direction and flow.key == key and _meets(flow, ranges):
                return f"{instruction.site}: {instruction.name} in {program}"
    return ""


def _meets(flow: "Flow", ranges: Ranges) -> bool:
    rows = (flow.start + row * flow.stride for row in range(flow.rows))
    return any(start < row + flow.length and row < stop for row in rows for start, stop in ranges)


def _may_exchange(one: Use, other: Use) -> bool:
    """Whether one of two accesses is by a launch that has waited for a flag, or has not run and may: then it knows what
    the other did before.
    """
    works = one.work, other.work
    if any(isinstance(work, LifeCall) for work in works):
        return False
    return any(isinstance(work, CoreKernel) and (work.may_wait if work.result is None else work.has_waited)
               for work in works)  # fmt: skip
