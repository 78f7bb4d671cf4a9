"""A small test suite for anyio's pytest plugin, on loops with a simulated clock. test_clock_anyio.py runs it."""

from functools import partial

import anyio
import pytest
from clocked import busy

import acl_py as acl

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request):
    return "asyncio", {"loop_factory": partial(acl.new_event_loop, uvloop=request.param == "uvloop")}


@pytest.fixture
async def slept():
    await anyio.sleep(100)
    return anyio.current_time()


async def test_a_fixture_and_its_test_share_a_clock(slept):
    await anyio.sleep(1_000)
    assert (slept, anyio.current_time()) == (100, 1_100)


async def test_each_test_has_a_clock_that_begins_at_0():
    assert anyio.current_time() == 0


async def test_a_timeout_strikes_in_the_middle_of_a_wait_for_a_device():
    async with acl.simulate(device="tiny") as sim:
        await acl.LaunchKernel(busy(60e6), 1)
        begin = sim.now_ns
        with anyio.move_on_after(1) as scope:
            await acl.SynchronizeDevice()
        assert scope.cancelled_caught
        assert sim.now_ns - begin == 1_000_000_000


async def test_a_stream_hands_items_on_at_exact_times():
    send, receive = anyio.create_memory_object_stream(0)
    received = []

    async def produce():
        async with send:
            for item in range(3):
                await anyio.sleep(0.25)
                await send.send(item)

    async with anyio.create_task_group() as tasks, receive:
        tasks.start_soon(produce)
        async for item in receive:
            received.append((anyio.current_time(), item))  # noqa: PERF401 - the time is that of each item
    assert received == [(0.25, 0), (0.5, 1), (0.75, 2)]


async def test_a_thread_ends_before_a_timeout_of_an_hour():
    with anyio.fail_after(3_600):
        assert await anyio.to_thread.run_sync(len, "three") == 5
    assert anyio.current_time() < 3_600
