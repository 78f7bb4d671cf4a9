"""Cancelled calls: nothing was queued or all of it, and nobody else notices, however full the queues are."""

import asyncio

import pytest
from histories import busy
from hypothesis import given, settings
from hypothesis import strategies as st

import acl_py
from acl_py import CreateStream, LaunchKernel, Sleep, SynchronizeDevice, SynchronizeStream, current_simulation

TASK = st.tuples(st.integers(0, 1), st.integers(1, 30), st.integers(0, 12))  # stream, launches, us of each kernel
CANCEL = st.tuples(st.integers(0, 60), st.integers(0, 5))  # after us, which task


async def _program(tasks, cancels):
    sim, log, queued = current_simulation(), [], []
    streams = [await CreateStream(), await CreateStream()]

    async def work(number, where, launches, us):
        kernel = busy(f"t{number}", us)
        for i in range(launches):
            queued.append((number, await LaunchKernel(kernel, 1, (), streams[where])))
            log.append((number, i, sim.now_ns))
        await SynchronizeStream(streams[where])
        log.append((number, "done", sim.now_ns))

    workers = [asyncio.create_task(work(number, *task)) for number, task in enumerate(tasks)]
    for us, number in cancels:
        await Sleep(us)
        if number < len(workers):
            workers[number].cancel()
    results = await asyncio.gather(*workers, return_exceptions=True)
    assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
    await SynchronizeDevice()
    assert all(op.done for _, op in queued)
    assert len(sim.trace.ops) == len(queued)
    for where in (0, 1):  # the order of the calls is the order of the stream
        ends = [op.end_ns for number, op in queued if tasks[number][0] == where]
        assert ends == sorted(ends)
    for stream in streams:
        for queue in stream.queues[:3]:
            assert (queue.depth, len(queue.waiting), len(queue.fifo)) == (16, 0, 0)
    return log, sim.now_ns


def _check(tasks, cancels):
    on_asyncio = acl_py.run(_program, tasks, cancels, device="tiny", workers=1)
    assert acl_py.run(_program, tasks, cancels, device="tiny", workers=1, uvloop=True) == on_asyncio


PROGRAMS = given(st.lists(TASK, min_size=1, max_size=6), st.lists(CANCEL, max_size=8))


@settings(max_examples=60, deadline=None)
@PROGRAMS
def test_whoever_is_cancelled_leaves_no_trace(tasks, cancels):
    _check(tasks, cancels)


@pytest.mark.slow
@settings(max_examples=2_000, deadline=None)
@PROGRAMS
def test_whoever_is_cancelled_leaves_no_trace_in_many_programs(tasks, cancels):
    _check(tasks, cancels)
