"""Waits: signals that are stale, lost or never set, and the host's own waits that can never end."""

import asyncio

import pytest

import acl_py as acl
from tests.sanitizer.racing import found, read, two_streams, write


async def flag():
    return await acl.CreateEventWithFlag(acl.EventFlag.SYNC, name="flag")


def test_a_flag_that_was_not_reset_lets_the_next_wait_pass_too_early():
    async def program():
        (one, two), event = await two_streams(), await flag()
        for _ in range(2):
            await acl.RecordEvent(event, one)
            await acl.StreamWaitEvent(two, event)
        await acl.SynchronizeDevice()

    assert found(program, "acl") == [("wait", 3, 4)]


def test_a_reset_behind_the_wait_and_a_host_that_waits_for_it_are_right():
    async def program():
        (one, two), event = await two_streams(), await flag()
        for _ in range(3):
            await acl.RecordEvent(event, one)
            await acl.StreamWaitEvent(two, event)
            await acl.ResetEvent(event, two)
            await acl.SynchronizeStream(two)

    assert found(program, "acl") == []


def test_a_reset_may_clear_the_set_of_the_next_round():
    async def program():
        (one, two), event = await two_streams(), await flag()
        for _ in range(2):
            await acl.RecordEvent(event, one)
            await acl.StreamWaitEvent(two, event)
            await acl.ResetEvent(event, two)
        await acl.SynchronizeStream(one)

    assert found(program, "acl") == [("wait", 5, 4)]


def test_a_reset_by_one_of_two_waiting_streams_may_come_too_early_for_the_other():
    async def program():
        (one, two), event = await two_streams(), await flag()
        three = await acl.CreateStream()
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
        await acl.ResetEvent(event, two)
        await acl.StreamWaitEvent(three, event)
        await acl.SynchronizeStream(two)

    assert found(program, "acl") == [("wait", 5, 6)]


def test_the_set_that_a_reset_may_clear_too_early_is_the_last_one_that_the_wait_may_see():
    texts = []

    async def program():
        one, two, three, four = [await acl.CreateStream(name=name) for name in ("one", "two", "three", "four")]
        event = await flag()
        await acl.RecordEvent(event, one)
        await acl.RecordEvent(event, two)
        await acl.StreamWaitEvent(three, event)
        await acl.ResetEvent(event, four)
        await acl.SynchronizeStream(four)
        texts.extend(finding.text for finding in acl.current_simulation().findings)

    assert found(program, "acl") == [("wait", 6, 5)]
    assert ["RecordEvent on stream 'two'" in text for text in texts] == [True]


def test_a_set_that_is_reset_before_anything_waits_is_lost():
    texts = []

    async def program():
        one, event = await acl.CreateStream(name="one"), await flag()
        await acl.RecordEvent(event, one)
        await acl.ResetEvent(event, one)
        await acl.SynchronizeStream(one)
        texts.extend(finding.text for finding in acl.current_simulation().findings)

    assert found(program, "acl") == [("wait", 2, 3)]
    assert texts[0].endswith("that signal is lost")


@pytest.mark.parametrize("waits_for_event", [True, False])
def test_a_set_that_the_host_has_waited_for_is_not_lost(waits_for_event):
    async def program():
        one, two = await two_streams()
        event = await flag()
        await acl.RecordEvent(event, one)
        await (acl.SynchronizeEvent(event) if waits_for_event else acl.SynchronizeStream(one))
        await acl.ResetEvent(event, two)
        await acl.SynchronizeStream(two)

    assert found(program, "acl") == []


@pytest.mark.parametrize("make", [flag, acl.CreateNotify])
def test_a_wait_that_nothing_ends_is_told_at_the_end(make):
    async def program():
        stream, signal = await acl.CreateStream(), await make()
        wait = acl.StreamWaitEvent(stream, signal) if make is flag else acl.WaitAndResetNotify(signal, stream)
        await wait
        acl.current_simulation().runtime.sanitizer.finish()
        acl.current_simulation().runtime.sanitizer.finish()

    assert found(program, "acl") == [("wait", 3)]


def test_a_deadlock_is_a_finding_with_its_chain():
    findings = []

    async def program():
        stream, signal = await acl.CreateStream(), await flag()
        await acl.StreamWaitEvent(stream, signal)
        with pytest.raises(acl.DeadlockError):
            await acl.SynchronizeStream(stream)
        findings.extend(acl.current_simulation().findings)

    assert found(program, "acl") == [("deadlock", 4, 2)]
    assert "can never end" in findings[0].text


def test_a_wait_with_a_limit_is_for_the_work_queued_before_it():
    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(256)
        await acl.LaunchKernel(write, 1, (x,), one)

        async def meanwhile():
            await acl.LaunchKernel(write, 1, (x,), one)

        other = asyncio.create_task(meanwhile())
        await acl.SynchronizeStreamWithTimeout(one, 10)
        await acl.LaunchKernel(read, 1, (x,), two)  # beside the second kernel in the other stream
        await other

    assert found(program) == [("race", 6, 10, "0:256")]
