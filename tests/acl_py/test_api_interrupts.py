"""Functions of the user that raise what ends a task or a program, in the middle of a simulation."""

import asyncio
import os
import random
import signal
import sys
import threading
import traceback

import numpy as np
import pytest
from histories import busy, tiny

import acl_py as acl
from acl_py.errors import Kind
from acl_py.sites import MODEL, PACKAGE
from acl_py.waiting import interrupts
from acl_py.waiting.frames import current_frames
from device_model.observe import Observer

LOOPS = pytest.mark.parametrize("uvloop", [False, True], ids=["asyncio", "uvloop"])


def cancelled():
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return future


def raising(error, us=5):
    def bad():
        raise error

    return acl.kernel(cost=acl.Cost(us=us))(bad)


@LOOPS
@pytest.mark.parametrize("others", [0, 2], ids=["alone", "beside others"])
def test_a_cancelled_error_in_a_host_function_is_its_failure(uvloop, others):
    """Whether the caller runs the device in place or the loop does: neither hangs, neither cancels a task."""

    async def main():
        async def other():
            await acl.Sleep(50)
            return acl.current_simulation().now_ns

        tasks = [asyncio.create_task(other()) for _ in range(others)]
        stream = await acl.CreateStream()
        await acl.LaunchHostFunc(stream, cancelled().result)
        with pytest.raises(acl.AclError, match="host function result raised CancelledError") as caught:
            await acl.SynchronizeStream(stream)
        assert caught.value.kind is Kind.HOST_FUNCTION_FAILURE
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        return await asyncio.gather(*tasks)

    assert len(acl.run(main, device="tiny", uvloop=uvloop)) == others


@tiny(rules="acl")
async def test_a_cancelled_error_comes_out_of_no_unrelated_call():
    stream, other = await acl.CreateStream(), await acl.CreateStream()
    op = await acl.LaunchHostFunc(stream, cancelled().result)
    behind = await acl.LaunchKernel(busy("behind", 5), 1, (), stream)
    await acl.HostWork(100)
    await acl.SynchronizeStream(other)
    assert (op.done, behind.done) == (True, True)
    with pytest.raises(acl.AclError, match="CancelledError"):
        await acl.SynchronizeStream(stream)
    await acl.SynchronizeDevice()


@LOOPS
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_an_interrupt_in_a_kernel_comes_out_of_the_wait_and_the_program_may_go_on(uvloop, workers, error):
    async def main():
        stream = await acl.CreateStream()
        op = await acl.LaunchKernel(raising(error), 1, (), stream)
        with pytest.raises(type(error)) as caught:
            await acl.SynchronizeStream(stream)
        assert caught.value is error
        with pytest.raises(acl.AclError, match=f"kernel bad raised {type(error).__name__}"):
            await op
        await acl.LaunchKernel(busy("behind", 5), 1, (), stream)
        with pytest.raises(acl.AclError):  # the stream tells of its failure once
            await acl.SynchronizeStream(stream)
        await acl.SynchronizeStream(stream)
        return [op.name for op in acl.current_simulation().trace.ops]

    assert acl.run(main, device="tiny", rules="acl", workers=workers, uvloop=uvloop) == ["bad", "behind"]


@LOOPS
def test_an_interrupt_reaches_one_of_several_waiters_and_leaves_the_loop_as_asyncio_does(uvloop):
    told = []

    async def main():
        async def wait(stream):
            try:
                await acl.SynchronizeStream(stream)
            except BaseException as error:
                told.append(type(error).__name__)
                raise

        streams = [await acl.CreateStream() for _ in range(3)]
        await acl.LaunchKernel(raising(KeyboardInterrupt(), us=50), 1, (), streams[1])
        for stream in streams:
            await acl.LaunchKernel(busy("work", 100), 1, (), stream)
        await asyncio.gather(*map(wait, streams))

    with pytest.raises(KeyboardInterrupt):
        acl.run(main, device="tiny", rules="acl", uvloop=uvloop)
    assert told == ["KeyboardInterrupt", "CancelledError", "CancelledError"]


def test_a_loop_that_goes_on_behind_an_interrupt_goes_on_with_the_simulation():
    """As a notebook's does: nobody who still waits is forgotten."""

    async def begin():
        sim = acl.open(device="tiny", rules="acl")
        streams = [await acl.CreateStream() for _ in range(2)]
        await acl.LaunchKernel(raising(KeyboardInterrupt()), 1, (), streams[0])
        await acl.LaunchKernel(busy("work", 100), 1, (), streams[1])
        waits = [asyncio.ensure_future(acl.SynchronizeStream(stream)) for stream in streams]
        return sim, waits

    with asyncio.Runner() as runner:
        sim, waits = runner.run(begin())
        with pytest.raises(KeyboardInterrupt):
            runner.run(asyncio.wait(waits))
        assert isinstance(waits[0].exception(), KeyboardInterrupt)

        async def end():
            await waits[1]
            now = sim.now_ns
            await sim.close()
            return now

        assert runner.run(end()) > 100_000


@tiny(workers=2)
async def test_ctrl_c_while_a_body_runs_in_a_thread_waits_for_the_body():
    """What it has begun to write is written when the host goes on."""
    buffer = await acl.Malloc(8 << 20)
    main = threading.main_thread().ident

    @acl.kernel(cost=acl.Cost(us=5))
    def slow(out: acl.Out) -> None:
        out[: 4 << 20] = 1
        while "result" not in [frame.f_code.co_name for frame, _ in traceback.walk_stack(current_frames()[main])]:
            threading.Event().wait(0.001)  # until the main thread waits for this one
        signal.pthread_kill(main, signal.SIGINT)
        threading.Event().wait(0.05)
        out[4 << 20 :] = 1

    stream = await acl.CreateStream()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # asyncio.run's own would cancel the task
    op = await acl.LaunchKernel(slow, 1, (acl.Array(buffer, np.uint8),), stream)
    with pytest.raises(KeyboardInterrupt):
        await acl.SynchronizeStream(stream)
    assert (op.done, op.error) == (True, None)
    host = np.zeros(8 << 20, np.uint8)
    await acl.Memcpy(host, host.nbytes, buffer, host.nbytes, acl.MemcpyKind.DEVICE_TO_HOST)
    assert host.all()
    await acl.Free(buffer)


class Fails(Observer):
    """Raises when an operation of that name ends."""

    def op_ended(self, op):
        if op.work.label.name == "trap":
            raise ValueError("observer")


@tiny
async def test_the_place_of_a_host_whose_call_fails_goes_to_the_next():
    """It had waited for room, and queues nothing: another host must not wait for that place."""
    sim, stream, other = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream()
    queue, work, begin = stream.queues[0], acl.kernel(cost=acl.Cost(us=50), exclusive=True)(lambda: None), sim.now_ns
    queue.depth = 1

    def trap():
        pass

    for _ in range(2):
        await acl.LaunchKernel(work, 4, (), stream)
    await acl.LaunchHostFunc(other, trap, us=48.5)  # ends while the first of the hosts that wait makes its call
    tasks = [asyncio.create_task(acl.LaunchKernel(work, 4, (), stream)) for _ in range(2)]
    await acl.Sleep(1)
    assert len(queue.requests) == 2
    sim.observe(Fails())
    results = await asyncio.gather(*tasks, return_exceptions=True)
    await acl.SynchronizeDevice()
    assert [type(result).__name__ for result in results] == ["ValueError", "Op"]
    assert [(op.name, op.end_ns - begin) for op in sim.trace.ops] == [
        ("<lambda>", 51_000), ("trap", 51_500), ("<lambda>", 101_000), ("<lambda>", 151_000),
    ]  # fmt: skip


@pytest.mark.slow
def test_200_random_ctrl_cs_in_a_program():
    """As a second Ctrl-C in asyncio.run does, each raises KeyboardInterrupt; the program goes on with its calls.

    One that comes while the loop looks at its sockets ends the run, as in asyncio, and the next run goes on.
    """
    chance, struck = random.Random(30), 0

    async def main():
        nonlocal struck
        signal.signal(signal.SIGINT, signal.default_int_handler)  # asyncio.run's own would cancel the task
        stream, event = await acl.CreateStream(), await acl.CreateEvent()
        device, pinned = await acl.Malloc(4096), await acl.MallocHost(4096)
        result = np.zeros(4096, np.uint8)
        while struck < 200:
            timer = threading.Timer(chance.uniform(0, 0.02), os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                while True:
                    await acl.MemcpyAsync(device, 4096, pinned, 4096, acl.MemcpyKind.HOST_TO_DEVICE, stream)
                    await acl.RecordEvent(event, stream)
                    await acl.StreamWaitEvent(stream, event)
                    await acl.MemsetAsync(device, 4096, 5, 4096, stream)
            except KeyboardInterrupt:
                struck += 1
            timer.join()
            await acl.MemsetAsync(device, 4096, 5, 4096, stream)
            await acl.SynchronizeStream(stream)
            await acl.Memcpy(result, 4096, device, 4096, acl.MemcpyKind.DEVICE_TO_HOST)
            assert np.all(result == 5)
            result[:] = 0
        return acl.current_simulation().runtime.unfinished(), acl.current_simulation().findings

    while struck < 200:
        try:
            assert acl.run(main, device="tiny", rules="acl", sanitize="device") == ([], [])
        except KeyboardInterrupt:
            struck += 1


def until_reminded():
    """Loop until the reminder of a held signal comes. CPython 3.13.0 leaves such a loop without its `finally`."""
    while interrupts.held:
        pass


@LOOPS
def test_a_second_ctrl_c_comes_behind_the_call_that_it_meets(uvloop):
    """The first cancels the task, as asyncio.run has it; the second raises KeyboardInterrupt, wherever it comes."""
    ops = []

    async def main():
        stream, device = await acl.CreateStream(), await acl.Malloc(4096)
        signal.raise_signal(signal.SIGINT)
        count = 0

        def trace(frame, event, _):
            nonlocal count
            count += event == "line" and frame.f_code.co_filename.startswith((PACKAGE, MODEL))
            if count == 40:
                count += 1
                signal.raise_signal(signal.SIGINT)
            return trace

        sys.settrace(trace)
        try:
            await acl.MemsetAsync(device, 4096, 5, 4096, stream)
            sys.settrace(None)
            until_reminded()
        finally:
            sys.settrace(None)
            ops.extend((count > 40, len(acl.current_simulation().runtime.unfinished())))

    with pytest.raises(KeyboardInterrupt):
        acl.run(main, device="tiny", rules="acl", uvloop=uvloop)
    assert ops == [True, 1]


@LOOPS
def test_a_ctrl_c_while_the_simulation_ends_comes_out_of_its_run(uvloop):
    async def main():
        acl.current_simulation().runtime.at_close.append(lambda: signal.raise_signal(signal.SIGINT))

    with pytest.raises(KeyboardInterrupt):
        acl.run(main, device="tiny", uvloop=uvloop)
    assert not interrupts.held
