"""Cancelled calls: nothing was queued or all of it, and nobody else notices, however full the queues are."""

import asyncio

import pytest
from histories import busy, tiny
from hypothesis import given, settings
from hypothesis import strategies as st

import acl_py as acl
from tests.campaigns import many

TASK = st.tuples(st.integers(0, 1), st.integers(1, 30), st.integers(0, 12))  # stream, launches, us of each kernel
CANCEL = st.tuples(st.integers(0, 60), st.integers(0, 5))  # after us, which task


async def _program(tasks, cancels):
    sim, log, queued = acl.current_simulation(), [], []
    streams = [await acl.CreateStream(), await acl.CreateStream()]

    async def work(number, where, launches, us):
        kernel = busy(f"t{number}", us)
        for i in range(launches):
            queued.append((number, await acl.LaunchKernel(kernel, 1, (), streams[where])))
            log.append((number, i, sim.now_ns))
        await acl.SynchronizeStream(streams[where])
        log.append((number, "done", sim.now_ns))

    workers = [asyncio.create_task(work(number, *task)) for number, task in enumerate(tasks)]
    for us, number in cancels:
        await acl.Sleep(us)
        if number < len(workers):
            workers[number].cancel()
    results = await asyncio.gather(*workers, return_exceptions=True)
    assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
    await acl.SynchronizeDevice()
    assert all(op.done for _, op in queued)
    assert len(sim.trace.ops) == len(queued)
    for where in (0, 1):  # the order of the calls is the order of the stream
        ends = [op.end_ns for number, op in queued if tasks[number][0] == where]
        assert ends == sorted(ends)
    for stream in streams:
        for queue in stream.queues[:3]:
            assert (queue.reserved, queue.requests, len(queue.fifo)) == (0, [], 0)
    return log, sim.now_ns


def _check(tasks, cancels):
    on_asyncio = acl.run(_program, tasks, cancels, device="tiny", workers=1)
    assert acl.run(_program, tasks, cancels, device="tiny", workers=1, uvloop=True) == on_asyncio


PROGRAMS = given(st.lists(TASK, min_size=1, max_size=6), st.lists(CANCEL, max_size=8))


@PROGRAMS
def test_whoever_is_cancelled_leaves_no_trace(tasks, cancels):
    _check(tasks, cancels)


@pytest.mark.slow
@settings(settings.get_profile("campaign"), max_examples=many(700))
@PROGRAMS
def test_whoever_is_cancelled_leaves_no_trace_in_many_programs(tasks, cancels):
    _check(tasks, cancels)


@tiny
async def test_the_place_of_a_host_that_is_cancelled_as_it_gets_it_goes_to_the_next():
    """At one instant a place in the queue is free, which the first of two waiting hosts gets, and a third task, which
    wakes before it, cancels it. The second has the place at that instant; nothing else would wake it.
    """
    sim, stream, tasks = acl.current_simulation(), await acl.CreateStream(), []
    queue, work, begin = stream.queues[0], acl.kernel(cost=acl.Cost(us=50), exclusive=True)(lambda: None), sim.now_ns
    queue.depth = 1

    async def cancel_the_first():
        await acl.Sleep(51)  # asked for before the launch whose end comes at the same instant
        tasks[0].cancel()
        return sim.now_ns - begin

    third = asyncio.create_task(cancel_the_first())
    await asyncio.sleep(0)
    for _ in range(2):  # one runs, one fills the queue
        await acl.LaunchKernel(work, 4, (), stream)
    tasks += [asyncio.create_task(acl.LaunchKernel(work, 4, (), stream)) for _ in range(2)]
    first, second = await asyncio.gather(*tasks, return_exceptions=True)
    assert (await third, type(first), second.queued_ns - begin) == (51_000, asyncio.CancelledError, 52_000)
    await acl.SynchronizeDevice()
    assert [(op.start_ns - begin, op.end_ns - begin) for op in sim.trace.ops] == [
        (1_000, 51_000), (51_000, 101_000), (101_000, 151_000),
    ]  # fmt: skip
    assert (queue.reserved, queue.requests) == (0, [])
