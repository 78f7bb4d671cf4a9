"""Random programs: the sanitizer reports every pair that no promise orders, and nothing else."""

from collections.abc import Iterable

import pytest

from tests import campaigns
from tests.campaigns import many
from tests.sanitizer.oracle import programs
from tests.sanitizer.oracle.comparing import Difference, compare_random


def differences(seeds: Iterable[int]) -> tuple[int, list[Difference]]:
    """How many programs came to their end, and what the sanitizer and the oracle say differently of them."""
    with campaigns.crew() as crew:
        compared = [difference for difference in crew.in_order(compare_random, seeds) if difference is not None]
    return len(compared), [difference for difference in compared if difference]


def test_the_sanitizer_and_the_oracle_agree_on_random_programs():
    count, differ = differences(range(25))
    assert differ == []
    assert count > 23


def test_they_agree_on_programs_with_callbacks():
    count, differ = differences(seed for seed in range(2, 200, 3) if programs.calls_back(seed))
    assert differ == []
    assert count > 15


def test_that_the_simulator_asks_whether_a_task_is_done_hands_nothing_on():
    assert differences([206]) == (1, [])


def test_a_host_function_that_was_not_called_has_touched_nothing():
    """Its context had failed: a kernel used memory of a pool that another stream had freed."""
    assert differences([113_266]) == (1, [])


@pytest.mark.slow
def test_the_sanitizer_and_the_oracle_agree_on_many_random_programs():
    """5,000 agreed; the last mistakes that they showed were those of programs 1319, 1806, 1807 and 2014."""
    count, differ = differences(range(many(1_000)))
    assert differ == []
    assert count > many(975)
