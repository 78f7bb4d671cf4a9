"""Hosts that wait for room in a full queue: a hardware queue of the tiny device holds 16 operations not started."""

import asyncio

import pytest
from histories import D2D, H2D, H2H, busy, calls, history, tiny

import acl_py as acl

A = busy("A", 50)


@tiny
async def test_a_full_queue_blocks_the_call_until_an_operation_starts():
    sim, a = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    for _ in range(20):
        await acl.LaunchKernel(A, 1, (), a)
    exits = [end for _, _, end in calls(sim, begin)]
    assert exits == [*range(1_000, 18_000, 1_000), 52_000, 102_000, 152_000]
    await acl.SynchronizeDevice()
    assert [start for _, start, _ in history(sim, begin)] == [1_000 + 50_000 * i for i in range(20)]


@tiny
async def test_records_and_waits_take_no_room_and_other_queues_have_their_own():
    sim, a, b, event = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateEvent(),
    )
    for _ in range(17):
        await acl.LaunchKernel(A, 1, (), a)
    x, host = await acl.Malloc(8), await acl.MallocHost(8)
    begin = sim.now_ns
    for _ in range(40):
        await acl.RecordEvent(event, a)
        await acl.StreamWaitEvent(b, event)
    await acl.LaunchKernel(A, 1, (), b)
    await acl.MemcpyAsync(x, 8, host, 8, H2D, a)
    assert sim.now_ns - begin == 82_000


@tiny
async def test_streams_that_share_a_hardware_queue_share_its_room():
    sim, streams = acl.current_simulation(), [await acl.CreateStream() for _ in range(5)]
    first, *others, fifth = streams  # there are 4 queues
    begin = sim.now_ns
    for _ in range(17):
        await acl.LaunchKernel(A, 1, (), first)
    for stream in (*others, *others):  # the second of each waits, so no queue is empty
        await acl.LaunchKernel(A, 1, (), stream)
    await acl.LaunchKernel(A, 1, (), fifth)
    assert [end for *_, end in calls(sim, begin)][-2:] == [23_000, 52_000]


@tiny
async def test_hosts_that_wait_for_room_are_served_in_order_and_nobody_is_faster():
    sim, a, other = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream()
    begin, order = sim.now_ns, []

    async def launch(name):
        await acl.LaunchKernel(busy(name, 50), 1, (), a)
        order.append((name, sim.now_ns - begin))

    async def watch():
        """Is told at the instant at which there is room again, just before who waits for it."""
        await acl.SynchronizeStream(other)
        await launch("late")

    await acl.LaunchKernel(busy("brief", 51), 1, (), other)
    for i in range(17):
        await launch(f"{i}")
    del order[:]
    await asyncio.gather(*(launch(f"w{i}") for i in range(3)), watch())
    assert order == [("w0", 55_000), ("w1", 103_000), ("w2", 153_000), ("late", 203_000)]
    await acl.SynchronizeDevice()
    names = [name for name, *_ in history(sim, begin) if name != "brief"]
    assert names == [*map(str, range(17)), "w0", "w1", "w2", "late"]


@tiny
async def test_a_host_that_gives_up_waiting_for_room_leaves_it_to_the_next():
    sim, a = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    for _ in range(17):
        await acl.LaunchKernel(A, 1, (), a)
    tasks = [asyncio.create_task(acl.LaunchKernel(busy(f"w{i}", 1), 1, (), a)) for i in range(20)]
    await asyncio.sleep(0)
    for task in tasks[:19]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert [task.cancelled() for task in tasks] == [True] * 19 + [False]
    assert calls(sim, begin)[-1] == ("LaunchKernel", 17_000, 52_000)
    await acl.SynchronizeDevice()
    assert history(sim, begin)[-1] == ("w19", 851_000, 852_000)


@tiny
async def test_a_host_that_gives_up_when_it_already_has_its_place_leaves_that_to_the_next():
    sim, a = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    for _ in range(17):
        await acl.LaunchKernel(A, 1, (), a)
    tasks = [asyncio.create_task(acl.LaunchKernel(busy(f"w{i}", 1), 1, (), a)) for i in range(2)]

    async def cancel():
        await acl.Sleep(30)
        await acl.HostWork(10)  # at its end there is room, and the first has been told
        tasks[0].cancel()

    await asyncio.gather(*tasks, cancel(), return_exceptions=True)
    assert tasks[0].cancelled()
    assert calls(sim, begin)[-1] == ("LaunchKernel", 17_000, 58_000)


@tiny
async def test_a_stream_that_is_destroyed_while_a_call_waits_for_room_takes_nothing_more():
    sim, a = acl.current_simulation(), await acl.CreateStream()
    for _ in range(17):
        await acl.LaunchKernel(A, 1, (), a)
    x, host = await acl.Malloc(8), await acl.MallocHost(8)
    copy = asyncio.create_task(acl.LaunchKernel(busy("late", 1), 1, (), a))
    await asyncio.sleep(0)
    await acl.DestroyStream(a)
    with pytest.raises(acl.AclError, match="takes no more work; create one with CreateStream") as caught:
        await copy
    assert caught.value.kind is acl.Kind.INVALID_HANDLE
    await acl.SynchronizeDevice()
    assert [name for name, *_ in history(sim)] == ["A"] * 17
    del x, host


@tiny
async def test_memory_that_is_freed_while_a_call_waits_for_room_is_refused():
    sim, a = acl.current_simulation(), await acl.CreateStream()
    x, y = await acl.Malloc(8), await acl.MallocAsync(8, a)
    for _ in range(17):
        await acl.LaunchKernel(A, 1, (), a)
    copies = [
        asyncio.create_task(acl.MemcpyAsync(x, 8, y, 8, D2D, a)),
        asyncio.create_task(acl.LaunchKernel(busy("late", 1), 1, (), a)),
    ]
    await asyncio.sleep(0)
    await acl.FreeAsync(y, a)
    late = (await asyncio.gather(*copies, return_exceptions=True))[0]
    assert late.kind is acl.Kind.INVALID_ADDRESS
    assert f"made at {y.allocation.made}, freed at {y.allocation.freed}" in str(late)
    await acl.SynchronizeDevice()
    assert [name for name, *_ in history(sim)] == ["A"] * 17 + ["late"]


@tiny
async def test_a_context_that_fails_while_a_call_waits_for_room_refuses_it():
    a = await acl.CreateStream()

    @acl.kernel(cost=acl.Cost(us=50))
    def broken():
        raise ZeroDivisionError

    for _ in range(17):
        await acl.LaunchKernel(broken, 1, (), a)
    with pytest.raises(acl.AclError) as caught:
        await acl.LaunchKernel(A, 1, (), a)
    assert caught.value.kind is acl.Kind.LAUNCH_FAILURE
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


HOST_COPIES = {
    "bytes": lambda dst, src, stream: acl.MemcpyAsync(dst, 64, src, 64, H2H, stream),
    "rows": lambda dst, src, stream: acl.Memcpy2dAsync(dst, 8, src, 8, 8, 8, H2H, stream),
}


@pytest.mark.parametrize("call", HOST_COPIES.values(), ids=HOST_COPIES)
@tiny
async def test_a_host_copy_whose_memory_goes_while_it_waits_tells_so(call):
    stream, src, dst = await acl.CreateStream(), await acl.MallocHost(64), await acl.MallocHost(64)
    await acl.LaunchKernel(A, 1, (), stream)
    free = asyncio.create_task(acl.FreeHost(dst))
    await asyncio.sleep(0)  # it waits, too, and came first
    with pytest.raises(acl.AclError, match=r"its destination .* was gone before it ran") as caught:
        await call(dst, src, stream)
    assert caught.value.kind is acl.Kind.ILLEGAL_ADDRESS
    await free
