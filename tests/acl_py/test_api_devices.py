"""Devices and contexts: Init to Finalize, what is current for whom, reset, misuse."""

import asyncio

import pytest
from histories import busy, calls, history, misused, refused, tiny

import acl_py
from acl_py import (
    CreateContext,
    CreateEvent,
    CreateStream,
    DestroyContext,
    Finalize,
    GetCurrentContext,
    GetDevice,
    GetDeviceCount,
    Init,
    Kind,
    LaunchKernel,
    Malloc,
    MallocHost,
    RecordEvent,
    ResetDevice,
    SetCurrentContext,
    SetDevice,
    StreamWaitEvent,
    SynchronizeDevice,
    SynchronizeStream,
    current_simulation,
)

A, B = busy("A", 50), busy("B", 10)


@tiny
async def test_init_is_optional_and_counted():
    with refused(Kind.NOT_INITIALIZED, "Finalize() without Init()", "once for each Init()"):
        await Finalize()
    await Init()
    await Init()
    assert await Finalize() == []
    await LaunchKernel(A, 1)
    assert await Finalize() == []
    with pytest.raises(
        acl_py.AclError, match=r"the runtime was finalised at test_api_devices\.py:\d+; start a new sim"
    ):
        await LaunchKernel(A, 1)


@tiny
async def test_finalize_waits_for_all_devices():
    sim = current_simulation()
    await Init()
    begin = sim.now_ns
    await LaunchKernel(A, 1)
    await SetDevice(1)
    await LaunchKernel(A, 1)
    await Finalize()
    assert calls(sim, begin)[-1] == ("Finalize", 3_000, 56_000)
    assert history(sim, begin) == [("A", 1_000, 51_000), ("A", 3_000, 53_000)]


@tiny
async def test_after_finalize_every_verb_is_refused_and_the_trace_stays():
    sim = current_simulation()
    stream, event, x = await CreateStream(), await CreateEvent(), await Malloc(8)
    context = await GetCurrentContext()
    await Init()
    await Finalize()
    for verb in (
        Init,
        Finalize,
        lambda: SetDevice(0),
        GetDevice,
        GetDeviceCount,
        lambda: ResetDevice(0),
        SynchronizeDevice,
        lambda: CreateContext(0),
        GetCurrentContext,
        lambda: SetCurrentContext(context),
        lambda: DestroyContext(context),
        CreateStream,
        lambda: acl_py.DestroyStream(stream),
        lambda: SynchronizeStream(stream),
        lambda: acl_py.StreamQuery(stream),
        lambda: StreamWaitEvent(stream, event),
        CreateEvent,
        lambda: acl_py.DestroyEvent(event),
        lambda: RecordEvent(event, stream),
        lambda: acl_py.QueryEventStatus(event),
        lambda: acl_py.SynchronizeEvent(event),
        lambda: acl_py.EventElapsedTime(event, event),
        lambda: Malloc(8),
        lambda: acl_py.Free(x),
        lambda: MallocHost(8),
        lambda: acl_py.FreeHost(x),
        lambda: acl_py.HostRegister(bytearray(8)),
        lambda: acl_py.HostUnregister(x),
        lambda: acl_py.MallocAsync(8, stream),
        lambda: acl_py.FreeAsync(x, stream),
        acl_py.GetMemInfo,
        lambda: acl_py.Memcpy(x, 8, x, 8, 3),
        lambda: acl_py.MemcpyAsync(x, 8, x, 8, 3, stream),
        lambda: acl_py.Memset(x, 8, 0, 8),
        lambda: acl_py.MemsetAsync(x, 8, 0, 8, stream),
        lambda: acl_py.Memcpy2d(x, 8, x, 8, 8, 1, 3),
        lambda: acl_py.Memcpy2dAsync(x, 8, x, 8, 8, 1, 3, stream),
        lambda: LaunchKernel(A, 1, (), stream),
        lambda: acl_py.LaunchHostFunc(stream, print),
        lambda: acl_py.HostWork(1),
        lambda: acl_py.Sleep(1),
        lambda: acl_py.HostThread(print),
        acl_py.GetLastError,
        acl_py.PeekAtLastError,
    ):
        with refused(Kind.FINALIZED, "the runtime was finalised at", "start a new simulation"):
            await verb()
    assert [call.name for call in sim.trace.calls][-2:] == ["Init", "Finalize"]
    assert "leak" in sim.report()


@tiny
async def test_there_are_as_many_devices_as_the_profile_says():
    assert await GetDeviceCount() == 2
    assert await GetDevice() == 0
    for verb in (SetDevice, CreateContext, ResetDevice):
        for wrong in (2, -1, 1.0, "0", None):
            with refused(Kind.INVALID_DEVICE, f"there is no device {wrong!r}", "tiny has devices 0 to 1"):
                await verb(wrong)
    assert await GetDevice() == 0


@tiny
async def test_devices_work_side_by_side_and_a_sync_is_for_one():
    sim = current_simulation()
    begin = sim.now_ns
    await LaunchKernel(A, 1)
    await SetDevice(1)
    await LaunchKernel(B, 1)
    await SynchronizeDevice()
    assert calls(sim, begin)[-1] == ("SynchronizeDevice", 3_000, 15_000)
    assert history(sim, begin) == [("B", 3_000, 13_000)]
    await SetDevice(0)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 51_000), ("B", 3_000, 13_000)]
    assert [op.device for op in sim.trace.ops] == [1, 0]


@tiny
async def test_the_default_stream_rule_is_for_each_device_and_context_alone():
    sim, a = current_simulation(), await CreateStream()
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    await SetDevice(1)
    await LaunchKernel(B, 1)
    await SetDevice(0)
    await CreateContext(0)
    await LaunchKernel(B, 1)
    await SynchronizeDevice()  # of both contexts
    assert history(sim, begin) == [("A", 1_000, 51_000), ("B", 3_000, 13_000), ("B", 6_000, 16_000)]


@tiny
async def test_each_task_has_its_own_device_and_passes_it_on_to_its_children():
    await SetDevice(1)
    begin = asyncio.Event()

    async def child():
        await begin.wait()
        inherited = await GetDevice()
        await SetDevice(0)
        return inherited, await GetDevice(), await asyncio.create_task(GetDevice())

    children = [asyncio.create_task(child()) for _ in range(2)]
    await SetDevice(0)
    begin.set()
    assert await asyncio.gather(*children) == [(1, 0, 0)] * 2
    await SetDevice(1)
    assert await GetDevice() == 1


@tiny
async def test_contexts_are_made_current_destroyed_and_refused():
    primary = await GetCurrentContext()
    mine = await CreateContext(1)
    assert (await GetCurrentContext(), await GetDevice()) == (mine, 1)
    stream, event = await CreateStream(), await CreateEvent()
    await SetCurrentContext(primary)
    assert await GetDevice() == 0
    await SetCurrentContext(mine)
    with refused(Kind.INVALID_CONTEXT, "<primary context of device 0>", "ResetDevice()"):
        await DestroyContext(primary)
    await DestroyContext(mine)
    assert repr(await GetCurrentContext()) == "<primary context of device 1>"
    for verb in (SetCurrentContext, DestroyContext):
        with refused(Kind.INVALID_CONTEXT, f"<context 1 of device 1 destroyed at {mine.destroyed}>"):
            await verb(mine)
        for wrong in (None, 0, stream):
            with misused(TypeError, "a context must be what CreateContext"):
                await verb(wrong)
    with refused(Kind.INVALID_HANDLE, "takes no more work"):
        await SynchronizeStream(stream)
    for verb in (
        lambda: RecordEvent(event),
        lambda: StreamWaitEvent(None, event),
        lambda: acl_py.SynchronizeEvent(event),
        lambda: acl_py.QueryEventStatus(event),
    ):
        with refused(Kind.INVALID_CONTEXT, "<context 1 of device 1> was destroyed at", mine.destroyed):
            await verb()


@tiny
async def test_the_work_of_a_destroyed_context_completes():
    sim = current_simulation()
    context = await CreateContext(0)
    stream = await CreateStream()
    host = await MallocHost(4)
    host.numpy()[:] = 0
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), stream)
    await acl_py.MemsetAsync(host, 4, 7, 4, stream)
    await DestroyContext(context)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 51_000), ("fill", 51_000, 51_004)]
    assert host.numpy().tolist() == [7] * 4


@tiny
async def test_a_task_whose_context_another_destroys_is_told():
    context = await CreateContext(0)
    begin = asyncio.Event()

    async def child():
        await begin.wait()
        for verb in (CreateStream, lambda: LaunchKernel(A, 1), SynchronizeDevice, lambda: Malloc(8)):
            with refused(Kind.INVALID_CONTEXT, "was destroyed at", context.destroyed, "SetDevice()"):
                await verb()
        await SetDevice(0)
        await SynchronizeDevice()

    task = asyncio.create_task(child())
    await DestroyContext(context)
    begin.set()
    await task


@tiny
async def test_a_context_of_another_simulation_is_refused():
    foreign = await GetCurrentContext()
    async with acl_py.simulate(device="tiny"):
        for verb in (SetCurrentContext, DestroyContext):
            with refused(Kind.INVALID_CONTEXT, "is not of this simulation or gone"):
                await verb(foreign)


@tiny
async def test_reset_takes_streams_events_memory_and_queued_work_at_once():
    sim = current_simulation()
    stream, event, x, host = await CreateStream(), await CreateEvent(), await Malloc(1 << 20), await MallocHost(4)
    host.numpy()[:] = 0
    await RecordEvent(event, stream)
    await acl_py.MallocAsync(64, stream)
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), stream)
    await acl_py.MemsetAsync(host, 4, 7, 4, stream)
    await ResetDevice(0)
    assert calls(sim, begin)[-1] == ("ResetDevice", 2_000, 3_000)
    free, total = await acl_py.GetMemInfo()
    assert free == total
    for verb, kind in (
        (lambda: LaunchKernel(A, 1, (), stream), Kind.INVALID_HANDLE),
        (lambda: SynchronizeStream(stream), Kind.INVALID_HANDLE),
        (lambda: RecordEvent(event), Kind.INVALID_CONTEXT),
        (lambda: acl_py.SynchronizeEvent(event), Kind.INVALID_CONTEXT),
        (lambda: acl_py.Free(x), Kind.INVALID_ADDRESS),
        (lambda: acl_py.MemsetAsync(x, 4, 0, 4), Kind.INVALID_ADDRESS),
    ):
        with pytest.raises(acl_py.AclError) as caught:
            await verb()
        assert caught.value.kind is kind
    await acl_py.HostWork(100)
    assert host.numpy().tolist() == [0] * 4  # pinned memory stays; the fill had no effect
    await LaunchKernel(B, 1)
    await SynchronizeDevice()
    await acl_py.FreeHost(host)


@tiny
async def test_reset_of_one_device_leaves_the_other_alone():
    await SetDevice(1)
    x = await Malloc(64)
    await ResetDevice(0)
    await acl_py.MemsetAsync(x, 64, 0, 64)
    await SynchronizeDevice()
    await ResetDevice(1)
    assert repr(await GetCurrentContext()) == "<primary context of device 1>"
    await SynchronizeDevice()


@tiny
async def test_who_waits_when_the_device_is_reset_is_told():
    stream = await CreateStream()
    await LaunchKernel(A, 1, (), stream)

    async def reset():
        await ResetDevice(0)

    results = await asyncio.gather(SynchronizeStream(stream), reset(), return_exceptions=True)
    assert (results[0].kind, results[1]) == (Kind.INVALID_CONTEXT, None)
    assert "was reset at test_api_devices.py:" in str(results[0])


@tiny
async def test_many_contexts_leave_nothing_behind():
    for _ in range(50):
        context = await CreateContext(0)
        await LaunchKernel(B, 1)
        await SynchronizeDevice()
        await DestroyContext(context)
    assert len(current_simulation().runtime.devices[0].contexts) <= 3
