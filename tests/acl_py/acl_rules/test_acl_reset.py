"""What a reset, or the end of a stream or context, leaves behind: nothing."""

import pytest
from histories import busy, tiny_acl

import acl_py as acl
from acl_py import faults
from acl_py.verbs.callbacks import subscribers_of

A = busy("A", 10)


@pytest.mark.parametrize("destroy", [acl.DestroyStream, acl.DestroyStreamForce])
@tiny_acl
async def test_a_destroyed_stream_has_no_subscriber_any_more(destroy):
    stream, other = await acl.CreateStream(), await acl.CreateStream()
    for each in (stream, other):
        await acl.SubscribeReport(None, each)
    await destroy(stream)
    assert list(subscribers_of(acl.current_simulation().runtime)) == [other]
    await acl.ResetDevice(0)
    assert not subscribers_of(acl.current_simulation().runtime)


@tiny_acl
async def test_ids_of_flag_events_come_back_with_their_context():
    ids = acl.current_simulation().runtime.device(0).event_ids
    first = await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
    context = await acl.CreateContext(0)
    for _ in range(2):
        await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
    assert ids.limit - ids.free == 3
    await acl.DestroyContext(context)
    assert ids.limit - ids.free == 1
    await acl.ResetDevice(0)
    assert ids.free == ids.limit
    await acl.SetDevice(0)
    again = await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
    await acl.DestroyEvent(again)
    assert (ids.free, first.destroyed is not None) == (ids.limit, True)


@tiny_acl
async def test_what_waits_for_ever_in_a_lost_context_ends_with_its_reset():
    """A wait without a record, one without a notify, a callback that nobody runs, each with work behind it."""
    sim = acl.current_simulation()
    streams = [await acl.CreateStream() for _ in range(4)]
    await acl.SetStreamFailureMode(streams[3], acl.FailureMode.STOP)
    await acl.StreamWaitEvent(streams[0], await acl.CreateEventWithFlag(acl.EventFlag.SYNC))
    await acl.WaitAndResetNotify(await acl.CreateNotify(), streams[1])
    await acl.SubscribeReport(None, streams[2])
    await acl.LaunchCallback(print, None, acl.CallbackBlock.BLOCK, streams[2])
    for stream in streams[:3]:
        await acl.LaunchKernel(A, 1, (), stream)
    with sim.fault(faults.fail(op="kernel")):
        await acl.LaunchKernel(A, 1, (), streams[3])
        with pytest.raises(acl.AclError, match="fault rule"):
            await acl.SynchronizeStream(streams[3])
    assert len(sim.runtime.unfinished()) == 3
    await acl.ResetDevice(0)
    await acl.HostWork(100)
    assert not sim.runtime.unfinished()
    await acl.SetDevice(0)
    for _ in range(sim.runtime.profile.queues.compute):  # every hardware queue lets work pass
        stream = await acl.CreateStream()
        await acl.LaunchKernel(A, 1, (), stream)
        await acl.SynchronizeStream(stream)


@tiny_acl
async def test_a_device_is_reset_as_often_as_it_was_set():
    """The first device of a simulation is set when that begins, the others are not."""
    with pytest.raises(acl.AclError, match="is not in use; SetDevice"):
        await acl.ResetDevice(1)
    context = acl.current_simulation().runtime.device(1).primary
    for _ in range(2):
        await acl.SetDevice(1)
    await acl.ResetDevice(1)
    assert context.destroyed is None
    await acl.ResetDevice(1)
    assert context.destroyed is not None
    with pytest.raises(acl.AclError, match="is not in use; SetDevice"):
        await acl.ResetDevice(1)
