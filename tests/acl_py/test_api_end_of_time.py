"""Simulated time ends at 2**62 ns: no duration is longer, and no sum of durations leads beyond it."""

import asyncio
from math import inf, nan

import pytest
from histories import busy, calls, misused, refused, tiny

import acl_py as acl
from acl_py import faults
from acl_py.errors import Kind
from device_model.scheduler import END_NS, nanoseconds

END_US = END_NS / 1000
TOO_LONG = [nan, -1, inf, 1e16, 1e300, 10**400, 10**5000]
AMOUNTS = pytest.mark.parametrize("us", TOO_LONG, ids=lambda us: f"{us:.0e}" if isinstance(us, float) else "int")


@pytest.mark.parametrize("unit", [1, 1_000, 10**6, 10**9])
def test_the_longest_duration_is_all_of_simulated_time(unit):
    assert nanoseconds("it", END_NS // unit, unit) == END_NS // unit * unit
    assert nanoseconds("it", END_NS / unit, unit) == pytest.approx(END_NS)
    with pytest.raises(ValueError, match="it must be no longer than simulated time"):
        nanoseconds("it", END_NS // unit + 10**4, unit)


@AMOUNTS
def test_a_duration_that_cannot_be_is_refused_and_changes_nothing(us):
    """The message names the argument, and what it was: Python writes no numbers of thousands of digits."""

    @tiny
    async def program():
        stream = await acl.CreateStream()
        with misused(ValueError, r"us of HostWork\(\) must be"):
            await acl.HostWork(us)
        with misused(ValueError, r"us of Sleep\(\) must be"):
            await acl.Sleep(us)
        with misused(ValueError, "us of a host function must be"):
            await acl.LaunchHostFunc(stream, print, us=us)
        with misused(ValueError, "us must be"):
            acl.Cost(us=us)
        with misused(ValueError, "the cost function for us gave|us of a cost must be"):
            await acl.LaunchKernel(acl.kernel(cost=acl.Cost(us=lambda: us))(lambda: None), 1, (), stream)
        with misused(faults.FaultError, "us must be"):
            faults.delay(us, call="Malloc")
        for bound in ("since_us", "until_us"):
            with misused(faults.FaultError, f"{bound} must be"):
                acl.current_simulation().fault(faults.fail(call="Malloc", **{bound: us}))
        await acl.HostWork(1)
        await acl.SynchronizeStream(stream)

    program()


@pytest.mark.parametrize("amount", [nan, -1, inf, 10**400])
@pytest.mark.parametrize("what", ["flops", "bytes"])
def test_work_that_cannot_be_is_refused(what, amount):
    with pytest.raises(ValueError, match=f"{what} must be 0 or more, and finite"):
        acl.Cost(**{what: amount})


@pytest.mark.parametrize("what", ["flops", "bytes"])
@tiny
async def test_work_that_would_take_longer_than_simulated_time_is_refused_at_its_launch(what):
    stream = await acl.CreateStream()
    with misused(ValueError, "the time of a block, by its cost, must be no longer than simulated time"):
        await acl.LaunchKernel(acl.kernel(cost=acl.Cost(**{what: 1e300}))(lambda: None), 1, (), stream)


@tiny(rules="acl")
async def test_limits_of_waits_are_no_longer_than_simulated_time():
    stream = await acl.CreateStream()
    await acl.LaunchKernel(busy("A", 5), 1, (), stream)
    await acl.SubscribeReport(None, stream)
    for call in (
        lambda: acl.SynchronizeStreamWithTimeout(stream, 10**400),
        lambda: acl.ProcessReport(10**400),
        lambda: acl.SetOpWaitTimeOut(10**400),
        lambda: acl.SetOpExecuteTimeOut(10**10),
    ):
        with refused(Kind.INVALID_VALUE, "must be no longer than simulated time"):
            await call()


def test_a_factor_of_a_slow_engine_has_a_bound():
    for factor in (nan, inf, 1e300, 10**400, 0):
        with pytest.raises(faults.FaultError, match="factor must be more than 0 and at most"):
            faults.slow("cores", factor)


@tiny
async def test_the_host_cannot_work_beyond_the_end_of_time():
    """Each duration is legal, their sum is not; the call that would go beyond has done nothing."""
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    await acl.HostWork(END_US / 2)
    before = sim.now_ns
    with misused(OverflowError, "simulated time ends at 4,611,686,018,427,387,904 ns, 146 years"):
        await acl.HostWork(END_US / 2)
    await acl.LaunchKernel(busy("A", 5), 1, (), stream)
    await acl.SynchronizeStream(stream)
    assert [name for name, *_ in calls(sim, before)] == ["LaunchKernel", "SynchronizeStream"]


@pytest.mark.parametrize("others", [0, 1])
def test_the_device_cannot_work_beyond_the_end_of_time(others):
    """Two kernels that take two thirds of it each: the second can never end, and who waits for it is told so."""

    async def main():
        tasks = [asyncio.create_task(acl.Sleep(5)) for _ in range(others)]
        stream = await acl.CreateStream()
        first, second = [await acl.LaunchKernel(busy("A", END_US * 2 / 3), 1, (), stream) for _ in range(2)]
        for _ in range(2):
            with pytest.raises(OverflowError, match="make the durations of kernels, host functions and host work"):
                await acl.SynchronizeStream(stream)
        await asyncio.gather(*tasks)
        return first.done, second.done, len(acl.current_simulation().trace.calls)

    assert acl.run(main, device="tiny", workers=1)[:2] == (True, False)


@tiny
async def test_injected_delays_lead_no_further_either():
    with acl.current_simulation().fault(faults.delay(END_US / 2, call="HostWork")):
        await acl.HostWork(1)
        with pytest.raises(OverflowError, match="simulated time ends"):
            await acl.HostWork(1)
    await acl.HostWork(1)
