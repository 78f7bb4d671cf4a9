"""Accesses: the shadow of each memory, and what a use of it conflicts with.

A use is compared with what the shadow of its memory holds, range by range. Clocks tell most uses apart at once; what
they leave open, pairs.py judges and tells.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import NamedTuple, TypeGuard

from acl_py.ranges import ByteRanges
from acl_py.sanitizer.pairs import Pairs, ranges_in
from acl_py.sanitizer.shadow import Cell, Footprint, HostAccess, PlainUse, Shadow, Use, Uses
from device_model.core_kernels import CoreKernel
from device_model.memory import Allocation
from device_model.work import Kernel, PitchedCopy, Work

_FEW = 8  # ranges of an access of the host that are kept one by one


class _Pair(NamedTuple):
    """Two uses of an allocation that clocks leave without order: the *earlier* one *wrote* or read, the other too."""

    earlier: Use
    use: Use
    allocation: Allocation
    wrote: bool
    writes: bool


class Accesses:
    """Takes up the uses of memory, and gives those in no order to *pairs*."""

    def __init__(self, pairs: Pairs) -> None:
        self.pageable_used: Callable[[], None] | None = None  # called with each use of pageable memory
        self._expected: dict[int, tuple[Allocation, Use]] = {}  # what a graph will allocate, and its MallocAsync
        self._pairs = pairs
        self._shadows: dict[int, Shadow] = {}  # by the serial number of a life
        self._unknown: dict[CoreKernel, list[_Pair]] = {}  # that are judged when a kernel has run

    def latest(self, allocation: Allocation) -> Use | None:
        """Return the latest use of *allocation*, which is alive; None if it was never used."""
        shadow = self._shadows.get(allocation.serial)
        uses = () if shadow is None else (use for use, _ in shadow.uses())
        return max(uses, key=attrgetter("at_ns"), default=None)

    def begin(self, allocation: Allocation, birth: Use) -> None:
        """Begin a life of *allocation* at its turn in a stream: no use may come before *birth*."""
        shadow = self._shadows.get(allocation.serial)
        if shadow is None or shadow.end is not None:
            shadow = self._shadows[allocation.serial] = Shadow(allocation.nbytes)
        if self._expected.pop(allocation.serial, None) is not None:
            for use, writes in shadow.uses():
                if not self._pairs.is_plainly_known(birth, use):
                    report = partial(self._pairs.add_unborn, birth, use, allocation, writes=writes)
                    self._pairs.judge_once(birth, use, allocation, self._pairs.is_known, report)
        shadow.birth = birth

    def expect(self, allocation: Allocation, call: Use) -> None:
        """Note that a graph will allocate *allocation* in each launch, after *call* in a capture."""
        self._expected[allocation.serial] = allocation, call

    def rest(self, allocation: Allocation, end: Use) -> None:
        """End the life of *allocation* at *end*, a node of a graph: no use may come until the next launch."""
        shadow = self._shadows.get(allocation.serial)
        if shadow is not None:
            shadow.share()
        self.end(allocation, end)
        shadow = self._shadows[allocation.serial] = Shadow(allocation.nbytes)
        shadow.end = end

    def close(self) -> None:
        """Report the uses of memory that no launch has allocated, and judge the pairs with kernels that never ran."""
        for pairs in self._unknown.values():
            for pair in pairs:
                self._judge(pair)
        for allocation, call in [*self._expected.values()]:
            self._report_unborn(allocation, call)

    def _report_unborn(self, allocation: Allocation, call: Use) -> None:
        del self._expected[allocation.serial]
        shadow = self._shadows.get(allocation.serial)
        for use, writes in () if shadow is None else _each_once(shadow.uses()):
            self._pairs.add_unborn(call, use, allocation, writes=writes)

    def end(self, allocation: Allocation, end: Use) -> None:
        """End the life of *allocation* at *end*: all that uses it must be over."""
        if allocation.serial in self._expected:
            self._report_unborn(*self._expected[allocation.serial])
        shadow = self._shadows.pop(allocation.serial, None)
        if shadow is None:
            return
        if shadow.birth is not None and not self._pairs.is_plainly_known(shadow.birth, end):
            report = partial(self._pairs.add_early, shadow.birth, end, allocation, writes=True)
            self._pairs.judge(shadow.birth, end, self._pairs.is_known, report)
        for use, writes in shadow.uses():
            if not self._pairs.is_plainly_known(use, end):
                report = partial(self._pairs.add_in_use, use, end, allocation, writes=writes)
                self._pairs.judge_once(use, end, allocation, self._pairs.is_known, report)

    def take(self, use: PlainUse) -> Footprint:
        """Compare *use* with what came before, and return its footprint."""
        footprint, work, line = Footprint(use), use[5], use[7]
        if isinstance(work, Work):
            if isinstance(work, PitchedCopy):
                line = line, work.dst_offset, work.dst_pitch, work.src_offset, work.src_pitch, work.width, work.height
            elif isinstance(work, Kernel) and work.rows is not None:
                line = line, hash(tuple((start, stop) for _, start, stop in work.rows()))
            for allocation, start, stop in work.writes():
                self._touch(footprint, line, allocation, start, stop, writes=True)
            for allocation, start, stop in work.reads():
                self._touch(footprint, line, allocation, start, stop, writes=False)
        elif isinstance(work, HostAccess):
            if len(work.ranges) <= _FEW:
                for start, stop in work.ranges:
                    self._touch(footprint, line, work.allocation, start, stop, writes=work.writes)
            else:
                start, stop = work.ranges[0][0], work.ranges[-1][1]
                line = line, hash(tuple(work.ranges))
                self._touch(footprint, line, work.allocation, start, stop, writes=work.writes)
        return footprint

    def _touch(
        self, footprint: Footprint, line: object, allocation: Allocation, start: int, stop: int, *, writes: bool
    ) -> None:
        """Take up an access to one range. *line* is what tells it from others of the same actor."""
        shadow = self._shadows.get(allocation.serial)
        if shadow is None:
            if allocation.serial < 0:  # pageable memory, which has no life
                if self.pageable_used is not None:
                    self.pageable_used()
                return
            shadow = self._shadows[allocation.serial] = Shadow(allocation.nbytes)
        cell = shadow.exact.get((start, stop))
        if cell is not None and len(cell) == 1:
            mine = cell.get(footprint.latest[0])
            if mine is not None:  # no other actor has touched it, as most memory
                mine.add(line, footprint, writes=writes)
                return
        if shadow.end is not None:
            use = footprint.use
            if use.host >= 0 or not self._pairs.is_known(use, shadow.end):  # a host function may have been before
                self._pairs.add_late(shadow.end, use, allocation, writes=writes)
            return
        if shadow.birth is not None:
            use = footprint.use
            if not self._pairs.is_plainly_known(shadow.birth, use):
                report = partial(self._pairs.add_early, shadow.birth, use, allocation, writes=writes)
                self._pairs.judge_once(shadow.birth, use, allocation, self._pairs.is_known, report)
        if self._conflicts(footprint, line, shadow.cells(start, stop), writes=writes):
            self._report(footprint.use, allocation, shadow, start, stop, writes=writes)

    @staticmethod
    def _conflicts(footprint: Footprint, line: object, cells: Iterable[Cell], *, writes: bool) -> bool:
        """Add *footprint* to *cells*, and return whether clocks leave open that it conflicts with one in them."""
        actor, _, past, given, host, *_ = footprint.latest
        conflicts = False
        for cell in cells:
            mine = cell.get(actor)
            if mine is None:
                if len(cell) == 1:  # until now
                    for uses in cell.values():
                        uses.share()
                mine = cell[actor] = Uses()
            if len(cell) > 1:
                footprint.alone = None
                for other, uses in cell.items():
                    if other != actor and other != host:
                        latest = uses.latest if writes else uses.latest_write
                        if latest > given.clock.get(other, 0) and latest > past.clock.get(other, 0):
                            conflicts = True
            mine.add(line, footprint, writes=writes)
        return conflicts

    def _report(self, use: Use, allocation: Allocation, shadow: Shadow, start: int, stop: int, *, writes: bool) -> None:
        """Add a finding for each earlier access that is in no order with *use*.

        Two uses are told once, though both may read and write: writes are compared first.
        """
        pairs: dict[tuple[int, bool], Use] = {}
        for cell, _, _ in shadow.spans(start, stop):
            for uses in cell.values():
                for wrote, footprints in ((True, uses.writes), (False, uses.reads if writes else {})):
                    for footprint in footprints.values():
                        earlier = footprint.use
                        if not self._pairs.is_plainly_ordered(earlier, use):
                            pairs[id(footprint), wrote] = earlier
        for (_, wrote), earlier in pairs.items():
            self._compare(_Pair(earlier, use, allocation, wrote, writes))

    def _compare(self, pair: _Pair) -> None:
        """Judge a pair, once the kernels in it have run of which only that shows what they touch."""
        unknown = next((work for work in (pair.earlier.work, pair.use.work) if _is_unknown(work)), None)
        if unknown is None:
            self._judge(pair)
        else:
            self._unknown.setdefault(unknown, []).append(pair)

    def _judge(self, pair: _Pair) -> None:
        earlier, use, allocation, wrote, writes = pair
        touched = ByteRanges(ranges_in(earlier, allocation, writes=wrote))
        both, _ = touched.split(ranges_in(use, allocation, writes=writes))
        if both:
            report = partial(self._pairs.add_race, earlier, use, allocation, both, wrote=wrote, writes=writes)
            self._pairs.judge_once(earlier, use, allocation, self._pairs.is_ordered, report)

    def ran(self, work: CoreKernel) -> None:
        """Judge the pairs for which *work* had to run."""
        for pair in self._unknown.pop(work, ()):
            self._compare(pair)


def _is_unknown(work: object) -> TypeGuard[CoreKernel]:
    return isinstance(work, CoreKernel) and work.alone and (work.result is None or work.result.timeline is None)


def _each_once(uses: Iterable[tuple[Use, bool]]) -> Iterator[tuple[Use, bool]]:
    """Yield *uses*, each operation once: as a write if it writes."""
    known: dict[tuple[int, int], tuple[Use, bool]] = {}
    for use, writes in uses:
        if writes or (use.actor, use.epoch) not in known:
            known[use.actor, use.epoch] = use, writes
    yield from known.values()
