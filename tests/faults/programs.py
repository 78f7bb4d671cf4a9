"""The programs of the campaign: small ones that use much, check what they computed, and give back what they took.

A program is a coroutine function of a `Bag`. What it takes it puts in there, so that it is given back at its end
whatever happens, as far as that can be: what a lost device or a fault keeps in the bag is the campaign's to return.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import acl_py as acl
from acl_py import Array, CallbackBlock, Cost, In, InOut, MemcpyKind, Out

sys.path.append(str(Path(__file__).parent.parent.parent / "samples" / "moe"))

from kernels import ALL, ONE, combine, dispatch, feed_forward, gate, route
from layer import forward, random_layer

N = 1 << 10
H2D, D2H, ANY = MemcpyKind.HOST_TO_DEVICE, MemcpyKind.DEVICE_TO_HOST, MemcpyKind.DEFAULT


class Wrong(Exception):
    """A program computed something else than it should."""


def check(found, expected, tolerance=0):
    if not np.allclose(found, expected, rtol=tolerance, atol=tolerance):
        raise Wrong(f"{found} instead of {expected}")


class Bag:
    """What a program has taken and not given back yet, with the verb that gives it back."""

    def __init__(self):
        self.held = {}

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.give_back()

    async def give_back(self):
        """Give back all, the last first; what fails stays here, and the first failure is told."""
        failures = []
        for thing, end in reversed(list(self.held.items())):
            try:
                await end(thing)
                del self.held[thing]
            except acl.AclError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def take(self, verb, *args, end, **options):
        thing = await verb(*args, **options)
        self.held[thing] = end
        return thing

    async def malloc(self, nbytes):
        return await self.take(acl.Malloc, nbytes, end=acl.Free)

    async def pinned(self, nbytes):
        return await self.take(acl.MallocHost, nbytes, end=acl.FreeHost)

    async def stream(self, **options):
        return await self.take(acl.CreateStream, end=acl.DestroyStream, **options)

    async def event(self, **options):
        return await self.take(acl.CreateEvent, end=acl.DestroyEvent, **options)

    async def array(self, dtype, *shape):
        return Array(await self.malloc(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype, shape)


@acl.kernel(cost=Cost(us=5))
def square(x: InOut):
    np.multiply(x, x, out=x)


@acl.kernel(cost=Cost(flops=1e6))
def add(x: In, y: In, out: Out):
    np.add(x, y, out=out)


async def double_buffering(bag):
    """Pinned halves through two streams: upload, kernel, download, and a wait for each."""
    host = await bag.pinned(4 * N)
    data = host.numpy(np.int32)
    data[:] = np.arange(N)
    lanes = [(await bag.stream(), await bag.malloc(N)) for _ in range(2)]
    for i in range(4):
        stream, device = lanes[i % 2]
        part = host[i * N : (i + 1) * N]
        await acl.MemcpyAsync(device, N, part, N, H2D, stream)
        await square[4, stream](Array(device, np.int32))
        await acl.MemcpyAsync(part, N, device, N, D2H, stream)
    for stream, _ in lanes:
        await acl.SynchronizeStream(stream)
    check(data, np.arange(N) ** 2)


async def mixture_of_experts(bag):
    """The layer of samples/moe: a stream for each expert, events between the stages, one wait at the end."""
    layer = random_layer(np.random.default_rng(0), width=4, hidden=8, outputs=4, experts=2, top_k=2)
    tokens = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)
    output = np.empty_like(tokens)
    for array in (layer.gate, layer.up, layer.down, tokens, output):
        await bag.take(acl.HostRegister, array, end=acl.HostUnregister)
    lane = await bag.stream()
    streams = [await bag.stream() for _ in range(layer.experts)]
    routed, computed = await bag.event(timing=False), await bag.event(timing=False)
    weights, up, down, x = [await bag.array(a.dtype, *a.shape) for a in (layer.gate, layer.up, layer.down, tokens)]
    chosen, row = [await bag.array(np.int32, 4, 2) for _ in range(2)]
    source, count = await bag.array(np.int32, 2, 4), await bag.array(np.int32, 2)
    share, y = await bag.array(np.float32, 4, 2), await bag.array(np.float32, 4, 4)
    rows, results = await bag.array(np.float32, 2, 4, 4), await bag.array(np.float32, 2, 4, 4)
    for dst, src in ((weights, layer.gate), (up, layer.up), (down, layer.down), (x, tokens)):
        await acl.MemcpyAsync(dst, dst.nbytes, src, src.nbytes, ANY, lane)
    await gate[ALL, lane](x, weights, chosen, share)
    await route[ALL, lane](chosen, row, source, count)
    await dispatch[ALL, lane](x, source, rows)
    await acl.RecordEvent(routed, lane)
    for i, stream in enumerate(streams):
        await acl.StreamWaitEvent(stream, routed)
        await feed_forward[ONE, stream](rows[i], up[i], down[i], results[i])
        await acl.RecordEvent(computed, stream)
        await acl.StreamWaitEvent(lane, computed)
    await combine[ALL, lane](results, chosen, row, share, y)
    await acl.MemcpyAsync(output, output.nbytes, y, y.nbytes, ANY, lane)
    await acl.SynchronizeDevice()
    check(output, forward(layer, tokens), 1e-4)


async def events_over_streams(bag):
    """A diamond of streams held together by events, which are asked, waited for and timed; the default stream."""
    a, b = await bag.stream(), await bag.stream(nonblocking=True, priority=-1)
    begin, half, end = [await bag.event() for _ in range(3)]
    x, y, z = [await bag.malloc(N) for _ in range(3)]
    host = await bag.pinned(N)
    await acl.MemsetAsync(x, N, 1, N, a)
    await acl.RecordEvent(begin, a)
    await acl.StreamWaitEvent(b, begin)
    await acl.MemcpyAsync(y, N, x, N, ANY, b)
    await add[8, a](Array(x, np.uint8), Array(x, np.uint8), Array(z, np.uint8))
    await acl.RecordEvent(half, b)
    await acl.StreamWaitEvent(a, half)
    await add[200, a](Array(y, np.uint8), Array(z, np.uint8), Array(x, np.uint8))
    await acl.RecordEvent(end, a)
    while await acl.QueryEventStatus(half) is acl.Status.NOT_READY:
        await acl.HostWork(2)
    await acl.SynchronizeEvent(end)
    if not await acl.EventElapsedTime(begin, end) > 0:
        raise Wrong("the end came before the beginning")
    await acl.Memcpy(host, N, x, N, D2H)
    await acl.StreamQuery(b)
    check(host.numpy(), 3)


async def pools(bag):
    """Memory of the stream-ordered pool that changes hands between streams, beside plain memory."""
    a, b = await bag.stream(), await bag.stream()
    host, result = await bag.pinned(N), await bag.pinned(N)
    freed = await bag.event(timing=False)
    host.numpy()[:] = 5
    free, total = await acl.GetMemInfo()
    x = await bag.take(acl.MallocAsync, N, a, end=acl.Free)
    await acl.MemcpyAsync(x, N, host, N, H2D, a)
    y = await bag.take(acl.MallocAsync, N, a, end=acl.Free)
    await add[1, a](Array(x, np.uint8), Array(x, np.uint8), Array(y, np.uint8))
    await acl.FreeAsync(x, a)
    del bag.held[x]
    await acl.RecordEvent(freed, a)
    await acl.StreamWaitEvent(b, freed)
    z = await bag.take(acl.MallocAsync, N, b, end=acl.Free)
    await acl.Memcpy2dAsync(z, 32, y, 32, 32, N // 32, ANY, b)
    await acl.MemcpyAsync(result, N, z, N, D2H, b)
    for each, stream in ((y, b), (z, b)):
        await acl.FreeAsync(each, stream)
        del bag.held[each]
    await acl.SynchronizeDevice()
    if not free <= total:
        raise Wrong("more is free than there is")
    check(result.numpy(), 10)


async def pageable_and_callbacks(bag):
    """Two tasks under CUDA's rules: staged copies, host functions between them, and waits of both."""
    device = await bag.malloc(2 * 128 * N)

    async def work(i):
        stream = await bag.stream()
        source, result = np.full(128 * N, i + 1, np.uint8), np.zeros(128 * N, np.uint8)
        part, seen = device[i * 128 * N : (i + 1) * 128 * N], []
        await acl.MemcpyAsync(part, 128 * N, source, 128 * N, H2D, stream)
        await square[4, stream](Array(part, np.uint8))
        await acl.LaunchHostFunc(stream, seen.append, (i,), us=3)
        await acl.MemcpyAsync(result, 128 * N, part, 128 * N, D2H, stream)
        await acl.SynchronizeStream(stream)
        check(result, (i + 1) ** 2)
        check(seen, [i])

    async with asyncio.TaskGroup() as group:
        for i in range(2):
            group.create_task(work(i))


async def signals_and_reports(bag):
    """Under ACL's rules: flag events, a notify, a word of memory, and callbacks that a subscriber runs."""
    a, b = await bag.stream(), await bag.stream()
    x, host, seen = await bag.malloc(N), await bag.pinned(N), []
    flag = await bag.take(acl.CreateEventWithFlag, acl.EventFlag.SYNC, end=acl.DestroyEvent)
    notify = await bag.take(acl.CreateNotify, end=acl.DestroyNotify)
    await acl.SubscribeReport(None, b)
    try:
        host.numpy()[:] = 3
        await acl.MemcpyAsync(x, N, host, N, H2D, a)
        await acl.ValueWrite(x, 7, 0, a)
        await acl.RecordEvent(flag, a)
        await acl.RecordNotify(notify, a)
        await acl.StreamWaitEvent(b, flag)
        await acl.ResetEvent(flag, b)
        await acl.WaitAndResetNotify(notify, b)
        await acl.ValueWait(x, 7, acl.Compare.EQ, b)
        await square[4, b](Array(x[8:], np.uint8))
        await acl.LaunchCallback(seen.append, 1, CallbackBlock.BLOCK, b)
        await acl.MemcpyAsync(host, N, x, N, D2H, b)
        await acl.ProcessReport(1000)
        await acl.SynchronizeStream(b)
        await acl.SynchronizeDevice()
    finally:
        await acl.UnsubscribeReport(None, b)
    check(host.numpy()[8:], 9)
    check(seen, [1])


@dataclass(frozen=True)
class Program:
    """A program and the rules it is for."""

    main: Callable[[Bag], Awaitable[None]]
    rules: str

    @property
    def name(self):
        return self.main.__name__


PROGRAMS = [
    Program(double_buffering, "cuda"),
    Program(mixture_of_experts, "cuda"),
    Program(events_over_streams, "cuda"),
    Program(pools, "cuda_per_thread"),
    Program(pageable_and_callbacks, "cuda"),
    Program(signals_and_reports, "acl"),
]
