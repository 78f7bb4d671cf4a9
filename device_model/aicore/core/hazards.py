"""Hazards: accesses to the same bytes that no flag or barrier puts in order.

Hazards follow from happens-before, not from timing. An access is safe if its pipe knows that the earlier access to the
same bytes has finished. So a missing flag is found even in a run where the times happen to work out.

What a pipe knows is a vector clock with one number for each pipe of its core: the last access of that pipe that is
known to be finished. SetFlag sends the clock of its pipe along with the flag, and WaitFlag merges it into the clock of
the waiting pipe, number by number, taking the larger one. A PipeBarrier raises a pipe's own number; PipeBarrier<ALL>
raises all numbers of all pipes. For example:

    DataCopy(x, x_gm)            MTE2 makes its access number 1
    SetFlag(MTE2_V, 0)           carries MTE2's clock: {MTE2: 1}
    WaitFlag(MTE2_V, 0)          V now knows {MTE2: 1}
    Add(z, x, y)                 reads x, which access 1 of MTE2 wrote: in order

Without the flag, V knows {MTE2: 0}, and Add is reported as RAW, missing MTE2_V. Of other cores, all pipes know what the
scalar pipe knows, because a wait for another core stops all issue on this one.

The scalar, vector and cube pipes need no barrier against themselves: the compiler inserts PipeBarrier<V> by default,
and the cube works through its fractals in order. The copy pipes (MTE1, MTE2, MTE3, FIX) start in order but may finish
in any order, so two of their accesses to the same bytes need a PipeBarrier. Flags between the scalar pipe and another
one are inserted only if the kernel asks for it (auto_sync): otherwise it has to set them.

A `Shadow` records the last writer of each byte of a memory and the readers since then, as disjoint spans. Kernels touch
the same ranges again and again, so a range that matches a span exactly costs one look-up. Most allocations in GM are
only read or only written, so their reads are kept in a list until the first write.

Bytes without a writer hold nothing, unless they are in GM and had contents before the launch, so a read of them is
reported too (UNWRITTEN_READ). All pipes but the scalar one move whole blocks of 32 bytes, and the end of the last block
of a tensor is often read along with it. So of a block that was written in part, such a pipe may read the rest.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.findings import Rule
from device_model.aicore.core.names import BLOCK, Pipe
from device_model.aicore.core.program import Access, Instruction

Clock = list[int]
ALWAYS = 1 << 62  # the clock of a pipe that needs no barrier against itself


class Accessor(Protocol):
    """The core that makes an access."""

    def is_ordered(self, earlier: Instruction, clock: Clock) -> bool:
        """Return True if a pipe of this core with *clock* knows that *earlier* has finished."""

    def hazard(self, rule: Rule, earlier: Instruction, later: Instruction, memory: str, start: int, stop: int) -> None:
        """Report that *later* touches bytes of *memory* and *earlier* may not have finished with them."""

    def unwritten(self, instruction: Instruction, memory: str, start: int, stop: int) -> None:
        """Report that *instruction* reads bytes of *memory* that hold nothing."""


class Adders(Access):
    """Atomic copies that add to the same bytes in any order; a span has them in place of its writer.

    *members* are the last such copy of each pipe. All of them come after *writer* and *readers*, the accesses before.
    `core` is the index of no core, so the quick test in `Shadow` never takes them for ordered.
    """

    __slots__ = ("members", "readers", "writer")

    def __init__(self, members: list[Instruction], writer: Instruction | None, readers: list[Instruction]) -> None:
        super().__init__(-1, Pipe.S)
        self.members = members
        self.writer = writer
        self.readers = readers


class Span:
    """Bytes with the same last writer and readers; *old* is what they held before the last write (weak mode only)."""

    __slots__ = ("old", "readers", "start", "stop", "writer")

    def __init__(
        self,
        start: int,
        stop: int,
        writer: Instruction | Adders | None,
        readers: list[Instruction],
        old: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        self.start = start
        self.stop = stop
        self.writer = writer
        self.readers = readers
        self.old = old

    def __repr__(self) -> str:
        return f"<Span {self.start}:{self.stop} writer={self.writer!r} readers={self.readers!r}>"


class Shadow:
    """The last writer of each byte of one memory, and the readers since then.

    *empty* has the ranges of bytes, in their order, that hold nothing before their first write.
    """

    __slots__ = ("_empty", "_spans", "_starts", "name")

    def __init__(self, name: str, empty: Sequence[tuple[int, int]] = ()) -> None:
        self.name = name
        self._empty = empty
        self._spans: dict[int, Span] = {}
        self._starts: list[int] = []

    def read(self, core: Accessor, instruction: Instruction, clock: Clock, start: int, stop: int) -> list[Span] | None:
        """Record that *instruction* reads bytes start:stop; return the spans that may not be written yet, or None."""
        span = self._spans.get(start)
        if span is not None and span.stop == stop:
            writer = span.writer
            readers = span.readers
            if not readers:
                readers.append(instruction)
            else:
                _note(readers, instruction)
            if writer is not None and writer.core == instruction.core and writer.seq <= clock[writer.pipe]:
                return None
            spans = [span]
        else:
            spans = self._cut(start, stop)
            for span in spans:
                _note(span.readers, instruction)
        if self._empty and None in [span.writer for span in spans]:
            self._check_contents(core, instruction, start, stop)
        stale = None
        for span in spans:
            unfinished = _unfinished(core, span.writer, clock)
            if unfinished is not None:
                core.hazard(Rule.RAW, unfinished, instruction, self.name, span.start, span.stop)
                stale = stale or []
                stale.append(span)
        return stale

    def write(self, core: Accessor, instruction: Instruction, clock: Clock, start: int, stop: int) -> Span:
        """Record that *instruction* writes bytes start:stop; return their span."""
        span = self._spans.get(start)
        if span is not None and span.stop == stop:
            self._check(core, instruction, clock, span)
            span.writer = instruction
            if span.readers:
                span.readers.clear()
            return span
        spans = self._cut(start, stop)
        for span in spans:
            self._check(core, instruction, clock, span)
        return self._join(spans, instruction)

    def read_rows(
        self, core: Accessor, instruction: Instruction, clock: Clock, start: int, stop: int, length: int, stride: int
    ) -> list[Span] | None:
        """Record reads of rows: *length* bytes every *stride* bytes from *start* on; the last row ends at *stop*."""
        stale: list[Span] = []
        for at in range(start, stop, stride):
            stale += self.read(core, instruction, clock, at, at + length) or ()
        return stale

    def conflicts(self, start: int, stop: int, *, is_write: bool) -> Iterator[Instruction]:
        """Return the earlier accesses to bytes start:stop that a read, or a write, of them must come after."""
        for index in range(max(bisect_right(self._starts, start) - 1, 0), bisect_left(self._starts, stop)):
            span = self._spans[self._starts[index]]
            if span.stop > start:
                if isinstance(span.writer, Instruction):
                    yield span.writer
                if is_write:
                    yield from span.readers

    def _check(self, core: Accessor, instruction: Instruction, clock: Clock, span: Span) -> None:
        """Report each earlier access that the write *instruction* is not ordered after.

        If there are readers, they are checked alone: each of them was checked against the writer.
        """
        own = instruction.core
        if span.readers:
            for reader in span.readers:
                if (reader.core != own or reader.seq > clock[reader.pipe]) and not core.is_ordered(reader, clock):
                    core.hazard(Rule.WAR, reader, instruction, self.name, span.start, span.stop)
            return
        writer = span.writer
        if writer is None or (writer.core == own and writer.seq <= clock[writer.pipe]):
            return
        unfinished = _unfinished(core, writer, clock)
        if unfinished is not None:
            core.hazard(Rule.WAW, unfinished, instruction, self.name, span.start, span.stop)

    def _check_contents(self, core: Accessor, instruction: Instruction, start: int, stop: int) -> None:
        """Report the bytes of start:stop that *instruction* reads although they hold nothing."""
        for first, last in self.unwritten(start, stop):
            if instruction.pipe is not Pipe.S:
                if self._is_written_in_part(first - first % BLOCK, first):
                    first += -first % BLOCK
                if self._is_written_in_part(last, last + -last % BLOCK):
                    last -= last % BLOCK
            if first < last:
                core.unwritten(instruction, self.name, first, last)

    def unwritten(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Return the ranges of start:stop that held nothing at first and have no writer, in their order."""
        index = max(bisect_right(self._empty, (start, start)) - 1, 0)
        while index < len(self._empty) and self._empty[index][0] < stop:
            first, last = self._empty[index]
            yield from self._without_writer(max(first, start), min(last, stop))
            index += 1

    def _without_writer(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Return the ranges of start:stop in which no span has a writer."""
        at = start
        index = max(bisect_right(self._starts, start) - 1, 0)
        while at < stop and index < len(self._starts) and self._starts[index] < stop:
            span = self._spans[self._starts[index]]
            if span.writer is not None and span.stop > at:
                if at < span.start:
                    yield at, span.start
                at = span.stop
            index += 1
        if at < stop:
            yield at, stop

    def _is_written_in_part(self, start: int, stop: int) -> bool:
        """Whether some of the bytes start:stop have a writer."""
        return start < stop and list(self._without_writer(start, stop)) != [(start, stop)]

    def _cut(self, start: int, stop: int) -> list[Span]:
        """Return spans that cover start:stop exactly; bytes never touched before get a span without accesses."""
        starts = self._starts
        spans = self._spans
        index = bisect_right(starts, start) - 1
        if index >= 0 and spans[starts[index]].stop > start:
            if starts[index] < start:
                self._split(spans[starts[index]], start)
                index += 1
        else:
            index += 1
        covering: list[Span] = []
        at = start
        while at < stop:
            begin = starts[index] if index < len(starts) else stop
            if begin > at:  # a gap
                span = Span(at, min(begin, stop), None, [])
                spans[at] = span
                starts.insert(index, at)
            else:
                span = spans[at]
                if span.stop > stop:
                    self._split(span, stop)
            covering.append(span)
            at = span.stop
            index += 1
        return covering

    def _split(self, span: Span, at: int) -> None:
        offset = at - span.start
        right = Span(at, span.stop, span.writer, span.readers.copy(), None if span.old is None else span.old[offset:])
        span.stop = at
        if span.old is not None:
            span.old = span.old[:offset]
        self._spans[at] = right
        insort(self._starts, at)

    def _join(self, spans: list[Span], writer: Instruction) -> Span:
        """Replace *spans*, which are adjacent, by one span written by *writer*."""
        first = spans[0]
        if len(spans) > 1:
            index = bisect_left(self._starts, first.start)
            for span in spans[1:]:
                del self._spans[span.start]
            del self._starts[index + 1 : index + len(spans)]
            first.stop = spans[-1].stop
        first.writer = writer
        first.readers.clear()
        return first

    def writer_of(self, at: int) -> Instruction | None:
        """Return the instruction that wrote byte *at* last, or None if it is unknown."""
        index = bisect_right(self._starts, at) - 1
        span = self._spans[self._starts[index]] if index >= 0 else None
        if span is None or span.stop <= at:
            return None
        return span.writer.members[-1] if isinstance(span.writer, Adders) else span.writer

    def __iter__(self) -> Iterator[Span]:
        return (self._spans[start] for start in self._starts)


class GlobalShadow(Shadow):
    """The shadow of an allocation in GM: reads are kept in a list until the first write.

    `reads` has the ranges that were read before the launch wrote them, (start, stop, length, stride) each: rows of
    *length* bytes. It is a dict for its order; the values mean nothing.
    """

    __slots__ = ("_pending", "_written", "reads")

    def __init__(self, name: str, empty: Sequence[tuple[int, int]] = ()) -> None:
        super().__init__(name, empty)
        self._written = False
        self.reads: dict[tuple[int, int, int, int], None] = {}
        self._pending: list[tuple[Instruction, int, int, int, int]] = []

    def read(self, core: Accessor, instruction: Instruction, clock: Clock, start: int, stop: int) -> list[Span] | None:
        """Record a read, as `Shadow.read` does."""
        if self._written:
            self._note_contents(start, stop)
            return Shadow.read(self, core, instruction, clock, start, stop)
        self.reads[start, stop, stop - start, stop - start] = None
        if self._empty:
            self._check_contents(core, instruction, start, stop)
        self._pending.append((instruction, start, stop, stop - start, stop - start))
        return None

    def read_rows(
        self, core: Accessor, instruction: Instruction, clock: Clock, start: int, stop: int, length: int, stride: int
    ) -> list[Span] | None:
        """Record reads of rows, as `Shadow.read_rows` does."""
        if self._written:
            return Shadow.read_rows(self, core, instruction, clock, start, stop, length, stride)
        self.reads[start, stop, length, stride] = None
        if self._empty:
            for at in range(start, stop, stride):
                self._check_contents(core, instruction, at, at + length)
        self._pending.append((instruction, start, stop, length, stride))
        return None

    def write(self, core: Accessor, instruction: Instruction, clock: Clock, start: int, stop: int) -> Span:
        """Record a write, as `Shadow.write` does."""
        self._note_pending()
        return Shadow.write(self, core, instruction, clock, start, stop)

    def contents_read(self) -> Iterator[tuple[int, int]]:
        """Return the ranges that were read before the launch wrote them."""
        for start, stop, length, stride in self.reads:
            for at in range(start, stop, max(stride, 1)):
                yield at, at + length

    def written(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Return the ranges of start:stop that the launch has written, in their order."""
        at = start
        for first, last in self._without_writer(start, stop):
            if at < first:
                yield at, first
            at = last
        if at < stop:
            yield at, stop

    def accumulate(self, core: Accessor, instruction: Instruction, clock: Clock, start: int, stop: int) -> None:
        """Record that *instruction* adds to bytes start:stop atomically; other atomic copies need no order with it."""
        self._note_pending()
        self._note_contents(start, stop)
        if self._empty:
            self._check_contents(core, instruction, start, stop)
        for span in self._cut(start, stop):
            last = span.writer
            if isinstance(last, Adders):
                members, writer, readers = [*last.members], last.writer, [*last.readers]
            else:
                members, writer, readers = [], None if span.readers else last, []
            for reader in span.readers:
                _note(readers, reader)
            for reader in readers:
                if not core.is_ordered(reader, clock):
                    core.hazard(Rule.WAR, reader, instruction, self.name, span.start, span.stop)
            if writer is not None and not core.is_ordered(writer, clock):
                core.hazard(Rule.WAW, writer, instruction, self.name, span.start, span.stop)
            _note(members, instruction)
            span.writer = Adders(members, writer, readers)
            span.readers.clear()
            span.old = None

    def _note_contents(self, start: int, stop: int) -> None:
        """Note the bytes of start:stop that are read and were not written yet."""
        for first, last in self._without_writer(start, stop):
            self.reads[first, last, last - first, last - first] = None

    def _note_pending(self) -> None:
        """Enter the reads that were only listed so far; called before the first write."""
        if self._written:
            return
        self._written = True
        for reader, first, last, length, stride in self._pending:
            for at in range(first, last, stride):
                for span in self._cut(at, at + length):
                    _note(span.readers, reader)
        self._pending.clear()


def _unfinished(core: Accessor, writer: Instruction | Adders | None, clock: Clock) -> Instruction | None:
    """Return a last writer that a pipe with *clock* does not know to be finished, or None."""
    members = writer.members if isinstance(writer, Adders) else [] if writer is None else [writer]
    for each in members:
        if not core.is_ordered(each, clock):
            return each
    return None


def _note(readers: list[Instruction], reader: Instruction) -> None:
    """Add *reader* to *readers*, in place of an earlier one of the same pipe."""
    pipe = reader.pipe
    core = reader.core
    for index, other in enumerate(readers):
        if other.pipe is pipe and other.core == core:
            readers[index] = reader
            return
    readers.append(reader)
