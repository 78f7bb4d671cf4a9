"""Attention in stages and attention in passing: right in all versions, and worth their pipelines."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import five_stages
import numpy as np
import pytest
import streaming
from stages import AS_TORCH, FROM_C, only_times

import acl_py as acl
from tests import forks

h200 = partial(acl.run, device="h200")
DATA = Path(__file__).parent.parent / "conformance" / "data" / "attention.json"
MEASURED = json.loads(DATA.read_text(encoding="utf-8"))["rows"]
VERSIONS = ("synchronous", "naive", "pipelined")


@pytest.mark.one_in(14)
@pytest.mark.parametrize("version", five_stages.VERSIONS.values(), ids=five_stages.VERSIONS)
@pytest.mark.parametrize("frame", [FROM_C, AS_TORCH], ids=["c", "torch"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_random_batches_in_five_stages_come_out_as_in_float64(seed, causal, frame, version):
    rng = np.random.default_rng(seed)
    heads, of_a_head = rng.integers(1, 6), rng.integers(1, 20)
    sequences, length = (int(n) for n in rng.integers(1, 30, 2))
    chunk = max(int(rng.integers(1, sequences + 1)), sequences // 8)
    job = five_stages.random_job(seed, sequences, length, int(heads * of_a_head), int(heads), chunk, causal)
    expected = five_stages.reference(job.x, job.into, job.out, job.heads, causal)
    outcome = five_stages.run(version, replace(job, frame=frame))
    np.testing.assert_allclose(outcome.y, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.one_in(7)
@pytest.mark.parametrize("version", streaming.VERSIONS.values(), ids=streaming.VERSIONS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_random_contexts_in_passing_come_out_as_in_float64(seed, causal, version):
    rng = np.random.default_rng(seed)
    heads, width, queries = (int(n) for n in rng.integers(1, 20, 3))
    keys = queries + int(rng.integers(0, 200))
    chunk = max(int(rng.integers(1, keys + 1)), keys // 12)
    job = streaming.random_job(seed, queries, keys, heads, width, chunk, causal)
    expected = streaming.reference(job.q, job.k, job.v, causal)
    np.testing.assert_allclose(h200(version, job).mixed, expected, rtol=1e-4, atol=1e-4)


def times(shape, frame=AS_TORCH, versions=VERSIONS):
    """The microseconds of *versions* of a job of that *shape*, without its results."""
    job = replace(five_stages.job_of_zeros(*shape), frame=only_times(frame))
    return {name: five_stages.run(five_stages.VERSIONS[name], job).ns / 1000 for name in versions}


def test_streams_for_the_stages_are_worth_it_from_c():
    found = times([192, 128, 256, 4, 32, True], FROM_C, ["naive", "pipelined"])
    assert found["naive"] >= 1.5 * found["pipelined"]


@pytest.mark.slow
def test_where_torch_holds_the_host_a_captured_pipeline_is_worth_more_than_streams():
    found = times([192, 128, 256, 4, 32, True], versions=["naive", "pipelined", "captured"])
    assert found["naive"] < 1.3 * found["pipelined"]
    assert found["pipelined"] > 1.5 * found["captured"]


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=pytest.mark.slow if number else ()) for number, row in enumerate(MEASURED)],
    ids=lambda row: "-".join(map(str, row["shape"])),
)
def test_as_torch_calls_it_it_takes_what_torch_took_on_the_card(row):
    found = times(row["shape"])
    assert {name: us == pytest.approx(row[name]["us"], rel=0.15) for name, us in found.items()} == dict.fromkeys(
        VERSIONS, True
    ), found
    speed_up = row["naive"]["us"] / row["pipelined"]["us"]
    assert found["naive"] / found["pipelined"] == pytest.approx(speed_up, rel=0.1)


def test_the_command_line_prints_three_times():
    done = forks.run(five_stages.__file__, "--as", "torch", "64", "64", "128", "4", "16", "true")
    assert re.findall(r"^  (\w+) +[\d,]+ us, [\d.]+ x naive$", done.stdout, re.MULTILINE) == list(VERSIONS), done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("64 64 128 4 16", "--as torch takes 6 values, SEQUENCES LENGTH WIDTH HEADS CHUNK CAUSAL, not 5"),
        ("64 0 128 4 16 true", "LENGTH is '0'; it must be a whole number, 1 or more"),
        ("64 64 128 4 1.5 true", "CHUNK is '1.5'; it must be a whole number, 1 or more"),
        ("64 64 128 5 16 true", "WIDTH is 128 and HEADS 5; the width must be a multiple of the heads"),
        ("64 64 128 4 16 perhaps", "CAUSAL is 'perhaps'; it must be true or false"),
    ],
)
def test_a_command_line_that_cannot_be_says_what_is_wrong(arguments, message):
    with pytest.raises(SystemExit, match=f"^{re.escape(message)}$"):
        five_stages.job_of_arguments(arguments.split())


@pytest.mark.slow
def test_a_second_buffer_is_worth_it():
    job = streaming.jobs()[True]
    assert h200(streaming.naive, job).ns >= 1.5 * h200(streaming.double_buffered, job).ns
