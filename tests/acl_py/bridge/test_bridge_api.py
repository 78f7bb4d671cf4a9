"""The most important programs once more, through the public API: the tiny device costs what the miniature host does."""

import asyncio
import threading

import pytest

import acl_py as acl
from device_model.completions import Completion


def _busy(us):
    return acl.kernel(lambda: None, cost=acl.Cost(us=us))


@pytest.fixture
def simulate(run):
    """Run a program on the tiny device, on each loop, and hand back its log; times count from its start."""

    def simulate(program, streams, **options):
        async def main():
            async with acl.simulate(device="tiny", **options) as sim:
                made = [await acl.CreateStream() for _ in range(streams)]
                start, log = sim.now_ns, []
                await program(sim, lambda who: log.append((who, sim.now_ns - start)), *made)
                return log

        return run(main)

    return simulate


async def _repeat(note, who, stream, us, times):
    kernel = _busy(us)
    for _ in range(times):
        await acl.LaunchKernel(kernel, 1, (), stream)
        await acl.SynchronizeStream(stream)
        note(who)


ALTERNATE = [("A", 13_000), ("B", 19_300), ("A", 26_000), ("B", 37_300), ("A", 40_600), ("B", 55_300)]


def test_two_tasks_alternate(simulate):
    async def program(sim, note, a, b):
        await asyncio.gather(_repeat(note, "A", a, 10, 3), _repeat(note, "B", b, 15, 3))

    assert simulate(program, 2) == ALTERNATE


def test_a_single_task_goes_from_wait_to_wait(simulate):
    async def program(sim, note, stream):
        await _repeat(note, "S", stream, 10, 3)

    assert simulate(program, 1) == [("S", 13_000), ("S", 26_000), ("S", 39_000)]


@pytest.mark.parametrize("length", [0, 20, 200])
def test_token_through_a_chain_of_tasks_is_not_overtaken(simulate, length):
    async def program(sim, note, f, o, last):
        queues = [asyncio.Queue() for _ in range(length + 1)]

        async def begin():
            await _repeat(note, "F", f, 10, 1)
            queues[0].put_nowait("token")

        async def link(n):
            queues[n + 1].put_nowait(await queues[n].get())

        async def end():
            await queues[-1].get()
            await acl.LaunchKernel(_busy(10), 1, (), last)
            note("L")

        await asyncio.gather(begin(), _repeat(note, "O", o, 14, 1), *(link(n) for n in range(length)), end())

    assert simulate(program, 3) == [("F", 13_000), ("L", 14_000), ("O", 18_300)]


@pytest.mark.parametrize("turns", [0, 1, 7])
def test_poll_moves_time_by_its_cost_only(simulate, turns):
    async def program(sim, note, w, p):
        async def poller():
            await acl.LaunchKernel(_busy(48.5), 1, (), p)
            while await acl.StreamQuery(p) is acl.Status.NOT_READY:
                for _ in range(turns):
                    await asyncio.sleep(0)
            note("P")

        await asyncio.gather(_repeat(note, "W", w, 22, 1), poller())

    assert simulate(program, 2) == [("W", 25_300), ("P", 51_200)]


def test_sync_on_an_idle_stream_lets_others_run(simulate):
    async def program(sim, note, idle, busy):
        done = []

        async def looper():
            while not done:
                await acl.SynchronizeStream(idle)
            note("looper")

        async def other():
            await _repeat(note, "other", busy, 1, 1)
            done.append(True)

        await asyncio.gather(looper(), other())

    assert simulate(program, 2) == [("other", 4_500), ("looper", 4_500)]


def test_host_work_keeps_the_host_and_sleep_does_not(simulate):
    async def program(sim, note, stream):
        async def worker():
            await acl.HostWork(5)
            note("worked")

        async def sleeper():
            await acl.Sleep(50)
            note("slept")

        await asyncio.gather(_repeat(note, "A", stream, 10, 1), worker(), sleeper())

    # A waits from 1300, the work ends at 6300, sleep from there to 56,300.
    assert simulate(program, 1) == [("worked", 6_300), ("A", 13_000), ("slept", 56_300)]


def test_cancelling_a_waiter_leaves_the_work(simulate):
    async def program(sim, note, a, b):
        await acl.LaunchKernel(_busy(1000), 1, (), a)
        waiter = asyncio.create_task(acl.SynchronizeStream(a))
        await asyncio.sleep(0)
        await _repeat(note, "B", b, 100, 1)
        waiter.cancel()
        await asyncio.wait([waiter])
        await acl.SynchronizeStream(a)
        note("A")

    assert simulate(program, 2) == [("B", 104_300), ("A", 1_003_000)]


def test_held_time_waits_for_a_thread(simulate):
    async def program(sim, note, h, o):
        async def holder():
            await acl.HostThread(threading.Event().wait, 0.02)
            await _repeat(note, "H", h, 1, 1)

        await asyncio.gather(_repeat(note, "O", o, 30, 1), holder())

    assert simulate(program, 2) == [("H", 5_300), ("O", 33_000)]


def test_simulated_time_does_not_wait_for_the_outside(simulate):
    async def program(sim, note, a, b):
        sleeper = asyncio.create_task(asyncio.to_thread(threading.Event().wait, 0.02))
        await asyncio.gather(_repeat(note, "A", a, 10, 3), _repeat(note, "B", b, 15, 3))
        assert not sleeper.done()
        await sleeper

    assert simulate(program, 2) == ALTERNATE


def test_timeout_of_zero_fires_before_any_jump(simulate):
    async def program(sim, note, stream):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await _repeat(note, "never", stream, 10, 1)
        note("after")

    assert simulate(program, 1) == [("after", 1_300)]


def test_full_queue_makes_the_host_wait(simulate):
    async def program(sim, note, stream, other):
        kernel = _busy(100)

        async def submitter():
            for _ in range(18):
                await acl.LaunchKernel(kernel, 1, (), stream)
            note("queued")

        await asyncio.gather(submitter(), _repeat(note, "B", other, 10, 1))

    assert simulate(program, 2) == [("B", 30_000), ("queued", 102_000)]


def test_hang_is_an_error_in_every_waiter(simulate):
    async def program(sim, note, a, b):
        for stream in (a, b):
            stream.wait(Completion())  # of something that no one will ever do
            await acl.LaunchKernel(_busy(1), 1, (), stream)
        first, second = await asyncio.gather(acl.SynchronizeStream(a), acl.SynchronizeStream(b), return_exceptions=True)
        assert isinstance(first, acl.DeadlockError)
        assert isinstance(second, acl.DeadlockError)
        assert first is not second
        assert "SynchronizeStream" in str(first)
        note("hung")

    assert simulate(program, 2) == [("hung", 2_600)]


def test_poll_for_ever_is_a_hang_too(simulate):
    async def program(sim, note, stream):
        stream.wait(Completion())
        await acl.LaunchKernel(_busy(1), 1, (), stream)

        async def poll():
            while await acl.StreamQuery(stream) is acl.Status.NOT_READY:
                pass

        with pytest.raises(acl.DeadlockError, match="StreamQuery"):
            await poll()
        note("hung")

    assert simulate(program, 1) == [("hung", 1_000 + 10_000 * 700)]


def test_two_simulations_in_one_loop(run):
    async def one(who, us, log):
        async with acl.simulate(device="tiny") as sim:
            stream = await acl.CreateStream()
            await _repeat(lambda who: log.append((who, sim.now_ns)), who, stream, us, 2)

    async def main():
        log = []
        await asyncio.gather(one("A", 10, log), one("B", 15, log))
        return sorted(log)

    assert run(main) == [("A", 14_000), ("A", 27_000), ("B", 19_000), ("B", 37_000)]


@pytest.mark.parametrize("uvloop", [False, True])
def test_run_takes_the_same_times_again_and_again(uvloop):
    async def main():
        a, b = await acl.CreateStream(), await acl.CreateStream()
        log = []
        await asyncio.gather(_repeat(log.append, "A", a, 10, 3), _repeat(log.append, "B", b, 15, 3))
        return log

    assert [acl.run(main, device="tiny", uvloop=uvloop) for _ in range(2)] == [["A", "B", "A", "B", "A", "B"]] * 2


def test_opened_in_one_task_and_used_in_others_as_in_a_notebook(run):
    async def cell(coroutine):
        return await asyncio.create_task(coroutine)

    async def begin():
        return acl.open(device="tiny")

    async def use(sim, stream):
        await _repeat(lambda who: None, "A", stream, 10, 1)
        return sim.now_ns

    async def main():
        sim = await cell(begin())
        stream = await cell(acl.CreateStream())
        times = [await cell(use(sim, stream)) for _ in range(2)]
        await cell(sim.close())
        return times

    assert run(main) == [14_000, 27_000]
