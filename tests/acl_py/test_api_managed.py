"""Managed memory: pages that move to where they are used, and what that costs whom.

On the tiny device a page that moves takes 4,096 ns, the first round of faults 10,000 and each further one 5,000. The
host takes 2,000 for a fault on a region, 100 for an entry in its page table, and 3,000 for a page that it shares.
"""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from histories import busy, history, refused, tiny
from managed_programs import KIB, MIB, PROGRAMS, change, read, write

import acl_py
from acl_py import (
    CPU_DEVICE_ID,
    INVALID_DEVICE_ID,
    Advice,
    Kind,
    MallocManaged,
    MemAdvise,
    MemoryType,
    MemPrefetchAsync,
    MemRangeGetAttribute,
    Observer,
    RangeAttribute,
    cta,
)
from acl_py.explain import Pitfall, findings
from acl_py.trace import chrome, read_trace


class Watch(Observer):
    """The moves of pages, in their order."""

    def __init__(self):
        self.moves = []

    def pages_moved(self, op, moves, begin_ns, end_ns, site):
        self.moves.append(moves)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.title)
def test_pages_move_as_counted_by_hand(program):
    watch = Watch()

    async def main():
        acl_py.current_simulation().observe(watch)
        stream = await acl_py.CreateStream()
        buffer = await MallocManaged(program.nbytes)
        await program.body(buffer, stream)
        await acl_py.SynchronizeDevice()

    acl_py.run(main, device="tiny", workers=1)
    assert watch.moves == list(program.moves)


# --- times


@tiny
async def test_a_kernel_takes_longer_by_its_faults():
    sim, stream = acl_py.current_simulation(), await acl_py.CreateStream()
    buffer = await MallocManaged(64 * KIB)
    since = sim.now_ns
    await change[1, stream](buffer)
    await change[1, stream](buffer)
    await acl_py.SynchronizeStream(stream)
    first = 10_000 + 10_000 + 16 * 4096  # its own time, a round of faults, and 16 pages
    assert history(sim, since) == [("change", 1_000, 1_000 + first), ("change", 1_000 + first, 11_000 + first)]


@tiny
async def test_each_wave_of_exclusive_blocks_waits_for_its_share():
    sim, stream = acl_py.current_simulation(), await acl_py.CreateStream()
    buffer = await MallocManaged(64 * KIB)
    slow = acl_py.kernel(cost=acl_py.Cost(us=10), exclusive=True)(change.function)
    since = sim.now_ns
    await slow[8, stream](buffer)  # two waves on four cores
    await acl_py.SynchronizeStream(stream)
    assert history(sim, since) == [("change", 1_000, 1_000 + 20_000 + 10_000 + 16 * 4096)]


@tiny
async def test_the_line_of_the_host_that_faults_takes_the_time():
    sim, stream = acl_py.current_simulation(), await acl_py.CreateStream()
    buffer = await MallocManaged(64 * KIB)
    await write[1, stream](buffer)
    await acl_py.SynchronizeStream(stream)
    values, begin = buffer.numpy(), sim.now_ns
    assert values[0] == 5
    faults = 2_000 + 16 * 4096 + 16 * 100  # a region with 16 pages
    assert sim.now_ns - begin == faults
    [call] = [call for call in sim.trace.calls if call.name == "HostPageFaults"]
    assert (call.enter_ns, call.exit_ns, call.line) == (begin, begin + faults, values_line())
    assert values[1] == 5
    assert sim.now_ns - begin == faults


async def test_a_fault_takes_time_also_in_a_task_beside_the_one_that_opened_the_simulation():
    """As in a notebook, where each cell is a task. Any other thread touches pages beside the program."""
    sim = await asyncio.create_task(opened())
    stream, buffer = await acl_py.CreateStream(), await MallocManaged(128 * KIB)
    await write[1, stream](buffer)
    await acl_py.SynchronizeStream(stream)
    begin = sim.now_ns
    await asyncio.to_thread(lambda: buffer.numpy()[64 * KIB])
    assert sim.now_ns == begin
    assert buffer.numpy()[0] == 5
    assert sim.now_ns - begin == 2_000 + 16 * 4096 + 16 * 100
    await sim.close()


async def opened():
    return acl_py.open(device="tiny")


def values_line():
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    return source.index("    assert values[0] == 5") + 1


@tiny
async def test_a_prefetch_moves_pages_while_another_stream_computes():
    sim = acl_py.current_simulation()
    copies, computes = await acl_py.CreateStream(), await acl_py.CreateStream()
    buffer, since = await MallocManaged(64 * KIB), sim.now_ns + 1_000
    await busy("long", 100)[1, computes]()
    await MemPrefetchAsync(buffer, 64 * KIB, 0, copies)
    assert sim.now_ns - since == 1_000 + 16 * 100  # the call itself changes the page tables
    await read[1, copies](buffer)
    await acl_py.SynchronizeDevice()
    end = 1_000 + 16 * 4096
    assert history(sim, since - 1_000) == [
        ("long", 1_000, 101_000),
        ("prefetch to the device", 2_000, 1_000 + end),
        ("read", 1_000 + end, 11_000 + end),
    ]


@tiny
async def test_behind_work_a_thread_of_the_driver_begins_the_prefetch():
    sim, stream = acl_py.current_simulation(), await acl_py.CreateStream()
    buffer, since = await MallocManaged(4 * KIB), sim.now_ns
    await busy("long", 100)[1, stream]()
    await MemPrefetchAsync(buffer, 4 * KIB, 0, stream)
    assert sim.now_ns - since == 2_000
    await acl_py.SynchronizeDevice()
    assert history(sim, since) == [
        ("long", 1_000, 101_000),
        ("driver_begins_prefetch", 101_000, 111_000),
        ("prefetch to the device", 111_000, 111_000 + 100 + 4096),
    ]


@tiny
async def test_a_prefetch_to_the_host_holds_the_host():
    sim, stream = acl_py.current_simulation(), await acl_py.CreateStream()
    buffer = await MallocManaged(64 * KIB)
    await write[1, stream](buffer)
    await acl_py.SynchronizeStream(stream)
    begin = sim.now_ns
    await MemPrefetchAsync(buffer, 64 * KIB, CPU_DEVICE_ID, stream)
    assert sim.now_ns - begin == 1_000 + 16 * 4096


@tiny
async def test_free_waits_until_the_device_is_idle():
    sim, stream = acl_py.current_simulation(), await acl_py.CreateStream(nonblocking=True)
    buffer = await MallocManaged(4 * KIB)
    await busy("long", 100)[1, stream]()
    begin = sim.now_ns
    await acl_py.Free(buffer)
    assert sim.now_ns - begin > 100_000


@tiny
async def test_attributes_tell_what_was_advised_and_prefetched():
    stream = await acl_py.CreateStream()
    buffer, pinned = await MallocManaged(8 * KIB), await acl_py.MallocHost(4 * KIB)
    types = [(await acl_py.PointerGetAttributes(each)).type for each in (buffer, pinned, np.zeros(4))]
    assert types == [MemoryType.MANAGED, MemoryType.HOST, MemoryType.UNREGISTERED]
    await MemPrefetchAsync(buffer, 4 * KIB, 1, stream)
    await MemAdvise(buffer, 4 * KIB, Advice.SET_READ_MOSTLY)
    await MemAdvise(buffer, 4 * KIB, Advice.SET_PREFERRED_LOCATION, CPU_DEVICE_ID)
    for device in (0, 1):
        await MemAdvise(buffer, 4 * KIB, Advice.SET_ACCESSED_BY, device)

    async def attributes(nbytes):
        return [await MemRangeGetAttribute(buffer, nbytes, attribute) for attribute in RangeAttribute]

    assert await attributes(4 * KIB) == [1, CPU_DEVICE_ID, (0, 1), 1]
    assert await attributes(8 * KIB) == [0, INVALID_DEVICE_ID, (), INVALID_DEVICE_ID]


@cta.kernel(threads=128)
def add_one(x: cta.InOut):
    x[cta.tid] = x[cta.tid] + 1


@tiny(device="h200")
async def test_thread_blocks_fault_before_their_first_instruction():
    sim, stream = acl_py.current_simulation(), await acl_py.CreateStream()
    buffer = await MallocManaged(64 * KIB)
    for _ in range(2):
        await add_one[1, stream](acl_py.Array(buffer, np.float32))
        await acl_py.SynchronizeStream(stream)
    first, second = (op.end_ns - op.start_ns for op in sim.trace.ops)
    assert first - second == 20_000 + sim.runtime.profile.managed.fault_to_device[64 * KIB]


@cta.kernel(threads=128)
def add_many(x: cta.InOut):
    for _ in range(100):
        x[cta.tid] = x[cta.tid] + 1


@tiny(device="h200")
async def test_a_block_that_faults_holds_its_sm_until_it_has_ended():
    streams = [await acl_py.CreateStream() for _ in range(2)]
    slow = acl_py.kernel(cost=acl_py.Cost(us=100), exclusive=True)(change.function)
    other, behind = await acl_py.Malloc(64), []
    for malloc in (MallocManaged, acl_py.Malloc):
        buffer = await malloc(64 * KIB)
        block = await add_many[1, streams[0]](acl_py.Array(buffer, np.float32))
        beside = await slow[132, streams[1]](other)  # the last of its blocks needs the SM of the one block
        await acl_py.SynchronizeDevice()
        behind.append(beside.end_ns - block.end_ns)
    assert behind[0] == behind[1]


@tiny
async def test_each_launch_of_a_graph_faults_on_what_the_host_has_taken_back():
    watch, stream = Watch(), await acl_py.CreateStream()
    buffer = await MallocManaged(64 * KIB)
    async with acl_py.capture(stream) as graph:
        await change[1, stream](buffer)
    executable = await acl_py.GraphInstantiate(graph)
    acl_py.current_simulation().observe(watch)
    for _ in range(2):
        await acl_py.GraphLaunch(executable, stream)
        await acl_py.SynchronizeStream(stream)
    assert buffer.numpy()[0] >= 0
    await acl_py.GraphLaunch(executable, stream)
    await acl_py.SynchronizeStream(stream)
    assert [moves.to_device - moves.to_host for moves in watch.moves] == [16, 0, -16, 16]


# --- mistakes


@tiny
async def test_memory_that_cannot_be_prefetched_or_advised():
    buffer, pinned = await MallocManaged(4 * KIB), await acl_py.MallocHost(4 * KIB)
    stream = await acl_py.CreateStream()
    with refused(Kind.INVALID_VALUE, "has 4096 bytes, not 4097"):
        await MemPrefetchAsync(buffer, 4 * KIB + 1, 0, stream)
    with refused(Kind.INVALID_VALUE, "pinned 4.0 KiB", "not managed", "MallocManaged()", takes_ns=1000):
        await MemPrefetchAsync(pinned, 4 * KIB, 0, stream)
    with refused(Kind.INVALID_VALUE, "0 bytes", takes_ns=1000):
        await MemPrefetchAsync(buffer, 0, 0, stream)
    with refused(Kind.INVALID_DEVICE, "device 2"):
        await MemPrefetchAsync(buffer, 4 * KIB, 2, stream)
    with refused(Kind.INVALID_VALUE, "7 is not an Advice", "SET_READ_MOSTLY", takes_ns=1000):
        await MemAdvise(buffer, 4 * KIB, 7)
    with refused(Kind.INVALID_VALUE, "whole allocations", takes_ns=1000):
        await acl_py.StreamAttachMemAsync(stream, buffer[8:], 8)
    await acl_py.Free(buffer)
    with refused(Kind.INVALID_ADDRESS, "no longer alive"):
        await MemPrefetchAsync(buffer, 4 * KIB, 0, stream)


@tiny(rules="acl")
async def test_acl_has_no_managed_memory():
    with refused(Kind.NOT_SUPPORTED, "managed memory under rules acl", "Malloc() and MallocHost()"):
        await MallocManaged(4 * KIB)


@tiny(device="ascend910b3", rules="cuda")
async def test_a_profile_without_managed_memory_names_those_that_have_it():
    with refused(Kind.NOT_SUPPORTED, "ascend910b3", "h200, tiny"):
        await MallocManaged(4 * KIB)


@tiny
async def test_a_view_that_outlives_its_memory_moves_nothing():
    buffer = await MallocManaged(MIB)
    values = buffer.numpy()
    await acl_py.Free(buffer)
    begin = acl_py.current_simulation().now_ns
    assert values.sum() >= 0
    assert acl_py.current_simulation().now_ns == begin


# --- what traces and reports tell


async def handed_over():
    """A kernel writes a region that the host reads; then a prefetch takes it to the device."""
    stream, buffer = await acl_py.CreateStream(), await MallocManaged(64 * KIB, name="shared")
    await write[1, stream](buffer)
    await acl_py.SynchronizeStream(stream)
    assert buffer.numpy()[0] == 5
    await MemPrefetchAsync(buffer, 64 * KIB, 0, stream)
    await acl_py.SynchronizeStream(stream)


@tiny
async def test_migrations_are_rows_of_the_trace_and_of_its_file(tmp_path):
    sim = acl_py.current_simulation()
    await handed_over()
    [kernel, prefetch], [faults] = sim.trace.ops, [call for call in sim.trace.calls if call.name == "HostPageFaults"]
    rows = [
        (row.name, row.begin_ns, row.end_ns, row.to_device, row.to_host, row.mapped)
        for row in sim.trace.timeline().migrations
    ]
    assert rows == [
        ("write", kernel.start_ns, kernel.start_ns + 10_000 + 16 * 4096, 16, 0, 0),
        ("host", faults.enter_ns, faults.exit_ns, 0, 16, 16),
        ("prefetch to the device", prefetch.start_ns, prefetch.end_ns, 16, 0, 0),
    ]
    sim.trace.save(tmp_path / "trace")
    assert list(read_trace(tmp_path / "trace").migrations) == sim.trace.migrations
    chrome.write(sim.trace, tmp_path / "chrome.json")
    assert '"name":"pages for write"' in (tmp_path / "chrome.json").read_text(encoding="utf-8")


@tiny
async def test_page_faults_are_implicit_waits_and_a_prefetch_is_none():
    await handed_over()
    found = findings(acl_py.current_simulation().trace.timeline())
    assert [(each.pitfall, each.held_ns, each.what) for each in found] == [
        (Pitfall.PAGE_FAULTS, 10_000 + 16 * 4096, "write waited for pages of managed memory"),
        (
            Pitfall.PAGE_FAULTS,
            2_000 + 16 * 4196,
            "the host waited for pages of managed memory that were on a device",
        ),
    ]
    assert "MemPrefetchAsync()" in found[0].edit
    assert "CPU_DEVICE_ID" in found[1].edit


@tiny
async def test_the_first_touch_of_the_host_waits_for_nobody():
    buffer = await MallocManaged(64 * KIB)
    buffer.numpy()[:] = 1
    assert findings(acl_py.current_simulation().trace.timeline()) == []


@tiny
async def test_memory_reached_over_the_bus_is_named_as_that():
    stream, buffer = await acl_py.CreateStream(), await MallocManaged(64 * KIB)
    await MemAdvise(buffer, 64 * KIB, Advice.SET_ACCESSED_BY, 0)
    await read[1, stream](buffer)
    await acl_py.SynchronizeStream(stream)
    [finding] = findings(acl_py.current_simulation().trace.timeline())
    assert (finding.what, finding.held_ns) == ("read reached memory of the host over the bus", 2 * 64 * KIB)


@tiny(sanitize=True)
async def test_a_prefetch_to_the_host_happens_to_wait_and_promises_nothing():
    sim, stream = acl_py.current_simulation(), await acl_py.CreateStream()
    buffer = await MallocManaged(4 * KIB)
    await write[1, stream](buffer)
    await asyncio.sleep(0.1)  # the kernel is over, so the host itself takes part in the prefetch
    await MemPrefetchAsync(buffer, 4 * KIB, CPU_DEVICE_ID, stream)
    assert buffer.numpy().sum() >= 0
    await acl_py.SynchronizeStream(stream)
    await acl_py.Free(buffer)
    assert [finding.kind for finding in sim.findings] == ["relies"]


@tiny(sanitize=True)
async def test_the_sanitizer_sees_what_the_host_does_with_managed_memory():
    sim, stream = acl_py.current_simulation(), await acl_py.CreateStream()
    buffer = await MallocManaged(4 * KIB)
    await write[1, stream](buffer)
    assert buffer.numpy().sum() >= 0
    await acl_py.SynchronizeStream(stream)
    await acl_py.Free(buffer)
    [race] = [finding for finding in sim.findings if finding.kind == "race"]
    assert "write" in race.text
    assert "host read" in race.text
