"""The host: work, sleep, threads, holding time still, real time."""

import asyncio
import threading

import pytest
from histories import busy, calls, misused, tiny

import acl_py as acl

A = busy("A", 50)


@tiny
async def test_work_keeps_the_host_and_the_device_goes_on():
    sim, a = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    launch = await acl.LaunchKernel(A, 1, (), a)
    await acl.HostWork(49.5)
    assert not launch.done
    await acl.HostWork(0.5)
    assert (launch.done, launch.end_ns - begin) == (True, 51_000)
    await acl.HostWork(0)
    assert calls(sim, begin) == [
        ("LaunchKernel", 0, 1_000),
        ("HostWork", 1_000, 50_500),
        ("HostWork", 50_500, 51_000),
        ("HostWork", 51_000, 51_000),
    ]


@tiny
async def test_sleepers_wake_in_the_order_of_their_times():
    sim = acl.current_simulation()
    begin, woken = sim.now_ns, []

    async def sleep(us):
        await acl.Sleep(us)
        woken.append((us, sim.now_ns - begin))

    await asyncio.gather(*map(sleep, (30, 10, 20, 10)))
    assert woken == [(10, 10_000), (10, 10_000), (20, 20_000), (30, 30_000)]


@tiny
async def test_a_sleeper_wakes_no_earlier_than_the_host_is_free():
    sim = acl.current_simulation()
    begin, woken = sim.now_ns, []

    async def sleep():
        await acl.Sleep(10)
        woken.append(sim.now_ns - begin)

    await asyncio.gather(sleep(), acl.HostWork(70))
    assert woken == [70_000]


@tiny
async def test_a_poll_moves_time_on_by_itself():
    sim, a = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    polls = 0
    while await acl.StreamQuery(a) is acl.Status.NOT_READY:
        polls += 1
    assert (polls, sim.now_ns - begin) == (71, 1_000 + 72 * 700)


@tiny
async def test_times_that_cannot_be():
    for verb in (acl.HostWork, acl.Sleep):
        for us in (-1, float("nan")):
            with misused(ValueError, rf"us of {verb.__name__}\(\) must be 0 or more, not {us!r}"):
                await verb(us)
        with misused(TypeError, rf"us of {verb.__name__}\(\) must be a number of us, not "):
            await verb("5")


@tiny
async def test_a_thread_takes_no_simulated_time_and_time_waits_for_it():
    sim, a = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    go = threading.Event()

    def compute(x, *, y):
        assert go.wait(20)
        return x + y, sim.now_ns - begin

    async def device():
        await acl.LaunchKernel(A, 1, (), a)
        waiter = asyncio.ensure_future(acl.SynchronizeStream(a))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiter.done()
        go.set()
        await waiter
        return sim.now_ns - begin

    results = await asyncio.gather(acl.HostThread(compute, 1, y=2), device())
    assert results == [(3, 1_300), 53_000]


@tiny
async def test_what_a_thread_raises_comes_through():
    with pytest.raises(ZeroDivisionError):
        await acl.HostThread(lambda: 1 / 0)
    await acl.LaunchKernel(A, 1)
    await acl.SynchronizeDevice()


@tiny
async def test_hold_keeps_the_device_from_running_ahead():
    sim, a = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)

    async def waiter():
        await acl.SynchronizeStream(a)
        return sim.now_ns - begin

    task = asyncio.create_task(waiter())
    with sim.hold():
        for _ in range(20):
            await asyncio.sleep(0)
        assert (task.done(), sim.now_ns - begin) == (False, 1_300)
        await acl.HostWork(5)
        with pytest.raises(RuntimeError, match="a wait for the device inside `with hold"):
            await acl.SynchronizeStream(a)
    assert await task == 53_000


@pytest.fixture
def real_ns(monkeypatch):
    """A real clock, which stands still unless a test sets the entry of this list."""
    now = [0]
    monkeypatch.setattr("acl_py.runtime.runtime.perf_counter_ns", lambda: now[0])
    return now


def test_measured_host_time_adds_the_real_time_between_calls(real_ns):
    async def program():
        sim = acl.current_simulation()
        times = [sim.now_ns]
        for _ in range(3):
            real_ns[0] += 5_000
            await acl.HostWork(1)
            times.append(sim.now_ns)
        await acl.LaunchKernel(A, 1)
        await acl.SynchronizeDevice()
        return times

    assert acl.run(program, device="tiny", host_time="measured") == [0, 6_000, 12_000, 18_000]
    assert acl.run(program, device="tiny") == [0, 1_000, 2_000, 3_000]


def test_measured_host_time_does_not_count_what_a_wait_takes_in_real_time(real_ns):
    @acl.kernel(cost=acl.Cost(us=1), serial=True)
    def slow():
        real_ns[0] += 10_000_000

    async def program():
        sim = acl.current_simulation()
        await acl.LaunchKernel(slow, 1)
        before = sim.now_ns
        await acl.SynchronizeDevice()
        return sim.now_ns - before

    measured, modelled = (acl.run(program, device="tiny", host_time=each) for each in ("measured", "modelled"))
    assert measured == modelled
    assert real_ns == [20_000_000]  # both have run the kernel


def test_other_kinds_of_host_time_are_refused():
    async def program():
        pass

    with pytest.raises(ValueError, match=r"host_time must be .*measured.*, not 'real'"):
        acl.run(program, device="tiny", host_time="real")
