"""Tasks that only wait for one another, on a loop with a simulated clock: an error with what each waits for."""

import _thread
import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
import uvloop
from clocked import busy

import acl_py as acl
from tests import forks

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
    assert [wait.split(":")[0].strip() for wait in sorted(waits)][:2] == ["task 'one'", "task 'two'"]
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
        child = start(kill)
        await come.wait()
        loop.remove_signal_handler(signal.SIGUSR1)
        return child.wait()

    assert acl.run(program, device="tiny", uvloop=uvloop) == 0


def test_a_bare_future_that_nobody_completes():
    async def program():
        async with asyncio.TaskGroup() as group:
            group.create_task(wait_for(asyncio.get_running_loop().create_future()), name="one")

    async def wait_for(future):
        await future

    with pytest.raises(acl.DeadlockError) as caught:
        acl.run(program, device="tiny")
    place = f"{wait_for.__qualname__} at test_clock_deadlock.py:{wait_for.__code__.co_firstlineno + 1}"
    assert caught.value.chain[0] == f"task 'one': in {place}, for a bare future"


def test_a_task_that_has_failed_unseen_is_named():
    async def fail():
        raise ValueError("bad item")

    async def program():
        task = asyncio.create_task(fail(), name="worker")
        try:
            await asyncio.Queue().get()
        finally:
            task.exception()

    with pytest.raises(acl.DeadlockError) as caught:
        acl.run(program, device="tiny")
    assert caught.value.chain[-1] == "task 'worker' has ended with ValueError: bad item"


@both_loops
def test_a_bare_future_that_a_thread_completes_is_waited_for(uvloop):
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


def report(name, loop):
    """Run the program *name* in a loop of others, with a real clock, and print its warnings; it is cancelled then.

    Warnings are errors, so they reach the loop's handler of exceptions.
    """
    seen = []

    async def main():
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def note(_, context):
            seen.append((type(context["exception"]).__name__, str(context["exception"])))
            loop.call_soon(task.cancel)

        loop.set_exception_handler(note)
        async with acl.simulate(device="tiny"):
            try:
                await globals()[name]()
            except asyncio.CancelledError:
                task.uncancel()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
        runner.run(main())
    print(json.dumps(seen))


@pytest.fixture(params=["asyncio", "uvloop"])
def reported(request):
    """Run a program as `report` does, in a process of its own, and return its warnings.

    Threads of other tests, and pytest's handlers of signals, could wake the program, so nothing would be certain here.
    """

    def reported(program):
        call = f"import test_clock_deadlock as tests; tests.report({program.__name__!r}, {request.param!r})"
        done = forks.run("-c", call, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return reported


async def device_then_queue():
    queue, stream = asyncio.Queue(), await acl.CreateStream()
    await acl.LaunchKernel(busy(10), 1, (), stream)
    await asyncio.gather(acl.SynchronizeStream(stream), asyncio.sleep(0))
    await queue.get()


async def device_in_place_then_locks():
    async def take(first, second):
        async with first:
            await acl.HostWork(1)
            await asyncio.sleep(0)
            async with second:
                pass

    await acl.LaunchKernel(busy(10), 1)
    await acl.SynchronizeDevice()
    a, b = asyncio.Lock(), asyncio.Lock()
    async with asyncio.TaskGroup() as group:
        group.create_task(take(a, b), name="one")
        group.create_task(take(b, a), name="two")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("program", [device_then_queue, device_in_place_then_locks])
def test_in_a_loop_of_others_there_is_one_warning(reported, program):
    [(kind, text)] = reported(program)
    assert kind == "RuntimeWarning"
    head, *waits, remedy = text.splitlines()
    assert head == "no task or thread can run, no timer is set, and nothing is scheduled on a device; these wait:"
    if program is device_then_queue:
        assert any("in Queue.get at test_clock_deadlock.py:" in wait for wait in waits)
    else:
        assert [wait.split(":")[0].strip() for wait in sorted(waits)][:2] == ["task 'one'", "task 'two'"]
    assert remedy.startswith("to break it: ")


async def two_deadlocks():
    with suppress(asyncio.CancelledError):
        await device_then_queue()
    asyncio.current_task().uncancel()
    with start(f"import os, time; time.sleep(0.05); os.kill({os.getpid()}, {signal.SIGINT:d})"):
        await device_then_queue()


def test_in_a_loop_of_others_a_second_deadlock_is_left_to_ctrl_c(reported):
    assert len(reported(two_deadlocks)) == 1  # Ctrl-C cancels the program, too


@asynccontextmanager
async def a_timer(put):
    asyncio.get_running_loop().call_later(0.05, put)
    yield


@asynccontextmanager
async def a_thread(put):
    threading.Thread(target=lambda: (time.sleep(0.05), put()), daemon=True).start()
    yield


@asynccontextmanager
async def a_server(put):
    async with await asyncio.start_server(lambda reader, writer: (put(), writer.close()), "127.0.0.1", 0) as server:
        address = server.sockets[0].getsockname()
        with start(f"import socket; socket.create_connection({address}).recv(1)"):
            yield


@asynccontextmanager
async def a_signal(put):
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, put)
    with start(f"import os, time; time.sleep(0.05); os.kill({os.getpid()}, {signal.SIGUSR1:d})"):
        yield
    loop.remove_signal_handler(signal.SIGUSR1)


def start(code):
    return subprocess.Popen([sys.executable, "-c", code])  # asyncio would watch its own


@pytest.mark.parametrize("helper", [a_timer, a_thread, a_server, a_signal])
@pytest.mark.parametrize("loop_factory", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_in_a_loop_of_others_what_was_there_before_the_simulation_may_help(loop_factory, helper):
    """Warnings are errors in these tests, so one would reach the loop's handler of exceptions."""

    async def main():
        loop, queue, reports = asyncio.get_running_loop(), asyncio.Queue(), []
        loop.set_exception_handler(lambda _, context: reports.append(context))
        async with helper(partial(loop.call_soon_threadsafe, queue.put_nowait, "item")), acl.simulate(device="tiny"):
            await acl.LaunchKernel(busy(10), 1)
            await acl.SynchronizeDevice()
            return await queue.get(), reports

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(main()) == ("item", [])


@pytest.mark.slow
def test_a_bare_future_on_uvloop_warns_since_uvloop_does_not_show_its_handles():
    async def program():
        await asyncio.get_running_loop().create_future()

    with pytest.warns(RuntimeWarning) as warned, pytest.raises(acl.DeadlockError):
        acl.run(program, device="tiny", uvloop=True, hang_after=1.5)
    (text,) = (str(each.message) for each in warned)
    assert "in test_a_bare_future_on_uvloop" in text
    assert "for a bare future" in text
    assert text.endswith("what might still wake it: an event loop that does not show all that it listens to")


@pytest.mark.slow
def test_a_bare_future_that_a_native_thread_completes_warns_and_goes_on():
    async def program():
        loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        def act():
            time.sleep(1.4)
            loop.call_soon_threadsafe(future.set_result, 5)

        _thread.start_new_thread(act, ())
        return await future

    with pytest.warns(RuntimeWarning) as warned:
        assert acl.run(program, device="tiny") == 5
    (text,) = (str(each.message) for each in warned)
    assert text.endswith("what might still wake it: a thread that Python does not list")
