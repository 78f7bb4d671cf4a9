"""A wait that nobody can end is an error at once, and one that only the outside could end is not (rules 9, 10, 12)."""

import asyncio
import queue
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from environments import LONG
from miniature import US, Deadlock, Host

import acl_py.waiting.bridge
from acl_py.waiting import hang, threads

pytestmark = pytest.mark.one_in(2)


async def _wait_for(host, event, who):
    stream = host.stream()
    await host.wait_event(stream, event)
    await host.sync(stream, who)
    host.note(who)


async def _wait_in_vain(host, who="W"):
    """Wait for an event that nobody records."""
    with pytest.raises(Deadlock, match=f"^{who}$"):
        await _wait_for(host, host.event(), who)
    host.note(f"{who} gave up")


def test_hang_of_the_only_task(drive):
    assert drive(_wait_in_vain) == [("W gave up", 1_300)]


def test_hang_is_an_error_of_its_own_in_every_waiter(drive):
    async def program(host):
        errors = await asyncio.gather(
            *(_wait_for(host, host.event(), who) for who in "AB"), _run(host), return_exceptions=True
        )
        host.log.extend(str(error) for error in errors[:2])
        assert errors[0] is not errors[1]

    assert drive(program) == [("R", 15_600), "A", "B"]


async def _run(host):
    await host.run(host.stream(), 10 * US, "R")


async def _through_queue(host):
    queue = asyncio.Queue()
    task = asyncio.create_task(queue.get())
    await _wait_in_vain(host)
    queue.put_nowait(None)
    await task


async def _through_lock(host):
    lock = asyncio.Lock()
    await lock.acquire()
    task = asyncio.create_task(lock.acquire())
    await _wait_in_vain(host)
    lock.release()
    await task


async def _in_children(host):
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(_nested_group(host))


async def _nested_group(host):
    async with asyncio.TaskGroup() as group:
        group.create_task(_nested_gather(host))


async def _nested_gather(host):
    await asyncio.gather(
        _wait_in_vain(host), asyncio.wait([asyncio.create_task(asyncio.wait_for(_wait_in_vain(host), None))])
    )


async def _in_anyio_groups(host):
    async def inner():
        async with anyio.create_task_group() as group:
            group.start_soon(_wait_in_vain, host)

    async with anyio.create_task_group() as group:
        group.start_soon(inner)


async def _beside_an_anyio_lock(host):
    lock = anyio.Lock()
    async with anyio.create_task_group() as group, lock:
        group.start_soon(lock.acquire)
        await _wait_in_vain(host)


@pytest.mark.parametrize(
    "program",
    [_through_queue, _through_lock, _in_children, _in_anyio_groups, _beside_an_anyio_lock],
    ids=lambda p: p.__name__,
)
def test_hang_of_tasks_that_wait_for_one_another(drive, program):
    log = drive(program)
    assert {who for who, _ in log} == {"W gave up"}


@pytest.mark.one_in(3)
def test_hang_after_a_pool_thread_was_used(drive):
    async def program(host):
        await asyncio.to_thread(int)
        await anyio.to_thread.run_sync(int)
        await _wait_in_vain(host)

    assert drive(program) == [("W gave up", 1_300)]


@pytest.mark.one_in(3)
def test_hang_after_a_spinner_ended(drive, monkeypatch):
    monkeypatch.setattr(acl_py.waiting.bridge, "SPIN_TURNS", 100)

    async def program(host):
        async def spinner():
            for _ in range(250):
                await asyncio.sleep(0)

        await asyncio.gather(_wait_in_vain(host), spinner())

    assert drive(program) == [("W gave up", 1_300)]


async def _poll(host, who):
    stream = host.stream()
    await host.wait_event(stream, host.event())
    while not await host.query(stream, who):
        pass


def test_poll_for_ever(drive):
    async def program(host):
        with pytest.raises(Deadlock, match=r"^P$"):
            await _poll(host, "P")
        host.note(host.fruitless)

    assert drive(program) == [(10_000, 1_000 + 10_000 * 700)]


@LONG
def test_two_polls_for_ever_beside_a_waiter(drive):
    async def program(host):
        outcomes = await asyncio.gather(_poll(host, "P"), _poll(host, "Q"), _wait_in_vain(host), return_exceptions=True)
        host.log.extend(type(outcome).__name__ for outcome in outcomes)

    (_, *outcomes) = drive(program)
    assert outcomes == ["Deadlock", "Deadlock", "NoneType"]


def test_poll_goes_on_while_something_is_scheduled(drive):
    async def program(host):
        stream = host.stream()
        await host.submit(stream, 20_000 * 700)
        while not await host.query(stream):
            pass
        host.note(host.fruitless)

    assert drive(program) == [(19_999, 14_001_000)]


def test_poll_goes_on_while_something_outside_may_help(run):
    async def main():
        host = Host()
        stream, event = host.stream(), host.event()
        await host.wait_event(stream, event)
        thread = threading.Thread(
            target=lambda: (time.sleep(0.1), asyncio.run_coroutine_threadsafe(host.record(event), loop))
        )
        loop = asyncio.get_running_loop()
        thread.start()
        while not await host.query(stream):
            pass
        thread.join()

    run(main)


@pytest.mark.parametrize("polls", [False, True], ids=["wait", "poll"])
def test_a_thread_that_ends_while_threads_are_counted_has_handed_its_call_over(run, monkeypatch, polls):
    """The loop was seen empty before the call came, and the thread is gone when it is counted."""

    async def main():
        host = Host()
        stream, event = host.stream(), host.event()
        await host.wait_event(stream, event)
        loop, is_counted, count = asyncio.get_running_loop(), threading.Event(), threading.enumerate

        def hand_over():
            is_counted.wait()
            asyncio.run_coroutine_threadsafe(host.record(event), loop)

        thread = threading.Thread(target=hand_over)

        def count_late():
            if not is_counted.is_set():
                is_counted.set()
                thread.join()
            return count()

        thread.start()
        monkeypatch.setattr(threading, "enumerate", count_late)
        if polls:
            while not await host.query(stream):
                pass
        else:
            await host.sync(stream)
        assert is_counted.is_set()

    run(main)


# What comes from outside, a while of real time from now. Each answers what to wait for afterwards.


async def _thread(action):
    loop = asyncio.get_running_loop()

    def act():
        time.sleep(0.05)
        asyncio.run_coroutine_threadsafe(action(), loop).result()

    thread = threading.Thread(target=act)
    thread.start()
    return thread.join


async def _daemon_thread(action):
    loop = asyncio.get_running_loop()

    def act():
        time.sleep(0.05)
        asyncio.run_coroutine_threadsafe(action(), loop).result()

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread.join


async def _pool_thread(action):
    loop = asyncio.get_running_loop()
    loop.run_in_executor(None, lambda: (time.sleep(0.05), asyncio.run_coroutine_threadsafe(action(), loop)))
    return int


async def _timer(action):
    loop = asyncio.get_running_loop()
    tasks = []
    loop.call_later(0.05, lambda: tasks.append(loop.create_task(action())))
    return tasks.clear


async def _sleeping_task(action):
    async def act():
        await asyncio.sleep(0.05)
        await action()

    task = asyncio.create_task(act())
    return task.result


# The next three are served by a daemon thread that was there before the simulation, and so does not count itself.


async def _socket(action):
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    _OLD_THREAD.put(lambda: theirs.sendall(b"x"))

    async def act():
        await loop.sock_recv(ours, 1)
        await action()

    task = asyncio.create_task(act())

    def end():
        task.result()
        ours.close()
        theirs.close()

    return end


async def _reader(action):
    """Only the descriptor shows that something may come: no task waits for it."""
    loop, tasks = asyncio.get_running_loop(), []
    ours, theirs = socket.socketpair()

    def act():
        loop.remove_reader(ours)
        tasks.append(loop.create_task(action()))

    loop.add_reader(ours, act)
    _OLD_THREAD.put(lambda: theirs.sendall(b"x"))

    def end():
        ours.close()
        theirs.close()

    return end


async def _bare_future(action):
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    _OLD_THREAD.put(lambda: loop.call_soon_threadsafe(future.set_result, None))

    async def act():
        await future
        await action()

    return asyncio.create_task(act()).result


_OLD_THREAD = queue.SimpleQueue()


def _old_thread():
    while (act := _OLD_THREAD.get()) is not None:
        time.sleep(0.05)
        act()


@pytest.fixture(scope="module", autouse=True)
def _start_old_thread():
    thread = threading.Thread(target=_old_thread, daemon=True, name="old")
    thread.start()
    yield
    _OLD_THREAD.put(None)  # it might complete the futures of other tests
    thread.join()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "outside",
    [_thread, _daemon_thread, _pool_thread, _timer, _sleeping_task, _socket, _reader, _bare_future],
    ids=lambda outside: outside.__name__,
)
def test_no_hang_if_the_event_comes_from_outside(drive, outside):
    async def program(host):
        event = host.event()
        end = await outside(lambda: host.record(event))
        await _wait_for(host, event, "W")
        for _ in range(2):
            await asyncio.sleep(0)
        end()

    if not drive.is_simulated or outside not in (_timer, _sleeping_task):
        assert drive(program) == [("W", 4_300)]
    else:  # the 50 ms of the timer pass; it is set at once, or by a task that runs once the host has called and waits
        is_set_at_once = outside is _timer or drive.is_eager
        assert drive(program) == [("W", 50_003_000 if is_set_at_once else 50_004_300)]


async def _asyncio_timeout(wait):
    async with asyncio.timeout(0.02):
        await wait


async def _wait_for_timeout(wait):
    await asyncio.wait_for(wait, 0.02)


async def _anyio_timeout(wait):
    with anyio.fail_after(0.02):
        await wait


@pytest.mark.parametrize("timeout", [_asyncio_timeout, _wait_for_timeout, _anyio_timeout], ids=lambda f: f.__name__)
def test_timeout_around_a_wait_that_nobody_can_end(drive, timeout):
    async def program(host):
        with pytest.raises(TimeoutError):
            await timeout(_wait_for(host, host.event(), "never"))
        host.note("after")
        await host.run(host.stream(), 10 * US, "B")

    expected = [("after", 20_000_000), ("B", 20_013_000)] if drive.is_simulated else [("after", 1_300), ("B", 14_300)]
    assert drive(program) == expected


def test_simulation_inside_a_timeout_that_was_there_before(run):
    """The timer must not pass for part of the surroundings."""

    async def main():
        async def inside():
            host = Host()
            await _wait_for(host, host.event(), "never")

        with pytest.raises(TimeoutError):
            await _asyncio_timeout(inside())

    run(main)


def test_warning_if_only_the_outside_can_help(drive, monkeypatch):
    monkeypatch.setattr(hang, "LOOK_S", 0.01)
    monkeypatch.setattr(acl_py.waiting.bridge, "LOOK_S", 0.01)

    async def program(host):
        event = host.event()
        sleeper = asyncio.create_task(_sleep_then(lambda: host.record(event)))
        with pytest.warns(RuntimeWarning) as warned:
            await _wait_for(host, event, "W")
        await sleeper
        host.log.extend(str(warning.message) for warning in warned)

    (woken, warning) = drive(program)
    assert woken == ("W", 4_300)
    assert warning.startswith("waiting: W\nwhat might still wake it: a timer of the event loop")


async def _sleep_then(action):
    await asyncio.sleep(0.1)
    await action()


def test_hang_after_makes_it_an_error(drive):
    async def program(host):
        never = asyncio.create_task(asyncio.sleep(3600))
        with pytest.raises(Deadlock) as caught:
            await _wait_for(host, host.event(), "W")
        assert "a timer of the event loop" in "".join(caught.value.__notes__)
        never.cancel()
        await asyncio.wait([never])
        host.note("after")

    assert drive(program, hang_after=0.05) == [("after", 1_300)]


def test_hang_after_ends_a_spinner_too(drive, monkeypatch):
    monkeypatch.setattr(acl_py.waiting.bridge, "SPIN_TURNS", 100)

    async def program(host):
        spinner = asyncio.create_task(_spin())
        with pytest.raises(Deadlock):
            await _wait_for(host, host.event(), "W")
        spinner.cancel()
        await asyncio.wait([spinner])

    assert drive(program, hang_after=0.05) == []


async def _spin():
    while True:  # noqa: ASYNC110 - this is about such a loop
        await asyncio.sleep(0)


def test_warning_that_is_an_error_reaches_the_waiter(drive, monkeypatch):
    monkeypatch.setattr(hang, "LOOK_S", 0.01)
    monkeypatch.setattr(acl_py.waiting.bridge, "LOOK_S", 0.01)

    async def program(host):
        never = asyncio.create_task(asyncio.sleep(3600))
        with pytest.raises(RuntimeWarning, match="what might still wake it"):
            await _wait_for(host, host.event(), "W")
        never.cancel()
        await asyncio.wait([never])

    assert drive(program) == []


def test_our_own_timer_is_not_outside(drive, monkeypatch):
    """Stuck beside a sleeper, the gate has a timer running; when the sleeper called and went, the hang is certain."""
    monkeypatch.setattr(acl_py.waiting.bridge, "LOOK_S", 3600)

    async def program(host):
        async def sleeper():
            await asyncio.sleep(0.02)
            await host.work(1)

        await asyncio.gather(_wait_in_vain(host), sleeper())

    assert drive(program) == [("W gave up", 20_001_301 if drive.is_simulated else 1_301)]


def test_spinner_that_polls_another_runtime_is_no_spinner(drive, monkeypatch):
    monkeypatch.setattr(acl_py.waiting.bridge, "SPIN_TURNS", 100)

    async def program(host):
        other = Host()
        stream = other.stream()

        async def poller():
            await other.submit(stream, 1000 * 700)
            while not await other.query(stream):
                pass
            host.log.append("polled")

        await asyncio.gather(host.run(host.stream(), 10 * US, "W"), poller())

    # On a simulated clock the polls of the other runtime pass for this one, too.
    assert drive(program) == ([("W", 13_400), "polled"] if drive.is_simulated else ["polled", ("W", 13_000)])


def test_hold_that_nobody_ends(drive):
    async def program(host):
        async def holder():
            with host.bridge.hold():
                await waiter

        waiter = asyncio.create_task(host.run(host.stream(), 10 * US, "never"), name="waiter")
        holding = asyncio.create_task(holder(), name="holder")
        with pytest.raises(Deadlock) as caught:
            await holding
        host.log.extend(caught.value.__notes__)
        await host.run(host.stream(), 10 * US, "after")

    assert drive(program) == ["simulated time is held by task 'holder'", ("after", 14_300)]


@pytest.mark.one_in(3)
def test_long_thread_under_a_hold_is_no_reason_to_warn(drive, monkeypatch):
    monkeypatch.setattr(hang, "LOOK_S", 0.01)
    monkeypatch.setattr(acl_py.waiting.bridge, "LOOK_S", 0.01)

    async def program(host):
        async def holder():
            await host.bridge.in_thread(time.sleep, 0.1)

        await asyncio.gather(host.run(host.stream(), 10 * US, "A"), holder())

    assert drive(program) == [("A", 13_000)]


def test_hang_on_a_loop_beside_a_live_main_thread(run):
    """The main thread might act: only hang_after makes it an error."""
    outcome = []

    async def main():
        host = Host(hang_after=0.05)
        with pytest.raises(Deadlock):
            await _wait_for(host, host.event(), "W")
        outcome.append("hung")

    thread = threading.Thread(target=lambda: run(main))
    thread.start()
    thread.join()
    assert outcome == ["hung"]


def test_waiters_may_wait_again_after_a_hang(drive):
    async def program(host):
        for _ in range(3):
            await _wait_in_vain(host)

    assert drive(program) == [("W gave up", 1_300), ("W gave up", 2_600), ("W gave up", 3_900)]


def test_no_busy_loop_while_the_outside_is_waited_for(run):
    """Between two looks a second apart the loop sleeps: its turns can be counted."""

    async def main():
        host, loop, turns = Host(), asyncio.get_running_loop(), []
        select = getattr(getattr(loop, "_selector", None), "select", None)
        if select is None:
            pytest.skip("only asyncio shows its selector")
        loop._selector.select = lambda timeout: turns.append(timeout) or select(timeout)
        event = host.event()
        loop.call_later(0.1, lambda: asyncio.ensure_future(host.record(event)))
        await _wait_for(host, event, "W")
        assert len(turns) < 20

    run(main)


def test_pool_thread_that_looks_idle_is_given_time():
    with ThreadPoolExecutor(1) as executor:
        executor.submit(int).result()
        (worker,) = executor._threads
        while not threads._is_idle_worker(worker):
            time.sleep(0.001)
        assert not threads.is_hopeless([], 0.0)
        assert threads.is_hopeless([], threads.GRACE_S)


def test_idle_pool_thread_with_a_job_in_its_queue_is_not_idle():
    with ThreadPoolExecutor(1) as executor:
        executor.submit(int).result()
        (worker,) = executor._threads
        while not threads._is_idle_worker(worker):
            time.sleep(0.001)
        go = threading.Event()
        executor.submit(go.wait)
        executor.submit(int)
        assert not threads._is_idle_worker(worker)
        go.set()
