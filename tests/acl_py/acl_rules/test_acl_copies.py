"""Copies, fills and memory under ACL's rules: the table of kinds, a test for each row, and what waits for what."""

import numpy as np
import pytest
from copy_table import FAULT, NAMES, ROWS, TABLE, UNSUPPORTED, WAITS
from histories import busy, calls, history, refused, tiny

from acl_py import (
    AclError,
    CreateStream,
    CreateStreamWithConfig,
    Free,
    FreeHost,
    FreeHostWithDevSync,
    FreeWithDevSync,
    HostRegister,
    Kind,
    LaunchKernel,
    Malloc,
    MallocHost,
    Memcpy,
    Memcpy2d,
    Memcpy2dAsync,
    MemcpyAsync,
    MemcpyAsyncWithCondition,
    MemcpyKind,
    Memset,
    MemsetAsync,
    StreamFlag,
    SynchronizeDevice,
    SynchronizeStream,
    current_simulation,
    faults,
)

acl = tiny(rules="acl")
N = 256
H2H, H2D, D2H, D2D, DEFAULT = (MemcpyKind(value) for value in range(5))


async def place(where, fill=None):
    if where == "pageable":
        memory = np.zeros(N, np.uint8)
        view = memory
    elif where == "pinned":
        memory = await MallocHost(N)
        view = memory.numpy()
    else:
        memory = await Malloc(N)
        await Memset(memory, N, fill or 0, N)
        return memory
    view[:] = fill or 0
    return memory


async def content(memory):
    if isinstance(memory, np.ndarray):
        return memory
    out = np.empty(N, np.uint8)
    await Memcpy(out, N, memory, N, DEFAULT)
    return out


@pytest.mark.parametrize(("source", "target", "kind", "effect"), ROWS, ids=NAMES)
@acl
async def test_the_kind_of_an_asynchronous_copy(source, target, kind, effect):
    src, dst, stream = await place(source, 7), await place(target), await CreateStream()
    await LaunchKernel(busy("long", 100), 1, (), stream)
    begin = current_simulation().now_ns
    if isinstance(effect, int):
        with refused(Kind.NOT_SUPPORTED if effect == UNSUPPORTED else Kind.INVALID_COPY_DIRECTION) as caught:
            await MemcpyAsync(dst, N, src, N, kind, stream)
        assert caught.value.code == effect
        return
    copy = await MemcpyAsync(dst, N, src, N, kind, stream)
    waited = current_simulation().now_ns - begin >= 98_000
    assert (waited, copy.done) == (effect == WAITS, effect == WAITS)
    if effect == FAULT:  # a kind that hides pageable memory: the device finds out
        with pytest.raises(AclError, match="reached for pageable host memory"):
            await SynchronizeStream(stream)
        assert not (await content(dst)).any()
        return
    await SynchronizeStream(stream)
    assert (await content(dst) == 7).all()


@acl
async def test_the_kind_of_a_synchronous_copy_does_not_count():
    for source, target in TABLE:
        for kind in MemcpyKind:
            src, dst = await place(source, 9), await place(target)
            await Memcpy(dst, N, src, N, kind)
            assert (await content(dst) == 9).all()


@acl
async def test_a_count_of_zero_succeeds_without_a_look_at_the_addresses():
    for verb in (Memcpy, MemcpyAsync, MemcpyAsyncWithCondition):
        await verb(0x123, 16, 0x456, 0, 99)
        for source, target in TABLE:
            await verb(await place(target), N, await place(source), 0, H2H)


@acl
async def test_equal_addresses_succeed_and_nothing_moves():
    pinned = await place("pinned", 3)
    stream = await CreateStream()
    await LaunchKernel(busy("long", 100), 1, (), stream)
    begin = current_simulation().now_ns
    await MemcpyAsync(pinned, N, pinned, N, DEFAULT, stream)
    await Memcpy(pinned, N, pinned, N, DEFAULT)
    assert current_simulation().now_ns - begin == 2_000


@acl
async def test_more_than_the_destination_holds_is_refused():
    src, dst = await place("pinned"), await place("device")
    for verb in (Memcpy, MemcpyAsync):
        with refused(Kind.INVALID_VALUE, "256 bytes for a destination of 255") as caught:
            await verb(dst, N - 1, src, N, H2D)
        assert caught.value.code == 107000


@acl
async def test_a_missing_address_is_the_other_parameter_error():
    dst = await place("device")
    for verb in (Memcpy, MemcpyAsync):
        for args in ((dst, N, 0, N, H2D), (0, N, dst, N, D2H)):
            with refused(Kind.NULL_POINTER) as caught:
                await verb(*args)
            assert caught.value.code == 100000


@acl
async def test_pitched_copies():
    src, dst = np.arange(N, dtype=np.uint8), await place("device")
    stream, back = await CreateStream(), await place("pinned")
    await Memcpy2d(dst, 32, src, 32, 16, 8, H2D)
    await Memcpy2dAsync(back, 32, dst, 32, 16, 8, D2H, stream)
    await SynchronizeStream(stream)
    assert (back.numpy().reshape(8, 32)[:, :16] == src.reshape(8, 32)[:, :16]).all()
    with refused(Kind.NOT_SUPPORTED, "use Memcpy()"):
        await Memcpy2dAsync(back, 32, src, 32, 16, 8, H2H, stream)
    await LaunchKernel(busy("long", 100), 1, (), stream)
    begin = current_simulation().now_ns
    await Memcpy2dAsync(dst, 32, src, 32, 16, 8, H2D, stream)  # pageable: waits for the stream
    assert current_simulation().now_ns - begin > 98_000


FAILING = {
    "Memcpy": ("h2d", lambda device, array, _: Memcpy(device, N, array, N, H2D)),
    "Memcpy2d": ("h2d", lambda device, array, _: Memcpy2d(device, 32, array, 32, 32, 8, H2D)),
    "Memset": ("fill", lambda device, *_: Memset(device, N, 1, N)),
    "MemcpyAsync": ("h2d", lambda device, array, stream: MemcpyAsync(device, N, array, N, H2D, stream)),
    "Memcpy2dAsync": ("h2d", lambda device, array, stream: Memcpy2dAsync(device, 32, array, 32, 32, 8, H2D, stream)),
}


@pytest.mark.parametrize(("name", "kind", "call"), [(name, *each) for name, each in FAILING.items()], ids=FAILING)
@acl
async def test_a_call_whose_work_fails_tells_so_and_has_its_row(name, kind, call):
    sim, device, array, stream = current_simulation(), await Malloc(N), np.zeros(N, np.uint8), await CreateStream()
    begin = sim.now_ns
    with sim.fault(faults.fail(op=kind)), pytest.raises(AclError, match=r"injected by fault rule fail\("):
        await call(device, array, stream)
    [(_, start, end)] = history(sim, begin)
    assert (start, end) == (1_000, 1_000 + N)
    assert calls(sim, begin) == [(name, 0, 1_000 + N + 2_000)]  # the work, and the wake-up


@acl
async def test_a_call_that_is_refused_has_no_row():
    device, stream = await Malloc(N), await CreateStreamWithConfig(0, StreamFlag.PERSISTENT)
    for _ in range(current_simulation().runtime.profile.queues.depth):
        await MemsetAsync(device, N, 1, N, stream)
    with refused(Kind.STREAM_FULL, "waits for a model"):
        await MemsetAsync(device, N, 1, N, stream)


# --- what waits for what (3.3, and the complete list of implicit synchronisations, 3.7)


async def idle_verbs():
    """Every verb that the list names as not synchronising."""
    device, pinned, array = await Malloc(N), await MallocHost(N), np.zeros(N, np.uint8)
    yield "malloc", Malloc(N)
    yield "malloc_host", MallocHost(N)
    yield "memcpy to the device", Memcpy(device, N, array, N, H2D)
    yield "memcpy to the host", Memcpy(array, N, device, N, D2H)
    yield "memcpy inside the device", Memcpy(device + 128, 128, device, 128, D2D)
    yield "memset", Memset(device, N, 1, N)
    yield "memset of host memory", Memset(array, N, 1, N)
    yield "memset_async", MemsetAsync(device, N, 2, N, await CreateStream())
    yield "memcpy_async of pinned memory", MemcpyAsync(device, N, pinned, N, H2D, await CreateStream())
    yield "free", Free(await Malloc(N))
    yield "free_host", FreeHost(await MallocHost(N))
    yield "create_stream", CreateStream()


@acl
async def test_what_does_not_synchronise():
    sim, stream = current_simulation(), await CreateStream()
    long = await LaunchKernel(busy("long", 100_000), 1, (), stream)
    in_default = await LaunchKernel(busy("long", 100_000), 1)
    async for name, verb in idle_verbs():
        begin = sim.now_ns
        await verb
        assert sim.now_ns - begin < 10_000, name
    assert (long.done, in_default.done) == (False, False)
    await SynchronizeDevice()


@pytest.mark.parametrize(("make", "free"), [(Malloc, FreeWithDevSync), (MallocHost, FreeHostWithDevSync)])
@acl
async def test_the_frees_that_do_wait_say_so(make, free):
    sim, memory = current_simulation(), await make(N)
    begin = sim.now_ns
    work = await LaunchKernel(busy("long", 100), 1)
    await free(memory)
    assert (work.done, sim.now_ns - begin > 100_000) == (True, True)
    with pytest.raises(AclError):
        await free(memory)


@acl
async def test_a_synchronous_copy_is_not_ordered_behind_a_stream():
    """The race that hosts forget: what a queued kernel will write is not there yet."""
    stream, pinned, device = await CreateStream(), await place("pinned", 5), await place("device", 1)
    out = np.zeros(N, np.uint8)
    await LaunchKernel(busy("long", 100), 1, (), stream)
    await MemcpyAsync(device, N, pinned, N, H2D, stream)
    await Memcpy(out, N, device, N, D2H)
    assert (out == 1).all()
    await SynchronizeStream(stream)
    await Memcpy(out, N, device, N, D2H)
    assert (out == 5).all()


@acl
async def test_a_fill_is_not_ordered_behind_a_stream_either():
    stream, pinned, device = await CreateStream(), await place("pinned", 5), await place("device", 1)
    await LaunchKernel(busy("long", 100), 1, (), stream)
    await MemcpyAsync(device, N, pinned, N, H2D, stream)
    await Memset(device, N, 9, N)
    assert (await content(device) == 9).all()
    await SynchronizeStream(stream)
    assert (await content(device) == 5).all()


@acl
async def test_a_pageable_copy_waits_for_its_stream_only():
    sim, a, b = current_simulation(), await CreateStream(), await CreateStream()
    array, device = np.full(N, 4, np.uint8), await place("device")
    begin = sim.now_ns
    await LaunchKernel(busy("short", 10), 1, (), a)
    long = await LaunchKernel(busy("long", 1_000), 1, (), b)
    await MemcpyAsync(device, N, array, N, H2D, a)
    assert (sim.now_ns - begin < 20_000, long.done) == (True, False)
    assert (await content(device) == 4).all()


@acl
async def test_registered_memory_is_pinned():
    array, device, stream = np.full(N, 6, np.uint8), await place("device"), await CreateStream()
    registered = await HostRegister(array)
    await LaunchKernel(busy("long", 100), 1, (), stream)
    copy = await MemcpyAsync(device, N, registered, N, H2D, stream)
    assert not copy.done
    array[:] = 8  # before it is copied: that is the danger
    await SynchronizeStream(stream)
    assert (await content(device) == 8).all()


@acl
async def test_free_is_immediate_and_work_that_still_uses_the_memory_fails():
    sim, stream, device, pinned = (
        current_simulation(),
        await CreateStream(),
        await place("device"),
        await place("pinned"),
    )
    await LaunchKernel(busy("long", 100), 1, (), stream)
    await MemcpyAsync(device, N, pinned, N, H2D, stream)
    begin = sim.now_ns
    await Free(device)
    assert sim.now_ns - begin == 1_000
    with pytest.raises(AclError) as caught:
        await SynchronizeStream(stream)
    assert caught.value.kind is Kind.ILLEGAL_ADDRESS
    for part in ("destination", "freed at", "before it ran", device.allocation.made):
        assert str(part) in str(caught.value)
    await SynchronizeStream(stream)  # told once


@acl
async def test_the_default_stream_waits_for_nobody_and_nobody_for_it():
    sim, stream = current_simulation(), await CreateStream()
    begin = sim.now_ns
    await LaunchKernel(busy("A", 10), 1, (), stream)
    await LaunchKernel(busy("B", 10), 1)
    await LaunchKernel(busy("C", 10), 1, (), stream)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 2_000, 12_000), ("C", 11_000, 21_000)]
