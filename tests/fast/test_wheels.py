"""Both wheels in a fresh environment: the pure one alone, both, and two that do not fit."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import acl_py

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which(os.environ.get("CC", "cc")) is None, reason="there is no C compiler"),
]
CORE = "from device_model.compiled import CORE; print(CORE)"
PROGRAM = """
import acl_py

async def main():
    stream = await acl_py.CreateStream()
    pinned, device = await acl_py.MallocHost(64), await acl_py.Malloc(64)
    pinned.numpy()[:] = 7
    await acl_py.MemcpyAsync(device, 64, pinned, 64, acl_py.MemcpyKind.HOST_TO_DEVICE, stream)
    await acl_py.SynchronizeStream(stream)
    print(acl_py.current_simulation().now_ns)

acl_py.run(main)
"""


def wheel(source, folder, **variables):
    """Build the wheel of *source* without a download, and return it."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | variables)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The wheel of acl-py, built where no compiler works, and that of acl-py-fast."""
    pytest.importorskip("Cython", reason="make .venv-fast/ready installs it")
    pure = wheel(ROOT, tmp_path_factory.mktemp("pure"), CC="false")
    return pure, wheel(ROOT / "fast", tmp_path_factory.mktemp("fast"))


@pytest.fixture
def environment(tmp_path):
    """A fresh environment that has nothing but what acl-py needs, which is found where this process has it."""
    venv.create(tmp_path / "venv", with_pip=True, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n{needed()}\n", encoding="utf-8")
    return python, packages


def needed():
    """The folder that has NumPy, if it is another one than that of this environment."""
    import numpy as np

    return Path(np.__file__).parents[1]


def printed(python, code):
    """What a process prints that runs *code*, and its warnings."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "ACL_PY_PURE")}
    done = subprocess.run([python, "-c", code], env=clean, cwd=python.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def install(python, *files):
    """Install wheels as pip does, from these files alone."""
    command = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", *files]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"CC": "false"})


def test_the_pure_wheel_needs_no_compiler_and_both_give_the_same_times(wheels, environment):
    python, packages = environment
    pure, fast = wheels
    install(python, pure)
    assert printed(python, CORE) == ("pure Python", "")
    times = printed(python, PROGRAM)
    install(python, fast)
    assert printed(python, CORE) == (f"compiled, acl-py-fast {acl_py.__version__}", "")
    assert printed(python, PROGRAM) == times
    assert list(packages.glob("acl_py/**/*.so")) == []  # the compiled modules lie in their own folder


def test_wheels_that_do_not_fit_are_refused_by_name_and_the_pure_core_runs(wheels, environment):
    python, packages = environment
    install(python, *wheels)
    made = packages / "acl_py_fast" / "made.py"
    made.write_text(made.read_text().replace(f"VERSION = '{acl_py.__version__}'", "VERSION = '0.0.9'"))
    core, warned = printed(python, CORE)
    assert core == "pure Python"
    assert (
        f"RuntimeWarning: acl-py-fast 0.0.9 does not fit acl-py {acl_py.__version__}, so the pure core runs" in warned
    )
