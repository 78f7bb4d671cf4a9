"""Callbacks under ACL's rules (3.5): who runs them, when, and what waits."""

import asyncio

import pytest
from histories import busy, refused, tiny, tiny_acl

import acl_py as acl

BLOCK, NO_BLOCK = acl.CallbackBlock.BLOCK, acl.CallbackBlock.NO_BLOCK


async def reporter(stream, count):
    """A task that runs *count* callbacks of *stream*."""
    await acl.SubscribeReport(None, stream)
    for _ in range(count):
        await acl.ProcessReport(-1)
    await acl.UnsubscribeReport(None, stream)


async def start(stream, count=1):
    task = asyncio.create_task(reporter(stream, count))
    await asyncio.sleep(0)
    return task


@tiny_acl
async def test_the_vendors_example_of_a_blocking_callback_of_two_seconds():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    task = await start(stream)

    async def two_seconds(_):
        await acl.HostWork(2_000_000)

    begin = sim.now_ns
    await acl.LaunchCallback(two_seconds, None, BLOCK, stream)
    await acl.SynchronizeStream(stream)
    assert sim.now_ns - begin == pytest.approx(2e9, abs=10_000_000)
    await task


@tiny_acl
async def test_later_work_waits_for_a_blocking_callback_only():
    for block, waits in ((BLOCK, True), (NO_BLOCK, False)):
        stream, seen = await acl.CreateStream(), []
        task = await start(stream)
        before = await acl.LaunchKernel(busy("before", 10), 1, (), stream)

        async def callback(data, seen=seen, before=before):
            seen.append((data, before.done))
            await acl.HostWork(100)

        await acl.LaunchCallback(callback, "data", block, stream)
        after = await acl.LaunchKernel(busy("after", 10), 1, (), stream)
        await acl.SynchronizeStream(stream)
        await task
        assert seen == [("data", True)]
        assert (after.start_ns - before.end_ns >= 100_000) is waits


@tiny_acl
async def test_callbacks_keep_their_order():
    stream, seen = await acl.CreateStream(), []
    task = await start(stream, 4)
    for number in range(4):
        await acl.LaunchCallback(seen.append, number, NO_BLOCK, stream)
    await task
    assert seen == [0, 1, 2, 3]


@tiny_acl
async def test_a_stream_without_a_subscriber_takes_no_callback():
    stream = await acl.CreateStream()
    for block in acl.CallbackBlock:
        with refused(acl.Kind.NO_SUBSCRIBER, stream.made, "SubscribeReport()") as caught:
            await acl.LaunchCallback(print, None, block, stream)
        assert caught.value.code == 107015
    task = await start(stream)
    await acl.LaunchCallback(lambda _: None, None, BLOCK, stream)
    await task


@tiny_acl
async def test_the_default_stream_can_be_subscribed_and_a_stream_only_once():
    await acl.SubscribeReport(None, None)
    with refused(acl.Kind.STREAM_SUBSCRIBED, "has a subscriber") as caught:
        await acl.SubscribeReport(None, None)
    assert caught.value.code == 107011
    with refused(acl.Kind.STREAM_SUBSCRIBED, "use LaunchCallback()"):
        await acl.LaunchHostFunc(None, print)
    await acl.UnsubscribeReport(None, None)
    with refused(acl.Kind.NOT_A_SUBSCRIBER):
        await acl.UnsubscribeReport(None, None)


@tiny_acl
async def test_one_task_may_serve_many_streams_of_one_device():
    a, b, seen = await acl.CreateStream(), await acl.CreateStream(), []
    await acl.SubscribeReport(None, a)
    await acl.SubscribeReport(None, b)
    await acl.LaunchCallback(seen.append, "a", NO_BLOCK, a)
    await acl.LaunchCallback(seen.append, "b", NO_BLOCK, b)
    await acl.ProcessReport(-1)
    await acl.ProcessReport(-1)
    assert seen == ["a", "b"]
    await acl.SetDevice(1)
    other = await acl.CreateStream()
    with refused(acl.Kind.NOT_A_SUBSCRIBER, "of another device"):
        await acl.SubscribeReport(None, other)


@tiny_acl
async def test_who_has_not_subscribed_cannot_process():
    with pytest.raises(acl.AclError) as caught:
        await acl.ProcessReport(100)
    assert caught.value.code == 107012


@tiny_acl
async def test_process_report_waits_that_long_in_simulated_time():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    await acl.SubscribeReport(None, stream)
    begin = sim.now_ns
    with pytest.raises(acl.AclError) as caught:
        await acl.ProcessReport(100)
    assert (caught.value.code, sim.now_ns - begin) == (507012, 100_003_000)
    for timeout in (0, -2):
        with refused(acl.Kind.NULL_POINTER) as caught:
            await acl.ProcessReport(timeout)
        assert caught.value.code == 100000


@tiny_acl
async def test_what_a_callback_raises_comes_out_of_process_report_and_the_stream_goes_on():
    stream = await acl.CreateStream()
    await acl.SubscribeReport(None, stream)

    def callback(_):
        raise ZeroDivisionError("a bug")

    await acl.LaunchCallback(callback, None, BLOCK, stream)
    after = await acl.LaunchKernel(busy("after", 10), 1, (), stream)
    with pytest.raises(ZeroDivisionError):
        await acl.ProcessReport(-1)
    await acl.SynchronizeStream(stream)
    assert after.done


@tiny_acl
async def test_a_blocking_callback_that_nobody_runs_is_a_deadlock():
    stream = await acl.CreateStream()
    await acl.SubscribeReport(None, stream)
    await acl.LaunchCallback(print, None, BLOCK, stream)
    with pytest.raises(acl.DeadlockError):
        await acl.SynchronizeStream(stream)


@tiny(rules="cuda")
async def test_cuda_has_host_functions_instead():
    for verb, args in (
        (acl.SubscribeReport, (None, None)),
        (acl.LaunchCallback, (print, None, 1)),
        (acl.ProcessReport, (1,)),
    ):
        with refused(acl.Kind.NOT_SUPPORTED):
            await verb(*args)
