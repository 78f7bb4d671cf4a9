"""`acl-py demo` does its job four times and shows what came of it."""

import re

import pytest
from pages import data_of, rows_of
from typer.testing import CliRunner

from acl_py.cli import app
from acl_py.tools import demo


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """What the demo prints, and the text of its report."""
    file = tmp_path_factory.mktemp("demo") / "demo.html"
    done = CliRunner().invoke(app, ["demo", "--report", str(file)])
    assert done.exit_code == 0
    return done.stdout, file.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_demo_draws_four_timelines_and_compares_them(reported):
    text, _ = reported
    assert "\x1b" not in text  # not a terminal
    assert max(map(len, text.splitlines())) <= 100
    assert re.findall(r"^\d  (.*?) {3,}.*same result as NumPy$", text, re.MULTILINE) == [
        "synchronous, pageable memory",
        "asynchronous, pageable memory",
        "asynchronous, pinned memory",
        "the same over three streams",
    ]
    speedups = [float(number) for number in re.findall(r"([\d.]+) x", text)]
    assert speedups[0] == 1.0
    assert speedups == sorted(speedups)
    assert speedups[3] > 1.5 * speedups[2] > 1.5 * speedups[1]


def test_the_report_of_the_demo_has_all_four_timelines_from_the_first_copy_on(reported):
    _, report = reported
    data = data_of(report)
    assert data["title"] == "One job, four ways"
    assert [run["title"] for run in data["runs"]] == [version.title for version in demo.VERSIONS]
    for run in data["runs"]:
        (first,) = {start for name, start in rows_of(run, "calls", "text:name", "start") if start == run["since"]}
        assert first > 0
        assert {site.split(":")[0] for (site,) in rows_of(run, "ops", "text:site")} == {"demo.py"}
    spans = [run["until"] - run["since"] for run in data["runs"]]
    assert spans == sorted(spans, reverse=True)


def test_the_time_of_a_version_is_one_number_in_the_terminal_and_on_the_page(reported):
    text, report = reported
    printed = re.findall(r"^\d  .*? {3,}([\d,.]+) us, same result", text, re.MULTILINE)
    assert [f"{(run['until'] - run['since']) / 1000:,.1f}" for run in data_of(report)["runs"]] == printed
    assert len(printed) == 4


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """What the demo prints, and the text of its report, where the versions are explained and edited."""
    file = tmp_path_factory.mktemp("demo") / "demo.html"
    done = CliRunner().invoke(app, ["demo", "--explain", "--what-if", "pinned,nonblocking", "--report", str(file)])
    assert done.exit_code == 0
    return done.stdout, file.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_demo_explains_the_whole_run_of_each_version(explained):
    text, _ = explained
    parts = [text.split(f"\n\n{version.title}\ncritical path: ")[1] for version in demo.VERSIONS]
    assert re.findall(r"^  demo\.py:\d+: .*Worth [\d,.]+ us", parts[1].split("\n\n")[0], re.MULTILINE) != []
    held = [re.search(r"^findings: (\w+)", part, re.MULTILINE)[1] for part in parts]
    assert held == ["3", "3", "none", "none"]


@pytest.mark.slow
def test_the_demo_says_what_each_version_would_take_with_an_edit(explained):
    text, report = explained
    times = re.findall(r"^pinned, nonblocking: ([\d,.]+) us instead of ([\d,.]+) us: ", text, re.MULTILINE)
    after, before = ([float(each.replace(",", "")) for each in column] for column in zip(*times, strict=True))
    assert len(times) == len(demo.VERSIONS)
    assert after[0] < before[0] / 2  # pageable memory was the price
    assert after[1] < before[1] / 2
    assert after[2:] == before[2:]  # nothing is left to pin
    titles = [version.title for version in demo.VERSIONS]
    shown = [run["title"] for run in data_of(report)["runs"]]
    assert shown == [*titles, *(f"{title}: pinned, nonblocking" for title in titles)]


def test_a_report_that_cannot_be_written_is_said(tmp_path):
    done = CliRunner().invoke(app, ["demo", "aicore", "--report", str(tmp_path / "nowhere" / "demo.html")])
    assert done.exit_code == 1
    assert "demo.html: cannot be written: No such file or directory" in done.stderr.replace("\n", "")
