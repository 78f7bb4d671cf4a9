"""The module on the tiny device, for the tests through `acl`."""

import os
import subprocess
import sys
from textwrap import dedent

import card
import pytest


@pytest.fixture
def acl():
    """The module as a script has it after acl.init() and acl.rt.set_device(0)."""
    with card.module() as module:
        yield module


@pytest.fixture
def run(tmp_path):
    """Write a script and run it with `acl-py run`: return the process that has ended."""

    def run(script, *arguments, options=(), command=("-m", "acl_py")):
        path = tmp_path / "script.py"
        path.write_text(dedent(script), encoding="utf-8")
        return subprocess.run(
            [sys.executable, "-W", "error", *command, "run", *options, str(path), *arguments],
            capture_output=True, encoding="utf-8", check=False, timeout=60, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
        )  # fmt: skip

    return run


@pytest.fixture
def often():
    """Threads take turns much more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
