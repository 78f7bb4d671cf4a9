"""`acl-py optimise`: the edits of several mistakes together, in the program of a run."""

import json

import pytest
from planted_pairs import LossEachStep, Losses, StreamEachStep, UploadInPieces
from planted_pipeline import recording
from typer.testing import CliRunner

from acl_py.cli import app
from acl_py.explain.recordings import asker_of
from acl_py.programs.format import load
from acl_py.programs.replay import replay
from acl_py.tools.applied import apply_advice
from acl_py.trace.rows.files import save


class TwoMistakes(LossEachStep):
    """It uploads in pieces, too."""

    upload = UploadInPieces.upload


def command(*arguments):
    return CliRunner().invoke(app, ["optimise", *map(str, arguments)], env={"COLUMNS": "200"})


@pytest.mark.slow
def test_both_mistakes_are_mended_and_nothing_is_left_without_order():
    timeline, mended = recording(TwoMistakes, sanitize="host,device"), recording(Losses, sanitize="host,device")
    applied = apply_advice(asker_of(timeline, "run"), timeline)
    assert [each.finding.pitfall.value for each in applied.edits] == ["synchronous copy", "small pieces"]
    assert applied.after_ns == pytest.approx(asker_of(mended, "run").worked_ns, rel=0.01)
    assert not [each for each in replay(applied.program, sanitize="host,device").findings if each.kind.value == "race"]


def test_the_command_writes_the_edited_program(tmp_path):
    trace, out = tmp_path / "run.acl", tmp_path / "out.json"
    save(recording(UploadInPieces), trace)
    done = command(trace, "-o", out)
    assert done.exit_code == 0
    assert "edits: 1\n  1. planted_pairs.py:" in done.output
    assert "advice needs accesses of the host, and the sanitizer's part host was off" in done.output
    (program,) = load(out)
    assert replay(program).done_us < 6_300 < replay(program_of(recording(UploadInPieces))).done_us
    again = command(out)
    assert "edits: none: no safe one is worth 1 % of the run" in again.output


def test_behind_an_edit_the_accesses_of_the_recording_still_count():
    timeline = recording(UploadInPieces, sanitize="host,device")
    applied = apply_advice(asker_of(timeline, "run"), timeline)
    assert len(applied.edits) == 1
    assert "needs accesses" not in applied.text


def program_of(timeline):
    return asker_of(timeline, "run").case.program


@pytest.mark.parametrize(
    ("written", "options", "said"),
    [
        ("[]", (), "has no programs"),
        (json.dumps([{"id": "a", "steps": []}, {"id": "b", "steps": []}]), (), "has 2 programs; optimise takes one"),
        (json.dumps({"id": "a", "steps": [{"op": "odd"}]}), (), "there is no \"odd\""),
    ],
)  # fmt: skip
def test_a_file_without_one_program_is_refused(tmp_path, written, options, said):
    path = tmp_path / "program.json"
    path.write_text(written, encoding="utf-8")
    done = command(path, *options)
    assert done.exit_code == 1
    assert said in done.output


def test_the_rules_of_a_trace_are_those_of_its_run(tmp_path):
    save(recording(Losses), tmp_path / "run.acl")
    done = command(tmp_path / "run.acl", "--rules", "acl")
    assert done.exit_code == 2
    assert "a trace has those of its run" in " ".join(done.output.split())


@pytest.mark.slow
def test_a_terminal_shows_how_many_edits_are_made(tmp_path, monkeypatch):
    """Where the errors go to no terminal, they have nothing of it."""
    save(recording(StreamEachStep), tmp_path / "run.acl")
    for forced, shown in (("1", "1/?"), ("", "")):
        monkeypatch.setenv("FORCE_COLOR", forced)
        done = CliRunner().invoke(app, ["optimise", str(tmp_path / "run.acl")])
        assert done.exit_code == 0
        assert shown in done.stderr
        assert ("edits" in done.stderr) == bool(forced)
