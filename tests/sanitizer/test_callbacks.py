"""What a host knows when a callback begins, and after a reset."""

import asyncio

import pytest

import acl_py as acl
from tests.sanitizer.racing import D2H, found, two_streams, write


def from_a_callback(stream_of_kernel):
    async def program():
        one, two = await two_streams()
        host, x = await acl.MallocHost(64), acl.Array(await acl.Malloc(64))
        streams = {"one": one, "two": two}

        async def copy_out(_):
            await acl.Memcpy(host, 64, x, 64, D2H)

        async def report():
            await acl.SubscribeReport(asyncio.current_task(), one)
            ready.set()
            await acl.ProcessReport(-1)

        ready = asyncio.Event()
        reporting = asyncio.create_task(report())
        await ready.wait()
        await write[1, streams[stream_of_kernel]](x)
        await acl.LaunchCallback(copy_out, None, acl.CallbackBlock.BLOCK, one)
        await reporting

    return program


def test_a_callback_knows_that_the_work_before_it_is_over():
    assert found(from_a_callback("one"), "acl") == []


def test_a_callback_knows_nothing_of_other_streams():
    assert [kind for kind, *_ in found(from_a_callback("two"), "acl")] == ["race"]


def test_a_callback_knows_nothing_of_what_its_stream_waits_for_later():
    """The record has the same completion as the turn of the callback, because the write is over when it is made."""

    async def program():
        one, two = await two_streams()
        host, x = await acl.MallocHost(64), acl.Array(await acl.Malloc(64))
        written, later = await acl.CreateEventExWithFlag(acl.EventFlag.SYNC), await acl.CreateEvent()
        await acl.SubscribeReport(None, one)
        await acl.LaunchCallback(print, None, acl.CallbackBlock.BLOCK, one)
        await write[1, two](x)
        await acl.RecordEvent(written, two)
        await asyncio.sleep(1e-3)
        await acl.StreamWaitEvent(one, written)
        await acl.RecordEvent(later, one)
        await acl.ProcessReport(-1)
        await acl.Memcpy(host, 64, x, 64, D2H)

    assert found(program, "acl") == [("race", 6, 12, "0:64")]


@pytest.mark.parametrize("rules", ["cuda", "acl"])
def test_after_a_reset_no_work_is_left_to_race_with(rules):
    async def program():
        host = await acl.MallocHost(64)
        for _ in range(2):
            await acl.SetDevice(0)
            stream, x = await acl.CreateStream(), await acl.Malloc(64)
            await acl.MemsetAsync(x, 64, 0, 64, stream)
            await acl.MemcpyAsync(host, 64, x, 64, D2H, stream)
            await acl.ResetDeviceForce(0)

    assert found(program, rules) == []


def around_a_callback(block, *, is_queued_before, reads_late=False):
    """A program with work behind a callback that reads what this work writes. The work is queued before the callback
    is called, or afterwards. With *reads_late*, the host reads once more behind the end of the callback.
    """

    async def program():
        one, _ = await two_streams()
        host, x = await acl.MallocHost(64), acl.Array(await acl.Malloc(64))

        async def copy_out(_=None):
            await acl.Memcpy(host, 64, x, 64, D2H)

        await acl.SubscribeReport(None, one)
        for _ in range(2):
            await acl.LaunchCallback(copy_out, None, block, one)
            if is_queued_before:
                await write[1, one](x)
        for _ in range(2):
            await acl.ProcessReport(-1)
            if not is_queued_before:
                await write[1, one](x)
        if reads_late:
            await copy_out()
        await acl.SynchronizeStream(one)

    return program


before = pytest.mark.parametrize("is_queued_before", [False, True])


@before
def test_work_behind_a_callback_that_blocks_its_stream_is_behind_what_the_callback_did(is_queued_before):
    assert found(around_a_callback(acl.CallbackBlock.BLOCK, is_queued_before=is_queued_before), "acl") == []


def test_work_behind_a_callback_that_does_not_block_is_not():
    program = around_a_callback(acl.CallbackBlock.NO_BLOCK, is_queued_before=True)
    assert found(program, "acl") == [("race", 11, 5, "0:64")]


@before
def test_what_the_host_does_behind_the_end_of_a_callback_is_in_no_order_with_that_work(is_queued_before):
    program = around_a_callback(acl.CallbackBlock.BLOCK, is_queued_before=is_queued_before, reads_late=True)
    assert found(program, "acl") == [("race", 11 if is_queued_before else 15, 5, "0:64")]


def test_a_callback_that_nobody_calls_puts_nothing_in_order():
    async def program():
        one, _ = await two_streams()
        host, x = await acl.MallocHost(64), acl.Array(await acl.Malloc(64))
        await acl.SubscribeReport(None, one)
        await acl.LaunchCallback(print, None, acl.CallbackBlock.BLOCK, one)
        await write[1, one](x)
        await acl.Memcpy(host, 64, x, 64, D2H)
        acl.current_simulation().runtime.sanitizer.finish()

    assert found(program, "acl") == [("race", 5, 6, "0:64")]
