"""Kernels of a library take as long as on the card: by kind, rows that no number of the profile was fitted on."""

import json

import pytest

from tests.bench import kernels

GIVEN = json.loads((kernels.DATA / "kernels.json").read_text())["rows"]
FITTED = json.loads((kernels.DATA / "library_calls.json").read_text())["rows"]
NODE_US = 0.18  # a node of a graph takes less on the card of library_calls.json


@pytest.fixture(scope="module")
def rows():
    return kernels.by_kind(kernels.predicted(GIVEN))


@pytest.mark.parametrize("kind", dict.fromkeys(row["kind"] for row in GIVEN))
def test_rows_that_nothing_was_fitted_on(rows, kind):
    median, p90, _ = kernels.distribution([kernels.error(row) for row in rows[kind]])
    assert median <= kernels.MEDIAN
    assert p90 <= kernels.P90


@pytest.mark.slow
def test_rows_at_odd_positions_of_the_other_card():
    odd = [{**row, "us": row["us"] + NODE_US} for row in FITTED[1::2]]
    for kind, own in kernels.by_kind(kernels.predicted(odd)).items():
        median, p90, _ = kernels.distribution([kernels.error(row) for row in own])
        assert median <= kernels.MEDIAN, kind
        assert p90 <= kernels.P90, kind


def test_the_rows_are_written_with_what_was_measured_and_predicted(tmp_path):
    file, out = tmp_path / "rows.json", tmp_path / "out.json"
    unknown = {key: value for key, value in GIVEN[1].items() if not key.endswith("us")}
    file.write_text(json.dumps({"rows": [GIVEN[0], unknown]}))
    kernels.main([str(file), "--json", str(out)])
    first, second = json.loads(out.read_text())["rows"]
    assert (first["measured"], first["kind"]) == (GIVEN[0]["us"], "matmul")
    assert second["measured"] is None
    assert second["predicted"] > 0
