"""Deadlocks: each waiter is told the chain of waits, with the lines, and what would break it."""

import asyncio
import re

import pytest
from histories import busy, tiny

from acl_py import (
    CallbackBlock,
    CreateEventWithFlag,
    CreateNotify,
    CreateStream,
    DeadlockError,
    EventFlag,
    LaunchCallback,
    LaunchKernel,
    Malloc,
    Memset,
    RecordEvent,
    StreamWaitEvent,
    SubscribeReport,
    SynchronizeDevice,
    SynchronizeStream,
    ValueWait,
    WaitAndResetNotify,
    current_simulation,
)

NOTHING = "nothing that is queued or running would end that"
A, B = busy("A", 10), busy("B", 10)
acl = tiny(rules="acl")


async def flag():
    return await CreateEventWithFlag(EventFlag.SYNC)


def lines(error):
    """The chain, with every line of this file as LINE."""
    return [re.sub(r"test_api_deadlock\.py:\d+", "LINE", line) for line in error.chain]


async def dead(verb, *args):
    with pytest.raises(DeadlockError) as caught:
        await verb(*args)
    return caught.value


@acl
async def test_two_streams_that_wait_for_one_another():
    a, b, e, f = await CreateStream(), await CreateStream(), await flag(), await flag()
    await StreamWaitEvent(a, e)
    await LaunchKernel(A, 1, (), a)
    await RecordEvent(f, a)
    await StreamWaitEvent(b, f)
    await LaunchKernel(B, 1, (), b)
    await RecordEvent(e, b)
    error = await dead(SynchronizeStream, b)
    assert lines(error) == [
        "<record of Event 1 made at LINE on stream 2 submitted at LINE> waits",
        "<B on stream 2 submitted at LINE> waits",
        "<wait for Event 2 made at LINE on stream 2 submitted at LINE> lasts until",
        "<record of Event 2 made at LINE on stream 1 submitted at LINE> waits",
        "<A on stream 1 submitted at LINE> waits",
        "<wait for Event 1 made at LINE on stream 1 submitted at LINE> lasts until",
        "<record of Event 1 made at LINE on stream 2 submitted at LINE>, and so it goes round",
    ]
    assert "to break it: take one of these waits out" in str(error)


@acl
async def test_a_wait_for_a_record_that_nobody_makes():
    stream, event = await CreateStream(), await flag()
    await StreamWaitEvent(stream, event)
    for _ in range(5):
        await LaunchKernel(A, 1, (), stream)
    error = await dead(SynchronizeStream, stream)
    assert lines(error) == [
        "<A on stream 1 submitted at LINE> waits, and so do 3 more of its stream",
        "<A on stream 1 submitted at LINE> waits",
        "<wait for Event 1 made at LINE on stream 1 submitted at LINE>: " + NOTHING,
    ]
    assert "to break it: record that event, in a stream that does not wait itself" in str(error)


@acl
async def test_a_false_dependency_through_a_hardware_queue():
    event, queues = await flag(), current_simulation().runtime.profile.queues.compute
    for _ in range(queues):
        stream = await CreateStream()
        await StreamWaitEvent(stream, event)
        await LaunchKernel(A, 1, (), stream)
    innocent = await CreateStream()
    await LaunchKernel(B, 1, (), innocent)
    error = await dead(SynchronizeStream, innocent)
    first, *_, last = lines(error)
    assert first.startswith("<B on stream 5 submitted at LINE> stands behind another stream's work in a hardware queue")
    assert last.startswith("<wait for Event 1 made at LINE on stream 1")


@acl
async def test_a_host_that_waits_for_room_behind_a_wait_that_never_ends():
    stream, event = await CreateStream(), await flag()
    await StreamWaitEvent(stream, event)
    for _ in range(current_simulation().runtime.profile.queues.depth):
        await LaunchKernel(A, 1, (), stream)
    error = await dead(LaunchKernel, A, 1, (), stream)
    assert "waits for room in its hardware queue" in str(error)
    assert "to break it: let work of that hardware queue end" in str(error)


@acl
async def test_notifies_words_and_callbacks():
    a, b, c = await CreateStream(), await CreateStream(), await CreateStream()
    memory = await Malloc(64)
    await Memset(memory, 64, 0, 64)
    await WaitAndResetNotify(await CreateNotify(), a)
    await ValueWait(memory, 1, 1, b)
    await SubscribeReport(None, c)
    await LaunchCallback(print, None, CallbackBlock.BLOCK, c)
    for stream, what, remedy in (
        (a, "wait for Notify 1", "record that notify"),
        (b, "wait for the word", "write that word"),
        (c, "callback print", "ProcessReport()"),
    ):
        error = await dead(SynchronizeStream, stream)
        assert (len(error.chain), what in error.chain[0], remedy in str(error)) == (1, True, True)


@acl
async def test_tasks_that_wait_for_one_another_are_named_with_their_lines():
    """One holds a lock and waits for a stream; the other would record, if it had the lock."""
    stream, event, lock = await CreateStream(), await flag(), asyncio.Lock()
    await StreamWaitEvent(stream, event)

    async def holder():
        async with lock:
            await SynchronizeStream(stream)

    async def recorder():
        async with lock:
            await RecordEvent(event)

    async def both():
        async with asyncio.TaskGroup() as group:
            group.create_task(holder(), name="holder")
            group.create_task(recorder(), name="recorder")

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    (error,) = caught.value.exceptions
    assert "task holder: SynchronizeStream(stream 1) at" in str(error)
    assert re.search(r"task recorder: in Lock.acquire at test_api_deadlock.py:\d+, for another task", str(error))


@acl
async def test_every_waiter_is_told_its_own_chain():
    waits = []
    for _ in range(3):
        stream, event = await CreateStream(), await flag()
        await StreamWaitEvent(stream, event)
        waits.append(SynchronizeStream(stream))
    errors = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(error) for error in errors] == [DeadlockError] * 3
    assert [f"on stream {number}" in error.chain[-1] for number, error in enumerate(errors, 1)] == [True] * 3


@acl
async def test_after_a_deadlock_the_runtime_is_good_for_more():
    sim, stream, event = current_simulation(), await CreateStream(), await flag()
    await StreamWaitEvent(stream, event)
    work = await LaunchKernel(A, 1, (), stream)
    await dead(SynchronizeStream, stream)
    before = sim.now_ns
    await RecordEvent(event)
    await SynchronizeDevice()
    assert (work.done, sim.now_ns > before) == (True, True)
