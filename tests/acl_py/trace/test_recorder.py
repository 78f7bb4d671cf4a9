"""The recorder: whole histories on the tiny device, where a byte takes a nanosecond and a plain call a microsecond."""

from dataclasses import replace
from linecache import getline
from pathlib import Path

import numpy as np
from histories import D2D, D2H, H2D, calls

import acl_py as acl
from acl_py import faults
from device_model.profile import load

SIZE = 4096


@acl.kernel(cost=acl.Cost(us=10))
def double(x: acl.InOut):
    x *= 2


@acl.kernel(cost=acl.Cost(us=3))
def nothing():
    pass


def rows(sim):
    """The operations with their streams, in the order in which they ended."""
    return [(op.name, op.stream, op.start_ns, op.end_ns) for op in sim.trace.ops]


async def buffers():
    return await acl.MallocHost(SIZE), await acl.Malloc(SIZE)


async def test_a_pipeline_in_one_stream_is_recorded_whole():
    async with acl.simulate(device="tiny") as sim:
        stream = await acl.CreateStream()
        host, device = await buffers()
        start = sim.now_ns
        assert start == 2_010  # a stream, a little pinned memory, device memory
        await acl.MemcpyAsync(device, SIZE, host, SIZE, H2D, stream)
        await acl.LaunchKernel(double, 4, [acl.Array(device, np.int32)], stream)
        await acl.MemcpyAsync(host, SIZE, device, SIZE, D2H, stream)
        await acl.SynchronizeStream(stream)
    assert [op[:8] for op in sim.trace.ops] == [
        # name, kind, stream, engine, queued, start, end, bytes
        ("h2d", "h2d", "stream 1", "H2D", 3_010, 3_010, 7_106, SIZE),
        ("double", "kernel", "stream 1", "cores", 4_010, 7_106, 17_106, SIZE),
        ("d2h", "d2h", "stream 1", "D2H", 5_010, 17_106, 21_202, SIZE),
    ]
    assert calls(sim)[3:] == [
        ("MemcpyAsync", 2_010, 3_010),
        ("LaunchKernel", 3_010, 4_010),
        ("MemcpyAsync", 4_010, 5_010),
        ("SynchronizeStream", 5_010, 23_202),  # woken 2 us after the end of the last copy
    ]


def waits(sim):
    """The operations with what each waited for: the reason, and the name of the operation if it was one."""
    ops = sim.trace.ops
    return [(op.name, op.why.name.lower(), None if op.after is None else ops[op.after].name) for op in ops]


async def test_an_operation_has_what_it_waited_for():
    async with acl.simulate(device="tiny") as sim:
        one, other, event = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateEvent()
        host, device = await buffers()
        await acl.MemcpyAsync(device, SIZE, host, SIZE, H2D, one)
        await acl.LaunchKernel(double, 4, [acl.Array(device, np.int32)], one)
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(other, event)
        await acl.MemcpyAsync(host, SIZE, device, SIZE, D2H, other)
        await acl.LaunchKernel(nothing, 4, [])  # in the default stream
        await acl.SynchronizeDevice()
    assert waits(sim) == [
        ("h2d", "host", None),
        ("double", "order", "h2d"),
        ("d2h", "event", "double"),
        ("nothing", "legacy", "d2h"),
    ]


async def test_an_operation_that_ends_before_what_it_waited_for_still_has_it():
    """A copy inside the device lets the next kernel start before its own end."""
    profile = load("tiny")
    profile = replace(profile, latency=replace(profile.latency, copy_on_device_tail=5_000))
    async with acl.simulate(device=profile) as sim:
        one, other = await acl.CreateStream(), await acl.CreateStream()
        device, copy = await acl.Malloc(16_000), await acl.Malloc(16_000)
        await acl.MemcpyAsync(copy, 16_000, device, 16_000, D2D, one)
        await acl.LaunchKernel(nothing, 4, [], other)
        await acl.SynchronizeDevice()
    assert waits(sim) == [("nothing", "cores", "d2d"), ("d2d", "host", None)]


async def test_what_an_aborted_operation_held_back_waited_for_no_operation_of_the_trace():
    profile = load("tiny")
    profile = replace(profile, queues=replace(profile.queues, compute=1))
    async with acl.simulate(device=profile, rules="acl") as sim:
        one, other, event = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateEventWithFlag(1)
        await acl.StreamWaitEvent(one, event)
        await acl.LaunchKernel(nothing, 4, [], one)
        await acl.LaunchKernel(double, 4, [acl.Array(await acl.Malloc(SIZE), np.int32)], other)
        await acl.StreamAbort(one)
        await acl.SynchronizeStream(other)
    assert waits(sim) == [("double", "queue", None)]


async def test_a_wait_orders_two_streams():
    async with acl.simulate(device="tiny") as sim:
        one, other, event = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateEvent()
        await double_nothing(one)
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(other, event)
        await double_nothing(other)
        await acl.SynchronizeDevice()
    assert rows(sim) == [
        ("nothing", "stream 1", 4_000, 7_000),
        ("nothing", "stream 1", 7_000, 10_000),
        ("nothing", "stream 2", 10_000, 13_000),
        ("nothing", "stream 2", 13_000, 16_000),
    ]


async def double_nothing(stream):
    for _ in range(2):
        await acl.LaunchKernel(nothing, 1, (), stream)


async def test_operations_come_in_the_order_of_their_ends():
    async with acl.simulate(device="tiny") as sim:
        one, other = await acl.CreateStream(), await acl.CreateStream()
        device = await acl.Malloc(SIZE)
        await acl.LaunchKernel(double, 1, [device], one)
        await acl.LaunchKernel(nothing, 1, (), other)
        await acl.SynchronizeDevice()
    assert rows(sim) == [("nothing", "stream 2", 5_000, 8_000), ("double", "stream 1", 4_000, 14_000)]


async def test_every_kind_of_operation_has_its_engine():
    async with acl.simulate(device="tiny") as sim:
        host, device = await buffers()
        await acl.MemcpyAsync(device, SIZE, host, SIZE, H2D)
        await acl.MemcpyAsync(device[:8], 8, device[8:16], 8, D2D)
        await acl.MemsetAsync(device, SIZE, 0, SIZE)
        await acl.LaunchKernel(nothing, 1)
        await acl.LaunchHostFunc(None, int)
        await acl.MemcpyAsync(host, SIZE, device, SIZE, D2H)
        await acl.SynchronizeDevice()
    assert [(op.name, op.kind, op.engine, op.bytes) for op in sim.trace.ops] == [
        ("h2d", "h2d", "H2D", SIZE),
        ("d2d", "d2d", "cores", 8),
        ("fill", "fill", "cores", SIZE),
        ("nothing", "kernel", "cores", 0),
        ("int", "host_function", "host", 0),
        ("d2h", "d2h", "D2H", SIZE),
    ]


async def test_a_pageable_copy_is_recorded_as_the_chunks_it_is_staged_in():
    source = np.arange(3 * SIZE, dtype=np.uint8)
    async with acl.simulate(device="tiny") as sim:
        device = await acl.Malloc(3 * SIZE)
        await acl.Memcpy(device, 3 * SIZE, source, 3 * SIZE, H2D)
        await acl.SynchronizeDevice()
    assert [(op.queued_ns, op.start_ns, op.end_ns, op.bytes) for op in sim.trace.ops] == [
        (6_096, 6_096, 10_192, SIZE),  # 1 us to begin with, then each chunk is staged while the one before is copied
        (10_192, 10_192, 14_288, SIZE),
        (14_288, 14_288, 18_384, SIZE),
    ]
    assert calls(sim)[1] == ("Memcpy", 1_000, 14_288)  # until the last chunk is staged


async def test_an_operation_and_its_call_name_the_same_line():
    async with acl.simulate(device="tiny") as sim:
        await acl.LaunchKernel(nothing, 1)
        await acl.SynchronizeDevice()
    [op], call = sim.trace.ops, sim.trace.calls[0]
    assert call.file == __file__
    assert op.site == f"{Path(__file__).name}:{call.line}"
    assert "LaunchKernel(nothing, 1)" in getline(__file__, call.line)


async def test_devices_are_told_apart():
    async with acl.simulate(device="tiny") as sim:
        await acl.LaunchKernel(nothing, 1)
        await acl.SetDevice(1)
        await acl.LaunchKernel(nothing, 1)
        await acl.SynchronizeDevice()
    assert [(op.device, op.start_ns) for op in sim.trace.ops] == [(0, 1_000), (1, 3_000)]


async def test_work_and_sleep_of_the_host_are_calls():
    async with acl.simulate(device="tiny") as sim:
        await acl.HostWork(7)
        await acl.Sleep(5)
    assert calls(sim) == [("HostWork", 0, 7_000), ("Sleep", 7_000, 12_000)]


async def test_what_has_not_ended_is_not_there_yet():
    async with acl.simulate(device="tiny") as sim:
        await acl.LaunchKernel(double, 1, [await acl.Malloc(SIZE)])
        assert sim.trace.ops == []
        await acl.HostWork(20)
        assert rows(sim) == [("double", "legacy", 2_000, 12_000)]


async def test_a_trace_grows():
    rows = 10_000
    async with acl.simulate(device="tiny") as sim:
        for _ in range(rows):
            await acl.LaunchKernel(nothing, 1)
        await acl.SynchronizeDevice()
    ops = sim.trace.ops
    assert len(ops) == rows
    assert all(op.end_ns - op.start_ns == 3_000 for op in ops)
    assert [op.start_ns for op in ops[:3]] == [1_000, 4_000, 7_000]
    assert len(sim.trace.calls) == rows + 1


async def test_the_same_program_leaves_the_same_trace():
    async def program():
        async with acl.simulate(device="h200") as sim:
            stream = await acl.CreateStream()
            host, device = await buffers()
            for _ in range(3):
                await acl.MemcpyAsync(device, SIZE, host, SIZE, H2D, stream)
                await acl.LaunchKernel(double, 1, [device], stream)
            await acl.SynchronizeStream(stream)
            await acl.Free(device)
        return sim.trace

    first, second = await program(), await program()
    assert first.ops == second.ops
    assert first.calls == second.calls


async def test_what_fault_rules_strike_has_a_row():
    async with acl.simulate(device="tiny") as sim:
        host, device = await buffers()
        begin = sim.now_ns
        with sim.fault(faults.delay(5, call="Malloc"), faults.slow("cores", 2), faults.delay(7, op="*", nth=3)):
            await acl.Malloc(64)
            await acl.LaunchKernel(double, 1, (acl.Array(device, "u1"),))
            await acl.MemcpyAsync(host, SIZE, device, SIZE, D2H)
            await acl.Memcpy(device, 64, np.zeros(64, np.uint8), 64, H2D)  # staged
            await acl.SynchronizeDevice()
    here = [str(op.site) for op in sim.trace.ops]
    assert [(strike.at_ns - begin, strike.rule, strike.name, strike.site) for strike in sim.trace.strikes] == [
        (0, "delay(call='Malloc', us=5)", "Malloc", ""),
        (6_000, "slow(engine='cores', factor=2)", "double", here[0]),
        (31_096, "delay(op='*', nth=3, us=7)", "h2d", here[2]),  # behind the kernel, which is slow
    ]
    made, line = sim.trace.strikes[0].made.split(":")
    assert (made, "faults.delay(5" in getline(__file__, int(line))) == (Path(__file__).name, True)
