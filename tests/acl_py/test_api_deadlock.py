"""Deadlocks: each waiter is told the chain of waits, with the lines, and what would break it."""

import asyncio
import re
from dataclasses import replace

import numpy as np
import pytest
from histories import H2D, busy, tiny, tiny_acl

import acl_py as acl
from acl_py import faults
from device_model.chains import Relation
from device_model.profile import load

NOTHING = "nothing queued or running can end this wait"
A, B = busy("A", 10), busy("B", 10)


async def flag():
    return await acl.CreateEventWithFlag(acl.EventFlag.SYNC)


def lines(error):
    """The chain, with every line of this file as LINE."""
    return [re.sub(r"test_api_deadlock\.py:\d+", "LINE", line) for line in error.chain]


async def dead(verb, *args):
    with pytest.raises(acl.DeadlockError) as caught:
        await verb(*args)
    return caught.value


@tiny_acl
async def test_two_streams_that_wait_for_one_another():
    a, b, e, f = await acl.CreateStream(), await acl.CreateStream(), await flag(), await flag()
    await acl.StreamWaitEvent(a, e)
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordEvent(f, a)
    await acl.StreamWaitEvent(b, f)
    await acl.LaunchKernel(B, 1, (), b)
    await acl.RecordEvent(e, b)
    error = await dead(acl.SynchronizeStream, b)
    assert lines(error) == [
        "record of Event 1 on stream 2 (LINE) waits for",
        "B on stream 2 (LINE) waits for",
        "wait for Event 2 on stream 2 (LINE) lasts until",
        "record of Event 2 on stream 1 (LINE) waits for",
        "A on stream 1 (LINE) waits for",
        "wait for Event 1 on stream 1 (LINE) lasts until",
        "record of Event 1 on stream 2 (LINE), which closes the circle",
    ]
    assert "to break it: take out the wait for Event 2 on stream 2 (test_api_deadlock.py:" in str(error)


@tiny_acl
async def test_a_wait_for_a_record_that_nobody_makes():
    stream, event = await acl.CreateStream(), await flag()
    await acl.StreamWaitEvent(stream, event)
    for _ in range(5):
        await acl.LaunchKernel(A, 1, (), stream)
    error = await dead(acl.SynchronizeStream, stream)
    assert lines(error) == [
        "A on stream 1 (LINE) waits, with 3 more of its stream, for",
        "A on stream 1 (LINE) waits for",
        "wait for Event 1 on stream 1 (LINE): " + NOTHING,
    ]
    assert "to break it: record Event 1, in a stream that does not wait itself" in str(error)


@tiny_acl
async def test_a_false_dependency_through_a_hardware_queue():
    event, queues = await flag(), acl.current_simulation().runtime.profile.queues.compute
    for _ in range(queues):
        stream = await acl.CreateStream()
        await acl.StreamWaitEvent(stream, event)
        await acl.LaunchKernel(A, 1, (), stream)
    innocent = await acl.CreateStream()
    await acl.LaunchKernel(B, 1, (), innocent)
    error = await dead(acl.SynchronizeStream, innocent)
    first, *_, last = lines(error)
    assert first.startswith("B on stream 5 (LINE) stands behind another stream's work in hardware queue 0")
    assert last.startswith("wait for Event 1 on stream 1 (LINE)")


@tiny_acl
async def test_a_host_that_waits_for_room_behind_a_wait_that_never_ends():
    stream, event = await acl.CreateStream(), await flag()
    await acl.StreamWaitEvent(stream, event)
    for _ in range(acl.current_simulation().runtime.profile.queues.depth):
        await acl.LaunchKernel(A, 1, (), stream)
    error = await dead(acl.LaunchKernel, A, 1, (), stream)
    assert "waits for room in its hardware queue" in str(error)
    assert lines(error) == [
        "there is room in hardware queue 0, but only after",
        "A on stream 1 (LINE) waits for",
        "wait for Event 1 on stream 1 (LINE): " + NOTHING,
    ]
    assert "to break it: record Event 1" in str(error)


def few_ids(ids):
    profile = load("tiny")
    return replace(profile, limits=replace(profile.limits, events=ids))


@tiny(rules="acl", device=few_ids(4))
async def test_a_host_that_waits_for_an_event_id():
    stream, event = await acl.CreateStream(), await flag()
    await acl.StreamWaitEvent(stream, event)
    await acl.LaunchKernel(A, 1, (), stream)
    while stream.context.device.event_ids.free:
        await acl.RecordEvent(await acl.CreateEvent(), stream)
    error = await dead(acl.RecordEvent, await acl.CreateEvent(), stream)
    assert lines(error) == [
        "one of 4 ids is free again, but only after",
        "A on stream 1 (LINE) waits for",
        "wait for Event 1 on stream 1 (LINE): " + NOTHING,
    ]


@tiny_acl
async def test_a_subscriber_for_whom_nothing_comes():
    stream, event = await acl.CreateStream(), await flag()
    await acl.SubscribeReport(None, stream)
    error = await dead(acl.ProcessReport, -1)
    assert lines(error) == ["a callback is due: nothing queued or running can end this wait"]
    assert "to break it: queue one with LaunchCallback()" in str(error)
    await acl.StreamWaitEvent(stream, event)
    await acl.LaunchCallback(print, None, acl.CallbackBlock.BLOCK, stream)
    error = await dead(acl.ProcessReport, -1)
    assert lines(error) == [
        "a callback is due, but only after",
        "callback print on stream 1 (LINE) waits for",
        "wait for Event 1 on stream 1 (LINE): " + NOTHING,
    ]


@tiny
async def test_a_host_that_waits_for_room_to_stage_behind_an_operation_that_hangs():
    stream, x, source = await acl.CreateStream(), await acl.Malloc(4_096), np.zeros(4_096, np.uint8)
    with acl.current_simulation().fault(faults.hang(op="kernel")):
        await acl.LaunchKernel(A, 1, (), stream)
        for _ in range(4):
            await acl.MemcpyAsync(x, 4_096, source, 4_096, H2D, stream)
        error = await dead(acl.MemcpyAsync, x, 4_096, source, 4_096, H2D, stream)
        first, *_, last = lines(error)
        assert first == "there is room in the ring for pageable copies, but only after"
        assert "fault rule" in last
        assert "to break it: remove the fault rule" in str(error)


@tiny_acl
async def test_notifies_words_and_callbacks():
    a, b, c = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateStream()
    memory = await acl.Malloc(64)
    await acl.Memset(memory, 64, 0, 64)
    await acl.WaitAndResetNotify(await acl.CreateNotify(), a)
    await acl.ValueWait(memory, 1, 1, b)
    await acl.SubscribeReport(None, c)
    await acl.LaunchCallback(print, None, acl.CallbackBlock.BLOCK, c)
    for stream, what, remedy in (
        (a, "wait for Notify 1", "record Notify 1"),
        (b, "wait for the word", "write that word"),
        (c, "callback print", "ProcessReport()"),
    ):
        error = await dead(acl.SynchronizeStream, stream)
        assert (len(error.chain), what in error.chain[0], remedy in str(error)) == (1, True, True)


@tiny_acl
async def test_tasks_that_wait_for_one_another_are_named_with_their_lines():
    """One holds a lock and waits for a stream; the other would record, if it had the lock."""
    stream, event, lock = await acl.CreateStream(), await flag(), asyncio.Lock()
    await acl.StreamWaitEvent(stream, event)

    async def holder():
        async with lock:
            await acl.SynchronizeStream(stream)

    async def recorder():
        async with lock:
            await acl.RecordEvent(event)

    async def both():
        async with asyncio.TaskGroup() as group:
            group.create_task(holder(), name="holder")
            group.create_task(recorder(), name="recorder")

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    (error,) = caught.value.exceptions
    assert "task 'holder': SynchronizeStream(stream 1) at" in str(error)
    assert re.search(r"task 'recorder': in Lock.acquire at test_api_deadlock.py:\d+, for another task", str(error))


@tiny_acl
async def test_tasks_that_wait_for_tasks_are_named_with_whom_they_wait_for():
    stream, event = await acl.CreateStream(), await flag()
    await acl.StreamWaitEvent(stream, event)
    told = []

    async def wait():
        told.append(await dead(acl.SynchronizeStream, stream))

    async def group():
        async with asyncio.TaskGroup() as tasks:
            for name in ("ten", "two"):
                tasks.create_task(wait(), name=name)

    outer = asyncio.create_task(group(), name="outer")
    await asyncio.gather(outer)
    for error in told:
        tasks = [line for line in re.sub(r"\S+\.py:\d+", "LINE", str(error)).splitlines() if ", for task" in line]
        assert tasks[0] == "  task 'outer': in TaskGroup.__aexit__ at LINE, for task 'ten', task 'two'"
        assert tasks[1].endswith("at LINE, for task 'outer'")


@tiny_acl
async def test_every_waiter_is_told_its_own_chain():
    waits = []
    for _ in range(3):
        stream, event = await acl.CreateStream(), await flag()
        await acl.StreamWaitEvent(stream, event)
        waits.append(acl.SynchronizeStream(stream))
    errors = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(error) for error in errors] == [acl.DeadlockError] * 3
    assert [f"on stream {number}" in error.chain[-1] for number, error in enumerate(errors, 1)] == [True] * 3


@tiny_acl
async def test_after_a_deadlock_the_runtime_is_good_for_more():
    sim, stream, event = acl.current_simulation(), await acl.CreateStream(), await flag()
    await acl.StreamWaitEvent(stream, event)
    work = await acl.LaunchKernel(A, 1, (), stream)
    await dead(acl.SynchronizeStream, stream)
    before = sim.now_ns
    await acl.RecordEvent(event)
    await acl.SynchronizeDevice()
    assert (work.done, sim.now_ns > before) == (True, True)


@tiny_acl
async def test_the_chain_is_data_too():
    stream, event = await acl.CreateStream(), await flag()
    await acl.StreamWaitEvent(stream, event)
    works = [await acl.LaunchKernel(A, 1, (), stream) for _ in range(4)]
    error = await dead(acl.SynchronizeStream, stream)
    assert [(link.relation, link.skipped) for link in error.links] == [
        (Relation.WAITS, 2),
        (Relation.WAITS, 0),
        (Relation.NEVER, 0),
    ]
    subjects = [link.subject for link in error.links]
    assert subjects[:2] == [works[3], works[0]]
    assert [link.cause for link in error.links] == [*subjects[1:], None]
