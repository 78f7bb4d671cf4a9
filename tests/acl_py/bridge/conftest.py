"""Fixtures that run a program in each environment."""

import asyncio

import pytest
from environments import ENVIRONMENTS, LOOPS, on_runner
from miniature import Host

import acl_py.waiting.bridge

# Tests that only a loop with real time can pass, and why. Tests whose times differ ask `drive.is_simulated`.
REAL_ONLY = {
    "test_the_timers_were_found": "a timer in simulated time is no help from outside: it is the next event",
    "test_few_looks_while_nobody_waits": "in simulated time devices go on if nobody waits, so the gate looks",
    "test_warning_if_only_the_outside_can_help": "its sleep is the next event, so there is nothing to warn of",
    "test_warning_that_is_an_error_reaches_the_waiter": "its sleep is over at once",
    "test_hang_after_makes_it_an_error": "its sleep of an hour is over at once, and then nothing can help",
}


@pytest.fixture(params=LOOPS)
def run(request):
    """Run a coroutine function on asyncio, and on uvloop, with both clocks."""
    return LOOPS[_param(request)]


@pytest.fixture(params=ENVIRONMENTS)
def drive(request):
    """Run a program, a coroutine function of a `Host`, and hand back its log; in every environment."""
    drive = _driver(ENVIRONMENTS[_param(request)])
    drive.is_simulated = request.param.startswith("simulated")
    drive.is_eager = request.param.endswith("eager")
    return drive


def _param(request):
    name = request.node.originalname
    if request.param.startswith("simulated") and name in REAL_ONLY:
        pytest.skip(REAL_ONLY[name])
    return request.param


@pytest.fixture
def drive_eager():
    """The same where a child runs inside create_task; only asyncio has that."""
    return _driver(ENVIRONMENTS["eager"])


@pytest.fixture
def drive_blind(monkeypatch):
    """The same on a loop that shows no ready queue."""
    monkeypatch.setattr(acl_py.waiting.bridge, "holder", lambda loop, attribute, handle: handle.cancel())
    return _driver(on_runner)


def _driver(runner):
    def drive(program, **options):
        async def main():
            host = Host(**options)
            await asyncio.sleep(
                0
            )  # the probe with which the gate found the queue is out of it: only now can one be alone
            await program(host)
            host.bridge.close()
            return host.log

        return runner(main)

    return drive
