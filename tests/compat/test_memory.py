"""Memory by its address: what every function accepts, and what becomes of it."""

import mmap

import numpy as np
import pytest
from card import D2D, D2H, DEFAULT, H2D, content, done, made, now

MIB = 1 << 20
PAGE = 2 * MIB
ON_DEVICE_0 = {"handleType": 0, "allocationType": 0, "memAttr": 1, "location": {"id": 0, "type": 1}, "reserve": 0}


# --- any address of the host


def test_a_copy_into_the_middle_of_bytes_and_from_the_middle(acl):
    device, data = made(acl.rt.malloc(64, 0)), bytes(range(64))
    done(acl.rt.memcpy(device + 16, 48, acl.util.bytes_to_ptr(data) + 8, 8, H2D))
    out = bytes(16)
    done(acl.rt.memcpy(acl.util.bytes_to_ptr(out) + 4, 12, device + 16, 8, D2H))
    assert out == bytes(4) + bytes(range(8, 16)) + bytes(4)


def test_what_goes_beyond_an_allocation_is_refused_and_says_whose_it_is(acl):
    device, pinned = made(acl.rt.malloc(64, 0)), made(acl.rt.malloc_host(64))
    for address in (device, pinned):
        assert acl.rt.memset(address + 60, 64, 0, 8) == 107000
        assert "allocation" in acl.get_recent_err_msg()
        assert acl.rt.memcpy(device, 64, address + 1, 64, DEFAULT) == 107000


def test_memory_that_was_freed_is_no_memory(acl):
    device, other = made(acl.rt.malloc(64, 0)), made(acl.rt.malloc(64, 0))
    done(acl.rt.memset(device, 64, 1, 64), acl.rt.free(device))
    assert acl.rt.memcpy(other, 64, device, 64, D2D) == 107000
    assert "freed at test_memory.py" in acl.get_recent_err_msg()
    assert acl.rt.free(device) == 107000


def test_memory_of_the_host_that_is_not_there_is_refused_and_does_not_end_the_process(acl):
    device, mapping = made(acl.rt.malloc(64, 0)), mmap.mmap(-1, 1 << 16)
    address = np.frombuffer(mapping, np.uint8).__array_interface__["data"][0]
    done(acl.rt.memcpy(device, 64, address, 64, H2D))
    mapping.close()
    assert acl.rt.memcpy(device, 64, address, 64, H2D) == 107000
    assert acl.rt.memcpy(address, 64, device, 64, D2H) == 107000
    for call in (lambda: acl.util.ptr_to_bytes(address, 64), lambda: acl.util.ptr_to_numpy(address, (8, 8), 2)):
        with pytest.raises(ValueError, match="the host has no 64 bytes"):
            call()


def test_device_memory_is_not_read_by_the_host(acl):
    device = made(acl.rt.malloc(64, 0))
    with pytest.raises(ValueError, match=r"device memory; copy it to the host with acl\.rt\.memcpy"):
        acl.util.ptr_to_bytes(device, 64)
    with pytest.raises(ValueError, match="device memory"):
        acl.util.ptr_to_numpy(device, (64,), 2)


def test_a_source_may_be_read_only_and_a_destination_may_not(acl, tmp_path):
    (tmp_path / "weights").write_bytes(bytes(range(64)))
    weights = np.memmap(tmp_path / "weights", np.uint8, "r")
    address, device = weights.__array_interface__["data"][0], made(acl.rt.malloc(64, 0))
    done(acl.rt.memcpy(device, 64, address, 64, H2D))
    assert content(acl, device, 64) == bytes(range(64))
    assert acl.rt.memcpy(address, 64, device, 64, D2H) == 107000
    assert "writable" in acl.get_recent_err_msg()


def test_registered_memory_is_pinned_at_its_own_address(acl):
    values = np.arange(64, dtype=np.uint8)
    address = values.__array_interface__["data"][0]
    assert acl.rt.host_get_device_pointer(address, 0) == (0, 107000)
    assert acl.rt.host_register(address, 64, 0) == (address, 0)
    assert acl.rt.pointer_get_attributes(address + 63)[0]["location"] == {"id": 0, "type": 0}
    assert acl.rt.host_get_device_pointer(address, 0) == (address, 0)
    assert acl.rt.host_register(address, 64, 0) == (0, 507910)
    device, stream = made(acl.rt.malloc(64, 0)), made(acl.rt.create_stream())
    done(acl.rt.memcpy_async(device, 64, address, 64, H2D, stream))
    values[:] = 7  # the copy is queued, and looks when it is its turn
    done(acl.rt.synchronize_stream(stream))
    assert set(content(acl, device, 64)) == {7}
    done(acl.rt.host_unregister(address))
    assert acl.rt.host_unregister(address) == 507911


def test_what_a_reset_freed_is_gone_and_its_address_means_nothing(acl):
    device = made(acl.rt.malloc(64, 0))
    done(acl.rt.reset_device(0), acl.rt.set_device(0))
    assert acl.rt.memset(device, 64, 0, 64) == 107000
    assert acl.rt.pointer_get_attributes(device)[0]["location"]["type"] == 2


# --- room


@pytest.mark.parametrize("policy", [0, 1, 2, 3, 4, 5, 6, 7, 0x100, 0x1002, 0x100000])
def test_policies(acl, policy):
    done(acl.rt.free(made(acl.rt.malloc(64, policy))))


@pytest.mark.parametrize("policy", [8, -1, 0x10, 0x100008])
def test_policies_that_are_none(acl, policy):
    assert acl.rt.malloc(64, policy) == (0, 107000)


def test_a_device_without_room_says_who_holds_it(acl):
    free, total, _ = acl.rt.get_mem_info(1)
    held = made(acl.rt.malloc(free - 4096, 0))
    assert acl.rt.malloc(MIB, 0) == (0, 207001)
    assert "the largest holders are <Buffer device" in acl.get_recent_err_msg()
    assert acl.rt.get_mem_info(1)[:2] == (free - (free - 4096), total)
    done(acl.rt.free(held))
    assert acl.rt.get_mem_info(1) == (free, total, 0)


# --- copies of rows, copies that are described, reductions


def test_rows_from_and_into_bytes(acl):
    device, data, out = made(acl.rt.malloc(64, 0)), bytes(range(32)), bytes(32)
    done(acl.rt.memset(device, 64, 0, 64))
    done(acl.rt.memcpy2d(device, 16, acl.util.bytes_to_ptr(data), 8, 8, 4, H2D))
    rows = np.frombuffer(content(acl, device, 64), np.uint8).reshape(4, 16)
    assert (rows[:, :8] == np.arange(32).reshape(4, 8)).all()
    assert not rows[:, 8:].any()
    stream = made(acl.rt.create_stream())
    done(acl.rt.memcpy2d_async(acl.util.bytes_to_ptr(out), 8, device, 16, 8, 4, D2H, stream))
    assert out == data  # pageable memory: done on return


@pytest.mark.parametrize(("width", "height", "ret"), [(0, 4, 0), (8, 0, 0), (17, 1, 107000), (8, 5, 107000)])
def test_rows_that_do_not_fit(acl, width, height, ret):
    device, pinned = made(acl.rt.malloc(64, 0)), made(acl.rt.malloc_host(64))
    assert acl.rt.memcpy2d(device, 16, pinned, 16, width, height, H2D) == ret


def test_a_copy_that_is_described_in_device_memory(acl):
    size = made(acl.rt.get_memcpy_desc_size(6))
    desc, src, dst = (made(acl.rt.malloc(size, 0)) for _ in range(3))
    stream = made(acl.rt.create_stream())
    done(acl.rt.memset(src, size, 5, size), acl.rt.memset(dst, size, 0, size))
    assert acl.rt.set_memcpy_desc(desc, 6, src, dst, 8, 0) == (desc, 0)
    done(acl.rt.memcpy_async_with_desc(desc, 6, stream), acl.rt.synchronize_stream(stream))
    assert content(acl, dst, 16) == bytes([5] * 8 + [0] * 8)
    assert acl.rt.memcpy_async_with_desc(desc, 3, stream) == 107000
    assert acl.rt.get_memcpy_desc_size(1) == (0, 207000)
    assert acl.rt.set_memcpy_desc(8, 6, src, dst, 8, 0) == (0, 107000)


@pytest.mark.parametrize(("dtype", "number"), [("f4", 0), ("f2", 1), ("i1", 2), ("i4", 3), ("i2", 6)])
@pytest.mark.parametrize(("kind", "function"), [(10, np.add), (11, np.maximum), (12, np.minimum)])
def test_reductions_are_queued_like_any_work(acl, dtype, number, kind, function):
    stream, one, two = made(acl.rt.create_stream()), np.arange(8).astype(dtype), np.array([3] * 8, dtype)
    size, addresses = one.nbytes, []
    for values in (one, two):
        addresses.append(made(acl.rt.malloc(size, 0)))
        done(acl.rt.memcpy(addresses[-1], size, values.__array_interface__["data"][0], size, H2D))
    dst, src = addresses
    before = now()
    done(acl.rt.reduce_async(dst, src, size, kind, number, stream, 0))
    done(acl.rt.synchronize_stream(stream))
    assert now() > before
    assert (np.frombuffer(content(acl, dst, size), dtype) == function(one, two)).all()


def test_reductions_that_are_none(acl):
    dst, src = made(acl.rt.malloc(64, 0)), made(acl.rt.malloc(64, 0))
    assert acl.rt.reduce_async(dst, src, 64, 13, 0, 0, 0) == 207000
    assert acl.rt.reduce_async(dst, src, 64, 10, 11, 0, 0) == 207000  # no double
    assert acl.rt.reduce_async(dst, src, 62, 10, 0, 0, 0) == 107000
    assert acl.rt.reduce_async(dst, src + 4, 64, 10, 0, 0, 0) == 107000
    assert acl.rt.reduce_async(0, src, 64, 10, 0, 0, 0) == 100000
    assert acl.rt.reduce_async(dst, src, 64, 10, 0, 0xBAD, 0) == 107017


# --- addresses and memory apart


def test_memory_keeps_its_bytes_while_it_has_no_address(acl):
    free, _, _ = acl.rt.get_mem_info(1)
    room = made(acl.rt.reserve_mem_address(2 * PAGE, 0, 0, 1))
    assert acl.rt.get_mem_info(1)[0] == free  # addresses are no memory
    handle = made(acl.rt.malloc_physical(PAGE, ON_DEVICE_0, 0))
    assert acl.rt.get_mem_info(1)[0] == free - PAGE
    done(acl.rt.map_mem(room, PAGE, 0, handle, 0), acl.rt.memset(room, PAGE, 7, PAGE))
    assert acl.rt.pointer_get_attributes(room + 5)[0]["location"] == {"id": 0, "type": 1}
    done(acl.rt.unmap_mem(room))
    assert acl.rt.memset(room, PAGE, 0, 8) == 107000
    done(acl.rt.map_mem(room + PAGE, PAGE, 0, handle, 0))
    assert content(acl, room + PAGE + 100, 8) == bytes([7] * 8)
    done(acl.rt.unmap_mem(room + PAGE), acl.rt.free_physical(handle), acl.rt.release_mem_address(room))
    assert acl.rt.get_mem_info(1)[0] == free


def test_what_is_mapped_is_not_freed_and_what_is_in_use_is_not_released(acl):
    room, handle = made(acl.rt.reserve_mem_address(PAGE, 0, 0, 0)), made(acl.rt.malloc_physical(PAGE, ON_DEVICE_0, 0))
    done(acl.rt.map_mem(room, PAGE, 0, handle, 0))
    assert acl.rt.map_mem(room, PAGE, 0, handle, 0) == 107000  # once
    assert acl.rt.free(room) == 107000
    assert acl.rt.free_physical(handle) == 107000
    assert acl.rt.release_mem_address(room) == 107000
    done(acl.rt.unmap_mem(room))
    assert acl.rt.unmap_mem(room) == 107000
    done(acl.rt.free_physical(handle))
    assert acl.rt.free_physical(handle) == 107017
    assert acl.rt.map_mem(room, PAGE, 0, handle, 0) == 107017
    done(acl.rt.release_mem_address(room))
    assert acl.rt.release_mem_address(room) == 107000


def test_two_pieces_do_not_overlap_and_lie_where_addresses_are_reserved(acl):
    room = made(acl.rt.reserve_mem_address(2 * PAGE, 0, 0, 0))
    one, two = (made(acl.rt.malloc_physical(PAGE, ON_DEVICE_0, 0)) for _ in range(2))
    done(acl.rt.map_mem(room, PAGE, 0, one, 0))
    assert acl.rt.map_mem(room, PAGE, 0, two, 0) == 107000
    assert acl.rt.map_mem(room + PAGE + 64, PAGE, 0, two, 0) == 107000
    assert acl.rt.map_mem(room + 2 * PAGE, PAGE, 0, two, 0) == 107000
    assert acl.rt.map_mem(room + PAGE, 2 * PAGE, 0, two, 0) == 107000
    done(acl.rt.map_mem(room + PAGE, PAGE, 0, two, 0))


def test_granularity_and_what_does_not_keep_to_it(acl):
    assert [acl.rt.mem_get_allocation_granularity(ON_DEVICE_0, option) for option in (0, 1, 2)] == [
        (PAGE, 0), (PAGE, 0), (0, 107000),
    ]  # fmt: skip
    assert acl.rt.malloc_physical(PAGE + 1, ON_DEVICE_0, 0) == (0, 107000)
    assert acl.rt.malloc_physical(PAGE, {"location": {"id": 99, "type": 1}}, 0) == (0, 107001)
    assert acl.rt.malloc_physical(PAGE, {"location": {"id": 0, "type": 0}}, 0) == (0, 107000)
    assert acl.rt.reserve_mem_address(0, 0, 0, 0) == (0, 107000)
    assert acl.rt.malloc_physical(1 << 50, ON_DEVICE_0, 0) == (0, 207001)


def test_a_reset_frees_memory_without_address_too(acl):
    free, _, _ = acl.rt.get_mem_info(1)
    room, handle = made(acl.rt.reserve_mem_address(PAGE, 0, 0, 0)), made(acl.rt.malloc_physical(PAGE, ON_DEVICE_0, 0))
    done(acl.rt.map_mem(room, PAGE, 0, handle, 0), acl.rt.reset_device(0), acl.rt.set_device(0))
    assert acl.rt.get_mem_info(1)[0] == free
    assert acl.rt.map_mem(room, PAGE, 0, handle, 0) == 107000
    assert acl.rt.unmap_mem(room) == 107000


def test_what_is_written_through_the_address_of_large_pinned_memory_is_what_is_copied(acl):
    """Fresh memory holds poison, which for large pieces is written late: not over what a script has put there."""
    nbytes = 8 << 20
    pointer, ret = acl.rt.malloc_host(nbytes)
    assert ret == 0
    values = acl.util.ptr_to_numpy(pointer, (nbytes,), 2)
    values[:] = 7
    device, ret = acl.rt.malloc(nbytes, 0)
    assert ret == 0
    assert acl.rt.memcpy(device, nbytes, pointer, nbytes, 1) == 0
    values[:] = 0
    assert acl.rt.memcpy(pointer, nbytes, device, nbytes, 2) == 0
    assert (values == 7).all()
    assert (acl.rt.free(device), acl.rt.free_host(pointer)) == (0, 0)


def test_what_a_script_writes_into_large_pinned_memory_stays(acl):
    """Its poison is written late, as that of all large memory, but not after the script has its address."""
    size = 8 * MIB
    pinned, device = made(acl.rt.malloc_host(size)), made(acl.rt.malloc(size, 0))
    view = acl.util.ptr_to_numpy(pinned, (size,), 2)
    view[:] = np.arange(size, dtype=np.uint8)
    done(acl.rt.memcpy(device, size, pinned, size, H2D))
    assert (view == np.arange(size, dtype=np.uint8)).all()
    out = bytes(size)
    done(acl.rt.memcpy(acl.util.bytes_to_ptr(out), size, device, size, D2H))
    assert (np.frombuffer(out, np.uint8) == view).all()


def test_memory_freed_as_another_kind_is_named_with_the_functions_of_the_module(acl):
    device, pinned = made(acl.rt.malloc(64, 0)), made(acl.rt.malloc_host(64))
    assert acl.rt.free_host(device) == 107000
    assert "acl.rt.free_host() does not release <Buffer device 64 B" in acl.get_recent_err_msg()
    done(acl.rt.free(device))
    done(acl.rt.free_host(pinned))
    assert acl.rt.free(pinned) == 107000
    remedy = "leave out acl.rt.free(): memory of acl.rt.malloc_host() is released by acl.rt.free_host() alone"
    assert acl.get_recent_err_msg().endswith(f"which was freed already; {remedy}")
