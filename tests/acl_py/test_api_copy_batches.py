"""Batches of copies: one call, several operations, one payment."""

import asyncio

import pytest
from histories import D2H, H2D, busy, calls, history, refused, tiny

import acl_py as acl
from acl_py.causes.relation import Relation
from acl_py.recorded import notes_of
from acl_py.trace import read_trace

A = busy("A", 50)


async def _place():
    """A stream, and 200 bytes of pinned memory, device memory and pinned memory."""
    stream, src, there, back = (
        await acl.CreateStream(), await acl.MallocHost(200), await acl.Malloc(200), await acl.MallocHost(200),
    )  # fmt: skip
    src.numpy()[:] = range(200)
    return stream, src, there, back


@tiny
async def test_all_copies_of_a_batch_are_queued_by_one_call_that_pays_once():
    sim = acl.current_simulation()
    stream, src, there, back = await _place()
    begin = sim.now_ns
    last = await acl.MemcpyBatchAsync([(there[at:], 50, src[at:], 50) for at in range(0, 200, 50)], stream)
    await acl.MemcpyAsync(back, 200, there, 200, D2H, stream)
    await acl.SynchronizeStream(stream)
    assert back.numpy().tolist() == list(range(200))
    # 1,000 for the call, and 200 for each further copy
    assert history(sim, begin) == [
        ("h2d", 1_600, 1_650), ("h2d", 1_650, 1_700), ("h2d", 1_700, 1_750), ("h2d", 1_750, 1_800),
        ("d2h", 2_600, 2_800),
    ]  # fmt: skip
    assert last.work.dst_offset == 150
    assert calls(sim, begin)[:2] == [("MemcpyBatchAsync", 0, 1_600), ("MemcpyAsync", 1_600, 2_600)]
    assert len({op.site for op in sim.trace.ops[:4]}) == 1


@tiny
async def test_a_copy_inside_the_device_is_not_cheaper_in_a_batch():
    sim = acl.current_simulation()
    stream, src, there, back = await _place()
    begin = sim.now_ns
    batch = [(there, 50, src, 50), (there[100:], 50, there, 50), (there[150:], 50, there, 50), (back, 50, there, 50)]
    await acl.MemcpyBatchAsync(batch, stream)
    await acl.SynchronizeStream(stream)
    assert back.numpy()[:50].tolist() == list(range(50))
    assert calls(sim, begin)[0] == ("MemcpyBatchAsync", 0, 3_200)
    assert [name for name, *_ in history(sim, begin)] == ["h2d", "d2d", "d2d", "d2h"]


@tiny
async def test_a_batch_that_is_refused_has_queued_nothing():
    stream, src, there, _ = await _place()
    gone = await acl.Malloc(64)
    await acl.Free(gone)
    for kind, copy, part in (
        (acl.Kind.INVALID_VALUE, (there, 9, src, 10), "dest_max is 9"),
        (acl.Kind.INVALID_VALUE, (there, 201, src, 201), "200"),
        (acl.Kind.INVALID_ADDRESS, (gone, 8, src, 8), "freed"),
        (acl.Kind.NOT_SUPPORTED, (src, 8, src[8:], 8), "copy 1 of a batch stays on the host"),
    ):
        with refused(kind, part):
            await acl.MemcpyBatchAsync([(there, 8, src, 8), copy], stream)


@pytest.mark.parametrize(("rules", "stream"), [("cuda", None), ("cuda_per_thread", acl.LEGACY_STREAM)])
def test_the_legacy_stream_takes_no_batch_and_any_other_default_stream_does(rules, stream):
    async def program():
        _, src, there, _ = await _place()
        with refused(acl.Kind.INVALID_VALUE, "takes no batches"):
            await acl.MemcpyBatchAsync([(there, 8, src, 8)], stream)
        await acl.MemcpyBatchAsync([(there, 8, src, 8)], acl.PER_THREAD_STREAM)
        await acl.SynchronizeDevice()

    acl.run(program, device="tiny", rules=rules)


@tiny(rules="acl")
async def test_under_acl_rules_all_copies_of_a_batch_have_one_direction():
    stream, src, there, back = await _place()
    way, mixed = (there, 50, src, 50), (back, 50, there, 50)
    with refused(acl.Kind.NOT_SUPPORTED, "copy 1 of a batch is d2h, and the first is h2d"):
        await acl.MemcpyBatchAsync([way, mixed], stream)
    with refused(acl.Kind.NOT_SUPPORTED, "copy 0 of a batch is d2d"):
        await acl.MemcpyBatchAsync([(there, 50, there[50:], 50)], stream)
    await acl.MemcpyBatchAsync([way, way], None)
    await acl.SynchronizeDevice()
    await acl.MemcpyBatchAsync([mixed], stream)
    await acl.SynchronizeStream(stream)
    assert back.numpy()[:50].tolist() == list(range(50))


@tiny
async def test_a_batch_that_is_longer_than_the_hardware_queue_waits_for_room():
    sim = acl.current_simulation()
    stream, src, there, _ = await _place()
    await acl.LaunchKernel(A, 1, (), stream)
    begin = sim.now_ns
    await acl.MemcpyBatchAsync([(there[at:], 10, src[at:], 10) for at in range(0, 200, 10)], stream)
    assert sim.now_ns - begin > 50_000  # 16 fit into the queue: the host has waited for the kernel
    await acl.SynchronizeStream(stream)
    copies = [each for each in history(sim, begin) if each[0] == "h2d"]
    assert copies == [("h2d", copies[0][1] + at, copies[0][1] + at + 10) for at in range(0, 200, 10)]


@tiny
async def test_memory_that_is_freed_while_a_batch_waits_for_room_ends_it():
    sim = acl.current_simulation()
    stream, _, there, _ = await _place()
    lost = await acl.MallocAsync(8, stream)
    await acl.LaunchKernel(A, 1, (), stream)
    batch = [*((there, 8, there[8:], 8) for _ in range(18)), (there, 8, lost, 8)]
    copies = asyncio.create_task(acl.MemcpyBatchAsync(batch, stream))
    await asyncio.sleep(0)
    await acl.FreeAsync(lost, stream)
    [late] = await asyncio.gather(copies, return_exceptions=True)
    assert late.kind is acl.Kind.INVALID_ADDRESS
    await acl.SynchronizeDevice()
    assert [name for name, *_ in history(sim)] == ["A"] + ["d2d"] * 16


def test_the_copies_of_a_batch_race_as_copies_do(tmp_path):
    async def program():
        one, src, there, _ = await _place()
        two = await acl.CreateStream()
        batch = [(there, 50, src, 50), (there[50:], 50, src, 50)]
        await acl.MemcpyBatchAsync(batch, one)
        await acl.MemcpyAsync(there[90:], 20, src, 20, H2D, two)
        await acl.SynchronizeDevice()
        await acl.MemcpyBatchAsync(batch, two)
        await acl.SynchronizeDevice()
        return acl.current_simulation()

    sim = acl.run(program, device="tiny", sanitize=True)
    [race] = [each for each in sim.findings if each.kind == "race"]
    assert "[90:100]" in str(race)
    sim.trace.save(tmp_path / "run.acl")
    read = read_trace(tmp_path / "run.acl")
    assert read == sim.trace.timeline()
    relation = Relation(read)
    assert [(one, other) for other in range(5) for one in range(other) if not relation.is_before(one, other)] == [
        (0, 2), (1, 2),
    ]  # fmt: skip


@tiny
async def test_a_program_from_a_recording_says_that_it_has_no_batches():
    sim = acl.current_simulation()
    stream, src, there, _ = await _place()
    await acl.MemcpyBatchAsync([(there, 8, src, 8)], stream)
    await acl.SynchronizeStream(stream)
    [note] = notes_of(sim.trace.timeline())
    assert note.endswith(
        "a stream program has no step for MemcpyBatchAsync: a replay keeps its time and leaves out its effect"
    )
