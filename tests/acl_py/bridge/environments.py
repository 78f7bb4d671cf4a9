"""The loops and task kinds on which every program must come to the same times; with real and with simulated clocks."""

import asyncio
import sys
from functools import partial

import anyio
import pytest
import uvloop

import acl_py


def on_runner(main, *, loop_factory=None, task_factory=None, debug=None):
    with asyncio.Runner(loop_factory=loop_factory, debug=debug) as runner:
        if task_factory is not None:
            runner.get_loop().set_task_factory(task_factory)
        return runner.run(main())


def _python_task(loop, coroutine, **options):
    return asyncio.tasks._PyTask(coroutine, loop=loop, **options)


simulated_uvloop = partial(acl_py.new_event_loop, uvloop=True)

REAL_LOOPS = {
    "asyncio": on_runner,
    "uvloop": lambda main: on_runner(main, loop_factory=uvloop.new_event_loop),
}
SIMULATED_LOOPS = {
    "simulated": lambda main: on_runner(main, loop_factory=acl_py.new_event_loop),
    "simulated-uvloop": lambda main: on_runner(main, loop_factory=simulated_uvloop),
}
LOOPS = REAL_LOOPS | SIMULATED_LOOPS
ENVIRONMENTS = LOOPS | {
    "anyio-uvloop": lambda main: anyio.run(main, backend_options={"use_uvloop": True}),
    "debug": lambda main: on_runner(main, debug=True),
    "anyio": anyio.run,
    "simulated-anyio": lambda main: anyio.run(main, backend_options={"loop_factory": acl_py.new_event_loop}),
    "python-tasks": lambda main: on_runner(main, task_factory=_python_task),
    "simulated-debug": lambda main: on_runner(main, loop_factory=acl_py.new_event_loop, debug=True),
}
if sys.version_info >= (3, 12):
    ENVIRONMENTS["eager"] = lambda main: on_runner(main, task_factory=asyncio.eager_task_factory)
    ENVIRONMENTS["simulated-eager"] = lambda main: on_runner(
        main, loop_factory=acl_py.new_event_loop, task_factory=asyncio.eager_task_factory
    )


# For tests of thousands of turns: the loops in the fast suite, and all environments with the slow one.
_SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ENVIRONMENTS if name not in LOOPS]
LONG = pytest.mark.parametrize("drive", [*LOOPS, *_SLOW], indirect=True)
