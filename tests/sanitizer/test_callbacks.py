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
