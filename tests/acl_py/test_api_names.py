"""Names that a program gives its streams, events, notifies and memory: they stand in for numbers in every text."""

import asyncio
import re
import threading

import numpy as np
import pytest
from histories import busy, misused, tiny, tiny_acl

import acl_py as acl
from acl_py import faults
from acl_py.options import Options
from acl_py.running import build
from acl_py.runtime.blocking import BlockingBridge, finish, take_part

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
    assert any(
        line.startswith("  leak: 1 allocation of device memory ('weights'), 64 B, never freed") for line in report
    )


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


@tiny
async def test_the_report_has_a_line_for_each_task_that_has_a_name():
    async def synchronise(stream):
        await acl.LaunchKernel(WORK, 1, (), stream)
        await acl.SynchronizeStream(stream)

    async with asyncio.TaskGroup() as group:
        group.create_task(synchronise(await acl.CreateStream()), name="worker")
        group.create_task(synchronise(None))
    report = acl.current_simulation().report().splitlines()
    assert [line for line in report if line.startswith("  task")] == [
        "  task 'worker': 2 calls, 12.0 us in 1 synchronisation"
    ]


@tiny
async def test_the_calls_of_a_trace_have_their_tasks_and_a_second_run_has_the_same_ones():
    """Python numbers the tasks of the whole process; the trace numbers its own."""

    async def program():
        sim = acl.current_simulation()
        begin = len(sim.trace.calls)
        await asyncio.gather(acl.GetDevice(), asyncio.create_task(acl.LaunchKernel(WORK, 1), name="launch"))
        await acl.SynchronizeDevice()
        return [(call.name, call.caller) for call in sim.trace.calls[begin:]]

    first = await asyncio.to_thread(acl.run, program, device="tiny")
    second = await asyncio.to_thread(acl.run, program, device="tiny")
    assert first == second
    assert first == [("LaunchKernel", "task 'launch'"), ("GetDevice", "task 2"), ("SynchronizeDevice", "task 3")]


def test_threads_have_names_in_a_trace_too():
    runtime, trace = build(Options("tiny", "cuda", workers=1))
    runtime.bridge = BlockingBridge(runtime)

    def call():
        take_part(runtime)
        finish(acl.GetDevice())

    for name in ("helper", None):
        thread = threading.Thread(target=call, name=name)
        thread.start()
        thread.join()
    runtime.close("the program is over")
    assert [call.caller for call in trace.calls] == ["thread 'helper'", "thread 2"]
