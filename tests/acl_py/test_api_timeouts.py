"""Synchronisation with a limit, in simulated time."""

import pytest
from histories import busy, refused, tiny

import acl_py as acl

LONG = busy("long", 10_000)


async def started():
    stream, event = await acl.CreateStream(), await acl.CreateEvent()
    work = await acl.LaunchKernel(LONG, 1, (), stream)
    await acl.RecordEvent(event, stream)
    return stream, event, work


def verbs(stream, event):
    return {
        "stream": (acl.SynchronizeStreamWithTimeout, stream),
        "event": (acl.SynchronizeEventWithTimeout, event),
        "device": (acl.SynchronizeDeviceWithTimeout,),
    }


@pytest.mark.parametrize("which", ["stream", "event", "device"])
@pytest.mark.parametrize(("rules", "codes"), [("cuda", (909, 909)), ("acl", (507046, 507047))])
def test_when_the_time_is_over_the_call_fails_and_the_work_goes_on(which, rules, codes):
    async def main():
        sim = acl.current_simulation()
        stream, event, work = await started()
        verb, *args = verbs(stream, event)[which]
        begin = sim.now_ns
        with pytest.raises(acl.AclError, match="has waited 2 ms; the work goes on") as caught:
            await verb(*args, 2)
        assert caught.value.code == codes[which == "event"]
        assert (sim.now_ns - begin, work.done) == (2_000_000 + 300 + 2_000, False)
        assert f"long on stream 1 ({work.site}) is running" in str(caught.value)
        await verb(*args, 9)
        assert (work.done, sim.now_ns) == (True, work.end_ns + 2_000)

    acl.run(main, device="tiny", rules=rules)


@pytest.mark.parametrize("which", ["stream", "event", "device"])
@tiny
async def test_minus_one_waits_for_ever_and_others_are_refused(which):
    stream, event, work = await started()
    verb, *args = verbs(stream, event)[which]
    for timeout in (0, -2):
        with refused(acl.Kind.INVALID_VALUE, f"a time-out of {timeout} ms"):
            await verb(*args, timeout)
    with pytest.raises(TypeError, match="whole number of milliseconds"):
        await verb(*args, 1.5)
    await verb(*args, -1)
    assert work.done


@tiny(rules="acl")
async def test_a_stream_goes_on_when_it_has_waited_as_long_as_its_limit():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    event = await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
    await acl.SetOpWaitTimeOut(2)
    begin = sim.now_ns
    await acl.StreamWaitEvent(stream, event)
    work = await acl.LaunchKernel(LONG, 1, (), stream)
    with pytest.raises(acl.AclError, match="has waited 2 s for") as caught:
        await acl.SynchronizeStream(stream)
    assert caught.value.kind is acl.Kind.OP_WAIT_TIMEOUT
    assert 2_000_000_000 <= work.start_ns - begin < 2_000_010_000


@tiny(rules="acl")
async def test_nothing_is_left_of_a_streams_limit():
    """SetOpWaitTimeOut() limits waits of streams: one that is over in time, or aborted, leaves no timer."""
    sim, aborted = acl.current_simulation(), await acl.CreateStream()
    stream, event = await acl.CreateStream(), await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
    await acl.SetOpWaitTimeOut(3_600)
    for each in (stream, aborted):
        await acl.StreamWaitEvent(each, event)
        await acl.LaunchKernel(LONG, 1, (), each)
    await acl.StreamAbort(aborted)
    await acl.RecordEvent(event)
    await acl.SynchronizeStream(stream)
    assert sim.runtime.scheduler.is_empty
    assert sim.now_ns < 20_000_000


@tiny
async def test_nothing_is_left_of_a_limit():
    """No timer keeps time going, and no waiter stays behind."""
    sim, (stream, event, work) = acl.current_simulation(), await started()
    for _ in range(3):
        with pytest.raises(acl.AclError):
            await acl.SynchronizeStreamWithTimeout(stream, 1)
    assert len(list(sim.runtime.scheduler.subjects())) == 1  # the kernel
    assert not work.waiters
    await acl.SynchronizeStreamWithTimeout(stream, 1_000)
    assert sim.runtime.scheduler.is_empty
    await acl.SynchronizeStream(stream)
    assert sim.now_ns < 20_000_000
    assert event.done
