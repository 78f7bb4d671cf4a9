"""`acl-py explore`: what it prints, its exit codes, and what it says about input that it cannot use."""

import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from acl_py.cli.common import progress
from tests import forks

PLANTED = Path(__file__).parent / "planted"


def explore(*words, folder=PLANTED):
    done = forks.run("-m", "acl_py", "explore", *words, cwd=folder)
    return done.returncode, done.stdout, done.stderr


def script(tmp_path, *lines):
    (tmp_path / "script.py").write_text("\n".join(lines))
    return tmp_path


@pytest.mark.slow
def test_a_failing_schedule_and_its_replay():
    code, out, err = explore("--seed", "1", "--runs=50", "missing_wait.py")
    assert (code, err) == (4, "")
    *_, text, command = out.splitlines()
    assert text == "  delay@1=2  h2d on stream 'copies', queued at missing_wait.py:25, starts 1000 us later"
    assert command == "run it again: acl-py explore --schedule delay@1=2 missing_wait.py"
    assert "it fails: AssertionError: stale input" in out

    code, out, err = explore(*shlex.split(command)[5:])
    assert (code, out.splitlines()[0]) == (4, "it fails: AssertionError: stale input")
    assert out.splitlines()[-1] == text
    assert err.rstrip().endswith("AssertionError: stale input"), "the script's own output is shown"


@pytest.mark.slow
def test_two_schedules_at_the_same_time_print_what_one_does():
    alone = explore("--seed", "1", "--runs=50", "missing_wait.py")
    assert explore("--seed", "1", "--runs=50", "--workers", "2", "missing_wait.py") == alone
    both = explore("--workers", "2", "--dask", "tcp://127.0.0.1:9", "missing_wait.py")
    assert both == (2, "", "acl-py: --workers and --dask: a cluster has its own workers, so give one of the two\n")


@pytest.mark.slow
def test_a_failing_schedule_as_data(tmp_path):
    out_file = tmp_path / "out.json"
    code, out, _ = explore("--schedule", "delay@1=2", "--json", str(out_file), "missing_wait.py")
    data = json.loads(out_file.read_text())
    assert (code, data["form"], data["schedules"], data["findings"]) == (4, "acl_py explore", 1, [])
    failing = data["failing"]
    assert failing["failure"] in out
    assert failing["deviations"] == [
        {
            "schedule": "delay@1=2",
            "text": "h2d on stream 'copies', queued at missing_wait.py:25, starts 1000 us later",
        }
    ]
    assert failing["command"] == "acl-py explore --schedule delay@1=2 missing_wait.py"


@pytest.mark.slow  # it runs a script until it fails, and then again until the schedule is short
def test_the_function_of_check():
    code, out, _ = explore("--check", "is_copied", "--seed=1", "acl_script.py")
    assert code == 4
    assert "it fails: AssertionError: is_copied() returned False" in out


@pytest.mark.slow
def test_a_check_that_returns_false_needs_no_traceback(tmp_path):
    folder = script(tmp_path, "import acl_py", "def good():", "    return False")
    code, _, err = explore("--check", "good", "script.py", folder=folder)
    assert code == 2
    assert "AssertionError: good() returned False" in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_schedule_that_makes_the_run_much_longer(tmp_path):
    """One deviation is a delay of 1 ms at most."""
    folder = script(
        tmp_path,
        "import acl_py as acl",
        "async def main():",
        "    stream, buffer = await acl.CreateStream(name='s'), await acl.Malloc(4096)",
        "    await acl.MemsetAsync(buffer, 4096, 0, 4096, stream)",
        "    await acl.SynchronizeStream(stream)",
        "acl.run(main, device='tiny')",
    )
    every = ("--strategy=exhaustive", "--bound=1", "script.py")
    assert explore("--fail-over", "1.5ms", *every, folder=folder)[0] == 0
    code, out, err = explore("--fail-over", "900us", *every, folder=folder)
    assert (code, err) == (4, "")
    failure, command = out.splitlines()[1], out.splitlines()[-1]
    assert failure == "it fails: it takes 1,009.1 us, 1,000.0 us more than under the default schedule"
    assert command == "run it again: acl-py explore --schedule host@1=2 --fail-over 900us script.py"
    code, out, _ = explore(*shlex.split(command)[5:], folder=folder)
    assert (code, out.splitlines()[0]) == (4, failure)


@pytest.mark.slow
def test_a_limit_for_a_script_without_a_simulation(tmp_path):
    code, out, err = explore("--fail-over", "1ms", "script.py", folder=script(tmp_path, "x = 1"))
    assert (code, out) == (2, "")
    assert err.startswith("acl-py: --fail-over compares simulated times, but the script ran no simulation")


@pytest.mark.slow
def test_a_script_that_is_right(tmp_path):
    lines = ["import acl, sys", "acl.init()", "ret = acl.rt.set_device(0)", "sys.exit(sys.argv[1:] != ['--runs'])"]
    folder = script(tmp_path, *lines)
    code, out, err = explore("script.py", "--strategy=exhaustive", "--bound=1", "--", "--runs", folder=folder)
    assert (code, err) == (0, "")
    assert out == "none of the 2 schedules with up to 1 deviation fails (1 choice point)\n"
    code, out, _ = explore("--runs=2", "script.py", "--", "--runs", folder=folder)
    assert (code, out) == (0, "none of 2 schedules fails (random, 1 choice point)\n")


@pytest.mark.slow
def test_a_script_that_never_ends(tmp_path):
    lines = ["import acl, time", "acl.init()", "a = acl.rt.set_device(0)", "while True: time.sleep(1)"]
    code, _, err = explore("--limit=2", "script.py", folder=script(tmp_path, *lines))
    assert (code, err.splitlines()[0]) == (
        2,
        "acl-py: the script fails under the default schedule, so begin with that:",
    )
    assert err.splitlines()[1] == "it did not end within 2 s of real time"


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["raise SystemExit(7)"], [], "it ended with exit code 7"),
        (["import os", "os._exit(9)"], [], "its process ended with exit code 9"),
        (["import os", "os.kill(os.getpid(), 9)"], [], "its process was ended by signal 9"),
        (["x = 1"], ["--check", "f"], "--check f: the script has no function of that name"),
        (["x = 1"], ["--check", "x"], "--check x: the script has no function of that name"),
        (
            ["x = 1"],
            ["--schedule", "delay@1=1"],
            "the run did not come to delay@1=1: it has 0 choice points of the kind",
        ),
        (["x = 1"], ["--schedule", "later"], "'later' is not a deviation, such as delay@3=1; the kinds are host,"),
        (["x = 1"], ["--strategy", "clever"], "'clever' is not one of 'random', 'pct', 'exhaustive'"),
        (["x = 1"], ["--device", "abacus"], "abacus"),
        (None, [], "can't open file 'script.py': No such file or directory"),
    ],
)
@pytest.mark.slow
def test_input_that_cannot_be_used(tmp_path, lines, options, message):
    code, _, err = explore(*options, "script.py", folder=tmp_path if lines is None else script(tmp_path, *lines))
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_a_bar_on_a_terminal(monkeypatch, capsys, is_terminal):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("schedules", 3) as advance:
        for _ in range(3):
            advance()
    assert ("3/3" in capsys.readouterr().err) == is_terminal


def test_progress_is_a_line_each_minute_where_no_terminal_is(monkeypatch, capsys):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    clock = SimpleNamespace(now=0.0)
    with progress("schedules", 101, lambda: clock.now) as advance:
        for at in (30.0, 61.0, 90.0, 122.0):
            clock.now = at
            advance()
    with progress("edits", None, lambda: clock.now) as advance:
        clock.now += 60
        advance()
    assert capsys.readouterr().err == "acl-py: schedules: 2 of 101\nacl-py: schedules: 4 of 101\nacl-py: edits: 1\n"
