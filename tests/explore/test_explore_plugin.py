"""`pytest --acl-explore N` in a project of its own."""

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests import forks

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parent.parent.parent
TESTS = """
import asyncio
import acl_py as acl
import pytest

RUNS = []

async def main(waits):
    host, device, stream = await acl.MallocHost(64), await acl.Malloc(64), await acl.CreateStream()
    host.numpy()[:] = 0
    await acl.Memset(device, 64, 7, 64)
    await acl.MemcpyAsync(host, 64, device, 64, acl.MemcpyKind.DEVICE_TO_HOST, stream)
    await (acl.SynchronizeStream(stream) if waits else acl.Sleep(100))
    assert (host.numpy() == 7).all(), "not there yet"

@pytest.fixture
def fresh():
    RUNS.append("set up")

def test_right(fresh):
    acl.run(main, True, device="tiny")

def test_lucky():
    acl.run(main, False, device="tiny")

def test_wrong():
    raise AssertionError("as planned")

def test_without_a_simulation(fresh):
    assert len(RUNS) in (2, 22)  # of the fixture: this test's one, and 1 or 21 of the first test
"""


@pytest.fixture
def outcome(pytester):
    installed = any(point.value == "acl_py_pytest" for point in entry_points(group="pytest11"))

    def outcome(*options):
        pytester.makepyfile(test_project=TESTS)
        off = [f"-pno:{name}" for name in ("cacheprovider", "hypothesispytest", "timeout", "asyncio", "xdist")]
        loads = [] if installed else ["-p", "acl_py_pytest"]
        return forks.run_pytest(pytester, *options, *off, "-W", "error", *loads)

    return outcome


def test_without_the_option_luck_passes(outcome):
    outcome().assert_outcomes(passed=3, failed=1)


def test_tests_run_under_other_schedules_too(outcome):
    done = outcome("--acl-explore", "20")
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(
        [
            "*AssertionError: not there yet*",
            "*- schedule -*",
            "what differs from the default schedule:",
            "  delay@1=2  fill on legacy, queued at test_project.py:10, starts 1000 us later",
            "run it again with --acl-schedule 'delay@1=2'",
            "*AssertionError: as planned*",
        ]
    )
    assert done.stdout.str().count("schedule -") == 1, "a test that fails anyway has no schedule"


def test_one_schedule_again(outcome):
    done = outcome("--acl-schedule", "delay@1=2", "-k", "lucky or right")
    done.assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--acl-explore=-1",), "ERROR: --acl-explore must be 0 or more, not -1"),
        (("--acl-schedule=later",), "ERROR: --acl-schedule: 'later' is not a deviation, such as delay@3=1; *"),
    ],
)
def test_options_that_cannot_be_used(outcome, options, message):
    outcome(*options).stderr.fnmatch_lines([message])
