"""Notifies (3.8), and words of device memory that streams write and wait for."""

from dataclasses import replace

import numpy as np
import pytest
from histories import busy, history, refused, tiny

import acl_py
from acl_py import (
    AclError,
    Array,
    Compare,
    CreateNotify,
    CreateStream,
    DeadlockError,
    DestroyNotify,
    InOut,
    Kind,
    LaunchKernel,
    Malloc,
    MallocHost,
    Memcpy,
    MemcpyAsync,
    MemcpyKind,
    Memset,
    RecordNotify,
    ResetNotifies,
    SetDevice,
    SetOpWaitTimeOut,
    SynchronizeDevice,
    SynchronizeStream,
    ValueWait,
    ValueWrite,
    WaitAndResetNotify,
    current_simulation,
)
from device_model.profile import load

A, B = busy("A", 10), busy("B", 10)
acl = tiny(rules="acl")


@acl
async def test_the_vendors_example_waits_before_the_record():
    sim, a, b, notify = current_simulation(), await CreateStream(), await CreateStream(), await CreateNotify()
    begin = sim.now_ns
    await WaitAndResetNotify(notify, b)
    await LaunchKernel(B, 1, (), b)
    await LaunchKernel(A, 1, (), a)
    await RecordNotify(notify, a)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 3_000, 13_000), ("B", 13_000, 23_000)]


@acl
async def test_one_record_lets_one_wait_pass():
    a, b, c, notify = await CreateStream(), await CreateStream(), await CreateStream(), await CreateNotify()
    await RecordNotify(notify, a)
    await WaitAndResetNotify(notify, b)
    await SynchronizeStream(b)
    await WaitAndResetNotify(notify, c)
    with pytest.raises(DeadlockError):
        await SynchronizeStream(c)
    await RecordNotify(notify, a)
    await SynchronizeStream(c)


@acl
async def test_two_waiters_and_one_record():
    """Only the first goes on."""
    streams, notify = [await CreateStream() for _ in range(2)], await CreateNotify()
    for stream in streams:
        await WaitAndResetNotify(notify, stream)
    await RecordNotify(notify, None)
    await SynchronizeStream(streams[0])
    with pytest.raises(DeadlockError):
        await SynchronizeStream(streams[1])


@acl
async def test_two_records_before_a_wait_count_once():
    a, b, notify = await CreateStream(), await CreateStream(), await CreateNotify()
    await RecordNotify(notify, a)
    await RecordNotify(notify, a)
    await WaitAndResetNotify(notify, b)
    await SynchronizeStream(b)
    await WaitAndResetNotify(notify, b)
    with pytest.raises(DeadlockError):
        await SynchronizeStream(b)


@acl
async def test_a_notify_works_across_devices():
    sim, mine, notify = current_simulation(), await CreateStream(), await CreateNotify()
    await LaunchKernel(A, 1, (), mine)
    await RecordNotify(notify, mine)
    await SetDevice(1)
    theirs = await CreateStream()
    await WaitAndResetNotify(notify, theirs)
    await LaunchKernel(B, 1, (), theirs)
    await SynchronizeStream(theirs)
    (a, b) = sorted(sim.trace.ops, key=lambda op: op.name)
    assert b.start_ns >= a.end_ns


@acl
async def test_a_wait_with_a_limit_shows_at_the_next_synchronisation():
    sim, stream, notify = current_simulation(), await CreateStream(), await CreateNotify()
    await WaitAndResetNotify(notify, stream, 3)
    with pytest.raises(AclError) as caught:
        await SynchronizeStream(stream)
    assert (caught.value.code, caught.value.kind) == (107020, Kind.OP_WAIT_TIMEOUT)
    assert sim.now_ns == pytest.approx(3e9, abs=20_000)
    for limit in (-1, 1 << 32):
        with pytest.raises(TypeError, match="timeout"):
            await WaitAndResetNotify(notify, stream, limit)


@acl
async def test_reset_and_destruction():
    stream, notify, gone = await CreateStream(), await CreateNotify(), await CreateNotify()
    await RecordNotify(notify, stream)
    await ResetNotifies([notify])
    await WaitAndResetNotify(notify, stream)
    with pytest.raises(DeadlockError):
        await SynchronizeStream(stream)
    await DestroyNotify(gone)
    with refused(Kind.INVALID_HANDLE, gone.made, gone.destroyed) as caught:
        await RecordNotify(gone)
    assert caught.value.code == 107017


def test_there_is_a_limit_of_notifies():
    async def main():
        first = await CreateNotify()
        await CreateNotify()
        with refused(Kind.NO_NOTIFY_LEFT, "all 2 notifies") as caught:
            await CreateNotify()
        assert caught.value.code == 207009
        await DestroyNotify(first)
        await CreateNotify()

    profile = load("tiny")
    acl_py.run(main, device=replace(profile, limits=replace(profile.limits, notifies=2)), rules="acl")


# --- words


async def word(value=0):
    memory = await Malloc(64)
    await Memcpy(memory, 64, np.full(8, value, np.uint64), 64, MemcpyKind.HOST_TO_DEVICE)
    return memory


@pytest.mark.parametrize(
    ("how", "before", "value", "after"),
    [(Compare.GEQ, 1, 5, 5), (Compare.EQ, 1, 5, 5), (Compare.AND, 1, 6, 2), (Compare.NOR, 2**64 - 1, 1, 2**64 - 9)],
)
@acl
async def test_a_stream_waits_until_the_word_compares(how, before, value, after):
    sim, a, b, memory = current_simulation(), await CreateStream(), await CreateStream(), await word(before)
    begin = sim.now_ns
    await ValueWait(memory, value, how, b)
    await LaunchKernel(B, 1, (), b)
    await LaunchKernel(A, 1, (), a)
    await ValueWrite(memory, after, 0, a)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 3_000, 13_000), ("B", 13_000, 23_000)]


@acl
async def test_a_word_that_compares_already_lets_the_stream_pass():
    sim, stream, memory = current_simulation(), await CreateStream(), await word(7)
    await ValueWait(memory, 7, Compare.EQ, stream)
    await LaunchKernel(A, 1, (), stream)
    await SynchronizeStream(stream)
    assert len(sim.trace) >= 1


@acl_py.kernel(cost=acl_py.Cost(us=10))
def count_up(out: InOut):
    out += 1


@pytest.mark.parametrize("writer", ["kernel", "copy", "fill", "host copy"])
@acl
async def test_whatever_writes_the_word_counts(writer):
    a, b, memory, pinned = await CreateStream(), await CreateStream(), await word(0), await MallocHost(64)
    pinned.numpy(np.uint64)[:] = 0x0101010101010101
    await ValueWait(memory, 1, Compare.AND, b)
    after = await LaunchKernel(B, 1, (), b)
    if writer == "kernel":
        await LaunchKernel(count_up, 1, (Array(memory, np.uint64),), a)
    elif writer == "copy":
        await MemcpyAsync(memory, 64, pinned, 64, MemcpyKind.HOST_TO_DEVICE, a)
    elif writer == "fill":
        await Memset(memory, 64, 1, 64)
    else:
        await Memcpy(memory, 64, pinned, 64, MemcpyKind.HOST_TO_DEVICE)
    await SynchronizeStream(b)
    assert after.done


@acl
async def test_a_word_that_nobody_writes_is_a_deadlock_or_a_timeout():
    stream, memory = await CreateStream(), await word(0)
    await SetOpWaitTimeOut(1)
    await ValueWait(memory, 1, Compare.EQ, stream)
    with pytest.raises(AclError) as caught:
        await SynchronizeStream(stream)
    assert caught.value.code == 107020
    await SetOpWaitTimeOut(0)
    await ValueWait(memory, 1, Compare.EQ, stream)
    with pytest.raises(DeadlockError):
        await SynchronizeStream(stream)


@acl
async def test_words_are_aligned_and_of_device_memory():
    stream, memory, pinned = await CreateStream(), await word(), await MallocHost(64)
    for address in (memory + 4, pinned):
        with refused(Kind.INVALID_ADDRESS, "at a multiple of 8"):
            await ValueWrite(address, 1, 0, stream)
    with refused(Kind.INVALID_VALUE, "flag 4"):
        await ValueWait(memory, 1, 4, stream)


@tiny(rules="cuda")
async def test_cuda_has_no_notifies():
    with refused(Kind.NOT_SUPPORTED, "use events"):
        await CreateNotify()
