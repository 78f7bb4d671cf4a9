"""The suite itself: how long a test may take, and what becomes of one that takes longer."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = """
import threading
import pytest

def test_waits_for_a_thread_that_never_comes():
    threading.Barrier(2).wait()

@pytest.mark.slow
def test_is_a_campaign():
    pass

@pytest.mark.slow
@pytest.mark.timeout(700)
def test_is_a_long_campaign():
    pass
"""
TELL = """
def pytest_timeout_set_timer(item, settings):
    print(item.name, "may take", settings.timeout)
"""


def outcome(folder, *options):
    """Run *TESTS* in *folder* with the settings of this project, and the limits printed."""
    (folder / "test_limits.py").write_text(TESTS)
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text() + TELL)
    settings = ("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "-p", "no:cacheprovider", "-s")
    command = [sys.executable, "-m", "pytest", *settings, *options, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_a_test_may_take_a_minute_and_a_slow_one_ten(tmp_path):
    printed = outcome(tmp_path, "-k", "campaign")
    assert "test_is_a_campaign may take 600" in printed
    assert "test_is_a_long_campaign may take 700" in printed
    assert "2 passed" in printed


def test_a_test_that_hangs_fails_at_its_limit_and_the_others_run(tmp_path):
    printed = outcome(tmp_path, "-o", "timeout=0.2")
    assert "test_waits_for_a_thread_that_never_comes may take 0.2" in printed
    assert "Failed: Timeout (>0.2s) from pytest-timeout" in printed
    assert "1 failed, 2 passed" in printed


def test_every_test_has_the_limit(request):
    assert float(request.config.getini("timeout")) == 60
