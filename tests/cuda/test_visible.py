"""The variable CUDA_VISIBLE_DEVICES, which the driver reads in the first cuInit()."""

import ctypes

import pytest

from acl_py.compat import cuda as switch
from tests.cuda.calling import OUT, Cuda


@pytest.fixture
def three():
    """The library of three devices, before cuInit()."""
    switch.install(device="tiny", devices=3, rules="cuda", workers=1)
    yield Cuda()
    switch.uninstall()


def uuid(cuda, device):
    place = ctypes.create_string_buffer(16)
    assert cuda("cuDeviceGetUuid", place, device) == 0
    return place.raw.hex()


@pytest.mark.parametrize(("text", "count"), [
    ("0", 1), ("2,0", 2), (" 1 , 2 ", 2), ("0,1,2,3", 3), ("0,7,1", 1), ("1,1,2", 1), ("0,GPU-", 1),
])  # fmt: skip
def test_a_program_sees_the_devices_before_the_first_name_of_none(three, monkeypatch, text, count):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
    assert three("cuInit", 0) == 0
    assert three.get("cuDeviceGetCount", OUT) == (0, count)
    assert [three.get("cuDeviceGet", OUT, each)[0] for each in range(4)] == [0] * count + [101] * (4 - count)


@pytest.mark.parametrize("text", ["", "-1", "none", "3"])
def test_a_program_that_sees_no_device_is_told_so_by_each_cu_init(three, monkeypatch, text):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
    assert [three("cuInit", 0), three("cuInit", 0)] == [100, 100]


def test_the_first_call_counts_and_a_uuid_is_a_name(three, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert three("cuInit", 0) == 0
    assert three.get("cuDeviceGetCount", OUT) == (0, 3)
    name = uuid(three, 2)
    switch.uninstall()
    switch.install(device="tiny", devices=3, rules="cuda", workers=1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"GPU-{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}")
    assert three("cuInit", 0) == 0
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    assert (three("cuInit", 0), *three.get("cuDeviceGetCount", OUT)) == (0, 0, 1)
