"""Events through the verbs: snapshots, waits, queries, times, misuse."""

import pytest
from histories import busy, calls, history, misused, refused, tiny

import acl_py as acl

A, B, C = (busy(name, 10) for name in "ABC")


@tiny
async def test_a_wait_orders_two_streams():
    sim, a, b, event = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateEvent(),
    )
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.LaunchKernel(B, 1, (), a)
    await acl.StreamWaitEvent(b, event)
    await acl.LaunchKernel(C, 1, (), b)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000), ("C", 11_000, 21_000)]


@tiny
async def test_a_wait_keeps_what_the_event_stood_for_when_it_is_recorded_anew_or_destroyed():
    sim, a, b, event = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateEvent(),
    )
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.StreamWaitEvent(b, event)
    await acl.LaunchKernel(B, 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.DestroyEvent(event)
    await acl.LaunchKernel(C, 1, (), b)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000), ("C", 11_000, 21_000)]


@tiny
async def test_an_event_recorded_in_two_streams_keeps_the_last():
    sim, a, b, c = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateStream(),
    )
    event = await acl.CreateEvent()
    begin = sim.now_ns
    await acl.LaunchKernel(busy("long", 90), 1, (), a)
    await acl.LaunchKernel(A, 1, (), b)
    await acl.RecordEvent(event, a)
    await acl.RecordEvent(event, b)
    await acl.StreamWaitEvent(c, event)
    await acl.LaunchKernel(C, 1, (), c)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("long", 1_000, 91_000), ("A", 2_000, 12_000), ("C", 12_000, 22_000)]


@tiny
async def test_an_event_never_recorded_is_complete_and_holds_nobody_back():
    sim, a, event = acl.current_simulation(), await acl.CreateStream(), await acl.CreateEvent()
    begin = sim.now_ns
    assert await acl.QueryEventStatus(event) is acl.Status.COMPLETE
    await acl.SynchronizeEvent(event)
    await acl.StreamWaitEvent(a, event)
    await acl.LaunchKernel(A, 1, (), a)
    await acl.SynchronizeDevice()
    assert calls(sim, begin)[:3] == [
        ("QueryEventStatus", 0, 700),
        ("SynchronizeEvent", 700, 1_000),
        ("StreamWaitEvent", 1_000, 2_000),
    ]
    assert history(sim, begin) == [("A", 3_000, 13_000)]


@tiny
async def test_waits_add_up_and_reach_through_a_stream_without_work():
    sim, a, b, c = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateStream(),
    )
    one, two, three = await acl.CreateEvent(), await acl.CreateEvent(), await acl.CreateEvent()
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordEvent(one, a)
    await acl.LaunchKernel(busy("long", 20), 1, (), b)
    await acl.RecordEvent(two, b)
    await acl.StreamWaitEvent(c, one)
    await acl.StreamWaitEvent(c, two)
    await acl.RecordEvent(three, c)  # nothing was ever queued in c
    await acl.LaunchKernel(B, 1, (), c)
    assert await acl.QueryEventStatus(three) is acl.Status.NOT_READY
    await acl.SynchronizeEvent(three)
    assert history(sim, begin) == [("A", 1_000, 11_000), ("long", 3_000, 23_000)]
    assert calls(sim, begin)[-1] == ("SynchronizeEvent", 8_700, 25_000)
    await acl.SynchronizeDevice()
    assert history(sim, begin)[-1] == ("B", 23_000, 33_000)


@tiny
async def test_sync_of_an_event_does_not_wait_for_later_work():
    sim, a, event = acl.current_simulation(), await acl.CreateStream(), await acl.CreateEvent()
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    completion = await acl.RecordEvent(event, a)
    await acl.LaunchKernel(B, 1, (), a)
    assert await acl.QueryEventStatus(event) is acl.Status.NOT_READY
    await acl.SynchronizeEvent(event)
    assert (sim.now_ns - begin, completion.done) == (13_000, True)
    assert await acl.QueryEventStatus(event) is acl.Status.COMPLETE
    assert history(sim, begin) == [("A", 1_000, 11_000)]


@tiny
async def test_a_record_can_be_awaited():
    sim, a, event = acl.current_simulation(), await acl.CreateStream(), await acl.CreateEvent()
    await acl.LaunchKernel(A, 1, (), a)
    begin = sim.now_ns
    await (await acl.RecordEvent(event, a))
    assert sim.now_ns - begin == 12_000


@tiny
async def test_elapsed_time_is_the_devices_in_milliseconds():
    a, start, end = await acl.CreateStream(), await acl.CreateEvent(), await acl.CreateEvent()
    await acl.RecordEvent(start, a)
    await acl.LaunchKernel(busy("long", 2_500), 1, (), a)
    await acl.RecordEvent(end, a)
    await acl.SynchronizeStream(a)
    assert await acl.EventElapsedTime(start, end) == 2.501  # the launch took the host 1 us, before which nothing ran
    assert await acl.EventElapsedTime(end, start) == -2.501
    assert await acl.EventElapsedTime(end, end) == 0


@tiny
async def test_elapsed_time_of_what_has_no_time_is_refused():
    a, never, pending = await acl.CreateStream(), await acl.CreateEvent(), await acl.CreateEvent()
    mute, done = await acl.CreateEvent(timing=False), await acl.CreateEvent()
    for event in (mute, done):
        await acl.RecordEvent(event, a)
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordEvent(pending, a)
    sim = acl.current_simulation()
    for pair, kind, text in (
        ((never, done), acl.Kind.NOT_RECORDED, f"<Event 1 made at {never.made} never recorded> has no time"),
        ((done, never), acl.Kind.NOT_RECORDED, "RecordEvent()"),
        ((done, mute), acl.Kind.NO_TIMING, "created without timing; create it with CreateEvent(timing=True)"),
        ((done, pending), acl.Kind.NO_TIME_YET, f"<Event 2 made at {pending.made} pending> has no time yet"),
    ):
        begin = sim.now_ns
        with pytest.raises(acl.AclError) as caught:
            await acl.EventElapsedTime(*pair)
        assert (caught.value.kind, text in str(caught.value)) == (kind, True)
        assert calls(sim, begin) == [("EventElapsedTime", 0, 1_000)]  # the call took its time, and left a row


@tiny
async def test_elapsed_time_needs_two_events_of_one_device():
    here = await acl.CreateEvent()
    await acl.RecordEvent(here)
    await acl.SetDevice(1)
    there = await acl.CreateEvent()
    await acl.RecordEvent(there)
    with refused(acl.Kind.INVALID_HANDLE, here.made, there.made, "one device"):
        await acl.EventElapsedTime(here, there)


@tiny
async def test_a_record_needs_a_stream_of_the_events_device_and_a_wait_does_not():
    sim, a, event = acl.current_simulation(), await acl.CreateStream(), await acl.CreateEvent()
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.SetDevice(1)
    b = await acl.CreateStream()
    with refused(acl.Kind.INVALID_HANDLE, "different devices", "a stream of its own device"):
        await acl.RecordEvent(event, b)
    await acl.StreamWaitEvent(b, event)
    await acl.LaunchKernel(B, 1, (), b)
    await acl.SynchronizeEvent(event)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@tiny
async def test_a_destroyed_event_is_refused_by_every_verb():
    a, event, other = await acl.CreateStream(), await acl.CreateEvent(), await acl.CreateEvent()
    await acl.DestroyEvent(event)
    for verb in (
        lambda: acl.RecordEvent(event, a),
        lambda: acl.StreamWaitEvent(a, event),
        lambda: acl.QueryEventStatus(event),
        lambda: acl.SynchronizeEvent(event),
        lambda: acl.EventElapsedTime(event, other),
        lambda: acl.EventElapsedTime(other, event),
        lambda: acl.DestroyEvent(event),
    ):
        with refused(
            acl.Kind.INVALID_HANDLE, f"<Event 1 made at {event.made} destroyed at {event.destroyed}>", "CreateEvent()"
        ):
            await verb()


@pytest.mark.parametrize("wrong", [None, 3, "event", object])
@tiny
async def test_what_is_no_event_is_a_type_error(wrong):
    a, event = await acl.CreateStream(), await acl.CreateEvent()
    for verb in (
        lambda: acl.RecordEvent(wrong, a),
        lambda: acl.StreamWaitEvent(a, wrong),
        lambda: acl.QueryEventStatus(wrong),
        lambda: acl.SynchronizeEvent(wrong),
        lambda: acl.EventElapsedTime(event, wrong),
        lambda: acl.DestroyEvent(wrong),
    ):
        with misused(TypeError, "an event must be what CreateEvent"):
            await verb()


@tiny
async def test_an_event_outlives_the_stream_it_was_recorded_in():
    sim, a, b, event = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateEvent(),
    )
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.DestroyStream(a)
    await acl.StreamWaitEvent(b, event)
    await acl.LaunchKernel(B, 1, (), b)
    await acl.SynchronizeEvent(event)
    await acl.SynchronizeStream(b)
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


def test_cudas_names_are_the_same_verbs():
    assert acl.EventRecord is acl.RecordEvent
    assert acl.EventQuery is acl.QueryEventStatus
    assert acl.EventSynchronize is acl.SynchronizeEvent
