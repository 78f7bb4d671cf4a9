"""Published times of kernels against the same kernels here (tests/bench/aicore_rows.py)."""

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.bench.aicore_rows import NINE, measure, rms


@cache
def rows_of(family):
    """The measured rows of *family*: several tests look at them."""
    return list(measure((family,)))


def out_of_order(rows):
    """Pairs of rows that stand in another order here than as published; those within 5 % of each other have none."""
    ordered = sorted(rows, key=lambda each: each[0].published)
    return [
        (slow.what, fast.what)
        for index, (fast, fast_us, *_) in enumerate(ordered)
        for slow, slow_us, *_ in ordered[index + 1 :]
        if slow.published > 1.05 * fast.published and slow_us <= fast_us
    ]


@pytest.mark.slow
def test_the_first_nine_rows_come_out_within_five_per_cent_fitted_or_not():
    rows = [*rows_of("Add"), *rows_of("VectorAdd")]
    errors = {row.what: error for row, _, error, _ in rows if row.what in NINE}
    assert len(errors) == 9
    assert max(map(abs, errors.values())) < 0.05, errors
    assert rms(errors.values()) < 0.03, errors


@pytest.mark.slow
def test_what_the_vendors_sample_does_step_by_step_pays_step_by_step():
    times = [us for _, us, *_ in rows_of("Add")]
    assert all(later < earlier * 1.01 for earlier, later in pairwise(times)), times


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "worst", "mean"),
    [
        ("Add", 0.05, 0.03),
        ("VectorAdd", 0.08, 0.04),
        ("To UB", 0.11, 0.06),
        ("To L1", 0.08, 0.06),
        ("Banks", 0.10, 0.04),
        ("Matmul", 0.29, 0.16),
        ("Attention", 0.19, 0.11),
    ],
)
def test_rows_of_a_family_are_near_and_in_order(family, worst, mean):
    rows = rows_of(family)
    errors = {row.what: error for row, _, error, _ in rows}
    assert max(map(abs, errors.values())) < worst, errors
    assert rms(errors.values()) < mean, errors
    assert out_of_order(rows) == []


@pytest.mark.slow
def test_the_table_of_attention_in_the_docs_is_what_the_command_prints():
    page = (Path(__file__).parents[2] / "docs" / "accuracy" / "aicore_rows.md").read_text(encoding="utf-8")
    rows = rows_of("Attention")
    assert len(rows) == 10
    for row, us, error, _ in rows:
        queries, keys = (int(word) for word in row.what.split() if word.isdigit())
        line = f"| {queries}, {keys} | {queries // 128} | {row.published:,.1f} | {us:,.1f} | {error:+.1%} |"
        assert line in page, line
