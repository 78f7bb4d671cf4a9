import pytest

from device_model.errors import DeviceError
from device_model.memory import Memory

GIB = 1 << 30


@pytest.fixture
def memory():
    """Two devices of 200 GiB and 1 MiB."""
    return Memory([200 * GIB, 1 << 20], 512, DeviceError)
