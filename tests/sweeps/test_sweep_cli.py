"""`acl-py sweep`: what it prints, and what it refuses."""

import re

import pytest
from typer.testing import CliRunner

from acl_py.cli import app

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
        return done.exit_code, re.sub(r" +", " ", done.output)

    return run


def test_a_table_has_a_row_for_each_point(swept):
    code, text = swept("--grid", "streams=1,2", "--grid", "us=10,20")
    assert code == 0
    rows = [line.split() for line in text.splitlines()]
    assert rows[0] == ["streams", "us", "us", "host", "waits", "returned"]
    assert [row[:2] for row in rows[1:]] == [["1", "10"], ["1", "20"], ["2", "10"], ["2", "20"]]
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
    ],
)
def test_what_cannot_run_is_refused(swept, args, text):
    code, said = swept(*args)
    assert code == 2
    assert text in said
