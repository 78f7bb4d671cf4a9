"""The module on the tiny device, for the tests through `acl`."""

import sys

import card
import pytest


@pytest.fixture
def acl():
    """The module as a script has it after acl.init() and acl.rt.set_device(0)."""
    with card.module() as module:
        yield module


@pytest.fixture
def often():
    """Threads take turns much more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
