"""Pageable host memory: staged on the way to the device, awaited on the way back.

On the tiny device up to 4096 bytes go through a ring of 16384 and cost the host 1000 ns and one per byte; more is
staged in chunks of 4096 through two buffers, for 1000 ns and one per byte.
"""

import asyncio
from dataclasses import replace

import numpy as np
from histories import D2H, H2D, busy, calls, history, tiny

import acl_py as acl
from device_model.profile import load

A = busy("A", 50)


def _numbers(n):
    return np.arange(n, dtype=np.uint32).astype(np.uint8)


@tiny
async def test_a_small_pageable_source_may_be_changed_once_the_call_is_back():
    sim, a, x = acl.current_simulation(), await acl.CreateStream(), await acl.Malloc(4_000)
    source, result = _numbers(4_000), np.zeros(4_000, np.uint8)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    copy = await acl.MemcpyAsync(x, 4_000, source, 4_000, H2D, a)
    assert (calls(sim, begin)[-1], copy.done) == (("MemcpyAsync", 1_000, 6_000), False)
    source[:] = 0
    await acl.Memcpy(result, 4_000, x, 4_000, D2H)
    assert (result == _numbers(4_000)).all()


@tiny
async def test_the_host_waits_when_the_ring_is_full_and_goes_on_when_there_is_room():
    sim, a, x = acl.current_simulation(), await acl.CreateStream(), await acl.Malloc(4_096)
    source = _numbers(4_096)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    for _ in range(6):
        await acl.MemcpyAsync(x, 4_096, source, 4_096, H2D, a)
    assert calls(sim, begin)[1:] == [
        ("MemcpyAsync", 1_000, 6_096),
        ("MemcpyAsync", 6_096, 11_192),
        ("MemcpyAsync", 11_192, 16_288),
        ("MemcpyAsync", 16_288, 21_384),
        ("MemcpyAsync", 21_384, 60_192),  # A ends at 51_000, the first copy at 55_096
        ("MemcpyAsync", 60_192, 65_288),
    ]


@tiny
async def test_a_large_pageable_source_is_staged_in_chunks_and_may_be_changed_once_the_call_is_back():
    sim, a, x = acl.current_simulation(), await acl.CreateStream(), await acl.Malloc(16_384)
    source, result = _numbers(16_384), np.zeros(16_384, np.uint8)
    begin = sim.now_ns
    await acl.MemcpyAsync(x, 16_384, source, 16_384, H2D, a)
    assert calls(sim, begin) == [("MemcpyAsync", 0, 17_384)]
    source[:] = 0
    await acl.SynchronizeStream(a)
    assert history(sim, begin) == [
        ("h2d", 5_096, 9_192),
        ("h2d", 9_192, 13_288),
        ("h2d", 13_288, 17_384),
        ("h2d", 17_384, 21_480),
    ]
    await acl.Memcpy(result, 16_384, x, 16_384, D2H)
    assert (result == _numbers(16_384)).all()


@tiny
async def test_two_chunks_may_be_outstanding_so_longer_copies_wait_for_the_stream():
    sim, a, x = acl.current_simulation(), await acl.CreateStream(), await acl.Malloc(12_288)
    source = _numbers(12_288)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.MemcpyAsync(x, 8_192, source, 8_192, H2D, a)
    await acl.MemcpyAsync(x, 12_288, source, 12_288, H2D, a)
    assert calls(sim, begin)[1:] == [("MemcpyAsync", 1_000, 10_192), ("MemcpyAsync", 10_192, 67_384)]


@tiny
async def test_the_source_is_read_while_it_is_staged():
    """Another task changes the end of it while the call still stages the beginning."""
    sim, a, x = acl.current_simulation(), await acl.CreateStream(), await acl.Malloc(12_288)
    source, result = np.zeros(12_288, np.uint8), np.zeros(12_288, np.uint8)
    begin = sim.now_ns

    async def change():
        await acl.Sleep(7)  # the first chunk is staged at 5_096, the second at 9_192
        source[:] = 1

    await asyncio.gather(acl.MemcpyAsync(x, 12_288, source, 12_288, H2D, a), change())
    assert sim.now_ns - begin == 13_288
    await acl.Memcpy(result, 12_288, x, 12_288, D2H)
    assert [set(part.tolist()) for part in np.split(result, 3)] == [{0}, {1}, {1}]


@tiny
async def test_a_copy_to_pageable_memory_waits_until_the_bytes_are_there():
    sim, a, x = acl.current_simulation(), await acl.CreateStream(), await acl.Malloc(10_000)
    result = np.zeros(10_000, np.uint8)
    await acl.MemsetAsync(x, 10_000, 3, 10_000, a)
    await acl.SynchronizeStream(a)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.MemcpyAsync(result, 10_000, x, 10_000, D2H, a)
    assert set(result.tolist()) == {3}
    assert await acl.StreamQuery(a) is acl.Status.COMPLETE
    # chunks come at 55_096 and 59_192 and are copied out while the next comes: 4096, 4096 and 1808 ns
    assert calls(sim, begin)[1] == ("MemcpyAsync", 1_000, 65_096)
    assert history(sim, begin) == [
        ("A", 1_000, 51_000),
        ("d2h", 51_000, 55_096),
        ("d2h", 55_096, 59_192),
        ("d2h", 59_192, 61_000),
    ]


@tiny
async def test_sync_copies_of_pageable_memory_of_whatever_size_wait_for_their_turn_in_the_default_stream():
    """What precedes them may be the default stream's own work, or that of a blocking stream."""
    sim, a, x = acl.current_simulation(), await acl.CreateStream(), await acl.Malloc(8_192)
    array = _numbers(8_192)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.Memcpy(x, 4_096, array, 4_096, H2D)  # goes on when it has staged, as the next does
    await acl.Memcpy(x, 8_192, array, 8_192, H2D)
    await acl.Memcpy(array, 8_192, x, 8_192, D2H)
    await acl.LaunchKernel(A, 1)
    await acl.Memcpy(x, 16, array, 16, H2D)
    assert [call[1:] for call in calls(sim, begin)][1:] == [
        (1_000, 56_096),  # A ends at 51_000
        (56_096, 69_384),  # the copy of the first ends at 60_192
        (69_384, 85_768),
        (85_768, 86_768),
        (86_768, 137_784),
    ]


@tiny
async def test_other_tasks_go_on_while_one_waits_for_staging():
    sim, a, b, x = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.Malloc(40_960),
    )
    source = _numbers(40_960)
    begin = sim.now_ns
    seen = []

    async def other():
        for _ in range(3):
            await acl.LaunchKernel(busy("B", 10), 1, (), b)
            await acl.SynchronizeStream(b)
            seen.append(sim.now_ns - begin)

    await acl.LaunchKernel(A, 1, (), a)
    await asyncio.gather(acl.MemcpyAsync(x, 40_960, source, 40_960, H2D, a), other())
    assert seen == [14_000, 27_000, 40_000]
    await acl.SynchronizeDevice()
    result = np.zeros(40_960, np.uint8)
    await acl.Memcpy(result, 40_960, x, 40_960, D2H)
    assert (result == source).all()


@tiny
async def test_a_cancelled_copy_from_pageable_memory_goes_on():
    a, x = await acl.CreateStream(), await acl.Malloc(40_960)
    source, result = _numbers(40_960), np.zeros(40_960, np.uint8)
    await acl.LaunchKernel(A, 1, (), a)
    copy = asyncio.create_task(acl.MemcpyAsync(x, 40_960, source, 40_960, H2D, a))
    await asyncio.sleep(0)
    copy.cancel()
    await asyncio.gather(copy, return_exceptions=True)
    assert copy.cancelled()
    await acl.Sleep(500)
    await acl.Memcpy(result, 40_960, x, 40_960, D2H)
    assert (result == source).all()


@tiny
async def test_arrays_of_any_dtype_and_shape_and_other_buffers_may_be_copied():
    x = await acl.Malloc(64)
    for source in (
        np.arange(8.0).reshape(2, 4),
        np.arange(16, dtype=np.float16),
        bytearray(range(64)),
        memoryview(bytes(range(64))),
        np.arange(8, dtype=np.complex64),
    ):
        size = memoryview(source).nbytes if not isinstance(source, np.ndarray) else source.nbytes
        result = np.zeros(size, np.uint8)
        await acl.Memcpy(x, 64, source, size, H2D)
        await acl.Memcpy(result, size, x, size, D2H)
        raw = source.tobytes() if hasattr(source, "tobytes") else bytes(source)
        assert result.tobytes() == raw


def test_a_copy_after_a_timer_begins_at_the_time_of_the_host():
    async def main():
        sim, x = acl.current_simulation(), await acl.Malloc(8_192)
        await asyncio.sleep(1e-3)
        begin = sim.now_ns
        await acl.Memcpy(x, 8_192, np.zeros(8_192, np.uint8), 8_192, H2D)
        return begin, sim.now_ns, [op.queued_ns for op in sim.trace.ops]

    begin, end, queued = acl.run(main, device="tiny")
    assert begin < queued[0] < end


async def test_calls_behind_a_large_copy_of_the_host_find_cold_caches():
    """The next call of each kind takes twice as long; a copy of fewer bytes than the caches have costs nothing more."""
    profile = load("tiny")
    profile = replace(profile, host=replace(profile.host, cold_bytes=2_000, cold_permille=1_000))
    async with acl.simulate(device=profile) as sim:
        a, event, x = await acl.CreateStream(), await acl.CreateEvent(), await acl.Malloc(8_192)
        costs = []
        for nbytes in (1_000, 8_192):
            await acl.Memcpy(x, nbytes, _numbers(nbytes), nbytes, H2D)
            begin = sim.now_ns
            for _ in range(2):
                await acl.LaunchKernel(A, 1, (), a)
                await acl.RecordEvent(event, a)
            costs.append([after - before for _, before, after in calls(sim, begin)])
    assert costs == [[1_000, 1_000, 1_000, 1_000], [2_000, 2_000, 1_000, 1_000]]
