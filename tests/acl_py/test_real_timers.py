"""Short timers in real time beside waits in simulated time: a loop that is not ours warns, once for each simulation."""

import asyncio
import warnings
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import ref

import anyio
import pytest
import uvloop
from clocked import busy

import acl_py as acl
from device_model.completions import Completion


@pytest.fixture(params=[None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def warned(request):
    """Run a coroutine function in a loop with real time, and return the warnings."""

    def warned(main, **options):
        async def simulating():
            async with acl.simulate(device="tiny", **options):
                await main()

        with asyncio.Runner(loop_factory=request.param) as runner, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            runner.run(simulating())
        return caught

    return warned


async def wait(us=60e6):
    await acl.LaunchKernel(busy(us), 1)
    await acl.SynchronizeDevice()


def line_of(function, offset):
    return function.__code__.co_firstlineno + offset


def test_a_timer_around_a_wait(warned):
    async def main():
        async with asyncio.timeout(30):
            await wait()
        assert acl.current_simulation().now_ns > 60_000_000_000  # the time-out did not strike

    [warning] = warned(main)
    assert warning.category is RuntimeWarning
    assert Path(warning.filename).name == Path(__file__).name
    assert warning.lineno == line_of(wait, 2)
    text = str(warning.message)
    assert text.startswith("a timer of 30 s, set by task 'Task-")
    assert f"at {Path(__file__).name}:{line_of(main, 1)}, counts real time, while waits for devices take" in text
    assert text.endswith(
        "run the program with acl_py.run(), or begin the simulation with clock='simulated'; "
        "if real time is meant, begin it with clock='real'"
    )


def test_a_timer_of_another_task_while_one_waits(warned):
    async def ticker():
        await asyncio.sleep(0)  # the other task waits by now
        await asyncio.sleep(30)

    async def main():
        ticking = asyncio.create_task(ticker(), name="ticker")
        await wait()
        ticking.cancel()

    [warning] = warned(main)
    assert warning.lineno == line_of(ticker, 2)
    assert str(warning.message).startswith("a timer of 30 s, set by task 'ticker' at test_real_timers.py:")


def test_several_timers_and_waits_give_one_warning(warned):
    async def main():
        for _ in range(3):
            with anyio.fail_after(30):
                await asyncio.wait_for(asyncio.gather(wait(), wait()), 20)

    assert len(warned(main)) == 1


def test_each_simulation_warns(warned):
    async def main():
        for _ in range(2):
            async with asyncio.timeout(30), acl.simulate(device="tiny"), asyncio.timeout(30):
                await wait()
        assert len(vars(asyncio.get_running_loop()).keys() & {"call_at", "call_later"}) == 1  # the outer one watches

    assert len(warned(main)) == 2


def test_the_loop_has_its_own_methods_back_after_the_warning(warned):
    async def main():
        before = dict(vars(asyncio.get_running_loop()))
        async with asyncio.timeout(30):
            await wait()
        assert not before.keys() - vars(asyncio.get_running_loop()).keys() - {"call_at", "call_later"}
        assert not vars(asyncio.get_running_loop()).keys() & {"call_at", "call_later"}

    assert len(warned(main)) == 1


@pytest.mark.parametrize("clock", ["real", "simulated"])
def test_a_clock_that_was_chosen_is_no_mistake(warned, clock):
    async def main():
        async with asyncio.timeout(59):
            await asyncio.gather(wait(10), asyncio.wait_for(wait(20), 30))

    assert not warned(main, clock=clock)


async def _no_wait():
    async with asyncio.timeout(30):
        await asyncio.sleep(0)


async def _a_wait_that_is_over():
    await wait()
    async with asyncio.timeout(30):
        await acl.SynchronizeDevice()


async def _over_before_the_wait():
    async with asyncio.timeout(30):
        await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    await wait()


async def _two_minutes():
    async with asyncio.timeout(120):
        await wait()


async def _no_time():
    asyncio.get_running_loop().call_later(0, int)
    await asyncio.gather(wait(), asyncio.sleep(0))


async def _time_is_held():
    async def hold():
        with acl.current_simulation().hold():
            async with asyncio.timeout(30):
                await asyncio.sleep(0)

    await asyncio.gather(wait(), hold())


async def _of_a_callback():
    loop, timers = asyncio.get_running_loop(), []
    loop.call_soon(lambda: timers.append(loop.call_later(30, int)))
    await asyncio.sleep(0)
    await wait()
    assert len(timers) == 1


NO_MISTAKES = (_no_wait, _a_wait_that_is_over, _over_before_the_wait, _two_minutes, _no_time, _time_is_held,
               _of_a_callback)  # fmt: skip


@pytest.mark.parametrize("program", NO_MISTAKES)
def test_no_warning_where_no_task_could_mix_them_up(warned, program):
    assert not warned(program)


def test_tasks_from_before_the_simulation_set_timers_of_their_own():
    """As the machinery of a notebook does."""

    async def machinery():
        await cell.wait()
        await asyncio.sleep(30)

    async def main():
        task = asyncio.create_task(machinery())
        sim = acl.open(device="tiny")
        cell.set()
        await asyncio.gather(wait(), asyncio.sleep(0))
        await sim.close()
        task.cancel()

    cell = asyncio.Event()

    asyncio.run(main())  # warnings are errors here


def test_timers_that_are_over_are_not_kept():
    async def main():
        loop, timers = asyncio.get_running_loop(), []
        async with acl.simulate(device="tiny"):
            for _ in range(1_000):
                timer = loop.call_later(30, int)
                timer.cancel()
                timers.append(ref(timer))
                await asyncio.sleep(0)  # asyncio drops cancelled timers at a turn
            return sum(timer() is not None for timer in timers)

    assert asyncio.run(main()) < 500  # asyncio keeps a hundred itself


@pytest.mark.parametrize("set_before", [True, False])
def test_a_warning_that_is_an_error_comes_out_where_it_belongs(set_before):
    @asynccontextmanager
    async def mixed():
        if set_before:
            async with asyncio.timeout(30):
                yield
        else:
            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            try:
                async with asyncio.timeout(30):
                    yield
            finally:
                await waiting

    async def main():
        async with acl.simulate(device="tiny") as sim:
            with pytest.raises(RuntimeWarning, match="a timer of 30 s"):
                async with mixed():
                    await wait()
            assert all(timer.cancelled() for timer in asyncio.get_running_loop()._scheduled)
            await wait()
            assert sim.now_ns > 60_000_000_000

    asyncio.run(main())


def test_another_librarys_method_over_ours_is_left(warned):
    async def main():
        loop = asyncio.get_running_loop()
        name = "call_at" if isinstance(loop, asyncio.BaseEventLoop) else "call_later"
        under = getattr(loop, name)

        def theirs(when, callback, *args, context=None):
            return under(when, callback, *args, context=context)

        vars(loop)[name] = theirs
        async with asyncio.timeout(30):
            await wait()
        assert vars(loop)[name] is theirs
        await asyncio.sleep(0.001)

    assert len(warned(main)) == 1


def test_a_hang_is_found_as_ever(warned):
    """uvloop shows what it listens to by the sizes of its containers, to which the watch adds nothing."""

    async def main():
        async with acl.simulate(device="tiny", hang_after=5):
            stream = await acl.CreateStream()
            stream.wait(Completion())  # of something that never happens
            await acl.LaunchKernel(busy(1), 1, (), stream)
            with pytest.raises(acl.DeadlockError) as caught:
                await acl.SynchronizeStream(stream)
            assert not hasattr(caught.value, "__notes__")  # nothing outside could have helped

    assert not warned(main, clock="real")
