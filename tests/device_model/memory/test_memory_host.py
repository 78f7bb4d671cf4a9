"""Host memory of others: which ranges can be read and written without a crash."""

import mmap
import sys

import numpy as np
import pytest

from device_model.errors import DeviceError
from device_model.memory import host


def address_of_mapping(mapping):
    return host.address_of(np.frombuffer(mapping, np.uint8))


def hole():
    """Return the address of a page that is no longer mapped."""
    mapping = mmap.mmap(-1, 4 * mmap.PAGESIZE)
    address = address_of_mapping(mapping)
    mapping.close()
    return address


@pytest.mark.skipif(sys.platform == "win32", reason="asks a POSIX system")
@pytest.mark.parametrize("asks", [host.is_mapped, host.is_writable])
def test_which_ranges_are_mapped(asks):
    values = np.zeros(100_000, np.uint8)
    address = host.address_of(values)
    assert asks(address, 100_000)
    assert asks(address + 99_999, 1)
    assert not asks(hole(), 1)
    assert not asks(address, 1 << 46)
    assert not asks(64, 8)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the permissions")
def test_read_only_memory_is_not_writable():
    mapping = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ)
    address = address_of_mapping(mapping)
    assert host.is_mapped(address, 8)
    assert not host.is_writable(address, 8)


@pytest.mark.parametrize(
    "values", [np.zeros(0), np.frombuffer(b"12345678"), np.zeros(2, "M8[s]"), np.zeros((2, 3), "f2")]
)
def test_addresses_agree_with_numpy(values):
    assert host.address_of(values) == values.ctypes.data
    assert host.bytes_of(values).nbytes == values.nbytes
    assert host.bytes_of(values).readonly is not values.flags.writeable


def test_unmapping_registered_memory_is_found_when_the_range_comes_back(memory):
    mapping = mmap.mmap(-1, 64 << 20)
    address = address_of_mapping(mapping)
    memory.host_register(address, 64 << 20, "a.py:1")
    mapping.close()

    def fill_the_gap():
        for _ in range(100):
            memory.malloc_host(64 << 20, "a.py:2")
        pytest.skip("the operating system did not hand out the range again")

    with pytest.raises(
        DeviceError, match=r"allocation 1 made at a\.py:1> was unmapped while it was pinned; call HostUnr"
    ):
        fill_the_gap()
    memory.host_unregister(address, "a.py:3")
