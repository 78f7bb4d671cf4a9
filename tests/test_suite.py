"""The suite itself: how long a test may take, and on which Pythons and versions of libraries it runs."""

import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import forks

ROOT = Path(__file__).parent.parent
LOWEST = ROOT / "tests" / "lowest.py"
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
    return forks.run("-m", "pytest", *settings, *options, folder).stdout


def test_a_test_may_take_a_minute_and_a_slow_one_ten(tmp_path):
    printed = outcome(tmp_path, "-k", "campaign")
    assert "test_is_a_campaign may take 600" in printed
    assert "test_is_a_long_campaign may take 700" in printed
    assert "2 passed" in printed


@pytest.mark.slow
def test_a_test_that_hangs_fails_at_its_limit_and_the_others_run(tmp_path):
    printed = outcome(tmp_path, "-o", "timeout=0.2")
    assert "test_waits_for_a_thread_that_never_comes may take 0.2" in printed
    assert "Failed: Timeout (>0.2s) from pytest-timeout" in printed
    assert "1 failed, 2 passed" in printed


def test_a_campaign_runs_as_many_times_its_programs_as_it_is_told():
    program = "from tests.campaigns import many; print(many(500))"
    runs = [forks.run("-c", program, cwd=ROOT, env=os.environ | {"TIMES": times}) for times in ("1", "10")]
    assert [run.stdout for run in runs] == ["500\n", "5000\n"]


PROGRAM = """
import __main__, atexit, os, sys, threading, time

class Circle:
    def __init__(self):
        self.own = self

    def __del__(self):
        print("circle is gone")

circle = Circle()
print(__name__, sys.argv, sys.path, os.getcwd(), os.environ["WHERE"], vars(__main__) is globals(), input())
print(__spec__ and __spec__.name, "errors", file=sys.stderr)
atexit.register(print, "at the end")
threading.Thread(target=lambda: (time.sleep(0.01), print("after the main thread"))).start()
sys.exit(7) if sys.argv[1:] else os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("form", [["-c", PROGRAM], ["-m", "program"], ["program.py"]], ids=["text", "module", "file"])
@pytest.mark.parametrize("options", [[], ["-x", "y"]], ids=["killed", "exits"])
def test_a_process_of_forks_is_as_one_that_was_started(tmp_path, form, options):
    (tmp_path / "program.py").write_text(PROGRAM)
    arguments, given = [*form, *options], "given\n"
    places = {"cwd": tmp_path, "env": {**os.environ, "WHERE": "here", "PYTHONPATH": "/nowhere", "PYTHONUNBUFFERED": ""}}
    command = [sys.executable, *arguments]
    started = subprocess.run(command, **places, input=given, capture_output=True, text=True, check=False)
    forked = forks.run(*arguments, **places, text=given)
    assert started.returncode == (7 if options else -9)
    assert vars(forked) == vars(started) | {"args": arguments}


def test_a_process_of_forks_ends_when_its_test_is_interrupted(tmp_path):
    """As by the limit of a test, or by Ctrl-C."""
    program = f"""
import os, pathlib, signal, time
pathlib.Path("pid").write_text(str(os.getpid()))
os.write(1, bytes(1 << 20))  # more than a pipe holds, so somebody reads it
os.kill({os.getpid()}, signal.SIGINT)
time.sleep(100)
"""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            forks.run("-c", program, cwd=tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert forks.run("-c", "print('the next')").stdout == "the next\n"


@pytest.mark.slow
def test_where_no_bytecode_may_be_written_it_goes_to_the_cache_of_pytest(tmp_path):
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "--rootdir", str(tmp_path), str(tmp_path)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": ""}
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
    (compiled,) = tmp_path.rglob("test_nothing.*.pyc")
    assert compiled.is_relative_to(tmp_path / ".pytest_cache")


def test_a_process_finds_the_package_of_this_checkout_in_every_folder(tmp_path):
    """Also where the package is not installed, so a new interpreter has to look for it."""
    command = [sys.executable, "-c", "import acl_py, acl_py_pytest, device_model; print(acl_py.__file__)"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"{ROOT / 'acl_py' / '__init__.py'}\n"


def test_no_module_imports_a_conftest():
    """Several folders have one, and which of them Python finds depends on the order of the folders."""
    line = re.compile(r"^ *(from|import) conftest\b", re.MULTILINE)
    assert [path.name for path in (ROOT / "tests").rglob("*.py") if line.search(path.read_text(encoding="utf-8"))] == []


def test_every_test_has_the_limit(request):
    assert float(request.config.getini("timeout")) == 60


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_test_all_finds_the_pythons_of_311_to_314_that_run(tmp_path):
    """By name, even where a name is a shim with nothing behind it; then among those of pyenv."""
    here, pyenv = tmp_path / "here", tmp_path / "pyenv" / "versions" / "3.13.9" / "bin"
    for folder, name, runs in ((here, "python3.11", 0), (here, "python3.13", 127), (pyenv, "python3.13", 0)):
        folder.mkdir(parents=True, exist_ok=True)
        script(folder / name, f"exit {runs}")
    paths = {"PATH": f"{here}:/usr/bin:/bin", "PYENV_ROOT": str(tmp_path / "pyenv")}
    (here / "python3.12").symlink_to("/bin/false")
    (here / "python3.14").symlink_to("/bin/false")

    def found(*left_out):
        command = [ROOT / "tests" / "pythons.sh", *left_out]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=paths).stdout.split()

    assert found() == ["python3.11", str(pyenv / "python3.13")]
    assert found("3.11") == [str(pyenv / "python3.13")]
    assert found("3.11", "3.13") == []


def test_test_all_tests_every_python_and_says_which_failed(tmp_path):
    new, old = script(tmp_path / "new", "echo 3.98"), script(tmp_path / "old", "echo 3.97")
    make = script(tmp_path / "make", f'echo "$@" >> {tmp_path}/made; case "$*" in *3.98*) exit 1; esac')
    command = ["make", "test-all", f"PYTHONS={new} {old}", f"MAKE={make}"]
    outside = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    done = subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True, check=False)
    made = [f"test PYTHON={new} VENV=.venv-3.98", f"test PYTHON={old} VENV=.venv-3.97"]
    assert (tmp_path / "made").read_text().splitlines() == made
    assert done.returncode == 2
    assert done.stdout.splitlines() == [f"make test fails on {new}"]


def test_the_lowest_versions_are_those_that_pyproject_allows():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest = subprocess.run([sys.executable, LOWEST], capture_output=True, text=True, check=True).stdout.split()
    for requirement in project["dependencies"]:
        assert requirement.partition(";")[0].replace(">=", "==") in lowest
    assert "pytest" in " ".join(lowest)


CASES = """
import pytest

@pytest.mark.one_in(3)
@pytest.mark.parametrize("letter", ["a", "b", "c"])
@pytest.mark.parametrize("number", range(4))
def test_a_case(number, letter):
    pass

@pytest.mark.one_in(4)
@pytest.mark.parametrize("number", range(10))
def test_another(number):
    pass
"""


def test_of_many_cases_some_of_each_kind_are_fast_and_the_others_slow(tmp_path):
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    settings = ("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-p", "no:cacheprovider")
    done = forks.run("-m", "pytest", *settings, "--collect-only", "-q", "-m", "not slow", tmp_path)
    fast = [line.partition("[")[2].rstrip("]") for line in done.stdout.splitlines() if "::" in line]
    assert fast == ["0-a", "1-b", "2-c", "3-a", "0", "5"]
    assert "6/22 tests collected (16 deselected)" in done.stdout
