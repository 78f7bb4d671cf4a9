"""`acl-py demo flash` draws an SM with one stage of keys and values and with two, and tells what that changes."""

import re

import pytest
from pages import data_of, rows_of
from typer.testing import CliRunner

from acl_py.cli import app


@pytest.mark.slow
def test_the_demo_draws_one_and_two_stages_and_compares_them(tmp_path):
    file = tmp_path / "flash.html"
    done = CliRunner().invoke(app, ["demo", "flash", "--report", str(file)])
    assert done.exit_code == 0
    text = done.stdout
    assert max(map(len, text.splitlines())) <= 100
    headings = re.findall(r"^\d  (.*?) {3,}([\d.]+) us, same result as NumPy$", text, re.MULTILINE)
    assert [title for title, _ in headings] == ["one stage", "two stages"]
    [speedup] = re.findall(r"([\d.]+)\s+times\s+as\s+fast", text)
    assert 1.2 < float(speedup) < 2
    lanes = [line.split()[0] for line in text.splitlines() if line.endswith(" %")]
    assert lanes == ["ISSUE", "LSU", "MEM", "TENSOR", "FMA", "ALU", "SFU"] * 2
    one, two = data_of(file.read_text(encoding="utf-8"))["runs"]
    assert one["until"] - one["since"] > two["until"] - two["since"]
    for run in (one, two):
        units = rows_of(run, "instructions", "text:core", "text:pipe")
        assert {unit for core, unit in units if core == "SM 0"} == set(lanes)
