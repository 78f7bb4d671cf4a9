"""Callbacks under ACL's rules (3.5): who runs them, when, and what waits."""

import asyncio

import pytest
from histories import busy, refused, tiny

from acl_py import (
    AclError,
    CallbackBlock,
    CreateStream,
    DeadlockError,
    HostWork,
    Kind,
    LaunchCallback,
    LaunchHostFunc,
    LaunchKernel,
    ProcessReport,
    SetDevice,
    SubscribeReport,
    SynchronizeStream,
    UnsubscribeReport,
    current_simulation,
)

acl = tiny(rules="acl")
BLOCK, NO_BLOCK = CallbackBlock.BLOCK, CallbackBlock.NO_BLOCK


async def reporter(stream, count):
    """A task that runs *count* callbacks of *stream*."""
    await SubscribeReport(None, stream)
    for _ in range(count):
        await ProcessReport(-1)
    await UnsubscribeReport(None, stream)


async def start(stream, count=1):
    task = asyncio.create_task(reporter(stream, count))
    await asyncio.sleep(0)
    return task


@acl
async def test_the_vendors_example_of_a_blocking_callback_of_two_seconds():
    sim, stream = current_simulation(), await CreateStream()
    task = await start(stream)

    async def two_seconds(_):
        await HostWork(2_000_000)

    begin = sim.now_ns
    await LaunchCallback(two_seconds, None, BLOCK, stream)
    await SynchronizeStream(stream)
    assert sim.now_ns - begin == pytest.approx(2e9, abs=10_000_000)
    await task


@acl
async def test_later_work_waits_for_a_blocking_callback_only():
    for block, waits in ((BLOCK, True), (NO_BLOCK, False)):
        stream, seen = await CreateStream(), []
        task = await start(stream)
        before = await LaunchKernel(busy("before", 10), 1, (), stream)

        async def callback(data, seen=seen, before=before):
            seen.append((data, before.done))
            await HostWork(100)

        await LaunchCallback(callback, "data", block, stream)
        after = await LaunchKernel(busy("after", 10), 1, (), stream)
        await SynchronizeStream(stream)
        await task
        assert seen == [("data", True)]
        assert (after.start_ns - before.end_ns >= 100_000) is waits


@acl
async def test_callbacks_keep_their_order():
    stream, seen = await CreateStream(), []
    task = await start(stream, 4)
    for number in range(4):
        await LaunchCallback(seen.append, number, NO_BLOCK, stream)
    await task
    assert seen == [0, 1, 2, 3]


@acl
async def test_a_stream_without_a_subscriber_takes_no_callback():
    stream = await CreateStream()
    for block in CallbackBlock:
        with refused(Kind.NO_SUBSCRIBER, stream.made, "SubscribeReport()") as caught:
            await LaunchCallback(print, None, block, stream)
        assert caught.value.code == 107015
    task = await start(stream)
    await LaunchCallback(lambda _: None, None, BLOCK, stream)
    await task


@acl
async def test_the_default_stream_can_be_subscribed_and_a_stream_only_once():
    await SubscribeReport(None, None)
    with refused(Kind.STREAM_SUBSCRIBED, "has a subscriber") as caught:
        await SubscribeReport(None, None)
    assert caught.value.code == 107011
    with refused(Kind.STREAM_SUBSCRIBED, "use LaunchCallback()"):
        await LaunchHostFunc(None, print)
    await UnsubscribeReport(None, None)
    with refused(Kind.NOT_A_SUBSCRIBER):
        await UnsubscribeReport(None, None)


@acl
async def test_one_task_may_serve_many_streams_of_one_device():
    a, b, seen = await CreateStream(), await CreateStream(), []
    await SubscribeReport(None, a)
    await SubscribeReport(None, b)
    await LaunchCallback(seen.append, "a", NO_BLOCK, a)
    await LaunchCallback(seen.append, "b", NO_BLOCK, b)
    await ProcessReport(-1)
    await ProcessReport(-1)
    assert seen == ["a", "b"]
    await SetDevice(1)
    other = await CreateStream()
    with refused(Kind.NOT_A_SUBSCRIBER, "of another device"):
        await SubscribeReport(None, other)


@acl
async def test_who_has_not_subscribed_cannot_process():
    with pytest.raises(AclError) as caught:
        await ProcessReport(100)
    assert caught.value.code == 107012


@acl
async def test_process_report_waits_that_long_in_simulated_time():
    sim, stream = current_simulation(), await CreateStream()
    await SubscribeReport(None, stream)
    begin = sim.now_ns
    with pytest.raises(AclError) as caught:
        await ProcessReport(100)
    assert (caught.value.code, sim.now_ns - begin) == (507012, 100_003_000)
    for timeout in (0, -2):
        with refused(Kind.NULL_POINTER) as caught:
            await ProcessReport(timeout)
        assert caught.value.code == 100000


@acl
async def test_what_a_callback_raises_comes_out_of_process_report_and_the_stream_goes_on():
    stream = await CreateStream()
    await SubscribeReport(None, stream)

    def callback(_):
        raise ZeroDivisionError("a bug")

    await LaunchCallback(callback, None, BLOCK, stream)
    after = await LaunchKernel(busy("after", 10), 1, (), stream)
    with pytest.raises(ZeroDivisionError):
        await ProcessReport(-1)
    await SynchronizeStream(stream)
    assert after.done


@acl
async def test_a_blocking_callback_that_nobody_runs_is_a_deadlock():
    stream = await CreateStream()
    await SubscribeReport(None, stream)
    await LaunchCallback(print, None, BLOCK, stream)
    with pytest.raises(DeadlockError):
        await SynchronizeStream(stream)


@tiny(rules="cuda")
async def test_cuda_has_host_functions_instead():
    for verb, args in ((SubscribeReport, (None, None)), (LaunchCallback, (print, None, 1)), (ProcessReport, (1,))):
        with refused(Kind.NOT_SUPPORTED):
            await verb(*args)
