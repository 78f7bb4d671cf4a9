"""Look-ups: from a buffer, an address or an array to the allocation that holds it."""

import ctypes
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.errors import DeviceError, Kind
from device_model.memory import DEVICE_BASE, Memory, Space


def test_buffers_are_bounded_views_with_identity(memory):
    buffer = memory.malloc(0, 4096, "app.py:12")
    part = (buffer + 1024)[512:1024]
    assert (len(buffer), part.offset, len(part), int(part)) == (4096, 1536, 512, int(buffer) + 1536)
    assert memory.locate(part, 512, "dst") == (buffer.allocation, 1536)
    assert buffer[-16:].offset == 4080
    assert len(buffer[4096:]) == 0
    assert buffer != buffer[:]
    assert len({buffer, part, buffer}) == 2
    assert repr(buffer) == "<Buffer device 4.0 KiB allocation 1 made at app.py:12>"
    assert repr(part) == "<Buffer device 512 B at 1536 of allocation 1 made at app.py:12>"


def test_buffers_end_where_they_end(memory):
    part = memory.malloc(0, 4096, None)[:1024]
    for outside in (
        lambda: part + 1025,
        lambda: part + -1,
        lambda: part[:1025],
        lambda: part[-1025:],
        lambda: part[8:4],
    ):
        with pytest.raises(IndexError, match=r"<Buffer device 1\.0 KiB at 0 of allocation 1>.*; stay within 0 to 1024"):
            outside()
    for wrong in (lambda: part[3], lambda: part[::2], lambda: list(part)):
        with pytest.raises(TypeError):
            wrong()


def test_device_memory_has_no_arrays(memory):
    with pytest.raises(DeviceError) as caught:
        memory.malloc(0, 64, "a.py:1").numpy()
    assert str(caught.value) == (
        "<Buffer device 64 B allocation 1 made at a.py:1> is device memory, which NumPy cannot see; "
        "copy it to the host first"
    )


def test_arrays_over_host_buffers_fit_or_are_refused(memory):
    buffer = memory.malloc_host(100, None)
    assert buffer.numpy(np.float32, (5, 5)).shape == (5, 5)
    assert buffer[4:12].numpy(np.int64).shape == (1,)
    for dtype, shape in ((np.int64, None), (np.float32, 26), (np.uint8, -1), (object, 1)):
        with pytest.raises(DeviceError, match="does not hold"):
            buffer.numpy(dtype, shape)


def test_too_many_bytes(memory):
    buffer = memory.malloc(0, 4096, "a.py:1")
    whole = "<Buffer device 4.0 KiB allocation 1 made at a.py:1>"
    part = "<Buffer device 4.0 KiB at 1 of allocation 1 made at a.py:1>"
    for thing, nbytes, text in (
        (buffer, 4097, f"dst is {whole}, which has 4096 bytes, not 4097; ask for less, or make it larger"),
        (int(buffer), 4097, f"dst is {whole}, which has 4096 bytes, not 4097; ask for less, or make it larger"),
        (int(buffer) + 1, 4096, f"dst is {part}, which has 4095 bytes, not 4096; ask for less, or make it larger"),
        (buffer, -1, f"dst is {whole}, which has 4096 bytes, not -1; give 0 bytes or more"),
        (
            np.zeros(4, np.float32),
            17,
            "dst is an ndarray of float32 and shape (4,), which has 16 bytes, not 17; ask for less, or make it larger",
        ),
    ):
        with pytest.raises(DeviceError) as caught:
            memory.locate(thing, nbytes, "dst")
        assert str(caught.value) == text
        assert caught.value.kind is Kind.INVALID_VALUE


def test_addresses_in_no_allocation_name_the_nearest(memory):
    first = memory.malloc(0, 4096, "a.py:1")
    memory.malloc(0, 4096, "a.py:2")
    ask = "; pass a buffer, or an address inside one that is alive"
    for address, place in (
        (int(first) + 4096, "right at the end of <Buffer device 4.0 KiB allocation 1 made at a.py:1>"),
        (int(first) + 4160, "64 bytes past the end of <Buffer device 4.0 KiB allocation 1 made at a.py:1>"),
        (int(first) + 4600, "8 bytes before <Buffer device 4.0 KiB allocation 2 made at a.py:2>"),
        (int(first) + (1 << 40), "which is neither in an allocation nor near one"),
    ):
        with pytest.raises(DeviceError) as caught:
            memory.locate(address, 8, "dst")
        assert str(caught.value) == f"dst is 0x{address:x}, {place}{ask}"
        assert caught.value.kind is Kind.INVALID_ADDRESS
    with pytest.raises(DeviceError) as caught:
        memory.locate(4711, 8, "dst")
    assert str(caught.value) == (
        f"dst is a host address, which is neither in an allocation nor near one{ask}; "
        "for pageable memory pass the array itself"
    )


def test_everything_that_stands_for_an_address(memory):
    class Pointer:
        def __init__(self, address):
            self.address = address

        def __index__(self):
            return self.address

    pinned = memory.malloc_host(64, None)
    for thing in (int(pinned), np.int64(int(pinned)), ctypes.c_void_p(int(pinned)), Pointer(int(pinned))):
        assert memory.locate(thing, 64, "dst") == (pinned.allocation, 0)
    assert memory.locate(int(pinned) + 64, 0, "dst") == (pinned.allocation, 64)


def test_an_array_in_pinned_memory_is_that_memory(memory):
    pinned = memory.malloc_host(4096, None)
    values = pinned.numpy(np.float32)
    assert memory.locate(values, 4096, "dst") == (pinned.allocation, 0)
    assert memory.locate(values[10:20], 40, "dst") == (pinned.allocation, 40)
    assert memory.locate(memoryview(values)[16:], 4, "src") == (pinned.allocation, 64)
    mine = np.zeros(64)
    registered = memory.host_register(mine[8:], None, None)
    assert memory.locate(mine[9:], 8, "dst") == (registered.allocation, 8)
    assert memory.locate(mine, 512, "dst")[0].space is Space.PAGEABLE


@pytest.mark.parametrize(
    "thing",
    [
        np.arange(8, dtype=np.uint8),
        bytearray(range(8)),
        np.frombuffer(bytes(range(8)), np.uint16),
        memoryview(bytes(range(8))),
        bytes(range(8)),
        np.frombuffer(bytes(range(8)), "M8[s]").reshape(()),
        np.frombuffer(bytes(range(8)), [("a", "<f2"), ("b", ">i4"), ("c", "?"), ("d", "S1")]),
        np.frombuffer(bytes(range(8)), np.complex64),
        (ctypes.c_uint8 * 8)(*range(8)),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_other_memory_is_pageable_for_the_call(memory, thing):
    allocation, offset = memory.locate(thing, 8, "src")
    assert (allocation.space, allocation.device, offset, allocation.freed) == (Space.PAGEABLE, -1, 0, None)
    assert bytes(allocation.view) == bytes(range(8))
    assert allocation.view.format == "B"
    assert memory.leaks() == []


def test_empty_memory_is_memory(memory):
    for thing in (b"", bytearray(), np.zeros(0), np.zeros((3, 0), np.float16)):
        assert memory.locate(thing, 0, "src")[0].nbytes == 0


def test_a_destination_must_be_writable(memory):
    fixed = np.zeros(8)
    fixed.flags.writeable = False
    for thing in (b"12345678", fixed, memoryview(b"12345678")):
        memory.locate(thing, 8, "src")
        for role, write in (("dst", False), ("out", True)):
            with pytest.raises(
                DeviceError, match=f"^{role} is an ndarray of .*, which is read-only; pass memory that may"
            ):
                memory.locate(thing, 8, role, write=write)


def test_bytes_must_lie_side_by_side_and_be_values(memory):
    square = np.zeros((4, 4))
    for thing in (square.T, square[:, 1], memoryview(square)[::2]):
        with pytest.raises(DeviceError, match=r"^src is .*, which is not contiguous; use numpy.ascontiguousarray"):
            memory.locate(thing, 8, "src")
    with pytest.raises(DeviceError, match="its bytes are references, not values"):
        memory.locate(np.array([None]), 8, "src")


@pytest.mark.parametrize("thing", [None, "text", 1.5, [1, 2]])
def test_objects_that_are_not_memory(memory, thing):
    with pytest.raises(DeviceError, match="which is not memory; pass a buffer, an array or an address") as caught:
        memory.locate(thing, 8, "src")
    assert caught.value.kind is Kind.INVALID_VALUE


@pytest.fixture(scope="module", params=[10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def crowd(request):
    """Many live allocations with holes between them, and their starts and ends for a naive oracle."""
    count = request.param
    memory = Memory([1 << 40, 1 << 40], 512, DeviceError)
    rng = random.Random(7)
    live = [memory.malloc(rng.randrange(2), rng.choice((1, 512, 700, 5000)), None) for _ in range(count * 11 // 10)]
    rng.shuffle(live)
    for buffer in live[count:]:
        memory.free(buffer, None)
    live = live[:count]
    spans = [(int(b), int(b) + b.nbytes, b.allocation) for b in live]
    starts = np.array([span[0] for span in spans])
    ends = np.array([span[1] for span in spans])
    return memory, live, starts, ends


@given(which=st.integers(0), shift=st.integers(-6000, 6000), nbytes=st.integers(0, 6000))
def test_look_ups_among_many_agree_with_a_naive_search(crowd, which, shift, nbytes):
    memory, live, starts, ends = crowd
    address = int(live[which % len(live)]) + shift
    holders = np.flatnonzero((starts <= address) & (address + nbytes <= ends) & ((address < ends) | (nbytes == 0)))
    if len(holders):
        holder = live[int(holders[0])].allocation
        assert memory.locate(address, nbytes, "src") == (holder, address - holder.address)
    else:
        with pytest.raises(DeviceError):
            memory.locate(address, nbytes, "src")


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 63), st.integers(1, 2000)), max_size=60))
def test_host_look_ups_follow_registering_in_any_order(steps):
    memory = Memory([1 << 20], 512, DeviceError)
    ground = np.zeros(64 * 64, np.uint8)
    base = ground.__array_interface__["data"][0]
    model = {}
    for add, slot, nbytes in steps:
        first, end = slot * 64, min(slot * 64 + nbytes, len(ground))
        if not add and first in model:
            memory.host_unregister(base + first, None)
            del model[first]
        elif add and all(end <= a or b <= first for a, b in model.items()):
            memory.host_register(ground[first:end], None, None)
            model[first] = end
    for address in range(0, len(ground), 32):
        holder = [a for a, b in model.items() if a <= address < b]
        if holder:
            allocation, offset = memory.locate(base + address, 1, "dst")
            assert (allocation.address - base, offset) == (holder[0], address - holder[0])
        else:
            with pytest.raises(DeviceError):
                memory.locate(base + address, 1, "dst")


def test_host_addresses_lie_below_all_device_addresses(memory):
    assert 0 < int(memory.malloc_host(1, None)) < DEVICE_BASE


def test_a_look_up_is_not_remembered_beyond_a_change(memory):
    ground = np.zeros(128, np.uint8)
    first = memory.host_register(ground[:64], None, "a.py:1")
    address = int(first) + 80
    for _ in range(2):
        with pytest.raises(DeviceError, match=r"16 bytes past the end of <Buffer registered 64 B allocation 1"):
            memory.locate(address, 8, "dst")
    second = memory.host_register(ground[64:], None, "a.py:2")
    assert memory.locate(address, 8, "dst") == (second.allocation, 16)
    memory.host_unregister(second, "a.py:3")
    with pytest.raises(DeviceError, match=r"inside <Buffer registered 64 B allocation 2 .*, unregistered at a.py:3>"):
        memory.locate(address, 8, "dst")
