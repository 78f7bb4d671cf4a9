"""The table of the three event classes, a test for each row and class.

A is what CreateEvent makes, B what CreateEventWithFlag makes, C what CreateEventExWithFlag makes.
"""

from dataclasses import replace

import pytest
from histories import busy, history, refused, tiny

import acl_py
from acl_py import (
    AclError,
    CreateEvent,
    CreateEventExWithFlag,
    CreateEventWithFlag,
    CreateStream,
    CreateStreamWithConfig,
    DeadlockError,
    DestroyEvent,
    EventElapsedTime,
    EventFlag,
    GetEventAvailNum,
    GetEventTimestamp,
    HostWork,
    Kind,
    LaunchKernel,
    QueryEventStatus,
    QueryEventWaitStatus,
    RecordEvent,
    ResetEvent,
    Status,
    StreamFlag,
    StreamWaitEvent,
    SynchronizeDevice,
    SynchronizeEvent,
    SynchronizeStream,
    current_simulation,
)
from device_model.profile import load

A, B = busy("A", 10), busy("B", 10)
acl = tiny(rules="acl")
SYNC, TIMED = EventFlag.SYNC, EventFlag.SYNC | EventFlag.TIME_LINE


async def make(class_, flag=TIMED):
    if class_ == "A":
        return await CreateEvent()
    return await (CreateEventWithFlag if class_ == "B" else CreateEventExWithFlag)(flag)


# --- a wait before any record


@acl
async def test_a_wait_before_any_record_is_an_error_for_class_a():
    stream, event = await CreateStream(), await CreateEvent()
    with refused(Kind.WAIT_WITHOUT_RECORD, event.made, "record it first") as caught:
        await StreamWaitEvent(stream, event)
    assert caught.value.code == 107000


@acl
async def test_a_wait_before_any_record_waits_for_a_future_one_with_class_b():
    sim, a, b, event = current_simulation(), await CreateStream(), await CreateStream(), await make("B")
    begin = sim.now_ns
    await StreamWaitEvent(b, event)
    await LaunchKernel(B, 1, (), b)
    await LaunchKernel(A, 1, (), a)
    await RecordEvent(event, a)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 3_000, 13_000), ("B", 13_000, 23_000)]


@acl
async def test_a_wait_without_a_future_record_is_a_deadlock_with_class_b():
    stream, event = await CreateStream(), await make("B")
    await StreamWaitEvent(stream, event)
    await LaunchKernel(B, 1, (), stream)
    with pytest.raises(DeadlockError, match="SynchronizeStream"):
        await SynchronizeStream(stream)


@acl
async def test_a_wait_before_any_record_has_no_effect_with_class_c():
    sim, stream, event = current_simulation(), await CreateStream(), await make("C")
    begin = sim.now_ns
    await StreamWaitEvent(stream, event)
    await LaunchKernel(B, 1, (), stream)
    await SynchronizeStream(stream)
    assert history(sim, begin) == [("B", 2_000, 12_000)]


# --- after a record


@pytest.mark.parametrize("class_", "ABC")
@acl
async def test_a_wait_after_a_record_that_is_complete_passes(class_):
    sim, a, b, event = current_simulation(), await CreateStream(), await CreateStream(), await make(class_)
    await RecordEvent(event, a)
    await SynchronizeStream(a)
    begin = sim.now_ns
    await StreamWaitEvent(b, event)
    await LaunchKernel(B, 1, (), b)
    await SynchronizeDevice()
    assert history(sim, begin) == [("B", 2_000, 12_000)]


@pytest.mark.parametrize("class_", "ABC")
@acl
async def test_a_wait_holds_back_all_later_work_of_its_stream_and_several_may_wait(class_):
    sim, a, b, c = current_simulation(), await CreateStream(), await CreateStream(), await CreateStream()
    event = await make(class_)
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    await RecordEvent(event, a)
    for stream in (b, c):
        await StreamWaitEvent(stream, event)
        await LaunchKernel(B, 1, (), stream)
    await LaunchKernel(B, 1, (), b)
    await SynchronizeDevice()
    assert history(sim, begin) == [
        ("A", 1_000, 11_000), ("B", 11_000, 21_000), ("B", 11_000, 21_000), ("B", 21_000, 31_000),
    ]  # fmt: skip


@pytest.mark.parametrize("class_", "ABC")
@acl
async def test_a_wait_on_the_stream_that_recorded_passes(class_):
    sim, stream, event = current_simulation(), await CreateStream(), await make(class_)
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), stream)
    await RecordEvent(event, stream)
    await StreamWaitEvent(stream, event)
    await LaunchKernel(B, 1, (), stream)
    await SynchronizeStream(stream)
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@pytest.mark.parametrize("class_", "AC")
@acl
async def test_recorded_again_the_last_record_counts_and_earlier_waits_keep_theirs(class_):
    sim, a, b, c = current_simulation(), await CreateStream(), await CreateStream(), await CreateStream()
    event = await make(class_)
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    await RecordEvent(event, a)
    await StreamWaitEvent(b, event)
    await LaunchKernel(A, 1, (), a)
    await RecordEvent(event, a)
    await StreamWaitEvent(c, event)
    await LaunchKernel(B, 1, (), b)
    await LaunchKernel(B, 1, (), c)
    await SynchronizeDevice()
    assert history(sim, begin) == [
        ("A", 1_000, 11_000), ("A", 11_000, 21_000), ("B", 11_000, 21_000), ("B", 21_000, 31_000),
    ]  # fmt: skip


@acl
async def test_recorded_again_without_a_reset_a_wait_passes_on_the_stale_flag_of_class_b():
    sim, a, b, event = current_simulation(), await CreateStream(), await CreateStream(), await make("B")
    await RecordEvent(event, a)
    await SynchronizeStream(a)
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    await RecordEvent(event, a)  # the flag is set already
    await StreamWaitEvent(b, event)
    await LaunchKernel(B, 1, (), b)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 4_000, 14_000)]


@acl
async def test_a_reset_behind_the_wait_makes_class_b_good_for_another_round():
    sim, a, b, event = current_simulation(), await CreateStream(), await CreateStream(), await make("B")
    begin = sim.now_ns
    for _ in range(2):
        await LaunchKernel(A, 1, (), a)
        await RecordEvent(event, a)
        await StreamWaitEvent(b, event)
        await ResetEvent(event, b)
        await LaunchKernel(B, 1, (), b)
    await SynchronizeDevice()
    assert history(sim, begin) == [
        ("A", 1_000, 11_000), ("A", 11_000, 21_000), ("B", 11_000, 21_000), ("B", 21_000, 31_000),
    ]  # fmt: skip


@acl
async def test_with_two_waiters_an_early_reset_makes_the_other_wait_for_ever_with_class_b():
    a, b, c = await CreateStream(), await CreateStream(), await CreateStream()
    event = await make("B")
    await RecordEvent(event, a)
    await StreamWaitEvent(b, event)
    await ResetEvent(event, b)
    await StreamWaitEvent(c, event)
    await SynchronizeStream(b)
    with pytest.raises(DeadlockError):
        await SynchronizeStream(c)


# --- reset and queries


@acl
async def test_reset_of_class_a_is_accepted_and_does_nothing():
    a, b, event = await CreateStream(), await CreateStream(), await make("A")
    await RecordEvent(event, a)
    await StreamWaitEvent(b, event)
    await ResetEvent(event, b)
    await StreamWaitEvent(b, event)
    await SynchronizeDevice()


@acl
async def test_reset_and_the_wait_status_are_not_supported_for_class_c():
    event = await make("C")
    for verb, text in ((ResetEvent, "has no flag"), (QueryEventWaitStatus, "does not count its waits")):
        with refused(Kind.NOT_SUPPORTED, event.made, text) as caught:
            await verb(event)
        assert caught.value.code == 207000


@pytest.mark.parametrize("class_", "AB")
@acl
async def test_the_wait_status_tells_of_waits_that_are_not_over(class_):
    a, b, event = await CreateStream(), await CreateStream(), await make(class_)
    assert await QueryEventWaitStatus(event) is Status.COMPLETE
    await LaunchKernel(busy("long", 100), 1, (), a)
    await RecordEvent(event, a)
    await StreamWaitEvent(b, event)
    assert await QueryEventWaitStatus(event) is Status.NOT_READY
    await SynchronizeDevice()
    assert await QueryEventWaitStatus(event) is Status.COMPLETE


@pytest.mark.parametrize(
    ("class_", "status"), [("A", Status.NOT_READY), ("B", Status.NOT_READY), ("C", Status.COMPLETE)]
)
@acl
async def test_the_status_of_an_event_never_recorded(class_, status):
    event = await make(class_)
    begin = current_simulation().now_ns
    try:
        assert await QueryEventStatus(event) is status
    except DeadlockError:  # a poll that nothing can end
        assert status is Status.NOT_READY
    assert current_simulation().now_ns - begin == 700


@pytest.mark.parametrize("class_", "ABC")
@acl
async def test_the_status_follows_the_last_record(class_):
    stream, event = await CreateStream(), await make(class_)
    await LaunchKernel(A, 1, (), stream)
    await RecordEvent(event, stream)
    assert await QueryEventStatus(event) is Status.NOT_READY
    await SynchronizeEvent(event)
    assert await QueryEventStatus(event) is Status.COMPLETE


@pytest.mark.parametrize("class_", "ABC")
@acl
async def test_synchronizing_with_an_event_never_recorded_returns_at_once(class_):
    sim, event = current_simulation(), await make(class_)
    begin = sim.now_ns
    await SynchronizeEvent(event)
    assert sim.now_ns - begin == 300


# --- model-bound streams


@pytest.mark.parametrize("class_", "AC")
@acl
async def test_on_a_persistent_stream_classes_a_and_c_are_not_supported(class_):
    stream, event = await CreateStreamWithConfig(0, StreamFlag.PERSISTENT), await make(class_)
    for verb, args in (
        (RecordEvent, (event, stream)), (StreamWaitEvent, (stream, event)), (ResetEvent, (event, stream)),
    ):  # fmt: skip
        with refused(Kind.NOT_SUPPORTED, event.made, "CreateEventWithFlag"):
            await verb(*args)


@acl
async def test_on_a_persistent_stream_class_b_is_good():
    stream, event = await CreateStreamWithConfig(0, StreamFlag.PERSISTENT), await make("B")
    await RecordEvent(event, stream)
    await StreamWaitEvent(stream, event)
    await ResetEvent(event, stream)


# --- times


@pytest.mark.parametrize("class_", "ABC")
@acl
async def test_elapsed_time_in_milliseconds(class_):
    stream, start, end = await CreateStream(), await make(class_), await make(class_)
    await RecordEvent(start, stream)
    await LaunchKernel(busy("long", 2_000), 1, (), stream)
    await RecordEvent(end, stream)
    await SynchronizeStream(stream)
    assert await EventElapsedTime(start, end) == pytest.approx(2.001)
    assert await EventElapsedTime(end, start) == pytest.approx(-2.001)
    assert await GetEventTimestamp(end) - await GetEventTimestamp(start) == 2_001


@pytest.mark.parametrize("class_", "BC")
@acl
async def test_elapsed_time_needs_time_line(class_):
    event = await make(class_, SYNC)
    await RecordEvent(event)
    with pytest.raises(AclError) as caught:
        await EventElapsedTime(event, event)
    assert (caught.value.code, "TIME_LINE" in str(caught.value)) == (107006, True)


@acl
async def test_elapsed_time_of_what_was_never_recorded_and_of_what_is_pending():
    event = await CreateEvent()
    with pytest.raises(AclError) as caught:
        await EventElapsedTime(event, event)
    assert caught.value.code == 507000
    await LaunchKernel(A, 1)
    await RecordEvent(event)
    with pytest.raises(AclError) as caught:
        await EventElapsedTime(event, event)
    assert caught.value.code == 107006


# --- flags, destruction, limits


@pytest.mark.parametrize("class_", "BC")
@acl
async def test_without_sync_an_event_cannot_be_waited_for_nor_reset(class_):
    stream, event = await CreateStream(), await make(class_, EventFlag.TIME_LINE)
    await RecordEvent(event, stream)
    for verb, args in ((StreamWaitEvent, (stream, event)), (ResetEvent, (event, stream))):
        with pytest.raises(AclError) as caught:
            await verb(*args)
        assert caught.value.code == 207000


@acl
async def test_flags_that_no_host_can_use():
    with refused(Kind.INVALID_VALUE, "0x10"):
        await CreateEventWithFlag(EventFlag.DEVICE_USE_ONLY)
    with refused(Kind.INVALID_VALUE, "0x0"):
        await CreateEventExWithFlag(0)
    with refused(Kind.NOT_SUPPORTED, "IPC"):
        await CreateEventExWithFlag(EventFlag.IPC)
    for flag in (EventFlag.IPC, EventFlag.EXTERNAL):
        with refused(Kind.INVALID_VALUE, "alone"):
            await CreateEventWithFlag(EventFlag.SYNC | flag)
    with refused(Kind.INVALID_VALUE, "CreateEventWithFlag"):
        await CreateEventExWithFlag(EventFlag.EXTERNAL)


@acl
async def test_an_external_event_is_for_streams_and_not_for_the_host():
    sim, a, b, event = current_simulation(), await CreateStream(), await CreateStream(), await make("B", 0x20)
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    await RecordEvent(event, a)
    await StreamWaitEvent(b, event)
    await LaunchKernel(B, 1, (), b)
    for verb in (SynchronizeEvent, QueryEventStatus, QueryEventWaitStatus):
        with refused(Kind.NOT_SUPPORTED, event.made, "EXTERNAL"):
            await verb(event)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@pytest.mark.parametrize("class_", "ABC")
@acl
async def test_destroying_an_event_before_its_record_is_over_does_not_wait(class_):
    sim, a, b, event = current_simulation(), await CreateStream(), await CreateStream(), await make(class_)
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    await RecordEvent(event, a)
    await StreamWaitEvent(b, event)
    await DestroyEvent(event)
    assert sim.now_ns - begin == 4_000
    await LaunchKernel(B, 1, (), b)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@tiny(rules="cuda")
async def test_cuda_has_one_class_of_events():
    for verb in (CreateEventWithFlag, CreateEventExWithFlag):
        with refused(Kind.NOT_SUPPORTED, "use CreateEvent(), or rules='acl'"):
            await verb(SYNC)
    event = await CreateEvent()
    for verb in (ResetEvent, QueryEventWaitStatus):
        with refused(Kind.NOT_SUPPORTED):
            await verb(event)


@acl
async def test_the_vendors_example_of_event_status_0_0_1():
    """Asked before the record, while its stream waits for a kernel, and after the synchronisation."""
    stream, event = await CreateStream(), await CreateEvent()
    await LaunchKernel(busy("long", 1_000), 1, (), stream)
    statuses = [await QueryEventStatus(event)]
    await RecordEvent(event, stream)
    statuses.append(await QueryEventStatus(event))
    await SynchronizeStream(stream)
    statuses.append(await QueryEventStatus(event))
    assert statuses == [Status.NOT_READY, Status.NOT_READY, Status.COMPLETE]


def few_events(limit):
    """The tiny device with that many event ids."""
    profile = load("tiny")
    return replace(profile, limits=replace(profile.limits, events=limit))


def test_class_b_holds_an_id_while_it_lives():
    async def main():
        first = await make("B")
        await make("B")
        with refused(Kind.NO_EVENT_LEFT, "all 2 events") as caught:
            await make("B")
        assert caught.value.code == 207007
        assert await GetEventAvailNum() == 0
        await DestroyEvent(first)
        assert await GetEventAvailNum() == 1
        await make("B")

    acl_py.run(main, device=few_events(2), rules="acl")


@pytest.mark.parametrize("class_", "AC")
def test_a_record_waits_while_no_event_id_is_left(class_):
    async def main():
        sim, stream = current_simulation(), await CreateStream()
        events = [await make(class_) for _ in range(3)]  # making them takes no id
        begin = sim.now_ns
        for event in events[:2]:
            await LaunchKernel(A, 1, (), stream)
            await RecordEvent(event, stream)
        assert sim.now_ns - begin == 4_000
        await RecordEvent(events[2], stream)
        assert sim.now_ns - begin == 12_000  # the first kernel is over, and so the first record
        await SynchronizeDevice()
        await HostWork(1)
        for event in events[:2]:  # all ids are back
            await RecordEvent(event, stream)

    acl_py.run(main, device=few_events(2), rules="acl")
