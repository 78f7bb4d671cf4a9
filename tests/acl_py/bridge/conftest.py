"""The loops and task kinds on which every program must come to the same times; with real and with simulated clocks."""

import asyncio
import sys
from functools import partial

import anyio
import pytest
import uvloop
from miniature import Host

import acl_py
import acl_py.waiting.bridge


def _on_runner(main, *, loop_factory=None, task_factory=None, debug=None):
    with asyncio.Runner(loop_factory=loop_factory, debug=debug) as runner:
        if task_factory is not None:
            runner.get_loop().set_task_factory(task_factory)
        return runner.run(main())


def _python_task(loop, coroutine, **options):
    return asyncio.tasks._PyTask(coroutine, loop=loop, **options)


simulated_uvloop = partial(acl_py.new_event_loop, uvloop=True)

REAL_LOOPS = {
    "asyncio": _on_runner,
    "uvloop": lambda main: _on_runner(main, loop_factory=uvloop.new_event_loop),
}
SIMULATED_LOOPS = {
    "simulated": lambda main: _on_runner(main, loop_factory=acl_py.new_event_loop),
    "simulated-uvloop": lambda main: _on_runner(main, loop_factory=simulated_uvloop),
}
LOOPS = REAL_LOOPS | SIMULATED_LOOPS
ENVIRONMENTS = LOOPS | {
    "debug": lambda main: _on_runner(main, debug=True),
    "anyio": anyio.run,
    "anyio-uvloop": lambda main: anyio.run(main, backend_options={"use_uvloop": True}),
    "python-tasks": lambda main: _on_runner(main, task_factory=_python_task),
    "simulated-debug": lambda main: _on_runner(main, loop_factory=acl_py.new_event_loop, debug=True),
    "simulated-anyio": lambda main: anyio.run(main, backend_options={"loop_factory": acl_py.new_event_loop}),
}
if sys.version_info >= (3, 12):
    ENVIRONMENTS["eager"] = lambda main: _on_runner(main, task_factory=asyncio.eager_task_factory)
    ENVIRONMENTS["simulated-eager"] = lambda main: _on_runner(
        main, loop_factory=acl_py.new_event_loop, task_factory=asyncio.eager_task_factory
    )


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
    return _driver(_on_runner)


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
