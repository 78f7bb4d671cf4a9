"""For all tests: a campaign may take ten minutes, everything else has the limit that pyproject.toml sets; BLAS has one
thread, for the threads of several processes wait for one another in a busy loop; and Ctrl-C does what it does in a
terminal, for a job in the background begins with SIGINT ignored.
"""

import signal

import numpy as np  # noqa: F401 - its BLAS is there to be limited
import pytest
from threadpoolctl import threadpool_limits

SLOW_S = 600


def pytest_configure():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threadpool_limits(1, user_api="blas")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_S))
