"""Shows: a pipeline of five stages in several streams, and what it gains if the host is the bottleneck.

Scenario: multi-head attention over the chunks of a batch, in five stages: projection to queries, keys and values;
scores; softmax; mixture of the values; projection of the output. Synchronous: pageable memory, one stream, and a host
that waits for each copy. Naive: the same calls in their asynchronous form and pinned memory, but still one stream and
one set of buffers, so no copy overlaps a kernel. Pipelined: a stream for each stage and for each direction of copies,
and several sets of buffers. Events pass a chunk from stream to stream while the next chunk is copied in. Captured: the
pipeline as one graph, which the host launches with one call. All results are compared with attention in float64.

From C, each stage is a kernel and each call a call of the runtime. torch makes ten kernels of a stage's work and copies
between layouts, its calls take longer, and changing streams costs the host more than a launch (stages.py). So its
pipeline waits for the host, until it is captured. For one job of your own: five_stages.py --as torch SEQUENCES LENGTH
WIDTH HEADS CHUNK CAUSAL prints what torch takes on an H200.
"""

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from measured_host import h200
from stages import AS_TORCH, BLOCKS, FROM_C, Frame, Stage, only_times

import acl_py as acl
from acl_py import Array, Event, MemcpyKind, Stream
from acl_py.trace import chart

Floats = npt.NDArray[np.float32]

SLOTS = 4  # chunks in flight


def reference(x: npt.NDArray, into: npt.NDArray, out: npt.NDArray, heads: int, causal: bool) -> npt.NDArray[np.float64]:
    """Compute the same in plain NumPy and float64."""
    x, into, out = (array.astype(np.float64) for array in (x, into, out))
    sequences, length, width = x.shape
    q, k, v = (x @ into).reshape(sequences, length, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(width // heads)
    if causal:
        scores += np.triu(np.full((length, length), -np.inf), k=1)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return (shares @ v).swapaxes(1, 2).reshape(x.shape) @ out


# --- the job and its memory


@dataclass(frozen=True)
class Job:
    """Attention with *heads* heads over *x* (sequences, length, width), *chunk* sequences at a time."""

    x: Floats
    into: Floats
    out: Floats
    heads: int
    chunk: int
    causal: bool
    frame: Frame = FROM_C

    @property
    def parts(self) -> Iterator[slice]:
        return (slice(at, at + self.chunk) for at in range(0, len(self.x), self.chunk))


@dataclass(frozen=True)
class Outcome:
    y: Floats
    ns: int
    sim: acl.Simulation


@dataclass(frozen=True)
class Slot:
    """The device memory of a chunk. The event *done* is recorded after its last operation. The last three arrays are
    what torch needs besides.
    """

    x: Array
    q: Array
    k: Array
    v: Array
    scores: Array
    mixed: Array
    y: Array
    done: Event
    together: Array
    shares: Array
    by_head: Array

    def cut(self, sequences: int) -> "Slot":
        """Return this slot for a chunk of *sequences* sequences."""
        arrays = {name: thing for name, thing in vars(self).items() if isinstance(thing, Array)}
        return replace(self, **{name: array[:sequences] for name, array in arrays.items()})


async def create_slot(job: Job) -> Slot:
    _, length, width = job.x.shape
    by_head = job.chunk, job.heads, length, width // job.heads
    by_position = job.chunk, length, width
    return Slot(
        x=await device_array(*by_position),
        q=await device_array(*by_head),
        k=await device_array(*by_head),
        v=await device_array(*by_head),
        scores=await device_array(job.chunk, job.heads, length, length),
        mixed=await device_array(*by_position),
        y=await device_array(*by_position),
        done=await acl.CreateEvent(timing=False),
        together=await device_array(*by_position[:2], 3 * width),
        shares=await device_array(job.chunk, job.heads, length, length),
        by_head=await device_array(*by_head),
    )


async def device_array(*shape: int) -> Array:
    return Array(await acl.Malloc(4 * int(np.prod(shape))), np.float32, shape)


async def put(host: Floats) -> Array:
    """Return a copy of *host* on the device."""
    array = await device_array(*host.shape)
    await acl.Memcpy(array, array.nbytes, host, host.nbytes, MemcpyKind.HOST_TO_DEVICE)
    return array


# --- the versions


async def cut(job: Job, slot: Slot, sequences: int) -> Slot:
    if job.frame.chunk_us:
        await acl.HostWork(job.frame.chunk_us)
    return slot.cut(sequences)


async def switch(job: Job) -> None:
    """Do what the host does to queue in another stream."""
    if job.frame.stream_us:
        await acl.HostWork(job.frame.stream_us)


async def launch(stage: Stage, stream: Stream | None) -> None:
    if stage.host_us:
        await acl.HostWork(stage.host_us)
    for kernel, args in stage.kernels:
        await kernel[BLOCKS, stream](*args)


async def synchronous(job: Job) -> Outcome:
    sim = acl.current_simulation()
    y = np.empty_like(job.x)
    into, out, slot = await put(job.into), await put(job.out), await create_slot(job)
    start = sim.now_ns
    for part in job.parts:
        x = job.x[part]
        chunk = await cut(job, slot, len(x))
        await acl.Memcpy(chunk.x, x.nbytes, x, x.nbytes, MemcpyKind.HOST_TO_DEVICE)
        for stage in job.frame.stages(chunk, into, out, job.causal):
            await launch(stage, None)
        await acl.Memcpy(y[part], x.nbytes, chunk.y, x.nbytes, MemcpyKind.DEVICE_TO_HOST)
    return Outcome(y, sim.now_ns - start, sim)


async def naive(job: Job) -> Outcome:
    sim = acl.current_simulation()
    y = np.empty_like(job.x)
    into, out, slot = await put(job.into), await put(job.out), await create_slot(job)
    for array in (job.x, y):
        await acl.HostRegister(array)
    stream = await acl.CreateStream()
    start = sim.now_ns
    await switch(job)
    for part in job.parts:
        x = job.x[part]
        chunk = await cut(job, slot, len(x))
        await acl.MemcpyAsync(chunk.x, x.nbytes, x, x.nbytes, MemcpyKind.HOST_TO_DEVICE, stream)
        for stage in job.frame.stages(chunk, into, out, job.causal):
            await launch(stage, stream)
        await acl.MemcpyAsync(y[part], x.nbytes, chunk.y, x.nbytes, MemcpyKind.DEVICE_TO_HOST, stream)
    await acl.SynchronizeStream(stream)
    return Outcome(y, sim.now_ns - start, sim)


@dataclass(frozen=True)
class Pipeline:
    """A stream for each stage and each direction of copies, and memory for several chunks."""

    job: Job
    y: Floats
    into: Array
    out: Array
    slots: list[Slot]
    streams: list[Stream]

    async def queue(self) -> Slot:
        """Queue all chunks; return the last slot."""
        job, (first, *streams, last) = self.job, self.streams
        for number, part in enumerate(job.parts):
            x = job.x[part]
            chunk = await cut(job, self.slots[number % SLOTS], len(x))
            await switch(job)
            if number >= SLOTS:
                await acl.StreamWaitEvent(first, chunk.done)  # of the previous chunk in this slot
            await acl.MemcpyAsync(chunk.x, x.nbytes, x, x.nbytes, MemcpyKind.HOST_TO_DEVICE, first)
            await acl.RecordEvent(chunk.done, first)
            for stage, stream in zip(job.frame.stages(chunk, self.into, self.out, job.causal), streams, strict=True):
                await switch(job)
                await acl.StreamWaitEvent(stream, chunk.done)
                await launch(stage, stream)
                await acl.RecordEvent(chunk.done, stream)
            await switch(job)
            await acl.StreamWaitEvent(last, chunk.done)
            await acl.MemcpyAsync(self.y[part], x.nbytes, chunk.y, x.nbytes, MemcpyKind.DEVICE_TO_HOST, last)
            await acl.RecordEvent(chunk.done, last)
        return chunk


async def create_pipeline(job: Job) -> Pipeline:
    y = np.empty_like(job.x)
    into, out, slots = await put(job.into), await put(job.out), [await create_slot(job) for _ in range(SLOTS)]
    for array in (job.x, y):
        await acl.HostRegister(array)
    return Pipeline(job, y, into, out, slots, [await acl.CreateStream() for _ in range(7)])


async def pipelined(job: Job) -> Outcome:
    sim, pipeline = acl.current_simulation(), await create_pipeline(job)
    start = sim.now_ns
    await pipeline.queue()
    await acl.SynchronizeDevice()
    return Outcome(pipeline.y, sim.now_ns - start, sim)


async def captured(job: Job) -> Outcome:
    sim, pipeline = acl.current_simulation(), await create_pipeline(job)
    first = pipeline.streams[0]
    async with acl.capture(first) as graph:
        chunk = await pipeline.queue()
        await acl.StreamWaitEvent(first, chunk.done)  # joins all streams: the last copy is behind all that they did
    executable = await acl.GraphInstantiate(graph)
    await acl.GraphUpload(executable, first)
    await acl.SynchronizeStream(first)
    start = sim.now_ns
    await acl.GraphLaunch(executable, first)
    await acl.SynchronizeStream(first)
    return Outcome(pipeline.y, sim.now_ns - start, sim)


VERSIONS = {"synchronous": synchronous, "naive": naive, "pipelined": pipelined, "captured": captured}


def run(version: Callable[[Job], Awaitable[Outcome]], job: Job) -> Outcome:
    """Run *version* on an H200, with the host on which torch was measured."""
    return acl.run(version, job, device=h200(2 * job.x.nbytes), overlay=job.frame.overlay)


def random_job(seed: int, sequences: int, length: int, width: int, heads: int, chunk: int, causal: bool) -> Job:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((sequences, length, width), np.float32)
    into, out = (rng.standard_normal((width, n * width), np.float32) / np.float32(np.sqrt(width)) for n in (3, 1))
    return Job(x, into, out, heads, chunk, causal)


def show(job: Job, names: Iterable[str], card: Mapping[str, float] = MappingProxyType({})) -> dict[str, Outcome]:
    """Run those versions of *job*; print their times, and what a *card* took."""
    outcomes = {name: run(VERSIONS[name], job) for name in names}
    for name, outcome in outcomes.items():
        took = f"; an H200: {card[name]:5,} us, {card['naive'] / card[name]:.2f} x naive" if name in card else ""
        print(f"  {name:11} {outcome.ns / 1000:7,.0f} us, {outcomes['naive'].ns / outcome.ns:.2f} x naive{took}")
    return outcomes


def job_of_zeros(sequences: int, length: int, width: int, heads: int, chunk: int, causal: bool) -> Job:
    """Return a job that is only to be timed."""
    shapes = (sequences, length, width), (width, 3 * width), (width, width)
    x, into, out = (np.zeros(shape, np.float32) for shape in shapes)
    return Job(x, into, out, heads, chunk, causal)


def job_of_arguments(arguments: list[str]) -> Job:
    """Return the job in the *arguments* of the command line, as torch calls it."""
    names = ("SEQUENCES", "LENGTH", "WIDTH", "HEADS", "CHUNK", "CAUSAL")
    if len(arguments) != len(names):
        raise SystemExit(f"--as torch takes {len(names)} values, {' '.join(names)}, not {len(arguments)}")
    *sizes, causal = arguments
    for name, value in zip(names, sizes, strict=False):
        if not value.isdecimal() or int(value) == 0:
            raise SystemExit(f"{name} is {value!r}; it must be a whole number, 1 or more")
    sequences, length, width, heads, chunk = map(int, sizes)
    if width % heads:
        raise SystemExit(f"WIDTH is {width} and HEADS {heads}; the width must be a multiple of the heads")
    known = {"true": True, "1": True, "false": False, "0": False}
    if causal.lower() not in known:
        raise SystemExit(f"CAUSAL is {causal!r}; it must be true or false")
    job = job_of_zeros(sequences, length, width, heads, chunk, known[causal.lower()])
    return replace(job, frame=only_times(AS_TORCH))


# What torch took on an H200 for the job below (tests/conformance/data/attention.json).
CARD_US = {"synchronous": 4_800, "naive": 1_794, "pipelined": 1_518}


def main() -> None:
    job = random_job(0, 192, 128, 256, heads=4, chunk=32, causal=True)
    sequences, length, width = job.x.shape
    print(f"{sequences} sequences of {length}, {width} wide, {job.chunk} at a time, {job.heads} heads, causal")
    expected = reference(job.x, job.into, job.out, job.heads, job.causal)
    for title, frame, card in (("as torch calls it", AS_TORCH, CARD_US), ("from C", FROM_C, {})):
        print(f"\n{title}")
        outcomes = show(replace(job, frame=frame), VERSIONS, card)
        for outcome in outcomes.values():
            np.testing.assert_allclose(outcome.y, expected, rtol=1e-4, atol=1e-4)
    outcome = outcomes["pipelined"]
    print("\nthe last pipeline:")
    print(chart.lanes(outcome.sim.trace, since_ns=outcome.sim.now_ns - outcome.ns))


if __name__ == "__main__":
    if sys.argv[1:3] == ["--as", "torch"]:
        show(job_of_arguments(sys.argv[3:]), ("synchronous", "naive", "pipelined"))
    else:
        main()
