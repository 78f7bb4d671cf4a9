"""Memory through the verbs: Malloc to HostUnregister, who waits, leaks, misuse."""

import asyncio

import numpy as np
import pytest
from histories import busy, calls, history, misused, refused, tiny

import acl_py
from acl_py import (
    CreateStream,
    Free,
    FreeHost,
    GetMemInfo,
    HostRegister,
    HostUnregister,
    Kind,
    LaunchKernel,
    Malloc,
    MallocHost,
    Memcpy,
    MemcpyAsync,
    MemcpyKind,
    SetDevice,
    SynchronizeDevice,
    current_simulation,
)

MIB = 1 << 20
ALL = 64 * MIB
A = busy("A", 50)


@tiny
async def test_memory_is_counted_in_units_of_the_alignment_until_it_is_freed():
    assert await GetMemInfo() == (ALL, ALL)
    one, big = await Malloc(1), await Malloc(MIB + 1)
    assert await GetMemInfo() == (ALL - 256 - MIB - 256, ALL)
    await Free(one)
    await Free(big)
    assert await GetMemInfo() == (ALL, ALL)


@tiny
async def test_each_device_has_memory_of_its_own():
    here = await Malloc(MIB)
    await SetDevice(1)
    assert await GetMemInfo() == (ALL, ALL)
    await Free(here)  # wherever it is called
    await SetDevice(0)
    assert await GetMemInfo() == (ALL, ALL)


@tiny
async def test_unwritten_device_memory_reads_as_poison():
    buffer, host = await Malloc(8), await MallocHost(8)
    await Memcpy(host, 8, buffer, 8, MemcpyKind.DEVICE_TO_HOST)
    assert host.numpy().tobytes() == b"\xfb\x7f" * 4
    assert np.isnan(host.numpy(np.float32)).all()


@tiny
async def test_malloc_does_not_wait_and_free_waits_for_streams_of_all_kinds():
    sim, n = current_simulation(), await CreateStream(nonblocking=True)
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), n)
    buffer = await Malloc(64)
    pinned = await MallocHost(64)
    registered = await HostRegister(np.zeros(64, np.uint8))
    await Free(buffer)
    await LaunchKernel(A, 1, (), n)
    await FreeHost(pinned)
    await LaunchKernel(A, 1, (), n)
    await HostUnregister(registered)
    await Free(await Malloc(64))
    assert calls(sim, begin) == [
        ("LaunchKernel", 0, 1_000),
        ("Malloc", 1_000, 2_000),
        ("MallocHost", 2_000, 2_010),
        ("HostRegister", 2_010, 2_020),
        ("Free", 2_020, 54_000),
        ("LaunchKernel", 54_000, 55_000),
        ("FreeHost", 55_000, 107_010),
        ("LaunchKernel", 107_010, 108_010),
        ("HostUnregister", 108_010, 160_020),
        ("Malloc", 160_020, 161_020),
        ("Free", 161_020, 162_020),
    ]


@tiny
async def test_pinned_memory_is_freed_when_all_devices_are_done_with_it():
    host = await MallocHost(4_000)
    await SetDevice(1)
    there = await Malloc(4_000)
    copy = await MemcpyAsync(there, 4_000, host, 4_000, MemcpyKind.HOST_TO_DEVICE)
    await SetDevice(0)
    await FreeHost(host)
    assert copy.done
    await SetDevice(1)
    await SynchronizeDevice()


@tiny
async def test_free_of_nothing_is_fine_and_waits_for_nobody():
    sim = current_simulation()
    await LaunchKernel(A, 1)
    begin = sim.now_ns
    await Free(None)
    await FreeHost(None)
    assert calls(sim, begin) == [("Free", 0, 1_000), ("FreeHost", 1_000, 1_010)]


@tiny
async def test_a_free_that_is_cancelled_while_it_waits_frees_all_the_same():
    sim = current_simulation()
    buffer, host = await Malloc(MIB), await MallocHost(64)
    array = np.zeros(64, np.uint8)
    await HostRegister(array)
    await LaunchKernel(A, 1)
    tasks = [asyncio.ensure_future(verb) for verb in (Free(buffer), FreeHost(host), HostUnregister(array))]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(sim.runtime.memory.leaks()) == 3
    await SynchronizeDevice()
    assert sim.runtime.memory.leaks() == []
    assert await GetMemInfo() == (ALL, ALL)
    with refused(Kind.INVALID_ADDRESS, "Free of", buffer.allocation.made, "has ended already"):
        await Free(buffer)


@tiny
async def test_of_two_tasks_that_free_one_buffer_the_second_is_told():
    buffer = await Malloc(64)
    await LaunchKernel(A, 1)
    results = await asyncio.gather(Free(buffer), Free(buffer), return_exceptions=True)
    assert results[0] is None
    assert results[1].kind is Kind.INVALID_ADDRESS
    assert "has ended already; call Free() once" in str(results[1])


@pytest.mark.parametrize("verb", [Malloc, MallocHost, acl_py.MallocAsync])
@tiny
async def test_sizes_that_no_memory_can_have(verb):
    for nbytes in (0, -1):
        with refused(Kind.INVALID_VALUE, f"{verb.__name__} of {nbytes} bytes", "1 byte or more"):
            await verb(nbytes)
    for nbytes in (1.5, "64", None, True):
        with misused(TypeError, f"{verb.__name__} takes a number of bytes, an int, not {nbytes!r}"):
            await verb(nbytes)


@tiny
async def test_more_than_the_device_has():
    big = await Malloc(40 * MIB)
    for verb in (Malloc, acl_py.MallocAsync):
        with refused(
            Kind.OUT_OF_MEMORY,
            f"{verb.__name__} of 40.0 MiB on device 0 does not fit: 24.0 MiB of 64.0 MiB are free",
            f"made at {big.allocation.made}",
        ):
            await verb(40 * MIB)
    with refused(Kind.OUT_OF_MEMORY, "Malloc of"):
        await Malloc(1 << 62)
    await Free(big)
    await Free(await Malloc(ALL))


@tiny
async def test_freeing_the_wrong_thing_says_what_it_is():
    buffer, host, array = await Malloc(64), await MallocHost(64), np.zeros(64, np.uint8)
    await HostRegister(array)
    made = buffer.allocation.made, host.allocation.made
    for verb, thing, kind, *parts in (
        (Free, host, Kind.INVALID_ADDRESS, made[1], "end it with FreeHost()"),
        (FreeHost, buffer, Kind.INVALID_ADDRESS, made[0], "end it with Free()"),
        (FreeHost, array, Kind.INVALID_ADDRESS, "end it with HostUnregister()"),
        (HostUnregister, host, Kind.NOT_REGISTERED, made[1], "end it with FreeHost()"),
        (HostUnregister, np.zeros(4), Kind.NOT_REGISTERED, "HostUnregister of a host address"),
        (Free, buffer + 8, Kind.INVALID_ADDRESS, "an address 8 bytes inside", made[0]),
        (Free, buffer.address + 8, Kind.INVALID_ADDRESS, "an address 8 bytes inside", made[0]),
        (Free, 12345, Kind.INVALID_ADDRESS, "Free of a host address"),
        (Free, 0, Kind.INVALID_ADDRESS, "Free of NULL"),
        (Free, "buffer", Kind.INVALID_VALUE, "a str, which is no memory"),
        (FreeHost, 1.5, Kind.INVALID_VALUE, "a float, which is no memory"),
        (HostUnregister, None, Kind.INVALID_VALUE, "None, which is no memory"),
    ):
        with refused(kind, *parts):
            await verb(thing)


@tiny
async def test_what_was_freed_is_refused_with_its_story():
    buffer, host, other = await Malloc(64), await MallocHost(64), await Malloc(64)
    address = buffer.address
    view = host.numpy()
    await Free(buffer)
    await FreeHost(host)
    story = [f"made at {buffer.allocation.made}, freed at {buffer.allocation.freed}"]
    for verb in (
        lambda: MemcpyAsync(other, 64, buffer, 64, MemcpyKind.DEVICE_TO_DEVICE),
        lambda: Memcpy(buffer, 64, other, 64, MemcpyKind.DEVICE_TO_DEVICE),
        lambda: MemcpyAsync(other, 64, address, 64, MemcpyKind.DEVICE_TO_DEVICE),
        lambda: MemcpyAsync(other, 8, buffer + 8, 8, MemcpyKind.DEVICE_TO_DEVICE),
        lambda: acl_py.MemsetAsync(buffer, 64, 0, 64),
        lambda: acl_py.Memcpy2d(other, 8, buffer, 8, 8, 8, MemcpyKind.DEVICE_TO_DEVICE),
        lambda: LaunchKernel(acl_py.kernel(lambda x: None), 1, (buffer,)),
        lambda: LaunchKernel(acl_py.kernel(lambda x: None), 1, (acl_py.Array(buffer),)),
        lambda: Free(buffer),
        lambda: acl_py.FreeAsync(buffer),
    ):
        with refused(Kind.INVALID_ADDRESS, *story):
            await verb()
    for verb in (
        lambda: MemcpyAsync(other, 64, host, 64, MemcpyKind.HOST_TO_DEVICE),
        lambda: MemcpyAsync(other, 64, view, 64, MemcpyKind.HOST_TO_DEVICE),
        lambda: FreeHost(host),
    ):
        with refused(Kind.INVALID_ADDRESS, f"made at {host.allocation.made}"):
            await verb()
    with refused(Kind.INVALID_ADDRESS, "no longer alive"):
        host.numpy()
    with refused(Kind.INVALID_VALUE, "device memory, which NumPy cannot see"):
        other.numpy()


@tiny
async def test_registered_memory_is_pinned_as_long_as_it_is_registered():
    sim, n = current_simulation(), await CreateStream(nonblocking=True)
    array, device = np.arange(4_000, dtype=np.uint8), await Malloc(4_000)
    buffer = await HostRegister(array)
    begin = sim.now_ns
    copy = await MemcpyAsync(device, 4_000, array, 4_000, MemcpyKind.HOST_TO_DEVICE, n)
    array[:] = 7  # pinned: read at the end of the copy
    assert (sim.now_ns - begin, copy.done) == (1_000, False)
    with refused(Kind.ALREADY_REGISTERED, "overlaps", buffer.allocation.made, "HostUnregister()"):
        await HostRegister(array[100:200])
    await HostUnregister(array)
    await HostRegister(array[100:200])
    result = np.zeros(4_000, np.uint8)
    await Memcpy(result, 4_000, device, 4_000, MemcpyKind.DEVICE_TO_HOST)
    assert set(result.tolist()) == {7}


@tiny
async def test_registering_keeps_an_array_alive():
    device, result = await Malloc(1_000), await MallocHost(1_000)
    buffer = await HostRegister(np.full(1_000, 5, np.uint8))
    await MemcpyAsync(device, 1_000, buffer, 1_000, MemcpyKind.HOST_TO_DEVICE)
    await Memcpy(result, 1_000, device, 1_000, MemcpyKind.DEVICE_TO_HOST)
    assert set(result.numpy().tolist()) == {5}


@tiny
async def test_what_cannot_be_registered():
    buffer, host = await Malloc(64), await MallocHost(64)
    frozen = np.zeros(64, np.uint8)
    frozen.flags.writeable = False
    for thing, nbytes, kind, part in (
        (buffer, None, Kind.INVALID_ADDRESS, "register host memory"),
        (host, None, Kind.ALREADY_REGISTERED, f"made at {host.allocation.made}"),
        (frozen, None, Kind.INVALID_VALUE, "read-only"),
        (np.zeros((8, 8), np.uint8)[:, ::2], None, Kind.INVALID_VALUE, "not contiguous"),
        (np.zeros(64, np.uint8), 65, Kind.INVALID_VALUE, "64 bytes, not 65"),
        (np.zeros(64, np.uint8), 0, Kind.INVALID_VALUE, "64 bytes, not 0"),
        (np.zeros(64, np.uint8), -1, Kind.INVALID_VALUE, "0 bytes or more"),
        (4096, None, Kind.INVALID_VALUE, "an unknown number of bytes"),
        (4096, 64, Kind.INVALID_VALUE, "no such writable memory"),
        (None, None, Kind.INVALID_VALUE, "None, which is no memory"),
    ):
        with refused(kind, part):
            await HostRegister(thing, nbytes)


@tiny
async def test_parts_of_buffers_are_bounded():
    buffer = await Malloc(64)
    part = (buffer + 16)[8:24]
    assert (part.address - buffer.address, part.nbytes, len(part)) == (24, 16, 16)
    for wrong in (lambda: buffer + 65, lambda: buffer + -1, lambda: buffer[0:65], lambda: buffer[8:4]):
        with pytest.raises(IndexError, match="stay within 0 to 64"):
            wrong()
    with refused(Kind.INVALID_VALUE, "at 24 of", "which has 16 bytes, not 17"):
        await acl_py.MemsetAsync(part, 17, 0, 17)


@tiny
async def test_work_that_finds_its_memory_gone_fails_and_says_who_freed_it():
    """Memory of MallocAsync is given back by Free at once, whoever still uses it."""
    sim, a = current_simulation(), await CreateStream()
    buffer, host = await acl_py.MallocAsync(64, a), await MallocHost(64)
    await LaunchKernel(A, 1, (), a)
    copy = await MemcpyAsync(buffer, 64, host, 64, MemcpyKind.HOST_TO_DEVICE, a)
    await Free(buffer)
    with pytest.raises(acl_py.AclError) as caught:
        await SynchronizeDevice()
    assert caught.value.kind is Kind.ILLEGAL_ADDRESS
    for part in (f"{copy!r} failed: h2d found that its destination", f"freed at {buffer.allocation.freed}> was gone"):
        assert part in str(caught.value)
    assert [name for name, *_ in history(sim)] == ["A", "h2d"]


@tiny
async def test_finalize_lists_what_was_not_freed():
    await acl_py.Init()
    freed, leaked = await Malloc(64), await MallocHost(4096)
    array = np.zeros(64, np.uint8)
    registered = await HostRegister(array)
    pooled = await acl_py.MallocAsync(64)
    await Free(freed)
    assert await acl_py.Finalize() == [
        f"<Allocation pinned 4.0 KiB allocation 2 made at {leaked.allocation.made}> was never freed",
        f"<Allocation registered 64 B allocation 3 made at {registered.allocation.made}> was never freed",
        f"<Allocation device 64 B allocation 4 made at {pooled.allocation.made}> was never freed",
    ]


@tiny
async def test_a_cancelled_free_does_not_free_what_another_has_freed_meanwhile():
    buffer = await Malloc(64)
    await LaunchKernel(A, 1)
    cancelled, other = asyncio.ensure_future(Free(buffer)), asyncio.ensure_future(Free(buffer))
    await asyncio.sleep(0)
    cancelled.cancel()
    results = await asyncio.gather(cancelled, other, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    await SynchronizeDevice()
    assert buffer.allocation.freed is not None
    assert await GetMemInfo() == (ALL, ALL)
