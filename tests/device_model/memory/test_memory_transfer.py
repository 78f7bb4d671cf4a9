"""Moving bytes: copies, fills and views of cold and warm memory."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.errors import DeviceError
from device_model.memory import CHUNK, POISON, Memory, array, copy, copy2d, fill, pitched_bytes, poison, warm

SIZE = 3 * CHUNK + 100
POISONED = np.frombuffer((POISON * (SIZE // 2 + 1))[:SIZE], np.uint8)

spans = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(sorted)
# Chunk borders are where it goes wrong.
edges = st.sampled_from([0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK, SIZE - 1, SIZE])
edged = st.tuples(edges, edges).map(sorted)


def whole(allocation):
    return array(allocation, 0, np.uint8, allocation.nbytes)


@given(st.lists(st.tuples(st.sampled_from("cdfpwr"), spans | edged, st.integers(0, SIZE)), max_size=12))
def test_memory_behaves_as_if_it_had_been_poisoned_at_once(steps):
    memory = Memory([1 << 30], 512, DeviceError)
    a, b = (memory.malloc(0, SIZE, None).allocation for _ in range(2))
    model = {a: POISONED.copy(), b: POISONED.copy()}
    for verb, (first, end), other in steps:
        nbytes = min(end - first, SIZE - other)
        if verb in "cd":  # between two allocations, or within one
            dst = b if verb == "c" else a
            copy(dst, other, a, first, nbytes)
            model[dst][other : other + nbytes] = model[a][first : first + nbytes].copy()
        elif verb == "f":
            fill(a, first, other, end - first)
            model[a][first:end] = other & 0xFF
        elif verb == "p":
            poison(a, first, end - first)
            model[a][first:end] = POISONED[first:end]
        elif verb == "w":
            warm(a, first, end - first)
        else:
            assert (array(b, first, np.uint8, end - first) == model[b][first:end]).all()
    assert (whole(a) == model[a]).all()
    assert (whole(b) == model[b]).all()
    assert a.cold is None
    assert b.cold is None


def test_a_partly_written_chunk_keeps_its_poison_around_the_write(memory):
    allocation = memory.malloc(0, 4 * CHUNK, None).allocation
    source, _ = memory.locate(np.full(100, 5, np.uint8), 100, "src")
    copy(allocation, CHUNK + 10, source, 0, 100)
    assert allocation.cold.cold_chunks == 3
    chunk = bytes(allocation.view[CHUNK : 2 * CHUNK])
    assert chunk == POISON * 5 + b"\x05" * 100 + POISON * ((CHUNK - 110) // 2)


def test_a_chunk_that_is_overwritten_is_not_poisoned_first(memory):
    allocation = memory.malloc(0, 4 * CHUNK, None).allocation
    fill(allocation, CHUNK, 1, 3 * CHUNK)
    assert allocation.cold.cold_chunks == 1
    assert bytes(allocation.view[:2]) == b"\0\0"
    fill(allocation, 0, 1, CHUNK)
    assert allocation.cold is None


@pytest.mark.parametrize("nbytes", [100, 5 * CHUNK])
@pytest.mark.parametrize("shift", [-3, 3, -CHUNK, CHUNK])
def test_overlapping_copies_are_like_memmove(memory, nbytes, shift):
    allocation = memory.malloc(0, nbytes + 2 * CHUNK, None).allocation
    view = whole(allocation)
    view[:] = np.arange(len(view)) % 251
    expected = view.copy()
    expected[CHUNK + shift : CHUNK + shift + nbytes] = view[CHUNK : CHUNK + nbytes].copy()
    copy(allocation, CHUNK + shift, allocation, CHUNK, nbytes)
    assert (view == expected).all()


@given(
    width=st.integers(0, 40), height=st.integers(0, 20), more=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    at=st.tuples(st.integers(0, 50), st.integers(0, 50)), cold=st.booleans(),
)  # fmt: skip
def test_copy2d_is_a_numpy_slice(width, height, more, at, cold):
    memory = Memory([1 << 30], 512, DeviceError)
    size = CHUNK + 2000 if cold else 2000
    src, dst = (memory.malloc(0, size, None).allocation for _ in range(2))
    start = size - 2000
    whole(src)[start:] = np.arange(2000) % 249
    expected = np.frombuffer((POISON * size)[:size], np.uint8).copy()
    src_pitch, dst_pitch = width + more[0], width + more[1]
    for row in range(height):
        into, out = start + at[0] + row * dst_pitch, start + at[1] + row * src_pitch
        expected[into : into + width] = src.view[out : out + width]
    copy2d(dst, start + at[0], dst_pitch, src, start + at[1], src_pitch, width, height)
    assert (whole(dst) == expected).all()


def test_copy2d_within_one_allocation_overlaps_safely(memory):
    allocation = memory.malloc(0, 400, None).allocation
    grid = array(allocation, 0, np.uint8, (20, 20))
    grid[:] = np.arange(400).reshape(20, 20) % 250
    expected = grid.copy()
    expected[1:11, 1:11] = grid[:10, :10].copy()
    copy2d(allocation, 21, 20, allocation, 0, 20, 10, 10)
    assert (grid == expected).all()
    assert pitched_bytes(20, 10, 10) == 190
    assert pitched_bytes(20, 0, 10) == 0


def test_dropped_memory_reads_as_poison_in_rows_too(memory):
    gone, dst = memory.malloc(0, 64, None), memory.malloc(0, 64, None).allocation
    fill(dst, 0, 0, 64)
    memory.free(gone, None)
    copy2d(dst, 0, 16, gone.allocation, 0, 8, 4, 4)
    copy2d(gone.allocation, 0, 8, dst, 0, 16, 4, 4)
    fill(gone.allocation, 0, 1, 64)
    poison(gone.allocation, 0, 64)
    assert bytes(dst.view) == (POISON * 2 + bytes(12)) * 4


def test_fill_takes_the_low_byte(memory):
    for nbytes in (10, 2 * CHUNK):
        allocation = memory.malloc(0, nbytes, None).allocation
        fill(allocation, 0, -1, nbytes)
        assert bytes(allocation.view) == b"\xff" * nbytes
        fill(allocation, 2, 0x1234, nbytes - 2)
        assert bytes(allocation.view) == b"\xff\xff" + b"\x34" * (nbytes - 2)


def test_arrays_for_kernels_write_through(memory):
    buffer = memory.malloc(0, 2 * CHUNK, None)
    values = array(buffer.allocation, CHUNK - 8, np.float64, (2, 2))
    assert np.isnan(values).all()
    values[:] = [[1, 2], [3, 4]]
    into = np.zeros(4)
    copy(memory.locate(into, 32, "dst")[0], 0, buffer.allocation, CHUNK - 8, 32)
    assert into.tolist() == [1, 2, 3, 4]


def test_two_threads_may_write_one_cold_chunk():
    memory = Memory([1 << 30], 512, DeviceError)
    for _ in range(50):
        allocation = memory.malloc(0, 2 * CHUNK, None).allocation
        start = threading.Barrier(2)

        def write(half, allocation=allocation, start=start):
            start.wait()
            fill(allocation, half * 100, half + 1, 100)

        threads = [threading.Thread(target=write, args=(half,)) for half in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert bytes(allocation.view[:202]) == b"\x01" * 100 + b"\x02" * 100 + POISON
