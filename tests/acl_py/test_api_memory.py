"""Memory through the verbs: Malloc to HostUnregister, who waits, leaks, misuse."""

import asyncio

import numpy as np
import pytest
from histories import busy, calls, history, misused, refused, tiny

import acl_py as acl

MIB = 1 << 20
ALL = 64 * MIB
A = busy("A", 50)


@tiny
async def test_memory_is_counted_in_units_of_the_alignment_until_it_is_freed():
    assert await acl.GetMemInfo() == (ALL, ALL)
    one, big = await acl.Malloc(1), await acl.Malloc(MIB + 1)
    assert await acl.GetMemInfo() == (ALL - 256 - MIB - 256, ALL)
    await acl.Free(one)
    await acl.Free(big)
    assert await acl.GetMemInfo() == (ALL, ALL)


@tiny
async def test_each_device_has_memory_of_its_own():
    here = await acl.Malloc(MIB)
    await acl.SetDevice(1)
    assert await acl.GetMemInfo() == (ALL, ALL)
    await acl.Free(here)  # wherever it is called
    await acl.SetDevice(0)
    assert await acl.GetMemInfo() == (ALL, ALL)


@tiny
async def test_unwritten_device_memory_reads_as_poison():
    buffer, host = await acl.Malloc(8), await acl.MallocHost(8)
    await acl.Memcpy(host, 8, buffer, 8, acl.MemcpyKind.DEVICE_TO_HOST)
    assert host.numpy().tobytes() == b"\xfb\x7f" * 4
    assert np.isnan(host.numpy(np.float32)).all()


@tiny
async def test_malloc_does_not_wait_and_free_waits_for_streams_of_all_kinds():
    sim, n = acl.current_simulation(), await acl.CreateStream(nonblocking=True)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), n)
    buffer = await acl.Malloc(64)
    pinned = await acl.MallocHost(64)
    registered = await acl.HostRegister(np.zeros(64, np.uint8))
    await acl.Free(buffer)
    await acl.LaunchKernel(A, 1, (), n)
    await acl.FreeHost(pinned)
    await acl.LaunchKernel(A, 1, (), n)
    await acl.HostUnregister(registered)
    await acl.Free(await acl.Malloc(64))
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
    host = await acl.MallocHost(4_000)
    await acl.SetDevice(1)
    there = await acl.Malloc(4_000)
    copy = await acl.MemcpyAsync(there, 4_000, host, 4_000, acl.MemcpyKind.HOST_TO_DEVICE)
    await acl.SetDevice(0)
    await acl.FreeHost(host)
    assert copy.done
    await acl.SetDevice(1)
    await acl.SynchronizeDevice()


@tiny
async def test_free_of_nothing_is_fine_and_waits_for_nobody():
    sim = acl.current_simulation()
    await acl.LaunchKernel(A, 1)
    begin = sim.now_ns
    await acl.Free(None)
    await acl.FreeHost(None)
    assert calls(sim, begin) == [("Free", 0, 1_000), ("FreeHost", 1_000, 1_010)]


@tiny
async def test_a_free_that_is_cancelled_while_it_waits_frees_all_the_same():
    sim = acl.current_simulation()
    buffer, host = await acl.Malloc(MIB), await acl.MallocHost(64)
    array = np.zeros(64, np.uint8)
    await acl.HostRegister(array)
    await acl.LaunchKernel(A, 1)
    tasks = [asyncio.ensure_future(verb) for verb in (acl.Free(buffer), acl.FreeHost(host), acl.HostUnregister(array))]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(sim.runtime.memory.leaks()) == 3
    await acl.SynchronizeDevice()
    assert sim.runtime.memory.leaks() == []
    assert await acl.GetMemInfo() == (ALL, ALL)
    with refused(acl.Kind.INVALID_ADDRESS, "Free of", buffer.allocation.made, "was freed already"):
        await acl.Free(buffer)


@tiny
async def test_of_two_tasks_that_free_one_buffer_the_second_is_told():
    buffer = await acl.Malloc(64)
    await acl.LaunchKernel(A, 1)
    results = await asyncio.gather(acl.Free(buffer), acl.Free(buffer), return_exceptions=True)
    assert results[0] is None
    assert results[1].kind is acl.Kind.INVALID_ADDRESS
    assert "was freed already; free it once" in str(results[1])


@tiny
async def test_memory_is_unregistered_once():
    registered = await acl.HostRegister(np.zeros(4096, np.uint8))
    await acl.HostUnregister(registered)
    with refused(acl.Kind.NOT_REGISTERED, "which was unregistered already; unregister it once"):
        await acl.HostUnregister(registered)


@tiny
async def test_memory_that_another_call_has_released_needs_no_second_call():
    registered, pinned = await acl.HostRegister(np.zeros(4096, np.uint8)), await acl.MallocHost(64)
    await acl.HostUnregister(registered)
    await acl.FreeHost(pinned)
    unregistered = "unregistered already; leave out FreeHost(): memory of HostRegister() is released by"
    with refused(acl.Kind.INVALID_ADDRESS, unregistered, "HostUnregister() alone"):
        await acl.FreeHost(registered)
    freed = "freed already; leave out HostUnregister(): memory of MallocHost() is released by FreeHost() alone"
    with refused(acl.Kind.NOT_REGISTERED, freed):
        await acl.HostUnregister(pinned)


@pytest.mark.parametrize("verb", [acl.Malloc, acl.MallocHost, acl.MallocAsync])
@tiny
async def test_sizes_that_no_memory_can_have(verb):
    for nbytes in (0, -1):
        with refused(acl.Kind.INVALID_VALUE, f"{verb.__name__} of {nbytes} bytes", "1 byte or more"):
            await verb(nbytes)
    for nbytes in (1.5, "64", None, True):
        with misused(TypeError, f"nbytes of {verb.__name__}\\(\\) must be an int, not {nbytes!r}"):
            await verb(nbytes)


@tiny
async def test_more_than_the_device_has():
    big = await acl.Malloc(40 * MIB)
    for verb in (acl.Malloc, acl.MallocAsync):
        with refused(
            acl.Kind.OUT_OF_MEMORY,
            f"{verb.__name__} of 40.0 MiB on device 0 does not fit: 24.0 MiB of 64.0 MiB are free",
            f"made at {big.allocation.made}",
        ):
            await verb(40 * MIB)
    with refused(acl.Kind.OUT_OF_MEMORY, "Malloc of"):
        await acl.Malloc(1 << 62)
    await acl.Free(big)
    await acl.Free(await acl.Malloc(ALL))


@tiny
async def test_freeing_the_wrong_thing_says_what_it_is():
    buffer, host, array = await acl.Malloc(64), await acl.MallocHost(64), np.zeros(64, np.uint8)
    await acl.HostRegister(array)
    made = buffer.allocation.made, host.allocation.made
    for verb, thing, kind, *parts in (
        (acl.Free, host, acl.Kind.INVALID_ADDRESS, made[1], "release it with FreeHost()"),
        (acl.FreeHost, buffer, acl.Kind.INVALID_ADDRESS, made[0], "release it with Free()"),
        (acl.FreeHost, array, acl.Kind.INVALID_ADDRESS, "release it with HostUnregister()"),
        (acl.HostUnregister, host, acl.Kind.NOT_REGISTERED, made[1], "release it with FreeHost()"),
        (acl.HostUnregister, np.zeros(4), acl.Kind.NOT_REGISTERED, "HostUnregister of a host address"),
        (acl.HostUnregister, array.ctypes.data + 8, acl.Kind.INVALID_ADDRESS, "an address 8 bytes inside"),
        (acl.Free, buffer + 8, acl.Kind.INVALID_ADDRESS, "an address 8 bytes inside", made[0]),
        (acl.Free, buffer.address + 8, acl.Kind.INVALID_ADDRESS, "an address 8 bytes inside", made[0]),
        (acl.Free, 12345, acl.Kind.INVALID_ADDRESS, "Free of a host address"),
        (acl.Free, 0, acl.Kind.INVALID_ADDRESS, "Free of NULL"),
        (acl.Free, "buffer", acl.Kind.INVALID_VALUE, "a str, which is not memory"),
        (acl.FreeHost, 1.5, acl.Kind.INVALID_VALUE, "a float, which is not memory"),
        (acl.HostUnregister, None, acl.Kind.INVALID_VALUE, "None, which is not memory"),
    ):
        with refused(kind, *parts):
            await verb(thing)


@tiny
async def test_what_was_freed_is_refused_with_its_story():
    buffer, host, other = await acl.Malloc(64), await acl.MallocHost(64), await acl.Malloc(64)
    address = buffer.address
    view = host.numpy()
    await acl.Free(buffer)
    await acl.FreeHost(host)
    story = [f"made at {buffer.allocation.made}, freed at {buffer.allocation.freed}"]
    for verb in (
        lambda: acl.MemcpyAsync(other, 64, buffer, 64, acl.MemcpyKind.DEVICE_TO_DEVICE),
        lambda: acl.Memcpy(buffer, 64, other, 64, acl.MemcpyKind.DEVICE_TO_DEVICE),
        lambda: acl.MemcpyAsync(other, 64, address, 64, acl.MemcpyKind.DEVICE_TO_DEVICE),
        lambda: acl.MemcpyAsync(other, 8, buffer + 8, 8, acl.MemcpyKind.DEVICE_TO_DEVICE),
        lambda: acl.MemsetAsync(buffer, 64, 0, 64),
        lambda: acl.Memcpy2d(other, 8, buffer, 8, 8, 8, acl.MemcpyKind.DEVICE_TO_DEVICE),
        lambda: acl.LaunchKernel(acl.kernel(lambda x: None), 1, (buffer,)),
        lambda: acl.LaunchKernel(acl.kernel(lambda x: None), 1, (acl.Array(buffer),)),
        lambda: acl.Free(buffer),
        lambda: acl.FreeAsync(buffer),
    ):
        with refused(acl.Kind.INVALID_ADDRESS, *story):
            await verb()
    for verb in (
        lambda: acl.MemcpyAsync(other, 64, host, 64, acl.MemcpyKind.HOST_TO_DEVICE),
        lambda: acl.MemcpyAsync(other, 64, view, 64, acl.MemcpyKind.HOST_TO_DEVICE),
        lambda: acl.FreeHost(host),
    ):
        with refused(acl.Kind.INVALID_ADDRESS, f"made at {host.allocation.made}"):
            await verb()
    with refused(acl.Kind.INVALID_ADDRESS, "no longer alive"):
        host.numpy()
    with refused(acl.Kind.INVALID_VALUE, "device memory, which NumPy cannot see"):
        other.numpy()


@tiny
async def test_registered_memory_is_pinned_as_long_as_it_is_registered():
    sim, n = acl.current_simulation(), await acl.CreateStream(nonblocking=True)
    array, device = np.arange(4_000, dtype=np.uint8), await acl.Malloc(4_000)
    buffer = await acl.HostRegister(array)
    begin = sim.now_ns
    copy = await acl.MemcpyAsync(device, 4_000, array, 4_000, acl.MemcpyKind.HOST_TO_DEVICE, n)
    array[:] = 7  # pinned: read at the end of the copy
    assert (sim.now_ns - begin, copy.done) == (1_000, False)
    with refused(acl.Kind.ALREADY_REGISTERED, "overlaps", buffer.allocation.made, "HostUnregister()"):
        await acl.HostRegister(array[100:200])
    await acl.HostUnregister(array)
    await acl.HostRegister(array[100:200])
    result = np.zeros(4_000, np.uint8)
    await acl.Memcpy(result, 4_000, device, 4_000, acl.MemcpyKind.DEVICE_TO_HOST)
    assert set(result.tolist()) == {7}


@tiny
async def test_registering_keeps_an_array_alive():
    device, result = await acl.Malloc(1_000), await acl.MallocHost(1_000)
    buffer = await acl.HostRegister(np.full(1_000, 5, np.uint8))
    await acl.MemcpyAsync(device, 1_000, buffer, 1_000, acl.MemcpyKind.HOST_TO_DEVICE)
    await acl.Memcpy(result, 1_000, device, 1_000, acl.MemcpyKind.DEVICE_TO_HOST)
    assert set(result.numpy().tolist()) == {5}


@tiny
async def test_what_cannot_be_registered():
    buffer, host = await acl.Malloc(64), await acl.MallocHost(64)
    frozen = np.zeros(64, np.uint8)
    frozen.flags.writeable = False
    for thing, nbytes, kind, part in (
        (buffer, None, acl.Kind.INVALID_ADDRESS, "register host memory"),
        (host, None, acl.Kind.ALREADY_REGISTERED, f"made at {host.allocation.made}"),
        (frozen, None, acl.Kind.INVALID_VALUE, "read-only"),
        (np.zeros((8, 8), np.uint8)[:, ::2], None, acl.Kind.INVALID_VALUE, "not contiguous"),
        (np.zeros(64, np.uint8), 65, acl.Kind.INVALID_VALUE, "64 bytes, not 65"),
        (np.zeros(64, np.uint8), 0, acl.Kind.INVALID_VALUE, "64 bytes, not 0"),
        (np.zeros(64, np.uint8), -1, acl.Kind.INVALID_VALUE, "0 bytes or more"),
        (4096, None, acl.Kind.INVALID_VALUE, "an unknown number of bytes"),
        (4096, 64, acl.Kind.INVALID_VALUE, "no such writable memory"),
        (None, None, acl.Kind.INVALID_VALUE, "None, which is not memory"),
    ):
        with refused(kind, part):
            await acl.HostRegister(thing, nbytes)


@tiny
async def test_parts_of_buffers_are_bounded():
    buffer = await acl.Malloc(64)
    part = (buffer + 16)[8:24]
    assert (part.address - buffer.address, part.nbytes, len(part)) == (24, 16, 16)
    for wrong in (lambda: buffer + 65, lambda: buffer + -1, lambda: buffer[0:65], lambda: buffer[8:4]):
        with pytest.raises(IndexError, match="stay within 0 to 64"):
            wrong()
    with refused(acl.Kind.INVALID_VALUE, "at 24 of", "which has 16 bytes, not 17"):
        await acl.MemsetAsync(part, 17, 0, 17)


@tiny
async def test_work_that_finds_its_memory_gone_fails_and_says_who_freed_it():
    """Memory of MallocAsync is given back by Free at once, whoever still uses it."""
    sim, a = acl.current_simulation(), await acl.CreateStream()
    buffer, host = await acl.MallocAsync(64, a), await acl.MallocHost(64)
    await acl.LaunchKernel(A, 1, (), a)
    copy = await acl.MemcpyAsync(buffer, 64, host, 64, acl.MemcpyKind.HOST_TO_DEVICE, a)
    await acl.Free(buffer)
    with pytest.raises(acl.AclError) as caught:
        await acl.SynchronizeDevice()
    assert caught.value.kind is acl.Kind.ILLEGAL_ADDRESS
    for part in (f"{copy!r} failed: h2d found that its destination", f"freed at {buffer.allocation.freed}> was gone"):
        assert part in str(caught.value)
    assert [name for name, *_ in history(sim)] == ["A", "h2d"]


@tiny
async def test_finalize_lists_what_was_not_freed():
    await acl.Init()
    freed, leaked = await acl.Malloc(64), await acl.MallocHost(4096)
    array = np.zeros(64, np.uint8)
    registered = await acl.HostRegister(array)
    pooled = await acl.MallocAsync(64)
    await acl.Free(freed)
    assert await acl.Finalize() == [
        f"1 allocation of pinned memory, 4.0 KiB, never freed, made at {leaked.allocation.made}",
        f"1 allocation of pinned memory, 64 B, never unregistered, made at {registered.allocation.made}",
        f"1 allocation of device memory, 64 B, never freed, made at {pooled.allocation.made}",
    ]


@tiny
async def test_a_cancelled_free_does_not_free_what_another_has_freed_meanwhile():
    buffer = await acl.Malloc(64)
    await acl.LaunchKernel(A, 1)
    cancelled, other = asyncio.ensure_future(acl.Free(buffer)), asyncio.ensure_future(acl.Free(buffer))
    await asyncio.sleep(0)
    cancelled.cancel()
    results = await asyncio.gather(cancelled, other, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    await acl.SynchronizeDevice()
    assert buffer.allocation.freed is not None
    assert await acl.GetMemInfo() == (ALL, ALL)
