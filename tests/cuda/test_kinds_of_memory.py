"""Memory of a program's own making: pools, mappings, managed ranges, batches of copies, fills with words."""

import ctypes
import struct

from acl_py.compat.acl.face.session import current_session
from tests.cuda.calling import OUT

DEVICE, HOST = 1, 2  # CUmemLocationType
PINNED, MANAGED = 1, 2
MIB = 1 << 20


def properties(kind, where, number=0, most=0, shared=0):
    return ctypes.create_string_buffer(struct.pack("<IIIiQQ56x", kind, shared, where, number, 0, most))


def location(kind, number=0):
    return ctypes.create_string_buffer(struct.pack("<Ii", kind, number))


def numbers(form, *values):
    return ctypes.create_string_buffer(struct.pack(f"<{len(values)}{form}", *values))


def attribute(cuda, pool, number):
    return cuda.get("cuMemPoolGetAttribute", pool, number, OUT)


def taken_and_written(cuda, pool):
    """Take memory from *pool*, fill it, free it behind the fill: its address, and the codes."""
    code, address = cuda.get("cuMemAllocFromPoolAsync", OUT, 1000, pool, 0)
    used = attribute(cuda, pool, 7)[1]
    codes = cuda("cuMemsetD8Async", address, 7, 1000, 0), cuda("cuMemFreeAsync", address, 0)
    return address, used, (code, *codes, cuda("cuCtxSynchronize"))


def test_a_pool_of_each_kind_of_memory_gives_out_and_takes_back(h200):
    kinds = {"device": properties(PINNED, DEVICE), "host": properties(PINNED, HOST), "both": properties(MANAGED, 0)}
    for name, each in kinds.items():
        code, pool = h200.get("cuMemPoolCreate", OUT, each)
        address, used, codes = taken_and_written(h200, pool)
        assert (name, code, used, codes) == (name, 0, 1024, (0, 0, 0, 0))
        assert (address < 1 << 60) == (name != "device")
        assert [attribute(h200, pool, number) for number in (5, 7, 8)] == [(0, 0), (0, 0), (0, 1024)]
        assert (h200("cuMemPoolDestroy", pool), h200("cuMemPoolDestroy", pool)) == (0, 400)


def test_what_a_destroyed_pool_has_given_out_lives_until_it_is_freed(cuda):
    _, empty, _ = cuda.get("cuMemGetInfo_v2", OUT, OUT)
    _, pool = cuda.get("cuMemPoolCreate", OUT, properties(PINNED, DEVICE))
    _, address = cuda.get("cuMemAllocFromPoolAsync", OUT, 512, pool, 0)
    assert cuda("cuMemPoolDestroy", pool) == 0
    assert cuda("cuMemsetD8_v2", address, 1, 512) == 0
    assert cuda.get("cuMemGetInfo_v2", OUT, OUT)[1] < empty
    assert (cuda("cuMemFreeAsync", address, 0), cuda.get("cuMemGetInfo_v2", OUT, OUT)[1]) == (0, empty)


def test_a_pool_has_no_more_than_its_limit_and_a_device_can_use_it(cuda):
    _, pool = cuda.get("cuMemPoolCreate", OUT, properties(PINNED, DEVICE, most=1024))
    _, default = cuda.get("cuDeviceGetDefaultMemPool", OUT, 0)
    assert (cuda("cuDeviceSetMemPool", 0, pool), cuda("cuDeviceSetMemPool", 1, pool)) == (0, 1)
    assert [cuda.get("cuDeviceGetMemPool", OUT, 0), cuda.get("cuDeviceGetDefaultMemPool", OUT, 0)] == [
        (0, pool), (0, default),
    ]  # fmt: skip
    assert cuda.get("cuMemGetMemPool", OUT, location(DEVICE), PINNED) == (0, pool)
    assert cuda.get("cuMemAllocAsync", OUT, 1024, 0)[0] == 0
    assert cuda.get("cuMemAllocAsync", OUT, 1, 0) == (2, 0)
    assert (cuda("cuMemPoolDestroy", default), cuda("cuMemPoolDestroy", pool)) == (1, 0)
    assert cuda.get("cuDeviceGetMemPool", OUT, 0) == (0, default)


def test_access_to_a_pool_can_be_read_back(cuda):
    _, pool = cuda.get("cuMemPoolCreate", OUT, properties(PINNED, DEVICE))
    there = location(DEVICE, 1)
    grant = ctypes.create_string_buffer(struct.pack("<IiI", DEVICE, 1, 3))
    flags = [cuda.get("cuMemPoolGetAccess", OUT, pool, place)[1] for place in (location(DEVICE), there)]
    assert cuda("cuMemPoolSetAccess", pool, grant, 1) == 0
    assert [*flags, cuda.get("cuMemPoolGetAccess", OUT, pool, there)] == [3, 0, (0, 3)]
    both = ctypes.create_string_buffer(struct.pack("<IiIIiI", DEVICE, 0, 0, DEVICE, 1, 0))
    assert cuda("cuMemPoolSetAccess", pool, both, 2) == 0
    assert [cuda.get("cuMemPoolGetAccess", OUT, pool, place)[1] for place in (location(DEVICE), there)] == [3, 0]


def test_bad_pools_are_refused_and_those_for_other_processes_by_name(cuda):
    wrong = [properties(9, DEVICE), properties(PINNED, 0), properties(PINNED, DEVICE, 7), properties(PINNED, 3, 5)]
    assert [cuda.get("cuMemPoolCreate", OUT, each)[0] for each in wrong] == [1, 1, 101, 1]
    assert cuda.get("cuMemPoolCreate", OUT, properties(PINNED, DEVICE, shared=1)) == (801, 0)


def test_no_bytes_of_stream_ordered_memory_have_the_address_0(cuda):
    assert cuda.get("cuMemAllocAsync", OUT, 0, 0) == (0, 0)
    assert cuda("cuMemFreeAsync", 0, 0) == 0


def mapping(cuda, nbytes):
    memory = ctypes.create_string_buffer(struct.pack("<IIIiQ8x", PINNED, 1, DEVICE, 0, 0))
    code, handle = cuda.get("cuMemCreate", OUT, nbytes, memory, 0)
    reserved, address = cuda.get("cuMemAddressReserve", OUT, nbytes, 0, 0, 0)
    assert (code, reserved) == (0, 0)
    return address, handle


def test_mapped_memory_keeps_its_bytes_from_one_address_to_the_next(h200):
    _, empty, _ = h200.get("cuMemGetInfo_v2", OUT, OUT)
    nbytes = 4 * MIB
    address, handle = mapping(h200, nbytes)
    assert (h200("cuMemMap", address, nbytes, 0, handle, 0), h200("cuMemsetD8_v2", address, 7, nbytes)) == (0, 0)
    grant = ctypes.create_string_buffer(struct.pack("<IiI", DEVICE, 0, 3))
    assert h200("cuMemSetAccess", address, nbytes, grant, 1) == 0
    assert h200.get("cuMemGetAccess", OUT, location(DEVICE), address) == (0, 3)
    assert h200.get("cuMemRetainAllocationHandle", OUT, address) == (0, handle)
    assert (h200("cuCtxSynchronize"), h200("cuMemUnmap", address, nbytes)) == (0, 0)
    assert h200("cuMemAddressFree", address, nbytes) == 0
    _, other = h200.get("cuMemAddressReserve", OUT, nbytes, 8 * MIB, 0, 0)
    result = ctypes.create_string_buffer(8)
    codes = [h200("cuMemMap", other, nbytes, 0, handle, 0), h200("cuMemcpyDtoH_v2", result, other + nbytes - 8, 8)]
    assert (codes, result.raw, other % (8 * MIB)) == ([0, 0], bytes([7]) * 8, 0)
    codes = [h200("cuMemRelease", handle), h200("cuMemRelease", handle), h200("cuMemRelease", handle)]
    assert (codes, h200.get("cuMemGetInfo_v2", OUT, OUT)[1]) == ([0, 0, 400], empty - nbytes)  # it is still mapped
    assert (h200("cuMemUnmap", other, nbytes), h200.get("cuMemGetInfo_v2", OUT, OUT)[1]) == (0, empty)


def test_mappings_that_do_not_fit_are_refused(h200):
    nbytes = 2 * MIB
    address, handle = mapping(h200, nbytes)
    codes = [
        h200("cuMemMap", address + 1, nbytes, 0, handle, 0),
        h200("cuMemMap", address, nbytes, 1, handle, 0),
        h200("cuMemUnmap", address, nbytes),
        h200("cuMemMap", address, nbytes, 0, handle, 0),
        h200("cuMemMap", address, nbytes, 0, handle, 0),  # memory at two addresses is not simulated
        h200("cuMemUnmap", address, nbytes // 2),
        h200("cuMemAddressFree", address, nbytes),
    ]
    assert codes == [1, 1, 1, 0, 801, 1, 1]


def passed(kind, number=0):
    return struct.unpack("<Q", struct.pack("<Ii", kind, number))[0]


def known(cuda, address, which, nbytes=4):
    place = ctypes.create_string_buffer(nbytes)
    code = cuda("cuMemRangeGetAttribute", place, nbytes, which, address, 1000)
    return code, list(struct.unpack(f"<{nbytes // 4}i", place.raw))


def test_advice_and_prefetches_of_managed_memory_can_be_read_back(h200):
    _, address = h200.get("cuMemAllocManaged", OUT, 1000, 1)
    codes = [
        h200("cuMemAdvise_v2", address, 1000, 1, 0),
        h200("cuMemAdvise_v2", address, 1000, 3, passed(3, 0)),  # the NUMA node 0 of the host
        h200("cuMemAdvise_v2", address, 1000, 5, passed(DEVICE)),
        h200("cuMemAdvise_v2", address, 1000, 5, passed(HOST)),
        h200("cuMemPrefetchAsync_v2", address, 1000, passed(DEVICE), 0, 0),
        h200("cuMemAdvise_v2", address, 1000, 3, passed(3, 5)),
        h200("cuCtxSynchronize"),
    ]
    assert codes == [0, 0, 0, 0, 0, 1, 0]
    facts = [known(h200, address, which) for which in (1, 2, 4, 5, 6, 7, 8)]
    assert facts == [(0, [each]) for each in (1, -1, 0, 3, 0, 1, 0)]
    assert known(h200, address, 3, 12) == (0, [0, -1, -2])
    assert known(h200, address, 1, 8)[0] == 1


def test_several_ranges_move_each_to_its_location(h200):
    places = [h200.get("cuMemAllocManaged", OUT, 1000, 1)[1] for _ in range(3)]
    addresses, sizes = numbers("Q", *places), numbers("Q", 1000, 1000, 1000)
    locations = ctypes.create_string_buffer(location(DEVICE).raw[:8] + location(HOST).raw[:8])
    call = addresses, sizes, 3, locations
    assert h200("cuMemPrefetchBatchAsync", *call, numbers("Q", 0, 2), 2, 0, 0) == 0
    assert [known(h200, each, 4) for each in places] == [(0, [0]), (0, [0]), (0, [-1])]
    assert h200("cuMemDiscardBatchAsync", addresses, sizes, 3, 0, 0) == 0
    assert h200("cuMemPrefetchBatchAsync", *call, numbers("Q", 1, 2), 2, 0, 0) == 1
    assert h200("cuMemDiscardBatchAsync", numbers("Q", h200.allocate(1000)), sizes, 1, 0, 0) == 1


def batch(cuda, dsts, srcs, stream, given=1, count=2):
    """Copy 32 bytes between each pair of *dsts* and *srcs*."""
    attributes, firsts = ctypes.create_string_buffer(struct.pack("<I16xI", 1, 0)), numbers("Q", 0)
    ends = numbers("Q", *dsts), numbers("Q", *srcs), numbers("Q", *[32] * len(dsts))
    return cuda("cuMemcpyBatchAsync_v2", *ends, count, attributes, firsts, given, stream)


def test_a_batch_copies_each_pair_also_of_pageable_memory(cuda):
    source = (ctypes.c_uint8 * 64)(*range(64))
    target = (ctypes.c_uint8 * 64)()
    _, stream = cuda.get("cuStreamCreate", OUT, 1)
    there = [cuda.allocate(32), cuda.allocate(32)]
    ends = [(at, at + 32) for at in (ctypes.addressof(source), ctypes.addressof(target))]
    codes = [
        batch(cuda, there, ends[0], stream),
        batch(cuda, ends[1], there, stream),
        batch(cuda, ends[1], there, stream, given=3),
        batch(cuda, ends[1], there, stream, count=0),
        cuda("cuStreamSynchronize", stream),
    ]
    assert (codes, list(target)) == ([0, 0, 1, 1, 0], list(range(64)))


def test_a_batch_of_pinned_memory_is_one_call_and_no_capture_nor_the_legacy_stream_takes_one(cuda):
    _, stream = cuda.get("cuStreamCreate", OUT, 1)
    there, (_, pinned) = [cuda.allocate(32), cuda.allocate(32)], cuda.get("cuMemAllocHost_v2", OUT, 64)
    here = ctypes.create_string_buffer(64)
    assert [batch(cuda, there, [at, at + 32], 0) for at in (pinned, ctypes.addressof(here))] == [1, 1]
    assert cuda("cuStreamBeginCapture_v2", stream, 2) == 0
    assert [batch(cuda, there, [at, at + 32], stream) for at in (pinned, ctypes.addressof(here))] == [900, 900]
    assert cuda.get("cuStreamEndCapture", stream, OUT)[0] == 0
    assert (batch(cuda, there, [pinned, pinned + 32], stream), cuda("cuStreamSynchronize", stream)) == (0, 0)
    calls = current_session().trace.timeline().calls
    assert [row.name for row in calls if row.name.startswith("Memcpy")] == ["MemcpyBatchAsync"]
    assert [row.name for row in current_session().trace.timeline().ops] == ["h2d", "h2d"]


def test_fills_repeat_words_of_any_bytes_in_rows_too(cuda):
    device = cuda.allocate(32)
    codes = [
        cuda("cuMemsetD32_v2", device, 0x01020304, 4),
        cuda("cuMemsetD16Async", device + 16, 0x0506, 8, 0),
        cuda("cuMemsetD2D16_v2", device, 8, 0x0907, 1, 2),  # 2 of 8 bytes, twice
        cuda("cuMemsetD16_v2", device + 1, 0x0506, 1),
        cuda("cuMemsetD2D8_v2", device, 1, 0, 2, 2),
    ]
    result = ctypes.create_string_buffer(32)
    assert (codes, cuda("cuMemcpyDtoH_v2", result, device, 32)) == ([0, 0, 0, 1, 1], 0)
    assert result.raw.hex() == "07090201" + "04030201" + "07090201" + "04030201" + "0605" * 8


def test_a_call_without_a_stream_takes_the_stream_of_the_thread_if_it_was_asked_for_so(cuda):
    device = cuda.allocate(64)
    source = ctypes.create_string_buffer(64)
    for name in ("cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"):
        assert (cuda(name, device, source, 64), cuda("cuCtxSynchronize")) == (0, 0)
    assert [row.stream for row in current_session().trace.timeline().ops] == ["legacy", "per_thread"]


def test_what_can_be_set_of_an_address_and_the_pool_that_it_is_from(cuda):
    device, stream = cuda.allocate(64), cuda.get("cuStreamCreate", OUT, 0)[1]
    _, pool = cuda.get("cuDeviceGetDefaultMemPool", OUT, 0)
    _, pooled = cuda.get("cuMemAllocAsync", OUT, 64, stream)
    facts = [cuda.get("cuPointerGetAttribute", OUT, number, each) for number in (15, 17) for each in (device, pooled)]
    assert facts == [(0, 0), (0, 0), (0, 0), (0, pool)]
    for value in (0, 1):
        assert cuda("cuPointerSetAttribute", struct.pack("<I", value), 6, device) == 0
        assert cuda.get("cuPointerGetAttribute", OUT, 6, device) == (0, value)
    assert [cuda("cuPointerSetAttribute", bytes(4), number, device) for number in (1, 77)] == [1, 1]
    _, pinned = cuda.get("cuMemAllocHost_v2", OUT, 64)
    assert cuda.get("cuPointerGetAttribute", OUT, 6, pinned) == (0, 0)
