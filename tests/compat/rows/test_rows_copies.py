"""Copies and memory through the module: the table of directions row by row, and what else is said about them."""

import ctypes

import numpy as np
import pytest
from card import D2D, D2H, DEFAULT, H2D, H2H, content, done, made, module, now, times, work
from copy_table import FAULT, NAMES, ROWS, TABLE, WAITS

N = 256
LONG_NS = 100_000


@pytest.fixture
def keep():
    """What keeps pageable memory alive until the end of the test."""
    return []


def place(acl, where, keep, fill=0):
    """The address of N bytes of *fill* there."""
    if where == "pageable":
        keep.append(np.full(N, fill, np.uint8))
        return acl.util.numpy_contiguous_to_ptr(keep[-1])[0]
    address = made(acl.rt.malloc_host(N) if where == "pinned" else acl.rt.malloc(N, 0))
    done(acl.rt.memset(address, N, fill, N))
    return address


# --- the synchronous copy


def test_memcpy_is_not_ordered_after_work_queued_on_any_stream(acl, keep):
    """A D2H memcpy without synchronize_stream is a race: what the queued copy will bring is not there yet."""
    stream, pinned = made(acl.rt.create_stream()), place(acl, "pinned", keep, 5)
    device, out = place(acl, "device", keep, 1), bytes(N)
    work("long", 100, stream)
    done(acl.rt.memcpy_async(device, N, pinned, N, H2D, stream))
    done(acl.rt.memcpy(acl.util.bytes_to_ptr(out), N, device, N, D2H))
    assert set(out) == {1}
    done(acl.rt.synchronize_stream(stream), acl.rt.memcpy(acl.util.bytes_to_ptr(out), N, device, N, D2H))
    assert set(out) == {5}


@pytest.mark.parametrize(("source", "target"), list(TABLE))
def test_memcpy_kind_does_not_count(acl, keep, source, target):
    for kind in (*range(8), 99):
        src, dst = place(acl, source, keep, 9), place(acl, target, keep)
        done(acl.rt.memcpy(dst, N, src, N, kind))
        assert set(content(acl, dst, N)) == {9}


@pytest.mark.parametrize("name", ["memcpy", "memcpy_async", "memcpy_async_with_condition"])
def test_count_0_succeeds_without_a_look_at_the_pointers(acl, name):
    more = () if name == "memcpy" else (0,)
    done(getattr(acl.rt, name)(0, 16, 0, 0, H2D, *more), getattr(acl.rt, name)(0x123, 16, 0x456, 0, H2D, *more))


@pytest.mark.parametrize("name", ["memcpy", "memcpy_async"])
def test_a_null_pointer_is_an_error_of_the_c_layer(acl, keep, name):
    device, more = place(acl, "device", keep), () if name == "memcpy" else (0,)
    copy = getattr(acl.rt, name)
    assert (copy(0, N, device, N, D2H, *more), copy(device, N, 0, N, H2D, *more)) == (100000, 100000)


@pytest.mark.parametrize("name", ["memcpy", "memcpy_async"])
def test_count_above_dst_max_is_an_error_of_the_runtime(acl, keep, name):
    device, pinned, more = place(acl, "device", keep), place(acl, "pinned", keep), () if name == "memcpy" else (0,)
    copy = getattr(acl.rt, name)
    assert copy(device, N - 1, pinned, N, H2D, *more) == 107000
    assert copy(device, 0, pinned, N, H2D, *more) == 107000  # dst_max 0


def test_equal_addresses_succeed_and_nothing_moves(acl, keep):
    for where in ("pinned", "device"):
        address, stream = place(acl, where, keep, 3), made(acl.rt.create_stream())
        work("long", 100, stream)
        begin = now()
        done(acl.rt.memcpy(address, N, address, N, DEFAULT))
        done(acl.rt.memcpy_async(address, N, address, N, DEFAULT, stream))
        assert now() - begin < LONG_NS / 10
        assert set(content(acl, address, N)) == {3}


# --- the asynchronous copy: the table of directions


@pytest.mark.parametrize(("source", "target", "kind", "effect"), ROWS, ids=NAMES)
def test_row_direction(acl, keep, source, target, kind, effect):
    src, dst, stream = place(acl, source, keep, 7), place(acl, target, keep), made(acl.rt.create_stream())
    work("long", 100, stream)
    begin = now()
    ret = acl.rt.memcpy_async(dst, N, src, N, kind, stream)
    if isinstance(effect, int):
        assert ret == effect
        assert acl.rt.peek_at_last_error(0) == effect
        return
    assert (ret, now() - begin >= 0.98 * LONG_NS) == (0, effect == WAITS)
    if effect == FAULT:  # device-to-device hides that an end is pageable: the device finds out
        assert acl.rt.synchronize_stream(stream) != 0
        assert set(content(acl, dst, N)) == {0}
        return
    if effect == WAITS:
        assert set(content(acl, dst, N)) == {7}
    done(acl.rt.synchronize_stream(stream))
    assert set(content(acl, dst, N)) == {7}


@pytest.mark.parametrize("make", ["malloc_host", "host_register", "host_register_v2"])
def test_pinned_memory_is_copied_really_asynchronously(acl, keep, make):
    if make == "malloc_host":
        pinned = place(acl, "pinned", keep, 6)
    else:
        pinned = place(acl, "pageable", keep, 6)
        if make == "host_register":
            assert acl.rt.host_register(pinned, N, 0)[1] == 0
        else:
            done(acl.rt.host_register_v2(pinned, N, 0x10000000))
    device, stream = place(acl, "device", keep), made(acl.rt.create_stream())
    work("long", 100, stream)
    begin = now()
    done(acl.rt.memcpy_async(device, N, pinned, N, H2D, stream))
    assert (now() - begin, acl.rt.stream_query(stream)) == (1_000, (1, 0))
    ctypes.memset(pinned, 8, N)  # before it is copied: that is the danger
    done(acl.rt.synchronize_stream(stream))
    assert set(content(acl, device, N)) == {8}
    if make != "malloc_host":
        done(acl.rt.host_unregister(pinned))


@pytest.mark.parametrize("kind_of_host", ["bytes", "numpy", "malloc"])
def test_pageable_memory_returns_only_after_the_copy_whoever_made_it(acl, kind_of_host):
    if kind_of_host == "bytes":
        data = bytes([4]) * N
        address = acl.util.bytes_to_ptr(data)
    elif kind_of_host == "numpy":
        data = np.full(N, 4, np.uint8)
        address, data = acl.util.numpy_contiguous_to_ptr(data)
    else:
        data = ctypes.create_string_buffer(bytes([4]) * N, N)
        address = ctypes.addressof(data)
    stream, device = made(acl.rt.create_stream()), made(acl.rt.malloc(N, 0))
    begin = now()
    op = work("long", 100, stream)
    done(acl.rt.memcpy_async(device, N, address, N, H2D, stream))
    assert (op.done, now() - begin > LONG_NS) == (True, True)
    assert set(content(acl, device, N)) == {4}
    del data


def test_a_pageable_copy_waits_for_its_stream_only(acl, keep):
    a, b = made(acl.rt.create_stream()), made(acl.rt.create_stream())
    address, device = place(acl, "pageable", keep, 4), place(acl, "device", keep)
    begin = now()
    work("short", 10, a)
    long = work("long", 1_000, b)
    done(acl.rt.memcpy_async(device, N, address, N, H2D, a))
    assert (now() - begin < 20_000, long.done) == (True, False)


def test_the_effective_kind_host_to_host_is_not_supported(acl, keep):
    for kind in range(5):
        assert acl.rt.memcpy_async(place(acl, "pinned", keep), N, place(acl, "pinned", keep), N, kind, 0) == 207000
    assert acl.rt.memcpy_async(place(acl, "pageable", keep), N, place(acl, "pinned", keep), N, H2H, 0) == 207000


# --- fills and rows


@pytest.mark.parametrize("where", ["device", "pinned", "pageable"])
def test_memset_works_on_host_and_device(acl, keep, where):
    address = place(acl, where, keep)
    done(acl.rt.memset(address, N, 0x55, N // 2))
    assert content(acl, address, N) == b"\x55" * (N // 2) + bytes(N // 2)
    assert acl.rt.memset(address, N - 1, 1, N) == 107000


@pytest.mark.parametrize("where", ["device", "pinned"])
def test_memset_async_works_on_host_and_device(acl, keep, where):
    address, stream = place(acl, where, keep), made(acl.rt.create_stream())
    work("long", 100, stream)
    done(acl.rt.memset_async(address, N, 0x55, N, stream))
    assert set(content(acl, address, N)) == {0}
    done(acl.rt.synchronize_stream(stream))
    assert set(content(acl, address, N)) == {0x55}


def test_memcpy2d_and_memcpy2d_async_move_rows(acl, keep):
    source = np.arange(N, dtype=np.uint8)
    device, back, stream = place(acl, "device", keep), place(acl, "pinned", keep), made(acl.rt.create_stream())
    done(acl.rt.memcpy2d(device, 32, source.ctypes.data, 32, 16, 8, H2D))
    done(acl.rt.memcpy2d_async(back, 32, device, 32, 16, 8, D2H, stream), acl.rt.synchronize_stream(stream))
    rows = np.frombuffer(content(acl, back, N), np.uint8).reshape(8, 32)
    assert (rows[:, :16] == source.reshape(8, 32)[:, :16]).all()
    assert not rows[:, 16:].any()


# --- memory


@pytest.mark.parametrize("size", [1, 31, 32, 100, 4096, 100_001])
def test_malloc_starts_at_a_multiple_of_64_and_is_rounded_up_to_32_bytes_plus_32(acl, size):
    before = made(acl.rt.get_mem_info(1))[0]
    address = made(acl.rt.malloc(size, 0))
    taken = before - made(acl.rt.get_mem_info(1))[0]
    assert (address % 64, taken >= (size + 31) // 32 * 32) == (0, True)
    done(acl.rt.free(address))
    assert made(acl.rt.get_mem_info(1))[0] == before


def test_malloc_is_uninitialised(acl):
    address = made(acl.rt.malloc(N, 0))
    assert set(content(acl, address, N)) != {0}


@pytest.mark.parametrize(("name", "args"), [
    ("malloc", (0,)), ("malloc_align32", (0,)), ("malloc_cached", (0,)), ("malloc_host", ()),
])  # fmt: skip
def test_a_size_of_0_is_an_error(acl, name, args):
    address, ret = getattr(acl.rt, name)(0, *args)
    assert (address, ret != 0) == (0, True)


@pytest.mark.parametrize("policy", [0, 1, 2, 3, 4, 5, 6, 7])
def test_out_of_memory(acl, policy):
    assert acl.rt.malloc(1 << 40, policy) == (0, 207001)
    assert acl.rt.get_last_error(0) == 207001


@pytest.mark.parametrize("size", [1 << 45, (1 << 64) - 1])
def test_out_of_host_memory(acl, size):
    assert acl.rt.malloc_host(size) == (0, 207001)


def test_free_is_immediate_and_queued_work_that_uses_the_memory_fails(acl, keep):
    stream, device, pinned = made(acl.rt.create_stream()), place(acl, "device", keep), place(acl, "pinned", keep)
    work("long", 100, stream)
    done(acl.rt.memcpy_async(device, N, pinned, N, H2D, stream))
    begin = now()
    done(acl.rt.free(device))
    assert now() - begin == 1_000
    assert acl.rt.synchronize_stream(stream) == 507053
    assert "freed at" in acl.get_recent_err_msg()


@pytest.mark.parametrize("name", ["free", "free_host"])
def test_free_of_0_is_an_error_of_the_c_layer(acl, name):
    assert getattr(acl.rt, name)(0) == 100000


@pytest.mark.parametrize(("make", "free"), [("malloc", "free"), ("malloc_host", "free_host")])
def test_freed_twice_or_from_the_wrong_side_is_an_error(acl, make, free):
    address = made(acl.rt.malloc(N, 0) if make == "malloc" else acl.rt.malloc_host(N))
    other = acl.rt.free_host if free == "free" else acl.rt.free
    assert other(address) == 107000
    assert getattr(acl.rt, free)(address + 1) == 107000
    done(getattr(acl.rt, free)(address))
    assert getattr(acl.rt, free)(address) == 107000


def test_get_mem_info_tells_free_and_total(acl):
    free, total = made(acl.rt.get_mem_info(1))
    assert 0 < free <= total
    address = made(acl.rt.malloc(1 << 20, 0))
    less, same = made(acl.rt.get_mem_info(1))
    assert (free - less >= 1 << 20, same) == (True, total)
    done(acl.rt.free(address))
    assert acl.rt.get_mem_info(1) == (free, total, 0)


@pytest.mark.parametrize(("where", "location"), [("pinned", 0), ("device", 1), ("pageable", 2)])
def test_pointer_get_attributes_location(acl, keep, where, location):
    attributes = made(acl.rt.pointer_get_attributes(place(acl, where, keep)))
    assert set(attributes) == {"location", "page_size", "rsv"}
    assert attributes["location"]["type"] == location


# --- words of memory


@pytest.mark.parametrize(("flag", "before", "value", "after"), [
    pytest.param(0, 1, 5, 6, id="GEQ"), pytest.param(1, 1, 5, 5, id="EQ"), pytest.param(2, 1, 6, 2, id="AND"),
    pytest.param(3, 2**64 - 1, 1, 2**64 - 9, id="NOR"),
])  # fmt: skip
def test_value_wait_until_value_write(acl, flag, before, value, after):
    word, a, b = made(acl.rt.malloc(8, 0)), made(acl.rt.create_stream()), made(acl.rt.create_stream())
    data = before.to_bytes(8, "little")
    done(acl.rt.memcpy(word, 8, acl.util.bytes_to_ptr(data), 8, H2D))
    begin = now()
    done(acl.rt.value_wait(word, value, flag, b))
    later, first = work("later", 10, b), work("first", 10, a)
    done(acl.rt.value_write(word, after, 0, a), acl.rt.synchronize_device())
    assert times(begin, first, later) == [("first", 3_000, 13_000), ("later", 13_000, 23_000)]
    assert int.from_bytes(content(acl, word, 8), "little") == after


def test_value_wait_knows_four_flags(acl):
    word = made(acl.rt.malloc(8, 0))
    assert acl.rt.value_wait(word, 0, 4, 0) == 107000


def test_copies_inside_the_device_and_between_parts_of_one_allocation(acl, keep):
    device, stream = place(acl, "device", keep, 1), made(acl.rt.create_stream())
    done(acl.rt.memset(device + 128, 128, 2, 128))
    done(acl.rt.memcpy_async(device, 128, device + 128, 128, D2D, stream), acl.rt.synchronize_stream(stream))
    assert set(content(acl, device, N)) == {2}
    assert acl.rt.memcpy(device + 200, N, device, N, D2D) == 107000  # it does not fit


def test_memory_of_one_device_can_be_read_while_another_is_current(keep):
    with module() as acl:
        device = place(acl, "device", keep, 3)
        done(acl.rt.set_device(1))
        assert set(content(acl, device, N)) == {3}
        done(acl.rt.free(device))
