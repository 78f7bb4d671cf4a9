"""The table of the three event classes, a test for each row and class.

A is what CreateEvent makes, B what CreateEventWithFlag makes, C what CreateEventExWithFlag makes.
"""

from dataclasses import replace

import pytest
from histories import busy, history, refused, tiny, tiny_acl

import acl_py as acl
from device_model.profile import load

A, B = busy("A", 10), busy("B", 10)
SYNC, TIMED = acl.EventFlag.SYNC, acl.EventFlag.SYNC | acl.EventFlag.TIME_LINE


async def make(class_, flag=TIMED):
    if class_ == "A":
        return await acl.CreateEvent()
    return await (acl.CreateEventWithFlag if class_ == "B" else acl.CreateEventExWithFlag)(flag)


# --- a wait before any record


@tiny_acl
async def test_a_wait_before_any_record_is_an_error_for_class_a():
    stream, event = await acl.CreateStream(), await acl.CreateEvent()
    with refused(acl.Kind.WAIT_WITHOUT_RECORD, event.made, "record it first") as caught:
        await acl.StreamWaitEvent(stream, event)
    assert caught.value.code == 107000


@tiny_acl
async def test_a_wait_before_any_record_waits_for_a_future_one_with_class_b():
    sim, a, b, event = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream(), await make("B")
    begin = sim.now_ns
    await acl.StreamWaitEvent(b, event)
    await acl.LaunchKernel(B, 1, (), b)
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 3_000, 13_000), ("B", 13_000, 23_000)]


@tiny_acl
async def test_a_wait_without_a_future_record_is_a_deadlock_with_class_b():
    stream, event = await acl.CreateStream(), await make("B")
    await acl.StreamWaitEvent(stream, event)
    await acl.LaunchKernel(B, 1, (), stream)
    with pytest.raises(acl.DeadlockError, match="SynchronizeStream"):
        await acl.SynchronizeStream(stream)


@tiny_acl
async def test_a_wait_before_any_record_has_no_effect_with_class_c():
    sim, stream, event = acl.current_simulation(), await acl.CreateStream(), await make("C")
    begin = sim.now_ns
    await acl.StreamWaitEvent(stream, event)
    await acl.LaunchKernel(B, 1, (), stream)
    await acl.SynchronizeStream(stream)
    assert history(sim, begin) == [("B", 2_000, 12_000)]


# --- after a record


@pytest.mark.parametrize("class_", "ABC")
@tiny_acl
async def test_a_wait_after_a_record_that_is_complete_passes(class_):
    sim, a, b, event = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream(), await make(class_)
    await acl.RecordEvent(event, a)
    await acl.SynchronizeStream(a)
    begin = sim.now_ns
    await acl.StreamWaitEvent(b, event)
    await acl.LaunchKernel(B, 1, (), b)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("B", 2_000, 12_000)]


@pytest.mark.parametrize("class_", "ABC")
@tiny_acl
async def test_a_wait_holds_back_all_later_work_of_its_stream_and_several_may_wait(class_):
    sim, a, b, c = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateStream(),
    )
    event = await make(class_)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordEvent(event, a)
    for stream in (b, c):
        await acl.StreamWaitEvent(stream, event)
        await acl.LaunchKernel(B, 1, (), stream)
    await acl.LaunchKernel(B, 1, (), b)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [
        ("A", 1_000, 11_000), ("B", 11_000, 21_000), ("B", 11_000, 21_000), ("B", 21_000, 31_000),
    ]  # fmt: skip


@pytest.mark.parametrize("class_", "ABC")
@tiny_acl
async def test_a_wait_on_the_stream_that_recorded_passes(class_):
    sim, stream, event = acl.current_simulation(), await acl.CreateStream(), await make(class_)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), stream)
    await acl.RecordEvent(event, stream)
    await acl.StreamWaitEvent(stream, event)
    await acl.LaunchKernel(B, 1, (), stream)
    await acl.SynchronizeStream(stream)
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@pytest.mark.parametrize("class_", "AC")
@tiny_acl
async def test_recorded_again_the_last_record_counts_and_earlier_waits_keep_theirs(class_):
    sim, a, b, c = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateStream(),
    )
    event = await make(class_)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.StreamWaitEvent(b, event)
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.StreamWaitEvent(c, event)
    await acl.LaunchKernel(B, 1, (), b)
    await acl.LaunchKernel(B, 1, (), c)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [
        ("A", 1_000, 11_000), ("A", 11_000, 21_000), ("B", 11_000, 21_000), ("B", 21_000, 31_000),
    ]  # fmt: skip


@tiny_acl
async def test_recorded_again_without_a_reset_a_wait_passes_on_the_stale_flag_of_class_b():
    sim, a, b, event = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream(), await make("B")
    await acl.RecordEvent(event, a)
    await acl.SynchronizeStream(a)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordEvent(event, a)  # the flag is set already
    await acl.StreamWaitEvent(b, event)
    await acl.LaunchKernel(B, 1, (), b)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 4_000, 14_000)]


@tiny_acl
async def test_a_reset_behind_the_wait_makes_class_b_good_for_another_round():
    sim, a, b, event = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream(), await make("B")
    begin = sim.now_ns
    for _ in range(2):
        await acl.LaunchKernel(A, 1, (), a)
        await acl.RecordEvent(event, a)
        await acl.StreamWaitEvent(b, event)
        await acl.ResetEvent(event, b)
        await acl.LaunchKernel(B, 1, (), b)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [
        ("A", 1_000, 11_000), ("A", 11_000, 21_000), ("B", 11_000, 21_000), ("B", 21_000, 31_000),
    ]  # fmt: skip


@tiny_acl
async def test_with_two_waiters_an_early_reset_makes_the_other_wait_for_ever_with_class_b():
    a, b, c = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateStream()
    event = await make("B")
    await acl.RecordEvent(event, a)
    await acl.StreamWaitEvent(b, event)
    await acl.ResetEvent(event, b)
    await acl.StreamWaitEvent(c, event)
    await acl.SynchronizeStream(b)
    with pytest.raises(acl.DeadlockError):
        await acl.SynchronizeStream(c)


# --- reset and queries


@tiny_acl
async def test_reset_of_class_a_is_accepted_and_does_nothing():
    a, b, event = await acl.CreateStream(), await acl.CreateStream(), await make("A")
    await acl.RecordEvent(event, a)
    await acl.StreamWaitEvent(b, event)
    await acl.ResetEvent(event, b)
    await acl.StreamWaitEvent(b, event)
    await acl.SynchronizeDevice()


@tiny_acl
async def test_reset_and_the_wait_status_are_not_supported_for_class_c():
    event = await make("C")
    for verb, text in ((acl.ResetEvent, "has no flag"), (acl.QueryEventWaitStatus, "does not count its waits")):
        with refused(acl.Kind.NOT_SUPPORTED, event.made, text) as caught:
            await verb(event)
        assert caught.value.code == 207000


@pytest.mark.parametrize("class_", "AB")
@tiny_acl
async def test_the_wait_status_tells_of_waits_that_are_not_over(class_):
    a, b, event = await acl.CreateStream(), await acl.CreateStream(), await make(class_)
    assert await acl.QueryEventWaitStatus(event) is acl.Status.COMPLETE
    await acl.LaunchKernel(busy("long", 100), 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.StreamWaitEvent(b, event)
    assert await acl.QueryEventWaitStatus(event) is acl.Status.NOT_READY
    await acl.SynchronizeDevice()
    assert await acl.QueryEventWaitStatus(event) is acl.Status.COMPLETE


@pytest.mark.parametrize(
    ("class_", "status"), [("A", acl.Status.NOT_READY), ("B", acl.Status.NOT_READY), ("C", acl.Status.COMPLETE)]
)
@tiny_acl
async def test_the_status_of_an_event_never_recorded(class_, status):
    event = await make(class_)
    begin = acl.current_simulation().now_ns
    try:
        assert await acl.QueryEventStatus(event) is status
    except acl.DeadlockError:  # a poll that nothing can end
        assert status is acl.Status.NOT_READY
    assert acl.current_simulation().now_ns - begin == 700


@pytest.mark.parametrize("class_", "ABC")
@tiny_acl
async def test_the_status_follows_the_last_record(class_):
    stream, event = await acl.CreateStream(), await make(class_)
    await acl.LaunchKernel(A, 1, (), stream)
    await acl.RecordEvent(event, stream)
    assert await acl.QueryEventStatus(event) is acl.Status.NOT_READY
    await acl.SynchronizeEvent(event)
    assert await acl.QueryEventStatus(event) is acl.Status.COMPLETE


@pytest.mark.parametrize("class_", "ABC")
@tiny_acl
async def test_synchronizing_with_an_event_never_recorded_returns_at_once(class_):
    sim, event = acl.current_simulation(), await make(class_)
    begin = sim.now_ns
    await acl.SynchronizeEvent(event)
    assert sim.now_ns - begin == 300


# --- model-bound streams


@pytest.mark.parametrize("class_", "AC")
@tiny_acl
async def test_on_a_persistent_stream_classes_a_and_c_are_not_supported(class_):
    stream, event = await acl.CreateStreamWithConfig(0, acl.StreamFlag.PERSISTENT), await make(class_)
    for verb, args in (
        (acl.RecordEvent, (event, stream)), (acl.StreamWaitEvent, (stream, event)), (acl.ResetEvent, (event, stream)),
    ):  # fmt: skip
        with refused(acl.Kind.NOT_SUPPORTED, event.made, "CreateEventWithFlag"):
            await verb(*args)


@tiny_acl
async def test_on_a_persistent_stream_class_b_is_good():
    stream, event = await acl.CreateStreamWithConfig(0, acl.StreamFlag.PERSISTENT), await make("B")
    await acl.RecordEvent(event, stream)
    await acl.StreamWaitEvent(stream, event)
    await acl.ResetEvent(event, stream)


# --- times


@pytest.mark.parametrize("class_", "ABC")
@tiny_acl
async def test_elapsed_time_in_milliseconds(class_):
    stream, start, end = await acl.CreateStream(), await make(class_), await make(class_)
    await acl.RecordEvent(start, stream)
    await acl.LaunchKernel(busy("long", 2_000), 1, (), stream)
    await acl.RecordEvent(end, stream)
    await acl.SynchronizeStream(stream)
    assert await acl.EventElapsedTime(start, end) == pytest.approx(2.001)
    assert await acl.EventElapsedTime(end, start) == pytest.approx(-2.001)
    assert await acl.GetEventTimestamp(end) - await acl.GetEventTimestamp(start) == 2_001


@pytest.mark.parametrize("class_", "BC")
@tiny_acl
async def test_elapsed_time_needs_time_line(class_):
    event = await make(class_, SYNC)
    await acl.RecordEvent(event)
    with pytest.raises(acl.AclError) as caught:
        await acl.EventElapsedTime(event, event)
    assert (caught.value.code, "TIME_LINE" in str(caught.value)) == (107006, True)


@tiny_acl
async def test_elapsed_time_of_what_was_never_recorded_and_of_what_is_pending():
    event = await acl.CreateEvent()
    with pytest.raises(acl.AclError) as caught:
        await acl.EventElapsedTime(event, event)
    assert caught.value.code == 507000
    await acl.LaunchKernel(A, 1)
    await acl.RecordEvent(event)
    with pytest.raises(acl.AclError) as caught:
        await acl.EventElapsedTime(event, event)
    assert caught.value.code == 107006


# --- flags, destruction, limits


@pytest.mark.parametrize("class_", "BC")
@tiny_acl
async def test_without_sync_an_event_cannot_be_waited_for_nor_reset(class_):
    stream, event = await acl.CreateStream(), await make(class_, acl.EventFlag.TIME_LINE)
    await acl.RecordEvent(event, stream)
    for verb, args in ((acl.StreamWaitEvent, (stream, event)), (acl.ResetEvent, (event, stream))):
        with pytest.raises(acl.AclError) as caught:
            await verb(*args)
        assert caught.value.code == 207000


@tiny_acl
async def test_flags_that_no_host_can_use():
    with refused(acl.Kind.INVALID_VALUE, "0x10"):
        await acl.CreateEventWithFlag(acl.EventFlag.DEVICE_USE_ONLY)
    with refused(acl.Kind.INVALID_VALUE, "0x0"):
        await acl.CreateEventExWithFlag(0)
    with refused(acl.Kind.NOT_SUPPORTED, "IPC"):
        await acl.CreateEventExWithFlag(acl.EventFlag.IPC)
    for flag in (acl.EventFlag.IPC, acl.EventFlag.EXTERNAL):
        with refused(acl.Kind.INVALID_VALUE, "alone"):
            await acl.CreateEventWithFlag(acl.EventFlag.SYNC | flag)
    with refused(acl.Kind.INVALID_VALUE, "CreateEventWithFlag"):
        await acl.CreateEventExWithFlag(acl.EventFlag.EXTERNAL)


@tiny_acl
async def test_an_external_event_is_for_streams_and_not_for_the_host():
    sim, a, b, event = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await make("B", 0x20),
    )
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.StreamWaitEvent(b, event)
    await acl.LaunchKernel(B, 1, (), b)
    for verb in (acl.SynchronizeEvent, acl.QueryEventStatus, acl.QueryEventWaitStatus):
        with refused(acl.Kind.NOT_SUPPORTED, event.made, "EXTERNAL"):
            await verb(event)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@pytest.mark.parametrize("class_", "ABC")
@tiny_acl
async def test_destroying_an_event_before_its_record_is_over_does_not_wait(class_):
    sim, a, b, event = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream(), await make(class_)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.StreamWaitEvent(b, event)
    await acl.DestroyEvent(event)
    assert sim.now_ns - begin == 4_000
    await acl.LaunchKernel(B, 1, (), b)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@tiny(rules="cuda")
async def test_cuda_has_one_class_of_events():
    for verb in (acl.CreateEventWithFlag, acl.CreateEventExWithFlag):
        with refused(acl.Kind.NOT_SUPPORTED, "use CreateEvent(), or rules='acl'"):
            await verb(SYNC)
    event = await acl.CreateEvent()
    for verb in (acl.ResetEvent, acl.QueryEventWaitStatus):
        with refused(acl.Kind.NOT_SUPPORTED):
            await verb(event)


@tiny_acl
async def test_the_vendors_example_of_event_status_0_0_1():
    """Asked before the record, while its stream waits for a kernel, and after the synchronisation."""
    stream, event = await acl.CreateStream(), await acl.CreateEvent()
    await acl.LaunchKernel(busy("long", 1_000), 1, (), stream)
    statuses = [await acl.QueryEventStatus(event)]
    await acl.RecordEvent(event, stream)
    statuses.append(await acl.QueryEventStatus(event))
    await acl.SynchronizeStream(stream)
    statuses.append(await acl.QueryEventStatus(event))
    assert statuses == [acl.Status.NOT_READY, acl.Status.NOT_READY, acl.Status.COMPLETE]


def few_events(limit):
    """The tiny device with that many event ids."""
    profile = load("tiny")
    return replace(profile, limits=replace(profile.limits, events=limit))


def test_class_b_holds_an_id_while_it_lives():
    async def main():
        first = await make("B")
        await make("B")
        with refused(acl.Kind.NO_EVENT_LEFT, "all 2 events") as caught:
            await make("B")
        assert caught.value.code == 207007
        assert await acl.GetEventAvailNum() == 0
        await acl.DestroyEvent(first)
        assert await acl.GetEventAvailNum() == 1
        await make("B")

    acl.run(main, device=few_events(2), rules="acl")


@pytest.mark.parametrize("class_", "AC")
def test_a_record_waits_while_no_event_id_is_left(class_):
    async def main():
        sim, stream = acl.current_simulation(), await acl.CreateStream()
        events = [await make(class_) for _ in range(3)]  # making them takes no id
        begin = sim.now_ns
        for event in events[:2]:
            await acl.LaunchKernel(A, 1, (), stream)
            await acl.RecordEvent(event, stream)
        assert sim.now_ns - begin == 4_000
        await acl.RecordEvent(events[2], stream)
        assert sim.now_ns - begin == 12_000  # the first kernel is over, and so the first record
        await acl.SynchronizeDevice()
        await acl.HostWork(1)
        for event in events[:2]:  # all ids are back
            await acl.RecordEvent(event, stream)

    acl.run(main, device=few_events(2), rules="acl")
