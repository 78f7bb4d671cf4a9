"""Hazards: who touched which bytes last, and whether what touches them now is ordered behind it.

Happens-before, not timing: an access is fine if the pipe that makes it knows that the earlier one has finished. What a
pipe knows is a vector clock, one number per pipe of its core: the last access of that pipe known to be done. A SetFlag
carries the clock of its pipe, a WaitFlag takes it in; a barrier tells a pipe of itself, PipeBarrier<ALL> tells all of
all. Beyond its own core a pipe knows what the scalar pipe knows, for waits on other cores stop all issue.

The scalar, vector and cube pipes know of themselves: for V the compiler inserts the barriers, by default, and the cube
works through fractals in order. The copying pipes start in order and finish in any, so what they do to the same bytes
needs a PipeBarrier. Flags between S and another pipe are not inserted: kernels say them.

A `Shadow` keeps for a memory the last writer and the readers since, as disjoint spans of bytes. Buffers are touched in
the same ranges again and again, so the exact match is one look-up. In GM most allocations are only read or only
written: reads are only listed until somebody writes.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from device_model.aicore.findings import Rule
from device_model.aicore.names import Pipe
from device_model.aicore.program import Instruction

if TYPE_CHECKING:
    from device_model.aicore.machine import Core

Clock = list[int]
ALWAYS = 1 << 62  # the clock of a pipe that needs no barrier against itself


class Adders:
    """Atomic copies to the same bytes, in no order: *members*, the last of each pipe, all behind *writer*, *readers*.

    They stand where a span has its writer, and are never found to be ordered at first sight.
    """

    __slots__ = ("members", "readers", "writer")

    core = -1
    pipe = Pipe.S
    seq = 0

    def __init__(self, members: list[Instruction], writer: Instruction | None, readers: list[Instruction]) -> None:
        self.members = members
        self.writer = writer
        self.readers = readers


class Span:
    """Bytes that were last touched alike; *old* is what they held before the last write (weak mode only)."""

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
    """Who touched the bytes of one memory."""

    __slots__ = ("_spans", "_starts", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._spans: dict[int, Span] = {}
        self._starts: list[int] = []

    def read(self, core: "Core", instruction: Instruction, clock: Clock, start: int, stop: int) -> list[Span] | None:
        """*instruction* reads bytes start:stop; returns the spans whose bytes may not be there yet, if any."""
        span = self._spans.get(start)
        if span is not None and span.stop == stop:
            writer = span.writer
            readers = span.readers
            if not readers:
                readers.append(instruction)
            else:
                _note(readers, instruction)
            if writer is None or (writer.core == instruction.core and writer.seq <= clock[writer.pipe]):
                return None
            spans = [span]
        else:
            spans = self._cut(start, stop)
            for span in spans:
                _note(span.readers, instruction)
        stale = None
        for span in spans:
            unfinished = _unfinished(core, span.writer, clock)
            if unfinished is not None:
                core.hazard(Rule.RAW, unfinished, instruction, self.name, span.start, span.stop)
                stale = stale or []
                stale.append(span)
        return stale

    def write(self, core: "Core", instruction: Instruction, clock: Clock, start: int, stop: int) -> Span:
        """*instruction* writes bytes start:stop; returns their span."""
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
        self, core: "Core", instruction: Instruction, clock: Clock, start: int, stop: int, length: int, stride: int
    ) -> list[Span] | None:
        """Reads of *length* bytes each *stride* bytes from *start* on, the last one up to *stop*."""
        stale: list[Span] = []
        for at in range(start, stop, stride):
            stale += self.read(core, instruction, clock, at, at + length) or ()
        return stale

    def _check(self, core: "Core", instruction: Instruction, clock: Clock, span: Span) -> None:
        """Report what *instruction*, a write, is not behind: the readers, which are behind the writer, or him."""
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

    def _cut(self, start: int, stop: int) -> list[Span]:
        """Spans that together are start:stop exactly; what was never touched gets an empty one."""
        starts = self._starts
        spans = self._spans
        index = bisect_right(starts, start) - 1
        if index >= 0 and spans[starts[index]].stop > start:
            if starts[index] < start:
                self._split(spans[starts[index]], start)
                index += 1
        else:
            index += 1
        found: list[Span] = []
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
            found.append(span)
            at = span.stop
            index += 1
        return found

    def _split(self, span: Span, at: int) -> None:
        offset = at - span.start
        right = Span(at, span.stop, span.writer, span.readers.copy(), None if span.old is None else span.old[offset:])
        span.stop = at
        if span.old is not None:
            span.old = span.old[:offset]
        self._spans[at] = right
        insort(self._starts, at)

    def _join(self, spans: list[Span], writer: Instruction) -> Span:
        """One span in place of *spans*, which follow each other."""
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
        """Who wrote byte *at* last, if it is known."""
        index = bisect_right(self._starts, at) - 1
        span = self._spans[self._starts[index]] if index >= 0 else None
        if span is None or span.stop <= at:
            return None
        return span.writer.members[-1] if isinstance(span.writer, Adders) else span.writer

    def __iter__(self) -> Iterator[Span]:
        return (self._spans[start] for start in self._starts)


class GlobalShadow(Shadow):
    """The shadow of an allocation in GM: reads wait in a list until the first write."""

    __slots__ = ("_pending", "_written")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._written = False
        self._pending: list[tuple[Instruction, int, int, int, int]] = []

    def read(self, core: "Core", instruction: Instruction, clock: Clock, start: int, stop: int) -> list[Span] | None:
        """As for a shadow."""
        if self._written:
            return super().read(core, instruction, clock, start, stop)
        self._pending.append((instruction, start, stop, stop - start, stop - start))
        return None

    def read_rows(
        self, core: "Core", instruction: Instruction, clock: Clock, start: int, stop: int, length: int, stride: int
    ) -> list[Span] | None:
        """As for a shadow."""
        if self._written:
            return super().read_rows(core, instruction, clock, start, stop, length, stride)
        self._pending.append((instruction, start, stop, length, stride))
        return None

    def write(self, core: "Core", instruction: Instruction, clock: Clock, start: int, stop: int) -> Span:
        """As for a shadow."""
        self._note_pending()
        return super().write(core, instruction, clock, start, stop)

    def accumulate(self, core: "Core", instruction: Instruction, clock: Clock, start: int, stop: int) -> None:
        """*instruction* adds to bytes start:stop, atomically: it need not be behind others that do."""
        self._note_pending()
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

    def _note_pending(self) -> None:
        """From the first write on, all that was read before is known."""
        if self._written:
            return
        self._written = True
        for reader, first, last, length, stride in self._pending:
            for at in range(first, last, stride):
                for span in self._cut(at, at + length):
                    _note(span.readers, reader)
        self._pending.clear()


def _unfinished(core: "Core", writer: Instruction | Adders | None, clock: Clock) -> Instruction | None:
    """Of those who wrote last, one that a pipe with *clock* does not know to be done."""
    members = writer.members if isinstance(writer, Adders) else [] if writer is None else [writer]
    for each in members:
        if not core.is_ordered(each, clock):
            return each
    return None


def _note(readers: list[Instruction], reader: Instruction) -> None:
    """Add *reader*; of each pipe only the last one counts."""
    pipe = reader.pipe
    core = reader.core
    for index, other in enumerate(readers):
        if other.pipe is pipe and other.core == core:
            readers[index] = reader
            return
    readers.append(reader)
