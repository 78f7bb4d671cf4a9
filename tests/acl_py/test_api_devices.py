"""Devices and contexts: Init to Finalize, what is current for whom, reset, misuse."""

import asyncio

import pytest
from histories import busy, calls, history, misused, refused, tiny

import acl_py as acl
from acl_py import faults

A, B = busy("A", 50), busy("B", 10)


@tiny
async def test_init_is_optional_and_counted():
    with refused(acl.Kind.NOT_INITIALIZED, "Finalize() without Init()", "once for each Init()"):
        await acl.Finalize()
    await acl.Init()
    await acl.Init()
    assert await acl.Finalize() == []
    await acl.LaunchKernel(A, 1)
    assert await acl.Finalize() == []
    with pytest.raises(acl.AclError, match=r"the runtime was finalised at test_api_devices\.py:\d+; start a new sim"):
        await acl.LaunchKernel(A, 1)


@tiny
async def test_finalize_waits_for_all_devices():
    sim = acl.current_simulation()
    await acl.Init()
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1)
    await acl.SetDevice(1)
    await acl.LaunchKernel(A, 1)
    await acl.Finalize()
    assert calls(sim, begin)[-1] == ("Finalize", 3_000, 56_000)
    assert history(sim, begin) == [("A", 1_000, 51_000), ("A", 3_000, 53_000)]


@tiny
async def test_after_finalize_every_verb_is_refused_and_the_trace_stays():
    sim = acl.current_simulation()
    stream, event, x = await acl.CreateStream(), await acl.CreateEvent(), await acl.Malloc(8)
    context = await acl.GetCurrentContext()
    await acl.Init()
    await acl.Finalize()
    for verb in (
        acl.Init,
        acl.Finalize,
        lambda: acl.SetDevice(0),
        acl.GetDevice,
        acl.GetDeviceCount,
        lambda: acl.ResetDevice(0),
        acl.SynchronizeDevice,
        lambda: acl.CreateContext(0),
        acl.GetCurrentContext,
        lambda: acl.SetCurrentContext(context),
        lambda: acl.DestroyContext(context),
        acl.CreateStream,
        lambda: acl.DestroyStream(stream),
        lambda: acl.SynchronizeStream(stream),
        lambda: acl.StreamQuery(stream),
        lambda: acl.StreamWaitEvent(stream, event),
        acl.CreateEvent,
        lambda: acl.DestroyEvent(event),
        lambda: acl.RecordEvent(event, stream),
        lambda: acl.QueryEventStatus(event),
        lambda: acl.SynchronizeEvent(event),
        lambda: acl.EventElapsedTime(event, event),
        lambda: acl.Malloc(8),
        lambda: acl.Free(x),
        lambda: acl.MallocHost(8),
        lambda: acl.FreeHost(x),
        lambda: acl.HostRegister(bytearray(8)),
        lambda: acl.HostUnregister(x),
        lambda: acl.MallocAsync(8, stream),
        lambda: acl.FreeAsync(x, stream),
        acl.GetMemInfo,
        lambda: acl.Memcpy(x, 8, x, 8, 3),
        lambda: acl.MemcpyAsync(x, 8, x, 8, 3, stream),
        lambda: acl.Memset(x, 8, 0, 8),
        lambda: acl.MemsetAsync(x, 8, 0, 8, stream),
        lambda: acl.Memcpy2d(x, 8, x, 8, 8, 1, 3),
        lambda: acl.Memcpy2dAsync(x, 8, x, 8, 8, 1, 3, stream),
        lambda: acl.LaunchKernel(A, 1, (), stream),
        lambda: acl.LaunchHostFunc(stream, print),
        lambda: acl.HostWork(1),
        lambda: acl.Sleep(1),
        lambda: acl.HostThread(print),
        acl.GetLastError,
        acl.PeekAtLastError,
    ):
        with refused(acl.Kind.FINALIZED, "the runtime was finalised at", "start a new simulation"):
            await verb()
    assert [call.name for call in sim.trace.calls][-2:] == ["Init", "Finalize"]
    assert "leak" in sim.report()


@tiny
async def test_there_are_as_many_devices_as_the_profile_says():
    assert await acl.GetDeviceCount() == 2
    assert await acl.GetDevice() == 0
    for verb in (acl.SetDevice, acl.CreateContext, acl.ResetDevice):
        for wrong in (2, -1, 1.0, "0", None):
            with refused(acl.Kind.INVALID_DEVICE, f"there is no device {wrong!r}", "tiny has devices 0 to 1"):
                await verb(wrong)
    assert await acl.GetDevice() == 0


@tiny
async def test_devices_work_side_by_side_and_a_sync_is_for_one():
    sim = acl.current_simulation()
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1)
    await acl.SetDevice(1)
    await acl.LaunchKernel(B, 1)
    await acl.SynchronizeDevice()
    assert calls(sim, begin)[-1] == ("SynchronizeDevice", 3_000, 15_000)
    assert history(sim, begin) == [("B", 3_000, 13_000)]
    await acl.SetDevice(0)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 51_000), ("B", 3_000, 13_000)]
    assert [op.device for op in sim.trace.ops] == [1, 0]


@tiny
async def test_the_default_stream_rule_is_for_each_device_and_context_alone():
    sim, a = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.SetDevice(1)
    await acl.LaunchKernel(B, 1)
    await acl.SetDevice(0)
    await acl.CreateContext(0)
    await acl.LaunchKernel(B, 1)
    await acl.SynchronizeDevice()  # of both contexts
    assert history(sim, begin) == [("A", 1_000, 51_000), ("B", 3_000, 13_000), ("B", 6_000, 16_000)]


@tiny
async def test_each_task_has_its_own_device_and_passes_it_on_to_its_children():
    await acl.SetDevice(1)
    begin = asyncio.Event()

    async def child():
        await begin.wait()
        inherited = await acl.GetDevice()
        await acl.SetDevice(0)
        return inherited, await acl.GetDevice(), await asyncio.create_task(acl.GetDevice())

    children = [asyncio.create_task(child()) for _ in range(2)]
    await acl.SetDevice(0)
    begin.set()
    assert await asyncio.gather(*children) == [(1, 0, 0)] * 2
    await acl.SetDevice(1)
    assert await acl.GetDevice() == 1


@tiny
async def test_contexts_are_made_current_destroyed_and_refused():
    primary = await acl.GetCurrentContext()
    mine = await acl.CreateContext(1)
    assert (await acl.GetCurrentContext(), await acl.GetDevice()) == (mine, 1)
    stream, event = await acl.CreateStream(), await acl.CreateEvent()
    await acl.SetCurrentContext(primary)
    assert await acl.GetDevice() == 0
    await acl.SetCurrentContext(mine)
    with refused(acl.Kind.INVALID_CONTEXT, "<primary context of device 0>", "ResetDevice()"):
        await acl.DestroyContext(primary)
    await acl.DestroyContext(mine)
    assert repr(await acl.GetCurrentContext()) == "<primary context of device 1>"
    for verb in (acl.SetCurrentContext, acl.DestroyContext):
        with refused(acl.Kind.INVALID_CONTEXT, f"<context 1 of device 1 destroyed at {mine.destroyed}>"):
            await verb(mine)
        for wrong in (None, 0, stream):
            with misused(TypeError, "a context must be what CreateContext"):
                await verb(wrong)
    with refused(acl.Kind.INVALID_HANDLE, "takes no more work"):
        await acl.SynchronizeStream(stream)
    for verb in (
        lambda: acl.RecordEvent(event),
        lambda: acl.StreamWaitEvent(None, event),
        lambda: acl.SynchronizeEvent(event),
        lambda: acl.QueryEventStatus(event),
    ):
        with refused(acl.Kind.INVALID_CONTEXT, "<context 1 of device 1> was destroyed at", mine.destroyed):
            await verb()


@pytest.mark.parametrize(("rules", "returns"), [("cuda", 53_004), ("acl", 3_000)])
async def test_the_work_of_a_destroyed_context_completes(rules, returns):
    async with acl.simulate(device="tiny", rules=rules) as sim:
        context = await acl.CreateContext(0)
        stream, host = await acl.CreateStream(), await acl.MallocHost(4)
        host.numpy()[:] = 0
        begin = sim.now_ns
        await acl.LaunchKernel(A, 1, (), stream)
        await acl.MemsetAsync(host, 4, 7, 4, stream)
        await acl.DestroyContext(context)
        assert calls(sim, begin)[-1] == ("DestroyContext", 2_000, returns)
        await acl.HostWork(100)
        assert history(sim, begin) == [("A", 1_000, 51_000), ("fill", 51_000, 51_004)]
        assert host.numpy().tolist() == [7] * 4


@tiny
async def test_a_cancelled_destruction_of_a_context_has_destroyed_nothing():
    context = await acl.CreateContext(0)
    await acl.LaunchKernel(A, 1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(20e-6):
            await acl.DestroyContext(context)
    await acl.SynchronizeDevice()
    await acl.DestroyContext(context)


@tiny
async def test_a_task_whose_context_another_destroys_is_told():
    context = await acl.CreateContext(0)
    begin = asyncio.Event()

    async def child():
        await begin.wait()
        for verb in (acl.CreateStream, lambda: acl.LaunchKernel(A, 1), acl.SynchronizeDevice, lambda: acl.Malloc(8)):
            with refused(acl.Kind.INVALID_CONTEXT, "was destroyed at", context.destroyed, "SetDevice()"):
                await verb()
        await acl.SetDevice(0)
        await acl.SynchronizeDevice()

    task = asyncio.create_task(child())
    await acl.DestroyContext(context)
    begin.set()
    await task


@tiny
async def test_a_context_of_another_simulation_is_refused():
    foreign = await acl.GetCurrentContext()
    async with acl.simulate(device="tiny"):
        for verb in (acl.SetCurrentContext, acl.DestroyContext):
            with refused(acl.Kind.INVALID_CONTEXT, "is not of this simulation or gone"):
                await verb(foreign)


@tiny
async def test_reset_waits_for_queued_work_and_takes_streams_events_and_memory():
    sim = acl.current_simulation()
    stream, event, x, host = (
        await acl.CreateStream(),
        await acl.CreateEvent(),
        await acl.Malloc(1 << 20),
        await acl.MallocHost(4),
    )
    host.numpy()[:] = 0
    await acl.RecordEvent(event, stream)
    await acl.MallocAsync(64, stream)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), stream)
    await acl.MemsetAsync(host, 4, 7, 4, stream)
    await acl.ResetDevice(0)
    assert history(sim, begin) == [("A", 1_000, 51_000), ("fill", 51_000, 51_004)]
    assert calls(sim, begin)[-1] == ("ResetDevice", 2_000, 53_004)
    free, total = await acl.GetMemInfo()
    assert free == total
    for verb, kind in (
        (lambda: acl.LaunchKernel(A, 1, (), stream), acl.Kind.INVALID_HANDLE),
        (lambda: acl.SynchronizeStream(stream), acl.Kind.INVALID_HANDLE),
        (lambda: acl.RecordEvent(event), acl.Kind.INVALID_CONTEXT),
        (lambda: acl.SynchronizeEvent(event), acl.Kind.INVALID_CONTEXT),
        (lambda: acl.Free(x), acl.Kind.INVALID_ADDRESS),
        (lambda: acl.MemsetAsync(x, 4, 0, 4), acl.Kind.INVALID_ADDRESS),
    ):
        with pytest.raises(acl.AclError) as caught:
            await verb()
        assert caught.value.kind is kind
    await acl.HostWork(100)
    assert host.numpy().tolist() == [7] * 4  # pinned memory stays
    await acl.LaunchKernel(B, 1)
    await acl.SynchronizeDevice()
    await acl.FreeHost(host)


@tiny
async def test_reset_of_one_device_leaves_the_other_alone():
    await acl.SetDevice(1)
    x = await acl.Malloc(64)
    await acl.ResetDevice(0)
    await acl.MemsetAsync(x, 64, 0, 64)
    await acl.SynchronizeDevice()
    await acl.ResetDevice(1)
    assert repr(await acl.GetCurrentContext()) == "<primary context of device 1>"
    await acl.SynchronizeDevice()


@tiny
async def test_a_reset_waits_for_no_device_that_hangs_and_tells_who_does():
    sim = acl.current_simulation()
    stream, host = await acl.CreateStream(), await acl.MallocHost(4)
    host.numpy()[:] = 0
    with sim.fault(faults.hang(op="kernel")):
        await acl.LaunchKernel(A, 1, (), stream)
    await acl.MemsetAsync(host, 4, 7, 4, stream)

    async def reset():
        await acl.ResetDevice(0)

    results = await asyncio.gather(acl.SynchronizeStream(stream), reset(), return_exceptions=True)
    assert host.numpy().tolist() == [0] * 4
    assert (results[0].kind, results[1]) == (acl.Kind.INVALID_CONTEXT, None)
    assert "was reset at test_api_devices.py:" in str(results[0])


@tiny
async def test_many_contexts_leave_nothing_behind():
    for _ in range(50):
        context = await acl.CreateContext(0)
        await acl.LaunchKernel(B, 1)
        await acl.SynchronizeDevice()
        await acl.DestroyContext(context)
    assert len(acl.current_simulation().runtime.devices[0].contexts) <= 3
