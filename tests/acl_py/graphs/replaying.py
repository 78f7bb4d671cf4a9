"""Random programs of several streams in which everything is ordered that has to be.

`program(seed)` gives the steps of one, `queue` queues them in streams, which may capture, and `run` computes the bytes
that they leave without any device.
"""

from dataclasses import dataclass
from random import Random

import numpy as np
from histories import DEFAULT

import acl_py as acl

DEVICE, HOST = 3, 2  # how many buffers there are; those of the device come first
CELL, CELLS = 32, 4  # bytes of a cell, cells of a buffer
NBYTES, HALF = CELL * CELLS, CELL // 2
IN_DEVICE = ("kernel", "kernel", "fill", "scratch", "copy", "rows")
IN_HOST = ("host function",)
BETWEEN = ("copy", "copy", "rows")


@dataclass(frozen=True)
class Part:
    """The bytes from *start* to *stop*, whole cells, of the buffer with that *index*."""

    index: int
    start: int
    stop: int

    def overlaps(self, other):
        return self.index == other.index and self.start < other.stop and other.start < self.stop


@dataclass(frozen=True)
class Work:
    """An operation of *kind* in the stream number *lane*, which makes *target* of *source*.

    *number* is what a kernel adds and a fill writes.
    """

    kind: str
    lane: int
    source: Part
    target: Part
    number: int


@dataclass(frozen=True)
class Wait:
    """The stream number *lane* waits for what is in the stream number *other* so far."""

    lane: int
    other: int


def mixed(number, source, target):
    """What a kernel makes of *target*: bytes that tell in which order everything was done."""
    total = number + int(source.astype(np.int64) @ np.arange(1, source.size + 1))
    return (target.astype(np.int64) * 3 + total + np.arange(target.size)) % 256


def run(steps, arrays):
    """Do the work of *steps* with *arrays*, one after the other."""
    for step in steps:
        if isinstance(step, Work):
            source, target = (arrays[part.index][part.start : part.stop] for part in (step.source, step.target))
            _do(step, source, target)


def _do(step, source, target):
    match step.kind:
        case "kernel" | "host function":
            target[:] = mixed(step.number, source, target)
        case "scratch":
            target[:] = mixed(step.number, source, source)
        case "fill":
            target[:] = step.number
        case "copy":
            target[:] = source
        case "rows":  # the first half of each cell
            target.reshape(-1, CELL)[:, :HALF] = source.reshape(-1, CELL)[:, :HALF]


# --- random programs


def program(seed):
    """The steps of the random program number *seed*; in the end the first stream waits for all others."""
    return _Author(Random(seed)).write()


class _Author:
    def __init__(self, rng):
        self.rng = rng
        self.steps = []
        self.known = [{} for _ in range(rng.randint(2, 4))]  # of each lane: the last step of each that is before it
        self.drawn_in = [0]  # lanes
        self.done = []  # work and the number of its step

    def write(self):
        for number in range(1, self.rng.randint(4, 15)):
            self._work(self.rng.randrange(len(self.known)), number)
        for lane in self.drawn_in[1:]:
            self._wait(0, lane)
        return self.steps

    def _work(self, lane, number):
        """Add work to *lane*, behind all that touches the same bytes, and now and then behind some other lane."""
        rng = self.rng
        source, target = self._part(), self._part()
        while target.index == source.index:
            target = self._part()
        size = min(source.stop - source.start, target.stop - target.start)
        source, target = (Part(part.index, part.start, part.start + size) for part in (source, target))
        on_device = [part.index < DEVICE for part in (source, target)]
        kind = rng.choice(IN_DEVICE if all(on_device) else BETWEEN if any(on_device) else IN_HOST)
        work = Work(kind, lane, source, target, number)
        others = [each.lane for each, at in self.done if at > self.known[lane].get(each.lane, 0) and _touch(each, work)]
        if lane not in self.drawn_in or rng.random() < 0.1:
            others.append(rng.choice(self.drawn_in))
        for other in dict.fromkeys(others):
            if other != lane:
                self._wait(lane, other)
        self.drawn_in = [*dict.fromkeys([*self.drawn_in, lane])]
        self.steps.append(work)
        self.done.append((work, len(self.steps)))
        self.known[lane][lane] = len(self.steps)

    def _part(self):
        first, last = sorted(self.rng.sample(range(CELLS + 1), 2))
        return Part(self.rng.randrange(DEVICE + HOST), first * CELL, last * CELL)

    def _wait(self, lane, other):
        self.steps.append(Wait(lane, other))
        for each, at in self.known[other].items():
            self.known[lane][each] = max(at, self.known[lane].get(each, 0))


def _touch(one, other):
    """Whether one of the two writes what the other one reads or writes."""
    return one.target.overlaps(other.target) or one.target.overlaps(other.source) or one.source.overlaps(other.target)


# --- on a device


@acl.kernel(cost=acl.Cost(us=5))
def mix(target: acl.InOut, source: acl.In, number):
    target[:] = mixed(number, source, target)


async def queue(steps, streams, buffers):
    """Queue *steps* in *streams*."""
    events = [await acl.CreateEvent() for _ in streams]
    for step in steps:
        if isinstance(step, Wait):
            await acl.RecordEvent(events[step.other], streams[step.other])
            await acl.StreamWaitEvent(streams[step.lane], events[step.other])
        else:
            source, target = (buffers[part.index][part.start : part.stop] for part in (step.source, step.target))
            await _queue(step, source, target, streams[step.lane])


async def _queue(step, source, target, stream):
    match step.kind:
        case "kernel":
            await mix[1, stream](acl.Array(target), acl.Array(source), step.number)
        case "host function":
            await acl.LaunchHostFunc(stream, _do, [step, source.numpy(), target.numpy()], us=3)
        case "scratch":
            scratch = await acl.MallocAsync(source.nbytes, stream)
            await acl.MemcpyAsync(scratch, scratch.nbytes, source, source.nbytes, DEFAULT, stream)
            await mix[1, stream](acl.Array(scratch), acl.Array(source), step.number)
            await acl.MemcpyAsync(target, target.nbytes, scratch, scratch.nbytes, DEFAULT, stream)
            await acl.FreeAsync(scratch, stream)
        case "fill":
            await acl.MemsetAsync(target, target.nbytes, step.number, target.nbytes, stream)
        case "copy":
            await acl.MemcpyAsync(target, target.nbytes, source, source.nbytes, DEFAULT, stream)
        case "rows":
            rows = source.nbytes // CELL
            await acl.Memcpy2dAsync(target, CELL, source, CELL, HALF, rows, DEFAULT, stream)
