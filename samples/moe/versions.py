"""Three versions of a mixture-of-experts layer over batches of tokens. They launch the same kernels.

`synchronous` uses one stream and waits for each copy. `naive` is a port of it, call by call: each expert has a stream,
and the host still waits between the stages, out of habit or to learn how many tokens an expert got. In `pipelined`,
streams wait for one another instead.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt
from kernels import ALL, ONE, combine, dispatch, feed_forward, gate, route
from layer import Floats, Layer

import acl_py as acl
from acl_py import Array, MemcpyKind, Stream

LANES = 3  # batches in flight


@dataclass(frozen=True)
class Job:
    """Process *tokens* with *layer*, *batch* at a time, at most *capacity* of them per expert; None is dropless."""

    layer: Layer
    tokens: Floats
    batch: int
    capacity: int | None = None

    @property
    def parts(self) -> Iterator[slice]:
        return (slice(at, at + self.batch) for at in range(0, len(self.tokens), self.batch))

    @property
    def rows(self) -> int:
        """The rows of each expert. In a dropless layer, one expert may get all tokens of a batch."""
        return self.batch if self.capacity is None else self.capacity

    def create_output(self) -> Floats:
        return np.empty((len(self.tokens), self.layer.down.shape[2]), np.float32)


@dataclass(frozen=True)
class Outcome:
    output: Floats
    ns: int
    sim: acl.Simulation


# --- device memory


async def device_array(dtype: npt.DTypeLike, *shape: int) -> Array:
    return Array(await acl.Malloc(prod(shape) * np.dtype(dtype).itemsize), dtype, shape)


async def like(array: npt.NDArray) -> Array:
    return await device_array(array.dtype, *array.shape)


@dataclass(frozen=True)
class Lane:
    """A stream and the device memory that one batch needs."""

    stream: Stream
    tokens: Array
    chosen: Array
    share: Array
    row: Array
    source: Array
    count: Array
    rows: Array
    results: Array
    output: Array

    def cut(self, n: int) -> "Lane":
        """Return this lane for a batch of *n* tokens."""
        names = "tokens", "chosen", "share", "row", "output"
        return replace(self, **{name: getattr(self, name)[:n] for name in names})


async def create_lane(job: Job) -> Lane:
    layer, tokens, rows = job.layer, job.batch, job.rows
    _, width, _ = layer.up.shape
    _, _, outputs = layer.down.shape
    results = await device_array(np.float32, layer.experts, rows, outputs)
    await acl.Memset(results, results.nbytes, 0, results.nbytes)  # not every expert gets so many rows
    await acl.SynchronizeDevice()
    return Lane(
        stream=await acl.CreateStream(),
        tokens=await device_array(np.float32, tokens, width),
        chosen=await device_array(np.int32, tokens, layer.top_k),
        share=await device_array(np.float32, tokens, layer.top_k),
        row=await device_array(np.int32, tokens, layer.top_k),
        source=await device_array(np.int32, layer.experts, rows),
        count=await device_array(np.int32, layer.experts),
        rows=await device_array(np.float32, layer.experts, rows, width),
        results=results,
        output=await device_array(np.float32, tokens, outputs),
    )


# --- copies


async def copy(dst: Array | npt.NDArray, src: Array | npt.NDArray) -> None:
    """Copy all of *src*, and wait for it."""
    await acl.Memcpy(dst, dst.nbytes, src, src.nbytes, MemcpyKind.DEFAULT)


async def queue_copy(dst: Array | npt.NDArray, src: Array | npt.NDArray, stream: Stream) -> None:
    await acl.MemcpyAsync(dst, dst.nbytes, src, src.nbytes, MemcpyKind.DEFAULT, stream)


# --- the versions


async def synchronous(job: Job) -> Outcome:
    """Use one stream and pageable memory; the host waits for each copy."""
    layer, output = job.layer, job.create_output()
    sim = acl.current_simulation()
    lane = await create_lane(job)
    weights, up, down = await like(layer.gate), await like(layer.up), await like(layer.down)
    start = sim.now_ns
    await copy(weights, layer.gate)
    await copy(up, layer.up)
    await copy(down, layer.down)
    for part in job.parts:
        tokens = job.tokens[part]
        batch = lane.cut(len(tokens))
        await copy(batch.tokens, tokens)
        await gate[ALL](batch.tokens, weights, batch.chosen, batch.share)
        await route[ALL](batch.chosen, batch.row, batch.source, batch.count)
        counts = np.full(layer.experts, job.rows, np.int32)
        if job.capacity is None:
            await copy(counts, batch.count)
        for i, count in enumerate(counts):
            rows, results = batch.rows[i][:count], batch.results[i][:count]
            await dispatch[ONE](batch.tokens, batch.source[i][:count], rows)
            await feed_forward[ONE](rows, up[i], down[i], results)
        await combine[ALL](batch.results, batch.chosen, batch.row, batch.share, batch.output)
        await copy(output[part], batch.output)
    return Outcome(output, sim.now_ns - start, sim)


async def naive(job: Job) -> Outcome:
    """Use a stream for each expert and pinned memory; the host waits for every stage."""
    layer, output = job.layer, job.create_output()
    counts = np.full(layer.experts, job.rows, np.int32)
    sim = acl.current_simulation()
    for array in (layer.gate, layer.up, layer.down, job.tokens, output, counts):
        await acl.HostRegister(array)
    lane = await create_lane(job)
    weights, up, down = await like(layer.gate), await like(layer.up), await like(layer.down)
    streams = [await acl.CreateStream() for _ in range(layer.experts)]
    start = sim.now_ns
    await queue_copy(weights, layer.gate, lane.stream)
    for i, stream in enumerate(streams):
        await queue_copy(up[i], layer.up[i], stream)
        await queue_copy(down[i], layer.down[i], stream)
    await acl.SynchronizeDevice()
    for part in job.parts:
        tokens = job.tokens[part]
        batch = lane.cut(len(tokens))
        await queue_copy(batch.tokens, tokens, lane.stream)
        await gate[ALL, lane.stream](batch.tokens, weights, batch.chosen, batch.share)
        await route[ALL, lane.stream](batch.chosen, batch.row, batch.source, batch.count)
        if job.capacity is None:
            await queue_copy(counts, batch.count, lane.stream)
        await acl.SynchronizeStream(lane.stream)
        for i, (stream, count) in enumerate(zip(streams, counts, strict=True)):
            await dispatch[ONE, stream](batch.tokens, batch.source[i][:count], batch.rows[i][:count])
        for stream in streams:
            await acl.SynchronizeStream(stream)
        for i, (stream, count) in enumerate(zip(streams, counts, strict=True)):
            await feed_forward[ONE, stream](batch.rows[i][:count], up[i], down[i], batch.results[i][:count])
        for stream in streams:
            await acl.SynchronizeStream(stream)
        await combine[ALL, lane.stream](batch.results, batch.chosen, batch.row, batch.share, batch.output)
        await queue_copy(output[part], batch.output, lane.stream)
        await acl.SynchronizeStream(lane.stream)
    return Outcome(output, sim.now_ns - start, sim)


async def pipelined(job: Job) -> Outcome:
    """Use a stream for each batch in flight and each expert, events between them, and one wait at the end.

    The host does not know how many tokens an expert got: launches are for the largest possible number of rows, and one
    launch dispatches the tokens of all experts.
    """
    layer, output = job.layer, job.create_output()
    sim = acl.current_simulation()
    for array in (layer.gate, layer.up, layer.down, job.tokens, output):
        await acl.HostRegister(array)
    lanes = [await create_lane(job) for _ in range(LANES)]
    weights, up, down = await like(layer.gate), await like(layer.up), await like(layer.down)
    streams = [await acl.CreateStream() for _ in range(layer.experts)]
    # A wait is for the record that precedes it, so one event per purpose serves all batches.
    loaded, routed, computed = [await acl.CreateEvent(timing=False) for _ in range(3)]
    start = sim.now_ns
    await queue_copy(weights, layer.gate, lanes[0].stream)
    await acl.RecordEvent(loaded, lanes[0].stream)
    for lane in lanes[1:]:
        await acl.StreamWaitEvent(lane.stream, loaded)
    for i, stream in enumerate(streams):  # only the expert itself waits for its weights
        await queue_copy(up[i], layer.up[i], stream)
        await queue_copy(down[i], layer.down[i], stream)
    for number, part in enumerate(job.parts):
        tokens = job.tokens[part]
        batch = lanes[number % LANES].cut(len(tokens))
        await queue_copy(batch.tokens, tokens, batch.stream)
        await gate[ALL, batch.stream](batch.tokens, weights, batch.chosen, batch.share)
        await route[ALL, batch.stream](batch.chosen, batch.row, batch.source, batch.count)
        await dispatch[ALL, batch.stream](batch.tokens, batch.source, batch.rows)
        await acl.RecordEvent(routed, batch.stream)
        for i, stream in enumerate(streams):
            await acl.StreamWaitEvent(stream, routed)
            await feed_forward[ONE, stream](batch.rows[i], up[i], down[i], batch.results[i])
            await acl.RecordEvent(computed, stream)
            await acl.StreamWaitEvent(batch.stream, computed)
        await combine[ALL, batch.stream](batch.results, batch.chosen, batch.row, batch.share, batch.output)
        await queue_copy(output[part], batch.output, batch.stream)
    await acl.SynchronizeDevice()
    return Outcome(output, sim.now_ns - start, sim)


VERSIONS = {"synchronous": synchronous, "naive": naive, "pipelined": pipelined}
