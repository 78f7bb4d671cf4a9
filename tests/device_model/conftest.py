import pytest
from rig import Rig


@pytest.fixture
def rig():
    """A device of the tiny profile: 4 cores, 4 queues of each kind, one byte per nanosecond, no latencies."""
    return Rig()
