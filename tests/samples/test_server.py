"""The server: right answers for all who waited, and none for those who did not."""

import numpy as np
import pytest
from server import POLICIES, Policy, random_load, reference, run, usual_load


@pytest.mark.parametrize("seed", range(20))
def test_random_clients_get_the_answers_of_numpy(seed):
    rng = np.random.default_rng(seed)
    clients, width, hidden = (int(n) for n in rng.integers(1, 60, 3))
    load = random_load(seed, clients, width, hidden, every_us=rng.uniform(1, 50), patience_us=(20, 400))
    policy = Policy("random", batch=int(rng.integers(1, 9)), streams=int(rng.integers(1, 5)))
    report = run(policy, load)
    assert len(report.requests) == clients
    for request, expected in zip(report.requests, reference(load), strict=True):
        assert request.is_abandoned == (request.answer is None)
        if not request.is_abandoned:
            np.testing.assert_allclose(request.answer, expected, rtol=1e-4, atol=1e-4)


def test_who_gives_up_in_the_queue_costs_the_device_nothing():
    load = random_load(0, clients=40, width=8, hidden=8, every_us=1, patience_us=(100, 100))
    report = run(POLICIES[0], load)
    answered = sum(not request.is_abandoned for request in report.requests)
    assert 0 < answered < 40
    assert report.abandoned(is_started=False) + report.abandoned(is_started=True) == 40 - answered
    assert sum(report.batches) == 40 - report.abandoned(is_started=False)


def test_the_same_clients_come_on_every_run():
    load = random_load(0, clients=50, width=8, hidden=8, every_us=5, patience_us=(50, 500))
    first, second = (run(POLICIES[2], load) for _ in range(2))
    assert [r.latency_us for r in first.requests] == [r.latency_us for r in second.requests]


def test_batches_and_streams_are_worth_it():
    one_by_one, batches, streams = (run(policy, usual_load()) for policy in POLICIES)
    assert batches.answers_per_ms >= 1.5 * one_by_one.answers_per_ms
    assert streams.answers_per_ms >= 1.5 * batches.answers_per_ms
    for one, many in zip(batches.percentiles_us, streams.percentiles_us, strict=True):
        assert one >= 1.5 * many
