"""Host memory that simulated memory takes: none until it is written, and never more than the host has.

Resident memory is measured in a process of its own, which nothing else allocates in.
"""

import mmap
import os
import subprocess
import sys

import numpy as np
import pytest
import untouched

from device_model.errors import DeviceError, Kind
from device_model.memory import CHUNK, POISON, Memory, array, copy, fill, poison
from device_model.memory.allocation import size_text
from device_model.memory.backing import ROOM

GIB, MIB = 1 << 30, 1 << 20
LARGE = 8 * MIB + CHUNK + 6  # longer than ranges that get written poison, and no whole number of pages
linux = pytest.mark.skipif(sys.platform != "linux", reason="pages of poison need memfd_create")


@pytest.mark.one_in(4)
@linux
@pytest.mark.parametrize("program", untouched.PROGRAMS)
def test_memory_that_nothing_was_written_to_takes_no_room(program):
    command = [sys.executable, untouched.__file__, program.__name__]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert float(done.stdout.split()[0]) < 300


@linux
def test_poison_that_takes_no_room_is_like_poison_that_was_written(memory):
    for buffer in (memory.malloc(0, LARGE, None), memory.malloc_host(LARGE, None)):
        allocation = buffer.allocation
        fill(allocation, 3 * CHUNK, 5, 10)
        expected = np.frombuffer(POISON * (LARGE // 2), np.uint8).copy()
        expected[3 * CHUNK : 3 * CHUNK + 10] = 5
        view = array(allocation, 0, np.uint8, LARGE)
        assert np.array_equal(view, expected)
        view[CHUNK - 3 : 2 * MIB] = expected[CHUNK - 3 : 2 * MIB] = 1
        assert np.array_equal(array(allocation, 0, np.uint8, LARGE), expected)
        again = memory.malloc(0, LARGE, None).allocation
        assert bytes(array(again, 0, np.uint8, LARGE)) == POISON * (LARGE // 2)  # the file of poison is unchanged


@linux
def test_vast_memory_is_poisoned_again_to_the_byte(memory):
    allocation = memory.malloc(0, 300 * MIB, None).allocation
    view = array(allocation, 0, np.uint8, 300 * MIB)
    view[:: CHUNK // 2] = 1
    poison(allocation, 7, 299 * MIB)
    assert view[0] == 1
    assert bytes(view[7 : 2 * CHUNK]) == (POISON * CHUNK)[7 : 2 * CHUNK]
    assert not (view[CHUNK : 299 * MIB : CHUNK // 2] == 1).any()
    end = 299 * MIB + 7
    assert view[end - 1] != 1
    assert (view[299 * MIB + CHUNK // 2 :: CHUNK // 2] == 1).all()


def test_registered_memory_is_poisoned_in_place(memory, tmp_path):
    """Registered memory may be shared with other processes, so its pages are not replaced."""
    path = tmp_path / "shared"
    path.write_bytes(b"")
    os.truncate(path, 257 * MIB)
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), 257 * MIB)
        buffer = memory.host_register(np.frombuffer(shared, np.uint8), None, None)
        poison(buffer.allocation, 0, 257 * MIB)
        assert file.read(4) == POISON * 2


@linux
def test_a_program_may_close_all_descriptors(memory):
    """Daemons close all descriptors: the file of poison is gone, and its number may belong to another file."""
    source = """
import os, tempfile, numpy as np
from device_model.errors import DeviceError
from device_model.memory import Memory, POISON
memory = Memory([1 << 40], 512, DeviceError)
for _ in range(2):
    assert bytes(memory.malloc_host(4 << 20, None).numpy()) == POISON * (2 << 20)
    os.closerange(3, 100)
    files = [tempfile.TemporaryFile() for _ in range(10)]
"""
    subprocess.run([sys.executable, "-c", source], check=True)


def test_a_view_beyond_the_host_is_refused_with_numbers(memory):
    buffer = memory.malloc_host(ROOM + GIB, "a.py:1")
    with pytest.raises(DeviceError) as caught:
        buffer.numpy()
    assert caught.value.kind is Kind.OUT_OF_MEMORY
    text = str(caught.value)
    assert text == (
        f"a view of pinned {size_text(ROOM + GIB)} allocation {buffer.allocation.serial} made at a.py:1 needs "
        f"{size_text(ROOM + GIB)} of this host's memory, which has {size_text(ROOM)}; "
        "take it in smaller parts, or use a host with more memory"
    )
    assert buffer[:4].numpy().tolist() == [*POISON * 2]
    memory.free_host(buffer, None)


def test_a_kernel_or_a_write_beyond_the_host_is_refused_with_numbers():
    memory = Memory([ROOM * 3], 512, DeviceError)
    allocation = memory.malloc(0, ROOM + GIB, None).allocation
    for act in (
        lambda: array(allocation, 0, np.uint8, ROOM + GIB),
        lambda: fill(allocation, 0, 1, ROOM + GIB),
    ):
        with pytest.raises(DeviceError, match=r"GiB of this host's memory, which has .* GiB; take it in smaller parts"):
            act()
    assert allocation.cold.is_cold(0, ROOM + GIB)


def test_a_copy_of_untouched_memory_leaves_memory_untouched(memory):
    src, dst = memory.malloc_host(LARGE, None).allocation, memory.malloc(0, LARGE, None).allocation
    copy(dst, 0, src, 0, LARGE)
    assert src.cold.is_cold(0, LARGE)
    assert dst.cold.is_cold(0, LARGE)
    fill(dst, 0, 1, LARGE)
    copy(dst, 2, src, 8, 9)  # the bytes written before are poison now, and only those
    copy(dst, 101, src, 8, 9)  # an odd distance: the bytes are swapped
    assert bytes(dst.view[:12]) == b"\1\1" + POISON * 4 + POISON[:1] + b"\1"
    assert bytes(dst.view[100:111]) == b"\1" + (POISON * 5)[:9] + b"\1"
