"""Events through the verbs: snapshots, waits, queries, times, misuse."""

import pytest
from histories import busy, calls, history, misused, refused, tiny

import acl_py
from acl_py import (
    CreateEvent,
    CreateStream,
    DestroyEvent,
    DestroyStream,
    EventElapsedTime,
    Kind,
    LaunchKernel,
    QueryEventStatus,
    RecordEvent,
    SetDevice,
    Status,
    StreamWaitEvent,
    SynchronizeDevice,
    SynchronizeEvent,
    SynchronizeStream,
    current_simulation,
)

A, B, C = (busy(name, 10) for name in "ABC")


@tiny
async def test_a_wait_orders_two_streams():
    sim, a, b, event = current_simulation(), await CreateStream(), await CreateStream(), await CreateEvent()
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    await RecordEvent(event, a)
    await LaunchKernel(B, 1, (), a)
    await StreamWaitEvent(b, event)
    await LaunchKernel(C, 1, (), b)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000), ("C", 11_000, 21_000)]


@tiny
async def test_a_wait_keeps_what_the_event_stood_for_when_it_is_recorded_anew_or_destroyed():
    sim, a, b, event = current_simulation(), await CreateStream(), await CreateStream(), await CreateEvent()
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    await RecordEvent(event, a)
    await StreamWaitEvent(b, event)
    await LaunchKernel(B, 1, (), a)
    await RecordEvent(event, a)
    await DestroyEvent(event)
    await LaunchKernel(C, 1, (), b)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000), ("C", 11_000, 21_000)]


@tiny
async def test_an_event_recorded_in_two_streams_keeps_the_last():
    sim, a, b, c = current_simulation(), await CreateStream(), await CreateStream(), await CreateStream()
    event = await CreateEvent()
    begin = sim.now_ns
    await LaunchKernel(busy("long", 90), 1, (), a)
    await LaunchKernel(A, 1, (), b)
    await RecordEvent(event, a)
    await RecordEvent(event, b)
    await StreamWaitEvent(c, event)
    await LaunchKernel(C, 1, (), c)
    await SynchronizeDevice()
    assert history(sim, begin) == [("long", 1_000, 91_000), ("A", 2_000, 12_000), ("C", 12_000, 22_000)]


@tiny
async def test_an_event_never_recorded_is_complete_and_holds_nobody_back():
    sim, a, event = current_simulation(), await CreateStream(), await CreateEvent()
    begin = sim.now_ns
    assert await QueryEventStatus(event) is Status.COMPLETE
    await SynchronizeEvent(event)
    await StreamWaitEvent(a, event)
    await LaunchKernel(A, 1, (), a)
    await SynchronizeDevice()
    assert calls(sim, begin)[:3] == [
        ("QueryEventStatus", 0, 700),
        ("SynchronizeEvent", 700, 1_000),
        ("StreamWaitEvent", 1_000, 2_000),
    ]
    assert history(sim, begin) == [("A", 3_000, 13_000)]


@tiny
async def test_waits_add_up_and_reach_through_a_stream_without_work():
    sim, a, b, c = current_simulation(), await CreateStream(), await CreateStream(), await CreateStream()
    one, two, three = await CreateEvent(), await CreateEvent(), await CreateEvent()
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    await RecordEvent(one, a)
    await LaunchKernel(busy("long", 20), 1, (), b)
    await RecordEvent(two, b)
    await StreamWaitEvent(c, one)
    await StreamWaitEvent(c, two)
    await RecordEvent(three, c)  # nothing was ever queued in c
    await LaunchKernel(B, 1, (), c)
    assert await QueryEventStatus(three) is Status.NOT_READY
    await SynchronizeEvent(three)
    assert history(sim, begin) == [("A", 1_000, 11_000), ("long", 3_000, 23_000)]
    assert calls(sim, begin)[-1] == ("SynchronizeEvent", 8_700, 25_000)
    await SynchronizeDevice()
    assert history(sim, begin)[-1] == ("B", 23_000, 33_000)


@tiny
async def test_sync_of_an_event_does_not_wait_for_later_work():
    sim, a, event = current_simulation(), await CreateStream(), await CreateEvent()
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    completion = await RecordEvent(event, a)
    await LaunchKernel(B, 1, (), a)
    assert await QueryEventStatus(event) is Status.NOT_READY
    await SynchronizeEvent(event)
    assert (sim.now_ns - begin, completion.done) == (13_000, True)
    assert await QueryEventStatus(event) is Status.COMPLETE
    assert history(sim, begin) == [("A", 1_000, 11_000)]


@tiny
async def test_a_record_can_be_awaited():
    sim, a, event = current_simulation(), await CreateStream(), await CreateEvent()
    await LaunchKernel(A, 1, (), a)
    begin = sim.now_ns
    await (await RecordEvent(event, a))
    assert sim.now_ns - begin == 12_000


@tiny
async def test_elapsed_time_is_the_devices_in_milliseconds():
    a, start, end = await CreateStream(), await CreateEvent(), await CreateEvent()
    await RecordEvent(start, a)
    await LaunchKernel(busy("long", 2_500), 1, (), a)
    await RecordEvent(end, a)
    await SynchronizeStream(a)
    assert await EventElapsedTime(start, end) == 2.501  # the launch took the host 1 us, before which nothing ran
    assert await EventElapsedTime(end, start) == -2.501
    assert await EventElapsedTime(end, end) == 0


@tiny
async def test_elapsed_time_of_what_has_no_time_is_refused():
    a, never, pending = await CreateStream(), await CreateEvent(), await CreateEvent()
    mute, done = await CreateEvent(timing=False), await CreateEvent()
    for event in (mute, done):
        await RecordEvent(event, a)
    await LaunchKernel(A, 1, (), a)
    await RecordEvent(pending, a)
    sim = current_simulation()
    for pair, kind, text in (
        ((never, done), Kind.NOT_RECORDED, f"<Event 1 made at {never.made} never recorded> has no time"),
        ((done, never), Kind.NOT_RECORDED, "RecordEvent()"),
        ((done, mute), Kind.NO_TIMING, "created without timing; create it with CreateEvent(timing=True)"),
        ((done, pending), Kind.NO_TIME_YET, f"<Event 2 made at {pending.made} pending> has no time yet"),
    ):
        begin = sim.now_ns
        with pytest.raises(acl_py.AclError) as caught:
            await EventElapsedTime(*pair)
        assert (caught.value.kind, text in str(caught.value)) == (kind, True)
        assert calls(sim, begin) == [("EventElapsedTime", 0, 1_000)]  # the call took its time, and left a row


@tiny
async def test_elapsed_time_needs_two_events_of_one_device():
    here = await CreateEvent()
    await RecordEvent(here)
    await SetDevice(1)
    there = await CreateEvent()
    await RecordEvent(there)
    with refused(Kind.INVALID_HANDLE, here.made, there.made, "one device"):
        await EventElapsedTime(here, there)


@tiny
async def test_a_record_needs_a_stream_of_the_events_device_and_a_wait_does_not():
    sim, a, event = current_simulation(), await CreateStream(), await CreateEvent()
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    await RecordEvent(event, a)
    await SetDevice(1)
    b = await CreateStream()
    with refused(Kind.INVALID_HANDLE, "different devices", "a stream of its own device"):
        await RecordEvent(event, b)
    await StreamWaitEvent(b, event)
    await LaunchKernel(B, 1, (), b)
    await SynchronizeEvent(event)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@tiny
async def test_a_destroyed_event_is_refused_by_every_verb():
    a, event, other = await CreateStream(), await CreateEvent(), await CreateEvent()
    await DestroyEvent(event)
    for verb in (
        lambda: RecordEvent(event, a),
        lambda: StreamWaitEvent(a, event),
        lambda: QueryEventStatus(event),
        lambda: SynchronizeEvent(event),
        lambda: EventElapsedTime(event, other),
        lambda: EventElapsedTime(other, event),
        lambda: DestroyEvent(event),
    ):
        with refused(
            Kind.INVALID_HANDLE, f"<Event 1 made at {event.made} destroyed at {event.destroyed}>", "CreateEvent()"
        ):
            await verb()


@pytest.mark.parametrize("wrong", [None, 3, "event", object])
@tiny
async def test_what_is_no_event_is_a_type_error(wrong):
    a, event = await CreateStream(), await CreateEvent()
    for verb in (
        lambda: RecordEvent(wrong, a),
        lambda: StreamWaitEvent(a, wrong),
        lambda: QueryEventStatus(wrong),
        lambda: SynchronizeEvent(wrong),
        lambda: EventElapsedTime(event, wrong),
        lambda: DestroyEvent(wrong),
    ):
        with misused(TypeError, "an event must be what CreateEvent"):
            await verb()


@tiny
async def test_an_event_outlives_the_stream_it_was_recorded_in():
    sim, a, b, event = current_simulation(), await CreateStream(), await CreateStream(), await CreateEvent()
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    await RecordEvent(event, a)
    await DestroyStream(a)
    await StreamWaitEvent(b, event)
    await LaunchKernel(B, 1, (), b)
    await SynchronizeEvent(event)
    await SynchronizeStream(b)
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


def test_cudas_names_are_the_same_verbs():
    assert acl_py.EventRecord is RecordEvent
    assert acl_py.EventQuery is QueryEventStatus
    assert acl_py.EventSynchronize is SynchronizeEvent
