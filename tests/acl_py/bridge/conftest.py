"""The loops and task kinds on which every program must come to the same times."""

import asyncio
import sys

import anyio
import pytest
import uvloop
from miniature import Host

import acl_py.waiting.bridge


def _on_runner(main, *, loop_factory=None, task_factory=None, debug=None):
    with asyncio.Runner(loop_factory=loop_factory, debug=debug) as runner:
        if task_factory is not None:
            runner.get_loop().set_task_factory(task_factory)
        return runner.run(main())


def _python_task(loop, coroutine, **options):
    return asyncio.tasks._PyTask(coroutine, loop=loop, **options)


LOOPS = {
    "asyncio": _on_runner,
    "uvloop": lambda main: _on_runner(main, loop_factory=uvloop.new_event_loop),
}
ENVIRONMENTS = LOOPS | {
    "debug": lambda main: _on_runner(main, debug=True),
    "anyio": anyio.run,
    "anyio-uvloop": lambda main: anyio.run(main, backend_options={"use_uvloop": True}),
    "python-tasks": lambda main: _on_runner(main, task_factory=_python_task),
}
if sys.version_info >= (3, 12):
    ENVIRONMENTS["eager"] = lambda main: _on_runner(main, task_factory=asyncio.eager_task_factory)


@pytest.fixture(params=LOOPS)
def run(request):
    """Run a coroutine function on asyncio, and on uvloop."""
    return LOOPS[request.param]


@pytest.fixture(params=ENVIRONMENTS)
def drive(request):
    """Run a program, a coroutine function of a `Host`, and hand back its log; in every environment."""
    return _driver(ENVIRONMENTS[request.param])


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
