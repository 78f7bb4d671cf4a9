"""Allocations: room, lazy memory, poison, frees, and the messages of calls that fail."""

import gc
import mmap
import re
import time
import weakref

import numpy as np
import pytest

from device_model.errors import DeviceError, Kind
from device_model.memory import CHUNK, DEVICE_BASE, DEVICE_SPAN, POISON, Memory, Space, array, copy

GIB = 1 << 30


def rss_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * mmap.PAGESIZE


def read(buffer):
    return bytes(array(buffer.allocation, buffer.offset, np.uint8, buffer.nbytes))


def test_addresses_are_aligned_lie_apart_and_are_never_reused(memory):
    first = memory.malloc(0, 100, "a.py:1")
    memory.free(first, "a.py:2")
    second = memory.malloc(0, 100, "a.py:3")
    other = memory.malloc(1, 100, "a.py:4")
    assert int(first) == DEVICE_BASE
    assert int(second) > int(first) + 512
    assert int(second) % 512 == 0
    assert int(other) == DEVICE_BASE + DEVICE_SPAN
    assert int(other) < 1 << 63


def test_a_large_malloc_is_instant_and_takes_no_memory(memory):
    before, start = rss_bytes(), time.process_time()
    buffer = memory.malloc(0, 100 * GIB, "a.py:1")
    assert time.process_time() - start < 0.5
    assert rss_bytes() - before < 8 << 20
    assert len(buffer.allocation.view) == 100 * GIB
    tail = buffer[100 * GIB - 8 :]
    assert read(tail) == POISON * 4
    assert rss_bytes() - before < 16 << 20


def test_room_is_counted_in_aligned_sizes(memory):
    assert memory.total_bytes(1) == 1 << 20
    buffer = memory.malloc(1, 1, None)
    assert memory.free_bytes(1) == (1 << 20) - 512
    memory.free(buffer, None)
    assert memory.free_bytes(1) == 1 << 20


def test_out_of_memory_names_room_and_the_largest_holders(memory):
    small = memory.malloc(1, 512, "a.py:1")
    memory.malloc(1, 512 << 10, "a.py:2")
    memory.malloc(1, 256 << 10, "a.py:3")
    memory.malloc(1, 1024, "a.py:4")
    block, _ = memory.pool(1).take(512, lambda block: 0, "a.py:5")
    memory.pool(1).give(block, "s", "op", "a.py:6")
    with pytest.raises(DeviceError) as caught:
        memory.malloc(1, 1 << 20, "a.py:7")
    assert caught.value.kind is Kind.OUT_OF_MEMORY
    assert str(caught.value) == (
        "Malloc of 1.0 MiB on device 1 does not fit: 254.0 KiB of 1.0 MiB are free, 512 B lie unused in its pool; "
        "the largest holders are <Buffer device:1 512.0 KiB allocation 2 made at a.py:2>, "
        "<Buffer device:1 256.0 KiB allocation 3 made at a.py:3>, "
        "<Buffer device:1 1.0 KiB allocation 4 made at a.py:4>; "
        "free memory that is no longer used, or ask for less"
    )
    assert memory.free_bytes(1) == 254 << 10
    assert small.allocation.freed is None


def test_addresses_run_out_before_they_reach_the_next_device():
    memory = Memory([DEVICE_SPAN * 2], 512, DeviceError)
    with pytest.raises(DeviceError, match=r"^Malloc of 4096\.0 TiB on device 0 does not fit"):
        memory.malloc(0, DEVICE_SPAN, None)


@pytest.mark.parametrize("nbytes", [1 << 45, (1 << 64) - 1])
def test_more_pinned_memory_than_the_host_can_reserve_is_out_of_memory(memory, nbytes):
    with pytest.raises(DeviceError, match="this host has no address space or memory left") as caught:
        memory.malloc_host(nbytes, "a.py:1")
    assert caught.value.kind is Kind.OUT_OF_MEMORY


def test_memory_that_the_host_cannot_map_is_out_of_memory():
    memory = Memory([1 << 51], 512, DeviceError)
    with pytest.raises(DeviceError, match="this host has no address space or memory left") as caught:
        memory.malloc(0, 1 << 50, None)
    assert caught.value.kind is Kind.OUT_OF_MEMORY
    assert memory.free_bytes(0) == 1 << 51
    assert memory.leaks() == []


@pytest.mark.parametrize("nbytes", [0, -1])
def test_sizes_below_one_are_refused(memory, nbytes):
    for call in (lambda: memory.malloc(0, nbytes, None), lambda: memory.malloc_host(nbytes, None)):
        with pytest.raises(DeviceError, match=f"of {nbytes} bytes; ask for 1 byte or more") as caught:
            call()
        assert caught.value.kind is Kind.INVALID_VALUE


def test_unknown_devices_are_refused(memory):
    for call in (lambda: memory.malloc(2, 1, None), lambda: memory.pool(-1), lambda: memory.free_bytes(2)):
        with pytest.raises(DeviceError, match=r"there is no device .*; choose one from 0 to 1") as caught:
            call()
        assert caught.value.kind is Kind.INVALID_DEVICE


def test_poison_is_not_a_number_in_every_float_and_glaring_in_integers(memory):
    allocation = memory.malloc(0, 64, None).allocation
    for dtype in (np.float16, np.float32, np.float64):
        assert np.isnan(array(allocation, 0, dtype, 2)).all()
    bfloat16_in_float32 = array(allocation, 0, np.uint16, 2).astype(np.uint32) << 16
    assert np.isnan(bfloat16_in_float32.view(np.float32)).all()
    assert array(allocation, 0, np.int16, 1)[0] == 32_763
    assert array(allocation, 0, np.int32, 1)[0] == 2_147_188_731
    assert array(allocation, 0, np.int64, 1)[0] == 9_222_105_380_131_930_107


@pytest.mark.parametrize("nbytes", [7, CHUNK, CHUNK + 1, 5 * CHUNK + 3])
def test_unwritten_memory_reads_as_poison(memory, nbytes):
    expected = (POISON * (nbytes // 2 + 1))[:nbytes]
    assert read(memory.malloc(0, nbytes, None)) == expected
    assert bytes(memory.malloc_host(nbytes, None).numpy()) == expected


def test_small_allocations_are_never_cold(memory):
    assert memory.malloc(0, CHUNK, None).allocation.cold is None
    assert memory.malloc_host(CHUNK, None).allocation.cold is None
    assert memory.malloc(0, CHUNK + 1, None).allocation.cold is not None


def test_knowing_the_address_of_pinned_memory_makes_it_warm(memory):
    buffer = memory.malloc_host(3 * CHUNK, None)
    assert buffer.allocation.cold is not None
    part = buffer[CHUNK : CHUNK + 8].numpy(np.uint8)
    part[:] = 9
    assert int(buffer) == part.__array_interface__["data"][0] - CHUNK
    assert buffer.allocation.cold is None
    assert bytes(buffer.numpy()[CHUNK - 2 : CHUNK + 10]) == POISON + b"\x09" * 8 + POISON


def test_use_after_free_tells_the_story(memory):
    buffer = memory.malloc(0, 4096, "app.py:12")
    memory.free(buffer, "app.py:20")
    story = "<Buffer device 4.0 KiB allocation 1 made at app.py:12, freed at app.py:20>"
    with pytest.raises(DeviceError) as caught:
        memory.locate(buffer, 8, "dst")
    assert caught.value.kind is Kind.INVALID_ADDRESS
    assert str(caught.value) == f"dst is {story}, which is no longer alive; free it after its last use"
    with pytest.raises(DeviceError) as caught:
        memory.locate(DEVICE_BASE + 16, 8, "src")
    assert str(caught.value) == (
        f"src is 0x1000000000000010, inside {story}; pass a buffer, or an address inside one that is alive"
    )


@pytest.mark.parametrize("thing", [lambda b: b, int], ids=["buffer", "address"])
def test_double_free(memory, thing):
    buffer = memory.malloc(0, 4096, "app.py:12")
    address = thing(buffer)
    memory.free(address, "app.py:20")
    with pytest.raises(DeviceError) as caught:
        memory.free(address, "app.py:21")
    assert caught.value.kind is Kind.INVALID_ADDRESS
    assert str(caught.value) == (
        "Free of <Buffer device 4.0 KiB allocation 1 made at app.py:12, freed at app.py:20>, which was freed already; "
        "free it once"
    )
    assert memory.free_bytes(0) == 200 * GIB


@pytest.mark.parametrize("thing", [lambda b: b + 8, lambda b: int(b) + 8], ids=["buffer", "address"])
def test_interior_free(memory, thing):
    buffer = memory.malloc(0, 4096, "app.py:12")
    with pytest.raises(DeviceError) as caught:
        memory.free(thing(buffer), "app.py:20")
    assert str(caught.value) == (
        "Free of an address 8 bytes inside <Buffer device 4.0 KiB allocation 1 made at app.py:12>; "
        "pass the buffer that Malloc() returned"
    )
    assert memory.locate(buffer, 4096, "src") == (buffer.allocation, 0)


def test_each_kind_of_memory_has_its_own_end(memory):
    array_ = np.zeros(16, np.uint8)
    device = memory.malloc(0, 64, "a.py:1")
    pinned = memory.malloc_host(64, "a.py:2")
    registered = memory.host_register(array_, None, "a.py:3")
    pinned_text = "<Buffer pinned 64 B allocation 2 made at a.py:2>"
    with_free_host = "release it with FreeHost()"
    wrong = [
        (memory.free, pinned, f"Free() does not release {pinned_text}; {with_free_host}"),
        (memory.free_host, device, f"FreeHost() does not release {device!r}; release it with Free()"),
        (memory.free_host, registered, f"FreeHost() does not release {registered!r}; release it with HostUnregister()"),
        (memory.host_unregister, pinned, f"HostUnregister() does not release {pinned_text}; {with_free_host}"),
    ]
    for call, thing, message in wrong:
        with pytest.raises(DeviceError, match=f"^{re.escape(message)}$"):
            call(thing, "a.py:9")
    assert [leak.serial for leak in memory.leaks()] == [1, 2, 3]


def test_nothing_to_free(memory):
    with pytest.raises(
        DeviceError, match=r"^Free of NULL, which is neither in an allocation nor near one; pass the buffer"
    ):
        memory.free(0, None)
    with pytest.raises(DeviceError, match=r"^the argument of Free is None, which is not memory; pass a buffer"):
        memory.free(None, None)


def test_leaks_come_in_the_order_of_making(memory):
    array_ = np.zeros(16, np.uint8)
    made = [
        memory.malloc(1, 64, "a"),
        memory.host_register(array_, None, "b"),
        memory.malloc(0, 64, "c"),
        memory.malloc_host(64, "d"),
        memory.pool(0).take(64, lambda block: 0, "e")[0],
    ]
    memory.free(made[2], None)
    assert [str(leak.made) for leak in memory.leaks()] == ["a", "b", "d", "e"]


def test_freed_device_memory_reads_as_poison_and_takes_no_writes(memory):
    buffer, other = memory.malloc(0, 4 * CHUNK, None), memory.malloc(0, 16, None)
    allocation = buffer.allocation
    backing = weakref.ref(allocation.view.obj)
    memory.free(buffer, None)
    assert allocation.is_dropped
    assert backing() is None
    copy(other.allocation, 0, allocation, 3 * CHUNK, 16)
    assert read(other) == POISON * 8
    copy(allocation, 0, other.allocation, 0, 16)
    assert bytes(array(allocation, 0, np.uint8, 4)) == POISON * 2


def test_arrays_outlive_free_host_but_may_not_be_passed_in(memory):
    buffer = memory.malloc_host(CHUNK * 2, "a.py:1")
    values = buffer.numpy(np.int32)
    values[:] = 7
    memory.free_host(buffer, "a.py:2")
    gc.collect()
    assert (values == 7).all()
    with pytest.raises(DeviceError) as caught:
        memory.locate(values[4:], 8, "src")
    assert str(caught.value) == (
        "src is an array inside <Buffer pinned 128.0 KiB allocation 1 made at a.py:1, freed at a.py:2>, "
        "which is no longer alive; free it after its last use"
    )
    with pytest.raises(DeviceError, match="is no longer alive"):
        buffer.numpy()


def test_pinned_memory_goes_with_its_last_view(memory):
    buffer = memory.malloc_host(4096, None)
    mapping = weakref.ref(buffer.allocation.owner)
    values = buffer.numpy()
    memory.free_host(values, None)  # an array over all of it also names it
    assert mapping() is not None
    del values
    assert mapping() is None


def test_registered_arrays_stay_alive(memory):
    values = np.arange(1000)
    alive = weakref.ref(values)
    buffer = memory.host_register(values, None, "a.py:1")
    assert buffer.allocation.space is Space.PINNED
    del values
    gc.collect()
    assert (buffer.numpy(np.int64) == np.arange(1000)).all()
    memory.host_unregister(buffer, "a.py:2")
    del buffer
    gc.collect()
    assert alive() is None


def test_register_refuses_overlaps_and_takes_the_memory_again_after_unregister(memory):
    values = np.zeros(4096, np.uint8)
    buffer = memory.host_register(values[:2048], None, "a.py:1")
    for thing in (values, values[2047:], buffer, values[100:200]):
        with pytest.raises(DeviceError) as caught:
            memory.host_register(thing, None, "a.py:2")
        assert caught.value.kind is Kind.ALREADY_REGISTERED
    assert str(caught.value) == (
        "HostRegister of 100 B overlaps <Buffer registered 2.0 KiB allocation 1 made at a.py:1>, "
        "which is pinned already; use it as it is, or release it with HostUnregister() first"
    )
    memory.host_register(values[2048:], None, "a.py:3")
    memory.host_unregister(values, None)
    memory.host_register(values[:2048], None, "a.py:4")
    with pytest.raises(DeviceError) as caught:
        memory.host_unregister(np.zeros(8), None)
    assert caught.value.kind is Kind.NOT_REGISTERED


def test_register_takes_addresses_that_are_mapped_and_no_others(memory):
    values = np.zeros(10_000, np.uint8)
    address = values.__array_interface__["data"][0]
    buffer = memory.host_register(address, 10_000, None)
    values[5] = 42
    assert buffer.numpy()[5] == 42
    mapping = mmap.mmap(-1, mmap.PAGESIZE)
    hole = np.frombuffer(mapping, np.uint8).__array_interface__["data"][0]
    mapping.close()
    for wrong, nbytes in ((8, 8), (hole, 1 << 46), (DEVICE_BASE, 8), (address, None), (address, -1), (0, 8)):
        with pytest.raises(DeviceError, match="at an address where the host has no such writable memory"):
            memory.host_register(wrong, nbytes, None)
    with pytest.raises(DeviceError, match="read-only"):
        memory.host_register(b"fixed", None, None)


def test_any_address_of_the_host_can_be_pageable_memory(memory):
    values = np.arange(100, dtype=np.uint8)
    allocation = memory.pageable(values.__array_interface__["data"][0], 100, "src")
    assert allocation.space is Space.PAGEABLE
    assert bytes(allocation.view) == bytes(values)
    with pytest.raises(DeviceError, match=r"^src is an address at which the host has no 8 B of memory; pass"):
        memory.pageable(16, 8, "src")
    with pytest.raises(DeviceError, match=r"^dst is an address at which the host has no 8 B of writable memory; pass"):
        memory.pageable(16, 8, "dst")


def test_memory_that_cannot_be_written_can_be_a_source(memory, tmp_path):
    path = tmp_path / "values"
    path.write_bytes(bytes(range(64)))
    mapped = np.memmap(path, np.uint8, "r")
    address = mapped.__array_interface__["data"][0]
    assert bytes(memory.pageable(address, 64, "src").view) == bytes(range(64))
    with pytest.raises(DeviceError, match="no 64 B of writable memory"):
        memory.pageable(address, 64, "dst")


def test_memory_that_was_given_back_is_no_memory_any_more(memory):
    mapping = mmap.mmap(-1, 1 << 16)
    address = np.frombuffer(mapping, np.uint8).__array_interface__["data"][0]
    assert memory.pageable(address, 1 << 16, "dst").nbytes == 1 << 16
    mapping.close()
    with pytest.raises(DeviceError, match=r"no 64\.0 KiB of writable memory"):
        memory.pageable(address, 1 << 16, "dst")


def test_an_address_is_a_part_of_the_allocation_that_holds_it(memory):
    device, pinned = memory.malloc(0, 4096, "a.py:1"), memory.malloc_host(4096, "a.py:2")
    for buffer in (device, pinned):
        address = buffer.allocation.address
        part = memory.at(address + 64, 128, "src")
        assert (part.allocation, part.offset, part.nbytes) == (buffer.allocation, 64, 128)
        assert memory.holder(address + 4095) is buffer.allocation
        with pytest.raises(DeviceError, match="src"):
            memory.at(address + 64, 4096, "src")
    assert memory.holder(device.allocation.address + 4096) is None
    values = np.arange(64, dtype=np.uint8)
    assert memory.at(values.__array_interface__["data"][0], 64, "dst").allocation.space is Space.PAGEABLE


def test_no_message_shows_a_real_address(memory):
    pinned = memory.malloc_host(4096, "a.py:1")
    values = np.zeros(64)
    registered = memory.host_register(values, None, "a.py:2")
    transient, _ = memory.locate(np.zeros(8), 64, "src")
    texts = [repr(thing) for b in (pinned, registered) for thing in (b, b[8:16], b.allocation)]
    texts.append(repr(transient))
    memory.free_host(pinned, "a.py:3")
    end = pinned.allocation.address + 4096
    wrong = [(address, n) for address in (end, end - 8, end + 64, int(registered), 12345) for n in (4096, -1)]
    for address, nbytes in wrong:
        for call in (
            lambda a=address, n=nbytes: memory.locate(a, n, "dst"),
            lambda a=address: memory.free_host(a, None),
        ):
            with pytest.raises(DeviceError) as caught:
                call()
            texts.append(str(caught.value))
    for text in texts:
        assert not re.search(r"0x|[0-9]{6,}|12345", text), text
    assert texts[:3] == [
        "<Buffer pinned 4.0 KiB allocation 1 made at a.py:1>",
        "<Buffer pinned 8 B at 8 of allocation 1 made at a.py:1>",
        "<Allocation pinned 4.0 KiB allocation 1 made at a.py:1>",
    ]
    assert repr(transient) == "<Allocation pageable 64 B>"
