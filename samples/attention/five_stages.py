"""Shows: a pipeline of five kernels in several streams, in which each stage waits for an event of the previous one.

Scenario: multi-head attention over the chunks of a batch, in five stages: projection to queries, keys and values;
scores; softmax; mixture of the values; projection of the output. Synchronous: pageable memory, one stream, and a host
that waits for each copy. Naive: the same calls in their asynchronous form and pinned memory, but still one stream and
one set of buffers, so no copy overlaps a kernel. Pipelined: a stream for each stage and for each direction of copies,
and several sets of buffers. Events pass a chunk from stream to stream while the next chunk is copied in. All results
are compared with attention in float64.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

import acl_py as acl
from acl_py import Array, Cost, Event, In, InOut, MemcpyKind, Out
from acl_py.trace import chart

Floats = npt.NDArray[np.float32]

BLOCKS = 132  # one for each core of an H200
SLOTS = 4  # chunks in flight


# --- the stages


def product(x, weights, *_):
    """Return the flops of a product with *weights*."""
    return 2 * x.size * weights.shape[1]


@acl.kernel(cost=Cost(flops=product))
def project(x: In, weights: In, q: Out, k: Out, v: Out):
    """Compute queries, keys and values: (sequences, heads, length, width of a head) each."""
    sequences, heads, length, width = q.shape
    together = (x @ weights).reshape(sequences, length, 3, heads, width)
    q[:], k[:], v[:] = together.transpose(2, 0, 3, 1, 4)


@acl.kernel(cost=Cost(flops=lambda q, _k, _causal, scores: 2 * scores.size * q.shape[-1]))
def score(q: In, k: In, causal, scores: Out):
    """Compute the attention scores of each pair of positions; if *causal*, none of later positions."""
    np.matmul(q / np.sqrt(np.float32(q.shape[-1])), k.swapaxes(-1, -2), out=scores)
    if causal:
        length = scores.shape[-1]
        scores[..., np.triu(np.ones((length, length), bool), k=1)] = -np.inf


@acl.kernel(cost=Cost(flops=lambda scores: 5 * scores.size, bytes=lambda scores: 2 * scores.nbytes))
def softmax(scores: InOut):
    """Compute softmax over the last axis, in place."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)


@acl.kernel(cost=Cost(flops=lambda shares, v, _: 2 * shares.size * v.shape[-1]))
def mix(shares: In, v: In, mixed: Out):
    """Mix the values by their shares, and put the heads side by side again."""
    mixed[:] = (shares @ v).swapaxes(1, 2).reshape(mixed.shape)


@acl.kernel(cost=Cost(flops=product))
def finish(mixed: In, weights: In, y: Out):
    """Project the output."""
    np.matmul(mixed, weights, out=y)


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
    """The device memory of a chunk. The event *done* is recorded after its last operation."""

    x: Array
    q: Array
    k: Array
    v: Array
    scores: Array
    mixed: Array
    y: Array
    done: Event

    def cut(self, sequences: int) -> "Slot":
        """Return this slot for a chunk of *sequences* sequences."""
        arrays = {name: thing for name, thing in vars(self).items() if isinstance(thing, Array)}
        return replace(self, **{name: array[:sequences] for name, array in arrays.items()})

    def stages(self, into: Array, out: Array, causal: bool):
        """Return the kernels with their arguments."""
        return (
            (project, (self.x, into, self.q, self.k, self.v)),
            (score, (self.q, self.k, causal, self.scores)),
            (softmax, (self.scores,)),
            (mix, (self.scores, self.v, self.mixed)),
            (finish, (self.mixed, out, self.y)),
        )


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
    )


async def device_array(*shape: int) -> Array:
    return Array(await acl.Malloc(4 * int(np.prod(shape))), np.float32, shape)


async def put(host: Floats) -> Array:
    """Return a copy of *host* on the device."""
    array = await device_array(*host.shape)
    await acl.Memcpy(array, array.nbytes, host, host.nbytes, MemcpyKind.HOST_TO_DEVICE)
    return array


# --- the versions


async def synchronous(job: Job) -> Outcome:
    sim = acl.current_simulation()
    y = np.empty_like(job.x)
    into, out, slot = await put(job.into), await put(job.out), await create_slot(job)
    start = sim.now_ns
    for part in job.parts:
        x = job.x[part]
        chunk = slot.cut(len(x))
        await acl.Memcpy(chunk.x, x.nbytes, x, x.nbytes, MemcpyKind.HOST_TO_DEVICE)
        for kernel, args in chunk.stages(into, out, job.causal):
            await kernel[BLOCKS](*args)
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
    for part in job.parts:
        x = job.x[part]
        chunk = slot.cut(len(x))
        await acl.MemcpyAsync(chunk.x, x.nbytes, x, x.nbytes, MemcpyKind.HOST_TO_DEVICE, stream)
        for kernel, args in chunk.stages(into, out, job.causal):
            await kernel[BLOCKS, stream](*args)
        await acl.MemcpyAsync(y[part], x.nbytes, chunk.y, x.nbytes, MemcpyKind.DEVICE_TO_HOST, stream)
    await acl.SynchronizeStream(stream)
    return Outcome(y, sim.now_ns - start, sim)


async def pipelined(job: Job) -> Outcome:
    sim = acl.current_simulation()
    y = np.empty_like(job.x)
    into, out, slots = await put(job.into), await put(job.out), [await create_slot(job) for _ in range(SLOTS)]
    for array in (job.x, y):
        await acl.HostRegister(array)
    first, *streams, last = [await acl.CreateStream() for _ in range(7)]
    start = sim.now_ns
    for number, part in enumerate(job.parts):
        x = job.x[part]
        chunk = slots[number % SLOTS].cut(len(x))
        await acl.StreamWaitEvent(first, chunk.done)  # of the previous chunk in this slot
        await acl.MemcpyAsync(chunk.x, x.nbytes, x, x.nbytes, MemcpyKind.HOST_TO_DEVICE, first)
        await acl.RecordEvent(chunk.done, first)
        for (kernel, args), stream in zip(chunk.stages(into, out, job.causal), streams, strict=True):
            await acl.StreamWaitEvent(stream, chunk.done)
            await kernel[BLOCKS, stream](*args)
            await acl.RecordEvent(chunk.done, stream)
        await acl.StreamWaitEvent(last, chunk.done)
        await acl.MemcpyAsync(y[part], x.nbytes, chunk.y, x.nbytes, MemcpyKind.DEVICE_TO_HOST, last)
        await acl.RecordEvent(chunk.done, last)
    await acl.SynchronizeDevice()
    return Outcome(y, sim.now_ns - start, sim)


VERSIONS = {"synchronous": synchronous, "naive": naive, "pipelined": pipelined}


def random_job(seed: int, sequences: int, length: int, width: int, heads: int, chunk: int, causal: bool) -> Job:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((sequences, length, width), np.float32)
    into, out = (rng.standard_normal((width, n * width), np.float32) / np.float32(np.sqrt(width)) for n in (3, 1))
    return Job(x, into, out, heads, chunk, causal)


def jobs() -> list[Job]:
    return [random_job(0, 192, 128, 256, heads=4, chunk=32, causal=causal) for causal in (False, True)]


def main() -> None:
    for job in jobs():
        sequences, length, width = job.x.shape
        print(f"{sequences} sequences of {length}, {width} wide, {job.chunk} at a time, {job.heads} heads", end="")
        print(", causal" if job.causal else "")
        expected = reference(job.x, job.into, job.out, job.heads, job.causal)
        outcomes = {name: acl.run(version, job, device="h200") for name, version in VERSIONS.items()}
        for name, outcome in outcomes.items():
            np.testing.assert_allclose(outcome.y, expected, rtol=1e-4, atol=1e-4)
            print(f"  {name:11} {outcome.ns / 1000:7,.0f} us, {outcomes['naive'].ns / outcome.ns:.2f} x naive")
    print("\nthe last of them:")
    print(chart.lanes(outcome.sim.trace, since_ns=outcome.sim.now_ns - outcome.ns))


if __name__ == "__main__":
    main()
