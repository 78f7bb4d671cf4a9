"""Shows: double buffering: the keys and values of a long context go through two small buffers on the device.

Scenario: a few queries attend to more keys and values than should stay on the device. These come in chunks, and the
softmax is computed online: for each query the kernel keeps the largest score so far, the sum of the shares, and the
mixture of the values; a larger score scales both down. Synchronous: pageable memory, and the host waits for each copy.
Naive: pinned memory and asynchronous calls, but one stream and one buffer, so copies and kernels take turns.
Double-buffered: while a kernel works on one buffer, a copy fills the other. One event says that a buffer is full,
another that it is free. All results are compared with attention in float64 over all keys at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import acl_py as acl
from acl_py import Array, Cost, Event, In, InOut, MemcpyKind, Out
from acl_py.trace import chart

Floats = npt.NDArray[np.float32]

BLOCKS = 132  # one for each core of an H200


@acl.kernel(cost=lambda _largest, total, mixed: Cost.elementwise(total.nbytes, total.nbytes + mixed.nbytes))
def begin(largest: Out, total: Out, mixed: Out):
    """Reset the state: no keys seen yet."""
    largest[:], total[:], mixed[:] = -np.inf, 0, 0


def of_attention(q, k, *_):
    """Return the cost of two products of the same size: that of one with twice the columns."""
    heads, queries, width = q.shape
    return Cost.matmul(queries, 2 * len(k), width, "float32", heads)


@acl.kernel(cost=of_attention)
def attend(q: In, k: In, v: In, lead, largest: InOut, total: InOut, mixed: InOut):
    """Add some keys and values to the state. Query *i* sees the first `lead + i` of them, or all if *lead* is None.

    Queries and *mixed* are (heads, queries, width), keys and values (keys, heads, width).
    """
    scores = q / np.sqrt(np.float32(q.shape[-1])) @ k.transpose(1, 2, 0)
    if lead is not None:
        hidden = np.arange(len(k)) >= lead + np.arange(q.shape[1])[:, None]
        scores[:, hidden] = -np.inf
    before = largest.copy()
    np.maximum(before, scores.max(axis=-1), out=largest)
    scale = np.exp(before - largest)
    shares = np.exp(scores - largest[..., None])
    total[:] = total * scale + shares.sum(axis=-1)
    mixed[:] = mixed * scale[..., None] + shares @ v.transpose(1, 0, 2)


@acl.kernel(cost=lambda _total, mixed: Cost.elementwise(mixed.nbytes, mixed.nbytes))
def finish(total: In, mixed: InOut):
    """Scale the mixture, so that the shares add up to one."""
    mixed /= total[..., None]


def reference(q: npt.NDArray, k: npt.NDArray, v: npt.NDArray, causal: bool) -> npt.NDArray[np.float64]:
    """Compute the same over all keys at once, in float64."""
    q, k, v = (array.astype(np.float64) for array in (q, k.transpose(1, 0, 2), v.transpose(1, 0, 2)))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        queries, keys = scores.shape[1:]
        scores[:, np.arange(keys) > keys - queries + np.arange(queries)[:, None]] = -np.inf
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True) @ v


# --- the job and its memory


@dataclass(frozen=True)
class Job:
    """Queries *q* (heads, queries, width), over keys and values (keys, heads, width), *chunk* keys at a time.

    If *causal*, the queries are those of the last positions, and see no position after their own.
    """

    q: Floats
    k: Floats
    v: Floats
    chunk: int
    causal: bool

    @property
    def parts(self) -> Iterator[slice]:
        return (slice(at, at + self.chunk) for at in range(0, len(self.k), self.chunk))

    def lead(self, part: slice) -> int | None:
        """Return how many keys of this *part* the first query would see, even beyond its end."""
        return len(self.k) - self.q.shape[1] + 1 - part.start if self.causal else None


@dataclass(frozen=True)
class Outcome:
    mixed: Floats
    ns: int
    sim: acl.Simulation


@dataclass(frozen=True)
class State:
    """The queries on the device, and the state of their softmax."""

    q: Array
    largest: Array
    total: Array
    mixed: Array

    @property
    def seen(self) -> tuple[Array, Array, Array]:
        return self.largest, self.total, self.mixed


@dataclass(frozen=True)
class Slot:
    """Device memory for a chunk of keys and values."""

    k: Array
    v: Array
    ready: Event
    free: Event


async def device_array(*shape: int) -> Array:
    return Array(await acl.Malloc(4 * int(np.prod(shape))), np.float32, shape)


async def create_state(job: Job) -> State:
    heads, queries, _ = job.q.shape
    by_query = heads, queries
    state = State(
        q=await device_array(*job.q.shape),
        largest=await device_array(*by_query),
        total=await device_array(*by_query),
        mixed=await device_array(*job.q.shape),
    )
    await acl.Memcpy(state.q, job.q.nbytes, job.q, job.q.nbytes, MemcpyKind.HOST_TO_DEVICE)
    return state


async def create_slot(job: Job) -> Slot:
    _, heads, width = job.k.shape
    k, v = [await device_array(job.chunk, heads, width) for _ in "kv"]
    ready, free = [await acl.CreateEvent(timing=False) for _ in range(2)]
    return Slot(k, v, ready, free)


# --- the versions


async def synchronous(job: Job) -> Outcome:
    sim = acl.current_simulation()
    mixed = np.empty_like(job.q)
    state, slot = await create_state(job), await create_slot(job)
    start = sim.now_ns
    await begin[BLOCKS](*state.seen)
    for part in job.parts:
        keys, values = job.k[part], job.v[part]
        k, v = slot.k[: len(keys)], slot.v[: len(keys)]
        await acl.Memcpy(k, k.nbytes, keys, k.nbytes, MemcpyKind.HOST_TO_DEVICE)
        await acl.Memcpy(v, v.nbytes, values, v.nbytes, MemcpyKind.HOST_TO_DEVICE)
        await attend[BLOCKS](state.q, k, v, job.lead(part), *state.seen)
    await finish[BLOCKS](state.total, state.mixed)
    await acl.Memcpy(mixed, mixed.nbytes, state.mixed, mixed.nbytes, MemcpyKind.DEVICE_TO_HOST)
    return Outcome(mixed, sim.now_ns - start, sim)


async def naive(job: Job) -> Outcome:
    sim = acl.current_simulation()
    mixed = np.empty_like(job.q)
    for array in (job.k, job.v, mixed):
        await acl.HostRegister(array)
    state, slot = await create_state(job), await create_slot(job)
    stream = await acl.CreateStream()
    start = sim.now_ns
    await begin[BLOCKS, stream](*state.seen)
    for part in job.parts:
        keys, values = job.k[part], job.v[part]
        k, v = slot.k[: len(keys)], slot.v[: len(keys)]
        await acl.MemcpyAsync(k, k.nbytes, keys, k.nbytes, MemcpyKind.HOST_TO_DEVICE, stream)
        await acl.MemcpyAsync(v, v.nbytes, values, v.nbytes, MemcpyKind.HOST_TO_DEVICE, stream)
        await attend[BLOCKS, stream](state.q, k, v, job.lead(part), *state.seen)
    await finish[BLOCKS, stream](state.total, state.mixed)
    await acl.MemcpyAsync(mixed, mixed.nbytes, state.mixed, mixed.nbytes, MemcpyKind.DEVICE_TO_HOST, stream)
    await acl.SynchronizeStream(stream)
    return Outcome(mixed, sim.now_ns - start, sim)


async def double_buffered(job: Job) -> Outcome:
    sim = acl.current_simulation()
    mixed = np.empty_like(job.q)
    for array in (job.k, job.v, mixed):
        await acl.HostRegister(array)
    state, slots = await create_state(job), [await create_slot(job) for _ in range(2)]
    copies, kernels = [await acl.CreateStream() for _ in range(2)]
    start = sim.now_ns
    await begin[BLOCKS, kernels](*state.seen)
    for number, part in enumerate(job.parts):
        slot = slots[number % 2]
        keys, values = job.k[part], job.v[part]
        k, v = slot.k[: len(keys)], slot.v[: len(keys)]
        await acl.StreamWaitEvent(copies, slot.free)  # not recorded before its first use: no wait
        await acl.MemcpyAsync(k, k.nbytes, keys, k.nbytes, MemcpyKind.HOST_TO_DEVICE, copies)
        await acl.MemcpyAsync(v, v.nbytes, values, v.nbytes, MemcpyKind.HOST_TO_DEVICE, copies)
        await acl.RecordEvent(slot.ready, copies)
        await acl.StreamWaitEvent(kernels, slot.ready)
        await attend[BLOCKS, kernels](state.q, k, v, job.lead(part), *state.seen)
        await acl.RecordEvent(slot.free, kernels)
    await finish[BLOCKS, kernels](state.total, state.mixed)
    await acl.MemcpyAsync(mixed, mixed.nbytes, state.mixed, mixed.nbytes, MemcpyKind.DEVICE_TO_HOST, kernels)
    await acl.SynchronizeStream(kernels)
    return Outcome(mixed, sim.now_ns - start, sim)


VERSIONS = {"synchronous": synchronous, "naive": naive, "double-buffered": double_buffered}


def random_job(seed: int, queries: int, keys: int, heads: int, width: int, chunk: int, causal: bool) -> Job:
    rng = np.random.default_rng(seed)
    q, k, v = (
        rng.standard_normal(shape, np.float32) for shape in ((heads, queries, width), *[(keys, heads, width)] * 2)
    )
    return Job(q, k, v, chunk, causal)


def jobs() -> list[Job]:
    return [random_job(0, 2048, 16384, heads=1, width=128, chunk=2048, causal=causal) for causal in (False, True)]


def main() -> None:
    for job in jobs():
        heads, queries, width = job.q.shape
        print(f"{queries:,} queries of {width}, {heads} head, {len(job.k):,} keys, {job.chunk:,} at a time", end="")
        print(", causal" if job.causal else "")
        expected = reference(job.q, job.k, job.v, job.causal)
        outcomes = {name: acl.run(version, job, device="h200") for name, version in VERSIONS.items()}
        for name, outcome in outcomes.items():
            np.testing.assert_allclose(outcome.mixed, expected, rtol=1e-4, atol=1e-4)
            print(f"  {name:15} {outcome.ns / 1000:7,.0f} us, {outcomes['naive'].ns / outcome.ns:.2f} x naive")
    print("\nthe last of them:")
    print(chart.lanes(outcome.sim.trace, since_ns=outcome.sim.now_ns - outcome.ns))


if __name__ == "__main__":
    main()
