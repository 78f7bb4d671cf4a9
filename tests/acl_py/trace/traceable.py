"""Programs whose traces the charts are tried on; all on the tiny device, so that their times are known."""

import asyncio
from functools import cache

import numpy as np
from histories import D2H, H2D

import acl_py
from acl_py import Cost, MemcpyKind

SIZE = 10_000


@acl_py.kernel(cost=Cost(us=20))
def scale():
    pass


async def one_of_each(sim):
    """Up, a kernel, down, in one stream."""
    await pipeline(streams=1, rounds=1)


async def many(sim):
    """408 operations in 4 streams."""
    await pipeline(streams=4, rounds=34)


async def crowd(sim):
    """Many streams, more than there are lanes."""
    await pipeline(streams=30, rounds=2)


async def pageable(sim):
    """Copies in which the host takes part, so that one call queues several operations."""
    array = np.zeros(SIZE, np.uint8)
    device = await acl_py.Malloc(SIZE)
    stream = await acl_py.CreateStream()
    for _ in range(3):
        await acl_py.MemcpyAsync(device, SIZE, array, SIZE, H2D, stream)
        await scale[1, stream]()
        await acl_py.MemcpyAsync(array, SIZE, device, SIZE, D2H, stream)
    await acl_py.Memcpy(device, 1_000, array, 1_000, H2D)
    await acl_py.SynchronizeDevice()


async def tasks(sim):
    """Three tasks that wait at the same time, each for a stream of its own."""

    async def one():
        stream = await acl_py.CreateStream()
        for _ in range(3):
            await acl_py.LaunchKernel(scale, 1, (), stream)
            await acl_py.HostWork(2)
            await acl_py.SynchronizeStream(stream)

    await asyncio.gather(one(), one(), one())


async def named(sim):
    """Three tasks: two have names, as their streams have, and one makes a stream without a name."""

    async def copy(stream):
        host, device = await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)
        await acl_py.MemcpyAsync(device, SIZE, host, SIZE, H2D, stream)
        await acl_py.SynchronizeStream(stream)

    async def compute(stream):
        for _ in range(2):
            await scale[1, stream]()
            await acl_py.SynchronizeStream(stream)

    uploads, maths = await acl_py.CreateStream(name="uploads"), await acl_py.CreateStream(name="maths")
    async with asyncio.TaskGroup() as group:
        group.create_task(copy(uploads), name="producer")
        group.create_task(compute(maths), name="consumer")
        group.create_task(compute(await acl_py.CreateStream()))


async def gathered(sim):
    """Verbs that are tasks of their own, all made in one line; some of them wait."""
    array, pinned = np.zeros(SIZE, np.uint8), await acl_py.MallocHost(SIZE)
    device = await acl_py.Malloc(SIZE)
    streams = [await acl_py.CreateStream() for _ in range(3)]
    for host in (pinned, array):
        await asyncio.gather(*(acl_py.MemcpyAsync(device, SIZE, host, SIZE, H2D, stream) for stream in streams))
        await asyncio.gather(*(acl_py.SynchronizeStream(stream) for stream in streams))


async def two_devices_and_two_contexts(sim):
    """Streams of one name on two devices and in two contexts."""
    await acl_py.LaunchKernel(scale, 1)
    await acl_py.CreateContext(0)
    await acl_py.LaunchKernel(scale, 1)  # beside the first: the legacy stream of another context
    await acl_py.SetDevice(1)
    await acl_py.LaunchKernel(scale, 1)
    await acl_py.SynchronizeDevice()


async def every_kind(sim):
    """Copies, fills, kernels, host functions."""
    host, device = await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)
    for stream in (None, await acl_py.CreateStream(nonblocking=True)):
        await acl_py.MemsetAsync(device, SIZE, 0, SIZE, stream)
        await acl_py.MemcpyAsync(device[:100], 100, device[100:], 100, MemcpyKind.DEVICE_TO_DEVICE, stream)
        await acl_py.MemcpyAsync(host, SIZE, device, SIZE, D2H, stream)
        await acl_py.LaunchHostFunc(stream, int)
    await acl_py.SynchronizeDevice()


async def events(sim):
    """Streams and the host wait for records."""
    uploads, maths = [await acl_py.CreateStream(name=name) for name in ("uploads", "maths")]
    host, device = await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)
    copied, used, unused = [await acl_py.CreateEvent() for _ in range(3)]
    for _ in range(2):
        await acl_py.MemcpyAsync(device, SIZE, host, SIZE, H2D, uploads)
        await acl_py.RecordEvent(copied, uploads)
        await acl_py.StreamWaitEvent(maths, copied)
        await acl_py.StreamWaitEvent(maths, unused)
        await scale[1, maths]()
        await acl_py.RecordEvent(used, maths)
        await acl_py.SynchronizeEvent(used)
    await acl_py.SynchronizeEvent(copied)
    await scale[1, uploads]()
    await acl_py.SynchronizeStream(uploads)


async def long(sim):
    """More rows of each kind than a writer formats at once; an event between each copy and its kernel."""
    host, device = await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)
    copies, kernels, event = await acl_py.CreateStream(), await acl_py.CreateStream(), await acl_py.CreateEvent()
    for _ in range(550):
        await acl_py.MemcpyAsync(device, SIZE, host, SIZE, H2D, copies)
        await acl_py.RecordEvent(event, copies)
        await acl_py.StreamWaitEvent(kernels, event)
        await scale[1, kernels]()
    await acl_py.SynchronizeDevice()


async def nothing(sim):
    """No call at all."""


PROGRAMS = [
    one_of_each,
    many,
    crowd,
    pageable,
    tasks,
    named,
    gathered,
    two_devices_and_two_contexts,
    every_kind,
    events,
    long,
    nothing,
]


async def pipeline(streams, rounds):
    host, device = await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)
    made = [await acl_py.CreateStream() for _ in range(streams)]
    for _ in range(rounds):
        for stream in made:
            await acl_py.MemcpyAsync(device, SIZE, host, SIZE, H2D, stream)
            await scale[1, stream]()
            await acl_py.MemcpyAsync(host, SIZE, device, SIZE, D2H, stream)
    await acl_py.SynchronizeDevice()


@cache
def trace_of(program):
    """The trace of *program*, which runs once: no test changes it."""

    async def main():
        async with acl_py.simulate(device="tiny") as sim:
            await program(sim)
        return sim.trace

    return asyncio.run(main())
