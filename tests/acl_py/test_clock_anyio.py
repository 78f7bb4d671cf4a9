"""anyio's pytest plugin runs a suite on loops with a simulated clock."""

import subprocess
import sys
from pathlib import Path

import pytest

SUITE = Path(__file__).with_name("anyio_suite.py")


@pytest.mark.slow
def test_anyios_plugin_runs_a_suite():
    # pytest-asyncio, which runs all coroutines of this suite, leaves those of the other one alone in its strict mode.
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-o", "asyncio_mode=strict", str(SUITE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 passed" in done.stdout
