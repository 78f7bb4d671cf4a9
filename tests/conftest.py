"""Settings of all tests: time limits, random examples, BLAS and Ctrl-C.

A slow campaign may take ten minutes; every other test has the limit that pyproject.toml sets. BLAS has one thread,
because the threads of several processes wait for one another in a busy loop. Ctrl-C does what it does in a terminal,
because a job in the background begins with SIGINT ignored. Where PYTHONDONTWRITEBYTECODE is set, bytecode goes to the
cache of pytest, for all processes of this run and of later ones: to compile the tests takes longer than to import them.

Hypothesis has three profiles. `fixed` is the default: the same few examples in every run, so that a test that passed
fails only when the code changes. `make test-slow` runs these tests with `many`, which has 200 in place of 30.
Tests that set a number of their own have it in both. A slow test takes `campaign`:

    @settings(settings.get_profile("campaign"), max_examples=many(1_500))

`many` (tests/campaigns.py) lets a command run more of them. With TIMES, which asks for more, the examples are new in
every run; without it they are the same, so that a commit passes or fails whenever it is tested. No profile measures
time, because a machine may be busy.

A process that a test starts finds the same acl_py as the test, in whichever folder it runs: its PYTHONPATH begins with
this checkout. So the tests need no installation of the package.

Of a test with many cases, `@pytest.mark.one_in(5)` leaves one in five in the fast suite. The others are slow.
"""

import gc
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np  # noqa: F401 - its BLAS is there to be limited
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from tests.campaigns import TIMES

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ROOT = str(Path(__file__).parents[1])
SLOW_S = 600 * TIMES
UNTIMED = settings(
    deadline=None,
    print_blob=True,
    # Fixtures of such tests keep nothing from one example to the next.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

settings.register_profile("campaign", UNTIMED, derandomize=TIMES == 1)
settings.register_profile("fixed", UNTIMED, derandomize=True, database=None, max_examples=30)
settings.register_profile("many", settings.get_profile("fixed"), max_examples=200)
settings.load_profile("fixed")


@pytest.fixture(scope="module")
def browser():
    """Chromium; a test that asks for it is skipped by name where it, or playwright, is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[browser]'")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with api.sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


def pytest_configure(config):
    if os.environ.get("PYTHONDONTWRITEBYTECODE") and config.pluginmanager.has_plugin("cacheprovider"):
        folder = str(config.cache.mkdir("bytecode"))
        os.environ |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
        sys.dont_write_bytecode, sys.pycache_prefix = False, folder
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([ROOT, *(each for each in given if each not in ("", ROOT))])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threadpool_limits(1, user_api="blas")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    numbers = Counter()
    for item in items:
        if some := item.get_closest_marker("one_in"):
            (group,) = some.args
            test = item.nodeid.partition("[")[0]
            number = numbers[test]
            numbers[test] += 1
            if number % group != number // group % group:  # the first of five, the second of the next five ...
                item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_S))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collections of garbage would go through all tests and modules again and again: a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish():
    gc.freeze()  # else each full collection in a test goes through twelve thousand tests and all modules
    gc.set_threshold(20_000)  # new objects; after 700, as by default, collections take a tenth of the time


@pytest.fixture(autouse=True, scope="module")
def only_own_garbage():
    """Keep what earlier modules have left out of collections: some tests make hundreds, or go through all objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def busy_cores():
    """Keep all cores busy during a test, with two processes for each that do nothing but compute."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    yield
    for hog in hogs:
        hog.kill()
        hog.wait()
