"""Streams, contexts and devices under ACL's rules (3.1, 3.4, 3.7)."""

from dataclasses import replace

import pytest
from histories import busy, history, refused, tiny

import acl_py
from acl_py import (
    LEGACY_STREAM,
    PER_THREAD_STREAM,
    AclError,
    CreateContext,
    CreateEvent,
    CreateStream,
    CreateStreamWithConfig,
    DeadlockError,
    DestroyContext,
    DestroyStream,
    DestroyStreamForce,
    Finalize,
    GetCurrentContext,
    GetDevice,
    GetStreamAvailableNum,
    HostWork,
    Init,
    Kind,
    LaunchKernel,
    RecordEvent,
    ResetDevice,
    ResetDeviceForce,
    SetCurrentContext,
    SetDevice,
    Status,
    StreamAbort,
    StreamFlag,
    StreamQuery,
    StreamWaitEvent,
    SynchronizeDevice,
    SynchronizeStream,
    current_simulation,
)
from device_model.profile import load

A, B, C = (busy(name, 10) for name in "ABC")
acl = tiny(rules="acl")


# --- order, synchronisation, destruction (3.4)


@acl
async def test_a_stream_is_first_in_first_out_and_streams_are_concurrent():
    sim, a, b = current_simulation(), await CreateStream(), await CreateStream()
    begin = sim.now_ns
    for kernel, stream in ((A, a), (B, b), (C, a)):
        await LaunchKernel(kernel, 1, (), stream)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 2_000, 12_000), ("C", 11_000, 21_000)]


@acl
async def test_destroying_a_stream_waits_for_its_work():
    sim, stream = current_simulation(), await CreateStream()
    begin = sim.now_ns
    work = await LaunchKernel(A, 1, (), stream)
    await DestroyStream(stream)
    assert (work.done, sim.now_ns - begin) == (True, 13_000)


@acl
async def test_destroying_a_stream_by_force_drops_its_work():
    sim, stream = current_simulation(), await CreateStream()
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), stream)
    dropped = await LaunchKernel(B, 1, (), stream)
    await DestroyStreamForce(stream)
    assert (sim.now_ns - begin, dropped.done, dropped.error.kind) == (3_000, True, Kind.STREAM_ABORTED)
    await HostWork(20)  # the engine is busy until what it had begun would have ended
    assert [name for name, *_ in history(sim, begin)] == ["A"]


@acl
async def test_the_default_stream_cannot_be_destroyed():
    with refused(Kind.DEFAULT_STREAM, "only what CreateStream() gave") as caught:
        await DestroyStream(None)
    assert caught.value.code == 107000


@acl
async def test_there_are_no_streams_that_are_there_without_being_created_but_the_default_one():
    for stream in (LEGACY_STREAM, PER_THREAD_STREAM):
        with refused(Kind.NOT_SUPPORTED, "use None, the default stream"):
            await SynchronizeStream(stream)


@acl
async def test_synchronizing_the_device_means_the_streams_of_the_current_context():
    sim, mine = current_simulation(), await CreateStream()
    first = await GetCurrentContext()
    await LaunchKernel(busy("short", 10), 1, (), mine)
    in_default = await LaunchKernel(busy("short", 20), 1)
    await CreateContext(0)
    other = await LaunchKernel(busy("long", 1_000), 1, (), await CreateStream())
    await SetCurrentContext(first)
    await SynchronizeDevice()
    assert (in_default.done, other.done) == (True, False)
    await SetCurrentContext(other.stream.context)
    await SynchronizeDevice()
    assert other.done
    assert sim.report()


@acl
async def test_the_query_of_the_default_stream_asks_nobody_else():
    stream = await CreateStream()
    await LaunchKernel(busy("long", 100), 1, (), stream)
    assert await StreamQuery(None) is Status.COMPLETE
    assert await StreamQuery(stream) is Status.NOT_READY


@acl
async def test_an_abort_drops_what_is_queued_and_stops_what_runs():
    sim, a, b, event = current_simulation(), await CreateStream(), await CreateStream(), await CreateEvent()
    ran = []
    kernels = []
    for name in "AB":
        work = acl_py.kernel(cost=acl_py.Cost(us=10), serial=True)(_noting(ran, name))
        kernels.append(await LaunchKernel(work, 1, (), a))
    await RecordEvent(event, a)
    await StreamWaitEvent(b, event)
    follower = await LaunchKernel(C, 1, (), b)
    begin = sim.now_ns
    await StreamAbort(a)
    assert [kernel.done for kernel in kernels] == [True, True]
    with pytest.raises(AclError, match="was aborted at") as caught:
        await SynchronizeStream(a)
    assert caught.value.code == 107023
    await SynchronizeStream(a)  # told once
    await SynchronizeStream(b)
    assert (follower.start_ns - begin, ran) == (1_000, [])  # an event of dropped work counts as reached
    await LaunchKernel(A, 1, (), a)
    await SynchronizeStream(a)  # good as new


def _noting(ran, name):
    def work():
        ran.append(name)

    work.__name__ = name
    return work


@acl
async def test_an_abort_frees_the_hardware_queue_that_its_waiting_work_blocked():
    """All compute queues hold a kernel that waits for an event that never comes; an abort lets the others by."""
    sim, held = current_simulation(), []
    event = await acl_py.CreateEventWithFlag(acl_py.EventFlag.SYNC)
    for _ in range(sim.runtime.profile.queues.compute):
        held.append(await CreateStream())
        await StreamWaitEvent(held[-1], event)
        await LaunchKernel(A, 1, (), held[-1])
    stream = await CreateStream()
    await LaunchKernel(B, 1, (), stream)
    with pytest.raises(DeadlockError):
        await SynchronizeStream(stream)
    for each in held:
        await StreamAbort(each)
    await SynchronizeStream(stream)
    assert [name for name, *_ in history(sim)] == ["B"]


@acl
async def test_an_abort_drops_waits_that_no_work_stands_behind():
    a, b, event = await CreateStream(), await CreateStream(), await CreateEvent()
    await LaunchKernel(busy("long", 100), 1, (), a)
    await RecordEvent(event, a)
    await StreamWaitEvent(b, event)
    await StreamAbort(b)
    assert b.idle
    with pytest.raises(AclError, match="was aborted"):
        await SynchronizeStream(b)


@pytest.mark.parametrize("flag", [StreamFlag.PERSISTENT, StreamFlag.CPU_SCHEDULE, StreamFlag.DEVICE_USE_ONLY])
@acl
async def test_nobody_waits_for_a_stream_that_waits_for_its_model(flag):
    sim, stream = current_simulation(), await CreateStreamWithConfig(0, flag)
    work = await LaunchKernel(A, 1, (), stream)
    begin = sim.now_ns
    await SynchronizeStream(stream)
    await SynchronizeDevice()
    assert (sim.now_ns - begin, work.done) == (600, False)
    await DestroyStream(stream)


@acl
async def test_a_stream_that_waits_for_its_model_gets_full():
    stream = await CreateStreamWithConfig(0, StreamFlag.PERSISTENT)
    for _ in range(current_simulation().runtime.profile.queues.depth):
        await LaunchKernel(A, 1, (), stream)
    with refused(Kind.STREAM_FULL, "waits for a model") as caught:
        await LaunchKernel(A, 1, (), stream)
    assert caught.value.code == 507002


@acl
async def test_the_configuration_of_a_stream():
    assert [(await CreateStreamWithConfig(priority, 3)).priority for priority in (-1, 0, 3, 7, 99)] == [0, 0, 3, 7, 7]
    with refused(Kind.INVALID_VALUE, "0x40"):
        await CreateStreamWithConfig(0, 0x40)


@tiny(rules="cuda")
async def test_cuda_has_no_such_configuration():
    with refused(Kind.NOT_SUPPORTED, "use CreateStream()"):
        await CreateStreamWithConfig(0, 0)


def test_there_is_a_limit_of_streams():
    async def main():
        streams = [await CreateStream() for _ in range(3)]
        assert await GetStreamAvailableNum() == 0
        with refused(Kind.NO_STREAM_LEFT, "all 4 streams", "destroy those") as caught:
            await CreateStream()
        assert caught.value.code == 207008
        await DestroyStream(streams[0])
        await CreateStream()
        await ResetDevice(0)
        await SetDevice(0)
        assert await GetStreamAvailableNum() == 3

    tiny_profile = load("tiny")
    few = replace(tiny_profile, limits=replace(tiny_profile.limits, streams=4))  # the default stream is one of them
    acl_py.run(main, device=few, rules="acl")


@acl
async def test_a_full_stream_blocks_its_host():
    sim, stream = current_simulation(), await CreateStream()
    depth = sim.runtime.profile.queues.depth
    for _ in range(depth + 2):
        await LaunchKernel(busy("A", 1_000), 1, (), stream)
    assert sim.now_ns > 1_000_000


# --- contexts and devices (3.1)


@acl
async def test_a_stream_of_another_context_is_refused():
    first, stream, event = await GetCurrentContext(), await CreateStream(), await CreateEvent()
    await CreateContext(0)
    for verb, args in (
        (LaunchKernel, (A, 1, (), stream)), (RecordEvent, (event, stream)), (StreamWaitEvent, (stream, event)),
        (SynchronizeStream, (stream,)), (StreamQuery, (stream,)), (DestroyStream, (stream,)),
    ):  # fmt: skip
        with refused(Kind.FOREIGN_STREAM, stream.made, "SetCurrentContext()") as caught:
            await verb(*args)
        assert caught.value.code == 107003
    await SetCurrentContext(first)
    await LaunchKernel(A, 1, (), stream)
    await DestroyStream(stream)


@acl
async def test_a_destroyed_stream_is_an_invalid_handle():
    stream = await CreateStream()
    await DestroyStream(stream)
    with refused(Kind.INVALID_HANDLE, stream.made, stream.destroyed) as caught:
        await LaunchKernel(A, 1, (), stream)
    assert caught.value.code == 107017


@acl
async def test_each_context_has_a_default_stream_of_its_own():
    first = await GetCurrentContext()
    second = await CreateContext(0)
    assert first.default is not second.default
    long = await LaunchKernel(busy("long", 100), 1)
    await SetCurrentContext(first)
    await SynchronizeStream(None)
    assert not long.done


@acl
async def test_without_a_context_no_verb_works_until_one_is_set():
    context = await CreateContext(0)
    await DestroyContext(context)
    for verb, args in ((CreateStream, ()), (GetDevice, ()), (LaunchKernel, (A, 1))):
        with pytest.raises(AclError) as caught:
            await verb(*args)
        assert (caught.value.kind, caught.value.code) == (Kind.INVALID_CONTEXT, 107002)
    await SetDevice(0)
    await CreateStream()


@acl
async def test_set_device_is_counted_and_the_last_reset_waits():
    sim = current_simulation()
    await SetDevice(0)  # the second time: a simulation begins with device 0 set
    begin = sim.now_ns
    work = await LaunchKernel(busy("long", 100), 1)
    await ResetDevice(0)
    assert (work.done, sim.now_ns - begin) == (False, 2_000)
    await ResetDevice(0)
    assert (work.done, work.error, sim.now_ns - begin) == (True, None, 103_000)
    with pytest.raises(AclError) as caught:
        await GetDevice()
    assert caught.value.code == 107002
    with refused(Kind.INVALID_DEVICE, "SetDevice() comes before"):
        await ResetDevice(0)
    await SetDevice(0)
    assert await GetDevice() == 0


@acl
async def test_a_forced_reset_does_not_count():
    await SetDevice(0)
    stream = await CreateStream()
    await ResetDeviceForce(0)
    with refused(Kind.INVALID_DEVICE):
        await ResetDevice(0)
    await SetDevice(0)
    with pytest.raises(AclError):
        await LaunchKernel(A, 1, (), stream)  # it went with its context


@acl
async def test_a_second_init_is_refused_without_harm_and_one_finalize_ends_all():
    await Init()
    with pytest.raises(AclError) as caught:
        await Init()
    assert caught.value.code == 100002
    await CreateStream()
    await Finalize()
    with pytest.raises(AclError) as caught:
        await Finalize()
    assert caught.value.code == 100037
    with pytest.raises(AclError):
        await HostWork(1)
