"""Attention in stages and attention in passing: right in all versions, and worth their pipelines."""

from functools import partial

import five_stages
import numpy as np
import pytest
import streaming

import acl_py as acl

h200 = partial(acl.run, device="h200")


@pytest.mark.one_in(7)
@pytest.mark.parametrize("version", five_stages.VERSIONS.values(), ids=five_stages.VERSIONS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_random_batches_in_five_stages_come_out_as_in_float64(seed, causal, version):
    rng = np.random.default_rng(seed)
    heads, of_a_head = rng.integers(1, 6), rng.integers(1, 20)
    sequences, length = (int(n) for n in rng.integers(1, 30, 2))
    chunk = max(int(rng.integers(1, sequences + 1)), sequences // 8)
    job = five_stages.random_job(seed, sequences, length, int(heads * of_a_head), int(heads), chunk, causal)
    expected = five_stages.reference(job.x, job.into, job.out, job.heads, causal)
    np.testing.assert_allclose(h200(version, job).y, expected, rtol=1e-4, atol=1e-4)


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


def test_streams_for_the_stages_are_worth_it():
    job = five_stages.jobs()[True]
    assert h200(five_stages.naive, job).ns >= 1.5 * h200(five_stages.pipelined, job).ns


def test_a_second_buffer_is_worth_it():
    job = streaming.jobs()[True]
    assert h200(streaming.naive, job).ns >= 1.5 * h200(streaming.double_buffered, job).ns
