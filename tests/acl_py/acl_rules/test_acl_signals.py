"""Notifies (3.8), and words of device memory that streams write and wait for."""

from dataclasses import replace

import numpy as np
import pytest
from histories import busy, history, misused, refused, tiny, tiny_acl

import acl_py as acl
from device_model.profile import load

A, B = busy("A", 10), busy("B", 10)


@tiny_acl
async def test_the_vendors_example_waits_before_the_record():
    sim, a, b, notify = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateNotify(),
    )
    begin = sim.now_ns
    await acl.WaitAndResetNotify(notify, b)
    await acl.LaunchKernel(B, 1, (), b)
    await acl.LaunchKernel(A, 1, (), a)
    await acl.RecordNotify(notify, a)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 3_000, 13_000), ("B", 13_000, 23_000)]


@tiny_acl
async def test_one_record_lets_one_wait_pass():
    a, b, c, notify = (
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateNotify(),
    )
    await acl.RecordNotify(notify, a)
    await acl.WaitAndResetNotify(notify, b)
    await acl.SynchronizeStream(b)
    await acl.WaitAndResetNotify(notify, c)
    with pytest.raises(acl.DeadlockError):
        await acl.SynchronizeStream(c)
    await acl.RecordNotify(notify, a)
    await acl.SynchronizeStream(c)


@tiny_acl
async def test_two_waiters_and_one_record():
    """Only the first goes on."""
    streams, notify = [await acl.CreateStream() for _ in range(2)], await acl.CreateNotify()
    for stream in streams:
        await acl.WaitAndResetNotify(notify, stream)
    await acl.RecordNotify(notify, None)
    await acl.SynchronizeStream(streams[0])
    with pytest.raises(acl.DeadlockError):
        await acl.SynchronizeStream(streams[1])


@tiny_acl
async def test_two_records_before_a_wait_count_once():
    a, b, notify = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateNotify()
    await acl.RecordNotify(notify, a)
    await acl.RecordNotify(notify, a)
    await acl.WaitAndResetNotify(notify, b)
    await acl.SynchronizeStream(b)
    await acl.WaitAndResetNotify(notify, b)
    with pytest.raises(acl.DeadlockError):
        await acl.SynchronizeStream(b)


@tiny_acl
async def test_a_notify_works_across_devices():
    sim, mine, notify = acl.current_simulation(), await acl.CreateStream(), await acl.CreateNotify()
    await acl.LaunchKernel(A, 1, (), mine)
    await acl.RecordNotify(notify, mine)
    await acl.SetDevice(1)
    theirs = await acl.CreateStream()
    await acl.WaitAndResetNotify(notify, theirs)
    await acl.LaunchKernel(B, 1, (), theirs)
    await acl.SynchronizeStream(theirs)
    (a, b) = sorted(sim.trace.ops, key=lambda op: op.name)
    assert b.start_ns >= a.end_ns


@tiny_acl
async def test_a_wait_with_a_limit_shows_at_the_next_synchronisation():
    sim, stream, notify = acl.current_simulation(), await acl.CreateStream(), await acl.CreateNotify()
    await acl.WaitAndResetNotify(notify, stream, 3)
    with pytest.raises(acl.AclError) as caught:
        await acl.SynchronizeStream(stream)
    assert (caught.value.code, caught.value.kind) == (107020, acl.Kind.OP_WAIT_TIMEOUT)
    assert sim.now_ns == pytest.approx(3e9, abs=20_000)
    for limit in (-1, 1 << 32):
        with pytest.raises(TypeError, match="timeout"):
            await acl.WaitAndResetNotify(notify, stream, limit)


@tiny_acl
async def test_reset_and_destruction():
    stream, notify, gone = await acl.CreateStream(), await acl.CreateNotify(), await acl.CreateNotify()
    await acl.RecordNotify(notify, stream)
    with misused(TypeError, "notifies must be a list of what CreateNotify\\(\\) gave, not <Notify"):
        await acl.ResetNotifies(notify)
    await acl.ResetNotifies([notify])
    await acl.WaitAndResetNotify(notify, stream)
    with pytest.raises(acl.DeadlockError):
        await acl.SynchronizeStream(stream)
    await acl.DestroyNotify(gone)
    with refused(acl.Kind.INVALID_HANDLE, gone.made, gone.destroyed) as caught:
        await acl.RecordNotify(gone)
    assert caught.value.code == 107017


def test_there_is_a_limit_of_notifies():
    async def main():
        first = await acl.CreateNotify()
        await acl.CreateNotify()
        with refused(acl.Kind.NO_NOTIFY_LEFT, "all 2 notifies") as caught:
            await acl.CreateNotify()
        assert caught.value.code == 207009
        await acl.DestroyNotify(first)
        await acl.CreateNotify()

    profile = load("tiny")
    acl.run(main, device=replace(profile, limits=replace(profile.limits, notifies=2)), rules="acl")


# --- words


async def word(value=0):
    memory = await acl.Malloc(64)
    await acl.Memcpy(memory, 64, np.full(8, value, np.uint64), 64, acl.MemcpyKind.HOST_TO_DEVICE)
    return memory


@pytest.mark.parametrize(
    ("how", "before", "value", "after"),
    [
        (acl.Compare.GEQ, 1, 5, 5),
        (acl.Compare.EQ, 1, 5, 5),
        (acl.Compare.AND, 1, 6, 2),
        (acl.Compare.NOR, 2**64 - 1, 1, 2**64 - 9),
    ],
)
@tiny_acl
async def test_a_stream_waits_until_the_word_compares(how, before, value, after):
    sim, a, b, memory = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream(), await word(before)
    begin = sim.now_ns
    await acl.ValueWait(memory, value, how, b)
    await acl.LaunchKernel(B, 1, (), b)
    await acl.LaunchKernel(A, 1, (), a)
    await acl.ValueWrite(memory, after, 0, a)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 3_000, 13_000), ("B", 13_000, 23_000)]


@tiny_acl
async def test_a_word_that_compares_already_lets_the_stream_pass():
    sim, stream, memory = acl.current_simulation(), await acl.CreateStream(), await word(7)
    await acl.ValueWait(memory, 7, acl.Compare.EQ, stream)
    await acl.LaunchKernel(A, 1, (), stream)
    await acl.SynchronizeStream(stream)
    assert len(sim.trace) >= 1


@acl.kernel(cost=acl.Cost(us=10))
def count_up(out: acl.InOut):
    out += 1


@pytest.mark.parametrize("writer", ["kernel", "copy", "fill", "host copy"])
@tiny_acl
async def test_whatever_writes_the_word_counts(writer):
    a, b, memory, pinned = await acl.CreateStream(), await acl.CreateStream(), await word(0), await acl.MallocHost(64)
    pinned.numpy(np.uint64)[:] = 0x0101010101010101
    await acl.ValueWait(memory, 1, acl.Compare.AND, b)
    after = await acl.LaunchKernel(B, 1, (), b)
    if writer == "kernel":
        await acl.LaunchKernel(count_up, 1, (acl.Array(memory, np.uint64),), a)
    elif writer == "copy":
        await acl.MemcpyAsync(memory, 64, pinned, 64, acl.MemcpyKind.HOST_TO_DEVICE, a)
    elif writer == "fill":
        await acl.Memset(memory, 64, 1, 64)
    else:
        await acl.Memcpy(memory, 64, pinned, 64, acl.MemcpyKind.HOST_TO_DEVICE)
    await acl.SynchronizeStream(b)
    assert after.done


@tiny_acl
async def test_a_word_that_nobody_writes_is_a_deadlock_or_a_timeout():
    stream, memory = await acl.CreateStream(), await word(0)
    await acl.SetOpWaitTimeOut(1)
    await acl.ValueWait(memory, 1, acl.Compare.EQ, stream)
    with pytest.raises(acl.AclError) as caught:
        await acl.SynchronizeStream(stream)
    assert caught.value.code == 107020
    await acl.SetOpWaitTimeOut(0)
    await acl.ValueWait(memory, 1, acl.Compare.EQ, stream)
    with pytest.raises(acl.DeadlockError):
        await acl.SynchronizeStream(stream)


@tiny_acl
async def test_words_are_aligned_and_of_device_memory():
    stream, memory, pinned = await acl.CreateStream(), await word(), await acl.MallocHost(64)
    for address in (memory + 4, pinned):
        with refused(acl.Kind.INVALID_ADDRESS, "at a multiple of 8"):
            await acl.ValueWrite(address, 1, 0, stream)
    with refused(acl.Kind.INVALID_VALUE, "flag 4"):
        await acl.ValueWait(memory, 1, 4, stream)


@tiny(rules="cuda")
async def test_cuda_has_no_notifies():
    with refused(acl.Kind.NOT_SUPPORTED, "use events"):
        await acl.CreateNotify()
