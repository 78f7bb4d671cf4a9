"""A guard against real hangs: a verb that fails to wake somebody would hang the test run."""

import signal

import pytest


@pytest.fixture(autouse=True)
def _no_hang(request):
    def give_up(*_):
        raise TimeoutError("the program under test hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 600 if request.node.get_closest_marker("slow") else 60)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
