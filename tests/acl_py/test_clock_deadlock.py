"""Tasks that only wait for one another, on a loop with a simulated clock: an error with what each waits for."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest
from clocked import busy

import acl_py as acl

pytestmark = pytest.mark.timeout(0)  # its handler of a signal might wake a task, so nothing would be certain
both_loops = pytest.mark.parametrize("uvloop", [False, True])


@both_loops
def test_two_locks_in_two_orders(uvloop):
    log = []

    async def take(first, second):
        async with first:
            await asyncio.sleep(1)
            try:
                async with second:
                    log.append("never")
            finally:
                log.append((asyncio.current_task().get_name(), acl.current_simulation().now_ns))

    async def program():
        a, b = asyncio.Lock(), asyncio.Lock()
        async with asyncio.TaskGroup() as group:
            group.create_task(take(a, b), name="one")
            group.create_task(take(b, a), name="two")

    with pytest.raises(acl.DeadlockError) as caught:
        acl.run(program, device="tiny", uvloop=uvloop)
    head, *waits, remedy = str(caught.value).splitlines()
    assert head == "no task or thread can run, no timer is set, and nothing is scheduled on a device; these wait:"
    assert [wait.split(":")[0].strip() for wait in sorted(waits)][-2:] == ["task 'one'", "task 'two'"]
    assert remedy.startswith("to break it: ")
    assert tuple(wait.strip() for wait in waits) == caught.value.chain
    # Each was cancelled where it waited, a second after it began, and let go of its lock.
    assert sorted(log) == [("one", 1_000_000_000), ("two", 1_000_000_000)]


@both_loops
def test_a_queue_that_nobody_fills_once_the_device_is_done(uvloop):
    async def program():
        queue, stream = asyncio.Queue(), await acl.CreateStream()
        await acl.LaunchKernel(busy(10), 1, (), stream)
        await acl.LaunchHostFunc(stream, lambda: queue.put_nowait("item"))
        assert await queue.get() == "item"
        await queue.get()

    with pytest.raises(acl.DeadlockError, match=r"in Queue\.get at test_clock_deadlock\.py:"):
        acl.run(program, device="tiny", uvloop=uvloop)


def test_a_task_without_a_line_of_its_own_has_the_line_that_made_it():
    async def program():
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.Queue().get(), name="reader")

    with pytest.raises(acl.DeadlockError) as caught:
        acl.run(program, device="tiny")
    line = program.__code__.co_firstlineno + 2
    assert caught.value.chain[0] == f"task 'reader': in Queue.get at test_clock_deadlock.py:{line}, for another task"


def test_a_program_that_catches_its_cancellation_goes_on():
    async def program():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()
        await acl.HostWork(1)
        return acl.current_simulation().now_ns

    assert acl.run(program, device="tiny") == 1_000


def test_a_task_that_is_cancelled_by_the_program_is_no_deadlock():
    async def program():
        asyncio.get_running_loop().call_later(1, asyncio.current_task().cancel)
        await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        acl.run(program, device="tiny")


@both_loops
def test_a_signal_with_a_handler_may_still_come(uvloop):
    async def program():
        loop, come = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, come.set)
        kill = f"import os, time; time.sleep(0.05); os.kill({os.getpid()}, {signal.SIGUSR1:d})"
        child = subprocess.Popen([sys.executable, "-c", kill])  # noqa: ASYNC220 - asyncio would watch it
        await come.wait()
        loop.remove_signal_handler(signal.SIGUSR1)
        return child.wait()

    assert acl.run(program, device="tiny", uvloop=uvloop) == 0


@both_loops
def test_a_bare_future_is_not_understood_and_waited_for(uvloop):
    """As one that a library completes from a thread that Python does not know."""

    async def program():
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        asyncio.get_running_loop().run_in_executor(None, loop.call_soon_threadsafe, future.set_result, "come")
        return await future

    assert acl.run(program, device="tiny", uvloop=uvloop) == "come"


def test_without_run_there_is_a_warning_and_no_task_is_cancelled():
    """Warnings are errors in these tests: this one reaches the loop's handler of exceptions, which ends the program."""

    async def main():
        loop, task, seen = asyncio.get_running_loop(), asyncio.current_task(), []
        loop.set_exception_handler(lambda _, context: (seen.append(context["exception"]), task.cancel()))
        with pytest.raises(asyncio.CancelledError):
            await asyncio.Event().wait()
        return seen

    with asyncio.Runner(loop_factory=acl.new_event_loop) as runner:
        [warning] = runner.run(main())
    assert isinstance(warning, RuntimeWarning)
    assert "in Event.wait at test_clock_deadlock.py:" in str(warning)
