"""A simulated clock and the outside world: what of it takes real time, and what does not wait for it.

Where a thread or a client acts in real time, a test says between which times of the clock something happened, and not
how long that took.
"""

import asyncio
import signal
import socket
import sys
import threading
from functools import partial

import pytest
from clocked import busy

import acl_py as acl

both_loops = pytest.mark.parametrize("uvloop", [False, True])
tiny = partial(acl.run, device="tiny")


def _nap(seconds):
    threading.Event().wait(seconds)


@both_loops
def test_device_work_never_waits_for_the_outside(uvloop):
    async def program():
        sim = acl.current_simulation()
        release = threading.Event()
        thread = asyncio.create_task(asyncio.to_thread(release.wait))
        async with asyncio.timeout(3600):
            await acl.LaunchKernel(busy(10e6), 1)
            await acl.SynchronizeDevice()
        release.set()
        await thread
        return sim.now_ns

    assert tiny(program, uvloop=uvloop) == 10_000_003_000


@both_loops
def test_a_timeout_around_a_thread_counts_real_time(uvloop):
    async def program():
        loop = asyncio.get_running_loop()
        await asyncio.wait_for(asyncio.to_thread(_nap, 0.05), 3600)
        after_nap = loop.time()
        release = threading.Event()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(release.wait), 0.05)
        release.set()
        return after_nap, loop.time() - after_nap

    after_nap, waited = tiny(program, uvloop=uvloop)
    assert 0.02 < after_nap < 3600
    assert waited == pytest.approx(0.05)


@both_loops
def test_a_thread_takes_no_time_while_no_timer_is_set(uvloop):
    async def program():
        await asyncio.to_thread(_nap, 0.02)
        return asyncio.get_running_loop().time()

    assert tiny(program, uvloop=uvloop) == 0


@both_loops
def test_a_call_after_a_thread_with_nothing_to_come_lets_devices_go_on(uvloop):
    """While the thread worked, the clock rested. The call has to tell it that there is something to come again."""

    async def program():
        stream, done = await acl.CreateStream(), asyncio.Event()
        await asyncio.to_thread(_nap, 0.02)
        await acl.LaunchKernel(busy(10), 1, (), stream)
        await acl.LaunchHostFunc(stream, done.set)
        await done.wait()
        return acl.current_simulation().now_ns

    assert tiny(program, uvloop=uvloop) == 12_000


@both_loops
def test_the_first_call_after_a_real_wait_ends_at_the_real_time(uvloop):
    async def program():
        loop, sim, back = asyncio.get_running_loop(), acl.current_simulation(), asyncio.Event()
        loop.call_later(3600, int)

        def helper():
            _nap(0.005)
            loop.call_soon_threadsafe(back.set)

        thread = threading.Thread(target=helper)
        thread.start()
        await back.wait()
        await acl.HostWork(1)
        now = loop.time()  # it would take up the real time if the call had not
        thread.join()
        return sim.trace.calls[-1].exit_ns, round(now * 1e9)

    exit_ns, now_ns = tiny(program, uvloop=uvloop)
    assert exit_ns == now_ns


@both_loops
def test_idle_threads_of_a_pool_are_not_waited_for(uvloop):
    async def program():
        await asyncio.gather(*(asyncio.to_thread(int) for _ in range(4)))
        begin = asyncio.get_running_loop().time()
        await asyncio.sleep(1_000_000)
        return asyncio.get_running_loop().time() - begin

    assert tiny(program, uvloop=uvloop) == 1_000_000


@both_loops
def test_a_child_process_is_waited_for(uvloop):
    async def program():
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "print(input())", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await asyncio.wait_for(child.communicate(b"hello\n"), 3600)
        return output

    assert tiny(program, uvloop=uvloop) == b"hello\n"


@both_loops
def test_a_signal_handler_is_no_outside_for_timers(uvloop):
    async def program():
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, int)
        await asyncio.sleep(1_000_000)
        loop.remove_signal_handler(signal.SIGUSR1)
        return loop.time()

    assert tiny(program, uvloop=uvloop) == 1_000_000


@both_loops
def test_who_waits_for_a_signal_beside_a_ticker_holds_time(uvloop):
    async def program():
        loop, sim, come = asyncio.get_running_loop(), acl.current_simulation(), asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, come.set)
        ticks, some_ticks = [], threading.Event()

        async def tick():
            while True:
                await asyncio.sleep(0.001)
                ticks.append(loop.time())
                if len(ticks) == 3:
                    some_ticks.set()

        def send():
            some_ticks.wait()
            _nap(0.03)
            signal.raise_signal(signal.SIGUSR1)

        ticker = asyncio.create_task(tick())
        sender = threading.Thread(target=send)
        sender.start()
        with sim.hold():
            await come.wait()
        sender.join()
        ticker.cancel()
        loop.remove_signal_handler(signal.SIGUSR1)
        return len(ticks)

    assert 2 < tiny(program, uvloop=uvloop) < 1_000


@both_loops
def test_a_slow_client_does_not_keep_a_timeout_from_striking(uvloop):
    """Bytes that come while the loop waits take up the real time that has passed: they do not start it again."""

    async def program():
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        stop = threading.Event()

        def drip():
            while not stop.wait(0.01):
                theirs.send(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        received, begin = 0, loop.time()
        try:
            async with asyncio.timeout(0.15):
                while True:
                    received += len(await loop.sock_recv(ours, 100))
        except TimeoutError:
            end = loop.time()
        stop.set()
        await asyncio.to_thread(thread.join)
        ours.close()
        theirs.close()
        return received, end - begin

    received, waited = tiny(program, uvloop=uvloop)
    assert received > 0
    assert waited == pytest.approx(0.15, abs=0.02)


async def _answer(reader, writer):
    """Answer each line after a kernel of a millisecond; close the connection if none comes within 50 ms."""
    stream = await acl.CreateStream()
    try:
        while line := await asyncio.wait_for(reader.readline(), 0.05):
            await acl.LaunchKernel(busy(1_000), 1, (), stream)
            await acl.SynchronizeStream(stream)
            writer.write(line.upper())
    except TimeoutError:
        writer.write(b"too slow\n")
    writer.close()
    await writer.wait_closed()


def _talk(port):
    """A real client: three questions at once, and then none, until the server has had enough."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rw") as file:
        answers = []
        for word in ("one", "two", "three"):
            print(word, file=file, flush=True)
            answers.append(file.readline())
        return [*answers, file.readline()]


@both_loops
def test_a_server_answers_a_real_client_and_its_timeouts_count_real_time(uvloop):
    async def program():
        server = await asyncio.start_server(_answer, "127.0.0.1", 0)
        async with server:
            answers = await asyncio.to_thread(_talk, server.sockets[0].getsockname()[1])
        return answers, acl.current_simulation().now_ns

    answers, now = tiny(program, uvloop=uvloop)
    assert answers == ["ONE\n", "TWO\n", "THREE\n", "too slow\n"]
    assert now >= 53_000_000  # three kernels and the time-out


@both_loops
def test_inside_a_hold_timers_take_real_time_and_devices_wait(uvloop):
    async def program():
        sim = acl.current_simulation()
        await acl.LaunchKernel(busy(10), 1)
        begin = sim.now_ns
        with sim.hold():
            await asyncio.sleep(0.03)
            assert sim.trace.ops == []
            held = sim.now_ns - begin
        await acl.SynchronizeDevice()
        return held, [op.end_ns for op in sim.trace.ops]

    assert tiny(program, uvloop=uvloop) == (30_000_000, [11_000])


@both_loops
def test_a_hold_without_timers_takes_no_time(uvloop):
    async def program():
        await acl.HostThread(_nap, 0.02)
        return acl.current_simulation().now_ns

    assert tiny(program, uvloop=uvloop) == 0


@both_loops
def test_the_time_can_be_read_while_the_loop_waits_for_the_outside(uvloop):
    """A callback that the outside causes sees the real time that has passed, and so does a call of a verb."""

    async def program():
        loop, sim = asyncio.get_running_loop(), acl.current_simulation()
        ours, theirs = socket.socketpair()
        seen = asyncio.get_running_loop().create_future()

        def hear():
            loop.remove_reader(ours)
            seen.set_result(loop.time())

        loop.add_reader(ours, hear)
        thread = threading.Timer(0.03, theirs.send, [b"x"])
        thread.start()
        async with asyncio.timeout(3600):
            at = await seen
            await acl.HostWork(1)
        thread.join()
        ours.close()
        theirs.close()
        return at, sim.now_ns / 1e9

    at, after = tiny(program, uvloop=uvloop)
    assert 0 < at < after < 3600  # how much of the 30 ms the loop sees depends on when it begins to wait
