"""What wrote to the memory of the device, as an observer notes it: instructions of core kernels, and other operations.

A kind of core kernel may keep a record of the writes of its instructions (`HasWrites`). Of others it is known what the
whole launch wrote, as of copies and fills.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acl_py.verbs.arrays import Array
from device_model.core_kernels import CoreKernel
from device_model.kernel.findings import Finding
from device_model.kernel.results import HasWrites, Result
from device_model.memory import Allocation
from device_model.observe import Observer
from device_model.ops import Op
from device_model.work import D2H, Copy, Extent


class Step(NamedTuple):
    """What wrote to the memory: an operation as a whole, or one instruction of a core kernel.

    Attributes:
        what: The instruction or the operation, as "DataCopy (MTE3) at add.py:12".
        part: The launch that it belongs to, or the line that queued the operation.
        where: The core that executed it, such as "block 0 (AIV)"; "" for an operation.
        site: The line that issued it.
        ended_ns: When it ended, in simulated nanoseconds.
        launch: The number of the launch, from 0 on; -1 if it is not of a core kernel.
    """

    what: str
    part: str
    where: str
    site: object
    ended_ns: float
    launch: int


class Stroke(NamedTuple):
    """Bytes that a step wrote: *rows* rows of *length* bytes, *stride* apart, from *start* on of allocation *key*.

    *threads* has the thread that wrote each row; () if it has no threads.
    """

    step: Step
    key: Hashable
    start: int
    length: int
    rows: int = 1
    stride: int = 0
    threads: Sequence[int] = ()

    def has(self, key: Hashable, byte: int) -> bool:
        """Return whether it wrote this *byte* of allocation *key*."""
        return self.key == key and bool(self._rows_with(byte))

    def by(self, byte: int) -> Step:
        """Return the step that wrote *byte*, with the thread if it has threads."""
        if not self.threads:
            return self.step
        return self.step._replace(part=f"thread {self.threads[self._rows_with(byte)[-1]]}, {self.step.part}")

    def _rows_with(self, byte: int) -> list[int]:
        return [row for row in range(self.rows) if 0 <= byte - self.start - row * self.stride < self.length]


class Brought(NamedTuple):
    """A copy of *nbytes* bytes to *address* of the host, from byte *start* of allocation *key* on.

    *strokes* is the number of strokes before it. *host* keeps the memory of the host, so that no array takes its place.
    """

    address: int
    key: Hashable
    start: int
    nbytes: int
    strokes: int
    host: memoryview


class Told(NamedTuple):
    """A finding of a launch, and when the instructions that it names ended."""

    finding: Finding
    launch: int
    ended_ns: Sequence[float]


@dataclass
class Recorder(Observer):
    """Notes the writes and the findings of a simulation, in their order."""

    strokes: list[Stroke] = field(default_factory=list)
    brought: list[Brought] = field(default_factory=list)
    findings: list[Told] = field(default_factory=list)
    launches: int = 0

    def op_ended(self, op: Op) -> None:
        """Note what an operation wrote; core kernels come in `ran`."""
        if op.error is None and not isinstance(op.work, CoreKernel):
            self._note(op, op.work.writes(), -1)
            if op.work.label is D2H and isinstance(op.work, Copy):
                self._bring(op.work)

    def ran(self, op: Op, result: Result) -> None:
        """Note what the instructions of a core kernel wrote, and its findings."""
        number, self.launches = self.launches, self.launches + 1
        timeline, work = result.timeline, op.work
        per_cycle = timeline.ns_per_cycle if timeline is not None else 0.0
        for each in result.findings:
            ends = [getattr(one, "end", inf) for one in each.instructions]
            self.findings.append(Told(each, number, [op.start_ns + end * per_cycle for end in ends if end < inf]))
        if op.error is not None:
            return
        if timeline is None or not isinstance(result, HasWrites):
            assert isinstance(work, CoreKernel), "only core kernels have results"
            self._note(op, work.bytes_written(), number)
            return
        launched = f"launch {number} of {work.label}, queued at {op.site}"
        for write in result.writes():
            instruction, where = write.instruction, str(write.program)
            part = f"instruction {write.number} of {where}, in {launched}"
            ended_ns = op.start_ns + instruction.end * per_cycle
            step = Step(str(instruction), part, where, instruction.site, ended_ns, number)
            self.strokes.append(
                Stroke(step, write.key, write.start, write.length, write.rows, write.stride, write.threads)
            )

    def _note(self, op: Op, extents: Sequence[Extent], launch: int) -> None:
        step = Step(str(op.work.label), f"queued at {op.site}", "", op.site, op.end_ns, launch)
        self.strokes += [Stroke(step, _key(each), start, stop - start) for each, start, stop in extents]

    def _bring(self, copy: Copy) -> None:
        host, strokes = copy.dst.view, len(self.strokes)
        address = np.frombuffer(host, np.uint8).__array_interface__["data"][0] + copy.dst_offset
        self.brought.append(Brought(address, _key(copy.src), copy.src_offset, copy.nbytes, strokes, host))

    def writers(self, array: Array | npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """Return for each element of *array* the index of the stroke that wrote its first byte last, or -1.

        What a contiguous array of NumPy holds was written where copies brought it from.
        """
        painted = np.full(array.nbytes, -1, np.int32)
        for low, high, key, start, strokes in self._sources(array):
            painted[low:high] = self._painted(key, start, high - low, strokes)
        return painted[:: array.dtype.itemsize].reshape(array.shape)

    def step(self, array: Array | npt.NDArray[Any], index: tuple[int, ...]) -> Step | None:
        """Return what wrote the first byte of an element of *array* last, with its thread; None if that is unknown."""
        at = int(np.ravel_multi_index(index, array.shape)) * array.dtype.itemsize
        step = None
        for low, high, key, start, strokes in self._sources(array):
            if low <= at < high:
                byte = start + at - low
                step = next((each.by(byte) for each in self.strokes[strokes - 1 :: -1] if each.has(key, byte)), None)
        return step

    def _sources(self, array: Array | npt.NDArray[Any]) -> Iterator[tuple[int, int, Hashable, int, int]]:
        """Yield where bytes *low* to *high* of *array* come from: byte *start* of *key*, as *strokes* had left it."""
        if isinstance(array, Array):
            yield 0, array.nbytes, _key(array.buffer.allocation), array.buffer.offset, len(self.strokes)
        elif array.flags.c_contiguous:
            first = array.__array_interface__["data"][0]
            for address, key, start, nbytes, strokes, _ in self.brought:
                low, high = max(address, first), min(address + nbytes, first + array.nbytes)
                if low < high:
                    yield low - first, high - first, key, start + low - address, strokes

    def _painted(self, key: Hashable, first: int, nbytes: int, strokes: int) -> npt.NDArray[np.int32]:
        """Return for each byte from *first* of *key* on which of the first *strokes* strokes wrote it last."""
        painted = np.full(nbytes, -1, np.int32)
        for index, stroke in enumerate(self.strokes[:strokes]):
            if stroke.key != key:
                continue
            for row in range(stroke.rows):
                start = stroke.start + row * stroke.stride - first
                painted[max(start, 0) : max(start + stroke.length, 0)] = index
        return painted

    def nearest(self, step: Step | None) -> Finding | None:
        """Return the finding nearest to *step*: at its line, on its core, in its launch, near in time; or the first."""

        def distance(told: Told) -> tuple[bool, bool, bool, float]:
            assert step is not None
            apart = min((abs(ended - step.ended_ns) for ended in told.ended_ns), default=inf)
            finding = told.finding
            return step.site not in finding.sites, finding.where != step.where, told.launch != step.launch, apart

        if step is None or not self.findings:
            return self.findings[0].finding if self.findings else None
        return min(self.findings, key=distance).finding


def _key(allocation: Allocation) -> Hashable:
    return allocation.device, allocation.serial
