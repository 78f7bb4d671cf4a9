"""A naive model of a device: everything happens at once, in program order, and it is known what was ordered.

Bytes are kept in cells, parts of buffers, with those accesses that nothing has come after. Clocks say what is ordered:
a lane's, which of the other lanes' operations come before its next one; the host's, which are over. A cell is *known*
as long as all that was done to it was ordered, one thing before the other; only known cells can be compared.
"""

from dataclasses import dataclass, field

import numpy as np

CELL, CELLS = 128, 4  # bytes of a cell, cells of a buffer

Clock = dict  # lane -> the number of its last operation that counts


def merge(clock, other):
    for lane, number in other.items():
        clock[lane] = max(clock.get(lane, 0), number)


@dataclass(eq=False)
class Lane:
    """A stream, and what is ordered before its next operation."""

    stream: object
    blocking: bool
    clock: Clock = field(default_factory=dict)


class Cell:
    """Some bytes, whether they are known, and who has touched them since they were last over."""

    def __init__(self):
        self.bytes = np.zeros(CELL, np.uint8)
        self.known = False  # fresh memory holds anything
        self.accesses = []  # (lane, number, does it write?)

    def is_behind(self, clock, *, writes_only=False):
        """Is all that touched it ordered before whoever has *clock*?"""
        return all(clock.get(lane, 0) >= n for lane, n, writes in self.accesses if writes or not writes_only)

    def touch(self, clock, stamp, *, writes):
        self.accesses = [each for each in self.accesses if clock.get(each[0], 0) < each[1]] + [(*stamp, writes)]


@dataclass(eq=False)
class Piece:
    """A buffer and its cells."""

    buffer: object
    on_device: bool
    cells: list[Cell] = field(default_factory=lambda: [Cell() for _ in range(CELLS)])

    def part(self, first, count):
        return self.buffer[first * CELL : (first + count) * CELL], self.cells[first : first + count]


class Model:
    """The lanes, the first of which is the default stream, and the pieces of memory."""

    def __init__(self, *, legacy):
        self.legacy = legacy  # is the default stream the legacy one?
        self.count = 0
        self.total: Clock = {}  # all there ever was
        self.host: Clock = {}  # what is over, as the host knows
        self.pieces: list[Piece] = []
        self.lanes: list[Lane] = []
        self.reset()

    def reset(self):
        """What was on the device is gone, and what was queued has no effect any more."""
        self.forget()
        self.waited(self.total)
        self.lanes = [Lane(None, blocking=False)]
        self.barrier: Clock = {}  # the legacy stream's work, for the next operation of each blocking stream
        self.pieces = [piece for piece in self.pieces if not piece.on_device]

    @property
    def cells(self):
        return [cell for piece in self.pieces for cell in piece.cells]

    def begin(self, lane):
        """Something is about to be put into *lane*: what comes before it?"""
        merge(lane.clock, self.host)
        if lane.blocking:
            merge(lane.clock, self.barrier)
        elif self.legacy and lane is self.lanes[0]:
            for other in self.lanes:
                if other.blocking:
                    merge(lane.clock, other.clock)

    def end(self, lane):
        """It was."""
        if self.legacy and lane is self.lanes[0]:
            merge(self.barrier, lane.clock)

    def perform(self, lane, reads, writes, compute, *, sound):
        """An operation of *lane* that computes the bytes of *writes* from those of *reads*; if it is not *sound*, what
        it leaves is unknown.
        """
        self.begin(lane)
        before = dict(lane.clock)
        self.count += 1
        lane.clock[lane] = self.total[lane] = self.count
        ordered = all(cell.is_behind(before) for cell in writes)
        ordered &= all(cell.is_behind(before, writes_only=True) for cell in reads)
        if not ordered:
            self.forget()
        known = ordered and sound and all(cell.known for cell in reads)
        results = compute([cell.bytes.copy() for cell in reads])
        for cell in reads:
            cell.touch(before, (lane, self.count), writes=False)
        for cell, result in zip(writes, results, strict=True):
            cell.bytes[:] = result
            cell.known = known
            cell.touch(before, (lane, self.count), writes=True)
        self.end(lane)

    def unordered(self, lane, reads, writes):
        """The lanes that an operation of *lane* with these cells is not ordered behind, though it should be."""
        self.begin(lane)
        touched = [each for cell in writes for each in cell.accesses]
        touched += [each for cell in reads for each in cell.accesses if each[2]]
        return list(dict.fromkeys(other for other, n, _ in touched if lane.clock.get(other, 0) < n))

    def write(self, cells, value):
        """The host writes into its memory, at once."""
        if not all(cell.is_behind(self.host) for cell in cells):
            self.forget()
            return
        for cell in cells:
            cell.bytes[:] = value
            cell.known = True

    def forget(self):
        """What is not over may have any effect."""
        for cell in self.cells:
            if not cell.is_behind(self.host):
                cell.known = False

    def waited(self, clock):
        """The host has seen the end of all that *clock* knows."""
        merge(self.host, clock)
        for cell in self.cells:
            cell.accesses = [each for each in cell.accesses if self.host.get(each[0], 0) < each[1]]

    def of_sync(self, lane):
        """What a host that synchronises with *lane* waits for; legacy work holds back operations, not the host."""
        if lane is self.lanes[0]:
            self.begin(lane)
        return lane.clock
