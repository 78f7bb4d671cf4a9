"""What the sanitizer knows of collectives: what is behind them, and which uses beside them are races."""

import numpy as np
import pytest

import acl_py as acl
from acl_py.causes.findings import findings
from acl_py.trace.rows.files import read_trace
from tests.collectives.ranked import HERE, THERE, cards, ranks_of, reduce_all


def races(sim):
    """The kinds of the findings, and the lines that they name."""
    return [(finding.kind.value, [access.what for access in finding.accesses]) for finding in sim.findings]


async def _pinned(value):
    pinned = await acl.MallocHost(16)
    pinned.numpy(np.float32)[:] = value
    return pinned


@cards(sanitize="device")
async def test_a_send_buffer_that_is_changed_too_early_is_a_race():
    ranks = await ranks_of(await acl.CommInitAll(2))
    pinned = await _pinned(9)
    await acl.SetDevice(0)
    other = await acl.CreateStream(nonblocking=True)
    for rank in ranks:
        await reduce_all(rank)
    await acl.MemcpyAsync(ranks[0].array, 16, pinned, 16, HERE, other)
    [(kind, accesses)] = races(acl.current_simulation())
    assert kind == "race"
    assert accesses == ["collective 'AllReduce'", "h2d"]
    for rank in ranks:
        await acl.SynchronizeStream(rank.stream)


@cards(sanitize="device")
async def test_a_receive_buffer_that_is_read_too_early_is_a_race():
    ranks = await ranks_of(await acl.CommInitAll(2))
    pinned = await _pinned(0)
    await acl.SetDevice(1)
    other = await acl.CreateStream(nonblocking=True)
    for rank in ranks:
        await acl.Broadcast(rank.array, None, None, 0, rank.comm, rank.stream)
    await acl.MemcpyAsync(pinned, 16, ranks[1].array, 16, THERE, other)
    [(kind, accesses)] = races(acl.current_simulation())
    assert kind == "race"
    assert accesses == ["collective 'Broadcast'", "d2h"]


@cards(sanitize="device")
async def test_work_behind_a_collective_is_behind_the_work_of_the_other_ranks():
    """Rank 1 reads memory of rank 0 over the link, behind an AllReduce that rank 0 has made behind its own kernel."""
    ranks = await ranks_of(await acl.CommInitAll(2))
    await acl.SetDevice(0)
    shared = await acl.Malloc(16)
    await acl.MemsetAsync(shared, 16, 1, 16, ranks[0].stream)
    for rank in ranks:
        await reduce_all(rank)
    await acl.SetDevice(1)
    copy = await acl.Malloc(16)
    await acl.MemcpyAsync(copy, 16, shared, 16, acl.MemcpyKind.DEVICE_TO_DEVICE, ranks[1].stream)
    await acl.SynchronizeStream(ranks[1].stream)
    assert races(acl.current_simulation()) == []


@pytest.mark.parametrize("is_received", [True, False])
@cards(sanitize="device")
async def test_what_a_rank_has_not_received_it_is_not_behind(is_received):
    """A Broadcast puts the others behind its root, and not behind each other."""
    ranks = await ranks_of(await acl.CommInitAll(3))
    writer = 0 if is_received else 1
    await acl.SetDevice(writer)
    shared = await acl.Malloc(16)
    await acl.MemsetAsync(shared, 16, 1, 16, ranks[writer].stream)
    for rank in ranks:
        await acl.Broadcast(rank.array, None, None, 0, rank.comm, rank.stream)
    await acl.SetDevice(2)
    copy = await acl.Malloc(16)
    await acl.MemcpyAsync(copy, 16, shared, 16, acl.MemcpyKind.DEVICE_TO_DEVICE, ranks[2].stream)
    await acl.SynchronizeDevice()
    assert len(races(acl.current_simulation())) == (0 if is_received else 1)


@cards(sanitize="device")
async def test_a_group_orders_as_its_calls_do():
    ranks = await ranks_of(await acl.CommInitAll(2))
    await acl.SetDevice(0)
    shared = await acl.Malloc(16)
    await acl.MemsetAsync(shared, 16, 1, 16, ranks[0].stream)
    async with acl.group():
        await acl.Send(ranks[0].array, None, None, 1, ranks[0].comm, ranks[0].stream)
        await acl.Recv(ranks[1].array, None, None, 0, ranks[1].comm, ranks[1].stream)
    await acl.SetDevice(1)
    copy = await acl.Malloc(16)
    await acl.MemcpyAsync(copy, 16, shared, 16, acl.MemcpyKind.DEVICE_TO_DEVICE, ranks[1].stream)
    await acl.SynchronizeStream(ranks[1].stream)
    assert races(acl.current_simulation()) == []


def test_a_recording_knows_the_same_order(tmp_path):
    path = tmp_path / "run.acl"

    async def main():
        ranks = await ranks_of(await acl.CommInitAll(2))
        for rank in ranks:
            await reduce_all(rank)
            await acl.Broadcast(rank.array, 3, None, 1, rank.comm, rank.stream)
        for rank in ranks:
            await acl.SynchronizeStream(rank.stream)
        acl.current_simulation().trace.save(path)
        return acl.current_simulation().trace.timeline()

    timeline = acl.run(main, device="h200", rules="cuda", sanitize=True)
    read = read_trace(path)
    assert read.ops == timeline.ops
    assert read.calls == timeline.calls
    assert read.handles == timeline.handles
    assert [op.engine for op in read.ops if op.kind == "collective"] == ["links"] * 4
    call = next(call for call in read.calls if call.name == "Broadcast")
    assert call.act.work[0][:6] == ("Broadcast", 3, "float32", "", 1, -1)
    assert findings(read) == findings(timeline)
