"""The simulated clock of an event loop: asyncio's timers and devices take turns on it, and every run is the same."""

import asyncio
import gc
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from time import monotonic

import anyio
import clocked
import pytest
from clocked import busy

import acl_py as acl
from acl_py.waiting import clock

HERE = Path(__file__).parent
EXPECTED = {
    "strike": 1_000_000_000,
    "kernels": (97, 10_000_000),  # of 103.3 us each: launch, run, wake up
    "sleep": 200_000_000,
    # Each takes 93 us beyond the one before; the eighth would have to wait for more than 300 us.
    "serve": [(n, "answered", 94_300 + n * 93_000) for n in range(7)]
    + [(n, "gave up", n * 60_000 + 300_000) for n in range(7, 20)],
    "instant": list(range(100)),
}
both_loops = pytest.mark.parametrize("uvloop", [False, True])


@both_loops
@pytest.mark.parametrize("program", clocked.PROGRAMS, ids=lambda program: program.__name__)
def test_timers_and_devices_share_one_clock(program, uvloop):
    assert acl.run(program, device="tiny", uvloop=uvloop) == EXPECTED[program.__name__]


@pytest.mark.one_in(2)
@both_loops
@pytest.mark.parametrize("program", clocked.PROGRAMS, ids=lambda program: program.__name__)
def test_tasks_beside_it_change_nothing(program, uvloop):
    outcome = acl.run(clocked._beside_others, program, device="tiny", uvloop=uvloop)
    assert outcome == EXPECTED[program.__name__]


@pytest.mark.slow
def test_a_hundred_runs_let_the_same_number_of_kernels_through():
    assert {acl.run(clocked.kernels, device="tiny") for _ in range(100)} == {EXPECTED["kernels"]}


def _in_a_process(*arguments, seed="random"):
    command = [sys.executable, "clocked.py", *arguments]
    done = subprocess.run(
        command, cwd=HERE, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
    )
    return done.stdout


def _outcomes():
    return "".join(f"{name} {outcome}\n" for name, outcome in clocked.outcomes())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", ["0", "1", "2"])
@pytest.mark.slow
def test_the_order_of_sets_changes_nothing(seed):
    assert _in_a_process(seed=seed) == _outcomes()


@pytest.mark.slow
@pytest.mark.usefixtures("busy_cores")
def test_busy_cores_change_nothing():
    expected = _outcomes()
    assert [_outcomes(), _in_a_process(), _in_a_process("uvloop")] == [expected] * 3


def test_a_host_function_wakes_a_task_at_its_own_instant():
    async def program():
        sim, stream, event = acl.current_simulation(), await acl.CreateStream(), asyncio.Event()
        await acl.LaunchKernel(busy(100), 1, (), stream)
        await acl.LaunchHostFunc(stream, event.set)
        await acl.LaunchKernel(busy(100), 1, (), stream)
        async with asyncio.timeout(1):
            await event.wait()
        return sim.now_ns, [(op.name, op.end_ns) for op in sim.trace.ops]

    now, [_, (_, called), *_] = acl.run(program, device="tiny")
    assert now == called == 102_000


def test_a_busy_host_hears_a_timer_when_it_suspends():
    async def program():
        sim, rung = acl.current_simulation(), []
        asyncio.get_running_loop().call_later(10e-6, lambda: rung.append(sim.now_ns))
        await acl.HostWork(25)
        assert rung == []
        await asyncio.sleep(0)
        return rung

    assert acl.run(program, device="tiny") == [25_000]


def test_completions_come_before_timers_of_the_same_instant():
    async def program():
        order, stream = [], await acl.CreateStream()
        loop = asyncio.get_running_loop()
        loop.call_at(50e-6, order.append, "timer")
        await acl.LaunchKernel(busy(48), 1, (), stream)  # it starts at 2 us and ends at 50 us
        await acl.LaunchHostFunc(stream, lambda: order.append("host function"))
        await asyncio.sleep(1)
        return order

    assert acl.run(program, device="tiny") == ["host function", "timer"]


@both_loops
def test_sleeps_and_limits_end_before_timers_of_the_same_instant(uvloop):
    async def program():
        loop, order = asyncio.get_running_loop(), []

        async def sleeper():
            await acl.Sleep(50)
            order.append("Sleep")

        loop.call_at(50e-6, order.append, "set before")
        sleeping = asyncio.create_task(sleeper())
        await asyncio.sleep(0)
        loop.call_at(50e-6, order.append, "set after")
        await sleeping
        await asyncio.sleep(0)
        stream = await acl.CreateStream()
        await acl.LaunchKernel(busy(1e6), 1, (), stream)
        for us in (50_000.299, 50_000.3):  # the limit begins 300 ns after the call
            try:
                async with asyncio.timeout(us / 1e6):
                    await acl.SynchronizeStreamWithTimeout(stream, 50)
            except (TimeoutError, acl.AclError) as error:
                order.append(type(error).__name__)
        return order

    order = ["Sleep", "set before", "set after", "TimeoutError", "AclError"]
    assert acl.run(program, device="tiny", uvloop=uvloop) == order


def test_a_timeout_in_microseconds_is_one_of_asyncio():
    async def program():
        sim, late = acl.current_simulation(), []
        for us in (1, 0.001, 333.333, 123_456.789):
            begin = sim.now_ns
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(us / 1e6):
                    await acl.Sleep(1e9)
            late.append(sim.now_ns - begin)
        return late

    assert acl.run(program, device="tiny") == [1_000, 1, 333_333, 123_456_789]


def test_a_call_asks_at_a_timer_that_was_set_for_an_earlier_time():
    """Calls compare their time with one number, the horizon, which must never be beyond the first timer."""

    async def program():
        order, stream, loop = [], await acl.CreateStream(), asyncio.get_running_loop()

        async def waiter():
            await acl.SynchronizeStream(stream)
            order.append("waiter")

        await acl.LaunchKernel(busy(300), 1, (), stream)
        waiting = asyncio.create_task(waiter())
        await asyncio.sleep(0)
        loop.call_at(900e-6, order.append, "set first")
        await acl.HostWork(1)  # from here on calls ask at 900 us
        loop.call_at(200e-6, order.append, "set last")
        await acl.HostWork(500)
        await waiting
        return order

    assert acl.run(program, device="tiny") == ["set last", "waiter"]


def test_the_clock_goes_on_before_between_and_after_simulations():
    async def main():
        loop, times = asyncio.get_running_loop(), []
        times.append(loop.time())
        await asyncio.sleep(2)
        for _ in range(2):
            async with acl.simulate(device="tiny") as sim:
                await acl.HostWork(1)
                await asyncio.sleep(1)
                times.append((loop.time(), sim.now_ns))
            await asyncio.sleep(3)
        times.append(loop.time())
        return times

    with asyncio.Runner(loop_factory=acl.new_event_loop) as runner:
        assert runner.run(main()) == [0, (3.000001, 1_000_001_000), (7.000002, 1_000_001_000), 10.000002]


def test_simulations_side_by_side_share_the_host():
    """What a call costs in one of them passes in the other."""

    async def program(times):
        async with acl.simulate(device="tiny") as sim:
            for _ in range(times):
                await acl.LaunchKernel(busy(10), 1)
                await acl.SynchronizeDevice()
            return sim.now_ns

    async def main():
        times = await asyncio.gather(program(1), program(3), program(2))
        return times, asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=acl.new_event_loop) as runner:
        (one, three, two), end = runner.run(main())
    # The second began when the first had paid for a launch and its wait, 1.3 us; the third another 1.3 us later.
    assert (one, three, two, end) == (13_000, 39_700, 28_700, 41e-6)


def test_a_simulation_inside_another_takes_the_time_of_both():
    async def main():
        async with acl.simulate(device="tiny") as outer:
            stream = await acl.CreateStream()
            await acl.LaunchKernel(busy(10), 1, (), stream)
            begin = outer.now_ns
            async with acl.simulate(device="tiny") as inner:
                await acl.LaunchKernel(busy(10), 1)
                await acl.SynchronizeDevice()
                assert (inner.now_ns, outer.now_ns - begin) == (13_000, 13_000)
            await acl.SynchronizeStream(stream)
        return [(op.start_ns, op.end_ns) for op in outer.trace.ops]

    with asyncio.Runner(loop_factory=acl.new_event_loop) as runner:
        assert runner.run(main()) == [(2_000, 12_000)]


async def _long():
    await acl.LaunchKernel(busy(60e6), 1)
    await acl.SynchronizeDevice()


def test_a_timeout_around_a_simulation_strikes():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), acl.simulate(device="tiny"):
                await _long()
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=acl.new_event_loop) as runner:
        assert runner.run(main()) == 1


def test_anyio_works_as_it_is():
    async def main():
        async with acl.simulate(device="tiny") as sim:
            begin = anyio.current_time()
            with anyio.move_on_after(0.5) as scope:
                await anyio.sleep(1)
            assert scope.cancelled_caught
            with pytest.raises(TimeoutError), anyio.fail_after(0.25):
                await _long()
            return begin, anyio.current_time(), sim.now_ns

    times = anyio.run(main, backend_options={"loop_factory": acl.new_event_loop})
    assert times == (0, 0.75, 750_000_000)


def test_a_cancelled_wait_leaves_the_work():
    async def program():
        stream = await acl.CreateStream()
        await acl.LaunchKernel(busy(100), 1, (), stream)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(acl.SynchronizeStream(stream), 10e-6)
        await acl.SynchronizeStream(stream)
        return [(op.start_ns, op.end_ns) for op in acl.current_simulation().trace.ops]

    assert acl.run(program, device="tiny") == [(2_000, 102_000)]


def test_with_a_real_clock_timers_take_real_time():
    async def program():
        await asyncio.sleep(0.01)
        return acl.current_simulation().now_ns

    assert acl.run(program, device="tiny", clock="real") == 0


def test_a_clock_that_the_loop_does_not_have_is_refused():
    async def program():
        with pytest.raises(RuntimeError, match="clock='real' in an event loop with simulated time: leave it out"):
            async with acl.simulate(device="tiny", clock="real"):
                pass

    acl.run(program, device="tiny")
    with pytest.raises(ValueError, match="clock must be 'simulated', 'real' or None, not 'wall'"):
        acl.run(program, device="tiny", clock="wall")


# --- timers


@pytest.fixture
def on_loop():
    """Run a coroutine function on a simulated loop, without a simulation."""

    def on_loop(main, **options):
        with asyncio.Runner(loop_factory=acl.new_event_loop, **options) as runner:
            return runner.run(main())

    return on_loop


def test_equal_times_ring_in_the_order_of_setting_and_cancelled_ones_do_not(on_loop):
    async def main():
        loop, rung = asyncio.get_running_loop(), []
        timers = [loop.call_later(0.1, rung.append, n) for n in range(500)]
        for timer in timers[::2]:
            timer.cancel()
        await asyncio.sleep(0.1)
        await asyncio.sleep(0)
        return rung

    assert on_loop(main) == list(range(1, 500, 2))


def test_a_cancelled_timer_does_not_take_the_clock_along(on_loop):
    async def main():
        for _ in range(1_000):
            async with asyncio.timeout(60):
                await asyncio.sleep(0.001)
        return asyncio.get_running_loop().time()

    assert on_loop(main) == 1


def test_times_are_exact_for_26_days_and_timers_always_ring(on_loop):
    async def main():
        loop = asyncio.get_running_loop()
        late = []
        for days in (1, 20, 4, 80, 300, 40_000):
            await asyncio.sleep(days * 86_400)
            for delay_ns in (1, 7, 1_000_003):
                before = loop._acl_py_clock.now_ns
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(delay_ns / 1e9):
                        await asyncio.sleep(60)
                late.append(loop._acl_py_clock.now_ns - before - delay_ns)
        return late

    late = on_loop(main)
    assert late[:9] == [0] * 9
    assert all(-2_000 <= each <= 2_000 for each in late)


def test_anyio_does_not_spin_where_a_deadline_falls_between_two_nanoseconds(on_loop):
    async def main():
        await asyncio.sleep(0.1)
        with anyio.move_on_after(0.2 + 3e-10) as scope:
            await anyio.sleep_forever()
        assert scope.cancelled_caught
        return asyncio.get_running_loop().time()

    assert on_loop(main) == pytest.approx(0.3, abs=1e-9)


def test_a_timer_that_would_ring_after_the_end_of_time_does_not(on_loop):
    assert clock.whole_ns(1e12) == float("inf")

    async def main():
        for delay in (float("inf"), 1e12):
            sleeper = asyncio.create_task(asyncio.sleep(delay))
            await asyncio.sleep(1)
            sleeper.cancel()
            await asyncio.wait([sleeper])
        return asyncio.get_running_loop().time()

    assert on_loop(main) == 2


def test_misused_timers_are_refused(on_loop):
    async def main():
        loop = asyncio.get_running_loop()
        with pytest.raises(TypeError, match="delay must not be None"):
            loop.call_later(None, int)
        with pytest.raises(TypeError, match="when cannot be None"):
            loop.call_at(None, int)
        with pytest.raises(ValueError, match="NaN"):
            loop.call_later(float("nan"), int)
        return loop

    loop = on_loop(main)
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.call_later(1, int)


def test_sleeps_leave_nothing_for_the_garbage_collector(on_loop):
    async def main():
        async with acl.simulate(device="tiny"):
            await asyncio.sleep(1)
            gc.collect()
            gc.disable()
            try:
                for _ in range(100):
                    await asyncio.sleep(0.01)
                return gc.collect()
            finally:
                gc.enable()

    assert on_loop(main) < 100


def test_debug_mode_tells_of_slow_callbacks_in_real_time_only(on_loop, caplog):
    async def main():
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 0.05
        async with acl.simulate(device="tiny"):
            await acl.HostWork(1e6)
            await asyncio.sleep(100)
        assert not caplog.records
        until = monotonic() + 0.06
        while monotonic() < until:
            pass
        await asyncio.sleep(0)

    on_loop(main, debug=True)
    assert "Executing" in caplog.text


def test_debug_mode_names_a_slow_timer(on_loop, caplog):
    def be_slow():
        until = monotonic() + 0.06
        while monotonic() < until:
            pass

    async def main():
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 0.05
        loop.call_later(1, be_slow)
        await asyncio.sleep(2)

    on_loop(main, debug=True)
    assert "be_slow" in caplog.text


def test_debug_mode_changes_no_time(on_loop):
    async def main():
        async with acl.simulate(device="tiny"):
            return [await clocked._beside_others(program) for program in (clocked.kernels, clocked.serve)]

    assert on_loop(main, debug=True) == on_loop(main)


def test_the_clock_goes_on_after_an_exit_out_of_a_timer(on_loop):
    rung = []

    async def main():
        loop = asyncio.get_running_loop()
        last = loop.create_future()
        loop.call_later(1, sys.exit, "from a timer")
        loop.call_later(1, rung.append, "at the same instant")
        loop.call_later(2, last.set_result, "the last")
        try:
            await asyncio.sleep(3)
        finally:
            rung.append(await last)

    with pytest.raises(SystemExit, match="from a timer"):
        on_loop(main)
    assert rung == ["at the same instant", "the last"]


@both_loops
def test_the_time_stays_where_it_is_when_the_last_simulation_of_a_loop_ends(uvloop):
    async def main():
        times, loop = [], asyncio.get_running_loop()
        for _ in range(2):
            async with acl.simulate(device="tiny"):
                await acl.HostWork(1_000_000)
                times.append(loop.time())
            times.append(loop.time())
        return times

    with asyncio.Runner(loop_factory=partial(acl.new_event_loop, uvloop=uvloop)) as runner:
        assert runner.run(main()) == [1.0, 1.0, 2.0, 2.0]
