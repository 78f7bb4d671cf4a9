"""The memory of a board without a host: device memory has real addresses, and pinned memory is device memory."""

import gc

import numpy as np
import pytest

from device_model.errors import DeviceError
from device_model.memory import DEVICE_BASE, POISON, Memory, Space, copy, host

MIB = 1 << 20


@pytest.fixture
def board():
    """One device of 64 MiB, on which the program runs."""
    return Memory([64 * MIB], 256, DeviceError, is_board=True)


@pytest.mark.parametrize("nbytes", [100, 64 * 1024, MIB + 1])
def test_the_host_reads_device_memory_at_its_address(board, nbytes):
    buffer = board.malloc(0, nbytes, "a.py:1")
    seen = host.array_at(buffer.address, nbytes)
    assert buffer.address < DEVICE_BASE
    assert buffer.allocation.space is Space.DEVICE
    assert seen[:2].tobytes() == seen[-2:].tobytes()[:: 1 if nbytes % 2 == 0 else -1] == POISON
    seen[0] = 7
    assert buffer.numpy()[0] == 7


def test_device_and_pinned_memory_come_from_the_same_bytes(board):
    device, pinned = board.malloc(0, MIB, "a.py:1"), board.malloc_host(2 * MIB, "a.py:2")
    assert [buffer.allocation.space for buffer in (device, pinned)] == [Space.DEVICE, Space.DEVICE]
    assert board.free_bytes(0) == 61 * MIB
    board.free_host(pinned, "a.py:3")
    board.free(device, "a.py:4")
    assert board.free_bytes(0) == 64 * MIB


def test_pinned_memory_that_does_not_fit_names_who_has_the_rest(board):
    board.malloc_host(60 * MIB, "a.py:1")
    with pytest.raises(
        DeviceError, match=r"MallocHost of 8\.0 MiB on device 0 does not fit: 4\.0 MiB of 64\.0 MiB are "
    ) as e:
        board.malloc_host(8 * MIB, "a.py:2")
    assert "the largest holders are <Buffer device 60.0 MiB allocation 1 made at a.py:1>" in str(e.value)
    assert board.free_bytes(0) == 4 * MIB


@pytest.mark.parametrize("maker", ["malloc", "malloc_host"])
def test_each_kind_has_its_own_end(board, maker):
    buffer = board.malloc(0, 64, "a.py:1") if maker == "malloc" else board.malloc_host(64, "a.py:1")
    right, wrong = (board.free, board.free_host) if maker == "malloc" else (board.free_host, board.free)
    with pytest.raises(DeviceError, match=r"; release it with Free(Host)?\(\)$"):
        wrong(buffer, "a.py:2")
    right(buffer.address, "a.py:3")
    assert not board.leaks()


def test_an_address_finds_its_allocation_and_says_when_it_was_freed(board):
    buffer = board.malloc(0, 4096, "a.py:1")
    address = buffer.address
    assert board.locate(address + 8, 8, "src") == (buffer.allocation, 8)
    board.free(buffer, "a.py:2")
    gc.collect()
    text = "inside <Buffer device 4.0 KiB allocation 1 made at a.py:1, freed at a.py:2>"
    with pytest.raises(DeviceError, match=text):
        board.locate(address, 8, "src")
    with pytest.raises(DeviceError, match=text):
        board.at(address, 8, "src")


def test_an_array_over_freed_memory_stays_valid_and_its_address_is_refused(board):
    buffer = board.malloc(0, 4096, "a.py:1")
    address, array = buffer.address, buffer.numpy(np.int32)
    array[:] = 5
    board.free(buffer, "a.py:2")
    assert array.sum() == 5 * 1024
    for ask in (lambda: board.locate(array, 8, "dst"), lambda: board.at(address, 8, "dst")):
        with pytest.raises(
            DeviceError, match=r"^dst is an (array|address) inside <Buffer device .*freed at a\.py:2>, whi"
        ):
            ask()


def test_a_reset_frees_device_memory_and_leaves_pinned_memory(board):
    device, pinned = board.malloc(0, MIB, "a.py:1"), board.malloc_host(MIB, "a.py:2")
    board.free_all(0, "a.py:3", is_lost=False)
    assert device.allocation.freed == "a.py:3"
    assert board.free_bytes(0) == 63 * MIB
    board.free_host(pinned, "a.py:4")
    assert board.free_bytes(0) == 64 * MIB


def test_the_pool_gives_memory_that_the_host_sees(board):
    pool = board.pool(0)
    first, _ = pool.take(1000, lambda _: 0, "a.py:1")
    first.numpy()[:] = 1
    pool.give(first, "stream", None, "a.py:2")
    second, _ = pool.take(1000, lambda _: 0, "a.py:3")
    assert second.address < DEVICE_BASE
    assert second.numpy()[:2].tobytes() == POISON
    assert pool.reserved_current == 1024


def test_mapped_memory_has_reserved_addresses_which_the_host_does_not_see(board):
    address = board.virtual.reserve(2 * MIB)
    buffer = board.virtual.map(address, 2 * MIB, board.virtual.create(0, 2 * MIB, "a.py:1"), "a.py:2")
    seen = board.malloc(0, 8, "a.py:3")
    copy(buffer.allocation, 0, seen.allocation, 0, 8)
    assert buffer.address == address >= DEVICE_BASE
    with pytest.raises(DeviceError, match="is device memory, which NumPy cannot see"):
        buffer.numpy()
