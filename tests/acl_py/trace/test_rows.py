"""The rows besides operations and calls: records, waits, steps of ACL, sleeps of the host, memory, marks."""

import asyncio

import numpy as np
import pytest
from histories import H2D

import acl_py as acl
from acl_py.calls.acts import leaves
from acl_py.trace.rows.timeline import Copied, Extent, Filled, Handle, Mark, Memory, Ref

SIZE = 4096


@acl.kernel(cost=acl.Cost(us=10))
def double(x: acl.InOut):
    x *= 2


@acl.kernel(cost=acl.Cost(us=3))
def nothing():
    pass


def steps(sim):
    """The steps without their lines: kind, name, stream, when queued and over, record, last operation."""
    names = [op.name for op in sim.trace.ops]
    return [
        (step.kind, step.name, step.stream, step.queued_ns, step.end_ns, step.record,
         None if step.after is None else names[step.after])
        for step in sim.trace.steps
    ]  # fmt: skip


def about(timeline, call):
    """What a call was about, with the names of handles."""
    return tuple(timeline.handles[each.handle].name if isinstance(each, Ref) else each for each in leaves(call.act))


async def test_a_record_and_a_wait_for_it_have_rows():
    async with acl.simulate(device="tiny") as sim:
        one, other, event = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateEvent(name="ready")
        await acl.LaunchKernel(nothing, 1, (), one)
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(other, event)
        await acl.LaunchKernel(nothing, 1, (), other)
        await acl.SynchronizeDevice()
        await acl.RecordEvent(event, one)  # over at once
    assert steps(sim) == [
        ("record", "Event 'ready'", "stream 1", 5_000, 7_000, None, "nothing"),
        ("wait", "Event 'ready'", "stream 2", 6_000, 7_000, 0, "nothing"),
        ("record", "Event 'ready'", "stream 1", 13_000, 13_000, None, "nothing"),
    ]
    record, wait = sim.trace.steps[:2]
    assert record.site.startswith("test_rows.py:")
    assert record.caller == wait.caller == "task 1"
    names = [call.name for call in sim.trace.calls]
    assert names.count("RecordEvent") == 2
    assert names.count("StreamWaitEvent") == 1


async def test_a_wait_has_the_record_that_it_found():
    async with acl.simulate(device="tiny") as sim:
        one, other, event = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateEvent()
        await acl.StreamWaitEvent(other, event)  # never recorded: no effect
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(other, event)
        await acl.RecordEvent(event, one)
    assert [(step.kind, step.record) for step in sim.trace.steps] == [
        ("wait", None), ("record", None), ("wait", 1), ("record", None),
    ]  # fmt: skip


async def test_a_record_that_is_never_reached_has_no_end():
    async with acl.simulate(device="tiny", rules="acl") as sim:
        one, event, never = await acl.CreateStream(), await acl.CreateEvent(), await acl.CreateEventWithFlag(1)
        await acl.StreamWaitEvent(one, never)
        await acl.RecordEvent(event, one)
    assert [(step.kind, step.end_ns) for step in sim.trace.steps] == [("wait", -1), ("record", -1)]


async def test_each_step_of_acl_has_a_row():
    async with acl.simulate(device="tiny", rules="acl") as sim:
        one, other = await acl.CreateStream(), await acl.CreateStream()
        flag, notify = await acl.CreateEventWithFlag(1), await acl.CreateNotify()
        word = await acl.Malloc(8, name="word")
        await acl.RecordEvent(flag, one)
        await acl.StreamWaitEvent(other, flag)
        await acl.ResetEvent(flag, other)
        await acl.RecordNotify(notify, one)
        await acl.WaitAndResetNotify(notify, other)
        await acl.ValueWrite(word, 3, 0, one)
        await acl.ValueWait(word, 3, acl.Compare.GEQ, other)
        await acl.SubscribeReport(None, one)
        await acl.LaunchCallback(print, "", 0, one)
    assert [(step.kind, step.name, step.stream) for step in sim.trace.steps] == [
        ("record", "Event 1", "stream 1"),
        ("wait", "Event 1", "stream 2"),
        ("reset", "Event 1", "stream 2"),
        ("notify", "Notify 1", "stream 1"),
        ("notify_wait", "Notify 1", "stream 2"),
        ("value", "allocation 'word'", "stream 1"),
        ("value_wait", "allocation 'word'", "stream 2"),
        ("callback", "print", "stream 1"),
    ]
    assert all(step.end_ns >= step.queued_ns for step in sim.trace.steps)


async def test_many_records_are_completed_on_the_way():
    async with acl.simulate(device="tiny") as sim:
        stream, event = await acl.CreateStream(), await acl.CreateEvent()
        for _ in range(3_000):
            await acl.LaunchKernel(nothing, 1, (), stream)
            await acl.RecordEvent(event, stream)
        await acl.SynchronizeStream(stream)
    ops = sim.trace.ops
    assert [(step.end_ns, step.after) for step in sim.trace.steps] == [
        (max(op.end_ns, step.queued_ns), index)
        for index, (op, step) in enumerate(zip(ops, sim.trace.steps, strict=True))
    ]


async def test_a_call_has_how_long_it_slept_and_what_woke_it():
    async with acl.simulate(device="tiny") as sim:
        one, other, event = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateEvent()
        await acl.LaunchKernel(nothing, 1, (), one)
        await acl.LaunchKernel(double, 1, (await acl.Malloc(SIZE),), other)
        await acl.RecordEvent(event, other)
        await asyncio.gather(acl.SynchronizeStream(one), acl.SynchronizeEvent(event))
        await acl.SynchronizeDevice()
    timeline = sim.trace.timeline()
    slept = [
        (call.name, call.caller, about(timeline, call), call.waited_ns,
         None if call.after is None else timeline.ops[call.after].name)
        for call in timeline.calls
        if call.name.startswith("Synchronize")
    ]  # fmt: skip
    assert slept == [
        ("SynchronizeStream", "task 2", ("stream 1",), 0, None),  # over when the other call had been paid
        ("SynchronizeEvent", "task 3", ("Event 1",), 8_400, "double"),
        ("SynchronizeDevice", "task 1", ("primary",), 0, None),
    ]


async def test_a_caller_that_stages_pageable_memory_copies_and_waits_in_turn():
    """It copies two chunks into the buffers, and waits for one of them, which is behind the kernel; then the third."""
    async with acl.simulate(device="tiny") as sim:
        stream = await acl.CreateStream()
        array, there = np.zeros(3 * SIZE, np.uint8), await acl.Malloc(3 * SIZE)
        await acl.LaunchKernel(double, 1, (acl.Array(there, np.int32),), stream)
        await acl.MemcpyAsync(there, 3 * SIZE, array, 3 * SIZE, H2D, stream)
        await acl.SynchronizeDevice()
    kernel, first, *_ = sim.trace.ops
    [copy] = [call for call in sim.trace.calls if call.name == "MemcpyAsync"]
    [sleep] = copy.sleeps
    [wait] = sleep.waits
    assert (kernel.end_ns, first.why.name, first.after) == (13_000, "ORDER", 0)
    assert (sleep.begin_ns, sleep.end_ns, sleep.after) == (3_000, 21_192, 1)
    assert (wait.begin_ns, wait.end_ns, wait.after, wait.waits) == (12_192, 17_096, 1, None)
    assert (copy.waited_ns, copy.after) == (17_096 - 12_192, 1)


async def test_a_caller_that_only_stages_pageable_memory_has_waited_for_nothing():
    async with acl.simulate(device="tiny") as sim:
        stream, array, there = await acl.CreateStream(), np.zeros(2 * SIZE, np.uint8), await acl.Malloc(2 * SIZE)
        await acl.MemcpyAsync(there, 2 * SIZE, array, 2 * SIZE, H2D, stream)
        await acl.SynchronizeDevice()
    [copy] = [call for call in sim.trace.calls if call.name == "MemcpyAsync"]
    [sleep] = copy.sleeps
    assert (sleep.begin_ns, sleep.end_ns, sleep.after, sleep.waits) == (copy.enter_ns, copy.exit_ns, None, ())
    assert (copy.waited_ns, copy.after) == (0, None)


async def test_a_launch_into_a_full_queue_has_slept_until_an_operation_made_room():
    async with acl.simulate(device="tiny") as sim:
        stream = await acl.CreateStream()
        depth = sim.runtime.profile.queues.depth
        for _ in range(2 * depth):
            await acl.LaunchKernel(nothing, 1, (), stream)
        await acl.SynchronizeStream(stream)
    slept = [(call.waited_ns, call.after) for call in sim.trace.calls if call.name == "LaunchKernel"]
    asleep = [each for each in slept if each != (0, None)]
    ops = sim.trace.ops
    assert asleep
    for waited_ns, after in asleep:
        assert waited_ns > 0
        assert ops[after].name == "nothing"


async def test_memory_has_one_row_for_each_life_and_operations_name_its_bytes():
    async with acl.simulate(device="tiny") as sim:
        host, device = await acl.MallocHost(SIZE, name="host"), await acl.Malloc(SIZE)
        await acl.MemcpyAsync(device[1024:], 512, host[:512], 512, H2D)
        await acl.LaunchKernel(double, 2, (device[:256],))
        await acl.Memcpy(device, SIZE, np.zeros(SIZE, np.uint8), SIZE, H2D)
        await acl.MemsetAsync(device, SIZE, 7, 100)
        await acl.SynchronizeDevice()
        await acl.Free(device)
        again = await acl.Malloc(SIZE)
    timeline = sim.trace.timeline()
    assert [(each.name, each.space, each.bytes, each.device, bool(each.freed)) for each in timeline.buffers] == [
        ("allocation 'host'", "pinned", SIZE, -1, False),
        ("allocation 2", "device", SIZE, 0, True),
        ("allocation 3", "device", SIZE, 0, False),
    ]
    assert isinstance(timeline.buffers[0], Memory)
    assert again.allocation.freed is None
    touched = {op.name: (op.reads, op.writes, op.blocks) for op in timeline.ops if op.bytes < SIZE}
    assert touched == {
        "h2d": ((Extent(0, 0, 512),), (Extent(1, 1024, 1536),), 0),
        "double": ((Extent(1, 0, 256),), (Extent(1, 0, 256),), 2),
        "fill": ((), (Extent(1, 0, 100),), 0),
    }
    whole = {call.name: about(timeline, call) for call in timeline.calls}
    assert whole["Memcpy"] == (Copied("h2d", 1, 0, -1, 0, SIZE),)  # from an array of the program
    assert whole["MemsetAsync"] == (Filled(1, 0, 7, 100), "legacy")
    assert whole["Free"] == (Extent(1, 0, SIZE),)


async def test_handles_have_what_they_were_made_with():
    async with acl.simulate(device="tiny") as sim:
        await acl.CreateStream(nonblocking=True, priority=-1, name="copies")
        await acl.CreateEvent(timing=False, blocking=True)
    assert [each[:3] + each[4:5] for each in sim.trace.handles] == [
        ("stream", "stream 'copies'", 0, {"nonblocking": True, "priority": -1}),
        ("event", "Event 1", 0, {"class": "snapshot", "timing": False, "blocking": True}),
    ]
    assert isinstance(sim.trace.handles[0], Handle)


async def test_marks():
    async with acl.simulate(device="tiny") as sim:
        acl.mark("begin")
        with acl.annotate("QKV"):
            await acl.HostWork(5)
            with acl.annotate("inner"):
                await acl.HostWork(1)
        with pytest.raises(KeyError), acl.annotate("fails"):
            raise KeyError
    assert [mark[:3] + mark[4:] for mark in sim.trace.marks] == [
        ("begin", 0, 0, "task 1"),
        ("inner", 5_000, 6_000, "task 1"),
        ("QKV", 0, 6_000, "task 1"),
        ("fails", 6_000, 6_000, "task 1"),
    ]
    assert all(isinstance(mark, Mark) and mark.site.startswith("test_rows.py:") for mark in sim.trace.marks)


async def test_one_annotation_may_hold_a_block_within_itself():
    async with acl.simulate(device="tiny") as sim:
        block = acl.annotate("block")
        with block:
            await acl.HostWork(1)
            with block:
                await acl.HostWork(1)
    assert [(mark.begin_ns, mark.end_ns) for mark in sim.trace.marks] == [(1_000, 2_000), (0, 2_000)]


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        (None, TypeError, "name must be a str, not None"),
        ("", ValueError, "1 to 200 characters"),
        ("a\n", ValueError, "printable"),
    ],
)
async def test_a_mark_needs_a_name(name, error, text):
    async with acl.simulate(device="tiny"):
        with pytest.raises(error, match=text):
            acl.mark(name)
        with pytest.raises(error, match=text):
            acl.annotate(name)


async def test_a_kernel_must_not_mark():
    """It may run in a worker thread, and the order of the rows would differ from run to run."""
    refused = []

    def attempt():
        for make in (lambda: acl.mark("inside"), acl.annotate("inside").__enter__):
            with pytest.raises(acl.AclError, match="inside") as caught:
                make()
            refused.append(caught.value.what)

    @acl.kernel(cost=acl.Cost(us=1))
    def kernel():
        attempt()

    async with acl.simulate(device="tiny") as sim:
        await kernel[1, None]()
        await acl.LaunchHostFunc(await acl.CreateStream(), attempt)
        await acl.SynchronizeDevice()
    assert [each.split(" inside ")[0] for each in refused] == ["mark()", "annotate()"] * 2
    assert sim.trace.marks == []


def test_a_mark_outside_a_simulation_is_refused():
    with pytest.raises(acl.AclError, match="no simulation is running here"):
        acl.mark("lost")
    with pytest.raises(acl.AclError, match="no simulation is running here"), acl.annotate("lost"):
        pass


async def test_without_a_trace_marks_cost_nothing_and_go_nowhere():
    async with acl.simulate(device="tiny", trace=False) as sim:
        with acl.annotate("quiet"):
            acl.mark("quiet")
        assert sim.now_ns == 0


async def test_the_parts_of_a_staged_copy_have_the_caller_of_its_call():
    """The device queues the later parts, while another task calls."""

    async def copy():
        device, plain = await acl.Malloc(5 * SIZE), np.zeros(5 * SIZE, np.uint8)
        await acl.MemcpyAsync(device, 5 * SIZE, plain, 5 * SIZE, H2D)
        await acl.SynchronizeDevice()

    async with acl.simulate(device="tiny") as sim:
        await acl.GetDevice()
        await asyncio.create_task(copy(), name="copier")
    assert [(op.kind, op.caller, op.by) for op in sim.trace.ops] == [("h2d", "task 'copier'", 1)] * 5
    assert sim.trace._store.staged == {}
