"""The time of the measured pipelines of cp.async: a part of the rows; `python -m tests.bench blocks` has all."""

import json

import pytest

from tests.bench.blocks import DATA
from tests.bench.pipelines import Bursts, Cycles, Latencies, Pipelines, choices, is_right, predicted_best
from tests.conformance.criteria import distribution


def errors(rows):
    """In per cent."""
    return [100 * Cycles.error(row["measured"], row["predicted"]) for row in rows]


def rows(file, form, every=1, **wanted):
    """Each *every*-th row of a form in a file that has the values *wanted*, with what was measured and predicted."""
    all_ = [row for row in json.loads((DATA / file).read_text())["rows"] if form.has(row)]
    chosen = [row for row in all_ if all(row.get(name) == value for name, value in wanted.items())][::every]
    return [
        row | {"measured": form.measured(row), "predicted": value}
        for row, value in zip(chosen, form.predict(chosen), strict=True)
    ]


@pytest.mark.slow
def test_pipelines_take_as_long_as_measured():
    median, _, worst = distribution(errors(rows("cp_async.json", Pipelines, every=13)))
    assert median < 1.5
    assert worst < 8


@pytest.mark.slow
def test_pipelines_to_which_nothing_was_fitted_take_as_long_as_measured():
    median, percentile, _ = distribution(errors(rows("pipelines.json", Pipelines, every=23)))
    assert median < 4
    assert percentile < 12


def test_blocks_beyond_the_number_of_sms_share_them():
    """The mean of 200 blocks, 136 of which share an SM with another."""
    shared = rows("pipelines.json", Pipelines, blocks=200, threads=64)
    assert len(shared) == 1
    assert abs(errors(shared)[0]) < 5


@pytest.mark.parametrize(
    ("kind", "threads", "most"), [("mbarrier", 128, 4), ("bar.sync", 1024, 2), ("syncthreads", 1024, 2)]
)
def test_rounds_of_barriers_take_as_long_as_measured(kind, threads, most):
    chosen = [row for row in rows("barriers.json", Latencies, kind=kind) if row["threads"] <= threads]
    assert len(chosen) >= 3
    assert max(map(abs, errors(chosen))) < most


def test_pipelines_that_wait_for_dram_take_as_long_as_measured():
    found = rows("cp_async.json", Pipelines, l2_hit=False, fma=0)
    median, _, worst = distribution(errors(found))
    assert median < 4
    assert worst < 10


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("where", "best"),
    [
        ({"blocks": 1, "tile_bytes": 8192, "fma": 64}, 2),  # limited by what warps issue: a ring of two is the simplest
        ({"blocks": 1, "tile_bytes": 8192, "fma": 0}, 4),  # limited by the latency of the L2
        ({"blocks": 66, "tile_bytes": 6144, "fma": 0, "l2_hit": False}, 4),  # limited by the latency of DRAM
        ({"blocks": 132, "tile_bytes": 4096, "fma": 256, "footprint_bytes": 103809024}, 2),
    ],
)
def test_the_best_number_of_stages_is_found(where, best):
    (group,) = choices(rows("cp_async.json", Pipelines, **where))
    assert predicted_best(group) == best
    assert is_right(group, best)


@pytest.mark.slow
def test_two_stages_beat_three_when_multiply_adds_are_the_limit_and_lose_when_memory_is():
    compute = {
        row["stages"]: row["predicted"] for row in rows("cp_async.json", Pipelines, blocks=1, tile_bytes=8192, fma=64)
    }
    memory = {
        row["stages"]: row["predicted"] for row in rows("cp_async.json", Pipelines, blocks=1, tile_bytes=8192, fma=0)
    }
    assert compute[2] < 0.97 * compute[3]
    assert memory[3] < 0.75 * memory[2]


def test_barriers_chains_products_and_chases_take_as_long_as_measured():
    found = [row for row in rows("cp_async.json", Latencies) if row["kind"] != "oneshot"]
    assert distribution(errors(found))[2] < 0.5


def test_a_single_copy_from_the_l2_takes_as_long_as_measured():
    assert distribution(errors(rows("cp_async.json", Latencies, kind="oneshot", l2_hit=True)))[2] < 8


@pytest.mark.parametrize("every", [pytest.param(3, marks=pytest.mark.slow), 10])
def test_bursts_take_as_long_as_measured(every):
    """Other numbers of threads: 64, 256 and 512."""
    median, _, worst = distribution(errors(rows("bursts.json", Bursts, every=every)))
    assert median < 6
    assert worst < 14
