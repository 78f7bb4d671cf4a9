"""The stream-ordered allocator: what is promised, when blocks are used again, when they go back."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from histories import busy, history, refused, tiny

import acl_py as acl
from device_model.curves import Curve
from device_model.profile import load

MIB = 1 << 20
ALL = 64 * MIB
A, B = busy("A", 50), busy("B", 10)


@acl.kernel(cost=acl.Cost(us=10))
def ones(x: acl.Out):
    x[:] = 1


@acl.kernel(cost=acl.Cost(us=10))
def double(x: acl.In, y: acl.Out):
    y[:] = 2 * x


async def _used():
    free, total = await acl.GetMemInfo()
    return total - free


@tiny
async def test_memory_can_be_used_by_work_queued_behind_it_and_freed_behind_that():
    """A1, A3: nothing waits, and another stream may free what it was ordered behind."""
    sim, a, b, event = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateEvent(),
    )
    host = await acl.MallocHost(400)
    begin = sim.now_ns
    x = await acl.MallocAsync(400, a)
    y = await acl.MallocAsync(400, a)
    await ones[1, a](acl.Array(x, np.float32))
    await double[1, a](acl.Array(x, np.float32), acl.Array(y, np.float32))
    await acl.RecordEvent(event, a)
    await acl.FreeAsync(x, a)
    await acl.StreamWaitEvent(b, event)
    await acl.MemcpyAsync(host, 400, y, 400, acl.MemcpyKind.DEVICE_TO_HOST, b)
    await acl.FreeAsync(y, b)
    assert sim.now_ns - begin == 9_000
    await acl.SynchronizeDevice()
    assert host.numpy(np.float32).tolist() == [2.0] * 100
    assert history(sim, begin) == [("ones", 3_000, 13_000), ("double", 13_000, 23_000), ("d2h", 23_000, 23_400)]
    assert sim.runtime.memory.leaks() == [host.allocation]


@tiny
async def test_after_free_async_the_host_may_not_name_it():
    """A2: work queued before still uses it, nothing queued later can."""
    a, b, x = await acl.CreateStream(), await acl.CreateStream(), await acl.MallocAsync(64)
    await acl.LaunchKernel(A, 1, (), a)
    await acl.FreeAsync(x, a)
    story = f"made at {x.allocation.made}, freed at {x.allocation.freed}>"
    for verb in (
        lambda: acl.LaunchKernel(ones, 1, (x,), a),
        lambda: acl.MemcpyAsync(x, 64, x, 64, acl.MemcpyKind.DEVICE_TO_DEVICE, b),
        lambda: acl.FreeAsync(x, a),
        lambda: acl.Free(x),
        lambda: acl.MemcpyAsync(x.address, 64, b"x" * 64, 64, acl.MemcpyKind.HOST_TO_DEVICE, a),
    ):
        with refused(acl.Kind.INVALID_ADDRESS, story):
            await verb()


@tiny
async def test_free_of_pool_memory_waits_for_nobody_and_free_async_takes_memory_of_malloc():
    """A4."""
    sim, a, x, y = acl.current_simulation(), await acl.CreateStream(), await acl.MallocAsync(MIB), await acl.Malloc(MIB)
    await acl.LaunchKernel(A, 1, (), a)
    begin = sim.now_ns
    await acl.Free(x)
    await acl.FreeAsync(y, a)
    assert sim.now_ns - begin == 2_000
    assert await _used() == MIB  # what Free gave back has left the pool at once
    await acl.SynchronizeStream(a)
    assert await _used() == 0


@tiny
async def test_memory_comes_from_the_device_of_the_stream():
    """A5."""
    a = await acl.CreateStream()
    await acl.SetDevice(1)
    x = await acl.MallocAsync(64, a)
    assert (x.allocation.device, await _used()) == (0, 0)
    await acl.SetDevice(0)
    assert await _used() == 512


@tiny
async def test_the_same_stream_gets_the_same_memory_at_once():
    """A6, A7: without a wait, in a new life with bytes of its own."""
    sim, a = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    x = await acl.MallocAsync(400, a)
    await acl.LaunchKernel(A, 1, (), a)
    await acl.FreeAsync(x, a)
    y = await acl.MallocAsync(400, a)
    assert (y.address, y.allocation is x.allocation) == (x.address, False)
    await acl.LaunchKernel(B, 1, (), a)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 2_000, 52_000), ("B", 52_000, 62_000)]
    assert await _used() == 512


@tiny
async def test_another_stream_gets_memory_whose_free_has_taken_place():
    """A6, opportunistic."""
    a, b = await acl.CreateStream(), await acl.CreateStream()
    x = await acl.MallocAsync(400, a)
    await acl.LaunchKernel(B, 1, (), a)
    await acl.FreeAsync(x, a)
    assert (await acl.MallocAsync(400, b)).address != x.address
    await acl.HostWork(20)
    assert (await acl.MallocAsync(400, b)).address == x.address


@pytest.mark.parametrize("between", [False, True])
@tiny
async def test_another_stream_gets_memory_behind_whose_free_it_waits(between):
    """A6, by an event: recorded right behind the FreeAsync, or later."""
    sim, a, b, event = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateEvent(),
    )
    x = await acl.MallocAsync(400, a)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.FreeAsync(x, a)
    if between:
        await acl.LaunchKernel(B, 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.StreamWaitEvent(b, event)
    y = await acl.MallocAsync(400, b)
    assert y.address == x.address
    await acl.LaunchKernel(B, 1, (), b)
    await acl.SynchronizeDevice()
    assert history(sim, begin)[-1] == (("B", 61_000, 71_000) if between else ("B", 51_000, 61_000))


@tiny
async def test_an_event_recorded_before_the_free_says_nothing_about_it():
    a, b, event = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateEvent()
    x = await acl.MallocAsync(400, a)
    await acl.LaunchKernel(B, 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.LaunchKernel(A, 1, (), a)
    await acl.FreeAsync(x, a)
    await acl.StreamWaitEvent(b, event)
    assert (await acl.MallocAsync(400, b)).address != x.address


@tiny
async def test_another_stream_waits_for_memory_only_when_there_is_no_other():
    """A6, internal dependencies."""
    sim, a, b = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream()
    x = await acl.MallocAsync(40 * MIB, a)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.FreeAsync(x, a)
    small = await acl.MallocAsync(MIB, b)
    assert small.address != x.address
    await acl.LaunchKernel(B, 1, (), b)  # does not wait for A
    large = await acl.MallocAsync(40 * MIB, b)
    assert large.address == x.address
    await acl.LaunchKernel(B, 1, (), b)  # does
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 51_000), ("B", 4_000, 14_000), ("B", 51_000, 61_000)]


@tiny
async def test_bytes_stay_for_work_queued_before_the_free_and_a_new_life_begins_as_poison():
    a, host = await acl.CreateStream(), await acl.MallocHost(12)
    x = await acl.MallocAsync(4, a)
    await acl.LaunchKernel(A, 1, (), a)
    await acl.LaunchKernel(ones, 1, (x,), a)
    await acl.MemcpyAsync(host, 4, x, 4, acl.MemcpyKind.DEVICE_TO_HOST, a)
    await acl.FreeAsync(x, a)
    y = await acl.MallocAsync(4, a)
    await acl.MemcpyAsync(host + 4, 4, y, 4, acl.MemcpyKind.DEVICE_TO_HOST, a)
    await acl.LaunchKernel(ones, 1, (y,), a)
    await acl.MemcpyAsync(host + 8, 4, y, 4, acl.MemcpyKind.DEVICE_TO_HOST, a)
    await acl.SynchronizeStream(a)
    assert host.numpy().tobytes() == b"\x01" * 4 + b"\xfb\x7f" * 2 + b"\x01" * 4


@pytest.mark.parametrize("how", ["stream", "event", "device"])
@tiny
async def test_what_nobody_uses_goes_back_to_the_device_at_a_synchronisation(how):
    """A8: the release threshold is 0."""
    a, b, event = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateEvent()
    x, y, z = [await acl.MallocAsync(MIB, a) for _ in range(3)]
    await acl.FreeAsync(x, a)
    await acl.LaunchKernel(A, 1, (), b)
    await acl.FreeAsync(y, b)
    assert await _used() == 3 * MIB
    match how:
        case "stream":
            await acl.SynchronizeStream(a)
        case "event":
            await acl.SynchronizeEvent(event)
        case "device":
            await acl.SynchronizeDevice()
    assert await _used() == (MIB if how == "device" else 2 * MIB)  # y is not free before b is done
    await acl.SynchronizeDevice()
    await acl.Free(z)
    await acl.SynchronizeDevice()
    assert await _used() == 0
    assert not acl.current_simulation().runtime.memory.pool(0).is_holding


@tiny
async def test_a_synchronisation_of_another_stream_leaves_memory_in_the_pool():
    a, b = await acl.CreateStream(), await acl.CreateStream()
    await acl.FreeAsync(await acl.MallocAsync(MIB, a), a)
    await acl.SynchronizeStream(b)
    assert await _used() == MIB
    await acl.SynchronizeStream(a)
    assert await _used() == 0


@tiny
async def test_a_threshold_keeps_whole_chunks_only():
    """The pool takes chunks of 256 bytes from this device, so of 700 bytes it keeps 512."""
    stream = await acl.CreateStream()
    await acl.SetMemPoolThreshold(700)
    blocks = [await acl.MallocAsync(512, stream) for _ in range(2)]
    for block in blocks:
        await acl.FreeAsync(block, stream)
    await acl.SynchronizeStream(stream)
    assert await _used() == 512


@tiny
async def test_before_memory_is_refused_the_pool_gives_back_what_nobody_uses():
    a = await acl.CreateStream()
    x = await acl.MallocAsync(40 * MIB, a)
    await acl.FreeAsync(x, a)
    y = await acl.Malloc(40 * MIB)
    await acl.FreeAsync(y, a)
    z = await acl.MallocAsync(50 * MIB, a)
    await acl.LaunchKernel(A, 1, (), a)
    await acl.FreeAsync(z, a)
    for verb in (acl.Malloc, lambda size: acl.MallocAsync(size, a)):
        with refused(acl.Kind.OUT_OF_MEMORY, "50.0 MiB lie unused in its pool"):
            await verb(60 * MIB)
    await acl.SynchronizeStream(a)
    await acl.Free(await acl.Malloc(ALL))


@tiny
async def test_a_stream_that_is_destroyed_leaves_its_memory_to_others():
    a, b = await acl.CreateStream(), await acl.CreateStream()
    x = await acl.MallocAsync(400, a)
    await acl.DestroyStream(a)
    await acl.FreeAsync(x, b)
    assert (await acl.MallocAsync(400, b)).address == x.address


@tiny
async def test_tasks_take_memory_in_turn():
    sim = acl.current_simulation()
    streams = [await acl.CreateStream() for _ in range(3)]
    results = await acl.MallocHost(3)

    async def work(i):
        for _ in range(4):
            x = await acl.MallocAsync(1, streams[i])
            await acl.LaunchKernel(ones, 1, (x,), streams[i])
            await acl.MemcpyAsync(results + i, 1, x, 1, acl.MemcpyKind.DEVICE_TO_HOST, streams[i])
            await acl.FreeAsync(x, streams[i])
            await acl.SynchronizeStream(streams[i])

    await asyncio.gather(*map(work, range(3)))
    await acl.SynchronizeDevice()
    assert results.numpy().tolist() == [1, 1, 1]
    assert (await _used(), len(sim.runtime.memory.leaks())) == (0, 1)


@tiny
async def test_free_async_of_the_wrong_thing():
    host, x = await acl.MallocHost(64), await acl.MallocAsync(64)
    for thing, kind, part in (
        (host, acl.Kind.INVALID_ADDRESS, "release it with FreeHost()"),
        (
            x + 1,
            acl.Kind.INVALID_ADDRESS,
            f"1 bytes inside <Buffer device 64 B allocation 2 made at {x.allocation.made}>",
        ),
        (None, acl.Kind.INVALID_VALUE, "None, which is not memory"),
        (np.zeros(4), acl.Kind.INVALID_ADDRESS, "a host address"),
    ):
        with refused(kind, part):
            await acl.FreeAsync(thing)


async def test_the_pool_takes_whole_chunks_of_the_device_and_pays_for_each_once():
    """A second small block needs no growth, and nothing goes back while a chunk has a block that is used."""
    profile = load("tiny")
    curves = {
        "pool_growth": Curve([(0, 50_000), (4 * MIB, 50_000)]),
        "pool_trim": Curve([(0, 7_000), (4 * MIB, 7_000)]),
    }
    profile = replace(profile, host=replace(profile.host, **curves), memory=replace(profile.memory, pool_chunk=4 * MIB))
    async with acl.simulate(device=profile) as sim:
        a, costs = await acl.CreateStream(), []

        async def cost(call):
            begin = sim.now_ns
            result = await call
            costs.append(sim.now_ns - begin)
            return result

        x, y, z = [await cost(acl.MallocAsync(size * MIB, a)) for size in (1, 2, 3)]
        for block in (y, x, z):
            await acl.FreeAsync(block, a)
            await cost(acl.SynchronizeStream(a))
    assert costs == [51_000, 1_000, 51_000, 7_300, 300, 7_300]
