"""A running loop whose time is simulated for the length of a simulation, and then its own again."""

import asyncio

import clocked
import pytest
import uvloop
from clocked import busy

import acl_py as acl

EXAMPLES = (clocked.strike, clocked.kernels, clocked.sleep, clocked.serve)


@pytest.fixture(params=[None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request):
    def run(main, *args):
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(main(*args))

    return run


def borrowed():
    return acl.simulate(device="tiny", clock="simulated")


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.__name__)
def test_times_are_those_of_a_loop_of_our_own(run, program):
    async def main():
        async with borrowed():
            return await program()

    assert run(main) == acl.run(program, device="tiny")


def test_the_time_never_goes_back_and_runs_on_in_real_time(run):
    async def main():
        loop, times = asyncio.get_running_loop(), []
        for _ in range(2):
            times.append(loop.time())
            async with borrowed():
                await asyncio.sleep(3600)
                times.append(loop.time())
            times.append(loop.time())
            await asyncio.sleep(0.01)  # a minute of this would not end
            async with asyncio.timeout_at(loop.time() + 60):
                await asyncio.sleep(0.01)
        return times

    times = run(main)
    assert times == sorted(times)
    assert 7200 <= times[-1] - times[0] < 7260


def test_timers_that_were_set_before_keep_real_time(run):
    async def main():
        loop, rung = asyncio.get_running_loop(), []
        timer = loop.call_later(60, rung.append, "before")
        soon = loop.create_future()
        loop.call_later(0.01, soon.set_result, None)
        async with borrowed():
            await asyncio.sleep(3600)
        await soon
        timer.cancel()
        return rung

    assert run(main) == []


def test_timers_that_are_left_take_real_time(run):
    async def main():
        async with borrowed() as sim:
            left = asyncio.create_task(asyncio.sleep(1000.02))
            cancelled = asyncio.create_task(asyncio.sleep(1000.01))
            await asyncio.sleep(1000)
            assert sim.now_ns == 1_000_000_000_000
        cancelled.cancel()
        await left

    run(main)


def test_simulations_that_begin_meanwhile_share_the_clock_until_the_last_one_ends(run):
    async def main():
        loop = asyncio.get_running_loop()
        first = acl.open(device="tiny", clock="simulated")
        second = acl.open(device="tiny")
        await first.close()
        await asyncio.sleep(10)
        now = second.now_ns
        await second.close()
        return now, hasattr(loop, "_acl_py_clock")

    assert run(main) == (10_000_000_000, False)


def test_a_device_that_has_work_is_left_as_it_is(run):
    async def main():
        async with borrowed() as sim:
            await acl.LaunchKernel(busy(1000), 1)
        await asyncio.sleep(0)
        return sim.trace.ops

    assert run(main) == []


def test_a_loop_with_a_time_of_its_own_is_refused():
    class Late(asyncio.SelectorEventLoop):
        def time(self):
            return super().time() - 60

    async def main():
        with pytest.raises(
            RuntimeError, match=r"the time of <Late .* cannot be simulated: use an event loop of asyncio"
        ):
            async with borrowed():
                pass

    with asyncio.Runner(loop_factory=Late) as runner:
        runner.run(main())


def test_a_simulation_in_real_time_is_not_taken_along(run):
    async def main():
        async with acl.simulate(device="tiny") as sim:
            with pytest.raises(RuntimeError, match="in which a simulation with a real clock runs: end that one before"):
                async with borrowed():
                    pass
            await acl.LaunchKernel(busy(10), 1)
            await acl.SynchronizeDevice()
            return sim.now_ns

    assert run(main) == 13_000
