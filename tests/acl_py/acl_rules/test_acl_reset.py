"""What a reset, or the end of a stream or context, leaves behind: nothing."""

import pytest
from histories import busy, tiny

import acl_py
from acl_py import (
    AclError,
    CallbackBlock,
    CreateContext,
    CreateEventWithFlag,
    CreateNotify,
    CreateStream,
    DestroyContext,
    DestroyEvent,
    DestroyStream,
    DestroyStreamForce,
    EventFlag,
    FailureMode,
    LaunchCallback,
    LaunchKernel,
    ResetDevice,
    SetDevice,
    SetStreamFailureMode,
    StreamWaitEvent,
    SubscribeReport,
    SynchronizeStream,
    WaitAndResetNotify,
    current_simulation,
    faults,
)
from acl_py.verbs.callbacks import subscribers_of

acl = tiny(rules="acl")
A = busy("A", 10)


@pytest.mark.parametrize("destroy", [DestroyStream, DestroyStreamForce])
@acl
async def test_a_destroyed_stream_has_no_subscriber_any_more(destroy):
    stream, other = await CreateStream(), await CreateStream()
    for each in (stream, other):
        await SubscribeReport(None, each)
    await destroy(stream)
    assert list(subscribers_of(current_simulation().runtime)) == [other]
    await ResetDevice(0)
    assert not subscribers_of(current_simulation().runtime)


@acl
async def test_ids_of_flag_events_come_back_with_their_context():
    ids = current_simulation().runtime.device(0).event_ids
    first = await CreateEventWithFlag(EventFlag.SYNC)
    context = await CreateContext(0)
    for _ in range(2):
        await CreateEventWithFlag(EventFlag.SYNC)
    assert ids.limit - ids.free == 3
    await DestroyContext(context)
    assert ids.limit - ids.free == 1
    await ResetDevice(0)
    assert ids.free == ids.limit
    await SetDevice(0)
    again = await CreateEventWithFlag(EventFlag.SYNC)
    await DestroyEvent(again)
    assert (ids.free, first.destroyed is not None) == (ids.limit, True)


@acl
async def test_what_waits_for_ever_in_a_lost_context_ends_with_its_reset():
    """A wait without a record, one without a notify, a callback that nobody runs, each with work behind it."""
    sim = current_simulation()
    streams = [await CreateStream() for _ in range(4)]
    await SetStreamFailureMode(streams[3], FailureMode.STOP)
    await StreamWaitEvent(streams[0], await CreateEventWithFlag(EventFlag.SYNC))
    await WaitAndResetNotify(await CreateNotify(), streams[1])
    await SubscribeReport(None, streams[2])
    await LaunchCallback(print, None, CallbackBlock.BLOCK, streams[2])
    for stream in streams[:3]:
        await LaunchKernel(A, 1, (), stream)
    with sim.fault(faults.fail(op="kernel")):
        await LaunchKernel(A, 1, (), streams[3])
        with pytest.raises(AclError, match="fault rule"):
            await SynchronizeStream(streams[3])
    assert len(sim.runtime.unfinished()) == 3
    await ResetDevice(0)
    await acl_py.HostWork(100)
    assert not sim.runtime.unfinished()
    await SetDevice(0)
    for _ in range(sim.runtime.profile.queues.compute):  # every hardware queue lets work pass
        stream = await CreateStream()
        await LaunchKernel(A, 1, (), stream)
        await SynchronizeStream(stream)


@acl
async def test_a_device_is_reset_as_often_as_it_was_set():
    """The first device of a simulation is set when that begins, the others are not."""
    with pytest.raises(AclError, match="is not in use; SetDevice"):
        await ResetDevice(1)
    context = current_simulation().runtime.device(1).primary
    for _ in range(2):
        await SetDevice(1)
    await ResetDevice(1)
    assert context.destroyed is None
    await ResetDevice(1)
    assert context.destroyed is not None
    with pytest.raises(AclError, match="is not in use; SetDevice"):
        await ResetDevice(1)
