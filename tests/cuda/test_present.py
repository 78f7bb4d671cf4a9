"""A machine that has another driver: ours is taken where it is asked for, and the other one where it is not.

The other driver here is a library of our own writer, whose functions all answer 77. On a machine with a card,
`python -m tests.cuda present` looks at the card itself.
"""

import os
import platform
import subprocess
import sys

import pytest

from acl_py.compat.cuda.library.elf import shared_object
from tests import forks
from tests.cuda.present import ASK

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="the loader is that of Linux")


@pytest.fixture
def other(tmp_path):
    """Variables with which the loader finds another driver."""
    for name in ("libcuda.so.1", "libcuda.so"):
        (tmp_path / name).write_bytes(shared_object("libcuda.so.1", ["cuInit"], platform.machine(), answer=77))
    return dict(os.environ, LD_LIBRARY_PATH=str(tmp_path))


@pytest.mark.parametrize(("before", "answers"), [([], "77 77"), (["-m", "acl_py", "run"], "0 0")])
def test_the_driver_is_ours_where_it_is_asked_for(other, tmp_path, before, answers):
    script = tmp_path / "script.py"
    script.write_text(ASK, encoding="utf-8")
    command = [sys.executable, *before, script]  # the loader reads its variables when an interpreter starts
    done = subprocess.run(command, cwd=forks.ROOT, env=other, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == (answers, 0), done.stderr


def test_where_a_package_has_found_another_driver_a_sentence_says_what_to_do(other, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import ctypes, sys, types
ctypes.CDLL("libcuda.so.1")
sys.modules["cuda.core"] = types.ModuleType("cuda.core")
import acl_py.compat.cuda
try:
    acl_py.compat.cuda.install()
except RuntimeError as error:
    print(error)
""", encoding="utf-8")  # fmt: skip
    done = subprocess.run([sys.executable, script], cwd=forks.ROOT, env={**other, "PYTHONPATH": str(forks.ROOT)},
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.stdout == (
        "cuda.core and a driver of CUDA are loaded already: call acl_py.compat.cuda.install() first, or run the script "
        "with acl-py run\n"
    ), done.stderr
