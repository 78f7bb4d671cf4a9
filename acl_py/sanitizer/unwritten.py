"""Unwritten bytes: reads of device and pinned memory before anything has written it.

For each life of memory this keeps the bytes that were not written yet. A life begins when memory is allocated, also if
a pool gives out an address again. An operation writes its bytes when it ends, and the host when it does. Once all bytes
of a life are written, nothing is kept of it. So a program may queue any number of operations.

Registered memory counts as written, because the array has values, and so does memory that a stream program declares and
memory of physical blocks that are mapped. Memory that a graph allocates has a life for each launch; an operation uses
the life of its launch, or the one that was queued last. If host accesses are not watched, pinned memory counts as
written by the host from the moment when the program gets an array over it.

A copy of unwritten bytes is reported as the read that it is; then its destination counts as written, so that one
mistake is one finding. Bytes for which the program has queued a write before the read, one that has not ended yet, are
left to the check for races: they are written, only in no order. Of a core kernel, those bytes count that its
instructions have read and written, not those that its arguments declare.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy.typing as npt

from acl_py.callers import Caller, current_caller
from acl_py.calls.acts import Act, Completed, Queued, Set, Word
from acl_py.findings import Access, Finding, Kind, Span, access_at
from acl_py.host_arrays.array_ranges import ranges_of
from acl_py.ranges import ByteRanges, Range, Ranges, union
from acl_py.runtime.runtime import Runtime
from acl_py.sanitizer.check import Check, guarded
from acl_py.sanitizer.finding_texts import buffer_text, work_text, write_first
from acl_py.sites import called_function
from device_model.completions import Completion, Nanoseconds
from device_model.core_kernels import CoreKernel
from device_model.errors import listed
from device_model.graphs.executable import Run
from device_model.graphs.graph import NodeKind
from device_model.graphs.streaks import NodeOp
from device_model.memory import Allocation, Origin
from device_model.ops import Op
from device_model.work import H2H, Copy, Extent, Work

_WORD = 8  # bytes that ValueWrite writes
_SHOWN = 3  # ranges in a sentence


class _Life:
    """One life of memory with unwritten bytes, and the writes that are queued for it, by operation.

    *partly* is the last core kernel that wrote some of its bytes: its name and line, and how many blocks and bytes.
    """

    __slots__ = ("coming", "is_freed", "partly", "unwritten")

    def __init__(self, nbytes: int) -> None:
        self.unwritten = ByteRanges([(0, nbytes)])
        self.coming: dict[Op, list[Range]] = {}
        self.partly: tuple[str, object, int, int] | None = None
        self.is_freed = False  # by a node of the graph that has allocated it


class Unwritten(Check):
    """Adds the reads of unwritten bytes to the findings."""

    def __init__(self, runtime: Runtime, fail: Callable[[Exception], None]) -> None:
        super().__init__(runtime, fail)
        self._lives: dict[Allocation, _Life] = {}
        self._launched: dict[Run, dict[Allocation, _Life]] = {}  # the memory that launches allocate
        self._latest: dict[Allocation, _Life] = {}  # of memory of graphs, that of the last launch
        self._used: dict[Op, dict[Allocation, _Life]] = {}  # the lives of memory of graphs that operations use
        self._ending: deque[Allocation] = deque()  # freed, while queued work may use them
        self._callers: dict[Op, Caller] = {}  # who queued the operations that may be reported

    def __repr__(self) -> str:
        return f"<Unwritten: {len(self._lives)} lives>"

    # --- lives

    @guarded
    def allocated(self, allocation: Allocation, since: Completion) -> None:
        """Begin to watch a life."""
        if allocation.origin is not Origin.REGISTERED and allocation.made is not None:
            self._lives[allocation] = _Life(allocation.nbytes)

    @guarded
    def freed(self, allocation: Allocation, until: Completion) -> None:
        """Watch a life no longer than work that was queued before may use it."""
        if allocation in self._lives:
            self._ending.append(allocation)
        while self._ending and self._ending[0].is_dropped:
            self._lives.pop(self._ending.popleft(), None)

    @guarded
    def filled(self, allocation: Allocation, start: int, stop: int) -> None:
        """Note what the runtime has written itself."""
        self._note(((allocation, start, stop),))

    # --- operations

    @guarded
    def op_queued(self, op: Op) -> None:
        """Note what *op* will write, and who queued it."""
        if not self._lives and not self._latest:
            return
        self._use_memory_of_graphs(op)
        for allocation, start, stop in op.work.written_rows():
            life = self._life(allocation, op)
            if life is not None:
                life.coming.setdefault(op, []).append((start, stop))
                self._callers[op] = current_caller()
        if any(self._life(allocation, op) for allocation, _, _ in _read(op.work)):
            self._callers[op] = current_caller()
            self._stacks.note(op.site)

    @guarded
    def op_ended(self, op: Op) -> None:
        """Check what *op* has read, then note what it has written."""
        caller = self._callers.pop(op, None)
        if not self._lives and op not in self._used:
            return
        if op.error is None:
            self._check(_read(op.work), op, lambda: self._op_access(op, caller))
            self._note(_written(op.work), op)
        for allocation, _, _ in op.work.writes():
            life = self._life(allocation, op)
            if life is not None:
                life.coming.pop(op, None)
        self._used.pop(op, None)

    @guarded
    def run_queued(self, run: Run, made: Sequence[Completion]) -> None:
        """Begin the lives of the memory that a launch allocates."""
        for launch in [each for each in self._launched if each.done]:
            del self._launched[launch]
        for node in (entry.node for entry in run.plan.entries):
            allocation = node.subject
            if not isinstance(allocation, Allocation):
                continue
            if node.kind is NodeKind.ALLOCATE:
                life = self._latest[allocation] = _Life(allocation.nbytes)
                self._launched.setdefault(run.launch, {})[allocation] = life
            elif node.kind is NodeKind.FREE and allocation in self._latest:
                self._latest[allocation].is_freed = True

    def _use_memory_of_graphs(self, op: Op) -> None:
        """Note which lives of memory of graphs *op* uses. What comes behind a graph's own free has no life to use."""
        if isinstance(op, NodeOp):
            lives = self._launched.get(op.run.launch, {})
        else:
            lives = {each: life for each, life in self._latest.items() if not life.is_freed}
        touched = {allocation for allocation, _, _ in (*op.work.reads(), *op.work.writes())}
        used = {allocation: life for allocation, life in lives.items() if allocation in touched}
        if used:
            self._used[op] = used

    def _life(self, allocation: Allocation, op: Op | None) -> "_Life | None":
        """Return the life of *allocation* that *op* uses, or the host if that is None."""
        life = self._lives.get(allocation)
        return life if life is not None or op is None else self._used.get(op, {}).get(allocation)

    @guarded
    def call(self, name: str, enter_ns: Nanoseconds, exit_ns: Nanoseconds, site: object, act: Act[Any]) -> None:
        """Take up what the host did within a call: copies from host to host, words that are written."""
        if not self._lives:
            return
        match act:
            case Set(Word(allocation, offset)):
                self._note(((allocation, offset, offset + _WORD),))
            case Queued(Copy() as work) | Completed(Copy() as work) if work.label is H2H:
                self._check(_read(work), None, lambda: self._access_by_host("h2h", site))
                self._note(work.written_rows())

    # --- the host

    @guarded
    def host_access(self, allocation: Allocation, ranges: Ranges, writes: bool, site: object) -> None:
        """The host has read or written the bytes *ranges* of *allocation* at *site*."""
        if allocation not in self._lives:
            return
        extents = [(allocation, start, stop) for start, stop in ranges]
        if writes:
            self._note(extents)
        else:
            self._check(extents, None, lambda: self._access_by_host("host read", site))

    @guarded
    def host_exported(self, allocation: Allocation, ranges: Ranges) -> None:
        """The program may write the bytes *ranges* of *allocation* unseen from now on."""
        self._note((allocation, start, stop) for start, stop in ranges)

    def view_unwatched(self, allocation: Allocation, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return *array* as it is: what the program does with it is not watched."""
        self.host_exported(allocation, ranges_of(array, allocation.address))
        return array

    # --- helpers

    def _note(self, extents: Iterable[Extent], op: Op | None = None) -> None:
        """Note that *extents* were written, by *op*, or by the host if that is None."""
        written: dict[_Life, int] = {}
        for allocation, start, stop in extents:
            life = self._life(allocation, op)
            if life is not None:
                life.unwritten.remove(start, stop)
                written[life] = written.get(life, 0) + stop - start
                if not life.unwritten and allocation in self._lives:
                    del self._lives[allocation]
        if op is not None and isinstance(op.work, CoreKernel):
            for life, nbytes in written.items():
                life.partly = work_text(op.work, writes=True), op.site, op.work.blocks, nbytes

    def _check(self, extents: Iterable[Extent], op: Op | None, access: Callable[[], Access]) -> None:
        """Report the unwritten bytes of *extents*, read by *op*, or by the host if that is None."""
        found: dict[Allocation, list[Range]] = {}
        for allocation, start, stop in extents:
            life = self._life(allocation, op)
            if life is not None:
                unwritten, _ = life.unwritten.split([(start, stop)])
                if op is not None and isinstance(op.work, CoreKernel):
                    unwritten = _of_whole_blocks(unwritten, op.work.granule, allocation.nbytes)
                coming = ByteRanges(
                    each
                    for writer, ranges in life.coming.items()
                    if writer is not op and (op is None or _is_queued_before(writer, op))
                    for each in ranges
                )
                found.setdefault(allocation, []).extend(coming.split(unwritten)[1])
        for allocation, ranges in found.items():
            if ranges:
                life = self._life(allocation, op)
                assert life is not None, "only bytes with a life are found"
                self._findings.add(_finding(allocation, union(ranges), access(), life))

    def _op_access(self, op: Op, caller: "Caller | None") -> Access:
        who = "" if caller is None else self._runtime.callers.name(caller)
        what = work_text(op.work, writes=False)
        stack = self._stacks.note(op.site)
        return access_at(op.site, what, caller=who, stream=op.stream.name, stack=stack, at_ns=op.queued_ns)


def _is_queued_before(writer: Op, op: Op) -> bool:
    """Whether *writer* was queued before *op*, or at the same time: the nodes of a launch are queued in their order."""
    if isinstance(writer, NodeOp) and isinstance(op, NodeOp) and writer.run is op.run:
        return writer.entry.place < op.entry.place
    return writer.queued_ns <= op.queued_ns


def _read(work: Work) -> Iterable[Extent]:
    return work.contents_read() if isinstance(work, CoreKernel) else work.read_rows()


def _written(work: Work) -> Iterable[Extent]:
    return work.bytes_written() if isinstance(work, CoreKernel) else work.written_rows()


def _of_whole_blocks(ranges: Ranges, block: int, nbytes: int) -> list[Range]:
    """Return *ranges*, of an allocation of *nbytes*, without blocks of GM that are written in part.

    Instructions read GM in blocks, so they read on to the end of the last block of what a program has written.
    """
    whole = [(-(-start // block) * block, stop if stop == nbytes else stop // block * block) for start, stop in ranges]
    return [(start, stop) for start, stop in whole if start < stop]


def _finding(allocation: Allocation, ranges: Ranges, reader: Access, life: _Life) -> Finding:
    name = buffer_text(allocation)
    birth = access_at(allocation.made, called_function(allocation.made, allocation.origin.maker))
    nbytes = sum(stop - start for start, stop in ranges)
    where = listed([f"{start:,} to {stop:,}" for start, stop in ranges], _SHOWN, ", and {:,} more ranges")
    made = f", allocated at {allocation.made}" if allocation.given_name else ""
    text = (
        f"{reader.what} at {reader.site} reads {nbytes:,} unwritten byte{'s' if nbytes > 1 else ''} of {name}: "
        f"{where}{made}; write them first, or read less"
    )
    if life.partly is not None:
        what, site, blocks, written = life.partly
        count = "1 block" if blocks == 1 else f"{blocks:,} blocks"
        text += f"; {what} at {site} wrote {written:,} bytes beside them in {count}: does the launch need more blocks?"
    spans = tuple(Span(name, start, stop) for start, stop in ranges)
    fix = write_first(spans, reader, allocation.space)
    return Finding(Kind.UNINITIALISED, text, (birth, reader), spans, fix=fix)
