"""Streams, contexts and devices under ACL's rules (3.1, 3.4, 3.7)."""

from dataclasses import replace

import pytest
from histories import busy, history, refused, tiny, tiny_acl

import acl_py as acl
from device_model.profile import load

A, B, C = (busy(name, 10) for name in "ABC")


# --- order, synchronisation, destruction (3.4)


@tiny_acl
async def test_a_stream_is_first_in_first_out_and_streams_are_concurrent():
    sim, a, b = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream()
    begin = sim.now_ns
    for kernel, stream in ((A, a), (B, b), (C, a)):
        await acl.LaunchKernel(kernel, 1, (), stream)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 2_000, 12_000), ("C", 11_000, 21_000)]


@tiny_acl
async def test_destroying_a_stream_waits_for_its_work():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    work = await acl.LaunchKernel(A, 1, (), stream)
    await acl.DestroyStream(stream)
    assert (work.done, sim.now_ns - begin) == (True, 13_000)


@tiny_acl
async def test_destroying_a_stream_by_force_drops_its_work():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), stream)
    dropped = await acl.LaunchKernel(B, 1, (), stream)
    await acl.DestroyStreamForce(stream)
    assert (sim.now_ns - begin, dropped.done, dropped.error.kind) == (3_000, True, acl.Kind.STREAM_ABORTED)
    await acl.HostWork(20)  # the engine is busy until what it had begun would have ended
    assert [name for name, *_ in history(sim, begin)] == ["A"]


@tiny_acl
async def test_the_default_stream_cannot_be_destroyed():
    with refused(acl.Kind.DEFAULT_STREAM, "only what CreateStream() gave") as caught:
        await acl.DestroyStream(None)
    assert caught.value.code == 107000


@tiny_acl
async def test_there_are_no_streams_that_are_there_without_being_created_but_the_default_one():
    for stream in (acl.LEGACY_STREAM, acl.PER_THREAD_STREAM):
        with refused(acl.Kind.NOT_SUPPORTED, "use None, the default stream"):
            await acl.SynchronizeStream(stream)


@tiny_acl
async def test_synchronizing_the_device_means_the_streams_of_the_current_context():
    sim, mine = acl.current_simulation(), await acl.CreateStream()
    first = await acl.GetCurrentContext()
    await acl.LaunchKernel(busy("short", 10), 1, (), mine)
    in_default = await acl.LaunchKernel(busy("short", 20), 1)
    await acl.CreateContext(0)
    other = await acl.LaunchKernel(busy("long", 1_000), 1, (), await acl.CreateStream())
    await acl.SetCurrentContext(first)
    await acl.SynchronizeDevice()
    assert (in_default.done, other.done) == (True, False)
    await acl.SetCurrentContext(other.stream.context)
    await acl.SynchronizeDevice()
    assert other.done
    assert sim.report()


@tiny_acl
async def test_the_query_of_the_default_stream_asks_nobody_else():
    stream = await acl.CreateStream()
    await acl.LaunchKernel(busy("long", 100), 1, (), stream)
    assert await acl.StreamQuery(None) is acl.Status.COMPLETE
    assert await acl.StreamQuery(stream) is acl.Status.NOT_READY


@tiny_acl
async def test_an_abort_drops_what_is_queued_and_stops_what_runs():
    sim, a, b, event = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateEvent(),
    )
    ran = []
    kernels = []
    for name in "AB":
        work = acl.kernel(cost=acl.Cost(us=10), serial=True)(_noting(ran, name))
        kernels.append(await acl.LaunchKernel(work, 1, (), a))
    await acl.RecordEvent(event, a)
    await acl.StreamWaitEvent(b, event)
    follower = await acl.LaunchKernel(C, 1, (), b)
    begin = sim.now_ns
    await acl.StreamAbort(a)
    assert [kernel.done for kernel in kernels] == [True, True]
    with pytest.raises(acl.AclError, match="was aborted at") as caught:
        await acl.SynchronizeStream(a)
    assert caught.value.code == 107023
    await acl.SynchronizeStream(a)  # told once
    await acl.SynchronizeStream(b)
    assert (follower.start_ns - begin, ran) == (1_000, [])  # an event of dropped work counts as reached
    await acl.LaunchKernel(A, 1, (), a)
    await acl.SynchronizeStream(a)  # good as new


def _noting(ran, name):
    def work():
        ran.append(name)

    work.__name__ = name
    return work


@tiny_acl
async def test_an_abort_drops_callbacks_that_wait_for_their_turn():
    stream, notify, told = await acl.CreateStream(), await acl.CreateNotify(), []
    await acl.SubscribeReport(None, stream)
    await acl.WaitAndResetNotify(notify, stream)
    await acl.LaunchCallback(told.append, "dropped", acl.CallbackBlock.BLOCK, stream)
    await acl.StreamAbort(stream)
    with pytest.raises(acl.AclError) as caught:
        await acl.ProcessReport(1)
    assert (caught.value.kind, told) == (acl.Kind.REPORT_TIMEOUT, [])


@tiny_acl
async def test_an_abort_frees_the_hardware_queue_that_its_waiting_work_blocked():
    """All compute queues hold a kernel that waits for an event that never comes; an abort lets the others by."""
    sim, held = acl.current_simulation(), []
    event = await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
    for _ in range(sim.runtime.profile.queues.compute):
        held.append(await acl.CreateStream())
        await acl.StreamWaitEvent(held[-1], event)
        await acl.LaunchKernel(A, 1, (), held[-1])
    stream = await acl.CreateStream()
    await acl.LaunchKernel(B, 1, (), stream)
    with pytest.raises(acl.DeadlockError):
        await acl.SynchronizeStream(stream)
    for each in held:
        await acl.StreamAbort(each)
    await acl.SynchronizeStream(stream)
    assert [name for name, *_ in history(sim)] == ["B"]


@tiny_acl
async def test_an_abort_drops_waits_that_no_work_stands_behind():
    a, b, event = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateEvent()
    await acl.LaunchKernel(busy("long", 100), 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.StreamWaitEvent(b, event)
    await acl.StreamAbort(b)
    assert b.idle
    with pytest.raises(acl.AclError, match="was aborted"):
        await acl.SynchronizeStream(b)


@pytest.mark.parametrize(
    "flag", [acl.StreamFlag.PERSISTENT, acl.StreamFlag.CPU_SCHEDULE, acl.StreamFlag.DEVICE_USE_ONLY]
)
@tiny_acl
async def test_nobody_waits_for_a_stream_that_waits_for_its_model(flag):
    sim, stream = acl.current_simulation(), await acl.CreateStreamWithConfig(0, flag)
    work = await acl.LaunchKernel(A, 1, (), stream)
    begin = sim.now_ns
    await acl.SynchronizeStream(stream)
    await acl.SynchronizeDevice()
    assert (sim.now_ns - begin, work.done) == (600, False)
    await acl.DestroyStream(stream)


@tiny_acl
async def test_a_stream_that_waits_for_its_model_gets_full():
    stream = await acl.CreateStreamWithConfig(0, acl.StreamFlag.PERSISTENT)
    for _ in range(acl.current_simulation().runtime.profile.queues.depth):
        await acl.LaunchKernel(A, 1, (), stream)
    with refused(acl.Kind.STREAM_FULL, "waits for a model") as caught:
        await acl.LaunchKernel(A, 1, (), stream)
    assert caught.value.code == 507002


@tiny_acl
async def test_the_configuration_of_a_stream():
    assert [(await acl.CreateStreamWithConfig(priority, 3)).priority for priority in (-1, 0, 3, 7, 99)] == [
        0,
        0,
        3,
        7,
        7,
    ]
    with refused(acl.Kind.INVALID_VALUE, "0x40"):
        await acl.CreateStreamWithConfig(0, 0x40)


@tiny(rules="cuda")
async def test_cuda_has_no_such_configuration():
    with refused(acl.Kind.NOT_SUPPORTED, "use CreateStream()"):
        await acl.CreateStreamWithConfig(0, 0)


def test_there_is_a_limit_of_streams():
    async def main():
        streams = [await acl.CreateStream() for _ in range(3)]
        assert await acl.GetStreamAvailableNum() == 0
        with refused(acl.Kind.NO_STREAM_LEFT, "all 4 streams", "destroy those") as caught:
            await acl.CreateStream()
        assert caught.value.code == 207008
        await acl.DestroyStream(streams[0])
        await acl.CreateStream()
        await acl.ResetDevice(0)
        await acl.SetDevice(0)
        assert await acl.GetStreamAvailableNum() == 3

    tiny_profile = load("tiny")
    few = replace(tiny_profile, limits=replace(tiny_profile.limits, streams=4))  # the default stream is one of them
    acl.run(main, device=few, rules="acl")


@tiny_acl
async def test_a_full_stream_blocks_its_host():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    depth = sim.runtime.profile.queues.depth
    for _ in range(depth + 2):
        await acl.LaunchKernel(busy("A", 1_000), 1, (), stream)
    assert sim.now_ns > 1_000_000


# --- contexts and devices (3.1)


@tiny_acl
async def test_a_stream_of_another_context_is_refused():
    first, stream, event = await acl.GetCurrentContext(), await acl.CreateStream(), await acl.CreateEvent()
    await acl.CreateContext(0)
    for verb, args in (
        (acl.LaunchKernel, (A, 1, (), stream)), (acl.RecordEvent, (event, stream)),
        (acl.StreamWaitEvent, (stream, event)),
        (acl.SynchronizeStream, (stream,)), (acl.StreamQuery, (stream,)), (acl.DestroyStream, (stream,)),
    ):  # fmt: skip
        with refused(acl.Kind.FOREIGN_STREAM, stream.made, "SetCurrentContext()") as caught:
            await verb(*args)
        assert caught.value.code == 107003
    await acl.SetCurrentContext(first)
    await acl.LaunchKernel(A, 1, (), stream)
    await acl.DestroyStream(stream)


@tiny_acl
async def test_a_destroyed_stream_is_an_invalid_handle():
    stream = await acl.CreateStream()
    await acl.DestroyStream(stream)
    with refused(acl.Kind.INVALID_HANDLE, stream.made, stream.destroyed) as caught:
        await acl.LaunchKernel(A, 1, (), stream)
    assert caught.value.code == 107017


@tiny_acl
async def test_each_context_has_a_default_stream_of_its_own():
    first = await acl.GetCurrentContext()
    second = await acl.CreateContext(0)
    assert first.default is not second.default
    long = await acl.LaunchKernel(busy("long", 100), 1)
    await acl.SetCurrentContext(first)
    await acl.SynchronizeStream(None)
    assert not long.done


@tiny_acl
async def test_without_a_context_no_verb_works_until_one_is_set():
    context = await acl.CreateContext(0)
    await acl.DestroyContext(context)
    for verb, args in ((acl.CreateStream, ()), (acl.GetDevice, ()), (acl.LaunchKernel, (A, 1))):
        with pytest.raises(acl.AclError) as caught:
            await verb(*args)
        assert (caught.value.kind, caught.value.code) == (acl.Kind.INVALID_CONTEXT, 107002)
    await acl.SetDevice(0)
    await acl.CreateStream()


@tiny_acl
async def test_set_device_is_counted_and_the_last_reset_waits():
    sim = acl.current_simulation()
    await acl.SetDevice(0)  # the second time: a simulation begins with device 0 set
    begin = sim.now_ns
    work = await acl.LaunchKernel(busy("long", 100), 1)
    await acl.ResetDevice(0)
    assert (work.done, sim.now_ns - begin) == (False, 2_000)
    await acl.ResetDevice(0)
    assert (work.done, work.error, sim.now_ns - begin) == (True, None, 103_000)
    with pytest.raises(acl.AclError) as caught:
        await acl.GetDevice()
    assert caught.value.code == 107002
    with refused(acl.Kind.INVALID_DEVICE, "SetDevice() comes before"):
        await acl.ResetDevice(0)
    await acl.SetDevice(0)
    assert await acl.GetDevice() == 0


@tiny_acl
async def test_a_forced_reset_does_not_count():
    await acl.SetDevice(0)
    stream = await acl.CreateStream()
    await acl.ResetDeviceForce(0)
    with refused(acl.Kind.INVALID_DEVICE):
        await acl.ResetDevice(0)
    await acl.SetDevice(0)
    with pytest.raises(acl.AclError):
        await acl.LaunchKernel(A, 1, (), stream)  # it went with its context


@tiny_acl
async def test_a_second_init_is_refused_without_harm_and_one_finalize_ends_all():
    await acl.Init()
    with pytest.raises(acl.AclError) as caught:
        await acl.Init()
    assert caught.value.code == 100002
    await acl.CreateStream()
    await acl.Finalize()
    with pytest.raises(acl.AclError) as caught:
        await acl.Finalize()
    assert caught.value.code == 100037
    with pytest.raises(acl.AclError):
        await acl.HostWork(1)
