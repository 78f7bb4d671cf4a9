"""Late imports: a script that makes no call starts fast, and one that makes calls finds all that it names."""

import subprocess
import sys
from textwrap import dedent

import pytest

import acl_py
from tests import forks

OURS = """
    import sys
    def ours():
        return sorted(each for each in ("acl_py.simulation", "asyncio", "device_model.profile", "numpy")
                      if each in sys.modules)
"""


@pytest.fixture
def run(tmp_path):
    """Run a script with `acl-py run` in an interpreter of its own, and return what it prints."""

    def run(script):
        path = tmp_path / "script.py"
        path.write_text(dedent(script), encoding="utf-8")
        command = [sys.executable, "-W", "error", "-m", "acl_py", "run", path]
        done = subprocess.run(command, cwd=forks.ROOT, capture_output=True, check=False, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines(), done.stderr

    return run


def test_a_script_gets_the_runtime_with_its_first_call(run):
    lines, summary = run(OURS + """
    import ctypes
    cuda = ctypes.CDLL("libcuda.so.1")
    print(ours())
    print(cuda.cuInit(0), len(ours()))
    """)  # fmt: skip
    assert lines == ["[]", "0 4"]
    assert summary.startswith("acl-py: h200, rules cuda")


@pytest.mark.slow
def test_a_script_gets_the_runtime_when_it_imports_acl_or_names_something_native(run):
    assert run(OURS + "    import acl; print(len(ours()), acl.rt.set_device(0), len(ours()))")[0] == ["3 0 4"]
    assert run(OURS + "    import acl_py; print(ours(), acl_py.run.__name__, len(ours()))")[0] == ["[] run 3"]


def test_a_script_that_makes_no_call_gets_no_summary_and_its_objects_end(run):
    lines, summary = run("""
    class Thing:
        def __del__(self):
            print("ended")
    thing = Thing()
    thing.itself = thing
    """)  # fmt: skip
    assert (lines, summary) == (["ended"], "")


@pytest.mark.slow
def test_a_module_of_the_script_takes_no_place_of_the_standard_librarys(run, tmp_path):
    (tmp_path / "queue.py").write_text("name = 'of the script'", encoding="utf-8")
    lines, _ = run("""
    import ctypes, queue
    print(ctypes.CDLL("libcuda.so.1").cuInit(0), queue.name)
    import queue
    print(queue.name)
    """)  # fmt: skip
    assert lines == ["0 of the script", "of the script"]


def test_the_package_has_the_names_of_its_public_module_and_its_modules():
    namespace = {}
    exec("from acl_py import *", namespace)
    assert namespace["Malloc"] is acl_py.Malloc
    assert {"Malloc", "simulate"} <= set(dir(acl_py))
    assert acl_py.whole_files.__name__ == "acl_py.whole_files"
    with pytest.raises(AttributeError, match="module 'acl_py' has no attribute 'Maloc'"):
        acl_py.Maloc  # noqa: B018 - the name is looked up


@pytest.mark.slow
def test_an_exception_in_the_first_call_is_raised_behind_it(run):
    lines, _ = run("""
    import ctypes, sys
    cuda = ctypes.CDLL("libcuda.so.1")
    class Stopping:
        def find_spec(self, name, *_):
            if name == "acl_py.simulation":
                sys.meta_path.remove(self)
                raise KeyboardInterrupt
    sys.meta_path.insert(0, Stopping())
    try:
        cuda.cuInit(0)
    except KeyboardInterrupt:
        print("interrupted", cuda.cuInit(0))
    """)  # fmt: skip
    assert lines == ["interrupted 0"]


IN_AN_ARCHIVE = """
import os, sys, zipfile
folder = os.path.join(sys.argv[1], "lib")
name = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
    archive.write(os.path.join(os.path.dirname(os.__file__), "colorsys.py"), "colorsys.py")
os.__file__ = os.path.join(folder, f"python{sys.version_info.major}.{sys.version_info.minor}", "os.py")
sys.path.insert(0, os.path.join(folder, name))
import colorsys
assert name in colorsys.__file__
from acl_py.late_imports import standard_library_first
with standard_library_first():
    print("colorsys" in sys.modules)
"""


def test_a_standard_library_in_an_archive_is_not_taken_for_modules_of_the_program(tmp_path):
    """Pyodide has it so: prices in a browser failed, as modules were hidden that others had imported."""
    (tmp_path / "lib").mkdir()
    done = subprocess.run([sys.executable, "-c", IN_AN_ARCHIVE, tmp_path], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")
