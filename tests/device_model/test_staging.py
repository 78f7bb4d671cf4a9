"""Pageable memory on its way: the ring for small copies, the chunk buffers for large ones, and the way back."""

import numpy as np
import pytest
from rig import Rig, line, tiny

from device_model.memory import array
from device_model.ops import Op
from device_model.profile import load
from device_model.work import D2H, H2D, Copy, PitchedCopy

CHUNK = 4096  # the tiny profile's: two buffers of it; 1000 ns to begin, then 1 ns for each byte
LATE = tiny(latency={"submit_copy": 100})


def bytes_of(allocation):
    return array(allocation, 0, np.uint8, allocation.nbytes)


def pageable(rig, nbytes, value=0):
    """An array, and the allocation that stands for it."""
    there = np.full(nbytes, value, np.uint8)
    allocation, _ = rig.memory.locate(there, nbytes, "there")
    return there, allocation


def to_device(rig, stream, nbytes, dst=None, src=None):
    src = src or pageable(rig, nbytes)[1]
    process = rig.device.staging.to_device(stream, Copy(H2D, dst or rig.on_device(nbytes), 0, src, 0, nbytes), None)
    rig.scheduler.settle()
    return process


def to_host(rig, stream, nbytes, dst=None, src=None):
    dst = dst or pageable(rig, nbytes)[1]
    process = rig.device.staging.to_host(stream, Copy(D2H, dst, 0, src or rig.on_device(nbytes), 0, nbytes), None)
    rig.scheduler.settle()
    return process


# --- large copies to the device


def test_chunks_are_staged_while_those_before_are_copied():
    rig = Rig(LATE)
    process = to_device(rig, rig.stream(), 2 * CHUNK + 1000)
    assert rig.run() == [
        ("h2d", 1, 5196, 9292), ("h2d", 1, 9292, 13_388), ("h2d", 1, 13_388, 14_388),
    ]  # fmt: skip
    assert process.end_ns == 9292 + 1000  # the third chunk had to wait for the first buffer


def test_the_host_goes_on_when_the_last_chunk_is_staged(rig):
    process = to_device(rig, rig.stream(), 2 * CHUNK)
    rig.run()
    assert process.end_ns == 1000 + 2 * CHUNK


def test_the_host_waits_while_the_stream_takes_no_chunk(rig):
    stream = rig.stream()
    rig.kernel(stream, 100_000)
    process = to_device(rig, stream, 3 * CHUNK)
    assert rig.run() == [
        ("kernel", 1, 0, 100_000), ("h2d", 1, 100_000, 104_096), ("h2d", 1, 104_096, 108_192),
        ("h2d", 1, 108_192, 112_288),
    ]  # fmt: skip
    assert process.end_ns == 104_096 + CHUNK


def test_two_buffers_full_of_data_do_not_make_the_host_wait(rig):
    stream = rig.stream()
    rig.kernel(stream, 100_000)
    process = to_device(rig, stream, 2 * CHUNK)
    rig.run()
    assert process.end_ns == 1000 + 2 * CHUNK


def test_the_buffers_are_the_devices_whatever_the_stream(rig):
    blocked, free = rig.stream(), rig.stream()
    rig.kernel(blocked, 100_000)
    to_device(rig, blocked, 2 * CHUNK)
    rig.advance(20_000)
    process = to_device(rig, free, CHUNK)
    rig.run()
    assert process.end_ns == 104_096 + CHUNK


def test_hosts_that_stage_at_once_do_not_share_a_buffer():
    rig = Rig(tiny(copies={"stage_fixed": 0}))
    blocked = rig.stream()
    rig.kernel(blocked, 100_000)
    to_device(rig, blocked, 2 * CHUNK)
    rig.advance(20_000)
    both = [to_device(rig, rig.stream(), CHUNK) for _ in range(2)]
    rig.run()
    # One goes on when the first chunk is copied (104,096), the other when the second is (108,192).
    assert [process.end_ns for process in both] == [104_096 + CHUNK, 108_192 + CHUNK]


def test_the_source_is_read_when_it_is_staged(rig):
    there, src = pageable(rig, 3 * CHUNK, 1)
    dst = rig.on_device(3 * CHUNK)
    stream = rig.stream()
    rig.kernel(stream, 100_000)
    to_device(rig, stream, 3 * CHUNK, dst, src)
    rig.advance(1000 + CHUNK)
    there[:] = 2  # the first chunk is staged, the others are not
    rig.advance(50_000)
    there[: 2 * CHUNK] = 3  # only the third is not
    rig.run()
    found = bytes_of(dst)
    assert [set(found[i * CHUNK : (i + 1) * CHUNK].tolist()) for i in range(3)] == [{1}, {2}, {2}]


def test_staging_waits_for_bodies_that_still_write_the_source():
    """The host reads in the middle of a run, when bodies may be in threads."""
    rig = Rig(workers=2)
    there, src = pageable(rig, CHUNK, 1)
    to_device(rig, rig.stream(), CHUNK, dst := rig.on_device(CHUNK), src)

    def body():
        for _ in range(2000):
            there[:] = 9
        there[:] = 5

    rig.kernel(rig.stream(), 5095, body=body, nbytes=8 << 20)  # ends 1 ns before the chunk is read
    rig.run()
    assert set(bytes_of(dst).tolist()) == {5}


def test_no_byte_is_lost_when_chunks_do_not_fit(rig):
    nbytes = 3 * CHUNK + 17
    there, src = pageable(rig, nbytes)
    there[:] = np.arange(nbytes) % 251
    dst, back = rig.on_device(nbytes), np.zeros(nbytes, np.uint8)
    stream = rig.stream()
    to_device(rig, stream, nbytes, dst, src)
    rig.run()
    to_host(rig, stream, nbytes, rig.memory.locate(back, nbytes, "back")[0], dst)
    rig.run()
    assert (back == there).all()


def test_rows_are_staged_in_chunks_of_whole_rows(rig):
    there, src = pageable(rig, 8 * 3000)
    there[:] = np.arange(len(there)) % 251
    dst, stream = rig.on_device(8 * 2000), rig.stream()
    rig.kernel(stream, 100_000)
    rows = PitchedCopy(H2D, dst, 0, 2000, src, 0, 3000, 1500, 8)  # two rows fit into a chunk of 4096 bytes
    process = rig.device.staging.to_device(stream, rows, None)
    assert [(start, end) for what, _, start, end in rig.run() if what == "h2d"] == [
        (100_000, 103_000), (103_000, 106_000), (106_000, 109_000), (109_000, 112_000),
    ]  # fmt: skip
    assert process.end_ns == 106_000 + 3000  # the last chunk waits for the second buffer
    assert (bytes_of(dst).reshape(8, 2000)[:, :1500] == there.reshape(8, 3000)[:, :1500]).all()


# --- to the host


def test_the_host_copies_each_chunk_out_and_goes_on_when_all_are():
    rig = Rig(tiny(latency={"submit_copy": 100}, copies={"unstage_fixed": 50}))
    process = to_host(rig, rig.stream(), 2 * CHUNK + 1000)
    # Chunks come at 4196 and 8292; the first is out of its buffer at 8342, and only then is the third asked for.
    assert rig.run() == [("d2h", 1, 100, 4196), ("d2h", 1, 4196, 8292), ("d2h", 1, 8442, 9442)]
    assert process.end_ns == 8342 + CHUNK + 1000


def test_the_host_waits_for_the_stream(rig):
    stream = rig.stream()
    rig.kernel(stream, 100_000)
    process = to_host(rig, stream, 1000)
    rig.run()
    assert process.end_ns == 102_000


def test_chunks_that_came_early_cost_the_host_less():
    """A host that waits for a chunk pays for noticing its end; a host that finds it done does not."""
    rig = Rig(tiny(copies={"unstage_fixed": 50, "unstage": line(0, 3)}))
    process = to_host(rig, rig.stream(), 2 * CHUNK)
    rig.run()
    assert process.end_ns == CHUNK + 50 + 3 * CHUNK + 3 * CHUNK


# --- the ring


def small(rig, stream, nbytes):
    """One small copy through the ring, which has room for it."""
    assert rig.device.staging.ring(stream).until_it_takes(nbytes).done
    op = Op(Copy(H2D, rig.on_device(nbytes), 0, pageable(rig, nbytes)[1], 0, nbytes), H2D.lane, nbytes, None)
    stream.enqueue(op, rig.now)
    rig.scheduler.settle()
    rig.device.staging.ring(stream).put(op)
    return op


def test_the_ring_has_room_until_it_is_full(rig):
    stream = rig.stream()
    for _ in range(4):  # 16 KiB
        small(rig, stream, 4096)
    ring = rig.device.staging.ring(stream)
    room, another = ring.until_it_takes(1), ring.until_it_takes(1)
    rig.advance(4095)
    assert (room.done, another.done) == (False, False)
    rig.advance(4096)
    assert (room.done, another.done, room.end_ns) == (True, True, 4096)
    assert ring.until_it_takes(4096).done
    assert not ring.until_it_takes(4097).done


def test_every_copy_takes_a_little_more_of_the_ring_than_its_bytes():
    rig = Rig(tiny(copies={"ring_overhead": 4096}))
    stream = rig.stream()
    for _ in range(2):
        small(rig, stream, 1000)
    ring = rig.device.staging.ring(stream)
    assert ring.until_it_takes(16384 - 2 * 5096 - 4096).done
    assert not ring.until_it_takes(16384 - 2 * 5096 - 4095).done


@pytest.mark.parametrize(("kib", "count"), [(64, 62), (48, 84), (32, 125), (24, 167), (16, 250), (12, 332), (8, 497)])
def test_the_ring_of_an_h200_takes_as_many_copies_as_the_card(kib, count):
    """Measured with a program in C, one queue behind a kernel: the first copy whose call waits."""
    rig = Rig(load("h200"))
    stream = rig.stream()
    rig.kernel(stream, 1_000_000)
    copies = 0
    while rig.device.staging.ring(stream).until_it_takes(kib << 10).done:
        small(rig, stream, kib << 10)
        copies += 1
    assert abs(copies - count) <= 1


def test_an_empty_ring_takes_any_copy(rig):
    assert rig.device.staging.ring(rig.stream()).until_it_takes(10**9).done


def test_a_copy_that_is_over_already_gives_its_part_back_at_once(rig):
    op = rig.h2d(stream := rig.stream(), 10_000)
    rig.run()
    ring = rig.device.staging.ring(stream)
    ring.put(op)
    assert ring.until_it_takes(16384).done


def test_each_hardware_queue_has_a_ring_of_its_own(rig):
    """Measured on an H200: with 62 copies of 64 KB behind a kernel of one stream, those of another do not wait."""
    streams = [rig.stream() for _ in range(5)]  # the last shares the queue of the first
    rig.kernel(streams[0], 50_000)
    for _ in range(2):
        small(rig, streams[0], 8192)
    has_room = [rig.device.staging.ring(stream).until_it_takes(1).done for stream in streams]
    assert has_room == [False, True, True, True, False]
