"""`acl-py sweep`: what it prints, and what it refuses."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from acl_py.cli import app

ROOT = Path(__file__).parents[2]
PROGRAM = """
import acl_py as acl


async def main(streams, us=10):
    kernel = acl.kernel(cost=acl.Cost(us=us))(lambda: None)
    for _ in range(4 // streams):
        await kernel[1, await acl.CreateStream()]()
        await acl.SynchronizeDevice()
    return streams


async def broken(streams):
    raise LookupError(f"{streams} is not there")
"""


@pytest.fixture
def swept(tmp_path, monkeypatch):
    """Run `acl-py sweep` on the program, in one process; give the exit code and what was printed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "swept_program.py").write_text(PROGRAM)

    def run(*args):
        done = CliRunner().invoke(app, ["sweep", "swept_program.py", "--workers", "1", "--device", "tiny", *args])
        return done.exit_code, re.sub(r" +", " ", done.stdout + done.stderr)

    return run


def test_a_table_has_a_row_for_each_point(swept):
    code, text = swept("--grid", "streams=1,2", "--grid", "us=10,20")
    assert code == 0
    rows = [line.split() for line in text.splitlines()]
    assert rows[0] == ["streams", "us", "us", "host", "waits", "returned"]
    assert [row[:2] for row in rows[1:5]] == [["1", "10"], ["1", "20"], ["2", "10"], ["2", "20"]]
    assert rows[3][3] == "best"


def test_a_point_that_fails_is_in_the_table_and_in_the_exit_code(swept):
    code, text = swept("--grid", "streams=1,0")
    assert code == 4
    assert "ZeroDivisionError" in text
    assert "1 of 2 points have failed" in text


def test_a_file_that_exists_is_gone_on_with_only_if_it_is_asked_for(swept, tmp_path):
    out = str(tmp_path / "out.jsonl")
    assert swept("--grid", "streams=1", "--out", out)[0] == 0
    assert swept("--grid", "streams=1,2", "--out", out) == (
        2, f"acl-py: {out} exists: add --resume to go on with it, or name another file\n",
    )  # fmt: skip
    assert swept("--grid", "streams=1,2", "--out", out, "--resume")[0] == 0


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("--grid", "streams"), "--grid streams: write NAME=VALUES, as in streams=1,2,4"),
        (("--grid", "stream=1"), "main() has no parameter stream"),
        (("--grid", "streams=1", "--rules", "amd"), "there are no rules 'amd'"),
        (("--grid", "streams=1", "--grid", "streams=2"), "streams has its values already: give all of them with"),
        (("--grid", "streams=1", "--env", "x=1"), "swept_program.py is a script, which has no parameter streams"),
        (("--grid", "streams=1", "--dask", "tcp://x"), "--workers and --dask: a cluster has its own workers"),
        (("--grid", "streams=1", "--resume"), "--resume goes on with the rows of a file: name it with --out"),
        (("--grid", "streams=1", "--plot", "x.txt"), "--plot x.txt: end its name with one of .svg, .png, .pdf"),
    ],
)
def test_what_cannot_run_is_refused(swept, args, text):
    code, said = swept(*args)
    assert code == 2
    assert text in said


SCRIPT = """
import json
import os
import sys

import acl

acl.rt.set_device(0)
size = int(sys.argv[1].partition("=")[2])
memory, _ = acl.rt.malloc(size, 0)
for _ in range(int(os.environ["FILLS"])):
    acl.rt.memset(memory, size, 0, size)
acl.rt.free(memory)
print(json.dumps({"bytes": size * int(os.environ["FILLS"])}))
"""


@pytest.mark.slow
def test_a_script_runs_with_each_variable_and_argument(swept, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    args = [
        "sweep",
        "script.py",
        "--env",
        "FILLS=1,x",
        "--arg=--size=1024,2048",
        "--workers",
        "1",
        "--out",
        "out.jsonl",
    ]
    done = CliRunner().invoke(app, args)
    rows = [re.sub(r" +", " ", line).split(" ") for line in done.stdout.splitlines()]
    rows = [row for row in rows if len(row) > 4]  # without the rest of an error
    assert rows[0][1:] == ["env", "FILLS", "arg", "--size", "us", "host", "waits", "bytes", ""]
    assert [row[1:3] for row in rows[1:]] == [["1", "1024"], ["1", "2048"], ["x", "1024"], ["x", "2048"]]
    assert "2,048" in done.stdout
    assert done.stdout.count("exit code 1: ValueError: invalid literal for int() with base 10:") == 2
    assert done.exit_code == 4
    again = CliRunner().invoke(app, [*args, "--resume"])
    assert (again.stdout, "a second" in again.stderr) == (done.stdout, False), "nothing runs twice"
    (tmp_path / "script.py").write_text(SCRIPT + "\n")
    assert "4 of 4 points run again" in CliRunner().invoke(app, [*args, "--resume"]).stderr


@pytest.mark.slow
def test_an_address_nobody_answers_is_a_sentence(swept):
    pytest.importorskip("distributed", reason="distributed is not installed")
    done = CliRunner().invoke(app, ["sweep", "swept_program.py", "--grid", "streams=1", "--dask", "tcp://127.0.0.1:9"])
    assert done.exit_code == 2
    assert (
        "acl-py: --dask tcp://127.0.0.1:9: no scheduler answers there; is it the address that `dask scheduler`"
        in done.stderr
    )


@pytest.mark.slow
def test_the_figure_of_the_docs_is_what_the_command_in_it_draws(tmp_path, monkeypatch):
    """Its texts, which another version of matplotlib may place elsewhere."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    page = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^acl-py (sweep samples/sweeps.*?--plot sweep\.svg)$", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, shlex.split(command.replace("\\\n", " ")))
    assert done.exit_code == 0, done.output
    drawn = [
        re.findall(r"<text[^>]*>([^<]+)", path.read_text()) for path in (Path("sweep.svg"), ROOT / "docs/sweep.svg")
    ]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) > 75
