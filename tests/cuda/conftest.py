"""The driver in the process of the tests."""

import pytest

from acl_py.compat import cuda as switch
from tests.cuda.calling import Cuda


@pytest.fixture
def cuda():
    """The driver of a tiny device, with the primary context of device 0 current."""
    with driver("tiny") as called:
        yield called


@pytest.fixture
def h200():
    """The driver of an H200, with the primary context of device 0 current."""
    with driver("h200") as called:
        yield called


class driver:
    """The driver of a *device* for a while."""

    def __init__(self, device):
        switch.install(device=device, devices=2, rules="cuda", workers=1)

    def __enter__(self):
        called = Cuda()
        called.begin()
        return called

    def __exit__(self, *_):
        switch.uninstall()
