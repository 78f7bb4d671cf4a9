"""Programs that also wait for what no device does: real time, threads, cancellation, timeouts."""

import asyncio
import threading

import anyio
import pytest
from environments import LONG
from miniature import ALTERNATE, US, alternate, repeat

pytestmark = pytest.mark.one_in(2)


async def _real_sleep():
    await asyncio.sleep(0.25)


async def _real_thread():
    await asyncio.to_thread(threading.Event().wait, 0.25)


async def _anyio_thread():
    await anyio.to_thread.run_sync(threading.Event().wait, 0.25)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("outside", [_real_sleep, _real_thread, _anyio_thread])
def test_simulated_time_does_not_wait_for_the_outside(drive, outside):
    async def program(host):
        task = asyncio.create_task(outside())
        await alternate(host)
        assert not task.done()
        await task

    assert drive(program) == ALTERNATE


def test_simulated_time_does_not_wait_for_a_server(drive):
    async def program(host):
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        async with server:
            await alternate(host)

    assert drive(program) == ALTERNATE


def test_foreign_tasks_are_not_held_up_and_hold_nobody_up(drive):
    async def program(host):
        ticks = 0

        async def ticker():
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        async def parked():
            await asyncio.Event().wait()

        foreign = [asyncio.create_task(parked()) for _ in range(20)]
        await alternate(host)
        for task in foreign:
            task.cancel()
        await asyncio.wait(foreign)

    assert drive(program) == ALTERNATE


def test_cancelling_a_waiter_leaves_the_work(drive):
    async def program(host):
        stream = host.stream()
        await host.submit(stream, 1000 * US)
        waiter = asyncio.create_task(host.sync(stream))
        await asyncio.sleep(0)
        await host.run(host.stream(), 100 * US, "B")
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert not host.waiters
        await host.sync(stream)
        host.note("A")

    assert drive(program) == [("B", 104_300), ("A", 1_003_000)]


def test_failing_task_group_cancels_its_waiters(drive):
    async def program(host):
        async def fail():
            await host.run(host.stream(), 10 * US, "fails")
            raise ValueError

        async def group():
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(repeat(host, "never", 1000 * US, 1))
                tasks.create_task(fail())

        with pytest.raises(ExceptionGroup):
            await group()
        host.note("after")
        await repeat(host, "again", 10 * US, 1)

    assert drive(program) == [("fails", 14_300), ("after", 14_300), ("again", 27_300)]


def test_shielded_wait_goes_on(drive):
    async def program(host):
        inner = asyncio.ensure_future(repeat(host, "inner", 50 * US, 1))

        async def outer():
            try:
                await asyncio.shield(inner)
            except asyncio.CancelledError:
                host.note("cancelled")

        task = asyncio.create_task(outer())
        await asyncio.sleep(0)
        await repeat(host, "B", 10 * US, 1)
        task.cancel()
        await asyncio.gather(task, inner)

    assert drive(program) == [("B", 14_300), ("cancelled", 14_300), ("inner", 53_000)]


def test_scope_that_is_cancelled_at_once_comes_before_any_jump(drive):
    async def program(host):
        with anyio.move_on_after(0):
            await host.run(host.stream(), 10 * US, "never")
        host.note("after")
        await repeat(host, "B", 10 * US, 1)

    assert drive(program) == [("after", 1_300), ("B", 14_300)]


def test_anyio_group_that_is_cancelled_by_a_child(drive):
    async def program(host):
        async def child(group):
            await host.run(host.stream(), 10 * US, "child")
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(repeat, host, "never", 1000 * US, 1)
            group.start_soon(child, group)
        host.note("after")

    assert drive(program) == [("child", 14_300), ("after", 14_300)]


def test_cleanup_under_a_shield_ends_before_its_group(drive):
    async def program(host):
        async def child():
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await repeat(host, "cleanup", 10 * US, 2)

        async with anyio.create_task_group() as group:
            group.start_soon(child)
            await repeat(host, "A", 5 * US, 1)
            group.cancel_scope.cancel()
        host.note("after")

    assert drive(program) == [("A", 8_000), ("cleanup", 21_000), ("cleanup", 34_000), ("after", 34_000)]


def test_real_timeout_measures_real_time(drive):
    async def program(host):
        async with asyncio.timeout(60):
            await repeat(host, "S", 10_000_000 * US, 1)

    assert drive(program) == [("S", 10_000_003_000)]


def test_timeout_of_zero_fires_before_any_jump(drive):
    async def program(host):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await host.run(host.stream(), 10 * US, "never")
        host.note("after")

    assert drive(program) == [("after", 1_300)]


async def _within(seconds, coroutine):
    async with asyncio.timeout(seconds):  # no task of its own, so that the waiter stays the only one
        await coroutine


@LONG
@pytest.mark.parametrize("ns", [0, 10 * US])
def test_timeout_fires_in_an_endless_loop_of_waits_in_place(drive, ns):
    async def program(host):
        stream = host.stream()

        async def endless():
            while True:
                if ns:
                    await host.submit(stream, ns)
                await host.sync(stream)

        with pytest.raises(TimeoutError):
            await _within(0.02, endless())

    assert drive(program) == []


def test_thread_asks_for_verbs(drive):
    async def program(host):
        loop = asyncio.get_running_loop()

        def ask(ns):
            asyncio.run_coroutine_threadsafe(repeat(host, "T", ns, 1), loop).result()

        await asyncio.to_thread(ask, 10 * US)
        await asyncio.to_thread(ask, 3 * US)

    assert drive(program) == [("T", 13_000), ("T", 19_000)]


@pytest.mark.one_in(3)
def test_held_time_waits_for_a_thread(drive):
    async def program(host):
        async def holder():
            await host.bridge.in_thread(threading.Event().wait, 0.25)
            await repeat(host, "H", US, 1)

        await asyncio.gather(repeat(host, "O", 30 * US, 1), holder())

    # H submits at 2300, as if the thread had taken no time; without the hold O would be far ahead.
    assert drive(program) == [("H", 5_300), ("O", 33_000)]


@pytest.mark.one_in(3)
def test_hold_covers_whatever_is_outside(drive):
    async def program(host):
        async def holder():
            with host.bridge.hold():
                await asyncio.sleep(0.25)
            await repeat(host, "H", US, 1)

        await asyncio.gather(repeat(host, "O", 30 * US, 1), holder())

    # A simulated clock goes on by the 250 ms of the sleep; the device that was held completes when the hold ends.
    taken = [("O", 250_004_600), ("H", 250_006_600)] if drive.is_simulated else [("H", 5_300), ("O", 33_000)]
    assert drive(program) == taken


def test_holder_must_not_wait_for_the_device(drive):
    async def program(host):
        stream = host.stream()
        with host.bridge.hold():
            await host.submit(stream, 10 * US)
            with pytest.raises(RuntimeError, match=r"^a wait for the device inside `with hold\(\)`"):
                await host.sync(stream)
            assert not await host.query(stream)
            host.note("held")
        await host.sync(stream)
        host.note("after")

    assert drive(program) == [("held", 2_000), ("after", 13_000)]


@LONG
def test_many_events_within_one_wait(drive):
    async def program(host):
        noise, stream = host.stream(), host.stream()
        for n in range(100_000):
            host.scheduler.timer(10_000 + n)
        await host.submit(noise, 200 * US)
        await asyncio.gather(repeat(host, "A", 150 * US, 1), repeat(host, "B", 200 * US, 1))
        await host.sync(stream)

    assert drive(program) == [("A", 154_000), ("B", 205_300)]


@LONG
def test_spinner_is_left_behind_after_a_while(drive):
    async def program(host):
        flag = []

        async def spinner():
            while not flag:  # noqa: ASYNC110 - this is about such a loop
                await asyncio.sleep(0)
            host.note("spinner")

        async def setter():
            await repeat(host, "W", 10 * US, 2)
            flag.append(True)

        with pytest.warns(RuntimeWarning, match="simulated time went on without it") as warned:
            await asyncio.gather(spinner(), setter())
        assert len(warned) == 1

    assert drive(program) == [("W", 13_000), ("W", 26_000), ("spinner", 26_000)]
