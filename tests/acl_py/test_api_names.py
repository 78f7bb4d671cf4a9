"""Names that a program gives its streams, events, notifies and memory: they stand in for numbers in every text."""

import re

import numpy as np
import pytest
from histories import busy, misused, tiny, tiny_acl

import acl_py as acl
from acl_py import faults

WORK = busy("work", 10)


@tiny_acl
async def test_each_verb_that_creates_something_takes_a_name():
    made = [
        await acl.CreateStream(name="one"),
        await acl.CreateStreamWithConfig(0, 0, name="two"),
        await acl.CreateEvent(name="three"),
        await acl.CreateEventWithFlag(acl.EventFlag.SYNC, name="four"),
        await acl.CreateEventExWithFlag(acl.EventFlag.SYNC, name="five"),
        await acl.CreateNotify(name="six"),
        await acl.Malloc(64, name="seven"),
        await acl.MallocHost(64, name="eight"),
        await acl.MallocAsync(64, name="nine"),
        await acl.HostRegister(np.zeros(64, np.uint8), name="ten"),
    ]
    assert [re.sub(r" made at test_api_names\.py:\d+", "", repr(each)) for each in made] == [
        "<Stream stream 'one' of device 0>",
        "<Stream stream 'two' of device 0>",
        "<Event 'three' never recorded>",
        "<Event 'four' never recorded>",
        "<Event 'five' never recorded>",
        "<Notify 'six' of device 0>",
        "<Buffer device 64 B allocation 'seven'>",
        "<Buffer pinned 64 B allocation 'eight'>",
        "<Buffer device 64 B allocation 'nine'>",
        "<Buffer registered 64 B allocation 'ten'>",
    ]


@pytest.mark.parametrize("name", [7, b"copies", "", "x" * 201, "two\nlines", "\u202egnp.exe"], ids=ascii)
def test_a_name_that_is_no_printable_text_is_refused_at_once(name):
    @tiny_acl
    async def program():
        for verb in (acl.CreateStream, acl.CreateEvent, acl.CreateNotify):
            with misused((TypeError, ValueError), "^name must"):
                await verb(name=name)
        for verb in (acl.Malloc, acl.MallocHost, acl.MallocAsync):
            with misused((TypeError, ValueError), "^name must"):
                await verb(64, name=name)
        with misused((TypeError, ValueError), "^name must"):
            await acl.HostRegister(np.zeros(64, np.uint8), name=name)
        for verb in (acl.CreateEventWithFlag, acl.CreateEventExWithFlag):
            with misused((TypeError, ValueError), "^name must"):
                await verb(acl.EventFlag.SYNC, name=name)
        with misused((TypeError, ValueError), "^name must"):
            await acl.CreateStreamWithConfig(0, 0, name=name)

    program()


@tiny
async def test_a_name_with_quotes_and_one_of_another_alphabet_stay_readable():
    assert (await acl.CreateStream(name="the left camera's")).name == 'stream "the left camera\'s"'
    assert (await acl.CreateStream(name="拷贝")).name == "stream '拷贝'"
    assert (await acl.CreateStream(name="x" * 200)).name == f"stream '{'x' * 200}'"


@tiny
async def test_memory_keeps_its_name_after_it_was_freed():
    weights = await acl.Malloc(64, name="weights")
    address = weights.address
    await acl.Free(weights)
    for again in (weights, address):
        with pytest.raises(acl.AclError, match="allocation 'weights' made at"):
            await acl.Free(again)


@tiny
async def test_the_report_has_the_names_of_streams_and_of_memory_that_was_not_freed():
    sim, copies = acl.current_simulation(), await acl.CreateStream(name="copies")
    await acl.Malloc(64, name="weights")
    await acl.LaunchKernel(WORK, 1, (), copies)
    await acl.SynchronizeDevice()
    report = sim.report().splitlines()
    assert any(line.startswith("  stream 'copies' of device 0: 1 operation, 10.0 us") for line in report)
    assert any(line.startswith("  leak: <Allocation device 64 B allocation 'weights' made at") for line in report)


@tiny
async def test_a_stream_may_have_the_name_of_something_else():
    """The report calls copies outside all streams so, and not a stream that is called "no stream"."""
    stream = await acl.CreateStream(name="no stream")
    await acl.LaunchKernel(WORK, 1, (), stream)
    await acl.SynchronizeDevice()
    assert "  stream 'no stream' of device 0: 1 operation" in acl.current_simulation().report()


@tiny
async def test_a_fault_rule_finds_a_stream_by_the_name_that_the_program_gave_it():
    copies, others = await acl.CreateStream(name="copies"), await acl.CreateStream(name="others")
    rule = faults.delay(op="kernel", stream="copies", us=100)
    with acl.current_simulation().fault(rule):
        slow, fast = [await acl.LaunchKernel(WORK, 1, (), stream) for stream in (copies, others)]
        await acl.SynchronizeDevice()
    assert [op.start_ns - op.queued_ns for op in (slow, fast)] == [100_000, 0]
