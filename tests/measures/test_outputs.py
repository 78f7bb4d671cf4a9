"""The outputs that a change of form leaves as they are: the same at each run, wherever the samples are."""

import pytest

from tests.measures.outputs import ROOT, TRACED, make_equal, trace


def test_what_is_traced_is_a_sample():
    assert [name for name in TRACED if not (ROOT / "samples" / f"{name}.py").exists()] == []


def test_where_files_are_is_taken_out(tmp_path):
    made, samples = tmp_path / "made", tmp_path / "samples"
    made.mkdir()
    (made / "file").write_text(f"{made}/x {samples}/y.py:3 {ROOT}/tests")
    make_equal(made, samples)
    assert (made / "file").read_text() == "FOLDER/x SAMPLES/y.py:3 ROOT/tests"


@pytest.mark.slow
def test_two_runs_write_the_same(tmp_path):
    made = tmp_path / "one", tmp_path / "two"
    for folder in made:
        trace("04_pinned_and_pageable", ROOT / "samples", folder)
        make_equal(folder, ROOT / "samples")
    one, two = (
        {file.relative_to(each): file.read_bytes() for file in each.rglob("*") if file.is_file()} for each in made
    )
    assert one == two
