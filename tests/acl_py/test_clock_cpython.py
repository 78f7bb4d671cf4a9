"""asyncio's own tests, of the running interpreter's package `test`, on loops with a simulated clock.

`python test_clock_cpython.py MODULE LOOP` runs one module of them, and prints how that went.
"""

import asyncio
import json
import sys
import unittest
from importlib.util import find_spec

import pytest

import acl_py
from tests import forks

MODULES = ("test_timeouts", "test_waitfor", "test_queues", "test_locks")
WITH_TIMERS = ("test_timeouts", "test_waitfor")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("module", MODULES)
def test_asyncios_own_tests_pass_on_a_simulated_clock(module, loop):
    if not _is_there(f"test.test_asyncio.{module}"):
        pytest.skip(f"this Python has no test.test_asyncio.{module}")
    # In a process of its own, because these tests replace the policy of asyncio.
    done = forks.run("-W", "default::Warning", __file__, module, loop)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["tests"] > 10
    assert outcome["loops"] >= outcome["tests"] - outcome["skipped"]
    assert outcome["late"] == []
    assert outcome["rung"] > 0 or module not in WITH_TIMERS


def _is_there(module):
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of one of its packages
        return False


class Watch:
    """Makes loops with a simulated clock, and notes when their timers ring."""

    def __init__(self, loop_name):
        self._loop_name = loop_name
        self.loops = 0
        self.rung = 0
        self.late = []  # in seconds; a timer in real time is always late by some

    def new_event_loop(self):
        loop = acl_py.new_event_loop(uvloop=self._loop_name == "uvloop")
        call_at, call_later = loop.call_at, loop.call_later

        def watched(when, callback):
            def ring(*args):
                self.rung += 1
                late = loop.time() - when
                if abs(late) > 1e-9:
                    self.late.append(late)
                callback(*args)

            return ring

        def watched_call_at(when, callback, *args, context=None):
            return call_at(when, watched(when, callback), *args, context=context)

        def watched_call_later(delay, callback, *args, context=None):
            return call_later(delay, watched(loop.time() + delay, callback), *args, context=context)

        loop.call_at, loop.call_later = watched_call_at, watched_call_later
        self.loops += 1
        return loop


def _run(module, loop_name):
    """Run a module of asyncio's tests; return whether all passed, and what was counted."""
    watch = Watch(loop_name)
    # asyncio.Runner, and so unittest's cases, take the first; a test that makes a loop takes the second.
    asyncio.events.new_event_loop = asyncio.new_event_loop = watch.new_event_loop
    suite = unittest.defaultTestLoader.loadTestsFromName(f"test.test_asyncio.{module}")
    result = unittest.TextTestRunner().run(suite)
    counts = {"loops": watch.loops, "rung": watch.rung, "late": watch.late}
    return result.wasSuccessful(), {"tests": result.testsRun, "skipped": len(result.skipped), **counts}


if __name__ == "__main__":
    passed, outcome = _run(*sys.argv[1:])
    print(json.dumps(outcome))
    sys.exit(not passed)
