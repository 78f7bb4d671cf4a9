"""`acl-py demo aicore` draws a core with one buffer per queue and with two, and tells what that changes."""

import json
import re

import pytest
from pages import data_of, rows_of
from rich.console import Console
from typer.testing import CliRunner

from acl_py.cli import app
from acl_py.tools import demo_aicore, demo_cores


def test_the_demo_draws_two_timelines_and_compares_them(capsys):
    demo_aicore.main()
    text = capsys.readouterr().out
    assert "\x1b" not in text  # not a terminal
    assert max(map(len, text.splitlines())) <= 100
    headings = re.findall(r"^\d  (.*?) {3,}([\d.]+) us, same result as NumPy$", text, re.MULTILINE)
    assert [title for title, _ in headings] == ["one buffer per queue", "two buffers per queue"]
    single, double = (float(us) for _, us in headings)
    assert single > double
    [speedup] = re.findall(r"([\d.]+)\s+times\s+as\s+fast", text)
    assert 1.2 < float(speedup) < 3
    lanes = [line.split()[0] for line in text.splitlines() if line.endswith(" %")]
    assert lanes == ["MTE2", "V", "MTE3"] * 2
    for name in ("aiv_time", "vec", "scalar", "mte2", "mte3"):
        assert name in text


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(monkeypatch, capsys, width):
    monkeypatch.setattr(demo_cores, "Console", lambda **options: Console(width=width, force_terminal=True, **options))
    demo_aicore.main()
    plain = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert max(map(len, plain.splitlines())) <= min(width, demo_cores.WIDTH)


def test_the_command_shows_what_it_is_asked_for():
    done = CliRunner().invoke(app, ["demo", "aicore"])
    assert done.exit_code == 0
    assert "AddCustom" in done.stdout
    assert CliRunner().invoke(app, ["demo", "nothing"]).exit_code == 2


def test_the_report_shows_the_launches_pipe_by_pipe(tmp_path):
    file = tmp_path / "aicore.html"
    assert CliRunner().invoke(app, ["demo", "aicore", "--report", str(file)]).exit_code == 0
    runs = data_of(file.read_text(encoding="utf-8"))["runs"]
    single, double = (run["until"] - run["since"] for run in runs)
    assert single > double
    for run in runs:
        pipes = rows_of(run, "instructions", "text:core", "text:pipe")
        assert {pipe for core, pipe in pipes if core == "AIV 0"} == {"MTE2", "V", "MTE3", "S"}


def test_the_trace_has_the_instructions_of_the_last_version(tmp_path):
    file = tmp_path / "trace.json"
    assert CliRunner().invoke(app, ["demo", "aicore", "--trace", str(file), "--format", "msprof-op"]).exit_code == 0
    assert json.loads(file.read_text(encoding="utf-8"))["profilingType"] == "op"
