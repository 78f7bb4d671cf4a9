"""Copies, fills and memory under ACL's rules: the table of kinds, a test for each row, and what waits for what."""

import numpy as np
import pytest
from copy_table import FAULT, NAMES, ROWS, TABLE, UNSUPPORTED, WAITS
from histories import D2D, D2H, DEFAULT, H2D, H2H, busy, calls, history, refused, tiny_acl

import acl_py as acl
from acl_py import faults

N = 256


async def place(where, fill=None):
    if where == "pageable":
        memory = np.zeros(N, np.uint8)
        view = memory
    elif where == "pinned":
        memory = await acl.MallocHost(N)
        view = memory.numpy()
    else:
        memory = await acl.Malloc(N)
        await acl.Memset(memory, N, fill or 0, N)
        return memory
    view[:] = fill or 0
    return memory


async def content(memory):
    if isinstance(memory, np.ndarray):
        return memory
    out = np.empty(N, np.uint8)
    await acl.Memcpy(out, N, memory, N, DEFAULT)
    return out


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("source", "target", "kind", "effect"), ROWS, ids=NAMES)
@tiny_acl
async def test_the_kind_of_an_asynchronous_copy(source, target, kind, effect):
    src, dst, stream = await place(source, 7), await place(target), await acl.CreateStream()
    await acl.LaunchKernel(busy("long", 100), 1, (), stream)
    begin = acl.current_simulation().now_ns
    if isinstance(effect, int):
        with refused(acl.Kind.NOT_SUPPORTED if effect == UNSUPPORTED else acl.Kind.INVALID_COPY_DIRECTION) as caught:
            await acl.MemcpyAsync(dst, N, src, N, kind, stream)
        assert caught.value.code == effect
        return
    copy = await acl.MemcpyAsync(dst, N, src, N, kind, stream)
    waited = acl.current_simulation().now_ns - begin >= 98_000
    assert (waited, copy.done) == (effect == WAITS, effect == WAITS)
    if effect == FAULT:  # a kind that hides pageable memory: the device finds out
        with pytest.raises(acl.AclError, match="cannot reach pageable host memory"):
            await acl.SynchronizeStream(stream)
        assert not (await content(dst)).any()
        return
    await acl.SynchronizeStream(stream)
    assert (await content(dst) == 7).all()


@tiny_acl
async def test_the_kind_of_a_synchronous_copy_does_not_count():
    for source, target in TABLE:
        for kind in acl.MemcpyKind:
            src, dst = await place(source, 9), await place(target)
            await acl.Memcpy(dst, N, src, N, kind)
            assert (await content(dst) == 9).all()


@tiny_acl
async def test_a_count_of_zero_succeeds_without_a_look_at_the_addresses():
    for verb in (acl.Memcpy, acl.MemcpyAsync, acl.MemcpyAsyncWithCondition):
        await verb(0x123, 16, 0x456, 0, 99)
        for source, target in TABLE:
            await verb(await place(target), N, await place(source), 0, H2H)


@tiny_acl
async def test_equal_addresses_succeed_and_nothing_moves():
    pinned = await place("pinned", 3)
    stream = await acl.CreateStream()
    await acl.LaunchKernel(busy("long", 100), 1, (), stream)
    begin = acl.current_simulation().now_ns
    await acl.MemcpyAsync(pinned, N, pinned, N, DEFAULT, stream)
    await acl.Memcpy(pinned, N, pinned, N, DEFAULT)
    assert acl.current_simulation().now_ns - begin == 2_000


@tiny_acl
async def test_more_than_the_destination_holds_is_refused():
    src, dst = await place("pinned"), await place("device")
    for verb in (acl.Memcpy, acl.MemcpyAsync):
        with refused(acl.Kind.INVALID_VALUE, "count is 256, but dest_max is 255") as caught:
            await verb(dst, N - 1, src, N, H2D)
        assert caught.value.code == 107000


@tiny_acl
async def test_a_missing_address_is_the_other_parameter_error():
    dst = await place("device")
    for verb in (acl.Memcpy, acl.MemcpyAsync):
        for args in ((dst, N, 0, N, H2D), (0, N, dst, N, D2H)):
            with refused(acl.Kind.NULL_POINTER) as caught:
                await verb(*args)
            assert caught.value.code == 100000


@tiny_acl
async def test_pitched_copies():
    src, dst = np.arange(N, dtype=np.uint8), await place("device")
    stream, back = await acl.CreateStream(), await place("pinned")
    await acl.Memcpy2d(dst, 32, src, 32, 16, 8, H2D)
    await acl.Memcpy2dAsync(back, 32, dst, 32, 16, 8, D2H, stream)
    await acl.SynchronizeStream(stream)
    assert (back.numpy().reshape(8, 32)[:, :16] == src.reshape(8, 32)[:, :16]).all()
    with refused(acl.Kind.NOT_SUPPORTED, "use Memcpy()"):
        await acl.Memcpy2dAsync(back, 32, src, 32, 16, 8, H2H, stream)
    await acl.LaunchKernel(busy("long", 100), 1, (), stream)
    begin = acl.current_simulation().now_ns
    await acl.Memcpy2dAsync(dst, 32, src, 32, 16, 8, H2D, stream)  # pageable: waits for the stream
    assert acl.current_simulation().now_ns - begin > 98_000


FAILING = {
    "Memcpy": ("h2d", lambda device, array, _: acl.Memcpy(device, N, array, N, H2D)),
    "Memcpy2d": ("h2d", lambda device, array, _: acl.Memcpy2d(device, 32, array, 32, 32, 8, H2D)),
    "Memset": ("fill", lambda device, *_: acl.Memset(device, N, 1, N)),
    "MemcpyAsync": ("h2d", lambda device, array, stream: acl.MemcpyAsync(device, N, array, N, H2D, stream)),
    "Memcpy2dAsync": (
        "h2d",
        lambda device, array, stream: acl.Memcpy2dAsync(device, 32, array, 32, 32, 8, H2D, stream),
    ),
}


@pytest.mark.parametrize(("name", "kind", "call"), [(name, *each) for name, each in FAILING.items()], ids=FAILING)
@tiny_acl
async def test_a_call_whose_work_fails_tells_so_and_has_its_row(name, kind, call):
    sim, device, array, stream = (
        acl.current_simulation(),
        await acl.Malloc(N),
        np.zeros(N, np.uint8),
        await acl.CreateStream(),
    )
    begin = sim.now_ns
    with sim.fault(faults.fail(op=kind)), pytest.raises(acl.AclError, match=r"injected by fault rule fail\("):
        await call(device, array, stream)
    [(_, start, end)] = history(sim, begin)
    assert (start, end) == (1_000, 1_000 + N)
    assert calls(sim, begin) == [(name, 0, 1_000 + N + 2_000)]  # the work, and the wake-up


@tiny_acl
async def test_a_call_that_is_refused_has_no_row():
    device, stream = await acl.Malloc(N), await acl.CreateStreamWithConfig(0, acl.StreamFlag.PERSISTENT)
    for _ in range(acl.current_simulation().runtime.profile.queues.depth):
        await acl.MemsetAsync(device, N, 1, N, stream)
    with refused(acl.Kind.STREAM_FULL, "waits for a model"):
        await acl.MemsetAsync(device, N, 1, N, stream)


# --- what waits for what (3.3, and the complete list of implicit synchronisations, 3.7)


async def idle_verbs():
    """Every verb that the list names as not synchronising."""
    device, pinned, array = await acl.Malloc(N), await acl.MallocHost(N), np.zeros(N, np.uint8)
    yield "malloc", acl.Malloc(N)
    yield "malloc_host", acl.MallocHost(N)
    yield "memcpy to the device", acl.Memcpy(device, N, array, N, H2D)
    yield "memcpy to the host", acl.Memcpy(array, N, device, N, D2H)
    yield "memcpy inside the device", acl.Memcpy(device + 128, 128, device, 128, D2D)
    yield "memset", acl.Memset(device, N, 1, N)
    yield "memset of host memory", acl.Memset(array, N, 1, N)
    yield "memset_async", acl.MemsetAsync(device, N, 2, N, await acl.CreateStream())
    yield "memcpy_async of pinned memory", acl.MemcpyAsync(device, N, pinned, N, H2D, await acl.CreateStream())
    yield "free", acl.Free(await acl.Malloc(N))
    yield "free_host", acl.FreeHost(await acl.MallocHost(N))
    yield "create_stream", acl.CreateStream()


@tiny_acl
async def test_what_does_not_synchronise():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    long = await acl.LaunchKernel(busy("long", 100_000), 1, (), stream)
    in_default = await acl.LaunchKernel(busy("long", 100_000), 1)
    async for name, verb in idle_verbs():
        begin = sim.now_ns
        await verb
        assert sim.now_ns - begin < 10_000, name
    assert (long.done, in_default.done) == (False, False)
    await acl.SynchronizeDevice()


@pytest.mark.parametrize(
    ("make", "free"), [(acl.Malloc, acl.FreeWithDevSync), (acl.MallocHost, acl.FreeHostWithDevSync)]
)
@tiny_acl
async def test_the_frees_that_do_wait_say_so(make, free):
    sim, memory = acl.current_simulation(), await make(N)
    begin = sim.now_ns
    work = await acl.LaunchKernel(busy("long", 100), 1)
    await free(memory)
    assert (work.done, sim.now_ns - begin > 100_000) == (True, True)
    with pytest.raises(acl.AclError):
        await free(memory)


@tiny_acl
async def test_a_synchronous_copy_is_not_ordered_behind_a_stream():
    """The race that hosts forget: what a queued kernel will write is not there yet."""
    stream, pinned, device = await acl.CreateStream(), await place("pinned", 5), await place("device", 1)
    out = np.zeros(N, np.uint8)
    await acl.LaunchKernel(busy("long", 100), 1, (), stream)
    await acl.MemcpyAsync(device, N, pinned, N, H2D, stream)
    await acl.Memcpy(out, N, device, N, D2H)
    assert (out == 1).all()
    await acl.SynchronizeStream(stream)
    await acl.Memcpy(out, N, device, N, D2H)
    assert (out == 5).all()


@tiny_acl
async def test_a_fill_is_not_ordered_behind_a_stream_either():
    stream, pinned, device = await acl.CreateStream(), await place("pinned", 5), await place("device", 1)
    await acl.LaunchKernel(busy("long", 100), 1, (), stream)
    await acl.MemcpyAsync(device, N, pinned, N, H2D, stream)
    await acl.Memset(device, N, 9, N)
    assert (await content(device) == 9).all()
    await acl.SynchronizeStream(stream)
    assert (await content(device) == 5).all()


@tiny_acl
async def test_a_pageable_copy_waits_for_its_stream_only():
    sim, a, b = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream()
    array, device = np.full(N, 4, np.uint8), await place("device")
    begin = sim.now_ns
    await acl.LaunchKernel(busy("short", 10), 1, (), a)
    long = await acl.LaunchKernel(busy("long", 1_000), 1, (), b)
    await acl.MemcpyAsync(device, N, array, N, H2D, a)
    assert (sim.now_ns - begin < 20_000, long.done) == (True, False)
    assert (await content(device) == 4).all()


@tiny_acl
async def test_registered_memory_is_pinned():
    array, device, stream = np.full(N, 6, np.uint8), await place("device"), await acl.CreateStream()
    registered = await acl.HostRegister(array)
    await acl.LaunchKernel(busy("long", 100), 1, (), stream)
    copy = await acl.MemcpyAsync(device, N, registered, N, H2D, stream)
    assert not copy.done
    array[:] = 8  # before it is copied: that is the danger
    await acl.SynchronizeStream(stream)
    assert (await content(device) == 8).all()


@tiny_acl
async def test_free_is_immediate_and_work_that_still_uses_the_memory_fails():
    sim, stream, device, pinned = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await place("device"),
        await place("pinned"),
    )
    await acl.LaunchKernel(busy("long", 100), 1, (), stream)
    await acl.MemcpyAsync(device, N, pinned, N, H2D, stream)
    begin = sim.now_ns
    await acl.Free(device)
    assert sim.now_ns - begin == 1_000
    with pytest.raises(acl.AclError) as caught:
        await acl.SynchronizeStream(stream)
    assert caught.value.kind is acl.Kind.ILLEGAL_ADDRESS
    for part in ("destination", "freed at", "before it ran", device.allocation.made):
        assert str(part) in str(caught.value)
    await acl.SynchronizeStream(stream)  # told once


@tiny_acl
async def test_the_default_stream_waits_for_nobody_and_nobody_for_it():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    await acl.LaunchKernel(busy("A", 10), 1, (), stream)
    await acl.LaunchKernel(busy("B", 10), 1)
    await acl.LaunchKernel(busy("C", 10), 1, (), stream)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 2_000, 12_000), ("C", 11_000, 21_000)]
