"""Packages that load the driver: unmodified scripts for cuda.core, cuda.bindings and numba-cuda, in `acl-py run`."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.forks import ROOT

SCRIPTS = Path(__file__).parent / "scripts"


def is_there(name):
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # nor is the package that it would be in
        return False


def needs(*names):
    """Skip a test unless the packages *names* are installed."""
    missing = [name for name in names if not is_there(name)]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("bindings_streams.py", marks=needs("cuda.bindings")),
        pytest.param("bindings_runtime.py", marks=needs("cuda.bindings")),
        pytest.param("core_vector_add.py", marks=needs("cuda.core", "cuda.bindings.nvrtc")),
        pytest.param("core_linked.py", marks=needs("cuda.core", "cuda.bindings.nvjitlink")),
        pytest.param("numba_vector_add.py", marks=needs("numba_cuda", "cuda.core")),
    ],
)
def test_a_script_comes_to_its_right_end(script):
    command = [sys.executable, "-m", "acl_py", "run", SCRIPTS / script]  # packages of compiled code start again
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.splitlines()[-1], done.returncode) == ("right", 0), done.stderr
    assert "failed:" not in done.stderr
